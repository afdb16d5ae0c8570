/*
 * chaos.h - faults of processes, network, clocks and disks, many at the same time, by a plan that
 * follows from a seed.
 *
 * A plan is made of lanes: each lane has one fault after the other, with a rest between them, and
 * all lanes run at the same time. Kinds are dealt from a shuffled deck, so that each of them comes
 * up. A fault says which replica it meets, or that it meets the leader of that moment. A fault that
 * cannot be made at its time (its replica is down for another reason, or a second one would harm
 * more disks than a minority) is withheld, and counted.
 *
 * Everything here belongs to the thread of the test, except the views: one thread for each replica
 * looks at it again and again.
 */
#ifndef TESTS_PROC_CHAOS_H
#define TESTS_PROC_CHAOS_H

#include "tests/lib/draw.h"
#include "tests/proc/faulty.h"
#include "tests/proc/network.h"

enum {
    CHAOS_FAULTS_MAX = 256, /* Of one round. */
    CHAOS_DECK_MAX = 32,
    CHAOS_LEADER = ENSEMBLE_MAX, /* As victim: the replica that leads when the fault begins. */
    CHAOS_DISK_BYTES = 64 << 20
};

enum chaos_kind {
    CHAOS_KILL,
    CHAOS_TERM,
    CHAOS_KILL_ALL,
    CHAOS_PAUSE,
    CHAOS_ONE_WAY, /* Nothing of the victim reaches the other one. */
    CHAOS_TWO_WAY,
    CHAOS_DEAF,  /* Nothing reaches the victim. */
    CHAOS_MUTE,  /* Nothing of the victim reaches any other. */
    CHAOS_ALONE, /* Both. */
    CHAOS_SPLIT, /* Two of the replicas here, all others there. */
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
    uint32_t start_ms; /* Since the round began. */
    uint32_t lasts_ms;
    uint32_t victim;                /* Index of a replica, or CHAOS_LEADER. */
    uint32_t other;                 /* Another one, where the kind has two. */
    int64_t offset_ms;              /* Of a clock. */
    struct network_quality quality; /* Of a direction. */
    uint32_t per_mille;             /* Where a bit is flipped. */
    enum chaos_state state;
    uint32_t met; /* The replica, once it has begun. */
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
    uint32_t without; /* A bit for each kind that must not come up. */
    struct chaos_deck decks[CHAOS_LANES];
    uint64_t past_ms;                  /* Length of the rounds before this one. */
    uint64_t emptied_ms[ENSEMBLE_MAX]; /* When its disk may be emptied again; 0: never was. */
};

const char *chaos_name(enum chaos_kind kind);

/* The kind of that name; CHAOS_KINDS: there is none. */
enum chaos_kind chaos_kind_of(const char *name);

void chaos_planner_init(struct chaos_planner *planner, uint64_t seed, uint32_t replicas,
                        uint32_t without);

/* The next round. */
void chaos_draw(struct chaos_planner *planner, uint32_t round_ms, struct chaos_plan *ret_plan);
void chaos_print_plan(const struct chaos_plan *plan);

/* ---- Views: what replicas say of themselves. ---- */

struct chaos_view {
    uint16_t port;
    uint32_t id;
    struct thread thread;
    _Atomic bool stopping;
    _Atomic uint64_t asked_ms; /* When the last answer was asked for; 0: none came yet. */
    _Atomic bool leads;
    _Atomic bool votes; /* It follows or leads, and its vote counts. */
    _Atomic uint32_t epoch;
    _Atomic uint32_t voters; /* Of a leader: a bit for each replica whose vote counts. */
};

void chaos_view_start(struct chaos_view *view, uint16_t port, uint32_t id);
void chaos_view_stop(struct chaos_view *view);

/* ---- Keepers: sessions that live by being touched, at any replica. ---- */

/* Opens a session of a few seconds with an ephemeral below /e, touches it for a while, then leaves
 * it alone, and again. Opened, touched and left sessions are counted. */
struct chaos_keeper {
    uint32_t number;
    uint16_t ports[ENSEMBLE_MAX];
    char create_path[64];
    struct rng rng;
    struct thread thread;
    _Atomic bool stopping;
    /* To be read once it has stopped. */
    uint32_t opened;
    uint32_t touches;
    uint32_t abandoned;
    uint32_t expired; /* While it was touched, as far as that was possible. */
    char wrong[512];  /* One was over though a touch had been answered shortly before; or empty. */
};

void chaos_keeper_start(struct chaos_keeper *keeper, const struct ensemble *ensemble,
                        uint32_t number, uint64_t seed);
void chaos_keeper_stop(struct chaos_keeper *keeper);

/* ---- Faults. ---- */

struct chaos_counts {
    uint32_t done[CHAOS_KINDS];
    uint32_t withheld[CHAOS_KINDS];
    uint32_t overlaps;    /* Faults that began while others were active. */
    uint32_t overlap_max; /* Active at the same time. */
    uint32_t ended;       /* Replicas that ended themselves behind an I/O error. */
    uint32_t refills;     /* Replicas that voted again behind an emptied or damaged disk. */
    uint64_t refill_max_ms;
    uint64_t heal_max_ms; /* From the end of a round until all were in step. */
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
    uint64_t harmed_ms[ENSEMBLE_MAX]; /* Since then its disk lacks what it had; 0: it does not. */
    struct chaos_counts counts;
};

/* Five replicas on small disks (if the test may mount) behind a network, all in step. */
void chaos_open(struct chaos *chaos, const char *keys);
void chaos_close(struct chaos *chaos, bool keep_logs);

/* Plays the plan to its end, all faults over; then waits until all replicas are in step. */
void chaos_play(struct chaos *chaos, uint32_t round_ms);

/* Begins and ends what is due. */
void chaos_step(struct chaos *chaos, uint64_t round_start_ms);

/* Ends all that is active. */
void chaos_heal(struct chaos *chaos);

#endif
