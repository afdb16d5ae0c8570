/*
 * metric.h - counters, gauges and latency histograms that any thread may touch without a lock.
 */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include "base/buf.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    METRIC_BUCKETS = 24
}; /* The bounds are powers of two from 1 µs to 4.2 s; the last bound is +Inf. */

struct metric_counter {
    _Atomic uint64_t value;
};

struct metric_histogram {
    _Atomic uint64_t buckets[METRIC_BUCKETS]; /* Not cumulative. Bucket i: <= 2^i µs. */
    _Atomic uint64_t sum_us;
};

static inline void metric_add(struct metric_counter *counter, uint64_t n)
{
    atomic_fetch_add_explicit(&counter->value, n, memory_order_relaxed);
}

static inline void metric_set(struct metric_counter *gauge, uint64_t value)
{
    atomic_store_explicit(&gauge->value, value, memory_order_relaxed);
}

static inline uint64_t metric_get(const struct metric_counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

void metric_observe_us(struct metric_histogram *histogram, uint64_t us);

/* Adds the count of each bucket to `counts`, so that a caller can sum up or subtract histograms. */
void metric_add_buckets(const struct metric_histogram *histogram, uint64_t counts[METRIC_BUCKETS]);

/* Returns, in µs, the quantile `per_mille` of bucket counts, interpolated within its bucket; -1
 * when all counts are 0. */
double metric_quantile_of(const uint64_t counts[METRIC_BUCKETS], uint32_t per_mille);

/* These functions write Prometheus text 0.0.4. `labels` is like `op="get"` or NULL. metric_head
 * writes the two head lines (HELP, TYPE): call it once per name. Histograms are in seconds; their
 * count is the sum of the buckets that are printed. */
void metric_head(struct buf *out, const char *name, const char *type, const char *help);
void metric_put(struct buf *out, const char *name, const char *labels, uint64_t value);
/* These two write the head and the only value of a family. */
void metric_put_gauge(struct buf *out, const char *name, const char *help, uint64_t value);
void metric_put_counter(struct buf *out, const char *name, const char *help, uint64_t value);

/* For the families of a list X(member, type, name, help): METRIC_MEMBER declares the member,
 * METRIC_PUT writes its lines. */
#define METRIC_MEMBER(member, type, name, help) struct metric_counter member;
#define METRIC_PUT(member, type, name, help) \
    metric_put_##type(out, name, help, metric_get(&metrics->member));

void metric_put_double(struct buf *out, const char *name, const char *labels, double value);
void metric_put_histogram(struct buf *out, const char *name, const char *labels,
                          const struct metric_histogram *histogram);

#endif
