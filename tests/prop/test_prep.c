/*
 * Requests that are prepared many deep before anything is applied give the same results as a naive
 * model that changes at once: the same refusals, the same answers and in the end the same state.
 */
#include "base/rng.h"
#include "tests/lib/prep_play.h"
#include "tests/lib/unit.h"

enum {
    SEEDS = 500,
    ROUNDS = 4,
    ROUND_BYTES = 1200
};

/* Returns how many requests were refused because the tree had no room. */
static size_t run_seed(uint64_t seed)
{
    struct prep_play *play = prep_play_new(seed % 2 == 0);
    uint8_t bytes[ROUND_BYTES];
    struct rng rng;
    size_t full = 0;

    rng_init(&rng, seed);
    for (int i = 0; i < ROUNDS; i++) {
        struct wire_reader reader;

        for (size_t k = 0; k < sizeof(bytes); k++) {
            bytes[k] = (uint8_t)rng_below(&rng, 256);
        }
        wire_reader_init(&reader, slice_make(bytes, sizeof(bytes)));
        while (wire_reader_ok(&reader) && prep_play_step(play, &reader)) {
        }
        prep_play_settle(play);
    }
    assert_true(prep_play_prepared(play) > ROUNDS * 20);
    full = prep_play_full(play);
    prep_play_free(play);
    return full;
}

TEST(preparing_ahead_equals_applying_at_once)
{
    size_t full = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        full += run_seed(seed);
    }
    assert_true(full > SEEDS);
}
