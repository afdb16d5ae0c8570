#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "server/state/state.h"
#include "server/view.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_model.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * The history of the clients against the naive model. Each answer names the zxid it reflects, so
 * the order is known and one walk along the committed sequence is enough: each transaction is
 * performed by the model as its client asked for it, each read and each refusal is looked up in
 * the model at its zxid.
 */

struct history {
    struct sim *sim;
    struct model model;
    struct map by_request; /* Who asked, by (boot, request). */
    struct sim_op **looks; /* Reads and verdicts, ascending by zxid. */
    size_t look_count;
    size_t look_next;
};

static uint64_t request_key(uint64_t boot, uint64_t request)
{
    return hash64_mix(boot, request);
}

static bool is_write(const struct sim_op *op)
{
    return op->id == OP_CREATE || op->id == OP_SET || op->id == OP_DELETE || op->id == OP_MULTI;
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
        bool told = op->outcome == SIM_OK || op->outcome == SIM_ERROR;

        if (is_write(op) && op->sent) {
            (void)map_put_u64(&history->by_request, request_key(op->boot, op->request), op);
        }
        if (told && (!is_write(op) || op->outcome == SIM_ERROR)) {
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
        sim_fail(sim, "A19", "operation %u says zxid %" PRIx64 ", but is in the log at %" PRIx64,
                 op->number, op->zxid, zxid);
    }
    if (op->id == OP_CREATE && strcmp(op->path, answer->path) != 0) {
        sim_fail(sim, "A19", "operation %u created %s, the model %s", op->number, op->path,
                 answer->path);
    }
    if (op->has_stat && answer->has_node && op->sub_count == 1) {
        compare_stat(history, op, &answer->node);
    }
}

static void take_txn(struct history *history, const struct logrec *rec)
{
    struct sim *sim = history->sim;
    struct wire_reader reader;
    struct txn_header header;
    struct model_answer answer;

    if (txn_open(&reader, logrec_payload(rec), &header) != ERR_OK) {
        sim_fail(sim, "A6", "the transaction %" PRIx64 " is malformed", rec->zxid);
    }

    struct sim_op *op =
        map_get_u64(&history->by_request, request_key(header.origin_boot, header.request));

    if (!op) {
        sim_fail(sim, "A6", "nobody asked for the transaction %" PRIx64, rec->zxid);
    }
    if (op->logged != 0) {
        sim_fail(sim, "A19", "operation %u is in the log twice: %" PRIx64 " and %" PRIx64,
                 op->number, op->logged, rec->zxid);
    }
    op->logged = rec->zxid;
    model_run(&history->model, op, rec->zxid, header.time_ms, &answer);
    if (answer.err != ERR_OK) {
        sim_fail(sim, "A19",
                 "operation %u is in the log at %" PRIx64 ", but must fail there with %s",
                 op->number, rec->zxid, err_symbol(answer.err));
    }
    check_answer(history, op, rec->zxid, &answer);
}

/* ---- Reads and verdicts. ---- */

static void check_verdict(struct history *history, const struct sim_op *op)
{
    struct model scratch;
    struct model_answer answer;

    model_init(&scratch);
    model_copy(&scratch, &history->model);
    model_run(&scratch, op, op->zxid, 0, &answer);
    if (answer.err != op->err || (op->sub_count > 1 && answer.failed_index != op->failed_index)) {
        sim_fail(history->sim, "A19",
                 "operation %u on %s got %s (element %u) at %" PRIx64 ", the model says %s (%u)",
                 op->number, op->subs[0].path, err_symbol(op->err), op->failed_index, op->zxid,
                 err_symbol(answer.err), answer.failed_index);
    }
    if (op->err == ERR_BAD_VERSION && op->has_stat && op->sub_count == 1) {
        compare_stat(history, op, &answer.node);
    }
    model_release(&scratch);
}

static void check_data(struct history *history, const struct sim_op *op,
                       const struct model_node *node)
{
    char want[24];

    if (op->id == OP_CHILDREN) {
        (void)snprintf(want, sizeof(want), "%" PRIx64,
                       model_names_hash(&history->model, op->subs[0].path));
    } else {
        (void)snprintf(want, sizeof(want), "%s", node->data);
    }
    if (op->id != OP_EXISTS && strcmp(want, op->data) != 0) {
        sim_fail(history->sim, "A19",
                 "operation %u read \"%s\" from %s at %" PRIx64 ", the model says \"%s\"",
                 op->number, op->data, op->subs[0].path, op->zxid, want);
    }
}

static void check_read(struct history *history, const struct sim_op *op)
{
    const struct model_node *node = model_find(&history->model, op->subs[0].path);

    if (op->id == OP_SYNC) {
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

        if (is_write(op)) {
            check_verdict(history, op);
        } else {
            check_read(history, op);
        }
    }
}

/* ---- Real time. ---- */

/* What was told to anybody before an operation began, that operation must know. */
static void check_time(struct sim *sim, const struct sim_op *op)
{
    bool told = op->outcome == SIM_OK || op->outcome == SIM_ERROR;
    bool binding = is_write(op) || op->id == OP_SYNC || op->linearizable;

    if (!told || !binding) {
        return;
    }
    if (op->zxid < op->floor || (is_write(op) && op->outcome == SIM_OK && op->zxid == op->floor)) {
        sim_fail(sim, "A28",
                 "operation %u (%d on %s at node %u) answered from %" PRIx64 ", but %" PRIx64
                 " had been told before it began",
                 op->number, (int)op->id, op->subs[0].path, op->node, op->zxid, op->floor);
    }
}

static void check_ops(struct sim *sim)
{
    for (size_t i = 0; i < sim->op_count; i++) {
        const struct sim_op *op = sim->ops[i];

        check_time(sim, op);
        if (is_write(op) && op->outcome == SIM_OK && op->logged == 0) {
            sim_fail(sim, "A13", "operation %u was acknowledged at %" PRIx64 " and is lost",
                     op->number, op->zxid);
        }
    }
}

/* ---- The trees at the end. ---- */

static void check_tree(struct history *history, const struct sim_node *node)
{
    const struct state *state = view_read(node->view);

    if (!state) {
        sim_fail(history->sim, "A17", "node %u has no state at the end", node->id);
    }
    if (state_history(state) != zab_config(replica_zab(node->replica))->history) {
        sim_fail(history->sim, "A17", "the state of node %u is of another history than its cluster",
                 node->id);
    }
    for (size_t i = 0; i < history->model.count; i++) {
        const struct model_node *want = &history->model.nodes[i];
        const struct znode *znode = state_find(state, slice_str(want->path));
        struct slice data = blob_slice(znode ? znode_data(znode) : NULL);

        if (!znode || !slice_starts_with(data, slice_str(want->data)) ||
            data.len != strlen(want->data) + history->sim->knobs.pad_bytes) {
            sim_fail(history->sim, "A17", "node %u differs from the model at %s", node->id,
                     want->path);
        }
    }
    if (state_node_count(state) != history->model.count + 4) { /* The built-in znodes. */
        sim_fail(history->sim, "A17", "node %u has %" PRIu64 " znodes, the model %zu", node->id,
                 state_node_count(state), history->model.count + 4);
    }
    view_read_done(node->view);
}

void sim_history_check(struct sim *sim)
{
    struct history history = {.sim = sim};
    zxid_t last = 0;

    model_init(&history.model);
    map_init(&history.by_request);
    gather(&history);
    for (size_t i = 0; i < sim->log_count; i++) {
        const struct logrec *rec = sim->log[i]->rec;

        if (rec->prev != last) {
            sim_fail(sim, "A8", "in the committed sequence %" PRIx64 " comes after %" PRIx64,
                     rec->zxid, last);
        }
        last = rec->zxid;
        check_looks(&history, rec->zxid);
        if (rec->type == LOGREC_TXN) {
            take_txn(&history, rec);
        }
    }
    check_looks(&history, UINT64_MAX);
    check_ops(sim);
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (sim->nodes[id].up) {
            check_tree(&history, &sim->nodes[id]);
        }
    }
    mem_free(history.looks);
    map_release(&history.by_request);
    model_release(&history.model);
}
