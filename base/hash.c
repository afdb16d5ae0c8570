#include "base/hash.h"

#include "base/wire.h"

/* Odd constants of wyhash, each with 32 ones and 32 zeros. */
static const uint64_t salt_a = UINT64_C(0xa0761d6478bd642f);
static const uint64_t salt_b = UINT64_C(0xe7037ed1a0b428db);

/* Returns the product of two words folded to one word. The operands are mixed into the result, so
 * that a zero operand does not wipe out the other one. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;

    return a ^ b ^ (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hash64_mix(uint64_t a, uint64_t b)
{
    return fold(fold(a ^ salt_a, b ^ salt_b), salt_a);
}

uint64_t hash64(uint64_t seed, struct slice bytes)
{
    const uint8_t *pos = bytes.data;
    size_t len = bytes.len;
    uint64_t state = fold(seed ^ salt_a, salt_b);
    uint64_t head = 0;
    uint64_t tail = 0;

    for (; len > 16; pos += 16, len -= 16) {
        state = fold(wire_load_u64(pos) ^ salt_b, wire_load_u64(pos + 8) ^ state);
    }
    if (len >= 8) {
        head = wire_load_u64(pos);
        tail = wire_load_u64(pos + len - 8);
    } else if (len >= 4) {
        head = wire_load_u32(pos);
        tail = wire_load_u32(pos + len - 4);
    } else if (len > 0) {
        head = (uint64_t)pos[0] << 16 | (uint64_t)pos[len / 2] << 8 | pos[len - 1];
    }
    return fold(salt_b ^ bytes.len, fold(head ^ salt_b, tail ^ state));
}
