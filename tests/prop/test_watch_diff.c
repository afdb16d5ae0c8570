/*
 * Clients that resume from before the window, fall behind it, or take nothing for a while: the
 * events that they receive bring their knowledge to the present state, whatever happens meanwhile.
 */
#include "base/mem.h"
#include "base/thread.h"
#include "server/state/path.h"
#include "server/watch/subscribe_int.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"
#include "tests/lib/watch_kit.h"
#include "tests/prop/known.h"

#include <stdatomic.h>
#include <stdio.h>

enum {
    SEEDS = 250,
    STEPS = 150,
    CLIENTS = 12,
    BIG_DIRS = 30, /* Of the large tree, each with as many znodes: several slices of a walk. */
    BIG = BIG_DIRS * BIG_DIRS,
    ROUNDS = 6,
    RACE_TXNS = 300
};

struct run;

struct client {
    struct watch_owner owner;
    struct run *run;
    enum watch_kind kind;
    char path[PATH_LEN_MAX];
    struct known *known;
    zxid_t since;   /* The zxid of what it knows. */
    zxid_t read_at; /* The state that it has read after a gap, or 0. */
    uint32_t id;    /* 0: not resumed yet. */
    size_t events;
    bool used_up;
    bool holds; /* Takes nothing. */
    zxid_t held_from;
    struct known *sent; /* What it knew before the first event that may still be lost on the way. */
    zxid_t sent_from;   /* Lower than the zxid of that event; 0: none. */
    zxid_t last_zxid;   /* Of the last event. */
};

struct run {
    struct rng rng;
    struct rng dice;  /* For callbacks. */
    atomic_bool stop; /* For the writer. */
    bool throws;      /* Events may be lost on the way. */
    struct kit_world world;
    struct subscriber *subscriber;
    struct client clients[CLIENTS];
    size_t client_count;
    size_t resumed[SUBSCRIBE_GAP + 1];
};

static const struct op_principal anonymous = {.address = "127.0.0.1"};

/* ---- A client receives an event. ---- */

/* Removes the children of `path` that are gone, and all below them. */
static void forget_gone_children(struct client *client, const char *path)
{
    struct known *known = client->known;
    const struct state *state = view_read(client->run->world.view);
    size_t i = 0;

    while (i < known->count) {
        char child[PATH_LEN_MAX];

        memcpy(child, known->items[i].path, PATH_LEN_MAX);
        if (is_child(child, path) && kit_find(state, child) == NULL) {
            known_forget_below(known, child);
            i = 0;
        } else {
            i++;
        }
    }
    view_read_done(client->run->world.view);
}

static void read_children(struct client *client)
{
    struct known *known = client->known;
    struct known *now = mem_zalloc(1, sizeof(*now));

    (void)known_read(client->run->world.view, WATCH_CHILDREN, client->path, now);
    for (size_t i = known->count; i-- > 0;) {
        if (is_child(known->items[i].path, client->path)) {
            known_forget_at(known, i);
        }
    }
    for (size_t i = 0; i < now->count; i++) {
        if (is_child(now->items[i].path, client->path)) {
            known_append(known, slice_str(now->items[i].path), 0);
        }
    }
    mem_free(now);
}

static void take(struct client *client, const struct watch_event *event)
{
    struct known *known = client->known;
    char path[PATH_LEN_MAX];

    snprintf(path, sizeof(path), "%.*s", (int)event->path.len, (const char *)event->path.data);
    size_t at = known_find(known, path);

    switch (event->type) {
    case WATCH_CREATED:
        /* Otherwise an earlier event has reported this znode. */
        assert_true(event->diff || at == known->count || known->items[at].mzxid < event->zxid);
        known_forget_below(known, path);
        known_append(known, event->path, event->change->stat.mzxid);
        break;
    case WATCH_DATA_CHANGED:
        if (at == known->count) {
            known_append(known, event->path, 0);
        }
        known->items[at].mzxid = event->change->stat.mzxid;
        break;
    case WATCH_DELETED:
        known_forget_below(known, path);
        break;
    case WATCH_CHILDREN_CHANGED:
        if (client->kind == WATCH_RECURSIVE) {
            assert_true(event->diff);
            forget_gone_children(client, path);
        } else {
            read_children(client);
        }
    }
}

static void on_event(void *ctx, struct watch_owner *owner, struct watch *hits,
                     const struct watch_event *event)
{
    struct client *client = list_entry(owner, struct client, owner);

    (void)ctx;
    assert_ptr_equal(hits->hit_next, NULL);
    if (client->holds) {
        client->held_from = event->zxid - 1;
        watch_hold(hits);
        return;
    }
    client->events++;
    if (!event->diff && event->zxid <= client->read_at) {
        return; /* The writer was faster than the read, which has seen that change. */
    }
    if (client->run->throws && client->sent_from == 0 && event->zxid != client->last_zxid &&
        rng_below(&client->run->dice, 4) == 0) {
        *client->sent = *client->known;
        client->sent_from = event->zxid - 1;
    }
    client->last_zxid = event->zxid;
    if (client->kind > WATCH_CHILDREN) {
        take(client, event);
    } else {
        assert_int_equal(client->events, 1);
    }
}

/* ---- Resuming. ---- */

static void note(struct client *client, const struct subscribe_result *result)
{
    client->run->resumed[result->resumed]++;
    client->used_up = result->used_up;
    if (result->resumed == SUBSCRIBE_GAP) {
        client->read_at =
            known_read(client->run->world.view, client->kind, client->path, client->known);
    }
}

static void come_back(struct client *client)
{
    const struct subscribe_request request = {.kind = client->kind,
                                              .path = slice_str(client->path),
                                              .has_since = true,
                                              .since = client->since};
    struct subscribe_result result;

    assert_int_equal(subscribe_add(client->run->subscriber, &client->owner, &request, &result),
                     ERR_OK);
    client->id = result.id;
    note(client, &result);
}

static struct watch *watch_of(struct client *client)
{
    return watch_by_id(subscribe_table(client->run->subscriber), &client->owner, client->id);
}

static void catch_up(struct client *client, zxid_t from)
{
    struct watch *watch = watch_of(client);
    struct subscribe_result result;

    if (watch != NULL) {
        assert_int_equal(subscribe_catch_up(client->run->subscriber, watch, from, &result), ERR_OK);
        note(client, &result);
    }
}

/* Clients that take nothing at the moment have a place of their own to continue from. */
static void on_lost(void *ctx, zxid_t from)
{
    struct run *run = ctx;

    for (size_t i = 0; i < run->client_count; i++) {
        struct client *client = &run->clients[i];
        struct watch *watch = client->id != 0 ? watch_of(client) : NULL;

        if (watch != NULL && !watch->held) {
            catch_up(client, from);
        }
    }
}

/* The client takes events again. */
static void let_go(struct client *client)
{
    struct watch *watch = client->id != 0 ? watch_of(client) : NULL;

    client->holds = false;
    if (watch != NULL && watch->held) {
        catch_up(client, client->held_from);
    }
}

static bool watch_is_held(struct client *client)
{
    const struct watch *watch = watch_of(client);

    return watch != NULL && watch->held;
}

/* All events since some earlier one are lost on the way. */
static void throw_away(struct client *client)
{
    struct watch *watch = watch_of(client);

    if (watch == NULL || watch->held || client->sent_from == 0 || client->kind <= WATCH_CHILDREN) {
        return;
    }
    *client->known = *client->sent;
    client->held_from = client->sent_from;
    client->sent_from = 0;
    client->last_zxid = 0;
    watch_hold(watch);
}

/* ---- Runs. ---- */

static void random_change(struct run *run)
{
    const char *words[WATCH_KIT_RANDOM_MAX + 1];

    kit_random_words(&run->world, &run->rng, words);
    kit_world_apply(&run->world, words);
}

/* Between two slices of a walk. */
static void between(void *ctx)
{
    struct run *run = ctx;

    while (rng_below(&run->rng, 2) == 0) {
        random_change(run);
    }
}

static void run_init(struct run *run, uint64_t seed, uint32_t sets_max)
{
    const struct subscribe_sink sink = {.ctx = run, .on_event = on_event, .on_lost = on_lost};

    *run = (struct run){0};
    rng_init(&run->rng, seed);
    rng_init(&run->dice, seed);
    kit_world_init(&run->world, sets_max);
    run->subscriber = subscriber_new(run->world.view, run->world.window, &sink);
}

/* A client that knows the present state. */
static struct client *new_client(struct run *run, enum watch_kind kind, const char *path)
{
    struct client *client = &run->clients[run->client_count++];

    *client = (struct client){.run = run, .kind = kind, .since = run->world.zxid};
    snprintf(client->path, PATH_LEN_MAX, "%s", path);
    client->known = mem_zalloc(1, sizeof(*client->known));
    client->sent = mem_zalloc(1, sizeof(*client->sent));
    watch_owner_init(&client->owner, &anonymous, 4, SIZE_MAX);
    (void)known_read(run->world.view, kind, path, client->known);
    return client;
}

static void check_client(struct client *client, struct known *now)
{
    (void)known_read(client->run->world.view, client->kind, client->path, now);
    if (client->kind > WATCH_CHILDREN) {
        assert_true(known_is_same(client->known, now));
    } else if (client->events == 0) {
        /* No event: then nothing has changed, and its watch remains. */
        assert_true(known_is_same(client->known, now));
        assert_non_null(watch_of(client));
    } else {
        assert_int_equal(client->events, 1);
    }
}

static void run_end(struct run *run)
{
    struct known *now = mem_zalloc(1, sizeof(*now));

    run->subscriber->between = NULL;
    for (size_t i = 0; i < run->client_count; i++) {
        if (run->clients[i].id == 0) {
            come_back(&run->clients[i]);
        }
        let_go(&run->clients[i]);
    }
    subscribe_pump(run->subscriber, ZXID_MAX, SIZE_MAX);
    assert_int_equal(subscribe_at(run->subscriber), run->world.zxid);
    for (size_t i = 0; i < run->client_count; i++) {
        check_client(&run->clients[i], now);
        watch_owner_release(subscribe_table(run->subscriber), &run->clients[i].owner);
        mem_free(run->clients[i].known);
        mem_free(run->clients[i].sent);
    }
    subscriber_free(run->subscriber);
    kit_world_release(&run->world);
    mem_free(now);
}

/* A watch of data or children belongs to a znode that the client has seen. */
static void random_client(struct run *run)
{
    enum watch_kind kind = (enum watch_kind)rng_range(&run->rng, 1, WATCH_RECURSIVE);
    const char *path = kit_random_path(&run->rng);
    bool there = kit_find(run->world.state, path) != NULL;

    if (run->client_count < CLIENTS && (there || (kind != WATCH_DATA && kind != WATCH_CHILDREN))) {
        new_client(run, kind, path);
    }
}

static void random_move(struct run *run)
{
    if (run->client_count == 0) {
        return;
    }
    struct client *client = &run->clients[rng_below(&run->rng, run->client_count)];

    if (client->id == 0) {
        client->holds = rng_below(&run->rng, 4) == 0;
        come_back(client);
    } else if (client->holds || watch_is_held(client)) {
        let_go(client);
    } else if (rng_below(&run->rng, 2) == 0) {
        throw_away(client);
    } else {
        client->holds = rng_below(&run->rng, 2) == 0;
    }
}

static void step(struct run *run)
{
    uint64_t roll = rng_below(&run->rng, 100);

    if (roll < 50) {
        random_change(run);
    } else if (roll < 65) {
        random_client(run);
    } else if (roll < 80) {
        random_move(run);
    } else if (roll < 98) {
        subscribe_pump(run->subscriber, ZXID_MAX, rng_below(&run->rng, 4));
    } else {
        kit_world_replace(&run->world, NULL, run->world.zxid);
    }
}

TEST(the_events_lead_to_the_present_state)
{
    struct run *run = mem_zalloc(1, sizeof(*run));
    size_t resumed[SUBSCRIBE_GAP + 1] = {0};

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_init(run, seed, (uint32_t)(1 + seed % 12));
        run->throws = true;
        run->subscriber->slice_nodes = (uint32_t)rng_range(&run->rng, 1, 4);
        run->subscriber->between = between;
        for (int i = 0; i < STEPS; i++) {
            step(run);
        }
        for (size_t i = 0; i <= SUBSCRIBE_GAP; i++) {
            resumed[i] += run->resumed[i];
        }
        run_end(run);
    }
    assert_true(resumed[SUBSCRIBE_REPLAYED] > SEEDS && resumed[SUBSCRIBE_DIFFED] > SEEDS);
    /* Only where the window overflows during a walk. */
    assert_true(resumed[SUBSCRIBE_GAP] < SEEDS / 10);
    mem_free(run);
}

/* ---- A writer beside a long walk. ---- */

/* Creates, sets or deletes a znode of the large tree, or creates a directory. */
static void put_big(struct kit_world *world, const char *dir, const char *path)
{
    const struct znode *parent = kit_find(world->state, dir);
    struct txn_effect effect = {.type = TXN_SET,
                                .flags = TXN_NULL_DATA,
                                .path = slice_str(path),
                                .version = (int32_t)world->zxid,
                                .creates = znode_creates(parent) + 1};

    if (kit_find(world->state, path) == NULL) {
        effect.type = TXN_CREATE;
    } else if (world->zxid % 3 == 0) {
        effect.type = TXN_DELETE;
        effect.flags = 0;
    }
    kit_begin(&world->txn, KIT_TIME_MS);
    txn_put(&world->txn, &effect);
    kit_world_apply_txn(world);
}

static void put_child(struct kit_world *world, uint64_t i)
{
    char dir[PATH_LEN_MAX];
    char path[PATH_LEN_MAX];

    snprintf(dir, sizeof(dir), "/big/%02d", (int)(i / BIG_DIRS));
    snprintf(path, sizeof(path), "%.7s/%02d", dir, (int)(i % BIG_DIRS));
    if (kit_find(world->state, dir) == NULL) {
        put_big(world, "/big", dir);
    }
    put_big(world, dir, path);
}

static void write_beside(void *arg)
{
    struct run *run = arg;

    while (!atomic_load(&run->stop)) {
        put_child(&run->world, rng_below(&run->rng, BIG));
    }
}

TEST(a_walk_beside_a_writer_misses_nothing)
{
    struct run *run = mem_zalloc(1, sizeof(*run));
    struct thread writer;

    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        run_init(run, seed, (uint32_t)(seed % 3 == 0 ? RACE_TXNS : 20));
        run->subscriber->slice_nodes = 100;
        KIT_APPLY(&run->world, "+/big");
        for (uint64_t i = 0; i < BIG; i++) {
            put_child(&run->world, i);
        }
        struct client *recursive = new_client(run, WATCH_RECURSIVE, "/big");
        struct client *persistent = new_client(run, WATCH_PERSISTENT, "/big/07");

        for (uint64_t i = 0; i < RACE_TXNS; i++) {
            put_child(&run->world, rng_below(&run->rng, BIG));
        }
        thread_start(&writer, "writer", write_beside, run);
        come_back(recursive);
        subscribe_pump(run->subscriber, ZXID_MAX, 100);
        come_back(persistent);
        subscribe_pump(run->subscriber, ZXID_MAX, 100);
        atomic_store(&run->stop, true);
        thread_join(&writer);
        run_end(run);
    }
    mem_free(run);
}
