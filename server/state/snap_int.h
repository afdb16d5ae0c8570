/*
 * snap_int.h - the bytes of a snapshot's blocks (README.md): a section number, then its entries.
 *
 * Sections come in the order of their numbers. A block carries an ACL where it first uses it,
 * because the table of ACLs changes during a scan.
 */
#ifndef SERVER_STATE_SNAP_INT_H
#define SERVER_STATE_SNAP_INT_H

#include "server/state/state_int.h"

enum {
    SNAP_FORMAT = 2
};

/* On disk and on the wire: never renumber. The reserved one is refused by this version. */
enum snap_section {
    SNAP_HEADER = 1,     /* Format u32, history u64, age and stamp of the newest transaction i64. */
    SNAP_ACLS = 2,       /* Count u32, always 0. */
    SNAP_NODES = 3,      /* Znodes, depth first. */
    SNAP_SESSIONS = 4,   /* Sessions by id; left out when there are none. */
    SNAP_REMEMBERED = 5, /* Remembered results by zxid; left out when there are none. */
    SNAP_CONFIG = 6,     /* Reserved. */
};

enum {
    SNAP_NULL_DATA = 1U << 0 /* Flag of a znode. */
};

/* The ACL of a znode. */
enum snap_acl {
    SNAP_ACL_OPEN = 0,
    SNAP_ACL_NEW = 1,  /* The list follows; it is the next one of this block. */
    SNAP_ACL_FIRST = 2 /* From here on: lists of this block in the order of their first use. */
};

#endif
