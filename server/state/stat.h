/* stat.h - the counters of a znode as a client sees them (ZooKeeper's Stat). */
#ifndef SERVER_STATE_STAT_H
#define SERVER_STATE_STAT_H

#include "base/logrec.h"

#include <stdint.h>

struct stat_view {
    zxid_t czxid;  /* Transaction that created the znode. */
    zxid_t mzxid;  /* That last set its data. */
    zxid_t pzxid;  /* That last created or deleted a child. */
    int64_t ctime; /* Leader's wall clock, ms since 1970. */
    int64_t mtime;
    int32_t version;          /* Sets of the data. */
    int32_t cversion;         /* Creates plus deletes of children. */
    int32_t aversion;         /* Sets of the ACL. */
    uint64_t ephemeral_owner; /* Public id of the owning session, else 0. */
    uint32_t data_length;     /* Bytes; 0 for null data. */
    uint32_t num_children;
};

#endif
