/*
 * doctor.h - diagnoses an ensemble from the reports of its replicas. Pure.
 *
 * Facts are one object: "ensemble" (an answer of /ensemble/v1, or null) and "replicas", a list of
 * {"endpoint","error","status","ready","limits","metrics","clock_ms","asked_ms","answered_ms"}:
 * answers of the routes of these names, figures by their names, and the clock that its Date has
 * shown. A replica that does not answer has an "error" and nothing else; "foreign" is true when
 * another server has answered in its place.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* A list of {"severity","code","subject","found","meaning","advice"}, the worst first; the caller
 * drops it. Severity is "error" or "warning". */
json_t *doctor_look(const json_t *facts);

/* ---- What its parts share ---- */

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
    json_t *findings; /* Errors before warnings, else in the order in which they were found. */
    size_t errors;
    int voters;      /* As one of them sees it; 0: none has answered. */
    int there;       /* Of them. */
    size_t nameless; /* Endpoints without an answer that no member calls its own, and that stand for
                        no missing member yet. */
};

/* Adds a finding about a replica that was asked ("replica 2 (http://...)", also when it does not
 * answer, where others know it), a member ("replica 2"), or with NULL the ensemble. */
void doctor_find(struct look *look, enum doctor_kind kind, const json_t *about, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

/* A failed check of its /readyz, of "a, b, c", the first one; NULL: none. */
const json_t *doctor_failed(const json_t *replica, const char *names);

/* The checks that fail for lack of a leader: all of them, or the later ones because of the
 * first. */
#define DOCTOR_LEADER "leader, in_step, fresh"

/* The first object in the list that has this text, or number, in that member; NULL: none. */
const json_t *doctor_with(const json_t *list, const char *member, const char *text);
const json_t *doctor_with_number(const json_t *list, const char *member, int64_t number);

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
