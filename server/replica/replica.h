/*
 * replica.h - one replica without sockets and threads: zab + state + prep, one step function.
 *
 * The simulator runs exactly this object code. Events of the protocol come in as zab_event, and
 * clients' requests through replica_request. Work for the host leaves as effects: zab's effects on
 * disk and peers, and the few of replica_effects. Requests are answered through their on_reply,
 * within the calls below. Core thread; the state is changed under the view's write lock.
 */
#ifndef SERVER_REPLICA_H
#define SERVER_REPLICA_H

#include "server/op/op.h"
#include "server/prepare/prep.h"
#include "server/read/view.h"
#include "server/replica/heartbeat.h"
#include "server/sessions/touch.h"
#include "server/watch/window.h"
#include "zab/zab.h"

struct replica;

struct replica_options {
    struct zab_init zab;
    struct prep_limits prep;
    uint64_t boot;                   /* Random number of this process. */
    uint32_t requests_max;           /* Requests in flight. */
    uint64_t forward_bytes_max;      /* Leader: bytes of waiting requests of all learners. */
    uint64_t forward_peer_bytes_max; /* Leader: bytes of waiting requests of one learner. */
    uint64_t forward_out_bytes_max;  /* Learner: bytes in stage FORWARDED; other writes wait. */
    uint32_t snap_count;             /* Records between two snapshots, about. */
    uint64_t snap_bytes;             /* Bytes of records between two snapshots, about. */
    uint32_t reap_every_ms;          /* Leader: time between two scans for due work. */
    uint32_t keep_age_ms;  /* Idle time until a leader logs the age; new leader: 10 s at most. */
    struct view *view;     /* Holds the recovered state; may still be empty. */
    struct window *window; /* Takes the changes for watches; NULL: there are no watches. */
    struct touch_set *touched;   /* Sessions active at this replica; NULL: none are reported. */
    struct heard *heard;         /* Takes the last contact of each session; NULL: not kept. */
    uint64_t records_since_snap; /* Records in the log after the newest snapshot's start. */
    uint64_t tree_bytes_max;     /* maxTreeBytes of this replica; 0: none. */
    /* The monotonic clock in ms, for op_request.times; NULL: the time of the step stands for it, so
     * that preparing and applying seem to take no time. Nothing else depends on it. */
    uint64_t (*clock_ms)(void);
};

/* The work for the host: the effects of zab, and others. The host zeroes the struct at first and
 * releases `zab`. */
struct replica_effects {
    struct zab_effects zab; /* SEND, DISCONNECT, PERSIST, FETCH, SNAP_FETCH, RESTORE, HALT, ALARM */
    bool take_snapshot;     /* Scan the view; then ZAB_EV_STORED_SNAP or replica_snapshot_failed. */
    zxid_t snap_start;      /* Start of the snapshot: the zxid applied now. */
    uint64_t snap_chain;
    bool status_changed; /* Publish replica_status again. */
};

void replica_effects_clear(struct replica_effects *effects);

/* Borrows view, window, touched and heard of the options; copies all other members. */
struct replica *replica_new(const struct replica_options *options);
void replica_free(struct replica *replica); /* Answers all requests in flight first. */

/* Steps the replica with one event. `wall_ms` is the wall clock, for the stamps of transactions
 * (clock.h). Before ZAB_EV_RESTORED the host has put the loaded state into the view. */
void replica_step(struct replica *replica, const struct zab_event *event, int64_t wall_ms,
                  struct replica_effects *effects);

/* Takes a client's request: a write, a linearizable read, a sync, or a read with a minimum zxid.
 * The request is answered through on_reply exactly once. */
void replica_request(struct replica *replica, struct op_request *take_request, uint64_t now_ms,
                     int64_t wall_ms, struct replica_effects *effects);

/* Why a replica takes no writes of its clients. */
struct replica_aside {
    const char *why; /* A constant text; NULL: it takes them. */
    bool log_waits;  /* The log waits for space: nothing becomes durable, so nothing is applied. */
};

/* Reports that the replica must take no writes, or may take them again. New writes are refused at
 * once and are not done; writes that other replicas forward are proposed all the same. While the
 * log waits, reads that need an unapplied zxid are refused as well, requests in flight are given up
 * after a second, and no age is written. */
void replica_stand_aside(struct replica *replica, const struct replica_aside *aside,
                         uint64_t now_ms, struct replica_effects *effects);

/* Reports that the requested snapshot could not be written. */
void replica_snapshot_failed(struct replica *replica);

/* Refuses new requests and hands leadership over. True when no request is in flight and one of
 * these is true: this replica does not lead; two ticks have passed since the first call; it is the
 * only voter and has applied its record of the age. */
bool replica_drain(struct replica *replica, uint64_t now_ms, struct replica_effects *effects);

/* Returns the zxid up to which records are applied. */
zxid_t replica_applied(const struct replica *replica);

/* Returns when the next ZAB_EV_TICK is due, in monotonic ms. */
uint64_t replica_wake_ms(const struct replica *replica);

/* Numbers since the start. */
struct replica_counts {
    uint64_t proposals;
    uint64_t delivered;
    uint64_t retried;      /* Requests sent or proposed again after a change of leader. */
    uint64_t elections;    /* Elections that this replica took part in. */
    uint64_t expired;      /* Sessions that this leader has expired. */
    uint64_t low_periods;  /* Times that this leader began to refuse writes for lack of disk. */
    uint64_t tree_refused; /* Requests that this leader has refused for lack of memory. */
};

struct replica_status {
    struct zab_status zab;
    zxid_t applied;
    uint64_t digest;
    uint64_t requests; /* Requests in flight. */
    struct replica_counts counts;
    struct prep_room room; /* maxTreeBytes in force, as the leader last reported it. */
    struct replica_aside aside;
    int64_t clock_ahead_ms; /* This replica's wall clock minus that of a majority of voters. */
    bool clock_known;       /* Enough clocks are known for `clock_ahead_ms`. */
    bool draining;
    bool readable; /* Local reads are allowed (README.md), unless the state is too old. */
};

void replica_status(const struct replica *replica, struct replica_status *ret_status);

/* Whether the configuration file makes this replica, with an empty disk, a founder. */
bool replica_founds(const struct zab_init *init);

/* Returns a replica's entry of the configuration file; NULL: there is none. */
const struct zab_seed *replica_seed(const struct zab_init *init, uint32_t id);

/* Sets what the host knows of the members' addresses (zab_set_facts). */
void replica_facts(struct replica *replica, const struct zab_fact *facts, uint32_t count);

/* Sets the host's part of the heartbeats. */
void replica_host(struct replica *replica, const struct heartbeat_host *host);

/* Copies the last known status of each replica, this one included; returns their number. */
size_t replica_heartbeats(const struct replica *replica,
                          struct heartbeat heartbeats[ZAB_MEMBERS_MAX]);
const struct zab *replica_zab(const struct replica *replica);

#endif
