/* slow_int.h - clients that do not read their answers; for the acceptor, with conns_mutex held. */
#ifndef HTTP_SLOW_INT_H
#define HTTP_SLOW_INT_H

#include "http/http_int.h"

/* One scan of all connections, and those that may be closed while the budget is short. */
struct http_slowest {
    enum budget_level level;
    uint64_t now_ms;
    uint64_t used;   /* Bytes of the budget in use. */
    uint64_t excess; /* Bytes above the limit of BUDGET_ROOMY. */
    bool refused;    /* The budget has refused something since the last scan. */
    uint32_t going;  /* Closed before, but still holding bytes. */
    uint32_t count;
    struct http_conn *conns[HTTP_SLOWEST_MAX]; /* The smallest credit first. */
};

/* The credit at a scan `elapsed_ms` after the last one, when the client has read `taken` bytes
 * since: each ms costs HTTP_BYTES_PER_MS. At most HTTP_PACE_CREDIT, the credit at the start of an
 * answer: a client's kernel that takes much at once does not protect the client for long. Pure. */
int64_t http_pace_credit(int64_t credit, uint64_t taken, uint64_t elapsed_ms);

void http_slow_begin(struct http *http, uint64_t now_ms, struct http_slowest *ret_slowest);

/* Scans one connection. True: its client has read nothing for slowTimeout; close it now. */
bool http_slow_look(struct http_conn *conn, uint32_t phase, uint64_t deadline_ms,
                    struct http_slowest *slowest);

/* After the scan: how many of slowest->conns to close. When the last closing freed too little,
 * because several connections share the same value, at least twice as many slow ones. */
uint32_t http_slow_choose(struct http_relief *relief, const struct http_slowest *slowest);

#endif
