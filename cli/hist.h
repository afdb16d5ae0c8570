/*
 * hist.h - a histogram of times in µs. A percentile may be up to 1/32 too high; in return, the
 * histogram needs less than 9 KiB of memory, however many values it has. Pure.
 */
#ifndef CLI_HIST_H
#define CLI_HIST_H

#include <stdint.h>

enum {
    HIST_HALF = 32, /* Buckets from one power of two to the next. */
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

/* Returns the percentile: the time in µs that `thousandths` / 1000 of the times do not exceed. The
 * result is never above the greatest time; 0 when there are no times. */
uint64_t hist_us(const struct hist *hist, uint64_t thousandths);

#endif
