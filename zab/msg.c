#include "zab/msg.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/wire.h"
#include "zab/config.h"

enum {
    SCALARS_BYTES_MAX = 160, /* All scalar fields together. */
    EPOCH_BYTES_MAX = 4096,  /* The payload of an EPOCH record. */
    REC_HEAD_BYTES = 32,     /* A record's fields before its payload. */
    RANGE_BYTES = 12,
};

/* Forms of fields besides those of base/wire.h. `size` is the maximum of bytes of such a field. */
enum {
    FORM_RESERVED = WIRE_OWN, /* `size` bytes that are zero in this version. */
    FORM_REC,                 /* A record: type u8, zxid, prev, chain, payload. */
    FORM_MAYBE_REC,           /* A u8 that says whether a record follows, then the record. */
    FORM_RANGES,              /* Count u32, then for each range: epoch, first, last. */
};

enum {
    FIELDS_MAX = 10 /* Maximum of fields of one type, WIRE_END included. */
};

struct msg_layout {
    const char *name; /* NULL: no such type. */
    struct wire_field fields[FIELDS_MAX];
};

#define INT(member)        WIRE_FIELD(WIRE_INT, struct zab_msg, member)
#define BYTES(member, max) WIRE_SLICE(struct zab_msg, member, max)
#define OWN(form, max) \
    {                  \
        form, 0, max   \
    }
#define HEAD INT(dialogue), INT(epoch)

/* The fields of each type, in the order of their bytes. A later version may add a field at the end
 * of a type only, and must also accept the message of the version before, which lacks it. */
static const struct msg_layout layouts[] = {
    [ZAB_VOTE] = {"VOTE",
                  {INT(vote.promised), INT(vote.candidate_last), INT(vote.last), INT(vote.round),
                   INT(vote.candidate), INT(vote.state), INT(vote.flags), INT(vote.config_version),
                   INT(vote.voters)}},
    [ZAB_CEPOCH] = {"CEPOCH",
                    {INT(dialogue), INT(cepoch.promised), INT(cepoch.last), INT(cepoch.flags)}},
    [ZAB_NEWEPOCH] = {"NEWEPOCH", {HEAD, BYTES(newepoch.config, ZAB_CONFIG_BYTES_MAX)}},
    [ZAB_ACKEPOCH] = {"ACKEPOCH",
                      {HEAD, INT(ackepoch.last), INT(ackepoch.last_chain), INT(ackepoch.flags),
                       INT(ackepoch.base), OWN(FORM_RANGES, (size_t)ZAB_RANGES_MAX *RANGE_BYTES),
                       INT(ackepoch.snap_id), INT(ackepoch.snap_offset)}},
    [ZAB_SYNC] = {"SYNC", {HEAD, INT(sync.common), INT(sync.target), INT(sync.flags)}},
    [ZAB_SNAP_CHUNK] = {"SNAP_CHUNK",
                        {HEAD, INT(snap_chunk.start), INT(snap_chunk.start_chain),
                         INT(snap_chunk.end), INT(snap_chunk.flags), INT(snap_chunk.offset),
                         BYTES(snap_chunk.bytes, ZAB_CHUNK_BYTES_MAX), INT(snap_chunk.snap_id)}},
    [ZAB_SNAP_ACK] = {"SNAP_ACK", {HEAD, INT(snap_ack.offset)}},
    [ZAB_ENTRY] = {"ENTRY",
                   {HEAD, INT(entry.commit),
                    OWN(FORM_REC, REC_HEAD_BYTES + (size_t)ZAB_RECORD_BYTES_MAX)}},
    [ZAB_SYNC_ACK] = {"SYNC_ACK", {HEAD, INT(ack.zxid)}},
    [ZAB_NEWLEADER] = {"NEWLEADER",
                       {HEAD, INT(newleader.sent), OWN(FORM_RESERVED, 8),
                        OWN(FORM_MAYBE_REC, REC_HEAD_BYTES + EPOCH_BYTES_MAX),
                        BYTES(newleader.config, ZAB_CONFIG_BYTES_MAX)}},
    [ZAB_ACK_NEWLEADER] = {"ACK_NEWLEADER",
                           {HEAD, INT(ack.zxid), OWN(FORM_RESERVED, 8),
                            BYTES(ack.payload, ZAB_PING_PAYLOAD_MAX)}},
    [ZAB_UPTODATE] = {"UPTODATE", {HEAD, INT(commit.zxid)}},
    [ZAB_ACK] = {"ACK", {HEAD, INT(ack.zxid)}},
    [ZAB_COMMIT] = {"COMMIT", {HEAD, INT(commit.zxid)}},
    [ZAB_PING] = {"PING",
                  {HEAD, INT(ping.commit), INT(ping.round),
                   BYTES(ping.payload, ZAB_PING_PAYLOAD_MAX)}},
    [ZAB_PONG] = {"PONG",
                  {HEAD, INT(pong.last), INT(pong.round), INT(pong.flags), INT(pong.digest_zxid),
                   INT(pong.digest), BYTES(pong.payload, ZAB_PING_PAYLOAD_MAX)}},
    [ZAB_CONFIRM] = {"CONFIRM", {HEAD, INT(confirm.round)}},
    [ZAB_CONFIRM_ACK] = {"CONFIRM_ACK", {HEAD, INT(confirm.round)}},
    [ZAB_READ_INDEX] = {"READ_INDEX", {HEAD, INT(read_index.request)}},
    [ZAB_READ_REPLY] = {"READ_REPLY",
                        {HEAD, INT(read_reply.zxid), INT(read_reply.request),
                         OWN(FORM_RESERVED, 4)}},
    [ZAB_FORWARD] = {"FORWARD",
                     {HEAD, INT(forward.request), BYTES(forward.bytes, ZAB_FORWARD_BYTES_MAX)}},
    [ZAB_FORWARD_REPLY] = {"FORWARD_REPLY",
                           {HEAD, INT(forward.request),
                            BYTES(forward.bytes, ZAB_FORWARD_BYTES_MAX)}},
    [ZAB_RESIGN] = {"RESIGN", {HEAD}},
    [ZAB_EXCLUDE] = {"EXCLUDE", {HEAD, INT(exclude.zxid), INT(exclude.flags)}},
    [ZAB_CONFIG] = {"CONFIG", {BYTES(config.bytes, ZAB_CONFIG_BYTES_MAX)}},
    [ZAB_JOIN] = {"JOIN",
                  {INT(join.flags), INT(join.port), BYTES(join.host, ZAB_HOST_MAX),
                   BYTES(join.client, ZAB_CLIENT_MAX), BYTES(join.zone, ZAB_ZONE_MAX)}},
};
static const struct wire_field range_fields[] = {
    WIRE_FIELD(WIRE_INT, struct epoch_range, epoch),
    WIRE_FIELD(WIRE_INT, struct epoch_range, first),
    WIRE_FIELD(WIRE_INT, struct epoch_range, last),
    {.form = WIRE_END},
};

/* ---- Writing. ---- */

static void put_rec(struct buf *out, const struct logrec *rec)
{
    ASSERT(rec && rec->len <= ZAB_RECORD_BYTES_MAX);

    wire_put_u8(out, (uint8_t)rec->type);
    wire_put_u64(out, rec->zxid);
    wire_put_u64(out, rec->prev);
    wire_put_u64(out, rec->chain);
    wire_put_bytes(out, logrec_payload(rec));
}

static void put_ranges(struct buf *out, const struct zab_msg_ackepoch *ackepoch)
{
    ASSERT(ackepoch->range_count <= ZAB_RANGES_MAX);
    wire_put_u32(out, ackepoch->range_count);
    for (uint32_t i = 0; i < ackepoch->range_count; i++) {
        wire_put_fields(out, range_fields, &ackepoch->ranges[i]);
    }
}

static void put_field(struct buf *out, const struct wire_field *field, const struct zab_msg *msg)
{
    static const uint8_t zeros[8];
    const struct logrec *rec = zab_msg_rec(msg);

    if (field->form == FORM_REC) {
        put_rec(out, rec);
    } else if (field->form == FORM_MAYBE_REC) {
        wire_put_u8(out, rec != NULL);
        if (rec) {
            put_rec(out, rec);
        }
    } else if (field->form == FORM_RANGES) {
        put_ranges(out, &msg->ackepoch);
    } else if (field->form == FORM_RESERVED) {
        wire_put_raw(out, slice_make(zeros, field->size));
    } else {
        wire_put_field(out, field, msg);
    }
}

/* ---- Reading. ---- */

/* Reads a record. The chain value is taken as sent: only the receiver's own log can check it. */
static struct logrec *get_rec(struct wire_reader *in)
{
    uint8_t type = wire_get_u8(in);
    zxid_t zxid = wire_get_u64(in);
    zxid_t prev = wire_get_u64(in);
    uint64_t chain = wire_get_u64(in);
    struct slice payload = wire_get_bytes(in, ZAB_RECORD_BYTES_MAX);

    if (!wire_reader_ok(in) || type < LOGREC_TXN || type > LOGREC_STAMP || prev >= zxid) {
        wire_reader_fail(in);
        return NULL;
    }
    struct logrec *rec = logrec_new((enum logrec_type)type, zxid, prev, 0, payload);

    rec->chain = chain;
    return rec;
}

static void get_ranges(struct wire_reader *in, struct zab_msg_ackepoch *ackepoch)
{
    uint32_t count = wire_get_u32(in);

    if (count > ZAB_RANGES_MAX || (size_t)(in->end - in->pos) < (size_t)count * RANGE_BYTES) {
        wire_reader_fail(in);
        return;
    }
    ackepoch->range_count = count;
    ackepoch->ranges = mem_zalloc(count + 1, sizeof ackepoch->ranges[0]);
    for (uint32_t i = 0; i < count; i++) {
        struct epoch_range *range = &ackepoch->ranges[i];

        wire_get_fields(in, range_fields, range);
        if (range->first > range->last || (i > 0 && range->epoch <= range[-1].epoch)) {
            wire_reader_fail(in);
        }
    }
}

static void get_field(struct wire_reader *in, const struct wire_field *field, bool is_newer,
                      struct zab_msg *msg)
{
    if (field->form == FORM_REC) {
        msg->entry.rec = get_rec(in);
    } else if (field->form == FORM_MAYBE_REC) {
        msg->newleader.rec = wire_get_u8(in) != 0 ? get_rec(in) : NULL;
    } else if (field->form == FORM_RANGES) {
        get_ranges(in, &msg->ackepoch);
    } else if (field->form != FORM_RESERVED) {
        wire_get_field(in, field, msg);
    } else if (!slice_is_zero(wire_get_raw(in, field->size)) && !is_newer) {
        wire_reader_fail(in);
    }
}

static const struct msg_layout *layout_of(enum zab_msg_type type)
{
    size_t index = (size_t)type;

    if (index >= sizeof layouts / sizeof layouts[0] || !layouts[index].name) {
        return NULL;
    }
    return &layouts[index];
}

const char *zab_msg_name(enum zab_msg_type type)
{
    const struct msg_layout *layout = layout_of(type);

    return layout ? layout->name : "?";
}

size_t zab_msg_size_max(enum zab_msg_type type)
{
    const struct msg_layout *layout = layout_of(type);

    size_t size = SCALARS_BYTES_MAX;

    if (!layout) {
        return 0;
    }
    for (const struct wire_field *field = layout->fields; field->form != WIRE_END; field++) {
        size += field->form == WIRE_BYTES || field->form > FORM_RESERVED ? field->size : 0;
    }
    return size;
}

void zab_msg_encode(const struct zab_msg *msg, struct buf *out)
{
    const struct msg_layout *layout = layout_of(msg->type);

    ASSERT(layout);
    for (const struct wire_field *field = layout->fields; field->form != WIRE_END; field++) {
        put_field(out, field, msg);
    }
}

enum err zab_msg_decode(enum zab_msg_type type, struct slice payload, bool is_newer,
                        struct zab_msg *ret_msg)
{
    const struct msg_layout *layout = layout_of(type);
    struct zab_msg msg = {.type = type};
    struct wire_reader in;

    if (!layout) {
        return ERR_FORMAT;
    }
    wire_reader_init(&in, payload);
    for (const struct wire_field *field = layout->fields; field->form != WIRE_END; field++) {
        get_field(&in, field, is_newer, &msg);
    }
    if (is_newer ? !wire_reader_ok(&in) : !wire_reader_done(&in)) {
        zab_msg_release(&msg);
        return ERR_FORMAT;
    }
    *ret_msg = msg;
    return ERR_OK;
}

struct logrec *zab_msg_rec(const struct zab_msg *msg)
{
    if (msg->type == ZAB_ENTRY) {
        return msg->entry.rec;
    }
    return msg->type == ZAB_NEWLEADER ? msg->newleader.rec : NULL;
}

void zab_msg_release(struct zab_msg *msg)
{
    logrec_unref(zab_msg_rec(msg));
    if (msg->type == ZAB_ACKEPOCH) {
        mem_free(msg->ackepoch.ranges);
    }
    *msg = (struct zab_msg){0};
}
