/* history_int.h - shared by the files of the check. */
#ifndef TESTS_LIB_HISTORY_INT_H
#define TESTS_LIB_HISTORY_INT_H

#include "base/map.h"
#include "tests/lib/history.h"

/* One change of one key, from an answer or an event. */
struct history_fact {
    zxid_t zxid;
    uint32_t key;
    enum history_what what;      /* CREATE, SET, DELETE. */
    uint32_t value;              /* 0: unknown. */
    int32_t version;             /* After the change; -1: unknown. */
    zxid_t czxid;                /* 0: unknown. */
    zxid_t owner;                /* Of a CREATE: its session; 0: none, or unknown. */
    const struct history_op *op; /* The operation that made the change, if known. */
};

/* An operation, and the findings about it. */
struct history_use {
    const struct history_op *op;
    zxid_t floor; /* The highest zxid that any client knew before the request. */
    zxid_t found; /* If its outcome was unknown: the zxid at which it happened; 0: not seen. */
};

/* Some watcher received all changes in (from, to], exactly. */
struct history_span {
    zxid_t from;
    zxid_t to;
};

struct history_case {
    const struct history_log *const *logs;
    size_t log_count;
    struct history_use *uses;
    size_t use_count;
    const struct history_use **open; /* Uses whose outcome is still unknown, and all closes. */
    size_t open_count;
    struct map by_value; /* Number of a value -> struct history_use. */
    struct history_fact *facts;
    size_t fact_count;
    size_t fact_cap;
    struct history_fact **by_zxid; /* The facts, by zxid and key; `facts` is by key and zxid. */
    struct history_span *spans;
    size_t span_count;
    size_t span_cap;
    bool spans_noted; /* All spans are noted. */
    struct history_report *report;
};

/* Whether the operation may have ended its session. */
static inline bool history_may_close(const struct history_op *op)
{
    return history_closes(op) && (op->outcome == HISTORY_OK || op->outcome == HISTORY_UNKNOWN);
}

/* Reports a violated rule; only the first report is kept. Returns false. */
bool history_complain(struct history_case *the_case, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Each returns true when its rules hold. Called in this order. */
bool history_gather(struct history_case *the_case); /* once, refused, unasked, one-story */
bool history_check_time(struct history_case *the_case);
bool history_check_watches(struct history_case *the_case); /* Also notes the spans. */
bool history_check_model(struct history_case *the_case);   /* model, state */
bool history_check_sessions(struct history_case *the_case);

/* The last change of the key up to `zxid`; NULL: none is known. */
const struct history_fact *history_at(const struct history_case *the_case, uint32_t key,
                                      zxid_t zxid);

/* Returns the CREATE of the key as it exists at `zxid`; NULL: the key does not exist then, or its
 * CREATE is unknown. */
const struct history_fact *history_life_at(const struct history_case *the_case, uint32_t key,
                                           zxid_t zxid);

/* How many writes of unknown outcome may have done `what` to the key between `from` and `to`
 * without a trace. */
uint32_t history_hidden(const struct history_case *the_case, uint32_t key, enum history_what what,
                        zxid_t from, zxid_t to);

#endif
