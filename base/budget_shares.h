/*
 * budget_shares.h - a budget (budget.h) of which the clients of one address get a part at most.
 *
 * Without it one address could use up what all clients share. Amounts are bytes or places. A key is
 * the hash of an address.
 */
#ifndef BASE_BUDGET_SHARES_H
#define BASE_BUDGET_SHARES_H

#include "base/budget.h"
#include "base/map.h"

#include <pthread.h>

struct budget_shares {
    struct budget budget;
    pthread_mutex_t mutex;
    struct map taken;     /* From a key to an amount, which is kept in the pointer itself. */
    uint64_t address_max; /* Constant after budget_shares_init. */
};

void budget_shares_init(struct budget_shares *shares, uint64_t max, uint64_t address_max);
void budget_shares_release(struct budget_shares *shares); /* All was given back. */

/* Gives back all that is taken, because its owners will not. */
void budget_shares_forget(struct budget_shares *shares);

/* Any thread. False when `amount` more would exceed the budget or the part of the address; then
 * nothing is taken. */
bool budget_shares_try_take(struct budget_shares *shares, uint64_t key, size_t amount);

/* Any thread. Takes the amount in any case. */
void budget_shares_take(struct budget_shares *shares, uint64_t key, size_t amount);

/* Any thread. Gives back what one of the two above has taken. */
void budget_shares_give(struct budget_shares *shares, uint64_t key, size_t amount);

#endif
