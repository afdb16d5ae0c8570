/* minmax.h - the smaller and the larger of two numbers, each evaluated once: min_u64, max_u64 and
 * others. */
#ifndef BASE_MINMAX_H
#define BASE_MINMAX_H

#include <stddef.h>
#include <stdint.h>

#define MINMAX(name, type)                        \
    static inline type min_##name(type a, type b) \
    {                                             \
        return a < b ? a : b;                     \
    }                                             \
    static inline type max_##name(type a, type b) \
    {                                             \
        return a > b ? a : b;                     \
    }

MINMAX(u64, uint64_t)
MINMAX(u32, uint32_t)
MINMAX(i64, int64_t)
MINMAX(size, size_t)

#endif
