/*
 * shares.h - a budget (budget.h) of which the clients of one address get a part at most.
 *
 * Without it one address could use up what all clients share. Amounts are bytes or places. A key is
 * the hash of an address.
 */
#ifndef BASE_SHARES_H
#define BASE_SHARES_H

#include "base/budget.h"
#include "base/map.h"

#include <pthread.h>

struct shares {
    struct budget budget;
    pthread_mutex_t mutex;
    struct map taken;     /* From a key to an amount, which is kept in the pointer itself. */
    uint64_t address_max; /* Constant after shares_init. */
};

void shares_init(struct shares *shares, uint64_t max, uint64_t address_max);
void shares_release(struct shares *shares); /* All was given back. */

/* Any thread. False when `amount` more would exceed the budget or the part of the address; then
 * nothing is taken. */
bool shares_try_take(struct shares *shares, uint64_t key, size_t amount);

/* Any thread. Takes the amount in any case. */
void shares_take(struct shares *shares, uint64_t key, size_t amount);

/* Any thread. Gives back what one of the two above has taken. */
void shares_give(struct shares *shares, uint64_t key, size_t amount);

#endif
