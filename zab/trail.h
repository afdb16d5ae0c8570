/*
 * trail.h - the log as the core sees it: which zxids it holds, how far it is durable, and the
 * newest records themselves.
 *
 * Inside an epoch counters are consecutive, so a log of any length is a short list of ranges.
 * Records that are not durable are always in memory. Older records stay in memory as long as the
 * cache has room; later they are read from disk when a learner, or the replica itself, needs them.
 */
#ifndef ZAB_TRAIL_H
#define ZAB_TRAIL_H

#include "base/err.h"
#include "base/logrec.h"
#include "zab/msg.h"

struct trail_slot {
    struct logrec *rec; /* A reference. */
    uint64_t token;     /* Token of the append. */
};

struct trail {
    zxid_t base; /* The log holds what follows this zxid. */
    zxid_t last; /* Last appended zxid, durable or not. */
    uint64_t last_chain;
    zxid_t durable;
    struct epochs epochs;    /* Epoch ranges of (base, last]. */
    struct trail_slot *ring; /* The newest records, consecutive, ending at `last`. */
    uint32_t ring_cap;       /* Power of two. */
    uint32_t ring_head;      /* Index of the oldest record. */
    uint32_t ring_count;
    uint64_t volatile_bytes; /* Payload bytes appended and not yet durable. */
    uint64_t ring_bytes;     /* Payload bytes in the ring. */
    uint32_t cache_max;
    uint64_t cache_bytes_max;
};

void trail_init(struct trail *trail, uint32_t cache_max, uint64_t cache_bytes_max);
void trail_release(struct trail *trail);

/* Starts over with an empty log after `base`; `chain` is the chain value there. */
void trail_reset(struct trail *trail, zxid_t base, uint64_t chain);

/* Takes over what recovery found: ranges of (base, last]. All of it is durable. */
void trail_load(struct trail *trail, zxid_t base, zxid_t last, uint64_t chain,
                const struct epoch_range *ranges, uint32_t count);

/* Appends a record that follows `last` (asserted); takes its own reference. */
void trail_append(struct trail *trail, struct logrec *rec, uint64_t token);

/* Notes that all appends up to `token` are durable. Returns true when `durable` has moved. */
bool trail_persisted(struct trail *trail, uint64_t token);

/* Drops everything after `zxid`, which is in the log or is the base. Returns true when the cache
 * had the chain value at `zxid`: then `last_chain` is set, else the caller sets it later. */
bool trail_truncate(struct trail *trail, zxid_t zxid);

/* Moves the base to `base`: the log up to there is gone from disk. */
void trail_purge(struct trail *trail, zxid_t base);

/* True when the log holds `zxid`, or `zxid` is the base. */
bool trail_has(const struct trail *trail, zxid_t zxid);

/* Returns the record that follows `zxid` if that is in memory, else NULL (not a new reference). */
struct logrec *trail_after(const struct trail *trail, zxid_t zxid);

/* Returns the record of exactly that zxid if it is in memory, else NULL (not a new reference). */
struct logrec *trail_find(const struct trail *trail, zxid_t zxid);

/* Drops the oldest cached records until the cache is within its limits. Records after `keep`, and
 * records that are not durable yet, stay. */
void trail_shrink(struct trail *trail, zxid_t keep);

/* Finds the newest zxid that this log and another log (given by its ranges and base) have in
 * common. By log matching (A14 in tests/sim/README.md) that zxid is in the highest epoch that both
 * logs have, at the smaller of their last counters there. ERR_MISSING: no common zxid at or above
 * the base of this log. */
enum err trail_common(const struct trail *trail, const struct epoch_range *ranges, uint32_t count,
                      zxid_t base, zxid_t *ret_common);

#endif
