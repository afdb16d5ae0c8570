#include "tests/sim/sim_ask.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/op/auth.h"
#include "server/op/change.h"
#include "tests/sim/sim_member.h"
#include "zab/config.h"

#include <inttypes.h>

enum {
    PATIENCE_MAX_S = 10,
    TRIES_MAX = 4,
    AGAIN_MAX_MS = 3000,
    LOST_PPM = 100000,   /* Answers that never arrive. */
    FORCE_PPM = 600000,  /* Changes that may leave no tolerance. */
    KEYED_PPM = 800000,  /* Requests with a key. */
    KEY_FIRST = 1 << 30, /* Above the keys of the other clients. */
};

/* One attempt of a request. */
struct attempt {
    struct sim_ask *ask;
    uint32_t node;
    uint32_t life;
    uint64_t boot;
    uint64_t request;
    struct op_request *req;
    bool is_lost; /* The client receives no answer. */
    bool is_refused;
};

struct sim_ask {
    struct sim *sim;
    uint32_t number;
    struct sim_change change;
    char peer[SIM_PEER_MAX];
    uint8_t lists[SIM_ITEMS_MAX][SIM_ITEMS_MAX * OP_ID_BYTES]; /* remove, promote, demote */
    uint32_t counts[SIM_ITEMS_MAX];
    zxid_t version;
    bool force;
    struct sim_op stub; /* For the model: its key. */
    char key[SIM_PEER_MAX];
    struct attempt attempts[TRIES_MAX];
    uint32_t tries;
    zxid_t logged;
    bool is_over; /* No attempt can be in the log later. */
};

struct slice sim_txn_of(const struct logrec *rec)
{
    if (rec->type == LOGREC_CONFIG) {
        return zab_config_txn(logrec_payload(rec));
    }
    return rec->type == LOGREC_TXN ? logrec_payload(rec) : slice_make(NULL, 0);
}

/* ---- Answers. ---- */

static void send(struct sim *sim, struct sim_event *event);

static const struct sim_rec *config_before(const struct sim_rec *rec)
{
    do {
        rec = rec->parent;
    } while (rec && rec->rec->type != LOGREC_CONFIG);
    return rec;
}

static bool are_equal(const struct zab_config *a, const struct zab_config *b)
{
    bool equal = a->count == b->count;

    for (uint32_t i = 0; equal && i < a->count; i++) {
        equal = a->members[i].id == b->members[i].id && a->members[i].voter == b->members[i].voter;
    }
    return equal;
}

/* The record is the change of the configuration before it. Incarnations are left to A35. */
static void check_done(struct sim *sim, const struct sim_ask *ask, zxid_t zxid)
{
    const struct sim_rec *rec = sim_rec_find(sim, zxid);
    const struct sim_rec *before = rec ? config_before(rec) : NULL;
    struct zab_config config;
    struct zab_config made;

    if (!rec || !rec->committed || rec->rec->type != LOGREC_CONFIG ||
        zab_config_decode(logrec_payload(rec->rec), &made) != ERR_OK) {
        sim_fail(sim, "A37",
                 "a change of the members is acknowledged at %" PRIx64
                 ", which is no committed configuration",
                 zxid);
    }
    if (!before || zab_config_decode(logrec_payload(before->rec), &config) != ERR_OK) {
        return; /* The first configuration is no record. */
    }
    if (!sim_change_make(sim, &ask->change, &config) || !are_equal(&config, &made) ||
        (ask->version != 0 && ask->version != before->rec->zxid)) {
        sim_fail(sim, "A37",
                 "the configuration %" PRIx64 " is not what was asked for after %" PRIx64, zxid,
                 before->rec->zxid);
    }
}

static bool is_refusal(enum err err)
{
    return err == ERR_CHANGE_REFUSED || err == ERR_BAD_VERSION || err == ERR_NOT_FOUND ||
           err == ERR_NOT_READY || err == ERR_THROTTLED || err == ERR_DISK_FULL ||
           err == ERR_TREE_FULL || err == ERR_REPLICA_BEHIND;
}

static bool is_unknown(enum err err)
{
    return err == ERR_OUTCOME_UNKNOWN || err == ERR_IN_FLIGHT || err == ERR_CLOSED;
}

/* The outcome is unknown: the client tries again, if it has a key. */
static void again(struct sim *sim, const struct sim_ask *ask)
{
    if (ask->stub.key != 0 && ask->tries < TRIES_MAX && sim->phase == SIM_SAFETY) {
        sim_after(sim, rng_range(&sim->members.rng, 1, AGAIN_MAX_MS) * SIM_MS, send, "again", NULL)
            ->a = ask->number;
    }
}

static void take_answer(struct sim *sim, struct attempt *attempt, const struct op_result *result)
{
    struct sim_ask *ask = attempt->ask;

    SIM_TRACE(sim, "change %u: node %u answers %s %s, zxid %" PRIx64 "%s", ask->number,
              attempt->node, err_symbol(result->err), result->reason ? result->reason : "",
              result->zxid, attempt->is_lost ? " (lost)" : "");
    if (attempt->is_lost || is_unknown(result->err)) {
        again(sim, ask);
    } else if (result->err == ERR_OK) {
        check_done(sim, ask, result->zxid);
        ask->is_over = true;
        sim->totals.changes++;
        sim->totals.replayed += result->replayed;
    } else if (is_refusal(result->err)) {
        attempt->is_refused = true;
        ask->is_over |= ask->tries == 1;
        sim->totals.changes_refused++;
    } else if (result->err != ERR_KEY_REUSED) {
        sim_fail(sim, "A19", "a change of the members ends with %s", err_symbol(result->err));
    }
}

static void answered(struct sim *sim, struct sim_event *event)
{
    struct sim_ask *ask = sim->members.asks[event->a];
    struct attempt *attempt = &ask->attempts[event->b];

    take_answer(sim, attempt, &attempt->req->result);
    op_request_free(attempt->req);
    attempt->req = NULL;
}

static void on_reply(struct op_request *request)
{
    struct attempt *attempt = request->ctx;
    struct sim_ask *ask = attempt->ask;
    const struct sim_node *node = &ask->sim->nodes[attempt->node];
    struct sim_event *event = sim_after(ask->sim, 0, answered, "answer", NULL);

    attempt->request = request->id;
    attempt->is_lost |= !node->up || node->life != attempt->life;
    event->a = ask->number;
    event->b = (uint64_t)(attempt - ask->attempts);
}

/* ---- Requests. ---- */

static void fill_member(const struct sim_ask *ask, struct op_args *args)
{
    const struct zab_change_item *item = &ask->change.items[0];

    args->member = item->id;
    if (item->what == ZAB_CHANGE_REMOVE) {
        args->op = OP_MEMBER_REMOVE;
        return;
    }
    args->op = item->what == ZAB_CHANGE_ADD ? OP_MEMBER_ADD : OP_MEMBER_SET;
    args->role = item->what == ZAB_CHANGE_PROMOTE  ? OP_ROLE_VOTER
                 : item->what == ZAB_CHANGE_DEMOTE ? OP_ROLE_OBSERVER
                                                   : OP_ROLE_NONE;
    args->auto_promote = item->joining;
    args->has_peer = item->sets_address;
    args->peer = slice_str(ask->peer);
    args->has_client = item->sets_client;
    args->client = item->texts.client;
    args->has_zone = item->sets_zone;
    args->zone = item->texts.zone;
}

static struct slice list_of(const struct sim_ask *ask, uint32_t list)
{
    return slice_make(ask->lists[list], ask->counts[list] * (size_t)OP_ID_BYTES);
}

static void fill_args(const struct sim_ask *ask, struct op_args *args)
{
    op_args_init(args, OP_MEMBERS_CHANGE);
    if (ask->change.sets_hold) {
        args->op = OP_LEVEL;
        args->has_hold = true;
        args->hold = ask->change.hold;
        return;
    }
    args->force = ask->force;
    args->has_etag = ask->version != 0;
    args->etag_czxid = ask->version;
    if (ask->change.count == 1) {
        fill_member(ask, args);
        return;
    }
    args->remove = list_of(ask, 0);
    args->promote = list_of(ask, 1);
    args->demote = list_of(ask, 2);
}

static struct op_request *make_request(struct sim *sim, struct attempt *attempt)
{
    const struct sim_ask *ask = attempt->ask;
    struct op_request *request = op_request_new();
    uint64_t patience_ms = rng_range(&sim->members.rng, 1, PATIENCE_MAX_S) * 1000;

    fill_args(ask, &request->args);
    request->def = ops_by_id(request->args.op);
    (void)snprintf(request->principal.address, sizeof(request->principal.address), "127.0.0.1");
    if (auth_add(NULL, slice_str("digest"), slice_str("bob:secret"),
                 "bob:fyVmFCwVbTJYrznoSu1koqYEYF0=", &request->principal.auth) != ERR_OK) {
        sim_fail(sim, "host", "there is no super user");
    }
    request->key = slice_str(ask->key);
    request->deadline_ms = sim_node_ms(sim, &sim->nodes[attempt->node]) + patience_ms;
    request->on_reply = on_reply;
    request->ctx = attempt;
    return request;
}

/* Any running process may be asked, also one that is no member any more. */
static struct sim_node *choose(struct sim *sim)
{
    struct sim_node *chosen = NULL;
    uint64_t count = 0;

    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        struct sim_node *node = &sim->nodes[id];

        if (node->up && !node->paused && rng_below(&sim->members.rng, ++count) == 0) {
            chosen = node;
        }
    }
    return chosen;
}

static void send(struct sim *sim, struct sim_event *event)
{
    struct sim_ask *ask = sim->members.asks[event->a];
    struct sim_node *node = choose(sim);
    struct attempt *attempt = &ask->attempts[ask->tries];

    if (!node || sim->phase != SIM_SAFETY || ask->is_over) {
        return;
    }
    ask->tries++;
    *attempt = (struct attempt){.ask = ask,
                                .node = node->id,
                                .life = node->life,
                                .boot = node->boot,
                                .is_lost = rng_chance(&sim->members.rng, LOST_PPM)};
    attempt->req = make_request(sim, attempt);
    SIM_TRACE(sim, "change %u: asks node %u, attempt %u", ask->number, node->id, ask->tries);
    struct op_request *request = attempt->req;

    sim->current = node;
    replica_request(node->replica, request, sim_node_ms(sim, node), sim_node_wall_ms(sim, node),
                    &node->effects);
    sim->current = NULL;
    attempt->request = request->id;
    replica_status(node->replica, &node->status);
    sim_node_effects(sim, node);
}

uint32_t sim_ask(struct sim *sim, const struct sim_change *change, zxid_t version)
{
    struct sim_members *members = &sim->members;
    struct sim_ask *ask = mem_zalloc(1, sizeof(*ask));
    uint32_t number = (uint32_t)members->ask_count;

    MEM_GROW(members->asks, members->ask_count, members->ask_cap, MEM_ITEMS_MAX);
    members->asks[members->ask_count++] = ask;
    ask->sim = sim;
    ask->number = number;
    ask->change = *change;
    ask->version = version;
    ask->force = rng_chance(&members->rng, FORCE_PPM);
    if (rng_chance(&members->rng, KEYED_PPM)) {
        ask->stub.key = (uint32_t)KEY_FIRST + number;
        (void)snprintf(ask->key, sizeof(ask->key), "change-%u", number);
    }
    (void)snprintf(ask->peer, sizeof(ask->peer), "m%u:%u", change->items[0].id,
                   change->items[0].texts.port);
    for (uint32_t i = 0; i < change->count; i++) {
        enum zab_change_what what = change->items[i].what;
        uint32_t list = what == ZAB_CHANGE_REMOVE ? 0 : what == ZAB_CHANGE_PROMOTE ? 1 : 2;

        op_ids_put(ask->lists[list], ask->counts[list]++, change->items[i].id);
    }
    sim_after(sim, 0, send, "ask", NULL)->a = number;
    return number;
}

bool sim_ask_is_over(const struct sim *sim, uint32_t number)
{
    return sim->members.asks[number]->is_over;
}

/* ---- After the run. ---- */

static struct attempt *attempt_of(const struct sim *sim, const struct txn_header *header)
{
    for (size_t i = 0; i < sim->members.ask_count; i++) {
        struct sim_ask *ask = sim->members.asks[i];

        for (uint32_t k = 0; k < ask->tries; k++) {
            if (ask->attempts[k].boot == header->origin_boot &&
                ask->attempts[k].request == header->request) {
                return &ask->attempts[k];
            }
        }
    }
    return NULL;
}

/* All results are remembered until the run ends. */
static bool keeps_keys(const struct sim *sim)
{
    return sim->knobs.remembered_max >= 1000 && sim->knobs.remember_ms >= 600000;
}

void sim_ask_take(struct sim *sim, struct model *model, const struct logrec *rec)
{
    struct slice txn = sim_txn_of(rec);
    struct wire_reader reader;
    struct txn_header header;
    struct txn_effect effect;

    if (txn.len == 0) {
        return; /* The leader's own. */
    }
    if (txn_open(&reader, txn, &header) != ERR_OK) {
        sim_fail(sim, "A6", "the transaction in %" PRIx64 " is malformed", rec->zxid);
    }
    struct attempt *attempt = attempt_of(sim, &header);

    if (!attempt || attempt->is_refused) {
        sim_fail(sim, "A19", "the change %" PRIx64 " was refused, or no client requested it",
                 rec->zxid);
    }
    if (attempt->ask->logged != 0 && (attempt->ask->stub.key == 0 || keeps_keys(sim))) {
        sim_fail(sim, "A19", "a change of the members is done twice: %" PRIx64 " and %" PRIx64,
                 attempt->ask->logged, rec->zxid);
    }
    attempt->ask->logged = rec->zxid;
    while (txn_next(&reader, &effect) == ERR_OK) {
        if (effect.type == TXN_REMEMBER) {
            model_remember(model, 0, &attempt->ask->stub, rec->zxid, header.age_ms);
        }
    }
}

void sim_ask_release(struct sim *sim)
{
    for (size_t i = 0; i < sim->members.ask_count; i++) {
        struct sim_ask *ask = sim->members.asks[i];

        for (uint32_t k = 0; k < ask->tries; k++) {
            op_request_free(ask->attempts[k].req);
        }
        mem_free(ask);
    }
    mem_free(sim->members.asks);
}
