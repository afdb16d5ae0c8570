/*
 * sim.h - whole replicas in one thread under virtual time and one seeded generator.
 *
 * A node is a process: the real replica, over the real store, over a disk in memory. Every event
 * sits in one heap, ordered by (time, number), so the same seed gives the same trace. The checkers'
 * knowledge of the truth (the leader that broadcast each record, the committed records, the
 * contents of each disk) is kept here; the replicas never see it.
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
#include "tests/sim/sim_knobs.h"
#include "tests/sim/sim_op.h"
#include "tests/sim/sim_totals.h"

#include <stdio.h>

enum {
    SIM_NODES_MAX = 7,
    SIM_WALLS = 128, /* Jumps of a wall clock that the simulator remembers. */
    SIM_MS = 1000,
    SIM_SECOND = 1000000,
    SIM_REASON_MAX = 400,
    SIM_LEVELS = 3,     /* Feature levels of the releases in a run. */
    SIM_PAST = 3,       /* Earlier configurations that the simulator remembers. */
    SIM_WISHES_MAX = 4, /* Requests for another configuration under way. */
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
    uint32_t node;    /* 1.., or 0: the event belongs to no process. */
    uint32_t life;    /* Life of that process; the event is dropped when that life has ended. */
    uint64_t a;
    uint64_t b;
    void *ptr; /* Heap, freed after the run or when dropped. */
};

struct sim_heap {
    struct sim_event *items;
    size_t count;
    size_t cap;
};

/* ---- Records and truth (sim_check.c). ---- */

/* A record that some leader has broadcast. */
struct sim_rec {
    struct logrec *rec; /* A reference. */
    struct sim_rec *parent;
    uint32_t depth;  /* Number of records before it. */
    uint32_t leader; /* Node that broadcast the record. */
    bool committed;
    uint32_t commit_epoch; /* Of the leader that committed it. */
    bool has_digest;
    uint64_t digest;    /* Digest of the state after it, as the first replica reported it. */
    uint64_t made_us;   /* When it was broadcast. For a transaction, at that time: */
    int64_t reached_ms; /* largest value that a majority's clocks had reached, */
    int64_t least_ms;   /* and smallest value of the slowest clock. */
};

/* Values of the newest committed transaction (sim_clock.c). */
struct sim_times {
    bool known;
    int64_t age_ms;
    int64_t stamp_ms;
    uint64_t made_us;
    uint32_t steps_back; /* Number of times that a stamp was below the one before. */
};

/* Until `until_us` the wall clock had this offset. */
struct sim_wall {
    int64_t off_ms;
    uint64_t until_us;
};

/* An established leader. */
struct sim_est {
    uint32_t node;
    uint32_t life;
    zxid_t last; /* End of its log when it was established. */
    bool broadcast;
};

/* Contents of a node's disk, as the store has confirmed them. */
struct sim_shadow {
    zxid_t last;
    zxid_t committed; /* Watermark in its newest records. */
    uint32_t promised_epoch;
    uint32_t promised_leader;
    bool quarantined;
};

/* A disk has durably promised the epoch to this leader. */
struct sim_pledge {
    uint32_t id;
    uint64_t incarnation;
    uint32_t leader;
};

/* All promises of one epoch, also of disks that were harmed or thrown away since. */
struct sim_pledges {
    struct sim_pledge *items;
    size_t count;
    size_t cap;
};

/* A disk that the fault plan has harmed: until its refill it counts as what it held before. */
struct sim_harm {
    bool is;
    zxid_t last; /* End of the log before the harm. */
};

/* A disk that was thrown away. It may have acknowledged records, and its admission may be pending.
 */
struct sim_thrown {
    uint64_t incarnation;
    zxid_t last; /* End of the log on it. */
};

/* A record that the state machine received. */
struct sim_applied {
    zxid_t zxid;
    zxid_t after; /* Last zxid that it had applied before. */
    enum logrec_type type;
    uint64_t payload; /* Hash; 0 for records that are skipped. */
    bool fuzzy;
    uint64_t digest;
};

/* A change that is on its way to the disk. */
struct sim_issue {
    uint64_t token;
    enum zab_persist_type type;
    bool staged;      /* APPEND to the log of a snapshot that is being received. */
    zxid_t zxid;      /* APPEND, TRUNCATE. */
    zxid_t committed; /* APPEND: the watermark that goes with it. */
    uint32_t epoch;
    uint32_t leader;
};

/* A configuration that a client has asked for, or a leader has proposed: it may be committed. */
struct sim_wish {
    uint32_t ask; /* The request. */
    zxid_t base;  /* The configuration that it changes; 0: whatever is in force. */
    struct zab_config config;
    uint64_t until_us;
};

/* What is known of the members besides the committed configuration (sim_member.c). */
struct sim_members {
    struct rng rng;
    struct sim_wish wishes[SIM_WISHES_MAX];
    uint32_t wish_count;
    struct sim_ask **asks; /* All requests of the run (sim_ask.c). */
    size_t ask_count;
    size_t ask_cap;
    struct zab_config *proposed; /* By version; older than the committed one: none. */
    size_t proposed_count;
    size_t proposed_cap;
    struct zab_config proven; /* A leader has stamped it; no longer newer than the committed one. */
    uint32_t proven_epoch;    /* The epoch of that leader. */
    zxid_t proof;             /* The record that proves the committed configuration; 0: none. */
    struct zab_config past[SIM_PAST]; /* The last configurations before the committed one, ... */
    uint64_t past_us[SIM_PAST];       /* ... and when they ended. */
    bool is_over;                     /* The faults are over. */
    bool is_founded;                  /* A disk is in the cluster: */
    uint8_t cluster[ZAB_CLUSTER_LEN];
};

/* ---- Nodes (sim_node.c). ---- */

struct sim_snap; /* A snapshot being written (sim_disk.c). */

struct sim_node {
    uint32_t id;
    bool up;
    bool paused;
    bool dying;       /* A crash is under way: calls into the process must end. */
    bool damaged;     /* The fault plan harmed its disk, which has not been refilled since. */
    bool diverged;    /* The fault plan changed its state in memory. */
    bool rotten;      /* Closed files rot, and the process has not noticed (sim_failing.c). */
    unsigned failing; /* Kinds of disk calls that return an I/O error. */
    bool emptied;     /* ... the harm was a replacement by an empty disk. */
    bool rolled_back; /* ... the harm was a return to an older image. */
    /* Its other disk, on the shelf (sim_seat.c); NULL: none. */
    struct vfs_mem *spare;
    struct sim_shadow spare_shadow;
    struct sim_harm spare_harm;
    uint64_t spare_incarnation;
    struct sim_issue *spare_issues;
    size_t spare_issue_count;
    zxid_t named;            /* Newest proposed configuration that names a new disk of this node. */
    bool spare_seat;         /* The committed configuration names the disk on the shelf. */
    uint64_t returned_us;    /* When the disk with the seat came back from the shelf; 0: never. */
    uint64_t config_version; /* Configuration that the replica believes to be in force. */
    bool idle;               /* No process runs on the machine: it belongs to no ensemble. */
    uint16_t port;           /* Where other replicas reach it. */
    uint32_t peers;          /* Bit i: its core talks to node i. */
    bool joins;              /* Its processes have no server list, but addresses to join. */
    bool is_reached;         /* The last REACHED event of the process. */
    uint64_t reached_us[SIM_NODES_MAX + 1]; /* When it was last connected with each node. */
    bool full;
    bool slow;
    bool isolated;
    uint32_t life;     /* Counts processes. */
    uint32_t stopping; /* Life that is shutting down; 0: none. */
    uint64_t boot;     /* Random number of the process; its transactions carry it. */
    uint64_t born_us;
    uint64_t asleep_us;        /* Pauses before it has read its clock. */
    uint64_t steady_us;        /* Time of the last change of role, leader or epoch. */
    uint64_t awake_us;         /* Time of the last wake-up from a pause. */
    uint64_t snap_bytes;       /* Largest end of a piece of a snapshot that was sent to it. */
    uint64_t awake_seq;        /* Older events of that instant wait behind those of the pause. */
    uint32_t served_epoch;     /* Last epoch in which the replica has served, ... */
    uint32_t stints;           /* ... and how often it has started to serve. */
    struct touch_set *touched; /* Sessions whose clients its front end has heard from. */
    struct sim_front *front;   /* Its front end (sim_watch.c). */
    struct vfs_mem *disk;
    struct vfs vfs;
    struct store *store;
    struct view *view;
    struct replica *replica;
    struct replica_effects effects;
    struct store_identity identity; /* Identity once all changes on their way are durable. */
    struct store_identity hello;    /* Identity that peers receive: the durable one. */
    uint8_t level;                  /* Highest feature level that the process' release knows. */
    bool upgraded;                  /* From now on it runs the newest release. */
    struct replica_status status;   /* After the last step. */
    struct persist_batch filling;
    struct persist_batch running;
    struct persist_dones dones;
    bool disk_busy;
    bool telling; /* Completions are on their way to the core. */
    bool preallocating;
    struct snap_send send; /* Snapshots on their way to learners. */
    bool low;
    bool aside;         /* The log waits for space, and the replica has been informed. */
    uint64_t worker_us; /* When the worker thread will have finished its snapshots. */
    struct sim_snap *snap;
    uint64_t tick_us; /* When the next tick event is due; 0: none. */
    int64_t clock_off_ms;
    int32_t drift_ppm;
    int64_t wall_off_ms;
    struct sim_wall walls[SIM_WALLS]; /* Earlier offsets, newest first. */
    uint64_t clock_ms;                /* Last value that the clock returned. */
    uint32_t crash_fx;                /* The process dies after so many effects; 0: no plan. */
    struct sim_event *inbox;          /* Events that wait while the process is paused. */
    size_t inbox_count;
    size_t inbox_cap;
    /* Truth. */
    uint64_t said_us[SIM_LEVELS]; /* End of the last process that knew the level; 0: none. */
    struct sim_shadow shadow;
    struct sim_harm harm;      /* Of the disk in the machine, with a seat or without. */
    struct sim_thrown *thrown; /* Its disks that were thrown away, oldest first. */
    size_t thrown_count;
    size_t thrown_cap;
    struct sim_issue *issues;
    size_t issue_count;
    size_t issue_cap;
    zxid_t appended;           /* Log as the core expects it once all appends are durable. */
    bool staging;              /* A snapshot is being received. */
    zxid_t staged;             /* End of the log that belongs to that snapshot. */
    zxid_t applied;            /* Last zxid that the state machine has applied. */
    zxid_t whole_from;         /* The loaded snapshot is fuzzy before this zxid. */
    const struct state *state; /* The state to which `applied` refers. */
    zxid_t committed;
};

/* ---- Network (sim_net.c). ---- */

struct sim_packet {
    uint64_t sent_us;
    uint64_t at_us;
    uint64_t conn;
    uint32_t kind;
    uint32_t life; /* Life of the dialer, for the handshake. */
    uint32_t type;
    uint32_t len;
    uint64_t incarnation;
    uint8_t cluster[ZAB_CLUSTER_LEN];
    bool bootstrapping;
    uint8_t level;
    uint8_t *bytes; /* Heap. */
};

struct sim_link {             /* One direction. */
    struct sim_packet *items; /* Ring. */
    size_t head;
    size_t count;
    size_t cap;
    uint64_t last_us; /* Arrival time of the newest packet. */
    bool scheduled;
    uint32_t cuts;     /* Number of faults that block the link now. */
    uint64_t cut_us;   /* Start of the first of them. */
    uint64_t mute_us;  /* End of a long silence: one end may have closed the connection. */
    uint64_t since_us; /* Time when the last cut healed, or the connection was opened or closed. */
    uint32_t delay_factor;
    uint32_t rate;   /* Bytes per ms; 0: no limit. */
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
    bool reconfig; /* The configuration changes also in other ways than by admissions. */
};

enum sim_phase {
    SIM_BOOTSTRAP, /* No faults until the ensemble serves. */
    SIM_SAFETY,
    SIM_LIVENESS,
    SIM_DONE
};

/* Sees the effects of all nodes; true kills the process before this effect. */
typedef bool (*sim_hook)(struct sim *sim, struct sim_node *node, const struct zab_effect *effect);

struct sim {
    struct sim_options options;
    struct sim_knobs knobs;
    struct rng rng;
    uint64_t now_us;
    uint64_t seq;
    struct sim_heap heap;
    enum sim_phase phase;
    uint64_t phase_us; /* Start of the phase. */
    uint64_t trace_hash;
    struct sim_node nodes[SIM_NODES_MAX + 1]; /* By id. */
    struct zab_seed seeds[SIM_NODES_MAX];
    struct sim_node *current; /* Node whose code is running; NULL: none. */
    /* Network: links[i][j] carries from i to j; ends[i][j] is the connection as i sees it. */
    struct sim_link links[SIM_NODES_MAX + 1][SIM_NODES_MAX + 1];
    uint64_t ends[SIM_NODES_MAX + 1][SIM_NODES_MAX + 1];
    uint64_t conn_seq;
    /* Clients. */
    struct sim_client clients[SIM_CLIENTS_MAX];
    struct sim_op **ops;
    size_t op_count;
    size_t op_cap;
    size_t op_first;  /* All operations before this one have ended. */
    uint32_t pending; /* Operations without an answer. */
    zxid_t seen;      /* Newest zxid in any answer that a client has received. */
    bool clients_stop;
    struct sim_session *sessions; /* SIM_SESSIONS_MAX of them; NULL while there is none. */
    uint32_t session_count;
    struct sim_sockets *sockets; /* sim_watch.c; NULL: the seed has no watches. */
    sim_hook hook;               /* NULL: none. */
    bool hook_stays;             /* A process that the hook kills is not restarted automatically. */
    uint32_t spoil_loaded;       /* Node whose next loaded state is made wrong; 0: none. */
    bool may_halt; /* A process that halts ends and stays down, and the run continues. */
    uint32_t halts;
    uint64_t hook_arg; /* For the scenario. */
    uint64_t hook_hits;
    uint32_t drop_from; /* The next ENTRY from here ... */
    uint32_t drop_to;   /* ... to here is lost on an open connection. */
    /* Truth. */
    struct map recs;    /* zxid -> struct sim_rec. */
    struct map ests;    /* epoch -> struct sim_est. */
    struct map pledges; /* epoch -> struct sim_pledges. */
    uint32_t newest_epoch;
    struct zab_config config; /* Newest committed configuration; no members: none yet. */
    struct sim_members members;
    uint16_t level_made;  /* Highest level of any configuration, committed or not. */
    struct sim_rec **log; /* The committed sequence. */
    size_t log_count;
    size_t log_cap;
    struct sim_applied *applied; /* Records that the state machine applied in the current step. */
    size_t applied_count;
    size_t applied_cap;
    uint64_t illegal;      /* Messages refused as illegal before this run started. */
    uint64_t bad_installs; /* Received snapshots that did not verify because a disk was harmed. */
    struct sim_times times;
    struct sim_totals totals;
};

struct sim *sim_new(const struct sim_options *options);
void sim_free(struct sim *sim);

/* Adds an event after `delay_us`; `node` is NULL, or the event is bound to its current life. */
struct sim_event *sim_after(struct sim *sim, uint64_t delay_us, sim_fn run, const char *name,
                            struct sim_node *node);

/* Runs events until `until_us`, or until `stop` returns true. */
bool sim_run(struct sim *sim, uint64_t until_us, bool (*stop)(struct sim *sim));

/* The phases of a random seed: bootstrap, faults, convergence, checks. */
void sim_seed(struct sim *sim);

/* The phases one by one, for scenarios. */
void sim_bootstrap(struct sim *sim);
void sim_settle(struct sim *sim);
void sim_finish(struct sim *sim);
bool sim_converged(struct sim *sim);

/* An invariant does not hold: ends the process. */
_Noreturn void sim_fail(struct sim *sim, const char *invariant, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_mix(struct sim *sim, uint64_t value);

/* Buffer for the failure text; the runner sets it. */
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

/* Start options of the process (sim_options.c). */
void sim_node_options(struct sim *sim, struct sim_node *node, struct replica_options *ret_options);

enum sim_crash {
    SIM_KILL,  /* The process dies; completed writes stay. */
    SIM_POWER, /* The machine dies: unsynced writes are lost, torn or kept. */
    SIM_STOP,  /* Clean shutdown. */
};

void sim_node_crash(struct sim *sim, struct sim_node *node, enum sim_crash how);

/* The same, and the node restarts after a while. */
void sim_node_die(struct sim *sim, struct sim_node *node, enum sim_crash how);

/* Shuts the process down as SIGTERM does, and restarts it. */
void sim_node_drain(struct sim *sim, struct sim_node *node);

/* Passes an event to the replica and carries out the effects. The node may crash. */
void sim_node_step(struct sim *sim, struct sim_node *node, struct zab_event *event);
/* Why the log is set aside; NULL: it no longer is. */
void sim_node_aside(struct sim *sim, struct sim_node *node, const char *why);
void sim_node_effects(struct sim *sim, struct sim_node *node);
void sim_node_pause(struct sim *sim, struct sim_node *node, uint64_t for_us);
void sim_node_resume(struct sim *sim, struct sim_node *node);
/* The front end has heard from the client of this session. */
void sim_node_touch(struct sim *sim, struct sim_node *node, uint64_t session);
struct sim_node *sim_leader(struct sim *sim); /* Newest leader that broadcasts, or NULL. */

/* ---- sim_disk.c ---- */

void sim_disk_persist(struct sim *sim, struct sim_node *node, const struct zab_persist *change);
void sim_disk_kick(struct sim *sim, struct sim_node *node);
void sim_disk_fetch(struct sim *sim, struct sim_node *node, const struct zab_effect *effect);
void sim_disk_restore(struct sim *sim, struct sim_node *node, zxid_t zxid);
void sim_disk_snapshot(struct sim *sim, struct sim_node *node);
/* Frees what the process had in memory. */
void sim_disk_drop(struct sim *sim, struct sim_node *node, enum sim_crash how);
uint64_t sim_disk_us(struct sim *sim, struct sim_node *node);

/* ---- sim_media.c: the disk itself and the faults that it may suffer. ---- */

void sim_disk_init(struct sim *sim, struct sim_node *node);
void sim_disk_release(struct sim_node *node);

/* After a run: the disk would still hold everything committed after a power cut. */
void sim_disk_verify(struct sim *sim, struct sim_node *node);

/* The end of a process: stops its writes, then makes the disk as the next start will find it. */
void sim_disk_freeze(struct sim *sim, struct sim_node *node, enum sim_crash how);
void sim_disk_reset(struct sim *sim, struct sim_node *node, enum sim_crash how);

/* Faults on a disk that no process has open. */
void sim_disk_empty(struct sim *sim, struct sim_node *node);
void sim_disk_rot(struct sim *sim, struct sim_node *node, uint32_t bits);
/* Bits flip in every block of the files whose names contain `part`. */
void sim_disk_ruin(struct sim *sim, struct sim_node *node, const char *part);
void sim_disk_remove(struct sim *sim, struct sim_node *node, const char *name);
/* The last block written to the newest segment becomes zeros: a lost write. */
void sim_disk_forget(struct sim *sim, struct sim_node *node);
/* Flips one bit in each such file while the disk is in use; the log stays sound. */
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
/* The replica has other peers: connections to those that are none any more end. */
void sim_net_members(struct sim *sim, struct sim_node *node);
void sim_net_reset(struct sim *sim, uint32_t a, uint32_t b);
/* No fault has delayed a message between the two since then. */
bool sim_net_was_calm(struct sim *sim, uint32_t a, uint32_t b, uint64_t since_us);
/* Messages from one to the other arrive: the link is not silent for long. */
bool sim_net_is_heard(struct sim *sim, uint32_t from, uint32_t to);

/* A long silence of that direction has ended since then. */
bool sim_net_was_mute(const struct sim *sim, uint32_t from, uint32_t to, uint64_t since_us);
void sim_net_cut(struct sim *sim, uint32_t from, uint32_t to);
void sim_net_heal(struct sim *sim, uint32_t from, uint32_t to);
void sim_net_heal_all(struct sim *sim);

/* ---- sim_fault.c ---- */

void sim_fault_begin(struct sim *sim);
void sim_fault_end(struct sim *sim); /* Mends everything and starts no new faults. */
/* A leader proposes a configuration with a new disk for node `fresh`. */
void sim_fault_at_config(struct sim *sim, const struct sim_node *leader, uint32_t fresh);
/* True when the durability claim still holds after one more voter's disk is harmed. */
bool sim_fault_may_harm(struct sim *sim, struct sim_node *node);

/* ---- sim_refill.c: over a slow link, a replica synchronises under load. ---- */

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
/* Quarantine state of the replica once all disk changes on their way are durable. */
bool sim_disk_is_quarantined(const struct sim_node *node);
void sim_check_recovered(struct sim *sim, struct sim_node *node,
                         const struct replica_options *options);
void sim_check_step(struct sim *sim, struct sim_node *node);

/* sim_apply.c: records applied since the last call; A6 to A10, A16, A17. */
void sim_check_applied(struct sim *sim, struct sim_node *node);
void sim_check_end(struct sim *sim);

/* ---- sim_apply.c ---- */

/* Selects the run to which the intercepted functions report; NULL: none. */
void sim_watch(struct sim *sim);

/* ---- sim_probe.c: which probes exist and were reached. ---- */

size_t sim_probe_count(void);
const char *sim_probe_name(size_t index);
bool sim_probe_expected(size_t index);
uint64_t sim_probe_hits(const char *name);
void sim_probe_collect(uint8_t *hit); /* One byte per probe. */

/* ---- sim_scenario.c ---- */

/* Three voters without faults, in place of the knobs that the seed drew. */
void sim_scenario_knobs(struct sim *sim);

/* False when there is no such scenario. */
bool sim_scenario_run(struct sim *sim, const char *name);
const char *sim_scenario_name(size_t index); /* NULL after the last one. */

#endif
