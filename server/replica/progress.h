/*
 * progress.h - when the log, the disk or the commit index of this replica reached a zxid.
 *
 * Answers "how long did this write wait for the disk" without work per write: a mark is made when
 * a zxid has advanced, at most one per millisecond, and searched only for writes of this replica's
 * clients. Old marks are overwritten, so a time may be later than the true one when a write took
 * longer than the marks reach back: at least PROGRESS_MARKS ms in which something advanced. Pure.
 */
#ifndef SERVER_PROGRESS_H
#define SERVER_PROGRESS_H

#include "base/logrec.h"

enum {
    PROGRESS_MARKS = 1024 /* A power of two. */
};

struct progress_mark {
    zxid_t upto; /* The newest zxid reached at this time. */
    uint64_t ms;
};

/* Zeroed: nothing was reached yet. */
struct progress {
    struct progress_mark marks[PROGRESS_MARKS];
    uint64_t count; /* Marks since the start; mark i is at i % PROGRESS_MARKS. */
};

/* Notes that `zxid` is reached. A zxid that is not newer than all before changes nothing: a log
 * that was cut continues with the zxids of a later epoch. */
void progress_note(struct progress *progress, zxid_t zxid, uint64_t now_ms);

/* Returns when `zxid` was reached; 0: it is not reached yet. */
uint64_t progress_when(const struct progress *progress, zxid_t zxid);

#endif
