/*
 * zab_int.h - the private state of the core, shared by the files of this folder only.
 *
 * One struct per replica, with one half for each role. lead_start and follow_start reset the half
 * of their role, except a few values; the other half stays as its role has left it.
 */
#ifndef ZAB_ZAB_INT_H
#define ZAB_ZAB_INT_H

#include "base/blob.h"
#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/probe.h"
#include "base/rng.h"
#include "zab/peer_int.h"
#include "zab/proof_int.h"
#include "zab/step_int.h"
#include "zab/trail.h"
#include "zab/zab.h"

enum {
    EPOCH_JUMP_MAX = 1000000, /* Epochs; a promise further ahead is refused with an alarm. */
    FINALIZE_MS = 50,         /* Election: wait this long for a better vote once a quorum agrees. */
    REDISCOVER_MS = 10000,    /* Minimum time between elections caused by higher promises. */
    DELIVER_MAX = 2048,       /* Records delivered in one step. */
    FETCH_RECS_BYTES = 1 << 20, /* Bytes requested in one ZAB_FX_FETCH. */
    SNAP_WINDOW = 16,           /* Largest window: chunks sent and not durable at the learner. */
    SNAP_WINDOW_START = 2,      /* Window at the start of a transfer. */
    SNAP_DELAY_MS = 100, /* Up to this chunk delay the window grows; above twice this it shrinks. */
    SNAP_TRIP_MAX_MS = 1000,  /* Upper bound of a measured round trip. */
    PINGS_TIMED = 8,          /* Number of newest PINGs whose send time is kept. */
    REFILL_BURST_MS = 20,     /* Burst after a pause: what refill_rate allows in this time. */
    REFILL_ALARM_MS = 10000,  /* Minimum time between two REFILL_LOST_LOG alarms about a peer. */
    AHEAD_ALARM_MS = 60000,   /* Minimum time between two PROMISE_AHEAD alarms about a peer. */
    REFILL_STALL_TICKS = 300, /* Log is kept this long for a learner without progress. */
    CHECKPOINTS = 32,         /* Own digests remembered. */
    CONFIRMS_MAX = 65536,     /* Requests waiting for a quorum round. */
    RESIGN_TICKS = 3,         /* A leader that resigned is not a candidate for this long. */
    DISCOVERY_TICKS = 2, /* Maximum wait for a quorum of CEPOCH or ACKEPOCH, or for NEWEPOCH. */
    INBOX_MAX = 65536,   /* Messages kept while the log is cut back or replaced (FOLLOW_CUT). */
    PENDING_CHANGES_MAX = 64, /* Changes on their way to the disk, except appends and chunks. */
};

/* Mutant 1 (a bug that only tests turn on): the epoch is written before its records, as ZooKeeper
 * once did with currentEpoch. This bit in the promise's leader marks such an epoch. */
#define MUTANT_EPOCH_WRITTEN UINT32_C(0x80000000)

struct checkpoints {
    struct checkpoint items[CHECKPOINTS];
    uint32_t next;
};

/* A request waiting for a quorum round. */
struct confirm {
    uint64_t request;
    uint32_t peer; /* 0: a request of this replica. */
    uint32_t dialogue;
};

struct confirm_list {
    struct confirm *items;
    size_t count;
    size_t cap;
};

enum leader_phase {
    LEADER_COLLECT, /* The leader waits for a quorum of promises. */
    LEADER_PROMISE, /* The leader's own promise is on its way to the disk. */
    LEADER_OUTLINE, /* The leader waits for a quorum of ACKEPOCH. */
    LEADER_EPOCH,   /* The EPOCH record is on its way to the disk. */
    LEADER_SYNC,    /* The leader waits for a quorum of ACK_NEWLEADER. */
    LEADER_BROADCAST,
};

struct leading {
    enum leader_phase phase;
    uint32_t epoch;
    uint64_t promise_token;
    uint64_t deadline_ms; /* When BROADCAST must be reached. */
    uint64_t began_ms;    /* When it was reached. */
    uint64_t ping_ms;     /* When the next PING is due. */
    uint64_t ping_round;
    uint64_t pings_ms[PINGS_TIMED]; /* Send time of each round's PING, by round. */
    uint32_t pending_count;         /* Proposals that are not committed. */
    uint64_t pending_bytes;
    uint32_t since_stamp; /* Records since the last STAMP. */
    uint64_t round;       /* Number of the quorum round in flight, else of the last one. */
    bool round_active;
    struct confirm_list active;
    struct confirm_list waiting;
    bool resigning; /* No new proposals; the leader leaves once a follower has all records. */
    uint64_t resign_deadline_ms;
    bool leaves;              /* It resigns because of a change that takes its vote. */
    zxid_t durable_seen;      /* Own durable zxid when the disk last made progress. */
    uint64_t durable_ms;      /* When the disk last made progress or had all committed records. */
    uint64_t space_resign_ms; /* Next check for a successor with more disk space. */
    uint64_t quorum_ms;       /* When a quorum was last heard from. */
    uint64_t grace_ms;        /* No timeout before this: the process was paused a moment ago. */
    uint64_t refill_due_us;   /* Before this time no chunk of any snapshot is read. */
    bool refill_waits;        /* A learner waits for `refill_due_us`. */
    zxid_t proof;             /* Newest record of this epoch that proves a configuration. */
    struct step step;
    uint32_t refill_turn; /* Id of the peer for which a chunk was read last. */
};

enum follow_phase {   /* In the order in which a learner goes through them. */
    FOLLOW_CEPOCH,    /* The learner has sent CEPOCH and waits for NEWEPOCH. */
    FOLLOW_JOIN,      /* The identity is on its way to the disk. */
    FOLLOW_PROMISE,   /* The promise is on its way to the disk. */
    FOLLOW_ACKED,     /* The learner has outlined its log and waits for SYNC. */
    FOLLOW_SNAP,      /* The learner receives a snapshot, then the log up to its end. */
    FOLLOW_CUT,       /* The learner waits for truncation, reset or install, then for the state. */
    FOLLOW_STREAM,    /* The learner receives records. */
    FOLLOW_NEWLEADER, /* The learner has all records and waits until they are durable. */
    FOLLOW_WAIT,      /* The learner has acknowledged NEWLEADER and waits for UPTODATE. */
    FOLLOW_SERVE,
};

/* The part of a snapshot that a broken transfer has left on the disk. */
struct partial {
    uint64_t id; /* 0: none. */
    uint64_t offset;
    bool is_whole; /* The whole file is here; the staged log (`follow.staged`) is incomplete. */
    zxid_t end;    /* If whole: the snapshot's end, which the staged log must still reach. */
    bool has_config;
    struct zab_config config; /* If `has_config`: the newest configuration in the staged log. */
    struct blob *bytes;       /* `config`, encoded. */
    zxid_t proof;             /* The configuration that the staged log proves; 0: none. */
};

struct inbox_item {
    enum zab_msg_type type; /* ENTRY or NEWLEADER. */
    struct logrec *rec;
    zxid_t commit; /* Commit watermark of an ENTRY. */
};

/* Messages kept in FOLLOW_CUT, while the disk changes the log and the host loads the state. */
struct inbox {
    struct inbox_item *items;
    uint32_t count;
    uint32_t cap;
};

/* A snapshot on its way from the leader. */
struct receiving {
    zxid_t start;
    zxid_t end;
    uint64_t offset; /* Next byte expected. */
    uint64_t id;     /* Id of the snapshot; 0: unknown, so a broken transfer cannot be resumed. */
    bool begun;      /* The start offset is known: a chunk has come, or nothing can be resumed. */
    bool complete;   /* All chunks are here: records of the staged log follow. */
};

struct following {
    enum follow_phase phase;
    uint32_t leader;
    uint32_t dialogue;
    uint32_t epoch;
    uint64_t heard_ms;  /* When the last message of this dialogue came. */
    zxid_t ping_commit; /* Commit of the last PING; at the next one a fresh state has applied it. */
    uint64_t resend_ms; /* FOLLOW_CEPOCH: when to send the promise again. */
    uint64_t grace_ms;
    uint64_t wait_token; /* Token of the change that the phase waits for. */
    bool counted;        /* This replica's ACKEPOCH counts for the quorum. */
    bool wait_state;     /* FOLLOW_CUT: after the disk change the host must also load the state. */
    bool release_sent;   /* The quarantine mark is being cleared. */
    zxid_t target;       /* Last zxid of the leader's log when synchronisation began. */
    zxid_t acked;        /* Last zxid acknowledged. */
    struct receiving snap;

    struct trail_mark { /* Chunks on their way to the disk, oldest first. */
        uint64_t token;
        uint64_t offset;
    } chunks[SNAP_WINDOW * 2];

    uint32_t chunk_count;
    struct trail staged; /* Records after the snapshot's start, until the install is done. */
    bool staged_used;
    bool installing;
    bool newleader_seen; /* The NEWLEADER record is in the staged log. */
    bool has_staged_config;
    struct zab_config staged_config; /* Newest configuration in the staged log. */
    struct blob *staged_bytes;       /* `staged_config`, encoded. */
    zxid_t staged_proof;             /* The configuration that the staged log proves; 0: none. */
    struct inbox inbox;
};

/* A PERSIST under way, of any type but APPEND and SNAP_CHUNK; kept oldest first. */
struct pending_change {
    uint64_t token;
    enum zab_persist_type type;
    uint32_t epoch;
    uint32_t leader;
};

/* Changes requested from the disk. */
struct disk_tokens {
    uint64_t issued;
    uint64_t persist_issued; /* Token of the last change requested from the disk. */
    uint64_t done;           /* All changes up to this token are durable. */
    struct pending_change changes[PENDING_CHANGES_MAX];
    uint32_t change_count;
};

/* Encoded configurations are kept without the transaction, and are never changed: a reference is
 * enough to pass them on. */
struct membership {
    struct zab_config committed;
    struct blob *committed_bytes; /* NULL while there is no configuration. */
    bool has_pending;
    struct zab_config pending; /* Configuration in the log beyond the commit watermark. */
    struct blob *pending_bytes;
    bool is_proven; /* `pending` is known to be committed (proof.c): it alone decides. */
};

struct promise {
    uint32_t epoch;
    uint32_t leader;
};

/* The servers of the configuration file, this replica included. */
struct server_list {
    struct zab_seed items[ZAB_MEMBERS_MAX]; /* Without texts. */
    uint32_t count;
    struct blob *texts; /* Their texts, as a configuration has them; NULL: none. */
};

/* Which other replicas are to be peers once the step under way has ended. */
struct wanted {
    uint32_t ids[ZAB_MEMBERS_MAX]; /* Ascending. */
    uint32_t count;
    bool is_new; /* The peers are not these yet. */
};

/* What this replica has noted of the configurations. */
struct own_place {
    bool knows_configs; /* The peers follow the configurations with these versions: */
    zxid_t committed;
    zxid_t pending;            /* 0: none. */
    struct blob *addresses[2]; /* The same, encoded; the first again if none is pending. */
    bool is_checked;           /* The configuration of the start was looked at, too. */
    bool was_member;           /* In a committed configuration that it has known since its start. */
    bool is_removed;           /* It has been reported that this disk was removed. */
};

/* How far the host has applied the log once it has carried out this step's effects. */
struct delivery {
    zxid_t last;
    uint64_t chain;       /* Chain value at `last`. */
    zxid_t fuzzy_end;     /* Before this zxid a loaded state is inconsistent (fuzzy). */
    uint64_t fetch_token; /* Token of the fetch of records to deliver; 0: none. */
    bool more;            /* The step's limit was reached: more can be delivered. */
};

/* Loads of the state by the host, after an install or a reset. */
struct restore {
    uint32_t under_way; /* Loads under way; nothing is delivered until the last has ended. */
    zxid_t start;       /* Start of the newest snapshot to be loaded. */
    bool missed;        /* The load failed, but a pending install or reset requests another load. */
};

/* State of phase 0, and what outlives one election. */
struct election {
    uint64_t round;
    uint32_t candidate;    /* This replica's vote; 0: none. */
    zxid_t candidate_last; /* Last zxid of the candidate's log. */
    bool started;          /* The first event has been seen. */
    bool settled;          /* No change of an old role is on its way to the disk. */
    uint64_t finalize_ms; /* When the election ends unless a better vote comes; 0: no quorum yet. */
    uint64_t revote_ms;   /* When votes are sent again. */
    uint64_t not_leading_ms; /* This replica is not a candidate before this. */
    bool resigned;           /* The host has requested that this replica does not lead. */
    uint64_t began_ms;       /* When this replica began to look for a leader. */
    uint64_t leaves_ms;     /* Until then it stands only if no other is elected soon: a change is to
                               take its vote. */
    uint32_t epoch_floor;   /* Highest promise reported; the next epoch is above it. */
    uint64_t rediscover_ms; /* Before this a learner's higher promise starts no new epoch. */
};

struct zab {
    uint32_t id;
    uint64_t incarnation;
    uint16_t level_max; /* Highest feature level that this release knows. */
    struct zab_limits limits;
    struct rng rng;
    uint64_t now_ms;
    uint64_t age_ms; /* Age of the ensemble. */
    uint64_t last_step_ms;
    struct zab_effects *effects; /* Effects of the step under way. */

    /* The disk and the log. `promise` and `trail.durable` rise when the disk has finished. */
    struct disk_tokens disk;
    bool bootstrapping;
    bool quarantined;
    bool has_snapshot;
    bool low_space;
    struct promise promise;
    struct membership config;
    struct trail trail;
    zxid_t committed;
    struct delivery delivery;
    struct restore restore;

    struct peer *peers[ZAB_MEMBERS_MAX]; /* Ascending by id; an address stays until peer_drop. */
    uint32_t peer_count;
    struct wanted wanted;
    struct own_place own;
    struct outside outside;
    struct joining join;
    struct server_list servers;
    struct checkpoints digests;

    /* Role. */
    enum zab_state state;
    struct election election;
    struct leading lead;
    struct following follow;
    struct partial partial; /* Outlives the dialogue, but not a change of this replica's log. */
    uint32_t dialogue_seq;
    uint64_t rejoin_ms;      /* No new dialogue before this: a snapshot could not be installed. */
    struct zab_facts *facts; /* facts.c; NULL: none. */
    uint64_t change_ms;      /* Next check for a change of the configuration. */
    bool is_ahead;           /* A leader has refused the promise of this disk as too high. */

    /* For the host. */
    uint64_t heard_ms; /* When this replica last knew of a leader with a quorum. */
    bool was_serving;
    const char *reason;      /* Constant. */
    struct buf ping_payload; /* What the host attaches to each heartbeat. */
};

/* A peer of `zab`, const if `zab` is. */
#define PEER_TYPE(zab) \
    __typeof__(*_Generic((zab), const struct zab *: (const struct peer *)(NULL), \
                         struct zab *: (struct peer *)(NULL)))

/* Loops over the other replicas. NOLINTBEGIN(*-parentheses): `peer` is declared here. */
#define for_each_peer(peer, zab)                                                                 \
    for (PEER_TYPE(zab) *const *peer##_at = (PEER_TYPE(zab) *const *)(zab)->peers, *peer = NULL; \
         peer##_at < (PEER_TYPE(zab) *const *)(zab)->peers + (zab)->peer_count &&                \
         (peer = *peer##_at);                                                                    \
         peer##_at++)

/* NOLINTEND(*-parentheses) */

/* Whether this replica follows a leader, counted for quorums (following) or not (observing). */
static inline bool is_learner(const struct zab *zab)
{
    return zab->state == ZAB_FOLLOWING || zab->state == ZAB_OBSERVING;
}

static inline bool in_dialogue(const struct zab *zab)
{
    return is_learner(zab) && zab->follow.leader != 0 && zab->follow.dialogue != 0;
}

/* Whether this replica leads and a quorum follows it. */
static inline bool is_broadcasting(const struct zab *zab)
{
    return zab->state == ZAB_LEADING && zab->lead.phase == LEADER_BROADCAST;
}

/* Whether the peer is a connected learner that has acknowledged NEWLEADER. */
static inline bool is_in_step(const struct peer *peer)
{
    return peer->up && peer->learner.stage == LEARNER_SYNCED;
}

static inline uint64_t ticks_ms(const struct zab *zab, uint32_t ticks)
{
    return (uint64_t)zab->limits.tick_ms * ticks;
}

/* Whether the peer is in step and was heard lately. */
static inline bool is_present(const struct zab *zab, const struct peer *peer)
{
    return is_in_step(peer) &&
           zab->now_ms - peer->learner.heard_ms < ticks_ms(zab, zab->limits.sync_limit);
}

/* Whether the member may vote once its disk is the one that the configuration names. */
static inline bool has_seat(const struct zab_member *member)
{
    return member->voter || member->empty_seat;
}

/* effects.c */
struct zab_effect *fx_add(struct zab *zab, enum zab_effect_type type);
void fx_send(struct zab *zab, uint32_t peer, const struct zab_msg *msg);
void fx_disconnect(struct zab *zab, uint32_t peer);

/* tell_learner and tell_leader fill in the dialogue and the epoch of the message. */
void tell_learner(struct zab *zab, const struct peer *peer, struct zab_msg msg);
void tell_leader(struct zab *zab, struct zab_msg msg);
uint64_t fx_fetch(struct zab *zab, zxid_t after); /* Returns the token. */
void fx_role(struct zab *zab);
void fx_ping_payload(struct zab *zab, uint32_t peer, struct slice payload);
void fx_halt(struct zab *zab, struct zab_notice notice);
void fx_alarm(struct zab *zab, struct zab_notice notice);

/* fx_persist adds a PERSIST with a new token; the caller fills in what the type needs.
 * fx_persist_promise returns the token. */
struct zab_persist *fx_persist(struct zab *zab, enum zab_persist_type type);
uint64_t fx_persist_promise(struct zab *zab, uint32_t epoch, uint32_t leader);

/* quorum.c: majorities of the committed configuration and, if any, of the pending one as well. */
typedef bool (*quorum_pred)(const struct zab *zab, const struct peer *peer);
bool quorum_has(const struct zab *zab, bool self, quorum_pred pred);
/* Returns how many voters of the configuration satisfy `pred`; `self`: this replica does. */
uint32_t quorum_voters(const struct zab *zab, const struct zab_config *config, bool self,
                       quorum_pred pred);
bool quorum_counts(const struct zab *zab, uint32_t id, uint64_t incarnation);
bool quorum_counts_peer(const struct zab *zab, const struct peer *peer, uint32_t flags);
/* Whether connected voters are a majority of either the committed or the pending configuration. */
bool quorum_lacks_one_of_two(const struct zab *zab);
/* Whether this replica is a voter by the configuration and its storage is sound. */
bool quorum_self_counts(const struct zab *zab);
uint32_t self_flags(const struct zab *zab);
zxid_t quorum_acked(const struct zab *zab); /* Highest zxid that is durable on a quorum. */
bool peer_is_up(const struct zab *zab, const struct peer *peer);
struct peer *peer_find(const struct zab *zab, uint32_t id);

/* peers.c: the other replicas that this one talks to. A loop over the peers may run at any depth of
 * calls, so the peers change only at the end of a step. */
void peers_want(struct zab *zab, const uint32_t *ids,
                uint32_t count);    /* Ascending, without self. */
bool peers_update(struct zab *zab); /* Whether the peers have changed. */
void peers_free(struct zab *zab);
/* Adds an outsider; NULL, and its connection ends, if there is no room. */
struct peer *peer_meet(struct zab *zab, uint32_t id);
void peer_up(struct zab *zab, struct peer *peer, const struct zab_ev_peer_up *up);
void peer_down(struct zab *zab, struct peer *peer);

/* members.c: the peers follow the configurations. */
void members_init(struct zab *zab);
void members_free(struct zab *zab);
void members_update(struct zab *zab); /* At the end of a step. */
/* Whether the message counts for nothing, because its sender is no member. */
bool members_refuse(struct zab *zab, struct peer *peer, const struct zab_msg *msg);

/* log.c */
void log_append(struct zab *zab, struct logrec *take_rec);
void log_outline_cut(struct zab *zab, zxid_t zxid);
void log_on_fetched(struct zab *zab, const struct zab_ev_fetched *fetched); /* Delivers them. */
void commit_to(struct zab *zab, zxid_t zxid);
bool may_deliver(const struct zab *zab);
void deliver(struct zab *zab);
zxid_t reported_last_zxid(const struct zab *zab); /* Last durable zxid as peers see it. */

/* election.c */
void enter_looking(struct zab *zab, const char *why); /* Ends the role. */
void quarantine_self(struct zab *zab, const char *reason);
void note_serving(struct zab *zab); /* Reports if serving has changed: call it after all changes. */
void election_tick(struct zab *zab);
void election_on_vote(struct zab *zab, struct peer *peer, const struct zab_msg_vote *vote);
void election_greet(struct zab *zab, struct peer *peer);
void election_check(struct zab *zab);
void election_announce(struct zab *zab); /* Sends the present vote or role to all peers. */

/* Marks all votes so far as stale when a role begins: the next election ignores them. */
void election_mark_votes_stale(struct zab *zab);
uint64_t election_wake_ms(const struct zab *zab);

/* lead.c: discovery on the leader's side; lead_sync.c: bringing learners in step. */
void lead_start(struct zab *zab);
void lead_leave(struct zab *zab);
void lead_tick(struct zab *zab);
void lead_on_message(struct zab *zab, struct peer *peer, const struct zab_msg *msg);
void lead_on_persisted(struct zab *zab);
void lead_peer_down(struct zab *zab, struct peer *peer);
void lead_outline_ready(struct zab *zab);
uint64_t lead_wake_ms(const struct zab *zab);
void learner_reset(struct zab *zab, struct peer *peer);
void sync_begin(struct zab *zab, struct peer *peer);
void sync_pump(struct zab *zab, struct peer *peer);
void sync_pump_all(struct zab *zab);
void sync_on_acked(struct zab *zab, struct peer *peer, zxid_t zxid);
void sync_on_fetched(struct zab *zab, const struct zab_ev_fetched *fetched);
void sync_send(struct zab *zab, const struct peer *peer, zxid_t common, uint32_t flags);
void sync_send_newleader(struct zab *zab, struct peer *peer, struct logrec *rec);
struct peer *sync_peer_of_fetch(struct zab *zab, uint64_t token);

/* lead_snap.c: a snapshot on its way to a learner. */
void snap_begin(struct zab *zab, struct peer *peer);
void snap_pump(struct zab *zab); /* Reads chunks that refill_rate held back. */
uint64_t snap_wake_ms(const struct zab *zab);
void sync_on_snap_fetched(struct zab *zab, const struct zab_ev_snap_fetched *piece);
void sync_on_snap_ack(struct zab *zab, struct peer *peer, uint64_t offset);

/* Notes a round trip: the answer to a message sent at `since_ms` has come. */
void snap_saw_trip(const struct zab *zab, struct learner *learner, uint64_t since_ms);
void sync_retry(struct zab *zab, bool now); /* Asks again for missing snapshots. */

/* lead_keep.c: the log that learners still need. */
void keep_begin(struct zab *zab, struct peer *peer, struct keep keep);
void keep_progress(struct zab *zab, struct peer *peer);
void keep_peer_down(struct peer *peer);
void keep_on_acked(struct zab *zab, struct peer *peer);
void keep_on_purged(struct zab *zab); /* Call when the log's base has moved. */
void keep_tick(struct zab *zab);
void keep_clear(struct zab *zab); /* Call when another replica leads. */
uint32_t keep_count(const struct zab *zab);

/* broadcast.c */
void broadcast_append(struct zab *zab, enum logrec_type type, struct slice payload);
void broadcast_commit(struct zab *zab);
void broadcast_uptodate(struct zab *zab, struct peer *peer);
void broadcast_ping(struct zab *zab);
void broadcast_on_pong(struct zab *zab, struct peer *peer, const struct zab_msg_pong *pong);
void confirm_add(struct zab *zab, struct confirm confirm);
void confirm_on_ack(struct zab *zab, struct peer *peer, uint64_t round);
void confirm_check(struct zab *zab);
void confirm_ask(struct zab *zab, const struct peer *peer);
void confirm_clear(struct zab *zab);

/* follow.c: the learner's dialogue; follow_sync.c: synchronisation of the learner's log;
 * follow_snap.c: snapshots received. */
void follow_start(struct zab *zab, uint32_t leader);
void follow_leave(struct zab *zab);
void inbox_clear(struct inbox *inbox);
void follow_tick(struct zab *zab);
void follow_on_message(struct zab *zab, struct peer *peer, const struct zab_msg *msg);
void follow_on_persisted(struct zab *zab, const struct zab_ev_persisted *done);
void follow_on_restored(struct zab *zab, const struct zab_ev_restored *restored);
void follow_sync(struct zab *zab, const struct zab_msg_sync *sync);
void follow_stream(struct zab *zab, const struct zab_msg *msg);
void follow_error(struct zab *zab, const char *what); /* Leaves a leader after its error. */
bool follow_fits(struct zab *zab, const struct trail *trail, const struct logrec *rec);
void follow_resume(struct zab *zab); /* Call when disk and state are as SYNC demands. */
void follow_snap_begin(struct zab *zab);
void follow_snap_chunk(struct zab *zab, const struct zab_msg_snap_chunk *chunk);
void follow_snap_record(struct zab *zab, const struct zab_msg *msg);
void follow_snap_persisted(struct zab *zab, uint64_t token);
void follow_sync_persisted(struct zab *zab, const struct zab_ev_persisted *done);
void follow_acknowledge(struct zab *zab);
uint64_t follow_wake_ms(const struct zab *zab);
void follow_tell_space(struct zab *zab);
void follow_on_vote(struct zab *zab, const struct peer *peer);
void follow_install_done(struct zab *zab, const struct zab_ev_persisted *done);
void follow_reset_done(struct zab *zab);
void follow_snap_abort(struct zab *zab);
void follow_snap_continue(struct zab *zab, zxid_t common);
void follow_snap_forget(struct zab *zab); /* Drops the partial snapshot on the disk. */

/* membership.c */
void config_insert(struct zab_config *config, struct zab_member member);
void config_erase(struct zab_config *config, uint32_t id);
/* Gives the member's vote to this disk. */
void config_seat(struct zab_config *config, uint32_t id, uint64_t incarnation, uint64_t age_ms);
/* Takes the member's vote, or its empty seat. */
void config_unseat(struct zab_config *config, uint32_t id);
/* In these calls `bytes` are the configuration as it was encoded, from which its texts are taken;
 * empty: it has no texts. */
void config_set(struct zab *zab, const struct zab_config *config, struct slice bytes);
/* Stops the process if a later release has made this configuration. */
bool config_is_known(struct zab *zab, const struct zab_config *config);
/* Stops the process if this release cannot read the record: call it before the record is written.
 */
void config_verify(struct zab *zab, const struct logrec *rec);
void config_seen(struct zab *zab, const struct logrec *rec);
void config_bind(struct zab *zab, const struct zab_config *config, struct slice bytes);
void config_pend(struct zab *zab, const struct zab_config *config, struct slice bytes);
/* Puts the encoded configuration in place of the one at `inout_bytes`. */
void config_keep(const struct zab_config *config, struct slice bytes, struct blob **inout_bytes);
void config_committed(struct zab *zab); /* Adopts `pending` once committed. */
/* Adopts the committed configuration in `bytes` if it is newer. Returns false if malformed. */
bool config_adopt(struct zab *zab, struct slice bytes);
/* Whether the committed or the pending configuration has such a member. */
bool config_names(const struct zab *zab, uint32_t id);
bool list_agrees(const struct zab *zab, const struct zab_config *config);
bool list_votes(const struct zab *zab, uint32_t id); /* Whether the server list has such a voter. */
/* Whether the peer's id is in no configuration, or its disk was removed. */
bool config_excludes(const struct zab *zab, const struct peer *peer);
/* Whether a leader has reported the committed configuration as committed: see proof.c. */
bool config_is_settled(const struct zab *zab);
void config_send(struct zab *zab, const struct peer *peer);
void config_tell(struct zab *zab, const struct peer *peer, zxid_t version);

/* bootstrap.c */
void bootstrap_check(struct zab *zab);
void bootstrap_tell(struct zab *zab);
void bootstrap_on_config(struct zab *zab, struct peer *peer, const struct zab_msg_config *msg);

/* change.c */
void change_tick(struct zab *zab);
void facts_free(struct zab *zab);

/* admit.c */
bool may_admit(const struct zab *zab, const struct peer *peer);
void admit_on_exclude(struct zab *zab, struct peer *peer, const struct zab_msg *msg);

/* digest.c */
void digest_compare(struct zab *zab);
void digest_on_pong(struct zab *zab, struct peer *peer, const struct zab_msg_pong *pong);
struct checkpoint digest_newest(const struct zab *zab);

#endif
