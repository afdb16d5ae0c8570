/*
 * An authenticated peer that sends anything: the core may drop it, look for a leader or stop itself
 * with HALT, but it never crashes, and what the model of the disk checks stays true.
 */
#include "base/rng.h"
#include "tests/lib/unit.h"
#include "tests/lib/zab_villain.h"

enum {
    RUNS = 2500,
    STEPS = 150
};

static uint64_t draw(void *ctx, uint64_t bound)
{
    return rng_below(ctx, bound);
}

TEST(no_message_of_a_peer_breaks_the_core)
{
    uint64_t halted = 0;

    for (uint64_t run = 0; run < RUNS; run++) {
        static struct villain villain;
        struct rng rng;

        rng_init(&rng, run);
        villain_begin(&villain, draw, &rng);
        for (int step = 0; step < STEPS && !villain_is_halted(&villain); step++) {
            villain_step(&villain);
        }
        halted += villain_is_halted(&villain);
        villain_end(&villain);
    }
    /* Most runs must not end early, or little has been tested. */
    assert_true(halted < RUNS / 10);
}
