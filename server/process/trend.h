/*
 * trend.h - time series of the recent past, for plots: each in two ring buffers of fixed size.
 *
 * A slot is a step of the monotonic clock. Slots that were not measured, because the process stood
 * still or did not run, are empty, so that a plot shows a gap there. One thread puts values, any
 * thread writes JSON.
 */
#ifndef SERVER_TREND_H
#define SERVER_TREND_H

#include "base/err.h"
#include "base/jsonw.h"
#include "base/slice.h"

enum {
    TREND_FINE_S = 1,       /* Seconds of a step. */
    TREND_FINE_SLOTS = 900, /* 15 minutes. */
    TREND_COARSE_S = 10,
    TREND_COARSE_SLOTS = 2160, /* 6 hours. */
};

/* X(symbol, name): the series. Counters are kept as rates per second. */
#define TREND_MAP(X)                  \
    X(READS, "reads")                 \
    X(WRITES, "writes")               \
    X(ERRORS, "errors")               \
    X(THROTTLED, "throttled")         \
    X(READ_P50, "read_p50_ms")        \
    X(READ_P99, "read_p99_ms")        \
    X(WRITE_P50, "write_p50_ms")      \
    X(WRITE_P99, "write_p99_ms")      \
    X(SYNCS, "log_syncs")             \
    X(SYNC_P50, "log_sync_p50_ms")    \
    X(SYNC_P99, "log_sync_p99_ms")    \
    X(TXNS, "transactions")           \
    X(EVENTS, "events")               \
    X(EXPIRED, "sessions_expired")    \
    X(PEER_IN, "peer_received_bytes") \
    X(PEER_OUT, "peer_sent_bytes")    \
    X(CPU, "cpu")                     \
    X(OUTSTANDING, "outstanding")     \
    X(LOG_QUEUE, "log_queue")         \
    X(BEHIND, "behind")               \
    X(LAG, "lag_ms")                  \
    X(SERVING, "serving")             \
    X(CONNECTIONS, "connections")     \
    X(SOCKETS, "sockets")             \
    X(STREAMS, "streams")             \
    X(WATCHES, "watches")             \
    X(SESSIONS, "sessions")           \
    X(ZNODES, "znodes")               \
    X(EPHEMERALS, "ephemerals")       \
    X(DATA, "data_bytes")             \
    X(LOG, "log_bytes")               \
    X(MEMORY, "memory_bytes")

enum trend_series {
#define X(symbol, name) TREND_##symbol,
    TREND_MAP(X)
#undef X
    TREND_COUNT
};

struct trend;

struct trend *trend_new(void);
void trend_free(struct trend *trend); /* Accepts NULL. */

/* Puts the values of the step of `now_ms` (monotonic); NAN: not known. Values of the same step are
 * replaced. `step_s` is TREND_FINE_S or TREND_COARSE_S. */
void trend_put(struct trend *trend, uint32_t step_s, uint64_t now_ms, int64_t wall_ms,
               const float values[TREND_COUNT]);

struct trend_request {
    uint32_t step_s;     /* TREND_FINE_S or TREND_COARSE_S. */
    int64_t since_s;     /* Only slots after this second of the wall clock. */
    struct slice series; /* Names of series, comma separated; empty: all. */
};

/* OK, or ERR_BAD_ARGUMENTS with a constant text. */
enum err trend_check(const struct trend_request *request, const char **ret_why);

/* Writes {"step","times":[seconds since 1970],"series":{name:[numbers and nulls]}}, oldest first.
 * The times are computed with the present wall clock. */
void trend_write(struct trend *trend, const struct trend_request *request, struct jsonw *json);

#endif
