/*
 * epochs.h - the epochs of a log and the counters it holds of each. A learner sends them to its
 * leader, and the two find the last record they share. One entry per epoch, ascending.
 */
#ifndef STORAGE_EPOCHS_H
#define STORAGE_EPOCHS_H

#include "storage/store.h"

struct epochs {
    struct store_epoch_range *ranges;
    size_t count;
    size_t cap;
};

void epochs_release(struct epochs *epochs);
void epochs_clear(struct epochs *epochs);

/* Adds counters first..last of an epoch; they follow everything that is there. */
void epochs_add(struct epochs *epochs, struct store_epoch_range range);

/* Forgets what comes after `zxid`. */
void epochs_cut(struct epochs *epochs, zxid_t zxid);

/* Forgets what comes before `zxid`, which must be there. */
void epochs_drop_before(struct epochs *epochs, zxid_t zxid);

#endif
