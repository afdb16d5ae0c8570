#include "server/backup/backup_file.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/wire.h"
#include "server/state/txn.h"

const uint8_t backup_magic[BACKUP_MAGIC_LEN] = {'Z', 'A', 'B', 'R', 'A', 'B', 'A', 'K'};

static const struct wire_field head_fields[] = {
    WIRE_FIELD(WIRE_RAW, struct backup_head, cluster),
    WIRE_FIELD(WIRE_INT, struct backup_head, history),
    WIRE_FIELD(WIRE_INT, struct backup_head, member),
    WIRE_FIELD(WIRE_BOOL, struct backup_head, full),
    WIRE_FIELD(WIRE_INT, struct backup_head, from),
    WIRE_FIELD(WIRE_INT, struct backup_head, least),
    WIRE_FIELD(WIRE_INT, struct backup_head, end),
    WIRE_FIELD(WIRE_INT, struct backup_head, digest),
    WIRE_FIELD(WIRE_INT, struct backup_head, made_ms),
    WIRE_FIELD(WIRE_INT, struct backup_head, snapshot_bytes),
    WIRE_FIELD(WIRE_INT, struct backup_head, log_bytes),
    WIRE_FIELD(WIRE_TEXT, struct backup_head, release),
    WIRE_SLICE(struct backup_head, config, BACKUP_CONFIG_MAX),
    {WIRE_END, 0, 0},
};

static const struct wire_field end_fields[] = {
    WIRE_FIELD(WIRE_INT, struct backup_end, zxid),
    WIRE_FIELD(WIRE_INT, struct backup_end, chain),
    WIRE_FIELD(WIRE_INT, struct backup_end, digest),
    WIRE_FIELD(WIRE_INT, struct backup_end, records),
    WIRE_FIELD(WIRE_RAW, struct backup_end, sha256),
    {WIRE_END, 0, 0},
};

uint32_t backup_begin_part(enum backup_part type, uint64_t len, struct buf *out)
{
    size_t at = out->len;

    wire_put_u8(out, (uint8_t)type);
    wire_put_u64(out, len);
    ASSERT(!out->overflow);
    return crc32c(0, out->data + at, BACKUP_FRAME_LEN);
}

void backup_put_part(enum backup_part type, struct slice payload, struct buf *out)
{
    uint32_t crc = backup_begin_part(type, payload.len, out);

    wire_put_raw(out, payload);
    wire_put_u32(out, crc32c(crc, payload.data, payload.len));
    ASSERT(!out->overflow);
}

void backup_put_head(const struct backup_head *head, struct buf *out)
{
    struct buf payload;

    buf_init(&payload, BACKUP_HEAD_MAX);
    wire_put_u16(&payload, BACKUP_VERSION);
    wire_put_fields(&payload, head_fields, head);
    wire_put_raw(out, slice_make(backup_magic, sizeof backup_magic));
    backup_put_part(BACKUP_HEAD, buf_slice(&payload), out);
    buf_release(&payload);
}

void backup_put_end(const struct backup_end *end, struct buf *out)
{
    struct buf payload;

    buf_init(&payload, BACKUP_HEAD_MAX);
    wire_put_fields(&payload, end_fields, end);
    backup_put_part(BACKUP_END, buf_slice(&payload), out);
    buf_release(&payload);
}

/* Whether the name of a release can be shown on a terminal. */
static bool is_printable(const char *release)
{
    while (*release > ' ' && *release < 0x7f) {
        release++;
    }
    return *release == '\0';
}

static bool is_possible(const struct backup_head *head)
{
    bool spans = head->from <= head->least && head->least <= head->end;
    /* The first record of all follows 0. */
    bool begins = !head->full || head->snapshot_bytes > 0 || head->least == 0;

    return spans && begins && head->history != 0 && (head->full || head->snapshot_bytes == 0) &&
           head->made_ms >= 0 && head->made_ms <= TXN_STAMP_MAX_MS && is_printable(head->release);
}

enum err backup_get_head(struct slice payload, struct backup_head *ret_head)
{
    struct wire_reader reader;

    *ret_head = (struct backup_head){.full = false};
    wire_reader_init(&reader, payload);
    uint16_t version = wire_get_u16(&reader);

    if (wire_reader_ok(&reader) && version > BACKUP_VERSION) {
        return ERR_NEWER;
    }
    wire_get_fields(&reader, head_fields, ret_head);
    return wire_reader_done(&reader) && version == BACKUP_VERSION && is_possible(ret_head)
               ? ERR_OK
               : ERR_FORMAT;
}

enum err backup_get_end(struct slice payload, struct backup_end *ret_end)
{
    struct wire_reader reader;

    *ret_end = (struct backup_end){.zxid = 0};
    wire_reader_init(&reader, payload);
    wire_get_fields(&reader, end_fields, ret_end);
    return wire_reader_done(&reader) ? ERR_OK : ERR_FORMAT;
}

bool backup_is_end(struct slice bytes)
{
    size_t summed = BACKUP_END_LEN - BACKUP_CRC_LEN;

    return bytes.len == BACKUP_END_LEN && bytes.data[0] == BACKUP_END &&
           wire_load_u64(bytes.data + 1) == summed - BACKUP_FRAME_LEN &&
           wire_load_u32(bytes.data + summed) == crc32c(0, bytes.data, summed);
}

void backup_put_record(const struct logrec *rec, struct buf *payload)
{
    wire_put_u8(payload, (uint8_t)rec->type);
    wire_put_u64(payload, rec->zxid);
    wire_put_u64(payload, rec->chain);
    wire_put_bytes(payload, logrec_payload(rec));
}
