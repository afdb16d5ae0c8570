/* doctor_int.h - what the doctor can find: its kinds, their texts, and what its parts share. */
#ifndef CLI_DOCTOR_INT_H
#define CLI_DOCTOR_INT_H

#include <jansson.h>
#include <stdbool.h>

enum {
    DOCTOR_SUBJECT_MAX = 320
};

enum doctor_kind {
    DUPLICATE_ID,
    NO_QUORUM,
    UNREACHABLE,
    NOT_ZABRA,
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
    REFILL_STALLED,
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

/* What is being looked at. */
struct look {
    const json_t *replicas;
    const json_t *ensemble;
    json_t *findings;
    int voters;      /* As one of them sees it; 0: none has answered. */
    int there;       /* Of them. */
    size_t nameless; /* Endpoints without an answer that no member calls its own, and that stand for
                        no missing member yet. */
};

/* Adds a finding. */
void doctor_find(struct look *look, enum doctor_kind kind, const char *subject, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

/* The member that advertises this endpoint to clients, or NULL. */
const json_t *doctor_member_at(const struct look *look, const char *endpoint);

/* "replica 2 (http://...)", also of one that does not answer, where others know it. */
void doctor_name(const struct look *look, const json_t *replica, char subject[DOCTOR_SUBJECT_MAX]);

/* The check of /readyz has that name. */
bool doctor_is_check(const json_t *check, const char *name);

/* Of the checks that fail for lack of a leader: all of them, or the later ones because of the
 * first. */
bool doctor_is_about_leader(const json_t *check);

/* A metric of it; 0: it has none of that name. */
double doctor_figure(const json_t *replica, const char *name);

/* Checks of it that fail have a cause that has a finding of its own: two processes with its id, or
 * a full disk. */
bool doctor_is_explained(const json_t *replica);

/* Members that are away, unless their endpoints were reported already. */
void doctor_look_at_members(struct look *look);

/* Comes last of what is about errors: whether what was found explains that no replica serves. */
void doctor_look_at_quorum(struct look *look);

#endif
