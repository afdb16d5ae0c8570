#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/read/view.h"
#include "server/state/state.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_ask.h"
#include "tests/sim/sim_lane.h"
#include "tests/sim/sim_member.h"
#include "tests/sim/sim_model.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * Checks the clients' history against the naive model. Each answer names the zxid that it reflects,
 * so the order is known and one walk along the committed sequence is enough. The model executes
 * each transaction as its client requested it, and repeats each read and each refusal at its zxid.
 */

struct history {
    struct sim *sim;
    struct sim_lanes lanes;
    struct model model;
    struct map by_request; /* Operations, by (boot, request). */
    struct sim_op **looks; /* Reads and refusals, ascending by zxid. */
    size_t look_count;
    size_t look_next;
    struct sim_diffs *diffs;
};

static uint64_t request_key(uint64_t boot, uint64_t request)
{
    return hash64_mix(boot, request);
}

static int by_zxid(const void *a, const void *b)
{
    const struct sim_op *const *left = a;
    const struct sim_op *const *right = b;

    if ((*left)->zxid != (*right)->zxid) {
        return (*left)->zxid < (*right)->zxid ? -1 : 1;
    }
    return (*left)->number < (*right)->number ? -1 : 1;
}

static void gather(struct history *history)
{
    struct sim *sim = history->sim;

    history->looks = mem_alloc((sim->op_count + 1) * sizeof(struct sim_op *));
    for (size_t i = 0; i < sim->op_count; i++) {
        struct sim_op *op = sim->ops[i];
        bool definite = op->outcome == SIM_OK || op->outcome == SIM_ERROR;

        if (sim_op_is_write(op) && op->sent) {
            (void)map_put_u64(&history->by_request, request_key(op->boot, op->request), op);
        }
        if (definite && (!sim_op_is_write(op) || op->outcome == SIM_ERROR || op->replayed)) {
            history->looks[history->look_count++] = op;
        }
    }
    qsort(history->looks, history->look_count, sizeof(struct sim_op *), by_zxid);
}

static void compare_stat(struct history *history, const struct sim_op *op,
                         const struct model_node *node)
{
    struct stat_view want = model_stat(node, history->sim->knobs.pad_bytes);
    const struct stat_view *got = &op->stat;

    if (got->czxid != want.czxid || got->mzxid != want.mzxid || got->pzxid != want.pzxid ||
        got->version != want.version || got->cversion != want.cversion ||
        got->num_children != want.num_children || got->data_length != want.data_length ||
        got->ephemeral_owner != want.ephemeral_owner || got->aversion != want.aversion ||
        got->ctime != want.ctime || got->mtime != want.mtime) {
        sim_fail(history->sim, "A19",
                 "operation %u on %s at %" PRIx64 ": stat is not the model's: version %d/%d "
                 "cversion %d/%d mzxid %" PRIx64 "/%" PRIx64 " pzxid %" PRIx64 "/%" PRIx64
                 " children %u/%u",
                 op->number, node->path, op->zxid, got->version, want.version, got->cversion,
                 want.cversion, got->mzxid, want.mzxid, got->pzxid, want.pzxid, got->num_children,
                 want.num_children);
    }
}

/* ---- Transactions. ---- */

static void check_session_answer(struct history *history, const struct sim_op *op,
                                 const struct model_answer *answer)
{
    bool attach = op->id == OP_ATTACH || op->id == OP_OPEN;

    if ((op->id != OP_SESSION && !attach) ||
        (op->info.id == answer->session && (!attach || op->info.attach == op->zxid) &&
         op->info.timeout_ms == op->session->timeout_ms)) {
        return;
    }
    sim_fail(history->sim, "A19",
             "operation %u gets session %" PRIx64 " attached %" PRIx64 " with %u ms, the "
             "model says %" PRIx64 " and %u ms",
             op->number, op->info.id, op->info.attach, op->info.timeout_ms, answer->session,
             op->session->timeout_ms);
}

static void check_answer(struct history *history, const struct sim_op *op, zxid_t zxid,
                         const struct model_answer *answer)
{
    struct sim *sim = history->sim;

    if (op->outcome == SIM_REFUSED || op->outcome == SIM_ERROR) {
        sim_fail(sim, "A19", "operation %u was refused with %s, but is in the log at %" PRIx64,
                 op->number, err_symbol(op->err), zxid);
    }
    if (op->outcome != SIM_OK) {
        return;
    }
    if (op->zxid != zxid) {
        sim_fail(sim, "A19",
                 "operation %u was answered with zxid %" PRIx64 ", but is in the log at %" PRIx64,
                 op->number, op->zxid, zxid);
    }
    if (op->replayed) {
        sim_fail(sim, "A19", "operation %u got an earlier answer, but is in the log at %" PRIx64,
                 op->number, zxid);
    }
    if (op->id == OP_CREATE && strcmp(op->path, answer->path) != 0) {
        sim_fail(sim, "A19", "operation %u created %s, but the model created %s", op->number,
                 op->path, answer->path);
    }
    check_session_answer(history, op, answer);
    if (op->has_stat && answer->has_node && op->sub_count == 1) {
        compare_stat(history, op, &answer->node);
    }
}

/* The ephemerals of a session end with it: all of them, in this transaction. */
static void take_close(struct history *history, const struct logrec *rec,
                       const struct txn_session_close *close)
{
    uint64_t attach;
    uint32_t left = model_owned(&history->model, close->session);

    if (!model_session(&history->model, close->session, &attach)) {
        sim_fail(history->sim, "A22", "%" PRIx64 " closes session %" PRIx64 ", which is not open",
                 rec->zxid, close->session);
    }
    if (left > 0) {
        sim_fail(history->sim, "A21",
                 "%" PRIx64 " closes session %" PRIx64 " and leaves %u of its ephemerals",
                 rec->zxid, close->session, left);
    }
    model_session_close(&history->model, close->session);
    history->sim->totals.closed++;
    history->sim->totals.expired += close->reason == TXN_CLOSED_EXPIRED;
}

static void take_forget(struct history *history, const struct logrec *rec,
                        const struct txn_forget *forget, int64_t age_ms)
{
    int64_t newest_ms = model_forget(&history->model, forget->horizon);

    if (newest_ms != INT64_MIN && newest_ms + history->sim->knobs.remember_ms > age_ms) {
        sim_fail(history->sim, "A19",
                 "%" PRIx64 " forgets a result that is only %" PRId64 " ms old", rec->zxid,
                 age_ms - newest_ms);
    }
}

/* Effects of no operation of a client: the end of a session, forgotten results. Returns true when
 * there was one. */
static bool take_effects(struct history *history, const struct logrec *rec,
                         struct wire_reader reader, int64_t age_ms)
{
    struct txn_effect effect;
    bool any = false;

    while (txn_next(&reader, &effect) == ERR_OK) {
        if (effect.type == TXN_SESSION_CLOSE) {
            take_close(history, rec, &effect.close);
            any = true;
        } else if (effect.type == TXN_FORGET) {
            take_forget(history, rec, &effect.forget, age_ms);
            any = true;
        }
    }
    return any;
}

/* The deletions of a transaction that ends a session, in the order of that transaction. */
static void take_deletions(struct history *history, const struct logrec *rec,
                           struct wire_reader reader, uint64_t session)
{
    struct txn_effect effect;
    char path[64];

    while (txn_next(&reader, &effect) == ERR_OK) {
        const struct model_node *node;

        if (effect.type != TXN_DELETE) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%.*s", (int)effect.path.len,
                       (const char *)effect.path.data);
        node = model_find(&history->model, path);
        if (!node || node->owner != session || !model_drop(&history->model, path, rec->zxid)) {
            sim_fail(history->sim, "A21",
                     "%" PRIx64 " ends session %" PRIx64 " and deletes %s, which is not its own",
                     rec->zxid, session, path);
        }
    }
}

/* The session that a transaction ends; 0: none. */
static uint64_t session_ended(struct wire_reader reader)
{
    struct txn_effect effect;

    while (txn_next(&reader, &effect) == ERR_OK) {
        if (effect.type == TXN_SESSION_CLOSE) {
            return effect.close.session;
        }
    }
    return 0;
}

/* TTL znodes that the leader removes: their TTL has ended, by the age of the ensemble. */
static bool take_reaped(struct history *history, const struct logrec *rec,
                        struct wire_reader reader, const struct txn_header *header)
{
    struct txn_effect effect;
    bool any = false;
    char path[64];

    while (txn_next(&reader, &effect) == ERR_OK) {
        if (effect.type != TXN_DELETE) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%.*s", (int)effect.path.len,
                       (const char *)effect.path.data);
        const struct model_node *node = model_find(&history->model, path);

        if (!node || node->ttl_ms == 0 || header->age_ms - node->age_ms < node->ttl_ms ||
            !model_drop(&history->model, path, rec->zxid)) {
            sim_fail(history->sim, "A19", "%" PRIx64 " removes %s, which is not due", rec->zxid,
                     path);
        }
        history->sim->totals.reaped++;
        any = true;
    }
    return any;
}

/* Transactions of the leader itself: it expires a session, forgets old results, removes a TTL
 * znode, or records the age of an idle ensemble. */
static void take_own(struct history *history, const struct logrec *rec, struct wire_reader reader,
                     const struct txn_header *header)
{
    uint64_t session = session_ended(reader);

    bool reaped = session == 0 && take_reaped(history, rec, reader, header);

    if (session != 0) {
        take_deletions(history, rec, reader, session);
    }
    bool any = take_effects(history, rec, reader, header->age_ms) || reaped;
    bool tells_age = wire_reader_done(&reader) && model_counts_age(&history->model);

    if ((!any && !tells_age) || header->origin_member != 0) {
        sim_fail(history->sim, "A6", "no client requested the transaction %" PRIx64, rec->zxid);
    }
}

static void run_op(struct history *history, struct sim_op *op, const struct logrec *rec,
                   const struct txn_header *header)
{
    struct sim *sim = history->sim;
    struct model_answer answer;

    if (op->logged != 0) {
        sim_fail(sim, "A19", "operation %u is in the log twice: %" PRIx64 " and %" PRIx64,
                 op->number, op->logged, rec->zxid);
    }
    op->logged = rec->zxid;
    sim_lane_done(sim, &history->lanes, op);
    sim->totals.moved += op->id == OP_ATTACH;
    for (uint32_t i = 0; i < op->sub_count; i++) {
        sim->totals.ephemerals += op->subs[i].id == OP_CREATE && op->subs[i].ephemeral;
    }
    model_run(&history->model, op, rec->zxid, header, &answer);
    if (answer.was) {
        sim_fail(sim, "A19",
                 "operation %u is in the log at %" PRIx64 ", but operation %u with the same key "
                 "was done at %" PRIx64,
                 op->number, rec->zxid, answer.was->number, answer.was->logged);
    }
    if (answer.err != ERR_OK) {
        sim_fail(sim, "A19",
                 "operation %u is in the log at %" PRIx64 ", but must fail there with %s",
                 op->number, rec->zxid, err_symbol(answer.err));
    }
    check_answer(history, op, rec->zxid, &answer);
    if (answer.has_node && op->sub_count == 1) {
        op->due = model_stat(&answer.node, sim->knobs.pad_bytes);
        (void)snprintf(op->due_path, sizeof(op->due_path), "%s", answer.path);
    }
}

static void take_txn(struct history *history, const struct logrec *rec)
{
    struct sim *sim = history->sim;
    struct wire_reader reader;
    struct txn_header header;

    if (txn_open(&reader, logrec_payload(rec), &header) != ERR_OK) {
        sim_fail(sim, "A6", "the transaction %" PRIx64 " is malformed", rec->zxid);
    }

    struct sim_op *op =
        map_get_u64(&history->by_request, request_key(header.origin_boot, header.request));

    if (!op) {
        take_own(history, rec, reader, &header);
        return;
    }
    run_op(history, op, rec, &header);
    if (op->id == OP_CLOSE) {
        take_deletions(history, rec, reader,
                       model_session_id(&history->model, op->session->number));
    }
    (void)take_effects(history, rec, reader, header.age_ms);
}

/* ---- Reads and refusals. ---- */

static void check_error(struct history *history, const struct sim_op *op)
{
    struct model scratch = {.scratch = true, .book = history->model.book};
    const struct txn_header header = {0};
    struct model_answer answer;

    model_copy(&scratch, &history->model);
    model_run(&scratch, op, op->zxid, &header, &answer);
    if (answer.err != op->err || (op->sub_count > 1 && answer.failed_index != op->failed_index)) {
        sim_fail(history->sim, "A19",
                 "operation %u on %s got %s (element %u) at %" PRIx64
                 ", but the model says %s (%u)",
                 op->number, op->subs[0].path, err_symbol(op->err), op->failed_index, op->zxid,
                 err_symbol(answer.err), answer.failed_index);
    }
    if (op->err == ERR_BAD_VERSION && op->has_stat && op->sub_count == 1 && !answer.hidden) {
        compare_stat(history, op, &answer.node);
    } else if (op->err == ERR_BAD_VERSION && op->has_stat && answer.hidden) {
        sim_fail(history->sim, "A19", "operation %u learns of a znode that no client may read",
                 op->number);
    }
    model_release(&scratch);
}

/* The operation with that key whose answer names that zxid: forgotten keys may be used again. */
static const struct sim_op *first_with_key(const struct sim *sim, const struct sim_op *op)
{
    for (size_t i = 0; i < sim->op_count; i++) {
        const struct sim_op *other = sim->ops[i];

        if (other->key == op->key && other->session == op->session && other->logged == op->zxid &&
            op->zxid != 0) {
            return other;
        }
    }
    return NULL;
}

/* A retry gets the first answer, whatever has happened to the znode since. */
static void check_replayed(struct history *history, const struct sim_op *op)
{
    struct sim *sim = history->sim;
    const struct sim_op *first = first_with_key(sim, op);

    if (op->key == 0 || !first || !model_is_same(first, op)) {
        sim_fail(sim, "A19", "operation %u got an earlier answer at %" PRIx64 ", but there is none",
                 op->number, op->zxid);
    }
    if (op->has_stat && op->sub_count == 1 &&
        (strcmp(first->due_path, op->path) != 0 || first->due.czxid != op->stat.czxid ||
         first->due.mzxid != op->stat.mzxid || first->due.pzxid != op->stat.pzxid ||
         first->due.version != op->stat.version || first->due.aversion != op->stat.aversion)) {
        sim_fail(sim, "A19", "operation %u got %s, but the first answer (operation %u) was %s",
                 op->number, op->path, first->number, first->due_path);
    }
    sim->totals.replayed++;
}

/* The lookup of a session must agree with the model. */
static void check_touch(struct history *history, const struct sim_op *op)
{
    uint64_t id = model_session_id(&history->model, op->session->number);

    if ((id != 0) != (op->outcome == SIM_OK) || (id != 0 && op->info.id != id)) {
        sim_fail(history->sim, "A21",
                 "operation %u looks session %u up at %" PRIx64 ": %s %" PRIx64
                 ", but the model says %" PRIx64,
                 op->number, op->session->number, op->zxid, err_symbol(op->err), op->info.id, id);
    }
}

static void check_data(struct history *history, const struct sim_op *op,
                       const struct model_node *node)
{
    char want[48];

    if (op->id == OP_CHILDREN) {
        (void)snprintf(want, sizeof(want), "%" PRIx64,
                       model_names_hash(&history->model, op->subs[0].path));
    } else {
        (void)snprintf(want, sizeof(want), "%s", node->data);
    }
    if (op->id != OP_EXISTS && strcmp(want, op->data) != 0) {
        sim_fail(history->sim, "A19",
                 "operation %u read \"%s\" from %s at %" PRIx64 ", but the model says \"%s\"",
                 op->number, op->data, op->subs[0].path, op->zxid, want);
    }
}

static void check_read(struct history *history, const struct sim_op *op)
{
    const struct model_node *node = model_find(&history->model, op->subs[0].path);

    if (op->id == OP_SYNC) {
        return;
    }
    if (op->id == OP_TOUCH) {
        check_touch(history, op);
        return;
    }
    if (node && !(node->perms & ACL_READ)) {
        if (op->err != ERR_NO_AUTH) {
            sim_fail(history->sim, "A19",
                     "operation %u read %s at %" PRIx64 ", which no client may", op->number,
                     op->subs[0].path, op->zxid);
        }
        return;
    }
    if ((node == NULL) != (op->outcome == SIM_ERROR)) {
        sim_fail(history->sim, "A19",
                 "operation %u read %s at %" PRIx64 ": %s, but in the model it %s", op->number,
                 op->subs[0].path, op->zxid, err_symbol(op->err), node ? "exists" : "does not");
    }
    if (node) {
        compare_stat(history, op, node);
        check_data(history, op, node);
    }
}

static void check_looks(struct history *history, zxid_t before)
{
    while (history->look_next < history->look_count &&
           history->looks[history->look_next]->zxid < before) {
        struct sim_op *op = history->looks[history->look_next++];

        if (op->replayed) {
            check_replayed(history, op);
        } else if (sim_op_is_write(op)) {
            check_error(history, op);
        } else {
            check_read(history, op);
        }
    }
}

/* ---- Real time. ---- */

/* An operation must reflect every zxid that any client had received before it began. */
static void check_time(struct sim *sim, const struct sim_op *op)
{
    bool definite = op->outcome == SIM_OK || op->outcome == SIM_ERROR;
    bool binding = sim_op_is_write(op) || op->id == OP_SYNC || op->linearizable;

    if (!definite || !binding) {
        return;
    }
    bool made = sim_op_is_write(op) && op->outcome == SIM_OK;

    if (op->replayed) {
        return; /* A repeated first answer, with its zxid. */
    }
    if (op->zxid < op->floor || (made && op->zxid == op->floor)) {
        sim_fail(sim, "A28",
                 "operation %u (%d on %s at node %u) is answered from %" PRIx64
                 ", but a client had received %" PRIx64 " before it began",
                 op->number, (int)op->id, op->subs[0].path, op->node, op->zxid, op->floor);
    }
}

static void check_ops(struct sim *sim)
{
    for (size_t i = 0; i < sim->op_count; i++) {
        const struct sim_op *op = sim->ops[i];

        check_time(sim, op);
        if (sim_op_is_write(op) && op->outcome == SIM_OK && op->logged == 0 && !op->replayed) {
            sim_fail(sim, "A13", "operation %u was acknowledged at %" PRIx64 " and is lost",
                     op->number, op->zxid);
        }
    }
}

/* ---- The trees at the end. ---- */

static uint64_t stored_owner(const struct model_node *node)
{
    return node->ttl_ms != 0 ? OWNER_TTL_MARK | (uint64_t)node->ttl_ms : node->owner;
}

static void check_tree(struct history *history, const struct sim_node *node)
{
    const struct state *state = view_read(node->view);

    if (!state) {
        sim_fail(history->sim, "A17", "node %u has no state at the end", node->id);
    }
    if (state_history(state) != zab_config(replica_zab(node->replica))->history) {
        sim_fail(history->sim, "A17",
                 "the state of node %u belongs to a different history than its cluster", node->id);
    }
    for (size_t i = 0; i < history->model.count; i++) {
        const struct model_node *want = &history->model.nodes[i];
        const struct znode *znode = state_find(state, slice_str(want->path));
        struct slice data = blob_slice(znode ? znode_data(znode) : NULL);

        if (!znode || !slice_starts_with(data, slice_str(want->data)) ||
            data.len != strlen(want->data) + (want->plain ? 0 : history->sim->knobs.pad_bytes) ||
            znode_owner(znode) != stored_owner(want)) {
            sim_fail(history->sim, "A17", "node %u differs from the model at %s", node->id,
                     want->path);
        }
    }
    if (state_node_count(state) != history->model.count + 4) { /* The built-in znodes. */
        sim_fail(history->sim, "A17", "node %u has %" PRIu64 " znodes, the model %zu", node->id,
                 state_node_count(state), history->model.count + 4);
    }
    if (state_session_count(state) != model_session_count(&history->model)) {
        sim_fail(history->sim, "A21", "node %u has %" PRIu64 " sessions, the model %zu", node->id,
                 state_session_count(state), model_session_count(&history->model));
    }
    view_read_done(node->view);
}

static void check_streams(struct history *history)
{
    size_t count;
    const struct sim_trigger *triggers = model_triggers(&history->model, &count);

    sim_streams_check(history->sim, triggers, count);
}

void sim_history_check(struct sim *sim)
{
    struct history history = {.sim = sim};
    zxid_t last = 0;

    model_init(&history.model);
    map_init(&history.by_request);
    gather(&history);
    history.diffs = sim_diffs_new(sim);
    for (size_t i = 0; i < sim->log_count; i++) {
        const struct logrec *rec = sim->log[i]->rec;

        if (rec->prev != last) {
            sim_fail(sim, "A8", "in the committed sequence %" PRIx64 " follows %" PRIx64, rec->zxid,
                     last);
        }
        last = rec->zxid;
        check_looks(&history, rec->zxid);
        sim_diffs_check(history.diffs, &history.model, rec->zxid);
        if (rec->type == LOGREC_TXN) {
            take_txn(&history, rec);
        } else if (rec->type == LOGREC_CONFIG) {
            sim_ask_take(sim, &history.model, rec);
        }
    }
    check_looks(&history, UINT64_MAX);
    sim_diffs_check(history.diffs, &history.model, UINT64_MAX);
    check_ops(sim);
    check_streams(&history);
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (sim->nodes[id].up && sim_member_is(sim, &sim->nodes[id])) {
            check_tree(&history, &sim->nodes[id]);
        }
    }
    sim_diffs_free(history.diffs);
    mem_free(history.looks);
    map_release(&history.by_request);
    model_release(&history.model);
}
