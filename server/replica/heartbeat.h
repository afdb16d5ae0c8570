/*
 * heartbeat.h - the payload of heartbeats: the status of a replica, by its own account.
 *
 * A learner sends its status to the leader with ACK_NEWLEADER and each PONG, and the leader sends
 * the status of every replica with each PING. So every replica knows the status and the last
 * contact of every other replica, without extra messages. On the wire, the time since a status was
 * made replaces `at_ms`, because clocks differ.
 */
#ifndef SERVER_HEARTBEAT_H
#define SERVER_HEARTBEAT_H

#include "base/buf.h"
#include "zab/zab.h"

enum {
    HEARTBEAT_VERSION_MAX = 24,
};

#define HEARTBEAT_LATE_UNKNOWN UINT32_MAX

/* On the wire: never renumber. */
enum replica_role {
    ROLE_LOOKING = 0,
    ROLE_FOLLOWER = 1,
    ROLE_LEADER = 2,
    ROLE_OBSERVER = 3,
    ROLE_QUARANTINE = 4,
    ROLES
};

enum heartbeat_flag {
    HEARTBEAT_SERVING = 1U << 0,
    HEARTBEAT_DISK_LOW = 1U << 1,
    HEARTBEAT_DRAINING = 1U << 2,
};

/* The part that the host provides: the process, or the simulator, that runs the replica. */
struct heartbeat_host {
    uint64_t up_ms; /* Time since the start of the process. */

    /* p50 and p99 latency of the log's syncs, in the latest interval of 10 s that had syncs; 0:
     * there was no sync yet. */
    uint32_t sync_p50_us;
    uint32_t sync_p99_us;
    bool disk_low;
    char version[HEARTBEAT_VERSION_MAX];
};

struct heartbeat {
    uint32_t id;
    uint64_t at_ms; /* When it was made, by the monotonic clock of the replica that stores it.
                       Leaves out the time in transit, so it may be too late by up to `late_ms`. */
    enum replica_role role;
    uint32_t flags;   /* Bits of enum heartbeat_flag. */
    uint32_t epoch;   /* Current epoch. */
    zxid_t zxid;      /* Applied zxid. */
    uint32_t lag_ms;  /* Time since the last contact with a leader with a quorum. */
    uint64_t role_ms; /* How long the replica has had this role. */
    int64_t wall_ms;  /* The replica's wall clock; 0: not known. */
    uint64_t made_ms; /* When it was made, by the monotonic clock of the replica that made it. Other
                         replicas send this value back unchanged. */
    uint32_t late_ms; /* Longest time for which it can have been in transit; see `at_ms`. */
    int64_t age_ms;   /* Age of the ensemble, as the replica knows it. */

    /* tree_bytes_max: maxTreeBytes of the replica. room_bytes_max and room_member, set by a leader
     * only: the limit that the leader applies, and the replica whose maxTreeBytes this limit is
     * (heartbeats_note_room). 0: none. */
    uint64_t tree_bytes_max;
    uint64_t room_bytes_max;
    uint32_t room_member;
    uint64_t mark; /* Leader: mark for the next report of sessions (expiry_mark); 0: none. */
    struct heartbeat_host host;
};

/* Returns the role; `voter`: the replica is a member with a seat. A learner's zab state is that of
 * the time when it joined its leader: a voter that was admitted or promoted since counts as a
 * follower, one that was demoted as an observer. */
enum replica_role replica_role_of(const struct zab_status *status, bool voter);
const char *replica_role_name(enum replica_role role);

/* Appends `count` heartbeats; ZAB_MEMBERS_MAX heartbeats take at most ZAB_PING_PAYLOAD_MAX bytes.
 */
void heartbeats_encode(const struct heartbeat *heartbeats, size_t count, uint64_t now_ms,
                       struct buf *out);

/* Decodes up to ZAB_MEMBERS_MAX heartbeats, with times by this replica's clock. False, and a count
 * of 0, when the bytes are malformed or of another format. */
bool heartbeats_decode(struct slice bytes, uint64_t now_ms,
                       struct heartbeat heartbeats[ZAB_MEMBERS_MAX], size_t *ret_count);

/* Returns the entry of replica `id` in the table `known`, which has `*count` entries; makes one if
 * there is none. NULL: the table is full, and keeps its entries. */
struct heartbeat *heartbeats_place(struct heartbeat known[ZAB_MEMBERS_MAX], size_t *count,
                                   uint32_t id);

/* Removes the entries of all replicas but `ids` from the table; the others keep their order. */
void heartbeats_keep(struct heartbeat known[ZAB_MEMBERS_MAX], size_t *count, const uint32_t *ids,
                     size_t id_count);

/* Returns the heartbeat of replica `id`; NULL: there is none. */
const struct heartbeat *heartbeats_find(const struct heartbeat *heartbeats, size_t count,
                                        uint32_t id);

#endif
