/*
 * logrec.h - one record of the replicated log, and the epochs of a log: the vocabulary that zab/
 * and storage/ share.
 *
 * Zab orders records; of a transaction it looks at zxid, prev and chain, not at the payload.
 * Storage keeps records, and the state machine reads the payload. A record is immutable and
 * reference counted, so that the log thread, the peer connections and the core hold the same bytes.
 */
#ifndef BASE_LOGREC_H
#define BASE_LOGREC_H

#include "base/slice.h"

#include <stdatomic.h>
#include <stdint.h>

/* A zxid is (epoch << 32 | counter): unsigned order is log order. */
typedef uint64_t zxid_t;

static inline zxid_t zxid_make(uint32_t epoch, uint32_t counter)
{
    return (zxid_t)epoch << 32 | counter;
}

static inline uint32_t zxid_epoch(zxid_t zxid)
{
    return (uint32_t)(zxid >> 32);
}

static inline uint32_t zxid_counter(zxid_t zxid)
{
    return (uint32_t)zxid;
}

/* Returns a lower bound of the number of records by which a log that ends with `older` is behind a
 * log that ends with `newer`. When the epochs differ, only records of the newer epoch are counted,
 * because the lengths of the epochs before are not known. */
static inline uint64_t zxid_behind(zxid_t newer, zxid_t older)
{
    bool same = zxid_epoch(newer) == zxid_epoch(older);

    if (newer <= older) {
        return 0;
    }
    return same ? newer - older : (uint64_t)zxid_counter(newer) + 1;
}

/* Values are on disk and on the wire: never renumber. */
enum logrec_type {
    LOGREC_TXN = 1,    /* A transaction of the state machine. */
    LOGREC_EPOCH = 2,  /* Start of an epoch, counter 0. */
    LOGREC_CONFIG = 3, /* A change of the replicated configuration. */
    LOGREC_STAMP = 4,  /* Durable watermarks of the voters, to recognise a rolled-back disk. */
};

struct logrec {
    _Atomic uint32_t refs;
    uint32_t len;   /* Payload bytes. */
    zxid_t zxid;    /* The zxid of this record. */
    zxid_t prev;    /* The zxid of the record before it in the log; 0 at the very start. */
    uint64_t chain; /* logrec_chain() of the previous chain value and this record. */
    enum logrec_type type;
    uint8_t payload[];
};

/* Returns a new record with one reference; `chain` is computed from `prev_chain`. */
struct logrec *logrec_new(enum logrec_type type, zxid_t zxid, zxid_t prev, uint64_t prev_chain,
                          struct slice payload);
struct logrec *logrec_ref(struct logrec *rec);
void logrec_unref(struct logrec *rec);

/* 64-bit hash over the previous chain value and type, zxid, prev and payload of a record: equal
 * chains mean equal histories. Not cryptographic. */
uint64_t logrec_chain(uint64_t prev_chain, enum logrec_type type, zxid_t zxid, zxid_t prev,
                      struct slice payload);

static inline struct slice logrec_payload(const struct logrec *rec)
{
    return slice_make(rec->payload, rec->len);
}

/* ---- The epochs of a log, each with the range of counters whose records the log holds. A learner
 * sends them to its leader, so that the two find the last record that they share. One entry per
 * epoch, ascending. ---- */

/* A run of consecutive counters of one epoch in the log. */
struct epoch_range {
    uint32_t epoch;
    uint32_t first; /* Counter of the first record the log still holds. */
    uint32_t last;  /* Counter of the last record. */
};

struct epochs {
    struct epoch_range *ranges;
    size_t count;
    size_t cap;
};

void epochs_release(struct epochs *epochs);
void epochs_clear(struct epochs *epochs);

/* Adds counters first..last of an epoch, which must follow all present counters. */
void epochs_add(struct epochs *epochs, struct epoch_range range);

/* Forgets all counters after `zxid`. */
void epochs_cut(struct epochs *epochs, zxid_t zxid);

/* Forgets all counters up to and including `zxid`. */
void epochs_drop_upto(struct epochs *epochs, zxid_t zxid);

#endif
