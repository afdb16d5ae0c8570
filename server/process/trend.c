#include "server/process/trend.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/thread.h"

#include <math.h>
#include <stdio.h>

enum {
    RINGS = 2,
    NUMBER_MAX = 24 /* Characters of a value. */
};

struct ring {
    uint32_t step_s;
    uint32_t slots;
    float *values;   /* Value of slot s, series i: [(s % slots) * TREND_COUNT + i]. */
    uint64_t last;   /* Newest slot, counted from the beginning of the monotonic clock. */
    uint64_t filled; /* Number of slots in use, up to the newest; 0: none. */
    int64_t zero_s;  /* Wall time of slot 0. */
};

struct trend {
    pthread_mutex_t mutex; /* Guards the rings. */
    struct ring rings[RINGS];
};

static void ring_init(struct ring *ring, uint32_t step_s, uint32_t slots)
{
    *ring = (struct ring){.step_s = step_s, .slots = slots};
    ring->values = mem_zalloc((size_t)slots * TREND_COUNT, sizeof(float));
}

struct trend *trend_new(void)
{
    struct trend *trend = mem_zalloc(1, sizeof(*trend));

    mutex_init(&trend->mutex);
    ring_init(&trend->rings[0], TREND_FINE_S, TREND_FINE_SLOTS);
    ring_init(&trend->rings[1], TREND_COARSE_S, TREND_COARSE_SLOTS);
    return trend;
}

void trend_free(struct trend *trend)
{
    if (!trend) {
        return;
    }
    for (size_t i = 0; i < RINGS; i++) {
        mem_free(trend->rings[i].values);
    }
    mutex_destroy(&trend->mutex);
    mem_free(trend);
}

static struct ring *ring_of(struct trend *trend, uint32_t step_s)
{
    ASSERT(step_s == TREND_FINE_S || step_s == TREND_COARSE_S);
    return &trend->rings[step_s == TREND_FINE_S ? 0 : 1];
}

static float *slot_at(const struct ring *ring, uint64_t slot)
{
    return ring->values + (slot % ring->slots) * TREND_COUNT;
}

/* Moves the end to `slot`; the slots in between stay empty. */
static void advance(struct ring *ring, uint64_t slot)
{
    uint64_t steps = ring->filled > 0 ? slot - ring->last : 1;

    steps = min_u64(steps, ring->slots);
    for (uint64_t i = 1; i < steps; i++) {
        float *values = slot_at(ring, slot - i);

        for (uint32_t series = 0; series < TREND_COUNT; series++) {
            values[series] = NAN;
        }
    }
    ring->filled = min_u64(ring->filled + steps, ring->slots);
    ring->last = slot;
}

/* Follows a change of the wall clock. The seconds of the wall clock and of the monotonic clock
 * begin at different moments, so a difference of one second is no change. */
static void keep_time(struct ring *ring, int64_t zero_s)
{
    int64_t off_s = zero_s - ring->zero_s;

    if (off_s < -1 || off_s > 1) {
        ring->zero_s = zero_s;
    }
}

static int64_t time_of(const struct ring *ring, uint64_t slot)
{
    return ring->zero_s + (int64_t)(slot * ring->step_s);
}

void trend_put(struct trend *trend, uint32_t step_s, uint64_t now_ms, int64_t wall_ms,
               const float values[TREND_COUNT])
{
    struct ring *ring = ring_of(trend, step_s);
    uint64_t slot = now_ms / (step_s * UINT64_C(1000));

    MUTEX_HOLD(&trend->mutex);
    ASSERT(ring->filled == 0 || slot >= ring->last); /* The clock never goes back. */
    if (ring->filled == 0 || slot > ring->last) {
        advance(ring, slot);
    }
    keep_time(ring, wall_ms / 1000 - (int64_t)(slot * step_s));
    memcpy(slot_at(ring, slot), values, TREND_COUNT * sizeof(float));
}

static void write_number(float value, struct jsonw *json)
{
    char text[NUMBER_MAX];
    int len = 0;

    if (!isfinite(value)) {
        jsonw_null(json);
        return;
    }
    len = snprintf(text, sizeof(text), "%.5g", (double)value);
    ASSERT(len > 0 && (size_t)len < sizeof(text));
    jsonw_raw(json, slice_make(text, (size_t)len));
}

void trend_write(struct trend *trend, const struct trend_request *request, struct jsonw *json)
{
    struct ring *ring = ring_of(trend, request->step_s);

    MUTEX_HOLD(&trend->mutex);
    int64_t last_s = time_of(ring, ring->last);
    uint64_t age_s = request->since_s < last_s ? (uint64_t)(last_s - request->since_s) : 0;
    /* The newest slots that are later than `since_s`. */
    uint64_t slots = min_u64((age_s + ring->step_s - 1) / ring->step_s, ring->filled);

    jsonw_object(json);
    jsonw_kv_u64(json, "step", ring->step_s);
    jsonw_kv_array(json, "times");
    for (uint64_t i = slots; i > 0; i--) {
        jsonw_i64(json, time_of(ring, ring->last - (i - 1)));
    }
    jsonw_array_end(json);
    jsonw_kv_object(json, "series");
    for (uint32_t i = 0; i < TREND_COUNT; i++) {
        if (trend_is_wanted(request, i)) {
            jsonw_kv_array(json, trend_series_name(i));
            for (uint64_t slot = slots; slot > 0; slot--) {
                write_number(slot_at(ring, ring->last - (slot - 1))[i], json);
            }
            jsonw_array_end(json);
        }
    }
    jsonw_object_end(json);
    jsonw_object_end(json);
}
