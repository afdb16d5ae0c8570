/*
 * notice.h - what the core reports to the operator. zab.h includes it.
 */
#ifndef ZAB_NOTICE_H
#define ZAB_NOTICE_H

#include "base/logrec.h"
#include "base/slice.h"

/* What HALT and ALARM report, with the members of zab_notice that each type sets. */
enum zab_notice_type {
    ZAB_NOTICE_QUARANTINED,         /* reason */
    ZAB_NOTICE_FOUNDER_LIST,        /* peer: it has founded a cluster of other members. */
    ZAB_NOTICE_LEADER_LIST,         /* peer: it leads a cluster without this replica. */
    ZAB_NOTICE_FOUNDER_ADDRESS,     /* peer: other replicas cannot know where to reach it. */
    ZAB_NOTICE_ADMISSION,           /* peer */
    ZAB_NOTICE_RAISE,               /* feature_level: it is proposed. */
    ZAB_NOTICE_PROMOTION,           /* peer: it was added to become a voter; this is proposed. */
    ZAB_NOTICE_AUTO_JOIN,           /* peer: it waits to be added; this is proposed. */
    ZAB_NOTICE_DIVERGED,            /* peer, zxid */
    ZAB_NOTICE_DIVERGED_UNKNOWN,    /* peer, zxid: no majority of equal states is known yet. */
    ZAB_NOTICE_BAD_SNAPSHOT,        /* zxid: state and digest differ there. */
    ZAB_NOTICE_EPOCH_PROPOSED,      /* peer, epoch, highest: an implausible jump. */
    ZAB_NOTICE_EPOCH_CLAIMED,       /* peer, epoch, highest: an implausible jump. */
    ZAB_NOTICE_PROMISE_AHEAD,       /* peer, epoch, highest: of a disk that was never in step. */
    ZAB_NOTICE_REFILL_STALLED,      /* peer, seconds */
    ZAB_NOTICE_REFILL_LOST_LOG,     /* peer */
    ZAB_NOTICE_NO_SNAPSHOT,         /* peer: it needs a snapshot. */
    ZAB_NOTICE_NO_MAJORITY,         /* zxid: no majority of equal states there. */
    ZAB_NOTICE_COMMITTED_LOST,      /* peer, zxid, committed */
    ZAB_NOTICE_HISTORIES_DIFFER,    /* peer, zxid */
    ZAB_NOTICE_MALFORMED_CONFIG,    /* zxid */
    ZAB_NOTICE_NEWER,               /* feature_level, known_level */
    ZAB_NOTICE_NEWER_RECORD,        /* zxid */
    ZAB_NOTICE_UNREADABLE_LOG,      /* zxid */
    ZAB_NOTICE_UNREADABLE_SNAPSHOT, /* zxid */
};

struct zab_notice {
    enum zab_notice_type type;
    uint32_t peer;
    zxid_t zxid;
    zxid_t committed;
    uint32_t epoch;
    uint32_t highest; /* Highest epoch known before. */
    uint64_t seconds;
    uint32_t feature_level; /* Of the configuration. */
    uint32_t known_level;   /* The highest that this release knows. */
    const char *reason;     /* Constant. */
};

/* Whether the process stops because a later release has written what this one does not know. */
bool zab_notice_is_newer(enum zab_notice_type type);

/* Calls `take` for each piece of the text for the operator, in order: what has happened and what to
 * do, at most ZAB_TEXT_MAX - 1 bytes. `name` says what a piece is, as "peer" or "zxid"; empty:
 * words. The pieces are valid during the call. */
void zab_notice_pieces(const struct zab_notice *notice,
                       void (*take)(void *ctx, struct slice name, struct slice piece), void *ctx);

#endif
