#include "server/op/acl.h"
#include "server/state/state.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_session.h"
#include "tests/sim/sim_watch.h"

/*
 * The operations of clients: a few directories with a few leaves, so that clients conflict. Some
 * seeds add sessions, ephemerals, ACLs, quotas, watches, and retries with an idempotency key when
 * the outcome of a write is unknown.
 */

enum {
    DIRS = 6,
    LEAVES = 5,
    BURST_MAX = 24,
    INSIDE_MAX = 30,
};

static void draw_path(struct sim *sim, char *out, size_t size, bool leaf)
{
    uint32_t dir = (uint32_t)rng_below(&sim->rng, DIRS);

    if (leaf) {
        (void)snprintf(out, size, "/k%u/c%u", dir, (uint32_t)rng_below(&sim->rng, LEAVES));
    } else {
        (void)snprintf(out, size, "/k%u", dir);
    }
}

/* Permissions for every client: nearly all, and always ADMIN, so that a later write can repair
 * them. */
static uint32_t draw_perms(struct sim *sim)
{
    static const uint32_t without[] = {0, 0, 0, 0, ACL_READ, ACL_WRITE, ACL_CREATE, ACL_DELETE};

    return SIM_PERMS_OPEN & ~without[rng_below(&sim->rng, sizeof(without) / sizeof(without[0]))];
}

/* The limits of one subtree, as ZooKeeper keeps them. */
static void draw_quota(struct sim *sim, struct sim_sub *sub)
{
    static const enum op_id kinds[] = {OP_CREATE, OP_CREATE, OP_SET, OP_DELETE};

    bool limits = rng_chance(&sim->rng, 600000);

    sub->id = kinds[rng_below(&sim->rng, sizeof(kinds) / sizeof(kinds[0]))];
    sub->sequence = false;
    sub->ephemeral = false;
    sub->ttl_ms = 0;
    sub->has_version = false;
    sub->plain = true;
    sub->perms = 0;
    (void)snprintf(sub->path, sizeof(sub->path), "/zookeeper/quota/k1%s",
                   limits ? "/" STATE_LIMITS_NAME : "");
    (void)snprintf(sub->data, sizeof(sub->data), "count=-1,bytes=-1;countHardLimit=%u",
                   (uint32_t)rng_range(&sim->rng, 1, 8));
}

static void draw_write(struct sim *sim, const struct sim_op *op, struct sim_sub *sub)
{
    static const enum op_id kinds[] = {OP_CREATE, OP_CREATE, OP_CREATE, OP_SET,
                                       OP_SET,    OP_SET,    OP_DELETE};

    sub->id = kinds[rng_below(&sim->rng, sizeof(kinds) / sizeof(kinds[0]))];
    draw_path(sim, sub->path, sizeof(sub->path), rng_chance(&sim->rng, 650000));
    (void)snprintf(sub->data, sizeof(sub->data), "op%u.%u", op->number, op->sub_count);
    if (sub->id == OP_CREATE && rng_chance(&sim->rng, 250000)) {
        draw_path(sim, sub->path, sizeof(sub->path), false);
        (void)snprintf(sub->path + strlen(sub->path), sizeof(sub->path) - strlen(sub->path), "/s-");
        sub->sequence = true;
    }
    if (sub->id == OP_CREATE) {
        sub->ephemeral = op->session && rng_chance(&sim->rng, 500000);
        sub->perms = rng_chance(&sim->rng, sim->knobs.acl_ppm) ? draw_perms(sim) : 0;
        if (sim->knobs.ttl_ppm > 0 && !sub->ephemeral &&
            rng_chance(&sim->rng, sim->knobs.ttl_ppm)) {
            sub->ttl_ms = (uint32_t)rng_range(&sim->rng, 1, SIM_TTL_MAX_MS);
        }
    } else if (rng_chance(&sim->rng, 400000)) {
        sub->has_version = true;
        sub->version = (int32_t)rng_below(&sim->rng, 6);
    }
    if (rng_chance(&sim->rng, sim->knobs.quota_ppm)) {
        draw_quota(sim, sub);
    }
}

static void draw_setacl(struct sim *sim, struct sim_sub *sub)
{
    sub->id = OP_SETACL;
    draw_path(sim, sub->path, sizeof(sub->path), rng_chance(&sim->rng, 650000));
    sub->perms = rng_chance(&sim->rng, 500000) ? SIM_PERMS_OPEN : draw_perms(sim);
    sub->has_version = rng_chance(&sim->rng, 200000);
    sub->version = (int32_t)rng_below(&sim->rng, 3);
}

/* Deletes a znode of an earlier sequential create, so that the tree does not only grow. */
static bool draw_cleanup(struct sim *sim, struct sim_sub *sub)
{
    const struct sim_op *old;

    if (sim->op_count < 2 || !rng_chance(&sim->rng, 120000)) {
        return false;
    }
    old = sim->ops[rng_below(&sim->rng, sim->op_count - 1)];
    if (old->outcome != SIM_OK || old->id != OP_CREATE || !old->subs[0].sequence) {
        return false;
    }
    sub->id = OP_DELETE;
    (void)snprintf(sub->path, sizeof(sub->path), "%.47s", old->path);
    return true;
}

static void draw_multi(struct sim *sim, struct sim_op *op)
{
    uint32_t count = (uint32_t)rng_range(&sim->rng, 2, SIM_SUBS_MAX);

    op->id = OP_MULTI;
    while (op->sub_count < count) {
        struct sim_sub *sub = &op->subs[op->sub_count];

        draw_write(sim, op, sub);
        if (sub->id == OP_SET && rng_chance(&sim->rng, 300000)) {
            sub->id = OP_CHECK;
        }
        op->sub_count++;
    }
}

static void draw_read(struct sim *sim, struct sim_op *op)
{
    static const enum op_id kinds[] = {OP_GET, OP_GET, OP_EXISTS, OP_CHILDREN};
    struct sim_client *client = &sim->clients[op->client];

    op->id = kinds[rng_below(&sim->rng, 4)];
    op->subs[0].id = op->id;
    op->linearizable = rng_chance(&sim->rng, 500000);
    op->min_zxid = client->tokens ? client->seen : 0;
    draw_path(sim, op->subs[0].path, sizeof(op->subs[0].path),
              op->id != OP_CHILDREN && rng_chance(&sim->rng, 700000));
    op->sub_count = 1;
    if (rng_chance(&sim->rng, sim->knobs.watch_ppm)) {
        op->watch = op->id == OP_CHILDREN ? WATCH_CHILDREN
                    : op->id == OP_EXISTS ? WATCH_EXISTS
                                          : WATCH_DATA;
    }
}

/* Gives the operation a new key or, as a client's mistake, a key that another operation has
 * used. */
static void draw_key(struct sim *sim, struct sim_op *op)
{
    if (!rng_chance(&sim->rng, sim->knobs.key_ppm)) {
        return;
    }
    op->key = op->number + 1;
    if (rng_chance(&sim->rng, 20000)) {
        const struct sim_op *other = sim->ops[rng_below(&sim->rng, sim->op_count)];

        op->key = other->key != 0 ? other->key : op->key;
    }
}

static void draw_single(struct sim *sim, struct sim_op *op)
{
    if (rng_chance(&sim->rng, sim->knobs.acl_ppm)) {
        draw_setacl(sim, &op->subs[0]);
    } else if (!draw_cleanup(sim, &op->subs[0])) {
        draw_write(sim, op, &op->subs[0]);
    }
    op->id = op->subs[0].id;
    op->sub_count = 1;
}

static void draw_op(struct sim *sim, struct sim_op *op)
{
    uint64_t dice = rng_below(&sim->rng, 100);

    if (dice < 30) {
        draw_read(sim, op);
        return;
    }
    if (dice < 35) {
        op->id = OP_SYNC;
        op->subs[0].id = OP_SYNC;
        op->sub_count = 1;
        return;
    }
    sim_session_join(sim, op);
    if (dice < 45) {
        draw_multi(sim, op);
    } else {
        draw_single(sim, op);
    }
    draw_key(sim, op);
}

/* Retries an operation of unknown outcome with the same key, possibly at another replica. */
static bool draw_again(struct sim *sim, struct sim_client *client)
{
    const struct sim_op *first;
    struct sim_op *op;

    if (client->keyed == 0 || !rng_chance(&sim->rng, 600000)) {
        return false;
    }
    first = sim->ops[client->keyed - 1];
    client->keyed = 0;
    if (first->session && !sim_session_is_open(first->session)) {
        return false;
    }
    op = sim_op_new(sim, client->id, client->node);
    op->id = first->id;
    memcpy(op->subs, first->subs, sizeof(op->subs));
    op->sub_count = first->sub_count;
    op->session = first->session;
    op->key = first->key;
    sim->totals.retries++;
    sim_op_launch(sim, op);
    return true;
}

static void turn(struct sim *sim, struct sim_event *event)
{
    struct sim_client *client = &sim->clients[event->a];
    uint64_t think_us = rng_below(&sim->rng, (uint64_t)sim->knobs.think_ms * SIM_MS) + 1;
    uint32_t count = 1;

    if (sim->clients_stop) {
        return;
    }
    if (rng_chance(&sim->rng, 200000) || !sim->nodes[client->node].up) {
        client->node = (uint32_t)rng_range(&sim->rng, 1, sim->knobs.nodes);
    }
    if (rng_chance(&sim->rng, sim->knobs.burst_ppm)) {
        count = (uint32_t)rng_range(&sim->rng, 2, BURST_MAX);
    }
    for (uint32_t i = 0; i < count && client->inside < INSIDE_MAX; i++) {
        struct sim_op *op;

        if (draw_again(sim, client)) {
            continue;
        }
        op = sim_op_new(sim, client->id, client->node);
        draw_op(sim, op);
        sim_op_launch(sim, op);
    }
    sim_session_turn(sim, client);
    sim_socket_turn(sim, client);
    sim_after(sim, think_us, turn, "turn", NULL)->a = client->id;
}

void sim_client_begin(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->knobs.clients; i++) {
        sim_after(sim, rng_below(&sim->rng, SIM_SECOND), turn, "turn", NULL)->a = i;
    }
}
