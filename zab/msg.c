#include "zab/msg.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/wire.h"

/* Which fields a type carries; they go in the order of these bits. A field that a later version
 * adds goes behind all of them, and is zero when an earlier one sends the message. */
enum {
    F_LINK = 1U << 0,
    F_EPOCH = 1U << 1,
    F_ZXID = 1U << 2,
    F_CHAIN = 1U << 3,
    F_COMMIT = 1U << 4,
    F_ROUND = 1U << 5,
    F_LEADER = 1U << 6,
    F_STATE = 1U << 7,
    F_FLAGS = 1U << 8,
    F_OFFSET = 1U << 9,
    F_DIGEST = 1U << 10, /* digest_zxid and digest. */
    F_BASE = 1U << 11,
    F_VOTERS = 1U << 12,
    F_RANGES = 1U << 13,
    F_REC = 1U << 14,
    F_OPTIONAL_REC = 1U << 15,
    F_BYTES = 1U << 16,
    F_SNAP_ID = 1U << 17,
    F_SNAP_OFFSET = 1U << 18,
};

enum {
    SCALARS_BYTES_MAX = 160, /* All scalar fields together. */
    CONFIG_BYTES_MAX = 4096, /* An encoded configuration. */
    REC_HEAD_BYTES = 32,     /* A record's coordinates before its payload. */
    RANGE_BYTES = 12,
};

struct msg_layout {
    const char *name; /* NULL: no such type. */
    uint32_t fields;
    size_t variable_max; /* Bytes beyond the scalars. */
};

static const struct msg_layout layouts[] = {
    [ZAB_VOTE] = {"VOTE",
                  F_EPOCH | F_ZXID | F_COMMIT | F_ROUND | F_LEADER | F_STATE | F_FLAGS | F_BASE |
                      F_VOTERS,
                  0},
    [ZAB_CEPOCH] = {"CEPOCH", F_LINK | F_EPOCH | F_ZXID | F_FLAGS, 0},
    [ZAB_NEWEPOCH] = {"NEWEPOCH", F_LINK | F_EPOCH | F_BYTES, CONFIG_BYTES_MAX},
    [ZAB_ACKEPOCH] = {"ACKEPOCH",
                      F_LINK | F_EPOCH | F_ZXID | F_CHAIN | F_FLAGS | F_BASE | F_RANGES |
                          F_SNAP_ID | F_SNAP_OFFSET,
                      (size_t)ZAB_RANGES_MAX *RANGE_BYTES},
    [ZAB_SYNC] = {"SYNC", F_LINK | F_EPOCH | F_ZXID | F_COMMIT | F_FLAGS, 0},
    [ZAB_SNAP_CHUNK] = {"SNAP_CHUNK",
                        F_LINK | F_EPOCH | F_ZXID | F_CHAIN | F_COMMIT | F_FLAGS | F_OFFSET |
                            F_BYTES | F_SNAP_ID,
                        ZAB_CHUNK_BYTES_MAX},
    [ZAB_SNAP_ACK] = {"SNAP_ACK", F_LINK | F_EPOCH | F_OFFSET, 0},
    [ZAB_ENTRY] = {"ENTRY", F_LINK | F_EPOCH | F_COMMIT | F_REC,
                   REC_HEAD_BYTES + (size_t)ZAB_RECORD_BYTES_MAX},
    [ZAB_SYNC_ACK] = {"SYNC_ACK", F_LINK | F_EPOCH | F_ZXID, 0},
    [ZAB_NEWLEADER] = {"NEWLEADER", F_LINK | F_EPOCH | F_ZXID | F_CHAIN | F_OPTIONAL_REC | F_BYTES,
                       REC_HEAD_BYTES + (size_t)CONFIG_BYTES_MAX * 2},
    [ZAB_ACK_NEWLEADER] = {"ACK_NEWLEADER", F_LINK | F_EPOCH | F_ZXID | F_CHAIN | F_BYTES,
                           ZAB_SIGN_BYTES_MAX},
    [ZAB_UPTODATE] = {"UPTODATE", F_LINK | F_EPOCH | F_COMMIT, 0},
    [ZAB_ACK] = {"ACK", F_LINK | F_EPOCH | F_ZXID, 0},
    [ZAB_COMMIT] = {"COMMIT", F_LINK | F_EPOCH | F_COMMIT, 0},
    [ZAB_PING] = {"PING", F_LINK | F_EPOCH | F_COMMIT | F_ROUND | F_BYTES, ZAB_SIGN_BYTES_MAX},
    [ZAB_PONG] = {"PONG", F_LINK | F_EPOCH | F_ZXID | F_ROUND | F_FLAGS | F_DIGEST | F_BYTES,
                  ZAB_SIGN_BYTES_MAX},
    [ZAB_CONFIRM] = {"CONFIRM", F_LINK | F_EPOCH | F_ROUND, 0},
    [ZAB_CONFIRM_ACK] = {"CONFIRM_ACK", F_LINK | F_EPOCH | F_ROUND, 0},
    [ZAB_READ_INDEX] = {"READ_INDEX", F_LINK | F_EPOCH | F_ROUND, 0},
    [ZAB_READ_REPLY] = {"READ_REPLY", F_LINK | F_EPOCH | F_ZXID | F_ROUND | F_FLAGS, 0},
    [ZAB_FORWARD] = {"FORWARD", F_LINK | F_EPOCH | F_ROUND | F_BYTES, ZAB_FORWARD_BYTES_MAX},
    [ZAB_FORWARD_REPLY] = {"FORWARD_REPLY", F_LINK | F_EPOCH | F_ROUND | F_BYTES,
                           ZAB_FORWARD_BYTES_MAX},
    [ZAB_RESIGN] = {"RESIGN", F_LINK | F_EPOCH, 0},
    [ZAB_STRANGER] = {"STRANGER", F_LINK | F_EPOCH | F_ZXID | F_FLAGS, 0},
    [ZAB_FOUND] = {"FOUND", F_BYTES, CONFIG_BYTES_MAX},
};

static const struct msg_layout *layout_of(enum zab_msg_type type)
{
    size_t index = (size_t)type;

    if (index >= sizeof layouts / sizeof layouts[0] || !layouts[index].name) {
        return NULL;
    }
    ASSERT(layouts[index].fields != 0);
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

    return layout ? SCALARS_BYTES_MAX + layout->variable_max : 0;
}

/* type u8, len u32, zxid, prev, chain, payload. */
static void put_rec(struct buf *out, const struct logrec *rec)
{
    ASSERT(rec->len <= ZAB_RECORD_BYTES_MAX);

    wire_put_u8(out, (uint8_t)rec->type);
    wire_put_u64(out, rec->zxid);
    wire_put_u64(out, rec->prev);
    wire_put_u64(out, rec->chain);
    wire_put_bytes(out, logrec_payload(rec));
}

static void put_ranges(struct buf *out, const struct zab_msg *msg)
{
    ASSERT(msg->range_count <= ZAB_RANGES_MAX);

    wire_put_u32(out, msg->range_count);
    for (uint32_t i = 0; i < msg->range_count; i++) {
        wire_put_u32(out, msg->ranges[i].epoch);
        wire_put_u32(out, msg->ranges[i].first);
        wire_put_u32(out, msg->ranges[i].last);
    }
}

static void put_scalars(struct buf *out, const struct zab_msg *msg, uint32_t fields)
{
    ASSERT(fields != 0);
    if (fields & F_LINK) {
        wire_put_u32(out, msg->link);
    }
    if (fields & F_EPOCH) {
        wire_put_u32(out, msg->epoch);
    }
    if (fields & F_ZXID) {
        wire_put_u64(out, msg->zxid);
    }
    if (fields & F_CHAIN) {
        wire_put_u64(out, msg->chain);
    }
    if (fields & F_COMMIT) {
        wire_put_u64(out, msg->commit);
    }
    if (fields & F_ROUND) {
        wire_put_u64(out, msg->round);
    }
    if (fields & F_LEADER) {
        wire_put_u32(out, msg->leader);
    }
    if (fields & F_STATE) {
        wire_put_u8(out, msg->state);
    }
    if (fields & F_FLAGS) {
        wire_put_u32(out, msg->flags);
    }
    if (fields & F_OFFSET) {
        wire_put_u64(out, msg->offset);
    }
    if (fields & F_DIGEST) {
        wire_put_u64(out, msg->digest_zxid);
        wire_put_u64(out, msg->digest);
    }
    if (fields & F_BASE) {
        wire_put_u64(out, msg->base);
    }
    if (fields & F_VOTERS) {
        wire_put_u32(out, msg->voters);
    }
}

void zab_msg_encode(const struct zab_msg *msg, struct buf *out)
{
    const struct msg_layout *layout = layout_of(msg->type);

    ASSERT(layout);
    ASSERT(msg->rec || !(layout->fields & F_REC));
    put_scalars(out, msg, layout->fields);
    if (layout->fields & F_RANGES) {
        put_ranges(out, msg);
    }
    if (layout->fields & F_OPTIONAL_REC) {
        wire_put_u8(out, msg->rec ? 1 : 0);
    }
    if (msg->rec && (layout->fields & (F_REC | F_OPTIONAL_REC))) {
        put_rec(out, msg->rec);
    }
    if (layout->fields & F_BYTES) {
        wire_put_bytes(out, msg->bytes);
    }
    if (layout->fields & F_SNAP_ID) {
        wire_put_u64(out, msg->snap_id);
    }
    if (layout->fields & F_SNAP_OFFSET) {
        wire_put_u64(out, msg->snap_offset);
    }
}

static void get_scalars(struct wire_reader *reader, struct zab_msg *msg, uint32_t fields)
{
    ASSERT(fields != 0);
    msg->link = fields & F_LINK ? wire_get_u32(reader) : 0;
    msg->epoch = fields & F_EPOCH ? wire_get_u32(reader) : 0;
    msg->zxid = fields & F_ZXID ? wire_get_u64(reader) : 0;
    msg->chain = fields & F_CHAIN ? wire_get_u64(reader) : 0;
    msg->commit = fields & F_COMMIT ? wire_get_u64(reader) : 0;
    msg->round = fields & F_ROUND ? wire_get_u64(reader) : 0;
    msg->leader = fields & F_LEADER ? wire_get_u32(reader) : 0;
    msg->state = fields & F_STATE ? wire_get_u8(reader) : 0;
    msg->flags = fields & F_FLAGS ? wire_get_u32(reader) : 0;
    msg->offset = fields & F_OFFSET ? wire_get_u64(reader) : 0;
    msg->digest_zxid = fields & F_DIGEST ? wire_get_u64(reader) : 0;
    msg->digest = fields & F_DIGEST ? wire_get_u64(reader) : 0;
    msg->base = fields & F_BASE ? wire_get_u64(reader) : 0;
    msg->voters = fields & F_VOTERS ? wire_get_u32(reader) : 0;
}

static void get_ranges(struct wire_reader *reader, struct zab_msg *msg)
{
    uint32_t count = wire_get_u32(reader);

    ASSERT(!msg->ranges && msg->range_count == 0);
    if (count > ZAB_RANGES_MAX ||
        (size_t)(reader->end - reader->pos) < (size_t)count * RANGE_BYTES) {
        wire_reader_fail(reader);
        return;
    }
    msg->ranges = mem_zalloc(count + 1, sizeof msg->ranges[0]);
    msg->range_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct zab_range *range = &msg->ranges[i];

        range->epoch = wire_get_u32(reader);
        range->first = wire_get_u32(reader);
        range->last = wire_get_u32(reader);
        if (range->first > range->last || (i > 0 && range->epoch <= msg->ranges[i - 1].epoch)) {
            wire_reader_fail(reader);
        }
    }
    ASSERT(msg->range_count <= ZAB_RANGES_MAX);
}

/* The chain value is taken as sent: only the receiver's own log can check it. */
static void get_rec(struct wire_reader *reader, struct zab_msg *msg)
{
    uint8_t type = wire_get_u8(reader);
    zxid_t zxid = wire_get_u64(reader);
    zxid_t prev = wire_get_u64(reader);
    uint64_t chain = wire_get_u64(reader);
    struct slice payload = wire_get_bytes(reader, ZAB_RECORD_BYTES_MAX);

    ASSERT(!msg->rec);
    if (!wire_reader_ok(reader) || type < LOGREC_TXN || type > LOGREC_STAMP || prev >= zxid) {
        wire_reader_fail(reader);
        return;
    }
    msg->rec = logrec_new((enum logrec_type)type, zxid, prev, 0, payload);
    msg->rec->chain = chain;
    ASSERT(msg->rec->zxid > msg->rec->prev && msg->rec->len <= ZAB_RECORD_BYTES_MAX);
}

static enum err decode(enum zab_msg_type type, struct slice payload, bool is_newer,
                       struct zab_msg *ret_msg)
{
    const struct msg_layout *layout = layout_of(type);
    struct wire_reader reader;
    struct zab_msg msg = {.type = type};

    if (!layout) {
        return ERR_FORMAT;
    }
    wire_reader_init(&reader, payload);
    get_scalars(&reader, &msg, layout->fields);
    if (layout->fields & F_RANGES) {
        get_ranges(&reader, &msg);
    }
    if ((layout->fields & F_REC) ||
        ((layout->fields & F_OPTIONAL_REC) && wire_get_u8(&reader) != 0)) {
        get_rec(&reader, &msg);
    }
    if (layout->fields & F_BYTES) {
        msg.bytes = wire_get_bytes(&reader, layout->variable_max);
    }
    msg.snap_id = layout->fields & F_SNAP_ID ? wire_get_u64(&reader) : 0;
    msg.snap_offset = layout->fields & F_SNAP_OFFSET ? wire_get_u64(&reader) : 0;
    if (is_newer ? !wire_reader_ok(&reader) : !wire_reader_done(&reader)) {
        zab_msg_release(&msg);
        return ERR_FORMAT;
    }
    ASSERT(msg.rec || !(layout->fields & F_REC));
    ASSERT(msg.bytes.len <= layout->variable_max);
    *ret_msg = msg;
    return ERR_OK;
}

enum err zab_msg_decode(enum zab_msg_type type, struct slice payload, struct zab_msg *ret_msg)
{
    ASSERT(payload.data || payload.len == 0);
    return decode(type, payload, false, ret_msg);
}

enum err zab_msg_decode_newer(enum zab_msg_type type, struct slice payload, struct zab_msg *ret_msg)
{
    ASSERT(payload.data || payload.len == 0);
    return decode(type, payload, true, ret_msg);
}

void zab_msg_release(struct zab_msg *msg)
{
    ASSERT(msg->range_count == 0 || msg->ranges);
    logrec_unref(msg->rec);
    mem_free(msg->ranges);
    msg->rec = NULL;
    msg->ranges = NULL;
    msg->range_count = 0;
    ASSERT(!msg->rec && !msg->ranges);
}
