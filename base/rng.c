#include "base/rng.h"

#include "base/check.h"

/* splitmix64: spreads a seed of any quality over the whole state, which is never all zero. */
static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t rotate_left(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

void rng_init(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        rng->s[i] = splitmix(&seed);
    }
}

uint64_t rng_u64(struct rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    ASSERT(bound > 0);

    /* A draw below 2^64 mod `bound` would make small results likelier, so it is replaced by a new
     * one. */
    uint64_t skip = (0 - bound) % bound;
    uint64_t draw = rng_u64(rng);

    while (draw < skip) {
        draw = rng_u64(rng);
    }
    return draw % bound;
}
