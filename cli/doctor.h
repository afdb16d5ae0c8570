/*
 * doctor.h - diagnoses an ensemble from the reports of its replicas. Pure.
 *
 * Facts are one object: "ensemble" (an answer of /ensemble/v1, or null) and "replicas", a list of
 * {"endpoint","http","status","ready","limits","ensemble","metrics","clock_ms","asked_ms",
 * "answered_ms"}. "status", "ready", "limits" and "ensemble" are the answers of the routes with
 * these names, "metrics" has the values by name, "http" is the HTTP status of the first answer, and
 * "clock_ms" is the clock that its Date header shows. A replica that does not answer has only
 * "endpoint", "error", "foreign", which is true when another server has answered in its place, and
 * "tls", which is true when the handshake has failed.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli/jsonr.h"

/* Returns a list of {"severity","code","subject","found","meaning","advice"}, errors first; the
 * caller drops it. Severity is "error" or "warning". */
json_t *doctor_look(const json_t *facts);

/* ---- What the parts of the doctor share ---- */

enum doctor_kind {
    DUPLICATE_ID,
    NO_QUORUM,
    UNREACHABLE,
    NOT_ZABRA,
    TLS_FAILED,
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
    AUDIT_FAILING,
    AUDIT_BEHIND,
    DISK_SLOW,
    SNAPSHOTS_FAIL,
    REFILL_LOST,
    REFILL_STALLED,
    CLOCK_SKEW,
    VERSIONS_DIFFER,
    CONFIG_DIFFERS,
    LIST_DIFFERS,
    REPLICA_WAITS,
    EVEN_VOTERS,
    NO_CLIENT_ADDRESS,
    LOOPBACK_ADDRESS,
    NEAR_LIMIT,
    TREE_FULL,
    UNSENT_SHORT,
    UNSENT_FULL,
    QUOTA_EXCEEDED,
    CERT_EXPIRED,
    CERT_EXPIRES,
    CLIENT_CA_EXPIRES,
    CLIENT_CRL_EXPIRES,
    CERT_RELOAD,
    RELOAD_STUCK,
    PEERS_PLAIN,
    PEER_TLS_STEP,
    PEER_KEYS_BAD,
    PEER_CERTIFICATE,
    FILES_SHORT,
    MEMORY_SHORT,
    DISK_SHORT,
    BACKUP_OLD,
    CHANGE_PENDING,
    DOCTOR_KINDS
};

/* The state of one diagnosis. */
struct look {
    const json_t *replicas;
    const json_t *ensemble;
    json_t *findings; /* Errors before warnings, each in the order in which they were found. */
    size_t errors;
    int voters; /* Number of voters that a replica reports; 0: no replica answered. */
    int there;  /* Number of voters whose "state" is neither "unreachable" nor "silent". */

    /* Number of endpoints that have not answered and that no member advertises. When one of them
     * explains why a member is missing (is_told() in doctor.c), it is subtracted. */
    size_t nameless;
};

/* Adds a finding. `about` is a replica that was asked, a member, or NULL for the ensemble. A
 * finding names a member "replica 2", and an asked replica "replica 2 (http://...)" if any answer
 * shows its id, else by its endpoint. */
void doctor_find(struct look *look, enum doctor_kind kind, const json_t *about, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

/* Returns a metric of the replica; 0: the replica has no metric of that name. */
double doctor_figure(const json_t *replica, const char *name);

/* Finds files of TLS for clients that expire or could not be read again. */
void doctor_look_at_tls(struct look *look, const json_t *replica);

/* Find the next step of a change of peerTls; keys for other replicas that are bad or expire. */
void doctor_look_at_peer_tls(struct look *look);
void doctor_look_at_peer_keys(struct look *look, const json_t *replica);

/* Find too few open files, memory or disk on the machine of a replica; backups that are old; and a
 * change of the members or of the feature level that does not end. */
void doctor_look_at_host(struct look *look, const json_t *replica);
void doctor_look_at_backups(struct look *look);
void doctor_look_at_change(struct look *look);

/* Finds replicas that wait to be added. */
void doctor_look_at_waiting(struct look *look);

/* Returns what the failed check `member` with this text is about. */
enum doctor_kind doctor_kind_of_member(const char *text);

/* Returns the first object in the list whose `member` has this text; NULL: none. */
const json_t *doctor_with(const json_t *list, const char *member, const char *text);

/* The same for a URL; http and https of one host and port count as equal. */
const json_t *doctor_at(const json_t *list, const char *member, const char *url);

#endif
