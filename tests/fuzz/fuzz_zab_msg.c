/*
 * Messages between replicas: a type, then its payload. What decodes is within its limits, and
 * encodes to the same bytes again.
 */
#include "base/logrec.h"
#include "tests/fuzz/fuzz.h"
#include "zab/msg.h"

#include <stdio.h>

static bool lies_in(struct slice part, struct slice whole)
{
    return part.len == 0 || (part.data >= whole.data && part.len <= whole.len &&
                             (size_t)(part.data - whole.data) <= whole.len - part.len);
}

static void check_msg(const struct zab_msg *msg, struct slice payload)
{
    ASSERT(msg->range_count <= ZAB_RANGES_MAX);
    ASSERT(lies_in(msg->bytes, payload));
    for (uint32_t i = 0; i < msg->range_count; i++) {
        ASSERT(msg->ranges[i].first <= msg->ranges[i].last);
        ASSERT(i == 0 || msg->ranges[i - 1].epoch < msg->ranges[i].epoch);
    }
    ASSERT(msg->rec || msg->type != ZAB_ENTRY);
    if (msg->rec) {
        ASSERT(msg->rec->prev < msg->rec->zxid && msg->rec->len <= ZAB_RECORD_BYTES_MAX);
        ASSERT(msg->rec->type >= LOGREC_TXN && msg->rec->type <= LOGREC_STAMP);
    }
}

bool fuzz_one(struct slice input)
{
    struct wire_reader reader;
    struct zab_msg msg;
    struct buf again;

    wire_reader_init(&reader, input);

    enum zab_msg_type type = (enum zab_msg_type)wire_get_u8(&reader);
    struct slice payload = fuzz_rest(&reader);
    size_t size_max = zab_msg_size_max(type);

    /* The transport looks at the length before it reads the payload. */
    if (payload.len > size_max || zab_msg_decode(type, payload, &msg) != ERR_OK) {
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

    enum err err = zab_msg_decode(type, buf_slice(&again), &msg);

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

void fuzz_seeds(struct fuzz_sink *sink)
{
    struct zab_range ranges[] = {{1, 0, 5}, {3, 0, 2}};
    struct logrec *rec =
        logrec_new(LOGREC_TXN, zxid_make(3, 2), zxid_make(3, 1), 77, slice_str("a transaction"));
    char name[32];

    for (int type = ZAB_VOTE; type <= ZAB_FOUND; type++) {
        struct zab_msg msg = {
            .type = (enum zab_msg_type)type,
            .link = 9,
            .epoch = 3,
            .zxid = zxid_make(3, 2),
            .chain = 0x1122334455667788,
            .commit = zxid_make(3, 1),
            .round = 4,
            .leader = 2,
            .state = ZAB_LEADING,
            .flags = ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED,
            .offset = 4096,
            .digest_zxid = zxid_make(3, 0),
            .digest = 5,
            .base = 1,
            .ranges = ranges,
            .range_count = 2,
            .rec = rec,
            .bytes = slice_str("some bytes"),
        };

        (void)snprintf(name, sizeof(name), "type-%02d", type);
        seed_msg(sink, name, &msg);
    }

    struct zab_msg bare = {.type = ZAB_NEWLEADER, .epoch = 1};

    seed_msg(sink, "newleader-bare", &bare);
    logrec_unref(rec);
}
