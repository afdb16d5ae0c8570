/* Draws the kinds and times of faults, all from the seed. */
#include "base/check.h"
#include "tests/proc/chaos.h"

#include <stdio.h>
#include <string.h>

enum {
    LEADER_ONE_IN = 3, /* In so many faults. */
    SECOND_MS = 1000,
    PER_MILLE = 1000,
    DELAY_MS_MIN = 5,
    DELAY_MS_MAX = 200,
    RATE_SHIFT_MIN = 15, /* 32 KiB/s to 1 MiB/s. */
    RATE_SHIFT_MAX = 20,
    /* A member is admitted with a new disk at most once in ten minutes (docs/operating.md). */
    EMPTY_AGAIN_MS = 11 * 60 * SECOND_MS
};

struct row {
    const char *name;
    enum chaos_lane lane;
    uint32_t cards; /* How many of it are in a deck. */
    uint32_t min_ms;
    uint32_t max_ms;
};

static const struct row rows[CHAOS_KINDS] = {
    [CHAOS_KILL] = {"kill", CHAOS_PROCESSES, 3, 50, 3000},
    [CHAOS_TERM] = {"stop", CHAOS_PROCESSES, 1, 500, 3000},
    [CHAOS_KILL_ALL] = {"kill-all", CHAOS_PROCESSES, 1, 0, 500},
    [CHAOS_PAUSE] = {"pause", CHAOS_PROCESSES, 3, 100, 6000},
    [CHAOS_ONE_WAY] = {"one-way", CHAOS_NETWORK, 3, 300, 6000},
    [CHAOS_TWO_WAY] = {"two-way", CHAOS_NETWORK, 2, 300, 6000},
    [CHAOS_DEAF] = {"deaf", CHAOS_NETWORK, 1, 300, 5000},
    [CHAOS_MUTE] = {"mute", CHAOS_NETWORK, 1, 300, 5000},
    [CHAOS_ALONE] = {"alone", CHAOS_NETWORK, 1, 300, 5000},
    [CHAOS_SPLIT] = {"split", CHAOS_NETWORK, 1, 300, 5000},
    [CHAOS_SLOW_LINK] = {"slow-link", CHAOS_NETWORK, 2, 500, 8000},
    [CHAOS_SLOW_REPLICA] = {"slow-replica", CHAOS_NETWORK, 1, 500, 8000},
    [CHAOS_RESET] = {"reset", CHAOS_NETWORK, 1, 0, 0},
    [CHAOS_CLOCK] = {"clock", CHAOS_CLOCKS, 1, 200, 8000},
    [CHAOS_FULL] = {"full-disk", CHAOS_DISKS, 1, 500, 5000},
    [CHAOS_WRITE_ERROR] = {"write-error", CHAOS_DISKS, 1, 100, 2000},
    [CHAOS_SYNC_ERROR] = {"sync-error", CHAOS_DISKS, 1, 100, 2000},
    [CHAOS_ROT] = {"flipped-bit", CHAOS_DISKS, 1, 50, 2000},
    [CHAOS_EMPTY] = {"emptied-disk", CHAOS_DISKS, 1, 50, 2000},
};

/* Pause between two faults of a lane. */
static const struct {
    uint32_t min_ms;
    uint32_t max_ms;
} rests[CHAOS_LANES] = {
    [CHAOS_PROCESSES] = {200, 3000},   [CHAOS_NETWORK] = {100, 3000},
    [CHAOS_NETWORK_TOO] = {500, 4000}, [CHAOS_CLOCKS] = {500, 4000},
    [CHAOS_DISKS] = {300, 3000},
};

const char *chaos_name(enum chaos_kind kind)
{
    ASSERT(kind < CHAOS_KINDS);
    return rows[kind].name;
}

enum chaos_kind chaos_kind_of(const char *name)
{
    uint32_t kind = 0;

    while (kind < CHAOS_KINDS && strcmp(rows[kind].name, name) != 0) {
        kind++;
    }
    return (enum chaos_kind)kind;
}

void chaos_planner_init(struct chaos_planner *planner, uint64_t seed, uint32_t replicas,
                        uint32_t without)
{
    *planner = (struct chaos_planner){.replicas = replicas, .without = without};
    rng_init(&planner->rng, seed);
}

/* ---- Cards. ---- */

static void shuffle(struct chaos_planner *planner, struct chaos_deck *deck)
{
    for (uint32_t i = deck->count; i > 1; i--) {
        uint32_t k = (uint32_t)rng_below(&planner->rng, i);
        enum chaos_kind kind = deck->cards[k];

        deck->cards[k] = deck->cards[i - 1];
        deck->cards[i - 1] = kind;
    }
}

static void fill(struct chaos_planner *planner, enum chaos_lane lane, struct chaos_deck *deck)
{
    enum chaos_lane kinds_of = lane == CHAOS_NETWORK_TOO ? CHAOS_NETWORK : lane;

    for (uint32_t kind = 0; kind < CHAOS_KINDS; kind++) {
        bool excluded = rows[kind].lane != kinds_of || planner->without & 1U << kind;

        for (uint32_t i = 0; !excluded && i < rows[kind].cards; i++) {
            ASSERT(deck->count < CHAOS_DECK_MAX);
            deck->cards[deck->count++] = (enum chaos_kind)kind;
        }
    }
    shuffle(planner, deck);
}

/* False when the lane has no kinds. */
static bool deal(struct chaos_planner *planner, enum chaos_lane lane, enum chaos_kind *ret_kind)
{
    struct chaos_deck *deck = &planner->decks[lane];

    if (deck->count == 0) {
        fill(planner, lane, deck);
    }
    if (deck->count == 0) {
        return false;
    }
    *ret_kind = deck->cards[--deck->count];
    return true;
}

/* ---- Faults. ---- */

/* Clocks jump by seconds as well as by years, in both directions. */
static int64_t draw_offset(struct rng *rng)
{
    static const int64_t seconds[] = {2, 60, INT64_C(86400), INT64_C(315360000)};
    int64_t offset = seconds[rng_below(rng, sizeof(seconds) / sizeof(seconds[0]))] * SECOND_MS;

    return rng_below(rng, 3) == 0 ? -offset : offset;
}

static void draw_details(struct rng *rng, struct chaos_fault *fault)
{
    if (fault->kind == CHAOS_CLOCK) {
        fault->offset_ms = draw_offset(rng);
    } else if (fault->kind == CHAOS_ROT || fault->kind == CHAOS_EMPTY) {
        fault->per_mille = (uint32_t)rng_below(rng, PER_MILLE);
    } else if (fault->kind == CHAOS_SLOW_LINK || fault->kind == CHAOS_SLOW_REPLICA) {
        fault->quality.delay_ms = (uint32_t)rng_range(rng, DELAY_MS_MIN, DELAY_MS_MAX);
        fault->quality.bytes_per_s = 1U << rng_range(rng, RATE_SHIFT_MIN, RATE_SHIFT_MAX);
    } else {
        fault->quality.blocked = true;
    }
}

static void draw_fault(struct chaos_planner *planner, enum chaos_kind kind,
                       struct chaos_fault *fault)
{
    struct rng *rng = &planner->rng;
    uint32_t victim = (uint32_t)rng_below(rng, planner->replicas);
    uint32_t step = (uint32_t)rng_range(rng, 1, planner->replicas - 1);

    *fault = (struct chaos_fault){
        .kind = kind, .victim = victim, .other = (victim + step) % planner->replicas};
    fault->lasts_ms = (uint32_t)rng_range(rng, rows[kind].min_ms, rows[kind].max_ms);
    if (rng_below(rng, LEADER_ONE_IN) == 0) {
        fault->victim = CHAOS_LEADER;
    }
    draw_details(rng, fault);
}

/* A disk may be emptied when its replica can be admitted again. If there is none, a bit is flipped
 * instead. */
static void draw_emptied(struct chaos_planner *planner, struct chaos_fault *fault)
{
    uint64_t now_ms = planner->past_ms + fault->start_ms;
    uint32_t first = (uint32_t)rng_below(&planner->rng, planner->replicas);

    for (uint32_t i = 0; i < planner->replicas; i++) {
        uint32_t index = (first + i) % planner->replicas;

        if (planner->emptied_ms[index] <= now_ms) {
            planner->emptied_ms[index] = now_ms + EMPTY_AGAIN_MS;
            fault->victim = index;
            return;
        }
    }
    fault->kind = planner->without & 1U << CHAOS_ROT ? CHAOS_FULL : CHAOS_ROT;
}

static void draw_lane(struct chaos_planner *planner, enum chaos_lane lane, uint32_t round_ms,
                      struct chaos_plan *plan)
{
    uint32_t now_ms = (uint32_t)rng_range(&planner->rng, 0, rests[lane].max_ms);
    enum chaos_kind kind = CHAOS_KINDS;

    while (now_ms < round_ms && plan->count < CHAOS_FAULTS_MAX && deal(planner, lane, &kind)) {
        struct chaos_fault *fault = &plan->faults[plan->count++];

        draw_fault(planner, kind, fault);
        fault->start_ms = now_ms;
        if (kind == CHAOS_EMPTY) {
            draw_emptied(planner, fault);
        }
        now_ms += fault->lasts_ms;
        now_ms += (uint32_t)rng_range(&planner->rng, rests[lane].min_ms, rests[lane].max_ms);
    }
}

void chaos_draw(struct chaos_planner *planner, uint32_t round_ms, struct chaos_plan *ret_plan)
{
    ret_plan->count = 0;
    for (uint32_t lane = 0; lane < CHAOS_LANES; lane++) {
        draw_lane(planner, (enum chaos_lane)lane, round_ms, ret_plan);
    }
    planner->past_ms += round_ms;
}

/* ---- Printing. ---- */

static void print_fault(const struct chaos_fault *fault)
{
    char victim[16] = "leader";

    if (fault->victim != CHAOS_LEADER) {
        (void)snprintf(victim, sizeof(victim), "%u", fault->victim + 1);
    }
    (void)printf("%6u ms, for %5u ms: %-12s of %s", fault->start_ms, fault->lasts_ms,
                 chaos_name(fault->kind), victim);
    if (rows[fault->kind].lane == CHAOS_NETWORK) {
        (void)printf(", %u; delay %u ms, %u bytes/s", fault->other + 1, fault->quality.delay_ms,
                     fault->quality.bytes_per_s);
    }
    if (fault->kind == CHAOS_CLOCK) {
        (void)printf(", by %lld s", (long long)(fault->offset_ms / SECOND_MS));
    }
    (void)printf("\n");
}

void chaos_print_plan(const struct chaos_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        print_fault(&plan->faults[i]);
    }
}
