/*
 * chaos.h - overlapping faults of processes, network, clocks and disks, planned from a seed.
 *
 * A plan consists of lanes that run at the same time. Each lane has one fault after the other, with
 * a pause between them. Kinds are dealt from a shuffled deck, so that each of them occurs. A fault
 * names its replica, or the leader of that moment. A fault that is impossible at its time (the
 * replica is down for another reason, or more disks than a minority would be harmed) is skipped and
 * counted.
 *
 * The thread of the test owns everything here, except the views: one thread for each replica polls
 * its status.
 */
#ifndef TESTS_PROC_CHAOS_H
#define TESTS_PROC_CHAOS_H

#include "tests/lib/draw.h"
#include "tests/proc/faulty.h"
#include "tests/proc/network.h"

enum {
    CHAOS_FAULTS_MAX = 256, /* In one round. */
    CHAOS_DECK_MAX = 32,
    CHAOS_LEADER = ENSEMBLE_MAX, /* As victim: the leader at the start of the fault. */
    CHAOS_DISK_BYTES = 64 << 20
};

enum chaos_kind {
    CHAOS_KILL,
    CHAOS_TERM,
    CHAOS_KILL_ALL,
    CHAOS_PAUSE,
    CHAOS_ONE_WAY, /* No byte from the victim reaches the other one. */
    CHAOS_TWO_WAY,
    CHAOS_DEAF,  /* No byte reaches the victim. */
    CHAOS_MUTE,  /* No byte from the victim reaches any other. */
    CHAOS_ALONE, /* Both. */
    CHAOS_SPLIT, /* A partition: two replicas, and all others. */
    CHAOS_SLOW_LINK,
    CHAOS_SLOW_REPLICA,
    CHAOS_RESET, /* The connections of a pair. */
    CHAOS_CLOCK,
    CHAOS_FULL,
    CHAOS_WRITE_ERROR,
    CHAOS_SYNC_ERROR,
    CHAOS_ROT,
    CHAOS_EMPTY,
    CHAOS_KINDS
};

enum chaos_lane {
    CHAOS_PROCESSES,
    CHAOS_NETWORK,
    CHAOS_NETWORK_TOO,
    CHAOS_CLOCKS,
    CHAOS_DISKS,
    CHAOS_LANES
};

enum chaos_state {
    CHAOS_PLANNED,
    CHAOS_ACTIVE,
    CHAOS_OVER
};

struct chaos_fault {
    enum chaos_kind kind;
    uint32_t start_ms; /* Since the start of the round. */
    uint32_t lasts_ms;
    uint32_t victim;                /* Index of a replica, or CHAOS_LEADER. */
    uint32_t other;                 /* The second replica of kinds with two. */
    int64_t offset_ms;              /* Of the clock. */
    struct network_quality quality; /* Of the direction. */
    uint32_t per_mille;             /* Position of the flipped bit. */
    enum chaos_state state;
    uint32_t met; /* The actual replica, set when the fault begins. */
};

struct chaos_plan {
    uint32_t count;
    struct chaos_fault faults[CHAOS_FAULTS_MAX];
};

struct chaos_deck {
    enum chaos_kind cards[CHAOS_DECK_MAX];
    uint32_t count; /* Left. */
};

struct chaos_planner {
    struct rng rng;
    uint32_t replicas;
    uint32_t without; /* A bit for each kind that must not occur. */
    struct chaos_deck decks[CHAOS_LANES];
    uint64_t past_ms;                  /* Length of the rounds before this one. */
    uint64_t emptied_ms[ENSEMBLE_MAX]; /* When its disk may be emptied again; 0: now. */
};

const char *chaos_name(enum chaos_kind kind);

/* The kind with that name; CHAOS_KINDS: unknown name. */
enum chaos_kind chaos_kind_of(const char *name);

void chaos_planner_init(struct chaos_planner *planner, uint64_t seed, uint32_t replicas,
                        uint32_t without);

/* The next round. */
void chaos_draw(struct chaos_planner *planner, uint32_t round_ms, struct chaos_plan *ret_plan);
void chaos_print_plan(const struct chaos_plan *plan);

/* ---- Views: what replicas report about themselves. ---- */

struct chaos_view {
    uint16_t port;
    uint32_t id;
    struct thread thread;
    _Atomic bool stopping;
    _Atomic uint64_t asked_ms; /* Time of the last answered request; 0: none yet. */
    _Atomic bool leads;
    _Atomic bool votes; /* It follows or leads, and its vote counts. */
    _Atomic uint32_t epoch;
    _Atomic uint32_t voters; /* Of a leader: a bit for each replica whose vote counts. */
};

void chaos_view_start(struct chaos_view *view, uint16_t port, uint32_t id);
void chaos_view_stop(struct chaos_view *view);

/* ---- Keepers: sessions renewed at any replica. ---- */

/* Opens a session of a few seconds with an ephemeral below /e, renews it for a while, then lets it
 * expire, and repeats. Opened, renewed and abandoned sessions are counted. */
struct chaos_keeper {
    uint32_t number;
    uint16_t ports[ENSEMBLE_MAX];
    uint32_t port_count;
    char create_path[64];
    struct rng rng;
    struct thread thread;
    _Atomic bool stopping;
    /* Valid after chaos_keeper_stop. */
    uint32_t opened;
    uint32_t touches;
    uint32_t abandoned;
    uint32_t expired; /* Expired during renewals that could not all be sent in time. */
    char wrong[512];  /* A session expired shortly after an answered renewal; "": none did. */
};

void chaos_keeper_start(struct chaos_keeper *keeper, const struct ensemble *ensemble,
                        uint32_t number, uint64_t seed);
void chaos_keeper_stop(struct chaos_keeper *keeper);

/* ---- Faults. ---- */

struct chaos_counts {
    uint32_t done[CHAOS_KINDS];
    uint32_t withheld[CHAOS_KINDS];
    uint32_t overlaps;    /* Faults that began during another one. */
    uint32_t overlap_max; /* Active at the same time. */
    uint32_t ended;       /* Replicas that ended after an I/O error. */
    uint32_t refills;     /* Replicas that voted again after an emptied or damaged disk. */
    uint64_t refill_max_ms;
    uint64_t heal_max_ms; /* From the end of a round until all were in sync. */
    uint32_t first_epoch;
    uint32_t last_epoch;
};

struct chaos {
    struct ensemble ensemble;
    struct network network;
    bool small_disks;
    struct chaos_plan plan;
    struct chaos_view views[ENSEMBLE_MAX];
    struct faulty *faulty[ENSEMBLE_MAX];
    uint64_t failed[ENSEMBLE_MAX]; /* faulty->failed when the process was started. */
    const struct chaos_fault *holder[ENSEMBLE_MAX]; /* Keeps the process down, paused or ending. */
    uint64_t harmed_ms[ENSEMBLE_MAX]; /* Since then its disk lacks acknowledged data; 0: none. */
    struct chaos_counts counts;
};

/* Five replicas on small disks (if the test may mount) behind a network, all in sync. */
void chaos_open(struct chaos *chaos, const char *keys);
void chaos_close(struct chaos *chaos, bool keep_logs);

/* Plays the plan until all faults have ended; then waits until all replicas are in sync. */
void chaos_play(struct chaos *chaos, uint32_t round_ms);

/* Begins and ends the faults that are due. */
void chaos_step(struct chaos *chaos, uint64_t round_start_ms);

/* Ends all active faults. */
void chaos_heal(struct chaos *chaos);

#endif
