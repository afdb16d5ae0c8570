/* slow_int.h - clients that do not take their answers; the acceptor's, under conns_mutex. */
#ifndef HTTP_SLOW_INT_H
#define HTTP_SLOW_INT_H

#include "http/http_int.h"

/* At one look at all connections: those to be cut off while the budget is short. */
struct http_slowest {
    enum budget_level level;
    uint64_t now_ms;
    uint64_t used;   /* Bytes of the budget. */
    uint64_t excess; /* Bytes above what is roomy. */
    bool refused;    /* The budget has refused something since the last look. */
    uint32_t going;  /* Cut off before, and not yet given back what they keep. */
    uint32_t count;
    struct http_conn *conns[HTTP_SLOWEST_MAX]; /* The smallest credit first. */
};

/* Bytes in hand at a look `elapsed_ms` after the last one, when the client has taken so many
 * meanwhile: each ms costs HTTP_BYTES_PER_MS. At most HTTP_PACE_CREDIT, with which an answer
 * begins: what a client's kernel takes in one go does not protect it for long. Pure. */
int64_t http_pace_credit(int64_t credit, uint64_t taken, uint64_t elapsed_ms);

void http_slow_begin(struct http *http, uint64_t now_ms, struct http_slowest *ret_slowest);

/* Looks at one. True: it has taken nothing for slowTimeout and is to be cut off now. */
bool http_slow_look(struct http_conn *conn, uint32_t phase, uint64_t deadline_ms,
                    struct http_slowest *slowest);

/* After the last one: how many of slowest->conns to cut off. When the last cut gave too little,
 * because several keep the same value, at least twice as many slow ones. */
uint32_t http_slow_choose(struct http_relief *relief, const struct http_slowest *slowest);

#endif
