/*
 * trend.h - time series of the recent past, for plots: each in two ring buffers of fixed size.
 *
 * A slot is a step of the monotonic clock. Slots that were not measured, because the process stood
 * still, are empty, so that a plot shows a gap there. One thread puts values, any thread writes
 * JSON.
 */
#ifndef SERVER_TREND_H
#define SERVER_TREND_H

#include "base/jsonw.h"
#include "server/op/trend_request.h"

enum {
    TREND_FINE_SLOTS = 900,    /* Steps of TREND_FINE_S that are kept: 15 minutes. */
    TREND_COARSE_SLOTS = 2160, /* Steps of TREND_COARSE_S that are kept: 6 hours. */
};

struct trend;

struct trend *trend_new(void);
void trend_free(struct trend *trend); /* Accepts NULL. */

/* Stores the values of the step that contains `now_ms` (monotonic); NAN: not known. Values of the
 * same step are replaced. `step_s` is TREND_FINE_S or TREND_COARSE_S. */
void trend_put(struct trend *trend, uint32_t step_s, uint64_t now_ms, int64_t wall_ms,
               const float values[TREND_COUNT]);

/* Writes one JSON value: {"step","times":[seconds since 1970],"series":{name:[numbers and nulls]}},
 * oldest first. The times follow the wall clock as it is set now. */
void trend_write(struct trend *trend, const struct trend_request *request, struct jsonw *json);

#endif
