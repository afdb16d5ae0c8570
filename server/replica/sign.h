/*
 * sign.h - how a replica is, by its own account: what it says with each sign of life.
 *
 * Learners tell their leader with each PONG, the leader tells all of them of all with each PING. So
 * every replica knows how every other one is and for how long nothing has been heard of it, also
 * when it is asked and not the leader. On the wire a sign says how old it is: clocks differ.
 */
#ifndef SERVER_SIGN_H
#define SERVER_SIGN_H

#include "base/buf.h"
#include "zab/zab.h"

enum {
    SIGN_VERSION_MAX = 24,
};

#define SIGN_LATE_UNKNOWN UINT32_MAX

/* On the wire: never renumber. */
enum sign_role {
    SIGN_LOOKING = 0,
    SIGN_FOLLOWER = 1,
    SIGN_LEADER = 2,
    SIGN_OBSERVER = 3,
    SIGN_QUARANTINE = 4,
    SIGN_ROLES
};

enum sign_flag {
    SIGN_SERVING = 1U << 0,
    SIGN_DISK_LOW = 1U << 1,
    SIGN_DRAINING = 1U << 2,
};

/* What only the host of a replica knows. */
struct sign_host {
    uint64_t up_ms;       /* Since the process has started. */
    uint32_t sync_p50_us; /* Syncing the log took, in the last seconds in which it was synced; */
    uint32_t sync_p99_us; /* 0: it never was. */
    bool disk_low;
    char version[SIGN_VERSION_MAX];
};

struct sign {
    uint32_t id;
    uint64_t at_ms; /* When it was so, by the clock of whoever holds it. */
    enum sign_role role;
    uint32_t flags;   /* Of enum sign_flag. */
    uint32_t epoch;   /* Current one. */
    zxid_t zxid;      /* Applied. */
    uint32_t lag_ms;  /* Since it knew of a leader with a quorum. */
    uint64_t role_ms; /* Since it has had that role. */
    int64_t wall_ms;  /* Its wall clock; 0: not known. */
    uint64_t made_ms; /* When it was so, by its own monotonic clock: means nothing to others. */
    uint32_t late_ms; /* It was on its way for so long at the most, beyond what at_ms says. */
    int64_t age_ms;   /* Of the ensemble, as it knows it. */

    /* maxTreeBytes: its own (0: none), and of a leader the limit in force and whose it is (0: as
     * before, none). See signs_note_room. */
    uint64_t tree_bytes_max;
    uint64_t room_bytes_max;
    uint32_t room_member;
    uint64_t mark; /* Of a leader: what reports of sessions name (expiry_mark); 0: none. */
    struct sign_host host;
};

/* `voter`: by the configuration file. A disk that was admitted while it observed votes from then
 * on, in the same dialogue. */
enum sign_role sign_role_of(const struct zab_status *status, bool voter);
const char *sign_role_name(enum sign_role role);

/* Appends `count` signs; at most ZAB_SIGN_BYTES_MAX for ZAB_MEMBERS_MAX of them. */
void signs_encode(const struct sign *signs, size_t count, uint64_t now_ms, struct buf *out);

/* Up to ZAB_MEMBERS_MAX of them, with times by this clock. False: nothing that we know; then
 * `ret_count` is 0. */
bool signs_decode(struct slice bytes, uint64_t now_ms, struct sign signs[ZAB_MEMBERS_MAX],
                  size_t *ret_count);

/* The sign of `id`; NULL: there is none. */
const struct sign *signs_find(const struct sign *signs, size_t count, uint32_t id);

#endif
