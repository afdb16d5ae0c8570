/*
 * hash.h - a fast 64-bit mixing hash, for chains, digests and tables: 16 bytes a step, a product of
 * 128 bits folded to 64. Deterministic: the same on each machine. Not for secrets, and not against
 * an adversary that picks the keys.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/slice.h"

uint64_t hash64(uint64_t seed, struct slice bytes);

/* Mixes two words into one. */
uint64_t hash64_mix(uint64_t a, uint64_t b);

#endif
