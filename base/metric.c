#include "base/metric.h"

#include "base/check.h"
#include "base/minmax.h"

/* Returns the smallest i with us <= 2^i; the last bucket takes all larger values. */
static unsigned bucket_of(uint64_t us)
{
    if (us <= 1) {
        return 0;
    }

    unsigned bits = 64 - (unsigned)__builtin_clzll(us - 1);

    return min_u32(bits, METRIC_BUCKETS - 1);
}

void metric_observe_us(struct metric_histogram *histogram, uint64_t us)
{
    atomic_fetch_add_explicit(&histogram->buckets[bucket_of(us)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum_us, us, memory_order_relaxed);
}

void metric_add_buckets(const struct metric_histogram *histogram, uint64_t counts[METRIC_BUCKETS])
{
    for (unsigned i = 0; i < METRIC_BUCKETS; i++) {
        counts[i] += atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
    }
}

double metric_quantile_of(const uint64_t counts[METRIC_BUCKETS], uint32_t per_mille)
{
    uint64_t total = 0;
    double before = 0;

    ASSERT(per_mille <= 1000);
    for (unsigned i = 0; i < METRIC_BUCKETS; i++) {
        total += counts[i];
    }

    double wanted = (double)total * per_mille / 1000;

    for (unsigned i = 0; i < METRIC_BUCKETS && total > 0; i++) {
        double low = i > 0 ? (double)(UINT64_C(1) << (i - 1)) : 0;
        double high = (double)(UINT64_C(1) << i);

        if (counts[i] > 0 && before + (double)counts[i] >= wanted) {
            return low + (high - low) * (wanted - before) / (double)counts[i];
        }
        before += (double)counts[i];
    }
    return -1;
}

void metric_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_name(struct buf *out, const char *name, const char *labels)
{
    buf_append_str(out, name);
    if (labels) {
        buf_printf(out, "{%s}", labels);
    }
}

void metric_put(struct buf *out, const char *name, const char *labels, uint64_t value)
{
    put_name(out, name, labels);
    buf_printf(out, " %llu\n", (unsigned long long)value);
}

void metric_put_gauge(struct buf *out, const char *name, const char *help, uint64_t value)
{
    metric_head(out, name, "gauge", help);
    metric_put(out, name, NULL, value);
}

void metric_put_counter(struct buf *out, const char *name, const char *help, uint64_t value)
{
    metric_head(out, name, "counter", help);
    metric_put(out, name, NULL, value);
}

void metric_put_double(struct buf *out, const char *name, const char *labels, double value)
{
    put_name(out, name, labels);
    buf_printf(out, " %.12g\n", value);
}

static void put_bucket(struct buf *out, const char *name, const char *labels, unsigned i,
                       uint64_t cumulative)
{
    buf_printf(out, "%s_bucket{%s%sle=\"", name, labels ? labels : "", labels ? "," : "");
    if (i == METRIC_BUCKETS - 1) {
        buf_append_str(out, "+Inf");
    } else {
        buf_printf(out, "%.6f", (double)(UINT64_C(1) << i) / 1e6);
    }
    buf_printf(out, "\"} %llu\n", (unsigned long long)cumulative);
}

/* Writes a histogram. Its count is the sum of the buckets that were written, so that the numbers of
 * one scrape agree while other threads keep counting. */
void metric_put_histogram(struct buf *out, const char *name, const char *labels,
                          const struct metric_histogram *histogram)
{
    uint64_t counts[METRIC_BUCKETS] = {0};
    uint64_t sum_us = atomic_load_explicit(&histogram->sum_us, memory_order_relaxed);
    uint64_t cumulative = 0;
    const char *open = labels ? "{" : "";
    const char *close = labels ? "}" : "";

    metric_add_buckets(histogram, counts);
    for (unsigned i = 0; i < METRIC_BUCKETS; i++) {
        cumulative += counts[i];
        put_bucket(out, name, labels, i, cumulative);
    }
    labels = labels ? labels : "";
    buf_printf(out, "%s_sum%s%s%s %.6f\n", name, open, labels, close, (double)sum_us / 1e6);
    buf_printf(out, "%s_count%s%s%s %llu\n", name, open, labels, close,
               (unsigned long long)cumulative);
}
