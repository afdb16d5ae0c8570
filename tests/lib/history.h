/*
 * history.h - what the clients of a running ensemble did and saw, and a check whether all of it
 * is possible.
 *
 * Every answer names the zxid of the state that it reflects, so no search is needed: all answers
 * and events are ordered by zxid and compared with a naive model of a few keys. A write of unknown
 * outcome may have happened or not. No other write has its value, so a client that sees this value
 * shows that the write has happened.
 *
 * Each client or watcher records into a log of its own, from one thread; the check runs afterwards.
 */
#ifndef TESTS_LIB_HISTORY_H
#define TESTS_LIB_HISTORY_H

#include "base/logrec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HISTORY_KEYS = 8,
    HISTORY_ROOT = HISTORY_KEYS, /* The parent of all keys, as the key of an event. */
    HISTORY_STEPS_MAX = 4,       /* Steps of a multi, each for another key. */
    HISTORY_LOGS_MAX = 32,
    HISTORY_ITEMS_MAX = 4 << 20, /* Items of one log. */
    HISTORY_TEXT_MAX = 512
};

enum history_what {
    HISTORY_GET,
    HISTORY_LIST, /* The names of all existing keys. */
    HISTORY_CREATE,
    HISTORY_SET,
    HISTORY_DELETE,
    HISTORY_CHECK,  /* Only in a multi. */
    HISTORY_CLOSE,  /* Ends the session of the operation; deletes its ephemerals. */
    HISTORY_CHANGED /* Only in a difference: the children of the root have changed. */
};

enum history_outcome {
    HISTORY_OK,
    HISTORY_NO_NODE, /* Refused, on the basis of the state at the zxid of the answer. */
    HISTORY_NODE_EXISTS,
    HISTORY_BAD_VERSION,
    HISTORY_NOT_DONE, /* Not applied, for another reason. */
    HISTORY_UNKNOWN
};

/* A key as a client saw it. */
struct history_seen {
    bool present;
    zxid_t czxid;
    zxid_t mzxid;
    zxid_t owner; /* Its session; 0: not an ephemeral. */
    int32_t version;
    uint32_t value; /* Number of the value, which at most one write has; 0: not seen. */
};

struct history_step {
    enum history_what what;
    uint32_t key;
    uint32_t value;   /* CREATE, SET: what is written. */
    bool ephemeral;   /* CREATE: in the session of the operation. */
    bool has_version; /* SET, DELETE, CHECK: only if the version is `version`. */
    int32_t version;
    bool has_seen; /* GET: what was read. CREATE, SET: the stat in the answer. */
    struct history_seen seen;
};

struct history_op {
    uint32_t connection; /* Unique; its answers come in the order of the log. */
    uint64_t start_us;
    uint64_t end_us;
    bool linearizable; /* Of reads; writes always are linearizable. */
    zxid_t min_zxid;   /* Of reads; 0: no minimum. */
    enum history_outcome outcome;
    uint32_t failed;   /* The refused step. */
    zxid_t zxid;       /* Of the answer. */
    zxid_t session;    /* The session of the request; 0: none. */
    zxid_t not_before; /* UNKNOWN: another try showed that at this zxid it was not done; or 0. */
    zxid_t not_after;  /* UNKNOWN: its session has moved on, and it cannot happen above; or 0. */
    uint32_t listed;   /* LIST: a bit for each key. */
    uint32_t count;
    struct history_step steps[HISTORY_STEPS_MAX];
};

static inline bool history_is_write(const struct history_step *step)
{
    return step->what == HISTORY_CREATE || step->what == HISTORY_SET ||
           step->what == HISTORY_DELETE;
}

static inline bool history_changes(const struct history_op *op)
{
    for (uint32_t i = 0; i < op->count; i++) {
        if (history_is_write(&op->steps[i])) {
            return true;
        }
    }
    return false;
}

/* Whether the operation requests the end of its session, and nothing else. */
static inline bool history_closes(const struct history_op *op)
{
    return op->count == 1 && op->steps[0].what == HISTORY_CLOSE;
}

/* Whether the answer reflects the state at its zxid. */
static inline bool history_names_state(const struct history_op *op)
{
    return op->outcome < HISTORY_NOT_DONE;
}

enum history_item_kind {
    HISTORY_STARTED,  /* A watch of the root and all below, from `zxid` on. */
    HISTORY_REPLAYED, /* Resumed after `since`; the events that follow are exact. */
    HISTORY_DIFFED,   /* Resumed: the difference between `since` and `zxid` follows. */
    HISTORY_GAP,      /* The changes up to `zxid` are lost. */
    HISTORY_EVENT,
    HISTORY_BOOKMARK, /* A heartbeat or an answer at `zxid`: everything up to there was sent. */
    HISTORY_LOST,     /* The connection was lost; events of an incomplete zxid are sent again. */
    HISTORY_OVERRUN   /* The events after `since` were dropped and follow again. */
};

struct history_item {
    enum history_item_kind kind;
    uint64_t at_us;
    zxid_t zxid;
    zxid_t since;
    enum history_what what; /* Of an event. */
    uint32_t key;
    bool end;  /* The last event of its zxid. */
    bool diff; /* An event of a difference. */
    bool has_seen;
    struct history_seen seen;
};

/* The record of one client or watcher. */
struct history_log {
    char name[32];
    struct history_op *ops;
    size_t op_count;
    struct history_item *items;
    size_t item_count;
};

void history_log_init(struct history_log *log, const char *name);
void history_log_release(struct history_log *log);
void history_add_op(struct history_log *log, const struct history_op *op);
void history_add_item(struct history_log *log, const struct history_item *item);

struct history_report {
    const char *rule; /* The violated rule; NULL: none. */
    char text[HISTORY_TEXT_MAX];
    uint32_t writes; /* Acknowledged writes. */
    uint32_t reads;
    uint32_t refused;
    uint32_t unknown;
    uint32_t found; /* Writes of unknown outcome that have happened. */
    uint32_t changes;
    uint32_t closed; /* Closes that succeeded, or whose outcome is unknown. */
    uint32_t lives;  /* Ephemerals of closed sessions. */
    uint32_t events;
    uint32_t diffs;
    uint32_t gaps;
};

/*
 * The rules:
 *
 * - once: each acknowledged write has one zxid of its own; no value appears at two zxids.
 * - refused: a write that was answered as not done is never seen.
 * - unasked: each change was requested by a client, and none is seen before its request.
 * - moved: no change of a connection happens when its session has moved to another one.
 * - one-story: all reports about one zxid and key agree.
 * - model: the changes of a key, by zxid, match a naive key: versions, czxids, conditions.
 * - state: a read or a refusal matches the model at the zxid of the answer.
 * - session: the ephemerals of a session end with it, in one transaction, and none comes later.
 * - real-time: a linearizable read, or the refusal of a write, is answered at or above each zxid
 *   that a client knew before the request; a write that was done is above all of them.
 * - order: answers on one connection do not go back; writes go forward.
 * - minimum: no answer is behind the demanded zxid.
 * - watch: a watcher receives each change once, in order, before an answer that includes it; a
 *   difference contains all that has changed.
 *
 * Several tries of a write with one key are one operation, from the first try on.
 */
void history_check(const struct history_log *const *logs, size_t count,
                   struct history_report *ret_report);

#endif
