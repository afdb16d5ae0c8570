/*
 * Writes of clients, read from the bytes, through preparation and application: prepared many deep
 * before anything is applied, they give the same results as a naive model that changes at once.
 *
 * The same check as tests/prop/test_prep.c with drawn requests; here the fuzzer looks for requests
 * that reach new code.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/state_check.h"
#include "tests/lib/prep_play.h"

enum {
    REQUESTS_MAX = 200
};

static bool fuzz_one(struct slice input)
{
    struct prep_play *play = prep_play_new(input.len % 2 == 1);
    struct wire_reader reader;

    wire_reader_init(&reader, input);
    for (int i = 0; i < REQUESTS_MAX && fuzz_more(&reader) && prep_play_step(play, &reader); i++) {
    }
    prep_play_settle(play);
    state_check(prep_play_state(play));
    bool prepared = prep_play_prepared(play) > 0;

    prep_play_free(play);
    return prepared;
}

/* Of each request: pace, client, session and key, kind, and its parameters. */
static void fuzz_seeds(struct fuzz_sink *sink)
{
    static const uint8_t plain[] = {
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 5, /* create /a */
        0x00, 0x00, 0x00, 0x00, 0x54, 0x00, 5, /* create /a/a */
        0x10, 0x00, 0x00, 0x04, 0x00, 0x00, 3, /* set /a */
        0x00, 0x00, 0x00, 0x05, 0x54, 0x00,    /* delete /a/a */
        0x00, 0x00, 0x00, 0x05, 0x00, 0x11,    /* delete /a, version 0 */
    };
    static const uint8_t kinds[] = {
        0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0x00, 1, /* a container */
        0x00, 0x00, 0x00, 0x00, 0x01, 0x32, 9,    2, /* with a time to live */
        0x00, 0x00, 0x00, 0x00, 0x54, 0x60, 3,       /* a sequence below /a */
        0xf8, 0x00, 0x00, 0x05, 0x54, 0x18,          /* and a long time */
        0x10, 0x00, 0x07, 0x01,                      /* reap */
    };
    static const uint8_t multi[] = {
        0x00, 0x00, 0x1c, 0x00, 0x00, 0x00, 5, 0x00, 0x54, 0x00, 5, 0x07, 0x00, 0x00, /* three */
        0x00, 0x00, 0x00, 0x4c, 0xa8, 0x00, 4, /* upsert with parents */
    };
    static const uint8_t session[] = {
        0x00, 0x00, 0x05, 0x00,                      /* open */
        0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x04, 2, /* an ephemeral /a */
        0x00, 0x00, 0x05, 0x02,                      /* attach */
        0x10, 0x38, 0x00, 0x00, 0x04, 0x00, 0x00, 1, /* set /a, in its place */
        0x10, 0x38, 0xc0, 0x00, 0x04, 0x00, 0x00, 1, /* and in another one */
        0x10, 0x00, 0x05, 0x03,                      /* close */
    };
    static const uint8_t rights[] = {
        0x00, 0x02, 0x00, 0x00, 0x00, 0x80, 5, 1, /* create /a for Ann */
        0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 1,    /* an anonymous set */
        0x10, 0x02, 0x06, 0x00, 0x00, 2,          /* Ann lets others in */
        0x10, 0x00, 0x00, 0x00, 0x54, 0x00, 1,    /* create /a/a */
    };
    static const uint8_t keys[] = {
        0x00, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 1, /* create /a with a key */
        0x10, 0xc0, 0x04, 0x10, 0xc0, 0x04,          /* again, in flight and applied */
        0x1f, 0xc0, 0x00, 0x00, 0x05, 0x00, 0x00,    /* another request */
        0xf8, 0x00, 0x00, 0x05, 0x00, 0x00,          /* much later */
        0x10, 0xff,                                  /* forgotten */
    };
    static const uint8_t quota[] = {
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 5, /* create /a */
        0x00, 0x00, 0x0f, 0x00,                /* at most three znodes there */
        0x00, 0x00, 0x00, 0x01, 0xa8, 0x01, 5, /* /a/a/a with its parent */
        0x10, 0x00, 0x00, 0x00, 0x59, 0x00, 5, /* one more */
    };

    fuzz_seed(sink, "plain", slice_make(plain, sizeof(plain)));
    fuzz_seed(sink, "kinds", slice_make(kinds, sizeof(kinds)));
    fuzz_seed(sink, "multi", slice_make(multi, sizeof(multi)));
    fuzz_seed(sink, "session", slice_make(session, sizeof(session)));
    fuzz_seed(sink, "rights", slice_make(rights, sizeof(rights)));
    fuzz_seed(sink, "keys", slice_make(keys, sizeof(keys)));
    fuzz_seed(sink, "quota", slice_make(quota, sizeof(quota)));
}

FUZZ_TARGET(tree_ops)
