#include "zab/msg.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/wire.h"

enum {
    SCALARS_BYTES_MAX = 160, /* All scalar fields together. */
    CONFIG_BYTES_MAX = 4096, /* An encoded configuration. */
    REC_HEAD_BYTES = 32,     /* A record's coordinates before its payload. */
    RANGE_BYTES = 12,
};

/* ---- Fields: each is written to `out` or, without one, read from `in`. ---- */

struct codec {
    struct buf *out;
    struct wire_reader in;
    bool is_newer; /* The sender is of a later version. */
};

static void code_u8(struct codec *codec, uint8_t *value)
{
    if (codec->out) {
        wire_put_u8(codec->out, *value);
    } else {
        *value = wire_get_u8(&codec->in);
    }
}

static void code_u32(struct codec *codec, uint32_t *value)
{
    if (codec->out) {
        wire_put_u32(codec->out, *value);
    } else {
        *value = wire_get_u32(&codec->in);
    }
}

static void code_u64(struct codec *codec, uint64_t *value)
{
    if (codec->out) {
        wire_put_u64(codec->out, *value);
    } else {
        *value = wire_get_u64(&codec->in);
    }
}

static void code_bytes(struct codec *codec, struct slice *bytes, size_t len_max)
{
    if (codec->out) {
        wire_put_bytes(codec->out, *bytes);
    } else {
        *bytes = wire_get_bytes(&codec->in, len_max);
    }
}

/* Zero in this version. */
static void code_reserved(struct codec *codec, uint64_t value)
{
    if (value != 0 && !codec->is_newer) {
        wire_reader_fail(&codec->in);
    }
}

static void code_reserved_u32(struct codec *codec)
{
    uint32_t value = 0;

    code_u32(codec, &value);
    code_reserved(codec, value);
}

static void code_reserved_u64(struct codec *codec)
{
    uint64_t value = 0;

    code_u64(codec, &value);
    code_reserved(codec, value);
}

/* type u8, zxid, prev, chain, payload. */
static void put_rec(struct buf *out, const struct logrec *rec)
{
    ASSERT(rec && rec->len <= ZAB_RECORD_BYTES_MAX);

    wire_put_u8(out, (uint8_t)rec->type);
    wire_put_u64(out, rec->zxid);
    wire_put_u64(out, rec->prev);
    wire_put_u64(out, rec->chain);
    wire_put_bytes(out, logrec_payload(rec));
}

/* The chain value is taken as sent: only the receiver's own log can check it. */
static struct logrec *get_rec(struct wire_reader *reader)
{
    uint8_t type = wire_get_u8(reader);
    zxid_t zxid = wire_get_u64(reader);
    zxid_t prev = wire_get_u64(reader);
    uint64_t chain = wire_get_u64(reader);
    struct slice payload = wire_get_bytes(reader, ZAB_RECORD_BYTES_MAX);

    if (!wire_reader_ok(reader) || type < LOGREC_TXN || type > LOGREC_STAMP || prev >= zxid) {
        wire_reader_fail(reader);
        return NULL;
    }
    struct logrec *rec = logrec_new((enum logrec_type)type, zxid, prev, 0, payload);

    rec->chain = chain;
    ASSERT(rec->zxid > rec->prev && rec->len <= ZAB_RECORD_BYTES_MAX);
    return rec;
}

static void code_rec(struct codec *codec, struct logrec **rec)
{
    if (codec->out) {
        put_rec(codec->out, *rec);
    } else {
        *rec = get_rec(&codec->in);
    }
}

static void code_ranges(struct codec *codec, struct zab_msg_ackepoch *ackepoch)
{
    code_u32(codec, &ackepoch->range_count);
    if (!codec->out) {
        uint32_t count = ackepoch->range_count;

        if (count > ZAB_RANGES_MAX ||
            (size_t)(codec->in.end - codec->in.pos) < (size_t)count * RANGE_BYTES) {
            wire_reader_fail(&codec->in);
            ackepoch->range_count = 0;
            return;
        }
        ackepoch->ranges = mem_zalloc(count + 1, sizeof ackepoch->ranges[0]);
    }
    ASSERT(ackepoch->range_count <= ZAB_RANGES_MAX);
    for (uint32_t i = 0; i < ackepoch->range_count; i++) {
        struct epoch_range *range = &ackepoch->ranges[i];

        code_u32(codec, &range->epoch);
        code_u32(codec, &range->first);
        code_u32(codec, &range->last);
        if (!codec->out &&
            (range->first > range->last || (i > 0 && range->epoch <= range[-1].epoch))) {
            wire_reader_fail(&codec->in);
        }
    }
}

/* ---- The layout of each type. A field that a later version adds goes to the end of its type; it
 * is zero when an earlier version sends the message. ---- */

static void code_vote(struct codec *codec, struct zab_msg *msg)
{
    struct zab_msg_vote *vote = &msg->vote;

    code_u32(codec, &vote->promised);
    code_u64(codec, &vote->candidate_last);
    code_u64(codec, &vote->last);
    code_u64(codec, &vote->round);
    code_u32(codec, &vote->candidate);
    code_u8(codec, &vote->state);
    code_u32(codec, &vote->flags);
    code_u64(codec, &vote->config_version);
    code_u32(codec, &vote->voters);
}

static void code_cepoch(struct codec *codec, struct zab_msg *msg)
{
    code_u32(codec, &msg->dialogue);
    code_u32(codec, &msg->cepoch.promised);
    code_u64(codec, &msg->cepoch.last);
    code_u32(codec, &msg->cepoch.flags);
}

/* All of RESIGN, and what the types below begin with. */
static void code_head(struct codec *codec, struct zab_msg *msg)
{
    code_u32(codec, &msg->dialogue);
    code_u32(codec, &msg->epoch);
}

static void code_newepoch(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_bytes(codec, &msg->newepoch.config, CONFIG_BYTES_MAX);
}

static void code_ackepoch(struct codec *codec, struct zab_msg *msg)
{
    struct zab_msg_ackepoch *ackepoch = &msg->ackepoch;

    code_head(codec, msg);
    code_u64(codec, &ackepoch->last);
    code_u64(codec, &ackepoch->last_chain);
    code_u32(codec, &ackepoch->flags);
    code_u64(codec, &ackepoch->base);
    code_ranges(codec, ackepoch);
    code_u64(codec, &ackepoch->snap_id);
    code_u64(codec, &ackepoch->snap_offset);
}

static void code_sync(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_u64(codec, &msg->sync.common);
    code_u64(codec, &msg->sync.target);
    code_u32(codec, &msg->sync.flags);
}

static void code_snap_chunk(struct codec *codec, struct zab_msg *msg)
{
    struct zab_msg_snap_chunk *chunk = &msg->snap_chunk;

    code_head(codec, msg);
    code_u64(codec, &chunk->start);
    code_u64(codec, &chunk->start_chain);
    code_u64(codec, &chunk->end);
    code_u32(codec, &chunk->flags);
    code_u64(codec, &chunk->offset);
    code_bytes(codec, &chunk->bytes, ZAB_CHUNK_BYTES_MAX);
    code_u64(codec, &chunk->snap_id);
}

static void code_snap_ack(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_u64(codec, &msg->snap_ack.offset);
}

static void code_entry(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_u64(codec, &msg->entry.commit);
    code_rec(codec, &msg->entry.rec);
}

static void code_newleader(struct codec *codec, struct zab_msg *msg)
{
    struct zab_msg_newleader *newleader = &msg->newleader;
    uint8_t has_rec = newleader->rec ? 1 : 0;

    code_head(codec, msg);
    code_u64(codec, &newleader->sent);
    code_reserved_u64(codec);
    code_u8(codec, &has_rec);
    if (has_rec != 0) {
        code_rec(codec, &newleader->rec);
    }
    code_bytes(codec, &newleader->config, CONFIG_BYTES_MAX);
}

static void code_ack(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_u64(codec, &msg->ack.zxid);
}

static void code_ack_newleader(struct codec *codec, struct zab_msg *msg)
{
    code_ack(codec, msg);
    code_reserved_u64(codec);
    code_bytes(codec, &msg->ack.payload, ZAB_PING_PAYLOAD_MAX);
}

static void code_commit(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_u64(codec, &msg->commit.zxid);
}

static void code_ping(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_u64(codec, &msg->ping.commit);
    code_u64(codec, &msg->ping.round);
    code_bytes(codec, &msg->ping.payload, ZAB_PING_PAYLOAD_MAX);
}

static void code_pong(struct codec *codec, struct zab_msg *msg)
{
    struct zab_msg_pong *pong = &msg->pong;

    code_head(codec, msg);
    code_u64(codec, &pong->last);
    code_u64(codec, &pong->round);
    code_u32(codec, &pong->flags);
    code_u64(codec, &pong->digest_zxid);
    code_u64(codec, &pong->digest);
    code_bytes(codec, &pong->payload, ZAB_PING_PAYLOAD_MAX);
}

static void code_confirm(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_u64(codec, &msg->confirm.round);
}

static void code_read_index(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_u64(codec, &msg->read_index.request);
}

static void code_read_reply(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_u64(codec, &msg->read_reply.zxid);
    code_u64(codec, &msg->read_reply.request);
    code_reserved_u32(codec);
}

static void code_forward(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_u64(codec, &msg->forward.request);
    code_bytes(codec, &msg->forward.bytes, ZAB_FORWARD_BYTES_MAX);
}

static void code_exclude(struct codec *codec, struct zab_msg *msg)
{
    code_head(codec, msg);
    code_u64(codec, &msg->exclude.zxid);
    code_u32(codec, &msg->exclude.flags);
}

static void code_config(struct codec *codec, struct zab_msg *msg)
{
    code_bytes(codec, &msg->config.bytes, CONFIG_BYTES_MAX);
}

struct msg_layout {
    const char *name; /* NULL: no such type. */
    void (*code)(struct codec *codec, struct zab_msg *msg);
    size_t variable_max; /* Bytes beyond the scalars. */
};

static const struct msg_layout layouts[] = {
    [ZAB_VOTE] = {"VOTE", code_vote, 0},
    [ZAB_CEPOCH] = {"CEPOCH", code_cepoch, 0},
    [ZAB_NEWEPOCH] = {"NEWEPOCH", code_newepoch, CONFIG_BYTES_MAX},
    [ZAB_ACKEPOCH] = {"ACKEPOCH", code_ackepoch, (size_t)ZAB_RANGES_MAX *RANGE_BYTES},
    [ZAB_SYNC] = {"SYNC", code_sync, 0},
    [ZAB_SNAP_CHUNK] = {"SNAP_CHUNK", code_snap_chunk, ZAB_CHUNK_BYTES_MAX},
    [ZAB_SNAP_ACK] = {"SNAP_ACK", code_snap_ack, 0},
    [ZAB_ENTRY] = {"ENTRY", code_entry, REC_HEAD_BYTES + (size_t)ZAB_RECORD_BYTES_MAX},
    [ZAB_SYNC_ACK] = {"SYNC_ACK", code_ack, 0},
    [ZAB_NEWLEADER] = {"NEWLEADER", code_newleader, REC_HEAD_BYTES + (size_t)CONFIG_BYTES_MAX * 2},
    [ZAB_ACK_NEWLEADER] = {"ACK_NEWLEADER", code_ack_newleader, ZAB_PING_PAYLOAD_MAX},
    [ZAB_UPTODATE] = {"UPTODATE", code_commit, 0},
    [ZAB_ACK] = {"ACK", code_ack, 0},
    [ZAB_COMMIT] = {"COMMIT", code_commit, 0},
    [ZAB_PING] = {"PING", code_ping, ZAB_PING_PAYLOAD_MAX},
    [ZAB_PONG] = {"PONG", code_pong, ZAB_PING_PAYLOAD_MAX},
    [ZAB_CONFIRM] = {"CONFIRM", code_confirm, 0},
    [ZAB_CONFIRM_ACK] = {"CONFIRM_ACK", code_confirm, 0},
    [ZAB_READ_INDEX] = {"READ_INDEX", code_read_index, 0},
    [ZAB_READ_REPLY] = {"READ_REPLY", code_read_reply, 0},
    [ZAB_FORWARD] = {"FORWARD", code_forward, ZAB_FORWARD_BYTES_MAX},
    [ZAB_FORWARD_REPLY] = {"FORWARD_REPLY", code_forward, ZAB_FORWARD_BYTES_MAX},
    [ZAB_RESIGN] = {"RESIGN", code_head, 0},
    [ZAB_EXCLUDE] = {"EXCLUDE", code_exclude, 0},
    [ZAB_CONFIG] = {"CONFIG", code_config, CONFIG_BYTES_MAX},
};

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

    return layout ? SCALARS_BYTES_MAX + layout->variable_max : 0;
}

void zab_msg_encode(const struct zab_msg *msg, struct buf *out)
{
    const struct msg_layout *layout = layout_of(msg->type);
    struct codec codec = {.out = out};
    struct zab_msg copy = *msg; /* Writing changes nothing, but the compiler cannot know that. */

    ASSERT(layout);
    layout->code(&codec, &copy);
}

static enum err decode(enum zab_msg_type type, struct slice payload, bool is_newer,
                       struct zab_msg *ret_msg)
{
    const struct msg_layout *layout = layout_of(type);
    struct codec codec = {.is_newer = is_newer};
    struct zab_msg msg = {.type = type};

    if (!layout) {
        return ERR_FORMAT;
    }
    wire_reader_init(&codec.in, payload);
    layout->code(&codec, &msg);
    if (is_newer ? !wire_reader_ok(&codec.in) : !wire_reader_done(&codec.in)) {
        zab_msg_release(&msg);
        return ERR_FORMAT;
    }
    *ret_msg = msg;
    return ERR_OK;
}

enum err zab_msg_decode(enum zab_msg_type type, struct slice payload, struct zab_msg *ret_msg)
{
    return decode(type, payload, false, ret_msg);
}

enum err zab_msg_decode_newer(enum zab_msg_type type, struct slice payload, struct zab_msg *ret_msg)
{
    return decode(type, payload, true, ret_msg);
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
