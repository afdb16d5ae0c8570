/*
 * budget.h - bytes in use out of a maximum, shared by threads that do not know each other.
 *
 * A bound per client does not bound all clients together. So each owner of a queue takes from one
 * budget the bytes that it is about to keep, and gives them back when it frees them. A
 * struct budget has no lock and no list of owners. The owners ask for the level and decide
 * themselves what to give up.
 */
#ifndef BASE_BUDGET_H
#define BASE_BUDGET_H

#include "base/map.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget {
    uint64_t max; /* Bytes; constant after budget_init. */
    _Atomic uint64_t used;
    _Atomic uint64_t refusals; /* Times that budget_try_take returned false. */
    _Atomic uint64_t peak;     /* Highest `used` since the last budget_peak, roughly. */
};

enum budget_level {
    BUDGET_ROOMY,
    BUDGET_SHORT, /* At least three quarters are used: owners should drop bytes of slow clients. */
    BUDGET_FULL   /* The maximum is used, or more. */
};

void budget_init(struct budget *budget, uint64_t max);

/* Any thread. False when `bytes` more would exceed the maximum; then nothing is taken. */
bool budget_try_take(struct budget *budget, size_t bytes);

/* Any thread. Takes the bytes even above the maximum: for bytes that are few or already in
 * memory. */
void budget_take(struct budget *budget, size_t bytes);

/* Any thread. Gives back bytes that budget_try_take or budget_take has taken. */
void budget_give(struct budget *budget, size_t bytes);

uint64_t budget_used(const struct budget *budget);

/* Any thread. Returns how often budget_try_take has returned false since budget_init. A count that
 * has grown shows the owners that some data did not fit, even while the level is below
 * BUDGET_FULL. */
uint64_t budget_refusals(const struct budget *budget);

/* Any thread. Returns the highest `used` since the last call; the result may be a little too low
 * when several threads take bytes at the same moment. */
uint64_t budget_peak(struct budget *budget);
enum budget_level budget_level(const struct budget *budget);

/* ---- Relief: how an owner of many queues makes room. To cut a queue means to drop bytes of it.
 * One thread. ---- */

enum {
    BUDGET_RELIEF_MS = 50,        /* Pause after each cut of budget_relieve_early, and after a
                                     cut of budget_relieve that freed nothing. */
    BUDGET_RELIEF_GRACE_MS = 1000 /* A queue is slow when its client took nothing for so long. */
};

struct budget_relief {
    uint64_t next_ms;  /* Time of the next cut while the budget is full; 0 at first. */
    uint64_t early_ms; /* Time of the next cut while the budget is short; 0 at first. */
};

/* Drops bytes of queues whose clients took nothing for `grace_ms`, the slowest first, until
 * budget_is_relieved. */
typedef void budget_cut_fn(void *ctx, uint64_t grace_ms);

/* True when at least half of the budget is free. Relief ends only then, and so frees more bytes
 * than are needed now: otherwise the next few bytes would need relief again. */
bool budget_is_relieved(const struct budget *budget);

/* For a full budget: cuts the slowest queues without a grace period. After a cut that freed
 * nothing, the next one comes BUDGET_RELIEF_MS later. True when the budget is no longer full. */
bool budget_relieve(struct budget_relief *relief, const struct budget *budget, uint64_t now_ms,
                    budget_cut_fn *cut, void *ctx);

/* For a short budget: cuts only queues that are slow by BUDGET_RELIEF_GRACE_MS, so that the budget
 * does not become full and other queues need not be cut. */
void budget_relieve_early(struct budget_relief *relief, uint64_t now_ms, budget_cut_fn *cut,
                          void *ctx);

/* ---- Shares: a budget of which the clients of one address get at most a part. Otherwise one
 * address could use up what all clients share. Amounts are bytes or numbers of connections. A key
 * is the hash of an address. ---- */

struct budget_shares {
    struct budget budget;
    pthread_mutex_t mutex;
    struct map taken;     /* From a key to an amount, which is kept in the pointer itself. */
    uint64_t address_max; /* The most that one key may take; constant. */
};

void budget_shares_init(struct budget_shares *shares, uint64_t max, uint64_t address_max);
void budget_shares_release(struct budget_shares *shares); /* Everything must be given back. */

/* Gives back everything that is taken, for owners that have ended without giving it back. */
void budget_shares_forget(struct budget_shares *shares);

/* Any thread. False when `amount` more would exceed the budget or the part of the address; then
 * nothing is taken. */
bool budget_shares_try_take(struct budget_shares *shares, uint64_t key, size_t amount);

/* Any thread. Takes the amount even above both maxima. */
void budget_shares_take(struct budget_shares *shares, uint64_t key, size_t amount);

/* Any thread. Whether nothing more fits into the budget, or into the part of the address. */
bool budget_shares_is_full(struct budget_shares *shares, uint64_t key);

/* Any thread. Gives back an amount that budget_shares_try_take or budget_shares_take has taken. */
void budget_shares_give(struct budget_shares *shares, uint64_t key, size_t amount);

#endif
