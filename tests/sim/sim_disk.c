#include "base/check.h"
#include "base/mem.h"
#include "server/read/view.h"
#include "server/state/state.h"
#include "tests/sim/sim_failing.h"
#include "tests/sim/sim_watch.h"

#include <inttypes.h>

/*
 * The log thread and the worker thread, as events: each job takes time, and a crash may come
 * before, during or after it, also between the disk's completion and the core's notification.
 */

enum {
    SLOW_MAX_US = 4 * SIM_SECOND,
    TELL_MAX_US = 300,
    RETRY_US = 500 * SIM_MS,
    FETCH_RECS_MAX = 64,
    FETCH_BYTES_MAX = 64 << 10,
    SLICE_BUF_MAX = 4 << 20,
};

struct sim_snap {
    struct store_snap_writer *writer;
    struct state_cursor cursor;
    struct buf block;
    zxid_t start;
};

uint64_t sim_disk_us(struct sim *sim, struct sim_node *node)
{
    uint64_t us = rng_range(&sim->rng, sim->knobs.disk_min_us, sim->knobs.disk_max_us);

    return node->slow ? us + rng_below(&sim->rng, SLOW_MAX_US) : us;
}

/* Duration of a job with snapshots: they run one after the other, as in the server's one worker
 * thread. */
static uint64_t worker_us(struct sim *sim, struct sim_node *node)
{
    uint64_t at_us = sim->now_us + sim_disk_us(sim, node);

    node->worker_us = at_us > node->worker_us ? at_us : node->worker_us;
    return node->worker_us - sim->now_us;
}

/* True when the machine has died in the middle of a call; then the process is gone. */
static bool died(struct sim *sim, struct sim_node *node)
{
    if (!sim_disk_crashed(node)) {
        return false;
    }
    SIM_TRACE(sim, "fault: node %u dies while it uses its disk", node->id);
    sim_node_die(sim, node, SIM_POWER);
    return true;
}

static void expect(struct sim *sim, const struct sim_node *node, enum err err, const char *what)
{
    if (err != ERR_OK) {
        sim_fail(sim, "disk", "node %u: %s: %s", node->id, what, err_symbol(err));
    }
}

/* True when the disk failed; then the process is gone. As in the server it ends at once and retries
 * nothing. */
static bool failed(struct sim *sim, struct sim_node *node, enum err err, const char *what)
{
    if (err == ERR_OK) {
        return false;
    }
    if (!sim_disk_explains(node, err)) {
        expect(sim, node, err, what);
    }
    SIM_TRACE(sim, "end %u: %s: %s", node->id, what, err_symbol(err));
    sim_node_die(sim, node, SIM_KILL);
    return true;
}

/* ---- The log thread. ---- */

static void tell_done(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    struct persist_dones dones = node->dones;
    uint32_t life = node->life;

    node->telling = false;
    node->dones = (struct persist_dones){0};
    for (size_t i = 0; i < dones.count && node->up && node->life == life; i++) {
        struct zab_event step = {.type = ZAB_EV_PERSISTED, .persisted = dones.items[i]};

        sim_node_step(sim, node, &step);
    }
    persist_dones_release(&dones);
}

static void preallocate(struct sim *sim, struct sim_event *event);

static void plan_preallocate(struct sim *sim, struct sim_node *node, uint64_t in_us)
{
    if (!node->preallocating) {
        node->preallocating = true;
        sim_after(sim, in_us, preallocate, "preallocate", node);
    }
}

/* Notifies the core when only the reserve is left, and when space is available again. */
static void tell_space(struct sim *sim, struct sim_node *node)
{
    bool low = store_is_low(node->store);
    struct zab_event step = {.type = ZAB_EV_SPACE, .is_space_low = low};

    if (low != node->low) {
        SIM_TRACE(sim, "space %u: %s", node->id, low ? "low" : "enough");
        node->low = low;
        sim_node_step(sim, node, &step);
    }
}

/* A purge without a snapshot of this replica has moved the log's base. */
static void tell_purged(struct sim *sim, struct sim_node *node)
{
    struct zab_event step = {.type = ZAB_EV_PURGED};
    struct store_figures figures;

    store_figures(node->store, &figures);
    step.purged_base = figures.log_base;
    sim_node_step(sim, node, &step);
}

/* The same when the log has to wait. */
static void tell_aside(struct sim *sim, struct sim_node *node, bool waits)
{
    if (waits != node->aside) {
        SIM_TRACE(sim, "aside %u: %s", node->id, waits ? "yes" : "no longer");
        node->aside = waits;
        sim_node_aside(sim, node, waits ? "no space for the log" : NULL);
    }
}

static void preallocate(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    uint32_t life = node->life;

    snap_send_tidy(&node->send, sim_node_ms(sim, node), snap_send_idle_ms(node->low));
    enum err err = store_preallocate(node->store);

    node->preallocating = false;
    if (died(sim, node) || (err != ERR_NO_SPACE && failed(sim, node, err, "preallocate"))) {
        return;
    }
    tell_purged(sim, node);
    if (!node->up || node->life != life) {
        return;
    }
    if (err == ERR_NO_SPACE) {
        plan_preallocate(sim, node, RETRY_US);
    }
    tell_space(sim, node);
}

static void run_batch(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    size_t first = node->dones.count;
    uint32_t life = node->life;
    enum err err = persist_run(&node->running, node->store, &node->dones);

    node->disk_busy = false;
    if (died(sim, node)) {
        return;
    }
    for (size_t i = first; i < node->dones.count; i++) {
        SIM_TRACE(sim, "durable %u: token %" PRIu64 " %s", node->id, node->dones.items[i].token,
                  err_symbol(node->dones.items[i].err));
        sim_check_done(sim, node, &node->dones.items[i]);
    }
    if (node->dones.count > 0 && !node->telling) {
        node->telling = true;
        sim_after(sim, rng_below(&sim->rng, TELL_MAX_US), tell_done, "persisted", node);
    }
    if (err == ERR_NO_SPACE) {
        node->disk_busy = true;
        sim_after(sim, RETRY_US, run_batch, "disk again", node);
    } else if (failed(sim, node, err, "run")) {
        return;
    } else {
        sim_disk_kick(sim, node);
    }
    plan_preallocate(sim, node, sim_disk_us(sim, node));
    tell_aside(sim, node, err == ERR_NO_SPACE);
    if (node->up && node->life == life) {
        tell_space(sim, node);
    }
}

/* Group commit: all changes that came while the disk was busy form one batch. */
void sim_disk_kick(struct sim *sim, struct sim_node *node)
{
    if (node->disk_busy || node->filling.count == 0) {
        return;
    }
    ASSERT(node->running.count == 0);
    persist_merge(&node->running, &node->filling);
    node->disk_busy = true;
    sim_after(sim, sim_disk_us(sim, node), run_batch, "disk", node);
}

void sim_disk_persist(struct sim *sim, struct sim_node *node, const struct zab_persist *change)
{
    (void)sim;
    persist_add(&node->filling, change, &node->identity);
}

/* ---- Reading for learners, and for records that are no longer in memory. ---- */

static void fetch(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    struct logrec *recs[FETCH_RECS_MAX];
    size_t count = 0;
    struct zab_event step = {.type = ZAB_EV_FETCHED, .fetched = {.token = event->a, .recs = recs}};

    step.fetched.err =
        store_read(node->store, event->b, FETCH_BYTES_MAX, FETCH_RECS_MAX, recs, &count);
    if (died(sim, node)) {
        return;
    }
    step.fetched.rec_count = step.fetched.err == ERR_OK ? count : 0;
    sim_node_step(sim, node, &step);
    for (size_t i = 0; i < step.fetched.rec_count; i++) {
        logrec_unref(recs[i]);
    }
}

/* Verifies the whole file before its first piece is sent; the server does other work in between. */
static enum err begin_send(struct sim *sim, struct sim_node *node, const struct snap_piece *piece)
{
    enum err err = snap_send_begin(&node->send, piece, sim_node_ms(sim, node));
    size_t bytes = 0;

    while (err == ERR_OK && !snap_send_is_checked(&node->send, piece->peer)) {
        err = snap_send_check(&node->send, piece->peer, sim_node_ms(sim, node), &bytes);
    }
    return err;
}

static void snap_fetch(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    struct snap_piece *piece = event->ptr;
    struct buf bytes;
    struct zab_event step = {.type = ZAB_EV_SNAP_FETCHED};
    struct zab_ev_snap_fetched *fetched = &step.snap_fetched;

    buf_init(&bytes, ZAB_CHUNK_BYTES_MAX);
    fetched->token = event->a;
    fetched->err = piece->is_first ? begin_send(sim, node, piece) : ERR_OK;
    if (fetched->err == ERR_OK) {
        fetched->err = snap_send_piece(&node->send, piece, sim_node_ms(sim, node), &bytes);
        fetched->start = piece->info.start;
        fetched->start_chain = piece->info.start_chain;
        fetched->end = piece->info.end;
        fetched->bytes = buf_slice(&bytes);
        fetched->is_last = piece->is_last;
        fetched->id = piece->info.id;
    }
    fetched->offset = piece->offset;
    if (!died(sim, node)) {
        sim_node_step(sim, node, &step);
    }
    buf_release(&bytes);
}

void sim_disk_fetch(struct sim *sim, struct sim_node *node, const struct zab_effect *effect)
{
    struct sim_event *event;

    if (effect->type == ZAB_FX_FETCH) {
        event = sim_after(sim, sim_disk_us(sim, node), fetch, "fetch", node);
        event->a = effect->fetch.token;
        event->b = effect->fetch.after;
    } else {
        const struct zab_snap_fetch *asked = &effect->snap_fetch;
        struct snap_piece piece = {.peer = asked->peer,
                                   .is_first = asked->is_first,
                                   .id = asked->id,
                                   .oldest = asked->oldest,
                                   .offset = asked->offset,
                                   .len = asked->len};

        event = sim_after(sim, worker_us(sim, node), snap_fetch, "snap fetch", node);
        event->a = asked->token;
        event->ptr = mem_dup(&piece, sizeof(piece));
    }
}

/* ---- Loading a received snapshot. ---- */

static void drop_snapshot(struct sim_node *node)
{
    struct sim_snap *snap = node->snap;

    if (!snap) {
        return;
    }
    node->snap = NULL;
    if (snap->writer) {
        store_snap_abort(snap->writer);
    }
    state_scan_release(&snap->cursor);
    buf_release(&snap->block);
    mem_free(snap);
}

static void fail_snapshot(struct sim_node *node)
{
    if (node->snap) {
        drop_snapshot(node);
        replica_snapshot_failed(node->replica);
    }
}

static void restore(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    uint64_t history = zab_config(replica_zab(node->replica))->history;
    struct zab_event step;
    const struct zab_ev_restored *restored = &step.restored;
    bool diverged = node->diverged;

    sim_front_check_loading(sim, node);
    fail_snapshot(node);
    node->diverged = false;
    sim->current = node;
    recover_restore(node->store, event->a, history, node->view, &step);
    sim->current = NULL;
    if (died(sim, node)) {
        return;
    }
    SIM_TRACE(sim, "restored %u at %" PRIx64 ": %s", node->id, restored->start,
              err_symbol(restored->err));
    if (restored->err != ERR_OK) {
        node->diverged = diverged; /* The old state remains. */
    }
    if (restored->err == ERR_OK) {
        node->whole_from = restored->end;
    }
    if (restored->err == ERR_OK && restored->start == 0) {
        node->state = NULL; /* A new, empty state. */
    }
    sim_node_step(sim, node, &step);
}

void sim_disk_restore(struct sim *sim, struct sim_node *node, zxid_t zxid)
{
    SIM_TRACE(sim, "restore %u at %" PRIx64, node->id, zxid);
    sim_after(sim, worker_us(sim, node), restore, "restore", node)->a = zxid;
}

/* ---- Own snapshots: fuzzy, slice by slice, while transactions continue. ---- */

static void snap_slice(struct sim *sim, struct sim_event *event);

static void snap_done(struct sim *sim, struct sim_node *node, zxid_t start)
{
    struct zab_event step = {.type = ZAB_EV_STORED_SNAP};
    struct store_figures figures;

    store_figures(node->store, &figures);
    step.stored_snap.start = start;
    step.stored_snap.log_base = figures.log_base;
    sim->totals.snaps_taken++;
    SIM_TRACE(sim, "snapshot %u from %" PRIx64 ", log base %" PRIx64, node->id, start,
              figures.log_base);
    sim_node_step(sim, node, &step);
}

static void snap_finish(struct sim *sim, struct sim_node *node, zxid_t end, uint64_t digest,
                        uint64_t nodes)
{
    struct sim_snap *snap = node->snap;
    zxid_t start = snap->start;
    enum err err = store_snap_finish(snap->writer, end, digest, nodes);

    snap->writer = NULL;
    if (died(sim, node)) {
        return;
    }
    if (err == ERR_OK) {
        drop_snapshot(node);
        snap_done(sim, node, start);
        return;
    }
    if (err == ERR_IO && failed(sim, node, err, "snapshot")) {
        return;
    }
    if (err != ERR_NO_SPACE && err != ERR_CLOSED && !sim_disk_explains(node, err)) {
        expect(sim, node, err, "snapshot");
    }
    fail_snapshot(node);
}

static void snap_slice(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    struct sim_snap *snap = node->snap;
    const struct state *state;
    zxid_t end;
    uint64_t digest;
    uint64_t nodes;
    enum err err;

    if (!snap || snap->start != event->a) {
        return;
    }
    state = view_read(node->view);
    buf_clear(&snap->block);
    state_scan(state, &snap->cursor, sim->knobs.slice_bytes, &snap->block);
    end = state_applied(state);
    digest = state_digest(state);
    nodes = state_node_count(state);
    view_read_done(node->view);
    err = store_snap_block(snap->writer, buf_slice(&snap->block));
    if (died(sim, node)) {
        return;
    }
    if (err == ERR_NO_SPACE) {
        fail_snapshot(node);
        return;
    }
    if (failed(sim, node, err, "snapshot block")) {
        return;
    }
    if (snap->cursor.done) {
        snap_finish(sim, node, end, digest, nodes);
        return;
    }
    sim_after(sim, sim_disk_us(sim, node), snap_slice, "slice", node)->a = snap->start;
}

void sim_disk_snapshot(struct sim *sim, struct sim_node *node)
{
    struct sim_snap *snap = mem_zalloc(1, sizeof(*snap));
    enum err err;

    ASSERT(!node->snap);
    snap->start = node->effects.snap_start;
    state_scan_init(&snap->cursor);
    buf_init(&snap->block, SLICE_BUF_MAX);
    node->snap = snap;
    err = store_snap_begin(node->store, snap->start, node->effects.snap_chain,
                           zab_config_bytes(replica_zab(node->replica)), &snap->writer);
    if (died(sim, node)) {
        return;
    }
    if (err == ERR_NO_SPACE) {
        snap->writer = NULL;
        fail_snapshot(node);
        return;
    }
    if (failed(sim, node, err, "snapshot begin")) {
        return;
    }
    sim_after(sim, sim_disk_us(sim, node), snap_slice, "slice", node)->a = snap->start;
}

/* ---- The end of a process. ---- */

void sim_disk_drop(struct sim *sim, struct sim_node *node, enum sim_crash how)
{
    sim_disk_freeze(sim, node, how);
    drop_snapshot(node);
    if (node->store) {
        snap_send_close(&node->send);
    }
    persist_batch_release(&node->filling);
    persist_batch_release(&node->running);
    persist_dones_release(&node->dones);
    node->disk_busy = false;
    node->telling = false;
    node->preallocating = false;
    node->low = false;
    node->aside = false;
    node->worker_us = 0;
}
