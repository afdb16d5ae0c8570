/* draw.h - draws from a seeded generator that only tests use. */
#ifndef TESTS_LIB_DRAW_H
#define TESTS_LIB_DRAW_H

#include "base/check.h"
#include "base/rng.h"

#include <stdbool.h>

/* Uniform in [low, high], both included. */
static inline uint64_t rng_range(struct rng *rng, uint64_t low, uint64_t high)
{
    ASSERT(low <= high);

    uint64_t span = high - low;

    return span == UINT64_MAX ? rng_u64(rng) : low + rng_below(rng, span + 1);
}

/* True with probability `per_million` / 1,000,000. */
static inline bool rng_chance(struct rng *rng, uint32_t per_million)
{
    return rng_below(rng, 1000000) < per_million;
}

#endif
