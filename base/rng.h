/* rng.h - a seeded generator (xoshiro256**): the same seed gives the same sequence. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_init(struct rng *rng, uint64_t seed);
uint64_t rng_u64(struct rng *rng);

/* Uniform in [0, bound); `bound` must not be 0. */
uint64_t rng_below(struct rng *rng, uint64_t bound);

#endif
