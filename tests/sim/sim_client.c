#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/op/ops.h"
#include "server/read/view.h"
#include "tests/sim/sim_session.h"
#include "tests/sim/sim_watch.h"

#include <inttypes.h>

/*
 * Clients, and the front end between them and a replica. A client talks to any replica and stops
 * waiting after a while. The answer may get lost on the way; then the client does not know the
 * outcome of its write, and the checker does not know it until it finds the write in the log.
 */

enum {
    PATIENCE_MORE_US =
        500 * SIM_MS, /* A client waits this much longer than its request's timeout. */
    HOP_MAX_US = 2 * SIM_MS,
};

static void submit(struct sim *sim, struct sim_event *event);
static void read_now(struct sim *sim, struct sim_event *event);

/* ---- The end of an operation. ---- */

static void free_request(struct sim *sim, struct sim_event *event)
{
    struct sim_op *op = sim->ops[event->a];

    op_request_free(op->req);
    op->req = NULL;
}

/* The answer refers to the state at a zxid. */
static bool has_zxid(enum sim_outcome outcome)
{
    return outcome == SIM_OK || outcome == SIM_ERROR;
}

static void finish(struct sim *sim, struct sim_op *op, enum sim_outcome outcome, enum err err)
{
    struct sim_client *client = &sim->clients[op->client];

    ASSERT(op->outcome == SIM_PENDING && outcome != SIM_PENDING);
    op->outcome = outcome;
    op->err = err;
    op->end_us = sim->now_us;
    client->inside--;
    sim->pending--;
    sim->totals.acked += outcome == SIM_OK;
    sim->totals.errors += outcome == SIM_ERROR;
    sim->totals.refused += outcome == SIM_REFUSED;
    sim->totals.tree_full += err == ERR_TREE_FULL;
    sim->totals.unknown += outcome == SIM_UNKNOWN;
    SIM_TRACE(sim, "op %u ends: %d %s zxid %" PRIx64, op->number, (int)outcome, err_symbol(err),
              op->zxid);
    sim_session_answered(sim, op);
    if (op->key != 0 && outcome == SIM_UNKNOWN) {
        client->keyed = op->key;
    }
    if (!has_zxid(outcome)) {
        return;
    }
    if (client->seen < op->zxid) {
        client->seen = op->zxid;
    }
    if (sim->seen < op->zxid) {
        sim->seen = op->zxid;
    }
}

/* Meaning of an error for the client (api.md, errors). */
static enum sim_outcome outcome_of(enum err err)
{
    switch ((int)err) {
    case ERR_OK:
        return SIM_OK;
    case ERR_NO_NODE:
    case ERR_BAD_VERSION:
    case ERR_NODE_EXISTS:
    case ERR_NOT_EMPTY:
    case ERR_NO_AUTH:
    case ERR_NO_CHILDREN_FOR_EPHEMERALS:
    case ERR_QUOTA_EXCEEDED:
    case ERR_UNKNOWN_SESSION:
    case ERR_SESSION_EXPIRED:
    case ERR_SESSION_MOVED:
    case ERR_KEY_REUSED:
        return SIM_ERROR;
    case ERR_OUTCOME_UNKNOWN:
        return SIM_UNKNOWN;
    case ERR_NOT_READY:
    case ERR_REPLICA_BEHIND:
    case ERR_THROTTLED:
    case ERR_DISK_FULL:
    case ERR_TREE_FULL:
    case ERR_IN_FLIGHT:
    case ERR_CLOSED:
        return SIM_REFUSED;
    default:
        return SIM_PENDING; /* No operation of these clients ends like this. */
    }
}

static bool is_read(const struct sim_op *op)
{
    return ops_by_id(op->id)->kind == OP_KIND_READ;
}

bool sim_op_is_write(const struct sim_op *op)
{
    return ops_by_id(op->id)->kind == OP_KIND_WRITE;
}

/* Hash of the children's names, in order. */
static uint64_t names_hash(const struct op_result *result)
{
    uint64_t hash = 0;

    for (uint32_t i = 0; i < result->entry_count; i++) {
        hash = hash64(hash, result->entries[i].path);
    }
    return hash;
}

static void copy_slice(char *out, size_t size, struct slice text)
{
    size_t len = text.len < size - 1 ? text.len : size - 1;

    if (len > 0) {
        memcpy(out, text.data, len);
    }
    out[len] = 0;
}

static void take_result(struct sim_op *op, const struct op_result *result)
{
    op->zxid = result->zxid;
    op->has_stat = result->has_stat;
    op->stat = result->stat;
    op->failed_index = result->failed_index;
    op->replayed = result->replayed;
    op->info = result->session;
    copy_slice(op->path, sizeof(op->path), result->path);
    if (op->id == OP_GET && result->data) {
        op->has_data = true;
        copy_slice(op->data, sizeof(op->data), blob_slice(result->data));
        op->data[strcspn(op->data, "x")] = 0; /* Removes the padding; no data contain an x. */
    } else if (op->id == OP_CHILDREN && result->err == ERR_OK) {
        op->has_data = true;
        (void)snprintf(op->data, sizeof(op->data), "%" PRIx64, names_hash(result));
    }
}

static void conclude(struct sim *sim, struct sim_op *op, const struct op_result *result)
{
    enum sim_outcome outcome = outcome_of(result->err);

    if (outcome == SIM_PENDING) {
        sim_fail(sim, "A19", "operation %u (%d on %s) ends with %s", op->number, (int)op->id,
                 op->subs[0].path, err_symbol(result->err));
    }
    take_result(op, result);
    if (has_zxid(outcome) && op->zxid < op->min_zxid) {
        sim_fail(sim, "A28", "operation %u is answered from %" PRIx64 ", but requires %" PRIx64,
                 op->number, op->zxid, op->min_zxid);
    }
    finish(sim, op, outcome, result->err);
}

/* ---- The front end. ---- */

static bool still_there(const struct sim *sim, const struct sim_op *op)
{
    const struct sim_node *node = &sim->nodes[op->node];

    return node->up && node->life == op->life;
}

/* The answer arrives at the client a little later, or never. */
static void deliver(struct sim *sim, struct sim_event *event)
{
    struct sim_op *op = sim->ops[event->a];

    if (op->outcome == SIM_PENDING && !op->lost) {
        if (has_zxid(outcome_of(op->req->result.err))) {
            if (sim_front_holds(&sim->nodes[op->node], op->req->result.zxid)) {
                free_request(sim, event);
                return;
            }
            sim_front_answers(sim, &sim->nodes[op->node], op->req->result.zxid);
        }
        conclude(sim, op, &op->req->result);
    }
    free_request(sim, event);
}

/* A write that is handed over in this very call has no number yet, and is after all others. */
static bool is_ahead(const struct sim_op *write, const struct sim_op *read)
{
    return write->request != 0 && write->outcome == SIM_PENDING && write->sent &&
           write->replied == 0 && write->client == read->client && write->node == read->node &&
           write->life == read->life && write->request < read->request && sim_op_is_write(write);
}

/* A quorum round does not cover uncommitted records, so its answer waits for earlier writes of the
 * same socket. */
static void check_lane(struct sim *sim, const struct sim_op *read)
{
    for (size_t i = sim->op_first; i < sim->op_count; i++) {
        if (is_ahead(sim->ops[i], read)) {
            sim_fail(sim, "A28",
                     "operation %u is answered before %u, an earlier write of its socket",
                     read->number, sim->ops[i]->number);
        }
    }
}

static void on_reply(struct op_request *request)
{
    struct sim_op *op = request->ctx;
    struct sim *sim = op->sim;

    op->request = request->id;
    op->replied++;
    if (request->fifo != 0 && request->result.err == ERR_OK && !sim_op_is_write(op) &&
        request->consistency == OP_LINEARIZABLE) {
        check_lane(sim, op);
    }
    if (op->replied > 1) {
        sim_fail(sim, "A19", "operation %u is answered twice", op->number);
    }
    if (!still_there(sim, op)) {
        op->lost = true;
    }
    if (is_read(op) && request->result.err == ERR_OK && op->need < request->result.zxid) {
        op->need = request->result.zxid;
    }
    if (is_read(op) && request->result.err == ERR_OK && !op->lost) {
        struct sim_event *event = sim_after(sim, rng_below(&sim->rng, HOP_MAX_US), read_now, "read",
                                            &sim->nodes[op->node]);

        event->a = op->number;
    }
    struct sim_event *event = sim_after(
        sim, rng_below(&sim->rng, HOP_MAX_US),
        is_read(op) && request->result.err == ERR_OK ? free_request : deliver, "reply", NULL);

    event->a = op->number;
}

static const struct op_principal anonymous = {.address = "127.0.0.1"};

/* Clients come from a few addresses, all of the same length. */
enum {
    ADDRESS_DIGIT = 8,
    ADDRESSES = 3
};

static void ask_core(struct sim *sim, struct sim_node *node, struct sim_op *op);

/* A watch that a read registers begins at exactly the state that was read. */
static void read_view(struct sim *sim, struct sim_op *op)
{
    struct sim_node *node = &sim->nodes[op->node];
    struct op_result result;

    op_result_init(&result);
    view_run(node->view, &anonymous, &op->args[0], &result);
    if (result.zxid < op->need) { /* A snapshot has replaced the state in the meantime. */
        result.err = ERR_REPLICA_BEHIND;
    }
    sim_front_read(sim, node, op, &result);
    if (op->id == OP_TOUCH && result.err == ERR_UNKNOWN_SESSION && op->need == 0) {
        op->need = 1;
        ask_core(sim, node, op); /* The leader may know the session. */
    } else {
        sim_session_heard(sim, node, op);
        conclude(sim, op, &result);
    }
    op_result_release(&result);
}

static void read_now(struct sim *sim, struct sim_event *event)
{
    struct sim_op *op = sim->ops[event->a];

    if (op->outcome == SIM_PENDING && !op->lost) {
        read_view(sim, op);
    }
}

bool sim_client_may_read(struct sim *sim, struct sim_node *node)
{
    const struct zab_status *zab = &node->status.zab;
    uint64_t bound_ms = (uint64_t)sim->knobs.limits.tick_ms * sim->knobs.limits.sync_limit * 2;

    return zab->serving && sim_node_ms(sim, node) <= zab->heard_ms + bound_ms;
}

static struct op_request *make_request(struct sim *sim, struct sim_op *op)
{
    struct op_request *request = op_request_new();
    uint64_t patience_us = op->begin_us + op->patience_us;
    uint64_t left_us = patience_us > sim->now_us ? patience_us - sim->now_us : 0;

    request->def = ops_by_id(op->id);
    if (op->id == OP_MULTI) {
        op_args_init(&request->args, OP_MULTI);
        request->args.ops = op->args;
        request->args.op_count = op->sub_count;
    } else {
        request->args = op->args[0];
    }
    request->consistency = op->linearizable || op->id == OP_TOUCH ? OP_LINEARIZABLE : OP_LOCAL;
    request->min_zxid = op->min_zxid;
    request->fifo = sim->knobs.lanes ? op->client + 1 : 0;
    request->principal = anonymous;
    request->principal.address[ADDRESS_DIGIT] = (char)('1' + op->client % ADDRESSES);
    sim_session_show(op, &request->session);
    request->key = slice_str(op->key_text);
    request->deadline_ms = sim_node_ms(sim, &sim->nodes[op->node]) + left_us / SIM_MS;
    request->on_reply = on_reply;
    request->ctx = op;
    return request;
}

/* The core handles each operation that needs more than the present state of this replica. */
static void ask_core(struct sim *sim, struct sim_node *node, struct sim_op *op)
{
    op->req = make_request(sim, op);
    op->sent = true;
    op->boot = node->boot;
    sim->current = node;
    replica_request(node->replica, op->req, sim_node_ms(sim, node), sim_node_wall_ms(sim, node),
                    &node->effects);
    sim->current = NULL;
    if (op->replied == 0) {
        op->request = op->req->id;
    }
    replica_status(node->replica, &node->status);
    sim_node_effects(sim, node);
}

static void submit(struct sim *sim, struct sim_event *event)
{
    struct sim_op *op = sim->ops[event->a];
    struct sim_node *node = &sim->nodes[op->node];

    op->came = true;
    if (op->outcome != SIM_PENDING) {
        return; /* The client no longer waits. */
    }
    sim_session_heard(sim, node, op);
    if (!is_read(op) || op->linearizable || op->min_zxid != 0) {
        ask_core(sim, node, op);
    } else if (sim_client_may_read(sim, node)) {
        read_view(sim, op);
    } else {
        finish(sim, op, SIM_REFUSED, ERR_NOT_READY);
    }
}

/* ---- Making operations. ---- */

/* The tag, and the number of x that this seed pads data with. */
static struct slice padded(struct sim_op *op, uint32_t index)
{
    const char *tag = op->subs[index].data;
    size_t pad = op->subs[index].plain ? 0 : op->sim->knobs.pad_bytes;
    size_t len = strlen(tag);

    op->pads[index] = mem_alloc(len + pad + 1);
    memcpy(op->pads[index], tag, len);
    memset(op->pads[index] + len, 'x', pad);
    return slice_make(op->pads[index], len + pad);
}

/* Permissions for every client, authenticated or not. */
static void put_acl(struct sim_op *op, uint32_t index)
{
    struct acl_entry entry = {
        .perms = op->subs[index].perms, .scheme = slice_str("world"), .id = slice_str("anyone")};

    buf_init(&op->acls[index], ACL_BYTES_MAX);
    acl_put(&op->acls[index], &entry);
    op->args[index].has_acl = true;
    op->args[index].acl = buf_slice(&op->acls[index]);
}

uint32_t sim_sub_perms(const struct sim_sub *sub)
{
    bool named = sub->id == OP_SETACL || (sub->id == OP_CREATE && sub->perms != SIM_PERMS_OPEN);

    return named ? sub->perms : 0;
}

static void fill_args(struct sim_op *op, uint32_t index)
{
    const struct sim_sub *sub = &op->subs[index];
    struct op_args *args = &op->args[index];

    op_args_init(args, sub->id);
    args->path = slice_str(sub->path);
    args->sequence = sub->sequence;
    args->has_version = sub->has_version;
    args->version = sub->has_version ? sub->version : -1;
    args->ephemeral = sub->ephemeral;
    args->ttl_ms = sub->ttl_ms;
    if (sub->id == OP_CREATE || sub->id == OP_SET) {
        args->data = padded(op, index);
    }
    if (sim_sub_perms(sub) != 0) {
        put_acl(op, index);
    }
    if (sub->id == OP_SETACL) {
        args->has_aversion = sub->has_version;
        args->aversion = args->version;
        args->has_version = false;
        args->version = -1;
    }
    if (op->session) {
        sim_session_args(op->session, args);
    }
}

static void give_up(struct sim *sim, struct sim_event *event)
{
    struct sim_op *op = sim->ops[event->a];

    if (op->outcome == SIM_PENDING) {
        op->lost = true;
        finish(sim, op, op->sent ? SIM_UNKNOWN : SIM_REFUSED, ERR_OUTCOME_UNKNOWN);
    }
}

struct sim_op *sim_op_new(struct sim *sim, uint32_t client, uint32_t node)
{
    struct sim_op *op = mem_zalloc(1, sizeof(*op));

    if (sim->op_count == sim->op_cap) {
        sim->op_cap = sim->op_cap ? sim->op_cap * 2 : 1024;
        sim->ops = mem_realloc(sim->ops, sim->op_cap * sizeof(struct sim_op *));
    }
    op->sim = sim;
    op->number = (uint32_t)sim->op_count;
    op->client = client;
    op->node = node;
    op->life = sim->nodes[node].life;
    op->begin_us = sim->now_us;
    op->patience_us = rng_range(&sim->rng, 1, 10) * SIM_SECOND;
    op->floor = sim->seen;
    op->lost = rng_chance(&sim->rng, sim->knobs.lost_ppm);
    sim->ops[sim->op_count++] = op;
    return op;
}

void sim_op_launch(struct sim *sim, struct sim_op *op)
{
    struct sim_node *node = &sim->nodes[op->node];
    const struct sim_sub *sub = &op->subs[0];
    uint64_t hop_us;

    if (op->key != 0) {
        (void)snprintf(op->key_text, sizeof(op->key_text), "key-%u", op->key);
    }
    for (uint32_t i = 0; i < op->sub_count; i++) {
        fill_args(op, i);
    }
    SIM_TRACE(sim, "op %u begins: client %u at %u: %s %s%s v%d%s min %" PRIx64, op->number,
              op->client, op->node, ops_by_id(op->id)->name, sub->path, sub->sequence ? "#" : "",
              sub->has_version ? sub->version : -1, op->linearizable ? " linearizable" : "",
              op->min_zxid);
    sim->clients[op->client].inside++;
    sim->pending++;
    sim->totals.ops++;
    sim->totals.reads += is_read(op);
    if (!node->up) {
        finish(sim, op, SIM_REFUSED, ERR_CLOSED);
        return;
    }
    hop_us = rng_below(&sim->rng, HOP_MAX_US);
    op->arrival_us = sim->now_us + hop_us;
    sim_after(sim, hop_us, submit, "submit", node)->a = op->number;
    sim_session_sent(sim, op);
    sim_after(sim, op->patience_us + PATIENCE_MORE_US, give_up, "give up", NULL)->a = op->number;
}

struct sim_op *sim_client_send(struct sim *sim, uint32_t node, const struct sim_sub *sub,
                               bool linearizable)
{
    struct sim_op *op = sim_op_new(sim, 0, node);

    op->id = sub->id;
    op->lost = false;
    op->subs[0] = *sub;
    op->sub_count = 1;
    op->linearizable = linearizable;
    sim_op_launch(sim, op);
    return op;
}

/* The process died: each client with a pending request notices that the connection is closed. */
void sim_client_lost(struct sim *sim, struct sim_node *node)
{
    for (size_t i = sim->op_first; i < sim->op_count && sim->pending > 0; i++) {
        struct sim_op *op = sim->ops[i];

        if (op->outcome == SIM_PENDING && op->node == node->id && op->life == node->life) {
            op->lost = true;
            finish(sim, op, op->sent ? SIM_UNKNOWN : SIM_REFUSED, ERR_CLOSED);
        }
    }
    while (sim->op_first < sim->op_count && sim->ops[sim->op_first]->outcome != SIM_PENDING) {
        sim->op_first++;
    }
}

void sim_client_init(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->knobs.clients; i++) {
        struct sim_client *client = &sim->clients[i];

        client->id = i;
        client->node = (uint32_t)rng_range(&sim->rng, 1, sim->knobs.nodes);
        client->tokens = rng_chance(&sim->rng, 500000);
    }
}

void sim_client_release(struct sim *sim)
{
    for (size_t i = 0; i < sim->op_count; i++) {
        op_request_free(sim->ops[i]->req);
        for (uint32_t k = 0; k < SIM_SUBS_MAX; k++) {
            mem_free(sim->ops[i]->pads[k]);
            buf_release(&sim->ops[i]->acls[k]);
        }
        mem_free(sim->ops[i]);
    }
    mem_free(sim->ops);
}
