/*
 * epochs.h - the epochs of a log and the counters it holds of each. A learner sends them to its
 * leader, and the two find the last record they share. One entry per epoch, ascending.
 */
#ifndef BASE_EPOCHS_H
#define BASE_EPOCHS_H

#include "base/logrec.h"

/* A run of consecutive counters of one epoch in the log. */
struct epoch_range {
    uint32_t epoch;
    uint32_t first; /* Counter of the first record the log still holds. */
    uint32_t last;  /* Counter of the last one. */
};

struct epochs {
    struct epoch_range *ranges;
    size_t count;
    size_t cap;
};

void epochs_release(struct epochs *epochs);
void epochs_clear(struct epochs *epochs);

/* Adds counters first..last of an epoch; they follow everything that is there. */
void epochs_add(struct epochs *epochs, struct epoch_range range);

/* Forgets what comes after `zxid`. */
void epochs_cut(struct epochs *epochs, zxid_t zxid);

/* Forgets `zxid` and what comes before it. */
void epochs_drop_upto(struct epochs *epochs, zxid_t zxid);

#endif
