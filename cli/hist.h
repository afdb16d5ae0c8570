/*
 * hist.h - counts times in µs. The buckets are at most 3 % wide, so the percentiles of any number
 * of times need less than 9 KiB of memory. Pure.
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

/* Returns the percentile: the time in µs that is not exceeded by `thousandths` of the times. The
 * result is never above the greatest time; 0 when there are no times. */
uint64_t hist_us(const struct hist *hist, uint64_t thousandths);

#endif
