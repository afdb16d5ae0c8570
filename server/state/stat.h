/*
 * stat.h - the counters of a znode as a client sees them (ZooKeeper's Stat).
 *
 * Only the number of children ever created is stored; the visible cversion is computed from it, so
 * that the sequence suffix and the cversion need one counter between them.
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
    int64_t ctime; /* Stamps of these transactions, ms since 1970, for people; nothing else uses */
    int64_t mtime; /* them. */
    int32_t version;  /* Sets of the data. */
    int32_t cversion; /* Creates plus deletes of children. */
    int32_t aversion; /* Sets of the ACL. */
    bool container;   /* Deleted after its last child; shown by reads only, as the next one. */
    int64_t ttl_ms;   /* Deleted when it was not set for so long; 0: never. */
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

/* The version after one more set: it wraps around and skips -1, which means "any". */
static inline int32_t stat_version_next(int32_t version)
{
    int32_t next = (int32_t)((uint32_t)version + 1);

    return next == -1 ? 0 : next;
}

#endif
