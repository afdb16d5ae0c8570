/*
 * replica_int.h - the private state of a replica, shared by replica*.c only.
 *
 * Each request is in exactly one place of its life (enum request_place) and in the one list of all
 * requests, in order of arrival, so that what must be done again is done in that order.
 */
#ifndef SERVER_REPLICA_INT_H
#define SERVER_REPLICA_INT_H

#include "base/check.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/probe.h"
#include "base/rng.h"
#include "server/op/ops.h"
#include "server/replica/age.h"
#include "server/replica/replica.h"
#include "server/replica/stamp.h"
#include "server/sessions/expiry.h"
#include "server/state/state.h"

enum {
    DEADLINE_SCAN_MS =
        50, /* How often requests are looked through for a deadline that has passed. */
    TXN_BYTES_MAX = ZAB_RECORD_BYTES_MAX,
    FORWARDS_MAX = 65536, /* Learners' requests waiting for room in the pipeline. */
    FORWARD_COST = 64,    /* Bytes that each of them counts for, besides its own. */
    REAP_MAX = 1000,      /* Znodes reaped at a time. */
    FORGETS_MAX = 16,     /* Transactions that forget remembered answers, at a time. */
    KEEP_FIRST_MS =
        10000,         /* The age is first written so long after this replica has begun to lead. */
    REPORT_NUMBER = 0, /* In place of a request's number: no request but a report. */
    REPORT_IDS_MAX = 65536, /* In one part of it. */
    ASIDE_GRACE_MS = 1000,  /* For what is under way when the log begins to wait. */
    DRAIN_IDLE_MS = 100,    /* A leader that drains writes the age after so much idle time. */
    LANES = 4096,           /* Places for lanes; two that share one are kept in order, too. */
};

enum request_place {
    REQUEST_QUEUED = 1, /* Waits for a leader, or for room in the pipeline. */
    REQUEST_FORWARDED,  /* At the leader of `wait_epoch`. */
    REQUEST_PROPOSED,   /* Record `wait_zxid` of epoch `wait_epoch` is to be delivered. */
    REQUEST_CONFIRMING, /* A quorum round is under way; then it waits for `wait_zxid`. */
    REQUEST_WAITING,    /* Until `wait_zxid` is applied. */
    REQUEST_BLOCKED,    /* A read that was confirmed, behind a write of its lane. */
};

/* The requests of one socket; all lists are of op_request.lane_node. */
struct lane {
    uint64_t done;      /* The newest write that was done, or may have been. */
    struct list writes; /* Not answered yet, in order of arrival. */
    struct list reads;  /* REQUEST_BLOCKED, in order of arrival. */
};

/* The leader's refusal of a learner's request, until a quorum round has confirmed that it may
 * refuse (decision 5). */
struct verdict {
    uint64_t token;
    uint32_t peer;
    uint32_t dialogue;
    uint64_t request;
    struct blob *bytes; /* The encoded result. */
    struct list node;
};

/* A learner's request; one that waits for room owns its bytes. */
struct forward {
    uint32_t peer;
    uint32_t dialogue; /* It came in this one: what outlives it is dropped. */
    uint64_t request;
    struct slice bytes;
    struct list node;
};

/* How much of the room for waiting requests a learner takes. */
struct forward_share {
    uint32_t peer;
    uint64_t bytes;
};

struct replica {
    struct replica_options options;
    struct zab *zab;
    struct prep *prep;
    struct view *view;
    struct rng rng;
    struct zab_effects inner; /* Of the protocol, before we have taken our part. */
    uint64_t now_ms;
    int64_t wall_ms;
    struct age age;
    int64_t stamp_ms;       /* Of the last transaction proposed or applied. */
    struct steady steady;   /* The own wall clock, where this replica votes alone. */
    struct reached reached; /* By a majority's clocks ... */
    uint64_t compared_ms;   /* ... when they were compared; monotonic. */
    uint64_t awake_ms;      /* This process has not stood still since then. */

    struct list requests; /* All, in order of arrival. */
    struct map by_id;     /* Request number to op_request. */
    uint64_t request_seq;
    size_t request_count;
    size_t queued_count;
    size_t waiting_count;
    uint64_t forwarded_bytes; /* Of those that are at the leader. */
    struct lane lanes[LANES];
    struct list unblocked; /* Reads whose lane is free; answered at the end of the step. */
    zxid_t waiting_min;    /* No waiting request is satisfied below this. */
    uint64_t deadline_ms;  /* Next look. */

    zxid_t low_since; /* Leader: the first it prepared since a quorum's disks are low; 0: not. */

    struct list verdicts; /* Of struct verdict. */
    struct map verdict_by_token;
    struct list forwards; /* Of struct forward. */
    size_t forward_count;
    uint64_t forward_bytes;
    struct forward_share shares[ZAB_MEMBERS_MAX];
    uint32_t share_count;

    struct zab_status status; /* As of the last step. */
    zxid_t applied;
    zxid_t fuzzy_end;        /* Effects up to here may be in the state already. */
    bool end_unchecked;      /* A received snapshot whose end has not been reached ... */
    uint64_t end_digest;     /* ... where the state's digest must be this one. */
    bool bad_state;          /* It was not: nothing that the state says is true. */
    uint64_t state_lost_seq; /* The state was replaced by a snapshot: the outcome of requests up to
                                this number cannot be told from deliveries. */
    bool window_broken;      /* Another state is being loaded, or is in place but not whole yet;
                                or the state is doubted. */
    struct state_changes changes;
    struct buf txn;            /* Scratch. */
    struct op_request **ready; /* Delivered; answered once the lock on the tree is free. */
    size_t ready_count;
    size_t ready_cap;
    struct blob **kept; /* Bytes that effects point to, until the next step. */
    size_t kept_count;
    size_t kept_cap;
    const char *aside; /* The log waits: why. NULL: it does not. */
    uint64_t aside_ms; /* Since when. */
    bool draining;
    uint64_t drain_ms; /* Since when. */
    zxid_t drain_zxid; /* The age was written for it; 0: it was not. */
    bool snapshotting;
    bool snapshot_wanted; /* A learner waits for one and there is none that can be sent. */
    uint32_t loading;     /* States asked for and not yet in place. */
    bool readable;        /* Has served since the state was loaded. */
    uint64_t records_since_snap;
    uint64_t bytes_since_snap;
    uint64_t snap_at_records;
    uint64_t snap_at_bytes;
    uint64_t reap_ms;

    struct expiry *expiry;    /* The leader's. */
    uint32_t report_every_ms; /* Half a tick. */
    uint64_t report_ms;       /* Next report of sessions, and look at those that are over. */
    bool expire_more;         /* More were over than one turn takes. */
    uint64_t renew_token;     /* Of the round since the process stood still; 0: none. */

    struct zab_seed seeds[ZAB_MEMBERS_MAX]; /* Of the options. */
    struct sign signs[ZAB_MEMBERS_MAX];     /* The last word of each, in order of first hearing. */
    size_t sign_count;
    struct sign_host host;
    struct prep_room room; /* maxTreeBytes in force, as this replica knows it. */
    uint64_t role_since_ms;
    uint64_t said_ms; /* What goes along with signs of life was made then. */

    uint64_t proposals;
    uint64_t delivered;
    uint64_t retried;
    uint64_t elections;
    uint64_t expired;      /* Sessions that this leader has ended. */
    uint64_t low_periods;  /* Times that `low_since` was set. */
    uint64_t tree_refused; /* Requests that this leader has refused for lack of room. */
};

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
void requests_give_up(struct replica *replica); /* On what waits for a leader. */
void requests_aside(struct replica *replica);   /* The log waits: what can be refused, is. */
void requests_close(struct replica *replica);
void requests_delivered(struct replica *replica, const struct state *state,
                        const struct txn_header *header, zxid_t zxid);
struct op_request *request_by_id(struct replica *replica, uint64_t id);

/* replica_lane.c: order within a lane. */
void lanes_init(struct replica *replica);
void lane_enter(struct replica *replica, struct op_request *request); /* It arrives ... */
void lane_leave(struct replica *replica, struct op_request *request); /* ... and is answered. */

/* A read that a write before it in its lane keeps from being answered; and into its list. */
bool lane_blocks(struct replica *replica, const struct op_request *request);
void lane_hold(struct replica *replica, struct op_request *request);
struct op_request *lane_take_unblocked(struct replica *replica); /* NULL: no more. */
void lane_note_done(struct replica *replica, const struct op_request *request);
bool lane_is_overtaken(const struct replica *replica, const struct op_request *request);

/* replica_propose.c: what the leader proposes. */
enum lead_outcome {
    LEAD_PROPOSED,
    LEAD_REFUSED,
    LEAD_REPLAYED, /* Done before with the same key: `result` is the answer. */
    LEAD_LATER
};
enum lead_outcome lead_prepare(struct replica *replica, const struct prep_job *job,
                               struct op_result *result, zxid_t *ret_zxid);
void lead_reap(struct replica *replica);
void lead_forget(struct replica *replica);
zxid_t lead_keep_age(struct replica *replica, uint32_t idle_ms); /* 0: nothing was written. */
void lead_keep_age_idle(struct replica *replica);

/* Keeps the bytes that an effect of this step points to, until the next step. */
void replica_keep(struct replica *replica, struct blob *take_blob);
void replica_release_kept(struct replica *replica);

/* replica_lead.c: the leader's work for learners. */
void lead_forwarded(struct replica *replica, const struct zab_forwarded *forwarded);
bool lead_confirmed(struct replica *replica, uint64_t token, zxid_t zxid);
void lead_run_forwards(struct replica *replica);
void lead_clear(struct replica *replica);

/* replica_forward.c: what replicas tell each other of clients. */

/* A learner's write as the leader prepares it; slices point into the message. */
struct forwarded {
    struct prep_job job; /* Points to what follows. */
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
    uint64_t mark; /* The newest of its leader that the learner has seen; 0: none (expiry.h). */
    bool last;     /* Part of the report. */
    size_t count;  /* Ids of 8 bytes. */
};

void report_encode(const uint64_t *ids, const struct report *report, struct buf *out);

/* The reader then stands before the ids. */
bool report_decode(struct slice bytes, struct wire_reader *ret_ids, struct report *ret_report);

/* replica_sessions.c: whose clients were heard of, and which sessions are over. */
void sessions_clock(struct replica *replica); /* First in each step. */
void sessions_turn(struct replica *replica);  /* In each step. */
void sessions_role_began(struct replica *replica);
void sessions_role_ended(struct replica *replica);
void sessions_applied(struct replica *replica, const struct state *state);
void sessions_reported(struct replica *replica, uint32_t peer, struct slice bytes);
void sessions_peer_lost(struct replica *replica, uint32_t peer);
bool sessions_confirmed(struct replica *replica, uint64_t token); /* False: not its round. */

/* replica_signs.c: how the replicas are. */
void signs_turn(struct replica *replica); /* Before each step. */
void signs_heard(struct replica *replica, uint32_t peer, struct slice bytes);
void signs_note_room(struct replica *replica); /* Also when a role begins. */

/* replica_apply.c: committed records become state. */

/* Applies the run of deliveries that starts at effect `at`, under one hold of the lock; returns the
 * index behind it. */
size_t replica_deliver(struct replica *replica, size_t at);

/* The host is to load another state, and may put it in place at any moment from now on. */
void replica_restoring(struct replica *replica);

/* The host has put the state of a snapshot in place. */
void replica_restored(struct replica *replica, const struct zab_ev_restored *restored);

/* From the time it serves its state may be read, until that is doubted or another one takes its
 * place. */
void replica_note_readable(struct replica *replica);

/* replica_time.c: age and stamp of transactions. */

/* Age and stamp of a transaction that is proposed now. */
void lead_times(struct replica *replica, struct txn_header *header);

/* The role, or what is applied, may have changed. */
void times_turn(struct replica *replica);
int64_t times_age(const struct replica *replica); /* Now, as far as it is known here. */
void times_of_config(struct replica *replica, const struct zab_config *config);
void times_of_state(struct replica *replica, const struct state *state);
void times_heard(struct replica *replica, const struct sign *sign);

/* What the clocks of a majority have reached, as far as they are known. */
void times_compare(struct replica *replica);
int64_t times_ahead_ms(const struct replica *replica); /* The own clock, of that; 0: unknown. */

#endif
