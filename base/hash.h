/*
 * hash.h - a fast 64-bit mixing hash, for chains, digests and tables. Each step mixes 16 bytes by a
 * 128-bit product folded to 64 bits. The result is the same on each machine. The hash is not for
 * protecting secrets, and does not resist an adversary that picks the keys.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/slice.h"

uint64_t hash64(uint64_t seed, struct slice bytes);

/* Mixes two words into one. */
uint64_t hash64_mix(uint64_t a, uint64_t b);

#endif
