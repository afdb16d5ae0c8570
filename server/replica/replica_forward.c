/* Messages from learners to the leader: a client's write, and reports of sessions. */
#include "server/replica/replica_int.h"

enum {
    FORWARD_VERSION = 1,
    REPORT_VERSION = 2
};

/* ---- A write: version u8, boot u64, principal, session, key, arguments. ---- */

#define SESSION(form, member) WIRE_FIELD(WIRE_##form, struct op_session, member)

/* Fields of a session that the client has shown. */
static const struct wire_field session_fields[] = {
    SESSION(INT, id),
    SESSION(INT, attach),
    SESSION(RAW, hash),
    {.form = WIRE_END},
};

void forward_encode(uint64_t boot, const struct op_request *request, struct buf *out)
{
    wire_put_u8(out, FORWARD_VERSION);
    wire_put_u64(out, boot);
    principal_encode(&request->principal, out);
    wire_put_u8(out, request->session.shown);
    if (request->session.shown) {
        wire_put_fields(out, session_fields, &request->session);
    }
    wire_put_bytes(out, request->key);
    op_args_encode(&request->args, out);
}

bool forward_decode(struct slice bytes, struct forwarded *ret)
{
    struct wire_reader reader;

    *ret = (struct forwarded){0};
    wire_reader_init(&reader, bytes);
    if (wire_get_u8(&reader) != FORWARD_VERSION) {
        return false;
    }
    ret->header.origin_boot = wire_get_u64(&reader);
    if (principal_decode(&reader, &ret->who) != ERR_OK) {
        return false;
    }
    ret->session.shown = wire_get_u8(&reader) != 0;
    if (ret->session.shown) {
        wire_get_fields(&reader, session_fields, &ret->session);
    }
    ret->job = (struct prep_job){.args = &ret->args,
                                 .who = &ret->who,
                                 .session = &ret->session,
                                 .key = wire_get_bytes(&reader, TXN_KEY_MAX),
                                 .header = &ret->header};
    struct slice rest = slice_make(reader.pos, (size_t)(reader.end - reader.pos));

    if (!wire_reader_ok(&reader) || op_args_decode(rest, &ret->args, &ret->multi) != ERR_OK) {
        forwarded_release(ret);
        return false;
    }
    return true;
}

void forwarded_release(struct forwarded *forwarded)
{
    principal_release(&forwarded->who);
    mem_free(forwarded->multi);
    forwarded->multi = NULL;
}

/* ---- A report: version u8, whether it is the last part u8, mark u64, ids u64 to the end. ---- */

void report_encode(const uint64_t *ids, const struct report *report, struct buf *out)
{
    ASSERT(report->count <= REPORT_IDS_MAX);
    wire_put_u8(out, REPORT_VERSION);
    wire_put_u8(out, report->last);
    wire_put_u64(out, report->mark);
    for (size_t i = 0; i < report->count; i++) {
        wire_put_u64(out, ids[i]);
    }
}

bool report_decode(struct slice bytes, struct wire_reader *ret_ids, struct report *ret_report)
{
    wire_reader_init(ret_ids, bytes);
    uint8_t version = wire_get_u8(ret_ids);

    ret_report->last = wire_get_u8(ret_ids) != 0;
    ret_report->mark = wire_get_u64(ret_ids);
    size_t left = wire_reader_ok(ret_ids) ? (size_t)(ret_ids->end - ret_ids->pos) : 0;

    ret_report->count = left / sizeof(uint64_t);
    return wire_reader_ok(ret_ids) && version == REPORT_VERSION && left % sizeof(uint64_t) == 0 &&
           ret_report->count <= REPORT_IDS_MAX;
}
