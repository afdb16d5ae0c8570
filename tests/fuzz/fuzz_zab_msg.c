/*
 * Messages between replicas: a type, then its payload. What decodes is within its limits, and
 * encodes to the same bytes again.
 */
#include "base/logrec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/zab_sample.h"
#include "zab/config.h"
#include "zab/msg.h"

#include <stdio.h>

static bool lies_in(struct slice part, struct slice whole)
{
    return part.len == 0 || (part.data >= whole.data && part.len <= whole.len &&
                             (size_t)(part.data - whole.data) <= whole.len - part.len);
}

static void check_ranges(const struct zab_msg_ackepoch *ackepoch)
{
    ASSERT(ackepoch->range_count <= ZAB_RANGES_MAX);
    for (uint32_t i = 0; i < ackepoch->range_count; i++) {
        ASSERT(ackepoch->ranges[i].first <= ackepoch->ranges[i].last);
        ASSERT(i == 0 || ackepoch->ranges[i - 1].epoch < ackepoch->ranges[i].epoch);
    }
}

static struct slice slice_of(const struct zab_msg *msg)
{
    switch ((int)msg->type) {
    case ZAB_NEWEPOCH:
        return msg->newepoch.config;
    case ZAB_SNAP_CHUNK:
        return msg->snap_chunk.bytes;
    case ZAB_NEWLEADER:
        return msg->newleader.config;
    case ZAB_ACK_NEWLEADER:
        return msg->ack.payload;
    case ZAB_PING:
        return msg->ping.payload;
    case ZAB_PONG:
        return msg->pong.payload;
    case ZAB_FORWARD:
    case ZAB_FORWARD_REPLY:
        return msg->forward.bytes;
    case ZAB_CONFIG:
        return msg->config.bytes;
    default:
        return slice_make(NULL, 0);
    }
}

static void check_msg(const struct zab_msg *msg, struct slice payload)
{
    const struct logrec *rec = zab_msg_rec(msg);

    if (msg->type == ZAB_ACKEPOCH) {
        check_ranges(&msg->ackepoch);
    }
    if (msg->type == ZAB_JOIN) {
        ASSERT(lies_in(msg->join.host, payload) && msg->join.host.len <= ZAB_HOST_MAX);
        ASSERT(lies_in(msg->join.client, payload) && msg->join.client.len <= ZAB_CLIENT_MAX);
        ASSERT(lies_in(msg->join.zone, payload) && msg->join.zone.len <= ZAB_ZONE_MAX);
    }
    ASSERT(lies_in(slice_of(msg), payload));
    ASSERT(rec || msg->type != ZAB_ENTRY);
    if (rec) {
        ASSERT(rec->prev < rec->zxid && rec->len <= ZAB_RECORD_BYTES_MAX);
        ASSERT(rec->type >= LOGREC_TXN && rec->type <= LOGREC_STAMP);
    }
}

static bool fuzz_one(struct slice input)
{
    struct wire_reader reader;
    struct zab_msg msg;
    struct buf again;

    wire_reader_init(&reader, input);

    enum zab_msg_type type = (enum zab_msg_type)wire_get_u8(&reader);
    struct slice payload = fuzz_rest(&reader);
    size_t size_max = zab_msg_size_max(type);

    /* The transport looks at the length before it reads the payload. */
    if (payload.len > size_max || zab_msg_decode(type, payload, false, &msg) != ERR_OK) {
        ASSERT(size_max > 0 || strcmp(zab_msg_name(type), "?") == 0);
        return false;
    }
    check_msg(&msg, payload);
    buf_init(&again, size_max);
    zab_msg_encode(&msg, &again);
    zab_msg_release(&msg);
    ASSERT(!again.overflow && again.len == payload.len);
    /* The presence byte of a NEWLEADER's record may be any number. */
    ASSERT(type == ZAB_NEWLEADER || slice_eq(buf_slice(&again), payload));

    enum err err = zab_msg_decode(type, buf_slice(&again), false, &msg);

    ASSERT(err == ERR_OK);
    zab_msg_release(&msg);
    buf_release(&again);
    return true;
}

static void seed_msg(struct fuzz_sink *sink, const char *name, const struct zab_msg *msg)
{
    struct buf bytes;

    buf_init(&bytes, FUZZ_INPUT_MAX);
    wire_put_u8(&bytes, (uint8_t)msg->type);
    zab_msg_encode(msg, &bytes);
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    struct epoch_range ranges[SAMPLE_RANGES];
    struct logrec *rec =
        logrec_new(LOGREC_TXN, zxid_make(3, 2), zxid_make(3, 1), 77, slice_str("a transaction"));
    char name[32];

    for (int type = ZAB_VOTE; type <= ZAB_JOIN; type++) {
        struct zab_msg msg = zab_sample((enum zab_msg_type)type, ranges, rec);

        (void)snprintf(name, sizeof(name), "type-%02d", type);
        seed_msg(sink, name, &msg);
    }

    struct zab_msg bare = {.type = ZAB_NEWLEADER, .epoch = 1};

    seed_msg(sink, "newleader-bare", &bare);
    logrec_unref(rec);
}

FUZZ_TARGET(zab_msg)
