/*
 * trend.h - the recent past as numbers for plots: some series, each in two rings of fixed size.
 *
 * A slot is a step of the monotonic clock. Slots that nobody has measured, while the process stood
 * still or before it was started, hold nothing, so that a plot shows a gap and no line across it.
 * One thread puts, any thread writes.
 */
#ifndef SERVER_TREND_H
#define SERVER_TREND_H

#include "base/err.h"
#include "base/jsonw.h"
#include "base/slice.h"

enum {
    TREND_FINE_S = 1, /* Seconds of a step ... */
    TREND_FINE_SLOTS = 900 /* ... and how many are kept: 15 minutes. */,
    TREND_COARSE_S = 10,
    TREND_COARSE_SLOTS = 2160, /* 6 hours. */
};

/* X(symbol, name): what is kept. Counts of what happens are per second. */
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

/* The values of the step that `now_ms` (monotonic) lies in; NAN: not known. The same step again
 * replaces them. `step_s` is one of the two. */
void trend_put(struct trend *trend, uint32_t step_s, uint64_t now_ms, int64_t wall_ms,
               const float values[TREND_COUNT]);

struct trend_request {
    uint32_t step_s;     /* One of the two. */
    int64_t since_s;     /* Only what came after this second of the wall clock. */
    struct slice series; /* Names of those that are wanted, comma separated; empty: all. */
};

/* OK, or ERR_BAD_ARGUMENTS with a constant sentence. */
enum err trend_check(const struct trend_request *request, const char **ret_why);

/* One value: {"step","times":[seconds since 1970],"series":{name:[numbers and nulls]}}, oldest
 * first. The times are those of the wall clock as it is now. */
void trend_write(struct trend *trend, const struct trend_request *request, struct jsonw *json);

#endif
