/* doctor_int.h - what the doctor can find: its kinds, and their texts. */
#ifndef CLI_DOCTOR_INT_H
#define CLI_DOCTOR_INT_H

#include <stdbool.h>

enum doctor_kind {
    DUPLICATE_ID,
    NO_QUORUM,
    UNREACHABLE,
    REFUSED,
    OTHER_CLUSTER,
    OTHER_HISTORY,
    STATES_DIFFER,
    NOT_READY,
    NOT_MEMBER,
    PEER_REFUSED,
    LOG_STUCK,
    MISSING,
    NO_SPARE,
    LAGGING,
    DISK_LOW,
    DISK_SLOW,
    SNAPSHOTS_FAIL,
    REFILL_LOST,
    CLOCK_SKEW,
    VERSIONS_DIFFER,
    CONFIG_DIFFERS,
    EVEN_VOTERS,
    NO_CLIENT_ADDRESS,
    LOOPBACK_ADDRESS,
    NEAR_LIMIT,
    TREE_FULL,
    UNSENT_SHORT,
    UNSENT_FULL,
    QUOTA_EXCEEDED,
    DOCTOR_KINDS
};

struct doctor_text {
    bool error;          /* Else a warning. */
    const char *code;    /* Stable; in openapi/output.yaml. */
    const char *meaning; /* A sentence or two. */
    const char *advice;  /* Words that look like keys of the configuration are keys. */
};

extern const struct doctor_text doctor_texts[DOCTOR_KINDS]; /* By kind. */

#endif
