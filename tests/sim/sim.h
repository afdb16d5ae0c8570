/*
 * sim.h - whole replicas in one thread under virtual time and one seeded generator.
 *
 * A node is a process: the real replica over the real store over a disk in memory. Everything that
 * happens is an event of one heap, ordered by (time, number), so that the same seed gives the same
 * trace. What the checkers know of the truth (who broadcast what, what is committed, what each disk
 * holds) is kept here and never told to the replicas.
 *
 * Times are in virtual microseconds unless the name says otherwise.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "base/map.h"
#include "server/process/persist.h"
#include "server/process/recover.h"
#include "server/process/snap_send.h"
#include "server/replica/replica.h"
#include "server/sessions/touch.h"
#include "storage/store.h"
#include "tests/lib/draw.h"
#include "tests/sim/sim_op.h"
#include "tests/sim/sim_totals.h"

#include <stdio.h>

enum {
    SIM_NODES_MAX = 7,
    SIM_WALLS = 128, /* Jumps of a wall clock that are kept. */
    SIM_MS = 1000,
    SIM_SECOND = 1000000,
    SIM_REASON_MAX = 400,
    SIM_IMAGES_MAX = 1,
    SIM_RATES = 4,
};

struct sim;
struct sim_node;
struct vfs_mem;

/* ---- Events (sim.c). ---- */

struct sim_event;
typedef void (*sim_fn)(struct sim *sim, struct sim_event *event);

struct sim_event {
    uint64_t at_us;
    uint64_t seq;
    sim_fn run;
    const char *name; /* For the trace. */
    uint32_t node;    /* 1.., or 0: belongs to no process. */
    uint32_t life;    /* Of the process it belongs to; dropped when that one is gone. */
    uint64_t a;
    uint64_t b;
    void *ptr; /* Heap, freed after the run or when dropped. */
};

struct sim_heap {
    struct sim_event *items;
    size_t count;
    size_t cap;
};

/* ---- What a seed draws (sim_swarm.c). ---- */

/* A fault that comes at random: the mean time between two, 0: never. */
struct sim_knobs {
    uint32_t nodes;  /* Including observers. */
    uint32_t voters; /* The first so many nodes. */
    uint32_t clients;
    bool lanes; /* All that a client asks at a node comes over one socket. */
    struct zab_limits limits;
    uint32_t snap_count;
    uint64_t segment_bytes;
    uint32_t snapshots_keep;
    uint64_t keep_bytes_max;        /* maxRefillLogBytes. */
    uint32_t link_rates[SIM_RATES]; /* Bytes in a ms that a direction of a pair carries, drawn from
                               these; 0: no limit. */
    uint32_t queue_bytes;           /* Of a connection, at most; 0: no limit. */
    uint32_t requests_max;
    uint32_t forward_bytes; /* Of learners' requests that wait in the leader. */
    uint32_t slice_bytes;   /* Of a snapshot of our own, at a time. */
    uint32_t pad_bytes;     /* Added to the data of each write. */
    uint32_t delay_min_us;
    uint32_t delay_max_us;
    uint32_t delay_tail_ppm; /* Share of packets that take ten times longer. */
    uint32_t disk_min_us;
    uint32_t disk_max_us;
    uint32_t drift_ppm; /* Clocks run at most this much faster or slower. */
    uint32_t think_ms;  /* Of a client, at most. */
    uint32_t burst_ppm; /* Share of client turns that send many at once. */
    uint32_t lost_ppm;  /* Share of answers that never reach the client. */
    /* Coordination. */
    uint32_t sessions;          /* Of each client, at most; 0: none. */
    uint32_t timeout_ticks_max; /* Of a session, at least 2. */
    uint32_t close_ppm;         /* Share of a client's turns that close one. */
    uint32_t ephemerals_max;    /* Of a session. */
    uint32_t acl_ppm;           /* Share of writes about ACLs, and of creates with one. */
    uint32_t quota_ppm;         /* Share of writes about the one quota. */
    uint32_t key_ppm;           /* Share of writes with an idempotency key. */
    uint32_t remembered_max;    /* Results. */
    uint32_t remember_ms;       /* Of transaction time. */
    uint32_t watch_ppm;         /* Share of reads that register a watch; 0: no watches at all. */
    uint32_t window_sets;       /* Transactions in the window of recent changes. */
    uint32_t tree_bytes;        /* maxTreeBytes of a node is up to this; 0: no bounds. */
    uint32_t front_max_us;      /* A front end looks at the window at most this late. */
    /* Faults. */
    uint32_t crash_ms;     /* A process or its machine dies at a random instant. */
    uint32_t crash_fx_ms;  /* ... in the middle of a list of effects. */
    uint32_t crash_vfs_ms; /* ... in the middle of what the disk does. */
    uint32_t power_ms;     /* All machines at once. */
    uint32_t stop_ms;      /* Clean shutdown and restart. */
    uint32_t power_ppm;    /* Share of crashes that are power cuts. */
    uint32_t down_max_ms;  /* A dead process comes back within this time. */
    uint32_t again_ppm;    /* It dies again while it recovers. */
    uint32_t pause_ms;
    uint32_t reset_ms;
    uint32_t cut_ms;     /* Partition: two sides, isolated node, ring or one way. */
    uint32_t clog_ms;    /* One direction of one pair stands still for a while. */
    uint32_t leader_ms;  /* The leader is isolated. */
    uint32_t slow_ms;    /* A disk takes up to seconds per sync, for a while. */
    uint32_t rot_ms;     /* Bits flip on a disk. */
    uint32_t empty_ms;   /* A disk is replaced by an empty one. */
    uint32_t swap_ms;    /* A disk that was replaced comes back. */
    uint32_t config_ppm; /* Share of configurations at whose proposal something strikes. */
    uint32_t full_ms;    /* A disk fills up, and is freed later. */
    uint32_t fail_ms;    /* A disk fails writes, syncs, reads or all, for a while. */
    uint32_t decay_ms;   /* A closed file rots while a process uses the disk. */
    uint32_t spoil_ms;   /* A state that is loaded from a snapshot comes out wrong. */
    uint32_t jump_ms;    /* A wall clock jumps. */
    uint32_t ttl_ppm; /* Share of creates that make TTL znodes; then all results are forgotten. */
    uint32_t reap_ms; /* The leader looks for what is due so often. */
    uint32_t keep_age_ms; /* It writes the age after so much idle time. */
    bool torn;            /* A power cut tears and loses unsynced sectors. */
};

void sim_draw(struct rng *rng, struct sim_knobs *knobs);
void sim_draw_room(uint64_t seed, struct sim_knobs *knobs); /* maxTreeBytes. */
void sim_draw_lanes(uint64_t seed, struct sim_knobs *knobs);
void sim_draw_links(uint64_t seed, struct sim_knobs *knobs); /* Slow links, snapshots in pieces. */
void sim_draw_clocks(uint64_t seed, struct sim_knobs *knobs);
void sim_draw_failing(uint64_t seed, struct sim_knobs *knobs); /* Disks, in use. */

/* ---- Records and truth (sim_check.c). ---- */

/* A record that some leader broadcast. */
struct sim_rec {
    struct logrec *rec; /* A reference. */
    struct sim_rec *parent;
    uint32_t depth;  /* Records before it. */
    uint32_t leader; /* Node that broadcast it. */
    bool committed;
    uint32_t commit_epoch; /* Of the leader that committed it. */
    bool has_digest;
    uint64_t digest;    /* Of the state after it, as the first replica said. */
    uint64_t made_us;   /* When it was broadcast; of a transaction: */
    int64_t reached_ms; /* what a majority's clocks had reached then, at the most, */
    int64_t least_ms;   /* and the last clock at the least. */
};

/* Of the newest committed transaction (sim_clock.c). */
struct sim_times {
    bool known;
    int64_t age_ms;
    int64_t stamp_ms;
    uint64_t made_us;
    uint32_t steps_back; /* Of stamps, so far. */
};

/* A wall clock was off by so much until then. */
struct sim_wall {
    int64_t off_ms;
    uint64_t until_us;
};

/* An established leader. */
struct sim_est {
    uint32_t node;
    uint32_t life;
    zxid_t last; /* Its log when it was established. */
    bool broadcast;
};

/* What the disk of a node holds, as told by the store. */
struct sim_shadow {
    zxid_t last;
    zxid_t committed; /* As its newest records say. */
    uint32_t promised_epoch;
    uint32_t promised_leader;
    bool quarantined;
};

/* What a state machine was given. */
struct sim_applied {
    zxid_t zxid;
    zxid_t after; /* What it had applied before. */
    enum logrec_type type;
    uint64_t payload; /* Hash; 0 for records that are skipped. */
    bool fuzzy;
    uint64_t digest;
};

/* A change that is on its way to the disk. */
struct sim_issue {
    uint64_t token;
    enum zab_persist_type type;
    bool staged;      /* APPEND to the log of a snapshot on its way. */
    zxid_t zxid;      /* APPEND, TRUNCATE. */
    zxid_t committed; /* APPEND: the watermark that goes with it. */
    uint32_t epoch;
    uint32_t leader;
};

/* ---- Nodes (sim_node.c). ---- */

struct sim_snap; /* A snapshot being written (sim_disk.c). */

struct sim_node {
    uint32_t id;
    bool voter;
    bool up;
    bool paused;
    bool dying;         /* A crash is under way: calls into it must end. */
    bool damaged;       /* The fault plan harmed its disk and it has not been refilled. */
    bool diverged;      /* Its state was harmed in memory. */
    bool rotten;        /* Closed files rot, and its process does not know (sim_failing.c). */
    unsigned failing;   /* Kinds of calls that its disk answers with an I/O error. */
    bool emptied;       /* ... by replacing it. */
    bool vacant;        /* Its seat counts for nothing: one survivor was made to go on alone. */
    bool rolled_back;   /* ... by an older image of it. */
    zxid_t harmed_last; /* What it held before. */
    /* Its other disk, on the shelf (sim_seat.c); NULL: none. */
    struct vfs_mem *spare;
    struct sim_shadow spare_shadow;
    uint64_t spare_incarnation;
    struct sim_issue *spare_issues;
    size_t spare_issue_count;
    zxid_t named;    /* The newest configuration proposed that gives a new disk of it the seat. */
    bool spare_seat; /* The committed configuration names that one. */
    uint64_t returned_us; /* When the disk with the seat came back from the shelf; 0: never. */
    uint64_t thrown_incarnation; /* The last disk of it that was thrown away, ... */
    zxid_t thrown_last;          /* ... and what that one held. */
    uint64_t config_version;     /* Of what it takes for the configuration in force. */
    bool full;
    bool slow;
    bool isolated;
    uint32_t life;     /* Counts processes. */
    uint32_t stopping; /* The life that is to stop; 0: none. */
    uint64_t boot;     /* Random number of the process, as its transactions name it. */
    uint64_t born_us;
    uint64_t steady_us;    /* Its role, leader or epoch changed then. */
    uint64_t awake_us;     /* It woke from a pause then. */
    uint64_t awake_seq;    /* Events of that instant up to here wait behind those of the pause. */
    uint32_t served_epoch; /* The last one that it has served in, ... */
    uint32_t stints;       /* ... and how often it has begun to do so. */
    struct touch_set *touched; /* Sessions that its front end has heard of. */
    struct sim_front *front;   /* Its front end (sim_watch.c). */
    struct vfs_mem *disk;
    struct vfs vfs;
    struct store *store;
    struct view *view;
    struct replica *replica;
    struct replica_effects effects;
    struct store_identity identity; /* Once all that was asked for is durable. */
    struct store_identity hello;    /* As peers are told: durable. */
    struct replica_status status;   /* After the last step. */
    struct persist_batch filling;
    struct persist_batch running;
    struct persist_dones dones;
    bool disk_busy;
    bool telling; /* Completions are on their way to the core. */
    bool preallocating;
    struct snap_send send; /* Snapshots on their way to learners. */
    bool low;
    bool aside; /* The log waits for space, and the replica knows. */
    uint64_t
        worker_us; /* When the worker thread will be done with the snapshots it was asked for. */
    struct sim_snap *snap;
    uint64_t tick_us; /* When the next tick event is due; 0: none. */
    int64_t clock_off_ms;
    int32_t drift_ppm;
    int64_t wall_off_ms;
    struct sim_wall walls[SIM_WALLS]; /* Before; the newest first. */
    uint64_t clock_ms;                /* Last value given. */
    uint32_t crash_fx;                /* Dies after carrying out so many effects; 0: no plan. */
    struct sim_event *inbox;          /* While paused. */
    size_t inbox_count;
    size_t inbox_cap;
    /* Truth. */
    struct sim_shadow shadow;
    struct sim_issue *issues;
    size_t issue_count;
    size_t issue_cap;
    zxid_t appended;           /* The log as the core believes it will be. */
    bool staging;              /* A snapshot is on its way. */
    zxid_t staged;             /* The log that belongs to it. */
    zxid_t applied;            /* Last one that the state machine took. */
    zxid_t whole_from;         /* The loaded snapshot is fuzzy before this zxid. */
    const struct state *state; /* The one that `applied` speaks of. */
    zxid_t committed;
};

/* ---- Network (sim_net.c). ---- */

struct sim_packet {
    uint64_t sent_us;
    uint64_t at_us;
    uint64_t conn;
    uint32_t kind;
    uint32_t life; /* Of the dialer, for the handshake. */
    uint32_t type;
    uint32_t len;
    uint64_t incarnation;
    uint8_t cluster[ZAB_CLUSTER_LEN];
    bool bootstrapping;
    uint8_t *bytes; /* Heap. */
};

struct sim_link {             /* One direction. */
    struct sim_packet *items; /* Ring. */
    size_t head;
    size_t count;
    size_t cap;
    uint64_t last_us; /* Arrival of the newest one. */
    bool scheduled;
    uint32_t cuts;     /* Reasons why nothing gets through now. */
    uint64_t cut_us;   /* Since when. */
    uint64_t mute_us;  /* Until when it brought nothing for long: one end may have given up. */
    uint64_t since_us; /* The last cut healed, or the connection was made or ended. */
    uint32_t delay_factor;
    uint32_t rate;   /* Bytes in a ms; 0: no limit. */
    uint64_t queued; /* Bytes on their way. */
};

struct sim_options {
    uint64_t seed;
    bool trace;
    bool quiet;
    int mutant;
    const char *scenario; /* NULL: random. */
    uint32_t only_nodes;  /* 0: as drawn. */
    uint32_t safety_ms;
    uint32_t ops_min;
};

enum sim_phase {
    SIM_FOUNDING, /* No faults until the ensemble stands. */
    SIM_SAFETY,
    SIM_LIVENESS,
    SIM_DONE
};

/* A script's eye on the effects of all nodes: true makes the process die before this one. */
typedef bool (*sim_hook)(struct sim *sim, struct sim_node *node, const struct zab_effect *effect);

struct sim {
    struct sim_options options;
    struct sim_knobs knobs;
    struct rng rng;
    uint64_t now_us;
    uint64_t seq;
    struct sim_heap heap;
    enum sim_phase phase;
    uint64_t phase_us; /* When it began. */
    uint64_t trace_hash;
    struct sim_node nodes[SIM_NODES_MAX + 1]; /* By id. */
    struct zab_seed seeds[SIM_NODES_MAX];
    struct sim_node *current; /* Whose code is running; NULL: nobody's. */
    /* Network: links[i][j] carries from i to j; ends[i][j] is what i believes. */
    struct sim_link links[SIM_NODES_MAX + 1][SIM_NODES_MAX + 1];
    uint64_t ends[SIM_NODES_MAX + 1][SIM_NODES_MAX + 1];
    uint64_t conn_seq;
    /* Clients. */
    struct sim_client clients[SIM_CLIENTS_MAX];
    struct sim_op **ops;
    size_t op_count;
    size_t op_cap;
    size_t op_first;  /* All before this one have ended. */
    uint32_t pending; /* Operations without an answer. */
    zxid_t told;      /* Newest zxid that any client was told of. */
    bool clients_stop;
    struct sim_session *sessions; /* SIM_SESSIONS_MAX of them; NULL while there is none. */
    uint32_t session_count;
    struct sim_sockets *sockets; /* sim_watch.c; NULL: nobody watches. */
    sim_hook hook;               /* NULL: none. */
    bool hook_stays;       /* A process that dies by the hook is not started again by itself. */
    uint32_t spoil_loaded; /* The next state that this node loads is harmed; 0: none. */
    bool may_halt;         /* A process that halts just ends, and stays down. */
    uint32_t halts;
    uint64_t hook_arg; /* The script's. */
    uint64_t hook_hits;
    uint32_t drop_from; /* The next ENTRY from here ... */
    uint32_t drop_to;   /* ... to here is lost on an open connection. */
    /* Truth. */
    struct map recs; /* zxid -> struct sim_rec. */
    struct map ests; /* epoch -> struct sim_est. */
    uint32_t newest_epoch;
    zxid_t config_zxid;   /* Of the newest committed configuration; 0: that of the founding. */
    struct sim_rec **log; /* C: the committed sequence. */
    size_t log_count;
    size_t log_cap;
    struct sim_applied *applied; /* What the state machine took in the step under way. */
    size_t applied_count;
    size_t applied_cap;
    uint64_t illegal;      /* Messages refused as illegal before this run. */
    uint64_t bad_installs; /* Received snapshots that did not verify, for a disk was harmed. */
    struct sim_times times;
    struct sim_totals totals;
};

struct sim *sim_new(const struct sim_options *options);
void sim_free(struct sim *sim);

/* Adds an event after `delay_us`; `node` 0 or one whose life it shares. */
struct sim_event *sim_after(struct sim *sim, uint64_t delay_us, sim_fn run, const char *name,
                            struct sim_node *node);

/* Runs events until `until_us` or until `stop` says so. */
bool sim_run(struct sim *sim, uint64_t until_us, bool (*stop)(struct sim *sim));

/* The whole life of a random seed: founding, faults, convergence, checks. */
void sim_seed(struct sim *sim);

/* Parts of it, for scenarios. */
void sim_found(struct sim *sim);
void sim_settle(struct sim *sim);
void sim_finish(struct sim *sim);
bool sim_converged(struct sim *sim);

/* Ends the process: an invariant does not hold. */
_Noreturn void sim_fail(struct sim *sim, const char *invariant, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_mix(struct sim *sim, uint64_t value);

/* Where a failure is also written; set by the runner. */
void sim_fail_to(char *text, size_t size);

#define SIM_TRACE(sim, ...)                \
    do {                                   \
        if ((sim)->options.trace) {        \
            sim_trace((sim), __VA_ARGS__); \
        }                                  \
    } while (0)

/* ---- sim_node.c ---- */

void sim_node_init(struct sim *sim, struct sim_node *node, uint32_t id);
void sim_node_release(struct sim *sim, struct sim_node *node);
uint64_t sim_node_ms(struct sim *sim, struct sim_node *node);
int64_t sim_node_wall_ms(struct sim *sim, struct sim_node *node); /* In sim_clock.c. */

/* Opens the disk and starts the process. */
void sim_node_start(struct sim *sim, struct sim_node *node);

/* What it is started with (sim_options.c). */
void sim_node_options(struct sim *sim, struct sim_node *node, struct replica_options *ret_options);

enum sim_crash {
    SIM_KILL,  /* The process dies; what it wrote stays written. */
    SIM_POWER, /* The machine dies: what was not synced is lost, torn or kept. */
    SIM_STOP,  /* Clean shutdown. */
};

void sim_node_crash(struct sim *sim, struct sim_node *node, enum sim_crash how);

/* The same, and it comes back after a while. */
void sim_node_die(struct sim *sim, struct sim_node *node, enum sim_crash how);

/* Shuts it down as SIGTERM does, and starts it again. */
void sim_node_drain(struct sim *sim, struct sim_node *node);

/* Gives an event to the replica and carries out what follows. May crash the node. */
void sim_node_step(struct sim *sim, struct sim_node *node, struct zab_event *event);
void sim_node_aside(struct sim *sim, struct sim_node *node, const char *why); /* NULL: no more. */
void sim_node_effects(struct sim *sim, struct sim_node *node);
void sim_node_pause(struct sim *sim, struct sim_node *node, uint64_t for_us);
void sim_node_resume(struct sim *sim, struct sim_node *node);
/* Its front end has heard of the client of this session. */
void sim_node_touch(struct sim *sim, struct sim_node *node, uint64_t session);
struct sim_node *sim_leader(struct sim *sim); /* Newest one that broadcasts, or NULL. */

/* ---- sim_disk.c ---- */

void sim_disk_persist(struct sim *sim, struct sim_node *node, const struct zab_persist *change);
void sim_disk_kick(struct sim *sim, struct sim_node *node);
void sim_disk_fetch(struct sim *sim, struct sim_node *node, const struct zab_effect *effect);
void sim_disk_restore(struct sim *sim, struct sim_node *node, zxid_t zxid);
void sim_disk_snapshot(struct sim *sim, struct sim_node *node);
void sim_disk_drop(struct sim *sim, struct sim_node *node, enum sim_crash how); /* It is gone. */
uint64_t sim_disk_us(struct sim *sim, struct sim_node *node);

/* ---- sim_media.c: the disk itself and what may happen to it. ---- */

void sim_disk_init(struct sim *sim, struct sim_node *node);
void sim_disk_release(struct sim_node *node);

/* After a run: what a power cut would leave of the disk holds everything committed. */
void sim_disk_verify(struct sim *sim, struct sim_node *node);

/* The end of a process: first nothing of it may write any more; then the disk is as it will be
 * found. */
void sim_disk_freeze(struct sim *sim, struct sim_node *node, enum sim_crash how);
void sim_disk_reset(struct sim *sim, struct sim_node *node, enum sim_crash how);

/* Faults, on a disk that nobody has open. */
void sim_disk_empty(struct sim *sim, struct sim_node *node);
void sim_disk_rot(struct sim *sim, struct sim_node *node, uint32_t bits);
/* Bits flip in every block of the files whose names contain `part`. */
void sim_disk_ruin(struct sim *sim, struct sim_node *node, const char *part);
void sim_disk_remove(struct sim *sim, struct sim_node *node, const char *name);
/* The last block that was written to the newest segment is zeros again: a lost write. */
void sim_disk_forget(struct sim *sim, struct sim_node *node);
/* One bit flips in each such file, while the disk is in use; it is no harm to the log. */
void sim_disk_spoil(struct sim *sim, struct sim_node *node, const char *part);
struct vfs_mem *sim_disk_image(struct sim_node *node); /* A copy, to roll back to. */
void sim_disk_roll_back(struct sim *sim, struct sim_node *node, struct vfs_mem *take_image);
void sim_disk_limit(struct sim *sim, struct sim_node *node, bool full);
/* The k-th call of the disk from now fails as if the machine had died there. */
void sim_disk_plan_crash(struct sim *sim, struct sim_node *node, uint32_t calls);
bool sim_disk_crashed(struct sim_node *node);

/* ---- sim_net.c ---- */

void sim_net_init(struct sim *sim);
void sim_net_release(struct sim *sim);

void sim_net_send(struct sim *sim, struct sim_node *from, uint32_t to, const struct zab_msg *msg);
void sim_net_close(struct sim *sim, struct sim_node *from, uint32_t to);
void sim_net_node_down(struct sim *sim, struct sim_node *node, bool silent);
void sim_net_greet_again(struct sim *sim, struct sim_node *node);
void sim_net_reset(struct sim *sim, uint32_t a, uint32_t b);
/* Whatever one of them has said to the other since then has been on its way without a fault. */
bool sim_net_was_calm(struct sim *sim, uint32_t a, uint32_t b, uint64_t since_us);
/* What one says to the other gets there, or is waited for: the line is not silent for long. */
bool sim_net_is_heard(struct sim *sim, uint32_t from, uint32_t to);
void sim_net_cut(struct sim *sim, uint32_t from, uint32_t to);
void sim_net_heal(struct sim *sim, uint32_t from, uint32_t to);
void sim_net_heal_all(struct sim *sim);

/* ---- sim_fault.c ---- */

void sim_fault_begin(struct sim *sim);
void sim_fault_end(struct sim *sim); /* Everything is mended; no new faults. */
/* A leader proposes a configuration with a new disk for `fresh`. */
void sim_fault_at_config(struct sim *sim, const struct sim_node *leader, uint32_t fresh);
/* True when the claim still holds with one more voter's disk harmed. */
bool sim_fault_may_harm(struct sim *sim, struct sim_node *node);

/* ---- sim_refill.c: with slow links, a replica gets in step under load. ---- */

void sim_refill_check(struct sim *sim);

/* ---- sim_history.c, sim_model.c: after the run. ---- */

void sim_history_check(struct sim *sim);

/* ---- sim_check.c ---- */

void sim_check_init(struct sim *sim);
void sim_check_release(struct sim *sim);
struct sim_rec *sim_rec_find(struct sim *sim, zxid_t zxid);
/* True when the log that ends with `last` holds `zxid`. */
bool sim_log_holds(struct sim *sim, zxid_t last, zxid_t zxid);
void sim_check_send(struct sim *sim, struct sim_node *node, uint32_t to, const struct zab_msg *msg);
void sim_check_persist(struct sim *sim, struct sim_node *node, const struct zab_persist *change);
void sim_check_done(struct sim *sim, struct sim_node *node, const struct zab_ev_persisted *done);
/* As it will find itself once all that was asked of its disk is durable. */
bool sim_disk_is_quarantined(const struct sim_node *node);
void sim_check_recovered(struct sim *sim, struct sim_node *node,
                         const struct replica_options *options);
void sim_check_step(struct sim *sim, struct sim_node *node);

/* sim_apply.c: what the state machines were given since the last call; A6 to A10, A16, A17. */
void sim_check_applied(struct sim *sim, struct sim_node *node);
void sim_check_end(struct sim *sim);

/* ---- sim_apply.c ---- */

/* The run that the intercepted functions report to; NULL: none. */
void sim_watch(struct sim *sim);

/* ---- sim_probe.c: which probes exist and were reached. ---- */

size_t sim_probe_count(void);
const char *sim_probe_name(size_t index);
bool sim_probe_expected(size_t index);
uint64_t sim_probe_hits(const char *name);
void sim_probe_collect(uint8_t *hit); /* One byte per probe. */

/* ---- sim_scenario.c ---- */

/* A calm world of three voters, instead of what the seed drew. */
void sim_scenario_knobs(struct sim *sim);

/* False when there is no such scenario. */
bool sim_scenario_run(struct sim *sim, const char *name);
const char *sim_scenario_name(size_t index); /* NULL behind the last one. */

#endif
