/*
 * replica_int.h - the private state of a replica, shared by replica*.c only.
 *
 * Each request has exactly one stage (enum request_stage) and is in the one list of all requests in
 * order of arrival, so that retries keep that order. Members are grouped by the file that uses
 * them most.
 */
#ifndef SERVER_REPLICA_INT_H
#define SERVER_REPLICA_INT_H

#include "base/check.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/probe.h"
#include "base/rng.h"
#include "server/op/ops.h"
#include "server/replica/clock.h"
#include "server/replica/progress.h"
#include "server/replica/replica.h"
#include "server/sessions/expiry.h"
#include "server/state/state.h"

enum {
    DEADLINE_SCAN_MS = 50, /* Time between two scans of all requests for passed deadlines. */
    TXN_BYTES_MAX = ZAB_RECORD_BYTES_MAX,
    FORWARDS_MAX = 65536,   /* Learners' requests that wait for room in the pipeline. */
    FORWARD_COST = 64,      /* Bytes counted for each forward, besides those of its message. */
    REAP_MAX = 1000,        /* Znodes reaped at a time. */
    FORGETS_MAX = 16,       /* Transactions that forget remembered answers, at a time. */
    KEEP_FIRST_MS = 10000,  /* A new leader logs the age after this idle time at the latest. */
    REPORT_NUMBER = 0,      /* Marks a report of sessions, in place of a request's number. */
    REPORT_IDS_MAX = 65536, /* Sessions in one part of a report. */
    ASIDE_GRACE_MS = 1000,  /* Requests in flight are given up once the log waits this long. */
    DRAIN_IDLE_MS = 100,    /* A draining leader logs the age if the logged age lags by this. */
    FIFOS = 4096,           /* Size of the FIFO table; FIFOs that share an entry act as one. */
};

enum {
    REPLICA_IDS_MAX = ZAB_MEMBERS_MAX + 1 /* This replica and its peers. */
};

/* The value of op_request.stage; 0: no stage, the request is being dispatched or answered. */
enum request_stage {
    REQUEST_QUEUED = 1, /* Waits for a leader, or for room in the pipeline. */
    REQUEST_FORWARDED,  /* Sent to the leader of `wait_epoch`. */
    REQUEST_PROPOSED,   /* Waits for delivery of record `wait_zxid` of epoch `wait_epoch`. */
    REQUEST_CONFIRMING, /* In a quorum round; then the request waits for `wait_zxid`. */
    REQUEST_WAITING,    /* Waits until `wait_zxid` is applied. */
    REQUEST_BLOCKED,    /* A confirmed read behind a write of its FIFO. */
};

/* The requests of one connection, linked by op_request.fifo_node. */
struct fifo {
    uint64_t done;      /* Number of the newest write that was, or may have been, done. */
    struct list writes; /* Unanswered writes, in order of arrival. */
    struct list reads;  /* Reads in REQUEST_BLOCKED, in order of arrival. */
};

/* The leader's refusal of a learner's request, or the remembered answer to it. The reply is sent
 * once a quorum round has confirmed that this replica still leads (rule 5 of the README). */
struct deferred_reply {
    uint64_t token; /* Token of the round. */
    uint32_t peer;
    uint32_t dialogue;
    uint64_t request;
    struct blob *bytes; /* The encoded result. */
    struct list node;
};

/* A learner's request. While the request waits for room, the struct owns `bytes`. */
struct forward {
    uint32_t peer;
    uint32_t dialogue; /* Dialogue with the learner (zab/README.md); the request ends with it. */
    uint64_t request;
    struct slice bytes;
    struct list node;
};

/* Bytes of one learner's requests that wait for room in the pipeline. */
struct forward_share {
    uint32_t peer; /* 0: no request waits, so another learner may use this entry. */
    uint64_t bytes;
};

/* replica_request.c, replica_fifo.c: requests of this replica's own clients. */
struct replica_requests {
    struct list all;          /* All requests, in order of arrival. */
    struct map by_id;         /* Request number to op_request. */
    uint64_t seq;             /* Last number given to a request or to a quorum round. */
    size_t count;             /* Number of requests in `all`. */
    size_t queued;            /* Number in REQUEST_QUEUED. */
    size_t waiting;           /* Number in REQUEST_WAITING. */
    zxid_t waiting_min;       /* Lower bound of `wait_zxid` of all waiting requests. */
    uint64_t forwarded_bytes; /* Bytes in REQUEST_FORWARDED. */
    uint64_t scan_ms;         /* Time of the next scan for passed deadlines. */
    struct fifo fifos[FIFOS];
    struct list unblocked;     /* Reads whose FIFO is free; answered at the end of the step. */
    struct op_request **ready; /* Delivered requests; answered once the tree's lock is free. */
    size_t ready_count;
    size_t ready_cap;
};

/* replica_lead.c: requests of learners, at the leader. */
struct replica_learners {
    struct list deferred; /* List of struct deferred_reply. */
    struct map deferred_by_token;
    struct list forwards; /* List of struct forward. */
    size_t forward_count;
    uint64_t forward_bytes;
    struct forward_share shares[ZAB_MEMBERS_MAX];
};

/* replica_apply.c: the applied zxid of the tree, and whether the tree may be read. */
struct replica_tree {
    zxid_t applied;
    zxid_t fuzzy_end;    /* The state may hold effects after `applied`, up to this zxid. */
    bool end_unchecked;  /* At `fuzzy_end` the state is still to be checked against `end_digest`. */
    uint64_t end_digest; /* Digest that the state must have at the snapshot's end. */
    bool stopped;        /* A later release has written the next record: the process ends. */
    bool diverged;       /* The digest is not `end_digest`: no answer may come from this state. */
    uint64_t lost_seq;   /* Number of the last request before a snapshot replaced the state. Up to
                            this number, the outcome of an unanswered write is unknown: if the
                            snapshot contains its effects, its record is not delivered. */
    uint32_t loading;    /* States that the host has still to put in place (ZAB_FX_RESTORE). */
    bool readable;       /* The replica has served since the state was loaded. */
    bool window_broken;  /* The window is suspended: another state is being loaded or is not
                            whole yet, or this replica is quarantined. */
    struct state_changes changes; /* Changes of the record being applied. */
};

/* replica_time.c: age and stamp of transactions. */
struct replica_clock {
    struct age age;
    int64_t stamp_ms;       /* Stamp of the last transaction proposed or applied. */
    struct steady steady;   /* The own wall clock, if this replica is the only voter. */
    struct reached reached; /* Time of a majority's clocks at `compared_ms`. */
    uint64_t compared_ms;   /* Monotonic time of the last comparison. */
    uint64_t awake_ms;      /* End of the last pause of this process; without a pause, its start. */
};

/* replica_sessions.c */
struct replica_sessions {
    struct expiry *expiry;    /* Expiry of sessions; used by the leader. */
    uint32_t report_every_ms; /* Half a tick. */
    uint64_t report_ms;       /* Time of the next report, and of the next scan for expiry. */
    bool expire_more;         /* More sessions had expired than one turn closes. */
    uint64_t renew_token;     /* Token of the quorum round after a pause of the process; 0: none. */
};

/* replica_heartbeats.c: the status of each replica, from the last heartbeats. */
struct replica_heartbeats {
    struct heartbeat known[ZAB_MEMBERS_MAX]; /* In order of first arrival. */
    size_t count;
    struct heartbeat_host host; /* The host's part of this replica's status. */
    struct prep_room room;      /* maxTreeBytes in force, as this replica knows it. */
    uint64_t role_since_ms;
    uint64_t made_ms; /* Time when the payload of the own heartbeats was made. */
};

/* replica.c */
struct replica_snapshot {
    bool running;
    bool wanted;      /* A learner waits for a snapshot and there is none that can be sent. */
    uint64_t records; /* Records since the last snapshot; `bytes` likewise. */
    uint64_t bytes;
    uint64_t at_records; /* Records that make the next snapshot due; `at_bytes` likewise. */
    uint64_t at_bytes;
};

struct replica {
    struct replica_options options;
    struct zab_seed seeds[ZAB_MEMBERS_MAX]; /* Seeds of the options. */
    struct zab *zab;
    struct prep *prep;
    struct view *view;
    struct rng rng;
    uint64_t now_ms;
    int64_t wall_ms;
    struct zab_status status; /* Status as of the last step. */
    struct zab_effects inner; /* Effects of the protocol that take_effects has still to take. */
    struct buf txn;           /* Scratch. */

    struct replica_requests requests;
    struct replica_learners learners;
    struct replica_tree tree;
    struct replica_clock clock;
    struct replica_sessions sessions;
    struct replica_heartbeats heartbeats;
    struct replica_snapshot snapshot;

    struct replica_aside aside;
    uint64_t log_waits_ms; /* The log waits since this time. */
    bool is_removed;       /* A change of the members has removed this disk, for good. */

    struct {
        bool on;
        uint64_t since_ms;
        zxid_t age_zxid; /* Transaction that wrote the age to the log; 0: none. */
    } drain;

    struct {
        zxid_t low_since; /* First zxid prepared while the disks of so many voters are nearly full
                             that the other voters are no quorum; 0: they are a quorum. */
        uint64_t reap_ms; /* Time of the next scan for due work. */
        uint64_t hands_over_ms; /* Until then it has tried to hand over, because of a change of the
                                   members; 0: it has not. */
    } leader;

    struct { /* Bytes that effects point to, until the next step. */
        struct blob **items;
        size_t count;
        size_t cap;
    } kept;

    struct { /* For op_request.times. */
        struct progress logged;
        struct progress durable;
        struct progress committed;
    } progress;

    struct replica_counts counts;
};

/* Returns the time for op_request.times. */
static inline uint64_t replica_clock_ms(const struct replica *replica)
{
    return replica->options.clock_ms ? replica->options.clock_ms() : replica->now_ms;
}

static inline bool replica_leads(const struct replica *replica)
{
    return replica->status.state == ZAB_LEADING && replica->status.serving;
}

/* replica_request.c: the life of a request of this replica's own clients. */
void request_dispatch(struct replica *replica, struct op_request *request);
void request_reply(struct replica *replica, struct op_request *request, enum err err,
                   const char *detail);
void requests_run_queue(struct replica *replica);
void requests_applied(struct replica *replica);
void requests_answer_ready(struct replica *replica);
void requests_unblocked(struct replica *replica);
void requests_confirmed(struct replica *replica, uint64_t token, zxid_t zxid);
void requests_refused(struct replica *replica, uint64_t token, struct slice bytes);
void requests_role_ended(struct replica *replica);
void requests_new_epoch(struct replica *replica);
void requests_check_deadlines(struct replica *replica);
void requests_give_up(struct replica *replica);     /* Gives up requests that wait for a leader. */
void requests_stand_aside(struct replica *replica); /* Refuses what must not wait. */
void requests_removed(struct replica *replica);     /* Answers what waits for a leader. */
void requests_close(struct replica *replica);
void requests_delivered(struct replica *replica, const struct state *state,
                        const struct txn_header *header, zxid_t zxid);

/* replica_fifo.c: order within a FIFO. */
void fifos_init(struct replica *replica);
void fifo_enter(struct replica *replica, struct op_request *request); /* On arrival. */
void fifo_leave(struct replica *replica, struct op_request *request); /* On the answer. */

/* Whether the request is a read that must wait for an unanswered earlier write of its FIFO.
 * fifo_hold adds such a read to the list of its FIFO. */
bool fifo_blocks(struct replica *replica, const struct op_request *request);
void fifo_hold(struct replica *replica, struct op_request *request);
void fifo_note_done(struct replica *replica, const struct op_request *request);
bool fifo_is_overtaken(const struct replica *replica, const struct op_request *request);

/* replica_propose.c: what the leader proposes. */
enum lead_outcome {
    LEAD_PROPOSED,
    LEAD_REFUSED,
    LEAD_ANSWERED, /* `result` is the answer, and nothing is proposed: a write with this key was
                      done before, or it is a dry run. */
    LEAD_LATER     /* There is no room for another proposal, or another replica is to lead. */
};
enum lead_outcome lead_prepare(struct replica *replica, const struct prep_job *job,
                               struct op_result *result, zxid_t *ret_zxid);

/* Like lead_prepare, for an operation that the leader itself requests. */
enum lead_outcome lead_prepare_own(struct replica *replica, const struct op_args *args);
void lead_reap(struct replica *replica);
void lead_forget(struct replica *replica);
zxid_t lead_keep_age(struct replica *replica, uint32_t idle_ms); /* 0: nothing was written. */
void lead_keep_age_idle(struct replica *replica);

/* replica_change.c: changes of the configuration for clients. */
bool lead_is_change(enum op_id op);

/* Judges the change that would get `zxid`. The buffer of the verdict has room for the answer. */
void lead_judge(struct replica *replica, const struct op_args *args, zxid_t zxid,
                struct prep_verdict *ret_verdict);

/* Proposes a change that lead_judge has just accepted, with the transaction of the client. */
void lead_propose_change(struct replica *replica, const struct op_args *args, struct slice txn);

/* Hands over to another replica because of a change that takes the vote of this one: LEAD_LATER,
 * or LEAD_REFUSED with the result if that was tried already. */
enum lead_outcome lead_hand_over(struct replica *replica, struct op_result *result);

/* Keeps the bytes that an effect of this step points to, until the next step. */
void replica_keep(struct replica *replica, struct blob *take_blob);
struct slice replica_keep_txn(struct replica *replica); /* Keeps a copy of replica->txn. */
void replica_release_kept(struct replica *replica);

/* replica_lead.c: the leader's work for learners. */
void lead_forwarded(struct replica *replica, const struct zab_forwarded *forwarded);
bool lead_confirmed(struct replica *replica, uint64_t token); /* False: no reply has this token. */
void lead_run_forwards(struct replica *replica);
void lead_clear(struct replica *replica);

/* replica_forward.c: messages between replicas about clients. */

/* A learner's write as the leader prepares it; slices point into the message. */
struct forwarded {
    struct prep_job job; /* Points to the other members. */
    struct txn_header header;
    struct op_principal who;
    struct op_session session;
    struct op_args args;
    struct op_args *multi;
};

void forward_encode(uint64_t boot, const struct op_request *request, struct buf *out);
bool forward_decode(struct slice bytes, struct forwarded *ret); /* False: nothing to release. */
void forwarded_release(struct forwarded *forwarded);

/* A report of sessions, or a part of it. */
struct report {
    uint64_t mark; /* Newest mark of the leader that the learner has seen; 0: none (expiry.h). */
    bool last;     /* This is the last part of the report. */
    size_t count;  /* Number of ids of 8 bytes. */
};

void report_encode(const uint64_t *ids, const struct report *report, struct buf *out);

/* Decodes the head of a report; `ret_ids` is then at the first id. */
bool report_decode(struct slice bytes, struct wire_reader *ret_ids, struct report *ret_report);

/* replica_sessions.c: reports of sessions, and expiry. */
void sessions_clock(struct replica *replica); /* Called first in each step. */
void sessions_turn(struct replica *replica);  /* Called in each step. */
void sessions_role_began(struct replica *replica);
void sessions_role_ended(struct replica *replica);
void sessions_applied(struct replica *replica, const struct state *state);
void sessions_reported(struct replica *replica, uint32_t peer, struct slice bytes);
void sessions_peer_lost(struct replica *replica, uint32_t peer);
bool sessions_confirmed(struct replica *replica, uint64_t token); /* False: not `renew_token`. */

/* replica_heartbeats.c: the status of each replica. */
void heartbeats_turn(struct replica *replica); /* Called before each step. */
void heartbeats_heard(struct replica *replica, uint32_t peer, struct slice bytes);
void heartbeats_note_room(struct replica *replica); /* Also called when a role begins. */

/* Fills the ids of this replica and of the peers that the protocol knows; returns their number. */
size_t replica_ids(const struct replica *replica, uint32_t ids[REPLICA_IDS_MAX]);

/* replica_apply.c: committed records become state. */

/* Applies the run of deliveries that starts at effect `at`, under one hold of the lock; returns the
 * index after the run. */
size_t replica_deliver(struct replica *replica, size_t at);

/* Prepares for another state, which the host may put in place at any moment from now on. */
void replica_restoring(struct replica *replica);

/* Takes over the state of a snapshot that the host has put in place. */
void replica_restored(struct replica *replica, const struct zab_ev_restored *restored);

/* Updates whether the state is readable. The state is readable from the time that this replica
 * serves until the replica is quarantined or another state replaces this one. */
void replica_update_readable(struct replica *replica);

/* replica_time.c: age and stamp of transactions. */

/* Sets age and stamp of a transaction that is proposed now. */
void lead_times(struct replica *replica, struct txn_header *header);

/* Passes the present epoch and role to the age (age_turn). */
void times_turn(struct replica *replica);
int64_t times_age(const struct replica *replica); /* The age now, as far as this replica knows. */
void times_of_config(struct replica *replica, const struct zab_config *config);
void times_of_state(struct replica *replica, const struct state *state);
void times_heard(struct replica *replica, const struct heartbeat *heartbeat);

/* Updates `clock.reached`: the latest time that the known clocks of a majority have reached. */
void times_compare(struct replica *replica);

/* Returns how far the own clock is ahead of the time that a majority's clocks have reached; 0 also
 * when too few clocks are known. */
int64_t times_ahead_ms(const struct replica *replica);

#endif
