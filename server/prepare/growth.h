/*
 * growth.h - how much memory the requests in flight will add to the state.
 *
 * One number for each transaction that grows the state. What a transaction frees counts only once
 * it is applied, in the state's own sum. So the sum of both is never too small, and an error in one
 * number ends with its transaction. Core thread.
 */
#ifndef SERVER_GROWTH_H
#define SERVER_GROWTH_H

#include "base/logrec.h"

#include <stddef.h>
#include <stdint.h>

struct growth_entry {
    zxid_t zxid;
    uint64_t bytes;
};

struct growth {
    struct growth_entry *ring; /* By zxid, from `first` on. */
    size_t first;
    size_t count;
    size_t cap;         /* A power of two. */
    uint64_t in_flight; /* Sum of the ring. */
    int64_t request;    /* Of the current request, without its remembered answer. */
    uint64_t answer;    /* The remembered answer of the current request. */
};

void growth_init(struct growth *growth);
void growth_release(struct growth *growth);

/* Drops all entries. */
void growth_clear(struct growth *growth);

/* The current request begins; it has become transaction `zxid`. */
void growth_begin(struct growth *growth);
void growth_commit(struct growth *growth, zxid_t zxid);

/* The state has applied up to `zxid`. */
void growth_applied(struct growth *growth, zxid_t zxid);

/* Bytes that the current request adds; 0 when it frees as much as it takes. */
uint64_t growth_of_request(const struct growth *growth);

#endif
