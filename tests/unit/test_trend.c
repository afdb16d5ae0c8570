/* The rings of the recent past: what was measured, what was not, and how much is kept. */
#include "server/process/trend.h"
#include "tests/lib/unit.h"

#include <jansson.h>
#include <math.h>

enum {
    TEXT_MAX = 4 << 20,
    WALL_S = 1000000 /* Wall clock at second 0 of the monotonic one. */
};

/* One second's values: the first series counts seconds, the others are unknown. */
static void put(struct trend *trend, uint32_t step_s, uint64_t second)
{
    float values[TREND_COUNT];

    for (size_t i = 0; i < TREND_COUNT; i++) {
        values[i] = NAN;
    }
    values[0] = (float)second;
    trend_put(trend, step_s, second * 1000 + 500, (int64_t)(WALL_S + second) * 1000 + 500, values);
}

static json_t *ask(struct trend *trend, uint32_t step_s, int64_t since_s, const char *series)
{
    const struct trend_request request = {
        .step_s = step_s, .since_s = since_s, .series = slice_str(series)};
    const char *why = NULL;
    struct buf text;
    struct jsonw json;

    assert_int_equal(trend_check(&request, &why), ERR_OK);
    buf_init(&text, TEXT_MAX);
    jsonw_init(&json, &text);
    trend_write(trend, &request, &json);
    json_t *value = json_loads(buf_cstr(&text), 0, NULL);

    assert_non_null(value);
    buf_release(&text);
    return value;
}

static json_t *times_of(const json_t *value)
{
    return json_object_get(value, "times");
}

static json_t *reads_of(const json_t *value)
{
    return json_object_get(json_object_get(value, "series"), "reads");
}

TEST(the_rings_start_empty)
{
    struct trend *trend = trend_new();
    json_t *value = ask(trend, TREND_FINE_S, 0, "");

    assert_int_equal(json_array_size(times_of(value)), 0);
    assert_int_equal(json_object_size(json_object_get(value, "series")), TREND_COUNT);
    assert_int_equal(json_array_size(reads_of(value)), 0);
    json_decref(value);
    trend_free(trend);
}

TEST(values_have_their_times)
{
    struct trend *trend = trend_new();

    for (uint64_t second = 100; second < 110; second++) {
        put(trend, TREND_FINE_S, second);
    }
    json_t *value = ask(trend, TREND_FINE_S, 0, "reads,cpu");

    assert_int_equal(json_integer_value(json_object_get(value, "step")), 1);
    assert_int_equal(json_array_size(times_of(value)), 10);
    assert_int_equal(json_integer_value(json_array_get(times_of(value), 0)), WALL_S + 100);
    assert_int_equal((int)json_number_value(json_array_get(reads_of(value), 0)), 100);
    assert_int_equal((int)json_number_value(json_array_get(reads_of(value), 9)), 109);
    assert_int_equal(json_object_size(json_object_get(value, "series")), 2);
    assert_true(
        json_is_null(json_array_get(json_object_get(json_object_get(value, "series"), "cpu"), 0)));
    json_decref(value);

    value = ask(trend, TREND_FINE_S, WALL_S + 106, "reads");
    assert_int_equal(json_array_size(times_of(value)), 3);
    assert_int_equal(json_integer_value(json_array_get(times_of(value), 0)), WALL_S + 107);
    json_decref(value);
    value = ask(trend, TREND_FINE_S, WALL_S + 109, "reads");
    assert_int_equal(json_array_size(times_of(value)), 0);
    json_decref(value);
    trend_free(trend);
}

/* A paused process leaves a hole, not a line. */
TEST(missing_values_are_null)
{
    struct trend *trend = trend_new();

    put(trend, TREND_FINE_S, 10);
    put(trend, TREND_FINE_S, 14);
    put(trend, TREND_FINE_S, 14);
    json_t *value = ask(trend, TREND_FINE_S, 0, "reads");

    assert_int_equal(json_array_size(times_of(value)), 5);
    for (size_t i = 1; i < 4; i++) {
        assert_true(json_is_null(json_array_get(reads_of(value), i)));
    }
    assert_int_equal((int)json_number_value(json_array_get(reads_of(value), 4)), 14);
    json_decref(value);

    put(trend, TREND_FINE_S, 14 + 100 * (uint64_t)TREND_FINE_SLOTS);
    value = ask(trend, TREND_FINE_S, 0, "reads");
    assert_int_equal(json_array_size(times_of(value)), TREND_FINE_SLOTS);
    assert_true(json_is_null(json_array_get(reads_of(value), 0)));
    assert_true(json_is_null(json_array_get(reads_of(value), TREND_FINE_SLOTS - 2)));
    json_decref(value);
    trend_free(trend);
}

TEST(rings_are_bounded)
{
    struct trend *trend = trend_new();
    uint64_t seconds = (uint64_t)TREND_COARSE_S * TREND_COARSE_SLOTS * 2;

    for (uint64_t second = 0; second < seconds; second++) {
        put(trend, TREND_FINE_S, second);
        if (second % TREND_COARSE_S == 0) {
            put(trend, TREND_COARSE_S, second);
        }
    }
    json_t *value = ask(trend, TREND_FINE_S, 0, "reads");

    assert_int_equal(json_array_size(times_of(value)), TREND_FINE_SLOTS);
    assert_int_equal(json_integer_value(json_array_get(times_of(value), TREND_FINE_SLOTS - 1)),
                     WALL_S + seconds - 1);
    json_decref(value);
    value = ask(trend, TREND_COARSE_S, 0, "reads");
    assert_int_equal(json_array_size(times_of(value)), TREND_COARSE_SLOTS);
    assert_int_equal(json_integer_value(json_array_get(times_of(value), 1)) -
                         json_integer_value(json_array_get(times_of(value), 0)),
                     TREND_COARSE_S);
    json_decref(value);
    trend_free(trend);
}

/* The two clocks tick at different moments: times must not alternate by a second. */
TEST(times_do_not_jitter)
{
    struct trend *trend = trend_new();
    float values[TREND_COUNT] = {0};

    trend_put(trend, TREND_FINE_S, 1500, 10999, values);
    trend_put(trend, TREND_FINE_S, 2501, 12000, values);
    trend_put(trend, TREND_FINE_S, 3500, 12999, values);
    json_t *value = ask(trend, TREND_FINE_S, 0, "reads");

    assert_int_equal(json_integer_value(json_array_get(times_of(value), 0)), 10);
    assert_int_equal(json_integer_value(json_array_get(times_of(value), 2)), 12);
    json_decref(value);
    trend_put(trend, TREND_FINE_S, 4500, 99000, values); /* The clock was set. */
    value = ask(trend, TREND_FINE_S, 0, "reads");
    assert_int_equal(json_integer_value(json_array_get(times_of(value), 3)), 99);
    json_decref(value);
    trend_free(trend);
}

TEST(invalid_requests_are_refused)
{
    const char *why = NULL;

    assert_int_equal(trend_check(&(struct trend_request){.step_s = 5}, &why), ERR_BAD_ARGUMENTS);
    assert_non_null(strstr(why, "1 or 10"));
    assert_int_equal(
        trend_check(&(struct trend_request){.step_s = 1, .series = slice_str("reads,colour")},
                    &why),
        ERR_BAD_ARGUMENTS);
    assert_non_null(strstr(why, "series"));
}
