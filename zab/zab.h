/*
 * zab.h - the protocol core: one step function, no calls out.
 *
 * Time, randomness, messages and disk completions come in as events. The core answers with effects,
 * which the host carries out in their order. The core requests each disk change with a token, and
 * reports the change to other replicas only after the event PERSISTED with that token.
 *
 * The host calls the core from one thread and owns everything outside the core. Effects and the
 * memory that they point to are valid until the next call into the core. References to records in
 * effects belong to the host, which drops them.
 *
 * A replica without a list of the members (`join`): zab_new gets no seeds, and `bootstrapping` only
 * if `bootstrap` names it. The host then does this:
 *
 *   FX_SEARCH on    dial all addresses of `join` (tcp_set_join), besides the peers and the server
 *                   list; off: dial the peers alone. A new process does not search.
 *   PEER_UP         for each replica that has proven itself, a member or not
 *   FX_MEMBERS      connect to those that zab_peers names, at the addresses in zab_config_bytes,
 *                   zab_pending_bytes and, without a configuration, zab_outside_bytes
 *   REACHED         with `bootstrap`, whenever it changes; after the PEER_UPs that it rests on
 *   FX_REMOVED      may also come to a disk that is in no cluster: a cluster has removed it
 *
 * The others list it in zab_waiting until they add it. `outside` of zab_status says that it has met
 * a cluster and waits.
 *
 * Sources: Junqueira, Reed, Serafini, "Zab", DSN 2011 (phases 0 to 3); zab/PROTOCOL.md for the
 * differences.
 */
#ifndef ZAB_ZAB_H
#define ZAB_ZAB_H

#include "base/blob.h"
#include "zab/change.h"
#include "zab/config.h"
#include "zab/msg.h"
#include "zab/notice.h"

struct zab;

struct zab_limits {
    uint32_t tick_ms;     /* Length of a tick, the unit of the next two limits. */
    uint32_t init_limit;  /* Ticks without progress after which a new leader gives up. */
    uint32_t sync_limit;  /* Ticks of silence after which a peer counts as dead. */
    uint32_t pending_max; /* Maximum of proposals not yet committed. */
    uint64_t pending_bytes_max;
    uint32_t cache_max; /* Maximum of records kept in memory for learners that lag. */
    uint64_t cache_bytes_max;
    uint32_t window_max; /* Maximum of records sent to a learner and not yet acknowledged. */
    uint64_t window_bytes_max;
    uint32_t counter_max;     /* Counter at which the leader starts a new epoch. */
    uint32_t admit_absent_ms; /* A new disk is admitted once the old one was away this long. */
    uint32_t admit_again_ms;  /* Minimum time between two admissions to one seat. */
    uint32_t level_ms;        /* The level is raised once all members were connected this long. */
    uint32_t step_lag_ms;     /* A learner is in step while it has what the log held so long ago. */
    uint32_t promote_ms;      /* A member is promoted once it was in step for so long. */
    uint32_t stamp_every;     /* Records from one STAMP (the voters' durable zxids) to the next. */
    uint32_t chunk_bytes;     /* Bytes of a snapshot chunk, at most ZAB_CHUNK_BYTES_MAX. */
    uint64_t refill_rate;     /* Bytes of snapshots per second that a broadcasting leader reads and
                                 sends to all learners together; 0: no limit. */
};

void zab_limits_default(struct zab_limits *limits);

/* Bytes that a connection's queue must hold besides window_bytes_max: snapshot chunks, headers,
 * messages that the window does not count, and one record: the window exceeds its limit by up to
 * one record, because a record of any length is sent while the window holds less than the limit. */
#define ZAB_QUEUE_RESERVE ((uint64_t)19 << 20)

/* Limits window_bytes_max so that the window and ZAB_QUEUE_RESERVE fit a queue of `queue_bytes`
 * (more than the reserve). The window then stops the stream to a slow learner before the queue is
 * full; a full queue would disconnect the learner. */
void zab_limits_fit_queue(struct zab_limits *limits, uint64_t queue_bytes);

/* A member in the server list of the configuration file. */
struct zab_seed {
    uint32_t id;
    bool voter;
    struct zab_texts texts; /* Its address and, of this replica, the other texts; may be empty. */
};

enum {
    ZAB_OUTSIDERS_MAX =
        8 /* Connected replicas that are no members, of which a core takes notice. */
};

/* What recovery found on the disk; zab_new copies everything. */
struct zab_init {
    uint32_t id;
    uint64_t incarnation;
    uint16_t level_max;         /* Highest feature level that this release knows. */
    bool bootstrapping;         /* The disk is in no cluster yet: `config` is empty. */
    bool quarantined;           /* The durable quarantine mark is set. */
    struct zab_config config;   /* The configuration that is committed at `committed`. */
    bool has_pending;           /* The log beyond `committed` holds a configuration: `pending`. */
    struct zab_config pending;  /* Until `pending` commits, quorums of both are needed. */
    bool is_pending_proven;     /* A later record of the log names it (zab_proven_config). */
    struct blob *config_bytes;  /* `config` and `pending` as they were encoded, with the members' */
    struct blob *pending_bytes; /* texts; NULL: without texts. The caller keeps its references. */
    uint32_t promised_epoch;
    uint32_t promised_leader;
    zxid_t log_base;
    zxid_t log_last;
    uint64_t log_chain;
    zxid_t committed; /* Last known committed zxid; the host has applied exactly up to it. */
    uint64_t committed_chain; /* Chain value at `committed`. */
    bool has_snapshot;
    const struct epoch_range *ranges; /* Epoch ranges of the log, ascending. */
    uint32_t range_count;
    const struct zab_seed *seeds; /* All members in the server list, this replica included. */
    uint32_t seed_count;
    /* Replicas 1 to `bootstrap` found a new cluster, in which they vote; there is no server list
     * then, and replicas with a higher id only join. They found once all of them are connected, are
     * new, and have told each other in JOIN that this process has met no cluster and that REACHED
     * is true. 0: the server list names the founders. At most ZAB_MEMBERS_MAX. */
    uint32_t bootstrap;
    /* Where this replica is reached: JOIN says so to those that may add it. Without a host JOIN
     * says its id only, and the operator says the address. A founder by number needs one. */
    struct zab_texts texts;
    bool auto_join; /* As leader, add replicas that send JOIN, as observers, one a second. */
    uint32_t max_observers; /* But not beyond this number of observers. */
    /* Up to this number of voters, one that is added becomes a voter once it is in step; 0: none
     * does. */
    uint32_t max_voters;
    uint64_t rng_seed;
    uint64_t now_ms;
    struct zab_limits limits;
};

/* ---- Events. ---- */

enum zab_event_type {
    ZAB_EV_TICK, /* The wake time has come, or the host has another reason to report the time. */
    /* A connection is authenticated. It replaces the peer's older connection. The peer may be any
     * replica that has proven itself, a member or not: if there is no room for one that is no
     * member, or later, when a member needs the room, DISCONNECT is the answer. */
    ZAB_EV_PEER_UP,
    ZAB_EV_PEER_DOWN,
    ZAB_EV_RECV,
    ZAB_EV_PERSISTED,    /* All changes up to `token` are durable. */
    ZAB_EV_FETCHED,      /* Answer to ZAB_FX_FETCH. */
    ZAB_EV_SNAP_FETCHED, /* Answer to ZAB_FX_SNAP_FETCH. */
    /* Answer to ZAB_FX_RESTORE: the host has loaded the state at the newest snapshot's start, or
     * failed (`err`). Answers come in the order of the requests. */
    ZAB_EV_RESTORED,
    ZAB_EV_SPACE,       /* The disk has become nearly full, or has space again. */
    ZAB_EV_RESIGN,      /* Hand leadership over and do not lead again, or cancel that request. */
    ZAB_EV_STORED_SNAP, /* A snapshot that this replica has taken is durable. */
    ZAB_EV_PURGED,      /* The log was purged, without a new snapshot. */
    ZAB_EV_REACHED,     /* With `bootstrap`: whether all addresses of `join` are reached. */
};

struct zab_ev_peer_up {
    uint64_t incarnation;             /* Incarnation of the peer's disk. */
    uint8_t cluster[ZAB_CLUSTER_LEN]; /* Zero while bootstrapping or unformatted. */
    bool bootstrapping;
    uint8_t level; /* Highest feature level that the peer's release knows; 0: it has not said so. */
};

struct zab_ev_persisted {
    uint64_t token;
    zxid_t last;         /* Last zxid of the log; set after TRUNCATE, RESET and SNAP_INSTALL. */
    uint64_t last_chain; /* Chain value at `last`. */
    /* Result of SNAP_INSTALL. ERR_CORRUPT: the snapshot does not verify. ERR_NO_SPACE: snapshot or
     * log did not fit on the disk. */
    enum err err;
};

struct zab_ev_fetched {
    uint64_t token;
    enum err err;
    struct logrec **recs;
    size_t rec_count;
};

struct zab_ev_snap_fetched {
    uint64_t token;
    enum err err;
    zxid_t start; /* Start of the snapshot. */
    uint64_t start_chain;
    zxid_t end;
    uint64_t id; /* Hash that identifies the snapshot's bytes; 0: not known. */
    /* Offset of `bytes`. The first piece starts at the requested offset if the requested id is that
     * of this snapshot, else at 0. */
    uint64_t offset;
    struct slice bytes;
    bool is_last;
};

struct zab_ev_restored {
    enum err err;
    zxid_t start; /* Start of the newest snapshot. */
    uint64_t start_chain;
    zxid_t end;      /* The state is consistent once the log is applied up to here. */
    uint64_t digest; /* Digest that the state must have at `end`. */
};

struct zab_ev_stored_snap {
    zxid_t start;
    zxid_t log_base; /* The log's new base. */
};

struct zab_event {
    enum zab_event_type type;
    uint64_t now_ms; /* Monotonic. */
    /* Age of the ensemble now: the total time during which it has had a leader. Never decreases
     * while this replica leads. */
    uint64_t age_ms;
    uint32_t peer; /* Set in PEER_UP, PEER_DOWN and RECV. */

    union {
        struct zab_ev_peer_up peer_up;
        const struct zab_msg *msg; /* RECV. The core takes references. */
        struct zab_ev_persisted persisted;
        struct zab_ev_fetched fetched;
        struct zab_ev_snap_fetched snap_fetched;
        struct zab_ev_restored restored;
        struct zab_ev_stored_snap stored_snap;
        zxid_t purged_base; /* PURGED: the log's new base. */
        bool is_space_low;  /* SPACE. */
        bool is_to_resign;  /* RESIGN. */
        /* REACHED: at each address of `join`, a replica (this one, too) has answered in the last
         * 10 s. A new process begins with false; the host sends each change. */
        bool is_all_reached;
    };
};

/* ---- Effects. ---- */

enum zab_effect_type {
    ZAB_FX_SEND,
    ZAB_FX_DISCONNECT,   /* Close the connection to a peer; the peer may come back. */
    ZAB_FX_PERSIST,      /* Change the disk; all PERSISTs form one FIFO. */
    ZAB_FX_DELIVER,      /* Apply a record: it is committed, and durable here. */
    ZAB_FX_FETCH,        /* Read records from the log. */
    ZAB_FX_SNAP_FETCH,   /* Read a piece of the newest snapshot that verifies and begins at `oldest`
                            or later. All pieces for one peer come from one snapshot. If no
                            snapshot verifies, the host answers with an error and takes one. */
    ZAB_FX_RESTORE,      /* A received snapshot was installed, or the log reset: load the state. */
    ZAB_FX_CONFIRMED,    /* The quorum round for a request is done. */
    ZAB_FX_FORWARDED,    /* Leader: a learner has forwarded a client's request. */
    ZAB_FX_REFUSED,      /* Learner: the leader refused a request. */
    ZAB_FX_PING_PAYLOAD, /* What a peer's host attached to its heartbeat. */
    ZAB_FX_MEMBERS, /* The peers have changed, or their addresses may have: connect to those that
                       zab_peers names, at their addresses in zab_config_bytes, zab_pending_bytes
                       and zab_outside_bytes. Outsiders are not among them: their connections last
                       until they or DISCONNECT end them. */
    ZAB_FX_SEARCH,  /* This replica has found no leader for some time, or has found one (`search`).
                       While it searches, dial each replica whose address is known, whatever its id:
                       the peers, all of the server list, all addresses of `join`. */
    ZAB_FX_REMOVED, /* A committed change has removed this very disk. */
    ZAB_FX_ROLE,    /* Role, leader, epoch or serving has changed: query the status. */
    ZAB_FX_HALT,    /* An invariant is violated: stop the process and report `notice`. */
    ZAB_FX_ALARM,   /* Report `notice` to the operator. */
};

enum zab_persist_type {
    ZAB_PERSIST_APPEND,
    ZAB_PERSIST_TRUNCATE,
    ZAB_PERSIST_PROMISE,
    ZAB_PERSIST_JOIN, /* Write the identity (cluster, configuration); end bootstrapping. */
    ZAB_PERSIST_QUARANTINE,
    ZAB_PERSIST_RELEASE,
    ZAB_PERSIST_RESET,
    ZAB_PERSIST_SNAP_BEGIN,
    ZAB_PERSIST_SNAP_CHUNK,
    ZAB_PERSIST_SNAP_INSTALL,
    ZAB_PERSIST_SNAP_ABORT,
};

struct zab_persist {
    enum zab_persist_type type;
    uint64_t token; /* Ascending; FETCH and SNAP_FETCH use the same sequence. */

    union {
        struct {
            struct logrec *rec; /* A reference for the host. */
            zxid_t committed;   /* Commit watermark now. */
        } append;

        struct {
            zxid_t zxid; /* New last zxid. */
        } truncate;

        struct {
            uint32_t epoch;
            uint32_t leader;
        } promise;

        struct {
            const struct zab_config *config;
        } join;

        struct {
            const char *reason; /* Constant. */
        } quarantine;

        struct {
            uint64_t offset;
            struct slice bytes;
        } snap_chunk;
    };
};

struct zab_snap_fetch {
    uint64_t token;
    uint32_t peer;
    zxid_t oldest;
    uint64_t offset;
    uint32_t len; /* Maximum length of the piece. */
    /* First piece for `peer`. The peer may have `offset` bytes of the snapshot `id` from a transfer
     * that broke off. */
    bool is_first;
    uint64_t id;
};

/* Slices and pointers are valid until the next call into the core: the host copies what it keeps.
 */
struct zab_effect {
    enum zab_effect_type type;

    union {
        struct {
            uint32_t peer;
            struct zab_msg msg;
        } send;

        struct {
            uint32_t peer;
        } disconnect;
        struct zab_persist persist;

        struct {
            struct logrec *rec; /* A reference for the host. */
        } deliver;

        struct {
            uint64_t token;
            zxid_t after; /* The records that follow this zxid. */
        } fetch;
        struct zab_snap_fetch snap_fetch;

        struct {
            zxid_t start; /* Start of the snapshot; 0: an empty state. */
        } restore;

        struct {
            uint64_t request;
            zxid_t zxid; /* The host answers the request once this zxid is applied. */
        } confirmed;

        struct zab_forwarded {
            uint32_t peer;
            uint32_t dialogue; /* Dialogue that the request belongs to. */
            uint64_t request;
            struct slice bytes;
        } forwarded;

        struct {
            uint64_t request;
            struct slice bytes;
        } refused;

        struct {
            uint32_t peer;
            struct slice bytes;
        } ping_payload;

        struct {
            zxid_t zxid; /* Of the change. */
        } removed;

        struct {
            bool is_on;
        } search;
        struct zab_notice notice; /* HALT, ALARM. */
    };
};

struct zab_effects {
    struct zab_effect *items;
    size_t count;
    size_t cap;
};

void zab_effects_init(struct zab_effects *effects);
void zab_effects_clear(struct zab_effects *effects); /* Drops no references: the host owns them. */
void zab_effects_release(struct zab_effects *effects);

/* ---- The core. ----
 *
 * Messages, disk completions and time come in through zab_step. The calls listed here change the
 * state, too. The host makes them between two events, because it needs an answer at once or passes
 * on what it has just applied, found or decided:
 *
 *   zab_propose     the record gets the zxid that zab_next_zxid named: no event may come between
 *   zab_change      returns at once whether the change can be proposed, and why not
 *   zab_hand_over   the host has found that a change must wait for another leader
 *   zab_confirm     returns at once whether a quorum round can start
 *   zab_forward     returns at once whether there is a leader to send to
 *   zab_refuse      answers a learner's request that the host has just refused
 *   zab_digest      a digest of the state, computed while the host applies a DELIVER
 *   zab_bad_state   the host finds that the state loaded from a snapshot is wrong
 *   zab_set_ping_payload   bytes for the next heartbeat
 *   zab_set_facts   what the host knows of the members' addresses
 *
 * None of these calls reads the clock or runs timers.
 */

struct zab *zab_new(const struct zab_init *init);
void zab_free(struct zab *zab);

/* Handles one event; appends what the host must do to `effects`. */
void zab_step(struct zab *zab, const struct zab_event *event, struct zab_effects *effects);

/* Returns when the next TICK is due, in monotonic ms. */
uint64_t zab_wake_ms(const struct zab *zab);

/* Returns the zxid that the next proposal will get, or 0 when no proposal can be taken now. Only a
 * broadcasting leader takes proposals. */
zxid_t zab_next_zxid(const struct zab *zab);

/* Proposes a transaction, which gets the zxid that zab_next_zxid returned (leader only).
 * ERR_NOT_READY when zab_next_zxid returns 0. */
enum err zab_propose(struct zab *zab, struct slice txn, struct zab_effects *effects);

/* Starts a quorum round for the host's `request`, in any serving role; the round ends with
 * CONFIRMED. A change of role drops the round: the host starts it again. ERR_NOT_READY: no round
 * can start. ERR_THROTTLED: too many requests wait for a round. */
enum err zab_confirm(struct zab *zab, uint64_t request, struct zab_effects *effects);

/* Sends a client's request to the leader (only as a learner that has received UPTODATE). The answer
 * is the delivery of the transaction, or REFUSED. */
enum err zab_forward(struct zab *zab, uint64_t request, struct slice bytes,
                     struct zab_effects *effects);

/* Refuses a request of learner `peer` (leader only). Ignored unless `dialogue` is still under way:
 * a restarted learner numbers its requests from 1 again, so the number may mean a new request. */
void zab_refuse(struct zab *zab, uint32_t peer, uint32_t dialogue, uint64_t request,
                struct slice bytes, struct zab_effects *effects);

/* Whether `dialogue` is the current one with learner `peer` (leader only). */
bool zab_is_dialogue(const struct zab *zab, uint32_t peer, uint32_t dialogue);

/* Attaches a copy of these bytes to each further PING, PONG and ACK_NEWLEADER. They are opaque
 * here, and at most ZAB_PING_PAYLOAD_MAX long. */
void zab_set_ping_payload(struct zab *zab, struct slice bytes);

/* What the host knows of a member's texts; unused bytes are 0. */
struct zab_fact {
    uint32_t id;
    uint16_t port; /* For other replicas; 0: not known. */
    char host[ZAB_HOST_MAX + 1];
    char client[ZAB_CLIENT_MAX + 1]; /* host:port; "": not known. */
};

/* Sets what the host knows of the members' texts, in place of what it knew before: at most
 * ZAB_MEMBERS_MAX entries, which are copied. As leader, from ZAB_LEVEL_TEXTS on, this replica adds
 * missing addresses and newer ones for clients to the configuration: at once if all members then
 * have one, for other replicas or for clients, else at most once a minute. */
void zab_set_facts(struct zab *zab, const struct zab_fact *facts, uint32_t count);

/* A checkpoint is a zxid whose counter is a multiple of ZAB_CHECKPOINT. At each checkpoint the host
 * calls zab_digest with the state's digest after applying `zxid`. */
enum {
    ZAB_CHECKPOINT = 64
};

void zab_digest(struct zab *zab, zxid_t zxid, uint64_t digest);

/* Refills this replica (again): the state that was loaded from a received snapshot is not the state
 * that the snapshot's writer had at the snapshot's end. */
void zab_bad_state(struct zab *zab, zxid_t end, struct zab_effects *effects);

/* ---- Status queries. ---- */

enum zab_phase {
    ZAB_PHASE_ELECTION,
    ZAB_PHASE_DISCOVERY,
    ZAB_PHASE_SYNC,
    ZAB_PHASE_BROADCAST
};

struct zab_status {
    enum zab_state state;
    enum zab_phase phase;
    bool serving; /* The phase is BROADCAST and the epoch's start is applied. */
    bool quarantined;
    bool bootstrapping;
    bool unknown_disk; /* This incarnation is not (yet) in the configuration. */
    bool outside;      /* It knows the members of a cluster (zab_outside), and is none of them. */
    bool searching;    /* As the last ZAB_FX_SEARCH says. */
    uint32_t epoch;    /* Current epoch: that of the last EPOCH record of the log. */
    uint32_t promised;
    uint32_t leader; /* 0: none. */
    zxid_t last;     /* Last zxid of the log. */
    zxid_t durable;
    zxid_t committed;
    zxid_t delivered;
    uint64_t delivered_chain;
    uint64_t heard_ms;        /* When this replica last knew of a leader with a quorum. */
    uint32_t low_voters;      /* Leader: replicas with a nearly full disk, itself included. */
    bool quorum_low;          /* Leader: without the replicas in `low_voters` there is no quorum. */
    uint32_t refills;         /* Leader: learners for which the log is kept. */
    uint32_t refills_stalled; /* Leader: connected learners whose refill makes no progress. */
    const char *reason;       /* Constant: why the replica does not vote or serve; "" if it does. */
};

void zab_status(const struct zab *zab, struct zab_status *ret_status);

/* Returns the zxid after which the host keeps the log, as far as its disk allows, for learners that
 * are being brought in step. ZAB_KEEP_NONE: no learner needs the log. Valid while this replica
 * leads, and then until it follows another leader. The host calls this after each step, before it
 * carries out the effects: when an effect opens a snapshot for a learner, the log after the start
 * of that snapshot must already be kept. */
#define ZAB_KEEP_NONE UINT64_MAX
zxid_t zab_keep(const struct zab *zab);

/* Returns the committed configuration. */
const struct zab_config *zab_config(const struct zab *zab);

/* Returns the same, encoded, with the members' texts; empty while there is none. Valid until the
 * next call into the core. */
struct slice zab_config_bytes(const struct zab *zab);

/* The same for the configuration that is in this replica's log and not known to be committed. NULL
 * and empty if there is none. */
const struct zab_config *zab_pending(const struct zab *zab);
/* Returns the version of the configuration that the record proves to be committed; 0: none. It
 * stands before it in the log, unless the leader received it. Any thread. */
zxid_t zab_proven_config(const struct logrec *rec);
struct slice zab_pending_bytes(const struct zab *zab);

/* Returns the configuration that a cluster has told this replica, which has none itself: it says
 * where to connect and whether this replica was added, and counts for no quorum. NULL if there is
 * none. */
const struct zab_config *zab_outside(const struct zab *zab);
struct slice zab_outside_bytes(const struct zab *zab); /* The same, encoded. */

/* A replica that is no member and has sent JOIN. */
struct zab_waiting {
    uint32_t id;
    uint64_t incarnation;
    uint8_t level;          /* Highest feature level that its release knows. */
    struct zab_texts texts; /* As it says. Valid until the next call into the core. */
    uint64_t since_ms;      /* When its first JOIN came on this connection, monotonic. */
    enum zab_fault fault;   /* Leader with `auto_join`: why it was not added. */
};

/* Lists the replicas that wait to be added and are connected to this one: at most
 * ZAB_OUTSIDERS_MAX, ascending by id. */
size_t zab_waiting(const struct zab *zab, struct zab_waiting *out, size_t out_max);

/* What is known of a peer, for /ensemble. */
struct zab_peer_status {
    uint32_t id;
    bool voter;
    bool connected;
    bool synced;       /* It has acknowledged NEWLEADER. Known to the leader only. */
    bool counted;      /* A voter, with the incarnation in the configuration. */
    zxid_t acked;      /* Last zxid that it has acknowledged. Known to the leader only. */
    uint8_t level;     /* Highest feature level that its release knows, by its last connection. */
    zxid_t voted;      /* Last durable zxid in its last vote while looking; 0: it is not looking. */
    uint64_t heard_ms; /* When its last message came; 0: none yet. */
    enum zab_state state; /* State in its last vote. */
    uint32_t flags;
};

/* Lists the peers, without outsiders. */
size_t zab_peers(const struct zab *zab, struct zab_peer_status *out, size_t out_max);

#endif
