/*
 * trend_request.h - which of the recorded figures a request asks for: a step and some series.
 *
 * The names are part of the API; server/process/trend.h keeps the figures. The code is pure.
 */
#ifndef SERVER_TREND_REQUEST_H
#define SERVER_TREND_REQUEST_H

#include "base/err.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TREND_FINE_S = 1, /* The two possible steps, in seconds: fine and coarse. */
    TREND_COARSE_S = 10
};

/* X(symbol, name): the recorded figures. Counters are shown per second. */
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
    X(NATIVE_OPS, "native_requests")  \
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
    X(NATIVE, "native")               \
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

struct trend_request {
    uint32_t step_s;     /* TREND_FINE_S or TREND_COARSE_S. */
    int64_t since_s;     /* Only steps after this second of the wall clock are wanted. */
    struct slice series; /* Names of the wanted series, comma separated; empty: all. */
};

/* Returns ERR_OK, or ERR_BAD_ARGUMENTS with a constant sentence. */
enum err trend_check(const struct trend_request *request, const char **ret_why);

const char *trend_series_name(enum trend_series series);

/* Whether the request asks for that series. */
bool trend_is_wanted(const struct trend_request *request, enum trend_series series);

#endif
