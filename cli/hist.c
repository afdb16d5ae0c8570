#include "cli/hist.h"

#include "base/minmax.h"

enum {
    FLAT = 2 * HIST_HALF, /* Buckets that are 1 µs wide. */
    THOUSAND = 1000
};

/* Returns the bucket of a time. Below FLAT each time has its own bucket; above, the times from one
 * power of two to the next share HIST_HALF buckets. */
static uint64_t bucket_of(uint64_t us)
{
    uint64_t power = 0;

    while (us >> power >= FLAT && power < HIST_POWERS) {
        power++;
    }

    uint64_t bucket = power * HIST_HALF + (us >> power);

    return bucket < HIST_BUCKETS ? bucket : HIST_BUCKETS - 1;
}

/* Returns the greatest time in the bucket. */
static uint64_t top_of(uint64_t bucket)
{
    uint64_t power = bucket < FLAT ? 0 : bucket / HIST_HALF - 1;

    return ((bucket - power * HIST_HALF + 1) << power) - 1;
}

void hist_add(struct hist *hist, uint64_t us)
{
    hist->buckets[bucket_of(us)]++;
    hist->count++;
    hist->sum_us += us;
    hist->max_us = max_u64(us, hist->max_us);
}

uint64_t hist_us(const struct hist *hist, uint64_t thousandths)
{
    uint64_t wanted = (hist->count * thousandths + THOUSAND - 1) / THOUSAND;
    uint64_t seen = 0;

    for (uint64_t i = 0; i < HIST_BUCKETS; i++) {
        seen += hist->buckets[i];
        if (seen >= wanted && seen > 0) {
            return min_u64(top_of(i), hist->max_us);
        }
    }
    return hist->max_us;
}
