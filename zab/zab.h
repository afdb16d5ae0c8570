/*
 * zab.h - the protocol core: one step function, no calls out.
 *
 * Time, randomness, messages and disk completions come in as events; what must be done leaves as
 * effects, to be carried out in their order. The core never waits for the disk by a flag: it asks
 * for a change with a token, and only the event PERSISTED with that token lets it speak of the
 * change.
 *
 * The host: one thread, owns everything. Effects and what they point to are valid until the next
 * call into the core, except references, which the host drops.
 *
 * Sources: Junqueira, Reed, Serafini, "Zab", DSN 2011 (phases 0 to 3); zab.md for the differences.
 */
#ifndef ZAB_ZAB_H
#define ZAB_ZAB_H

#include "zab/config.h"
#include "zab/msg.h"

struct zab;

struct zab_limits {
    uint32_t tick_ms;     /* Unit of the two below. */
    uint32_t init_limit;  /* Ticks to reach an established leader. */
    uint32_t sync_limit;  /* Ticks of silence after which a peer counts as dead. */
    uint32_t pending_max; /* Proposals in flight. */
    uint64_t pending_bytes_max;
    uint32_t cache_max; /* Records kept in memory for learners that lag. */
    uint64_t cache_bytes_max;
    uint32_t window_max; /* Records sent to a learner and not yet acknowledged. */
    uint64_t window_bytes_max;
    uint32_t counter_max;     /* Counter at which the leader starts a new epoch. */
    uint32_t admit_absent_ms; /* The old incarnation must have been away this long. */
    uint32_t admit_again_ms;  /* At most one admission per member in this age of the ensemble. */
    uint32_t stamp_every;     /* Records between two stamps of durable watermarks. */
    uint32_t chunk_bytes;     /* Piece of a snapshot on its way, at most ZAB_CHUNK_BYTES_MAX. */
    uint64_t refill_rate;     /* Bytes of snapshots that a leader reads and sends in a second, all
                                 learners together, while it broadcasts; 0: no limit. */
};

void zab_limits_default(struct zab_limits *limits);

/* What a connection's queue must hold besides the window: the record that goes over it, pieces of a
 * snapshot, headers, and what is not counted. */
#define ZAB_QUEUE_RESERVE ((uint64_t)19 << 20)

/* Makes the window fit a queue of so many bytes, more than the reserve: a learner that reads slowly
 * is waited for by the window and not thrown out by the queue. */
void zab_limits_fit_queue(struct zab_limits *limits, uint64_t queue_bytes);

/* A peer as the configuration file names it. */
struct zab_seed {
    uint32_t id;
    bool voter;
};

/* What recovery found; everything is copied. */
struct zab_init {
    uint32_t id;
    uint64_t incarnation;
    bool founding;             /* Formatted and in no cluster: `config` is empty. */
    bool quarantined;          /* The durable mark is set. */
    struct zab_config config;  /* Committed at `committed`. */
    bool has_pending;          /* The log beyond `committed` holds a configuration ... */
    struct zab_config pending; /* ... this one; until it commits, quorums of both are needed. */
    uint32_t promised_epoch;
    uint32_t promised_leader;
    zxid_t log_base;
    zxid_t log_last;
    uint64_t log_chain;
    zxid_t committed;         /* Known to be committed; the host has applied exactly this far. */
    uint64_t committed_chain; /* Chain value at `committed`. */
    bool has_snapshot;
    zxid_t snap_start;
    const struct zab_range *ranges; /* Of the log, ascending. */
    uint32_t range_count;
    const struct zab_seed *seeds; /* All of the file, this replica included. */
    uint32_t seed_count;
    uint64_t rng_seed;
    uint64_t now_ms;
    struct zab_limits limits;
};

/* ---- Events. ---- */

enum zab_event_type {
    ZAB_EV_TICK,    /* The wake time has come, or any other reason to look at the clock. */
    ZAB_EV_PEER_UP, /* A connection is authenticated. Replaces an older one of the same peer. */
    ZAB_EV_PEER_DOWN,
    ZAB_EV_RECV,
    ZAB_EV_PERSISTED,    /* All changes up to `token` are durable. */
    ZAB_EV_FETCHED,      /* Answer to ZAB_FX_FETCH. */
    ZAB_EV_SNAP_FETCHED, /* Answer to ZAB_FX_SNAP_FETCH. */
    ZAB_EV_RESTORED,     /* Answer to ZAB_FX_RESTORE: the state stands at the start `zxid` of the
                            snapshot that was the newest then, or `err`. In the order asked. */
    ZAB_EV_SPACE,        /* `flag`: the disk is low. */
    ZAB_EV_RESIGN, /* Hand leadership over and do not lead again; `flag` false takes it back. */
    ZAB_EV_STORED_SNAP, /* A snapshot of our own is durable: `zxid` its start, `base` the log's new
                           base. */
    ZAB_EV_PURGED,      /* The log's new base is `base`, without a new snapshot. */
};

struct zab_event {
    enum zab_event_type type;
    uint64_t now_ms; /* Monotonic. */
    uint64_t age_ms; /* Of the ensemble now; a leader's never falls. */
    uint32_t peer;
    uint64_t incarnation;             /* PEER_UP: of the peer's disk. */
    uint8_t cluster[ZAB_CLUSTER_LEN]; /* PEER_UP: zero while founding or unformatted. */
    bool flag;                        /* PEER_UP: the peer is founding. SNAP_FETCHED: the last
                                         piece. */
    const struct zab_msg *msg;        /* RECV; the core takes references of what it keeps. */
    uint64_t token;                   /* PERSISTED; FETCHED and SNAP_FETCHED: of the request. */
    zxid_t zxid;          /* PERSISTED: the log's last one after a TRUNCATE, RESET or install. */
    uint64_t chain;       /* And its chain value. STORED_SNAP: none. */
    zxid_t base;          /* STORED_SNAP, PURGED; RESTORED: snapshot's end ... */
    uint64_t digest;      /* ... and the digest that the state has there. */
    enum err err;         /* FETCHED, SNAP_FETCHED, RESTORED; PERSISTED: ERR_CORRUPT for a bad
                             install, ERR_NO_SPACE for one that did not fit. */
    struct logrec **recs; /* FETCHED. */
    size_t rec_count;
    struct slice bytes;  /* SNAP_FETCHED. */
    uint64_t offset;     /* SNAP_FETCHED. */
    uint64_t snap_id;    /* SNAP_FETCHED: what identifies the snapshot's bytes; 0: nothing. The
                            first piece is at the offset that was asked for if that was of this
                            snapshot, else at 0. */
    uint64_t snap_chain; /* SNAP_FETCHED: chain value at the snapshot's start `zxid`. */
};

/* ---- Effects. ---- */

enum zab_effect_type {
    ZAB_FX_SEND,       /* `msg` to `peer`. */
    ZAB_FX_DISCONNECT, /* Close the connection to `peer`; it may come back. */
    ZAB_FX_PERSIST,    /* Change the disk; all PERSISTs form one FIFO. */
    ZAB_FX_DELIVER,    /* Apply `rec`: committed, and durable here. */
    ZAB_FX_FETCH,      /* Read records after `zxid` from the log. */
    ZAB_FX_SNAP_FETCH, /* Read a piece at `offset`, at most `len` bytes, of the newest
                          snapshot that verifies and begins at `zxid` or later; it stays the same
                          from the first piece of `peer` to its last. None verifies: an error, and
                          the host takes a new one. */
    ZAB_FX_RESTORE,    /* A received snapshot is ours: load the state from it. */
    ZAB_FX_CONFIRMED,  /* The quorum round for request `token`: `zxid` to wait for, or `err`. */
    ZAB_FX_FORWARDED,  /* Leader: a learner's request `token`, `bytes`. */
    ZAB_FX_REFUSED,    /* Learner: the leader refused request `token`, `bytes`. */
    ZAB_FX_SIGN,       /* What `peer` said with a sign of life, `bytes`. */
    ZAB_FX_ROLE,       /* Role, leader, epoch or serving has changed: ask the getters. */
    ZAB_FX_HALT,       /* A rule that must hold does not: stop the process. `text` says why. */
    ZAB_FX_ALARM,      /* Tell the operator; `text`. */
};

enum zab_persist_type {
    ZAB_PERSIST_APPEND,
    ZAB_PERSIST_TRUNCATE,
    ZAB_PERSIST_PROMISE,
    ZAB_PERSIST_JOIN,       /* Identity: cluster and configuration of `config`; founding is over. */
    ZAB_PERSIST_QUARANTINE, /* `text` is the reason. */
    ZAB_PERSIST_RELEASE,
    ZAB_PERSIST_RESET,
    ZAB_PERSIST_SNAP_BEGIN,
    ZAB_PERSIST_SNAP_CHUNK,
    ZAB_PERSIST_SNAP_INSTALL,
    ZAB_PERSIST_SNAP_ABORT,
};

enum {
    ZAB_TEXT_MAX = 240
};

struct zab_effect {
    enum zab_effect_type type;
    uint32_t peer;
    struct zab_msg msg; /* SEND; what it points to stays valid until the next call. */
    enum zab_persist_type persist;
    uint64_t token;     /* PERSIST, FETCH, SNAP_FETCH: ascending. CONFIRMED, FORWARDED, REFUSED. */
    struct logrec *rec; /* DELIVER; PERSIST APPEND (one record each): a reference for the host. */
    zxid_t zxid;        /* TRUNCATE, FETCH. APPEND: committed so far. */
    uint32_t epoch;     /* PROMISE. */
    uint32_t leader;
    uint32_t link;   /* FORWARDED: the dialogue it came in. */
    uint64_t offset; /* SNAP_CHUNK, SNAP_FETCH. */
    uint32_t len;    /* SNAP_FETCH. */
    bool is_first;   /* SNAP_FETCH: of `peer`. Then it has `offset` bytes of the snapshot `snap_id`
                        from a transfer that broke off. */
    uint64_t snap_id;
    struct slice bytes; /* SNAP_CHUNK, FORWARDED, REFUSED, SIGN: copy what you keep. */
    enum err err;
    const struct zab_config *config; /* JOIN. */
    char text[ZAB_TEXT_MAX];
};

struct zab_effects {
    struct zab_effect *items;
    size_t count;
    size_t cap;
};

void zab_effects_init(struct zab_effects *effects);
void zab_effects_clear(struct zab_effects *effects); /* Drops no references: the host has them. */
void zab_effects_release(struct zab_effects *effects);

/* ---- The core. ---- */

struct zab *zab_new(const struct zab_init *init);
void zab_free(struct zab *zab);

/* Appends to `effects`. */
void zab_step(struct zab *zab, const struct zab_event *event, struct zab_effects *effects);

/* When the next TICK is due, monotonic ms. */
uint64_t zab_wake_ms(const struct zab *zab);

/* Leader, broadcasting: the zxid the next proposal will get, or 0 when none can be taken now. */
zxid_t zab_next_zxid(const struct zab *zab);

/* Leader: proposes a transaction as zab_next_zxid said. ERR_NOT_READY when that is 0. */
enum err zab_propose(struct zab *zab, struct slice txn, struct zab_effects *effects);

/* Starts a quorum round (any serving role); ends with CONFIRMED{token}. A change of role drops it:
 * the host starts it again. ERR_NOT_READY. */
enum err zab_confirm(struct zab *zab, uint64_t token, struct zab_effects *effects);

/* Learner in step: sends a client's request to the leader; answered by delivery or REFUSED. */
enum err zab_forward(struct zab *zab, uint64_t token, struct slice bytes,
                     struct zab_effects *effects);

/* Leader: refuses request `token` of learner `peer`, if `link` is still the dialogue they are in: a
 * learner that has started again counts its requests from the beginning. */
void zab_refuse(struct zab *zab, uint32_t peer, uint32_t link, uint64_t token, struct slice bytes,
                struct zab_effects *effects);

/* Leader: true while `link` is the dialogue with that learner. */
bool zab_is_link(const struct zab *zab, uint32_t peer, uint32_t link);

/* What goes along with each PING and PONG from now on, opaque here; at most ZAB_SIGN_BYTES_MAX. A
 * copy is kept. */
void zab_say(struct zab *zab, struct slice bytes);

/* The state's digest after applying `zxid`; called at each checkpoint (counter a multiple of
 * ZAB_CHECKPOINT). */
enum {
    ZAB_CHECKPOINT = 64
};

void zab_digest(struct zab *zab, zxid_t zxid, uint64_t digest, struct zab_effects *effects);

/* The state that was loaded from a received snapshot is not the one its maker had at the snapshot's
 * end: this replica is refilled (again). */
void zab_bad_state(struct zab *zab, zxid_t end, struct zab_effects *effects);

/* ---- What is so. ---- */

enum zab_phase {
    ZAB_PHASE_ELECTION,
    ZAB_PHASE_DISCOVERY,
    ZAB_PHASE_SYNC,
    ZAB_PHASE_BROADCAST
};

struct zab_status {
    enum zab_state state;
    enum zab_phase phase;
    bool serving; /* In BROADCAST, and applied at least the epoch's start. */
    bool quarantined;
    bool founding;
    bool stranger;  /* This incarnation is not (yet) one of the configuration. */
    uint32_t epoch; /* Current epoch: that of the last EPOCH record of the log. */
    uint32_t promised;
    uint32_t leader; /* 0: none. */
    zxid_t last;     /* Of the log. */
    zxid_t durable;
    zxid_t committed;
    zxid_t delivered;
    uint64_t delivered_chain;
    uint64_t heard_ms;         /* When this replica last knew of a leader with a quorum. */
    uint32_t low_voters;       /* Leader: voters that reported a low disk, itself included. */
    bool quorum_low;           /* Leader: without the low ones there is no quorum. */
    uint32_t refills;          /* Leader: learners that the log is kept for. */
    uint32_t refills_stalled;  /* Leader: connected learners whose refill makes no progress. */
    char reason[ZAB_TEXT_MAX]; /* Why it does not vote or serve; "" when it does. */
};

void zab_status(const struct zab *zab, struct zab_status *ret_status);

/* Leader, until it follows another one: the host keeps the log after this zxid for learners that
 * are brought in step, as far as its disk allows; ZAB_KEEP_NONE: none needs it. Ask after each
 * step, before its effects are carried out: what they open must not be purged by then. */
#define ZAB_KEEP_NONE UINT64_MAX
zxid_t zab_keep(const struct zab *zab);

/* The committed configuration. */
const struct zab_config *zab_config(const struct zab *zab);

/* What is known of a peer, for /ensemble. */
struct zab_peer_status {
    uint32_t id;
    bool voter;
    bool connected;
    bool synced;          /* Has acknowledged NEWLEADER; known to the leader. */
    bool counted;         /* Its incarnation is the configuration's. */
    zxid_t acked;         /* Known to the leader. */
    zxid_t voted;         /* Its last durable zxid as it last said while looking; 0: it is not. */
    uint64_t heard_ms;    /* Its last message; 0: none yet. */
    enum zab_state state; /* As it last said. */
    uint32_t flags;
};

size_t zab_peers(const struct zab *zab, struct zab_peer_status *out, size_t out_max);

#endif
