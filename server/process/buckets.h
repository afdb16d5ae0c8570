/*
 * buckets.h - token buckets by name in a table of fixed size.
 *
 * Each name has a number of tokens; they come back one by one. A bucket is one number: the time at
 * which it will be full again. A full bucket holds no information, so its slot is free. Only free
 * slots are reused, except with BUCKETS_REPLACE, so a flood of new names evicts no bucket that is
 * in use. The hash of a name selects a set of slots. New names that find no free slot in their set
 * share one bucket of the set, so a full table limits new names and exempts none. The calls for a
 * name's own bucket (`buckets_own_`) never use the shared one, so that no name is limited by
 * others. All functions may be called on any thread.
 */
#ifndef SERVER_BUCKETS_H
#define SERVER_BUCKETS_H

#include "base/slice.h"

#include <pthread.h>

enum {
    BUCKETS_SETS = 1024, /* A power of two. */
    BUCKETS_WAYS = 8     /* Names that have a bucket of their own in each set. */
};

struct bucket {
    uint64_t key;     /* Hash of the name; 0: never used. */
    uint64_t full_ns; /* The bucket is full from this time on. */
};

struct bucket_set {
    struct bucket ways[BUCKETS_WAYS];
    uint64_t shared_full_ns; /* Like `full_ns`, of the bucket that all other names share. */
};

struct buckets {
    pthread_mutex_t mutex;
    uint64_t seed;
    uint64_t now_ns;     /* The latest time that a call has given; time does not go back. */
    uint64_t token_ns;   /* Time for one token to come back. */
    uint64_t depth_ns;   /* Time for an empty bucket to become full. */
    uint64_t ceiling_ns; /* No bucket needs more time than this to be full. */
    struct bucket_set *sets;
};

/* Each bucket has `tokens`, one of which comes back every `token_ns`. A charge beyond these tokens
 * becomes a debt of at most `debt_ns`. `tokens` and `token_ns` are at least 1. */
void buckets_init(struct buckets *buckets, uint64_t tokens, uint64_t token_ns, uint64_t debt_ns);
void buckets_release(struct buckets *buckets);

/* Changes the numbers of buckets_init. A bucket that is not full is full at the same time as
 * before.
 */
void buckets_set(struct buckets *buckets, uint64_t tokens, uint64_t token_ns, uint64_t debt_ns);

/* Returns the key of the name `text`; names of different kinds have different keys. */
uint64_t buckets_key(const struct buckets *buckets, uint32_t kind, struct slice text);

/* Returns the ns until the bucket has `tokens` tokens or, if it cannot hold so many, until it is
 * full. 0: it has them now. */
uint64_t buckets_wait(struct buckets *buckets, uint64_t key, uint64_t tokens, uint64_t now_ns);

/* Takes tokens; missing tokens become debt, up to `debt_ns`. Returns the ns until the bucket is
 * full again. */
uint64_t buckets_charge(struct buckets *buckets, uint64_t key, uint64_t tokens, uint64_t now_ns);

/* What a charge does for a name without a bucket of its own. */
enum buckets_place {
    BUCKETS_KEEP_OUT, /* Nothing. */
    BUCKETS_IF_FREE,  /* Takes a free slot; does nothing if there is none. */
    BUCKETS_REPLACE   /* Takes a free slot, or evicts the set's bucket that will be full first. */
};

/* buckets_wait for the name's own bucket. False: the name has no bucket or a full one, and
 * *ret_wait_ns is 0. */
bool buckets_own_wait(struct buckets *buckets, uint64_t key, uint64_t tokens, uint64_t now_ns,
                      uint64_t *ret_wait_ns);

/* buckets_charge for the name's own bucket. Returns 0 when the name has no bucket and gets no slot.
 */
uint64_t buckets_own_charge(struct buckets *buckets, uint64_t key, uint64_t tokens, uint64_t now_ns,
                            enum buckets_place place);

#endif
