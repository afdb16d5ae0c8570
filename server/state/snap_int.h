/*
 * snap_int.h - the bytes of a snapshot's blocks (README.md): a section number, then its entries.
 *
 * Sections come in the order of their numbers. ACLs stand before the znodes that use them.
 */
#ifndef SERVER_STATE_SNAP_INT_H
#define SERVER_STATE_SNAP_INT_H

#include "server/state/state_int.h"

enum {
    SNAP_FORMAT = 1
};

/* On disk and on the wire: never renumber. The reserved ones are refused by this version. */
enum snap_section {
    SNAP_HEADER = 1,     /* Format u32, history u64. */
    SNAP_ACLS = 2,       /* Count u32, always 0 in this version. */
    SNAP_NODES = 3,      /* Znodes, depth first. */
    SNAP_SESSIONS = 4,   /* Reserved. */
    SNAP_REMEMBERED = 5, /* Reserved: results of idempotent writes. */
    SNAP_CONFIG = 6,     /* Reserved. */
};

enum {
    SNAP_NULL_DATA = 1U << 0 /* Flag of a znode. */
};

#endif
