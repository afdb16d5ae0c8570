#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "tests/sim/sim_ask.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_member.h"
#include "tests/sim/sim_quorum.h"
#include "tests/sim/sim_session.h"
#include "tests/sim/sim_watch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

enum {
    BOOTSTRAP_MAX_US = 120 * SIM_SECOND,
    SAFETY_MAX_US = 600 * SIM_SECOND,
    KNOWN_TICKS = 6, /* Within this time each replica learns the state of each other replica. */
    CONVERGE_TICKS_MAX = 60,             /* Bound of the liveness phase, in ticks, ... */
    CONVERGE_MORE_US = 120 * SIM_SECOND, /* ... plus this for refills and admissions. */
    LOOK_US = 20 * SIM_MS,
    EVENTS_MAX = 20000000
};

static char *fail_text;
static size_t fail_size;

void sim_fail_to(char *text, size_t size)
{
    fail_text = text;
    fail_size = size;
}

_Noreturn void sim_fail(struct sim *sim, const char *invariant, const char *format, ...)
{
    char text[SIM_REASON_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (fail_text) { /* The parent process prints it with the totals. */
        (void)snprintf(fail_text, fail_size, "%s: %s", invariant, text);
    } else {
        (void)printf("FAILED seed %" PRIu64 ": %s: %s\n", sim->options.seed, invariant, text);
    }
    (void)fprintf(stderr, "seed %" PRIu64 " at %" PRIu64 ".%06" PRIu64 " s: %s: %s\n",
                  sim->options.seed, sim->now_us / SIM_SECOND, sim->now_us % SIM_SECOND, invariant,
                  text);
    (void)fflush(NULL);
    abort();
}

void sim_trace(struct sim *sim, const char *format, ...)
{
    va_list args;

    (void)printf("%4" PRIu64 ".%06" PRIu64 " ", sim->now_us / SIM_SECOND, sim->now_us % SIM_SECOND);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)printf("\n");
}

void sim_mix(struct sim *sim, uint64_t value)
{
    sim->trace_hash = hash64_mix(sim->trace_hash, value);
}

/* ---- The heap. ---- */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->seq < b->seq;
}

static struct sim_event *heap_push(struct sim_heap *heap, struct sim_event event)
{
    if (heap->count == heap->cap) {
        heap->cap = heap->cap ? heap->cap * 2 : 256;
        heap->items = mem_realloc(heap->items, heap->cap * sizeof(*heap->items));
    }

    size_t i = heap->count++;

    while (i > 0 && before(&event, &heap->items[(i - 1) / 2])) {
        heap->items[i] = heap->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap->items[i] = event;
    return &heap->items[i];
}

static struct sim_event heap_pop(struct sim_heap *heap)
{
    ASSERT(heap->count > 0);

    struct sim_event top = heap->items[0];
    struct sim_event last = heap->items[--heap->count];
    size_t i = 0;

    while (i * 2 + 1 < heap->count) {
        size_t child = i * 2 + 1;

        if (child + 1 < heap->count && before(&heap->items[child + 1], &heap->items[child])) {
            child++;
        }
        if (!before(&heap->items[child], &last)) {
            break;
        }
        heap->items[i] = heap->items[child];
        i = child;
    }
    heap->items[i] = last;
    return top;
}

struct sim_event *sim_after(struct sim *sim, uint64_t delay_us, sim_fn run, const char *name,
                            struct sim_node *node)
{
    return heap_push(&sim->heap, (struct sim_event){.at_us = sim->now_us + delay_us,
                                                    .seq = sim->seq++,
                                                    .run = run,
                                                    .name = name,
                                                    .node = node ? node->id : 0,
                                                    .life = node ? node->life : 0});
}

/* ---- Running. ---- */

static void defer(struct sim_node *node, struct sim_event event)
{
    if (node->inbox_count == node->inbox_cap) {
        node->inbox_cap = node->inbox_cap ? node->inbox_cap * 2 : 32;
        node->inbox = mem_realloc(node->inbox, node->inbox_cap * sizeof(*node->inbox));
    }
    node->inbox[node->inbox_count++] = event;
}

static void run_event(struct sim *sim, struct sim_event event)
{
    struct sim_node *node = event.node ? &sim->nodes[event.node] : NULL;

    if (node && (!node->up || node->life != event.life)) {
        mem_free(event.ptr);
        return;
    }
    if (node && node->paused) {
        defer(node, event);
        return;
    }
    if (node && event.at_us == node->awake_us && event.seq < node->awake_seq) {
        event.seq = sim->seq++; /* Events of the pause are older. */
        heap_push(&sim->heap, event);
        return;
    }
    sim_mix(sim, event.at_us);
    sim_mix(sim, (uint64_t)event.node << 56 ^ event.a << 20 ^ event.b);
    event.run(sim, &event);
    mem_free(event.ptr);
}

bool sim_run(struct sim *sim, uint64_t until_us, bool (*stop)(struct sim *sim))
{
    while (sim->heap.count > 0 && sim->heap.items[0].at_us <= until_us) {
        struct sim_event event = heap_pop(&sim->heap);

        ASSERT(event.at_us >= sim->now_us);
        sim->now_us = event.at_us;
        sim->totals.events++;
        if (sim->totals.events > EVENTS_MAX) {
            sim_fail(sim, "A25", "more than %d events: an endless loop of events", EVENTS_MAX);
        }
        run_event(sim, event);
        if (stop && stop(sim)) {
            return true;
        }
    }
    sim->now_us = until_us;
    return false;
}

/* ---- The phases of a seed. ---- */

struct sim *sim_new(const struct sim_options *options)
{
    struct sim *sim = mem_zalloc(1, sizeof(*sim));

    sim->options = *options;
    rng_init(&sim->rng, options->seed);
    sim_draw(&sim->rng, &sim->knobs);
    if (options->scenario) {
        sim_scenario_knobs(sim);
    } else {
        sim_draw_room(options->seed, &sim->knobs);
        sim_draw_lanes(options->seed, &sim->knobs);
        sim_draw_links(options->seed, &sim->knobs);
        sim_draw_clocks(options->seed, &sim->knobs);
        sim_draw_failing(options->seed, &sim->knobs);
        if (options->reconfig) {
            sim_draw_releases(options->seed, &sim->knobs);
        }
    }
    if (options->only_nodes) {
        sim->knobs.nodes = options->only_nodes;
        sim->knobs.voters = options->only_nodes;
    }
    sim->knobs.members = sim->knobs.nodes;
    if (options->reconfig && !options->scenario) {
        sim_draw_members(options->seed, &sim->knobs);
    }
    sim_member_init(sim);
    sim_check_init(sim);
    sim_net_init(sim);
    sim_client_init(sim);
    sim_sockets_init(sim);
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        sim_node_init(sim, &sim->nodes[id], id);
    }
    return sim;
}

void sim_free(struct sim *sim)
{
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        sim_node_release(sim, &sim->nodes[id]);
    }
    sim_ask_release(sim);
    sim_client_release(sim);
    sim_sockets_release(sim);
    sim_session_release(sim);
    sim_net_release(sim);
    sim_check_release(sim);
    for (size_t i = 0; i < sim->heap.count; i++) {
        mem_free(sim->heap.items[i].ptr);
    }
    mem_free(sim->heap.items);
    mem_free(sim);
}

static void enter(struct sim *sim, enum sim_phase phase, const char *name)
{
    sim->phase = phase;
    sim->phase_us = sim->now_us;
    SIM_TRACE(sim, "---- %s", name);
}

static bool is_bootstrapped(struct sim *sim)
{
    return sim_leader(sim) != NULL;
}

static void start_node(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->a];

    if (!node->up && !node->idle) {
        sim_node_start(sim, node);
    }
}

void sim_bootstrap(struct sim *sim)
{
    enter(sim, SIM_BOOTSTRAP, "bootstrap");
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        sim_after(sim, rng_below(&sim->rng, SIM_SECOND), start_node, "start", NULL)->a = id;
    }
    if (!sim_run(sim, sim->now_us + BOOTSTRAP_MAX_US, is_bootstrapped)) {
        sim_fail(sim, "A24", "the ensemble did not bootstrap within %d s",
                 BOOTSTRAP_MAX_US / SIM_SECOND);
    }
}

static bool is_safety_over(struct sim *sim)
{
    return sim->now_us - sim->phase_us >= (uint64_t)sim->options.safety_ms * SIM_MS &&
           sim->op_count >= sim->options.ops_min;
}

static bool node_in_step(const struct sim *sim, const struct sim_node *node,
                         const struct sim_node *leader)
{
    const struct replica_status *status = &node->status;

    return node->up && !node->paused && node->stopping != node->life && !node->damaged &&
           status->zab.serving && !status->zab.quarantined &&
           (!sim_seat_of(sim, node) || !status->zab.unknown_disk) &&
           status->applied == leader->status.applied && status->digest == leader->status.digest &&
           status->zab.committed == status->applied &&
           status->zab.epoch == leader->status.zab.epoch;
}

bool sim_converged(struct sim *sim)
{
    struct sim_node *leader = sim_leader(sim);

    if (!leader || sim->pending > 0) {
        return false;
    }
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (sim_member_is(sim, &sim->nodes[id]) && !node_in_step(sim, &sim->nodes[id], leader)) {
            return false;
        }
    }
    return true;
}

static void look(struct sim *sim, struct sim_event *event)
{
    (void)event;
    (void)sim;
}

static void explain(struct sim *sim)
{
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        const struct sim_node *node = &sim->nodes[id];
        const struct zab_status *zab = &node->status.zab;

        (void)fprintf(stderr,
                      "  node %u: %s%s%s state %d phase %d serving %d leader %u epoch %u "
                      "promised %u last %" PRIx64 " durable %" PRIx64 " committed %" PRIx64
                      " applied %" PRIx64 " digest %" PRIx64 "%s%s%s reason \"%s\"\n",
                      id, node->up ? "up" : "down", node->paused ? " paused" : "",
                      node->damaged ? " damaged" : "", (int)zab->state, (int)zab->phase,
                      zab->serving, zab->leader, zab->epoch, zab->promised, zab->last, zab->durable,
                      zab->committed, node->status.applied, node->status.digest,
                      zab->quarantined ? " quarantined" : "",
                      zab->unknown_disk ? " unknown-disk" : "",
                      zab->bootstrapping ? " bootstrapping" : "", zab->reason);
    }
    (void)fprintf(stderr, "  operations without an answer: %u\n", sim->pending);
}

/* Waits for convergence; it looks at intervals, not after each event. */
void sim_settle(struct sim *sim)
{
    uint64_t from_us = sim->now_us;
    uint64_t bound_us =
        (uint64_t)sim->knobs.limits.tick_ms * SIM_MS * CONVERGE_TICKS_MAX + CONVERGE_MORE_US;

    while (!sim_converged(sim)) {
        sim_after(sim, LOOK_US, look, "look", NULL);
        (void)sim_run(sim, sim->now_us + LOOK_US, NULL);
        if (sim->now_us - from_us > bound_us) {
            explain(sim);
            sim_fail(sim, "A24", "no convergence within %" PRIu64 " ms after the faults stopped",
                     bound_us / SIM_MS);
        }
    }
    if (sim->totals.converge_ms < (sim->now_us - from_us) / SIM_MS) {
        sim->totals.converge_ms = (sim->now_us - from_us) / SIM_MS;
    }
}

/* The replica has recent reports from each other replica, and each serves in the same epoch. */
static bool knows_all(struct sim *sim, struct sim_node *node)
{
    uint64_t recent_ms = (uint64_t)sim->knobs.limits.tick_ms * KNOWN_TICKS;
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX];
    size_t count = replica_heartbeats(node->replica, heartbeats);

    for_each_member (member, &sim->config) {
        const struct heartbeat *heartbeat = heartbeats_find(heartbeats, count, member->id);

        if (!heartbeat || heartbeat->epoch != node->status.zab.epoch ||
            !(heartbeat->flags & HEARTBEAT_SERVING) ||
            heartbeat->at_ms + recent_ms < sim_node_ms(sim, node)) {
            return false;
        }
    }
    return true;
}

static bool all_know_all(struct sim *sim)
{
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        struct sim_node *node = &sim->nodes[id];

        if (sim_member_is(sim, node) && (!node->up || !knows_all(sim, node))) {
            return false;
        }
    }
    return true;
}

/* Each replica reports to the leader, which passes all reports on: two rounds of pings. */
static void check_heartbeats(struct sim *sim)
{
    uint64_t from_us = sim->now_us;
    uint64_t bound_us = (uint64_t)sim->knobs.limits.tick_ms * SIM_MS * KNOWN_TICKS;

    while (!all_know_all(sim)) {
        sim_after(sim, LOOK_US, look, "look", NULL);
        (void)sim_run(sim, sim->now_us + LOOK_US, NULL);
        if (sim->now_us - from_us > bound_us) {
            explain(sim);
            sim_fail(sim, "A29", "after %" PRIu64 " ms a replica lacks a recent report of another",
                     bound_us / SIM_MS);
        }
    }
}

void sim_finish(struct sim *sim)
{
    enter(sim, SIM_LIVENESS, "liveness");
    sim_fault_end(sim);
    (void)sim_run(sim, sim->now_us + 2 * SIM_SECOND, NULL);
    if (!sim->options.scenario) {
        sim_refill_check(sim);
    }
    sim->clients_stop = true;
    sim_settle(sim);
    check_heartbeats(sim);
    /* Meanwhile sessions have expired, and their records may have used up an epoch. */
    sim_clock_progress(sim);
    sim_settle(sim);
    sim_sockets_finish(sim);
    sim_settle(sim);
    enter(sim, SIM_DONE, "checks");
    sim_check_end(sim);
    sim_history_check(sim);
    sim->totals.virtual_us = sim->now_us;
    sim->totals.committed = sim->log_count;
}

void sim_seed(struct sim *sim)
{
    sim_bootstrap(sim);
    enter(sim, SIM_SAFETY, "safety");
    sim_client_begin(sim);
    sim_fault_begin(sim);
    sim_change_begin(sim);
    if (!sim_run(sim, sim->now_us + SAFETY_MAX_US, is_safety_over)) {
        sim_fail(sim, "A24", "only %zu operations within %d s", sim->op_count,
                 SAFETY_MAX_US / SIM_SECOND);
    }
    sim_finish(sim);
}
