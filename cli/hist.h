/*
 * hist.h - times in µs, counted in buckets that are 3 % wide at most, so that percentiles of any
 * number of them take 8 KiB. Pure.
 */
#ifndef CLI_HIST_H
#define CLI_HIST_H

#include <stdint.h>

enum {
    HIST_HALF = 32, /* Buckets for each power of two. */
    HIST_POWERS = 32,
    HIST_BUCKETS = 2 * HIST_HALF + HIST_POWERS * HIST_HALF
};

struct hist {
    uint64_t buckets[HIST_BUCKETS];
    uint64_t count;
    uint64_t sum_us;
    uint64_t max_us;
};

void hist_add(struct hist *hist, uint64_t us);

/* So many thousandths of them are not above this; 0 without any. Never more than the greatest. */
uint64_t hist_us(const struct hist *hist, uint64_t thousandths);

#endif
