/*
 * A peer that has proven the secret, in any state of the core: valid messages in any order,
 * plausible ones or decoded from raw bytes, between ticks and finished disk writes. The core never
 * crashes, and the model of the disk (tests/lib/zab_drive) checks its rules.
 */
#include "base/rng.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/zab_villain.h"

enum {
    STEPS_MAX = 150,
    FRAME_MAX = 2048,
    SEEDS = 8,
    SEED_BYTES = 600,
    FRAMES_EVERY = 4 /* One step in this many is a message given as bytes. */
};

static uint64_t draw(void *ctx, uint64_t bound)
{
    struct wire_reader *reader = ctx;
    uint64_t value = 0;

    if (fuzz_more(reader)) {
        value = bound <= 256 ? wire_get_u8(reader) : wire_get_u64(reader);
    }
    return value % bound;
}

/* Bytes of the input as the transport would have read them: those that do not decode never reach
 * the core. */
static void say_bytes(struct villain *villain, struct wire_reader *reader)
{
    enum zab_msg_type type = (enum zab_msg_type)wire_get_u8(reader);
    uint32_t peer = 2 + wire_get_u8(reader) % 4;
    struct slice payload = fuzz_take(reader, FRAME_MAX);
    struct zab_msg msg;

    if (payload.len <= zab_msg_size_max(type) &&
        zab_msg_decode(type, payload, false, &msg) == ERR_OK) {
        villain_say(villain, peer, &msg);
        zab_msg_release(&msg);
    }
}

static bool fuzz_one(struct slice input)
{
    static struct villain villain;
    struct wire_reader reader;

    wire_reader_init(&reader, input);
    villain_begin(&villain, draw, &reader);
    for (int i = 0; i < STEPS_MAX && fuzz_more(&reader) && !villain_is_halted(&villain); i++) {
        if (wire_get_u8(&reader) % FRAMES_EVERY == 0) {
            say_bytes(&villain, &reader);
        } else {
            villain_step(&villain);
        }
    }
    villain_end(&villain);
    return true;
}

static void put_frame(struct buf *out, const struct zab_msg *msg)
{
    struct buf payload;

    buf_init(&payload, FRAME_MAX);
    zab_msg_encode(msg, &payload);
    wire_put_u8(out, 0);
    wire_put_u8(out, (uint8_t)msg->type);
    wire_put_u8(out, 0);
    fuzz_put(out, buf_slice(&payload));
    buf_release(&payload);
}

static void seed_frames(struct fuzz_sink *sink)
{
    struct buf bytes;

    buf_init(&bytes, FUZZ_INPUT_MAX);
    wire_put_u8(&bytes, 0);
    wire_put_u8(&bytes, 6); /* Follows, in step. */
    put_frame(&bytes,
              &(struct zab_msg){.type = ZAB_PING, .epoch = 2, .ping.commit = zxid_make(2, 0)});
    put_frame(&bytes,
              &(struct zab_msg){.type = ZAB_COMMIT, .epoch = 2, .commit.zxid = zxid_make(2, 0)});
    put_frame(&bytes, &(struct zab_msg){.type = ZAB_RESIGN, .epoch = 2});
    fuzz_seed(sink, "frames", buf_slice(&bytes));
    buf_release(&bytes);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    seed_frames(sink);
    for (uint64_t i = 0; i < SEEDS; i++) {
        char name[16] = "steps-0";
        struct rng rng;
        struct buf bytes;

        name[sizeof("steps-0") - 2] = (char)('0' + i);
        rng_init(&rng, i);
        buf_init(&bytes, FUZZ_INPUT_MAX);
        while (bytes.len < SEED_BYTES) {
            wire_put_u64(&bytes, rng_u64(&rng));
        }
        fuzz_seed(sink, name, buf_slice(&bytes));
        buf_release(&bytes);
    }
}

FUZZ_TARGET(zab_peer)
