/*
 * stat.h - the counters of a znode as a client sees them (ZooKeeper's Stat).
 *
 * Stored is the number of children ever created; the visible cversion is computed from it, so that
 * the sequence suffix and the cversion need one counter between them.
 */
#ifndef SERVER_STATE_STAT_H
#define SERVER_STATE_STAT_H

#include "base/logrec.h"

#include <stdbool.h>
#include <stdint.h>

struct stat_view {
    zxid_t czxid;  /* Transaction that created the znode. */
    zxid_t mzxid;  /* That last set its data. */
    zxid_t pzxid;  /* That last created or deleted a child. */
    int64_t ctime; /* Stamps of these transactions, ms since 1970: for people; nothing counts by */
    int64_t mtime; /* them. */
    int32_t version;          /* Sets of the data. */
    int32_t cversion;         /* Creates plus deletes of children. */
    int32_t aversion;         /* Sets of the ACL. */
    bool container;           /* Goes after its last child; as the next one told by reads alone. */
    int64_t ttl_ms;           /* Goes when nothing was done to it for so long; 0: never. */
    uint64_t ephemeral_owner; /* Public id of the owning session, else 0. */
    uint32_t data_length;     /* Bytes; 0 for null data. */
    uint32_t num_children;
};

/* Creates plus deletes of children: each child that was created and is no longer there was deleted.
 */
static inline int32_t stat_cversion(uint32_t creates, uint32_t num_children)
{
    return (int32_t)(2 * creates - num_children);
}

/* The version after one more set: it wraps around, and -1 is skipped, for it means "any". */
static inline int32_t stat_version_next(int32_t version)
{
    int32_t next = (int32_t)((uint32_t)version + 1);

    return next == -1 ? 0 : next;
}

#endif
