#include "base/metric.h"
#include "tests/lib/unit.h"

TEST(counter_and_gauge)
{
    struct metric_counter counter = {0};

    metric_add(&counter, 2);
    metric_add(&counter, 3);
    assert_true(metric_get(&counter) == 5);
    metric_set(&counter, 1);
    assert_true(metric_get(&counter) == 1);
}

TEST(bucket_bounds_are_inclusive)
{
    struct metric_histogram histogram = {0};

    metric_observe_us(&histogram, 0);
    metric_observe_us(&histogram, 1);
    metric_observe_us(&histogram, 2);
    metric_observe_us(&histogram, 3);
    metric_observe_us(&histogram, 4);
    metric_observe_us(&histogram, 5);
    metric_observe_us(&histogram, 1 << 22);
    metric_observe_us(&histogram, (1 << 22) + 1);
    assert_true(histogram.buckets[0] == 2);
    assert_true(histogram.buckets[1] == 1);
    assert_true(histogram.buckets[2] == 2);
    assert_true(histogram.buckets[3] == 1);
    assert_true(histogram.buckets[22] == 1);
    assert_true(histogram.buckets[23] == 1);
}

TEST(text)
{
    struct buf out;

    buf_init(&out, 1 << 16);
    metric_head(&out, "zabra_ops_total", "counter", "Operations.");
    metric_put(&out, "zabra_ops_total", "op=\"get\"", UINT64_MAX);
    metric_put(&out, "zabra_up", NULL, 1);
    metric_put_double(&out, "zabra_ratio", NULL, 0.25);
    assert_string_equal(buf_cstr(&out), "# HELP zabra_ops_total Operations.\n"
                                        "# TYPE zabra_ops_total counter\n"
                                        "zabra_ops_total{op=\"get\"} 18446744073709551615\n"
                                        "zabra_up 1\n"
                                        "zabra_ratio 0.25\n");
    buf_release(&out);
}

TEST(histogram_text)
{
    struct metric_histogram histogram = {0};
    struct buf out;

    metric_observe_us(&histogram, 1);
    metric_observe_us(&histogram, 1500000);
    metric_observe_us(&histogram, 100000000);
    buf_init(&out, 1 << 16);
    metric_put_histogram(&out, "t_seconds", "op=\"get\"", &histogram);

    const char *text = buf_cstr(&out);

    assert_ptr_equal(strstr(text, "t_seconds_bucket{op=\"get\",le=\"0.000001\"} 1\n"), text);
    assert_non_null(strstr(text, "t_seconds_bucket{op=\"get\",le=\"1.048576\"} 1\n"));
    assert_non_null(strstr(text, "t_seconds_bucket{op=\"get\",le=\"2.097152\"} 2\n"));
    assert_non_null(strstr(text, "t_seconds_bucket{op=\"get\",le=\"4.194304\"} 2\n"
                                 "t_seconds_bucket{op=\"get\",le=\"+Inf\"} 3\n"
                                 "t_seconds_sum{op=\"get\"} 101.500001\n"
                                 "t_seconds_count{op=\"get\"} 3\n"));
    buf_clear(&out);
    metric_put_histogram(&out, "t_seconds", NULL, &histogram);
    text = buf_cstr(&out);
    assert_non_null(strstr(text, "t_seconds_bucket{le=\"+Inf\"} 3\nt_seconds_sum 101.500001\n"
                                 "t_seconds_count 3\n"));
    buf_release(&out);
}

TEST(quantiles_of_differences)
{
    struct metric_histogram histogram = {.sum_us = 0};
    uint64_t counts[METRIC_BUCKETS] = {0};

    assert_true(metric_quantile_of(counts, 500) < 0);
    for (int i = 0; i < 4; i++) {
        metric_observe_us(&histogram, 100); /* Between 64 and 128. */
    }
    metric_add_buckets(&histogram, counts);
    metric_add_buckets(&histogram, counts);
    assert_int_equal(counts[7], 8);
    assert_int_equal((int)metric_quantile_of(counts, 500), 96);
    assert_int_equal((int)metric_quantile_of(counts, 1000), 128);
    counts[0] = 8;
    assert_int_equal((int)metric_quantile_of(counts, 500), 1);
    assert_int_equal((int)metric_quantile_of(counts, 750), 96);
}
