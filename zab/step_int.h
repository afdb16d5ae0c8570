/*
 * step_int.h - which learners keep up with the leader's log. Only files of zab/ include it, through
 * zab_int.h.
 */
#ifndef ZAB_STEP_INT_H
#define ZAB_STEP_INT_H

#include "zab/zab.h"

enum {
    STEP_SAMPLES = 8 /* Samples of the log's end; half of them cover step_lag_ms. */
};

struct peer;

/* Where the leader's log ended at some time. */
struct step_sample {
    uint64_t ms;
    zxid_t last;
};

struct step {
    struct step_sample samples[STEP_SAMPLES]; /* A ring. */
    uint64_t count;                           /* Of all samples since this replica broadcasts. */
    uint64_t due_ms;                          /* When the next one is due. */
};

/* Leader: takes a sample when it is due. */
void step_tick(struct zab *zab);
bool step_is_kept(const struct zab *zab, const struct peer *peer);
/* For how long the learner has been in step without a break; 0: it is not. */
uint64_t step_kept_ms(const struct zab *zab, const struct peer *peer);

#endif
