/*
 * Watches of native clients against a naive model of ZooKeeper's two tables: one-shot ones of
 * reads, persistent and recursive ones, checks and removals, and lists of watches after a
 * reconnect. Each client receives exactly the events and replies of the model, in this order,
 * whenever the gate runs and answers its writes.
 */
#include "tests/lib/draw.h"
#include "tests/lib/unit.h"
#include "tests/lib/zk_ask.h"
#include "tests/lib/zk_model.h"
#include "tests/unit/zk_bench.h"

#include <sys/socket.h>
#include <unistd.h>

enum {
    SEEDS = 80,
    STEPS = 700,
    AWAY_STEPS = 8, /* Of a client that has left, about. */
    CLIENTS = 3,
    FRAMES_MAX = 512,
    REQUESTS_MAX = 64,
    ROUNDS = 4,
    TIMEOUT_MS = 60000,
    IN_MAX = 1 << 20,
    MULTI_MAX = 3
};

/* What a client receives next. */
struct frame {
    bool event;
    int32_t xid;  /* Of a reply. */
    int32_t code; /* Of a reply; the type of an event. */
    uint8_t path; /* Of an event. */
    zxid_t zxid;  /* 0: any. */
    bool had;
};

struct request {
    int32_t xid;
    struct zk_model_asked asked;
    const struct op_request *gate; /* A write that has run. */
    bool ran;
    bool answered;
    int32_t code; /* Of a write that has run. */
    zxid_t since; /* setWatches. */
    uint8_t lists[ZK_LISTS];
};

struct client {
    int fd; /* -1: not connected. */
    uint32_t fifo;
    bool welcome;
    int32_t xid;
    uint64_t session;
    uint8_t passwd[ZK_PASSWD_BYTES];
    zxid_t seen;               /* Of all frames. */
    int32_t set_xid;           /* Of a setWatches without a reply, until which events may have no
                                  zxid; 0: none. */
    uint8_t watched[ZK_LISTS]; /* What its library remembers: bits by path. */
    struct buf in;
    struct request requests[REQUESTS_MAX]; /* Without a reply. */
    size_t request_count;
    struct frame expected[FRAMES_MAX];
    size_t expected_count;
    struct zk_model_tables tables;
};

struct world {
    struct zk_bench bench;
    struct rng rng;
    struct zk_model_node nodes[ZK_MODEL_PATHS];
    struct client clients[CLIENTS];
    uint32_t events;
    uint32_t missed; /* Events after a reconnect. */
};

static uint32_t draw(struct world *world, uint32_t bound)
{
    return (uint32_t)rng_below(&world->rng, bound);
}

/* ---- The model ---- */

static void expect(struct client *client, struct frame frame)
{
    ASSERT(client->expected_count < FRAMES_MAX);
    client->expected[client->expected_count++] = frame;
}

static void expect_event(void *ctx, enum watch_event_type type, uint8_t path, zxid_t zxid)
{
    expect(ctx, (struct frame){.event = true, .code = (int32_t)type, .path = path, .zxid = zxid});
}

/* A change has been applied at the newest zxid. */
static void apply(struct world *world, enum zk_model_change change, uint8_t path)
{
    zxid_t zxid = world->bench.gate->zxid;

    zk_model_apply(world->nodes, change, path, zxid);
    for (size_t i = 0; i < CLIENTS; i++) {
        if (world->clients[i].fd >= 0) {
            zk_model_fire(&world->clients[i].tables, change, path, zxid);
        }
    }
}

/* ---- The model's answers ---- */

static int32_t answer_set(struct world *world, struct client *client, const struct request *request)
{
    for (uint32_t list = 0; list < ZK_LISTS; list++) {
        for (uint32_t path = 0; path < ZK_MODEL_PATHS; path++) {
            if (((uint32_t)request->lists[list] >> path) & 1U) {
                zk_model_set(&client->tables, world->nodes, list, (uint8_t)path, request->since);
            }
        }
    }
    return ZK_OK;
}

static int32_t answer(struct world *world, struct client *client, const struct request *request)
{
    switch (request->asked.type) {
    case ZK_GET_DATA:
    case ZK_EXISTS:
    case ZK_GET_CHILDREN2:
        return zk_model_read(&client->tables, world->nodes, request->asked.type,
                             request->asked.path, request->asked.mode != 0);
    case ZK_ADD_WATCH:
        return zk_model_add(&client->tables, request->asked.path, request->asked.mode);
    case ZK_CHECK_WATCHES:
    case ZK_REMOVE_WATCHES:
        return zk_model_find(&client->tables, request->asked.path, request->asked.mode,
                             request->asked.type == ZK_REMOVE_WATCHES);
    case ZK_SET_WATCHES:
        return answer_set(world, client, request);
    default:
        return request->code;
    }
}

/* All requests that can be answered now are. */
static void answer_all(struct world *world, struct client *client)
{
    size_t count = 0;

    while (count < client->request_count && (!zk_model_is_write(&client->requests[count].asked) ||
                                             client->requests[count].answered)) {
        const struct request *request = &client->requests[count++];
        int32_t code = answer(world, client, request);

        zxid_t zxid = zk_model_is_read(&request->asked) ? world->bench.gate->zxid : 0;

        expect(client, (struct frame){.xid = request->xid, .code = code, .zxid = zxid});
        zk_model_remember(client->watched, &request->asked, code);
    }
    client->request_count -= count;
    memmove(client->requests, client->requests + count,
            client->request_count * sizeof(client->requests[0]));
}

/* ---- What arrives ---- */

static void take_event(struct world *world, struct client *client, const struct frame *expected,
                       zxid_t zxid, struct wire_reader *reader)
{
    assert_true(expected->event);
    assert_int_equal(zk_get_int(reader), expected->code);
    assert_int_equal(zk_get_int(reader), 3);
    assert_true(slice_eq(zk_get_bytes(reader), slice_str(zk_model_paths[expected->path])));
    assert_true(zxid == expected->zxid || (zxid == (zxid_t)-1 && client->set_xid != 0));
    zk_model_use_up(client->watched, expected->code, expected->path);
    client->seen = zxid == (zxid_t)-1 ? client->seen : max_u64(zxid, client->seen);
    world->events++;
    world->missed += expected->zxid == (zxid_t)-1 ? 1 : 0;
}

static void take_reply(struct client *client, const struct frame *expected, int32_t xid,
                       zxid_t zxid, int32_t code)
{
    assert_false(expected->event);
    assert_int_equal(xid, expected->xid);
    assert_int_equal(code, expected->code);
    assert_true(zxid >= client->seen && (expected->zxid == 0 || zxid == expected->zxid));
    client->seen = zxid;
    client->set_xid = xid == client->set_xid ? 0 : client->set_xid;
}

/* Takes the next event or reply off those that are expected. In step with the window everything
 * comes in the model's order. Otherwise an event may come behind a reply whose state does not have
 * its change. */
static const struct frame *pick(const struct world *world, struct client *client, bool event,
                                zxid_t zxid)
{
    size_t at = 0;

    while (at < client->expected_count &&
           (client->expected[at].had || client->expected[at].event != event)) {
        const struct frame *passed = &client->expected[at++];
        bool late = passed->zxid > zxid && passed->zxid != (zxid_t)-1;

        assert_true(passed->had || (!world->bench.prompt && (!passed->event || late)));
    }
    assert_true(at < client->expected_count);
    client->expected[at].had = true;
    return &client->expected[at];
}

static void take_welcome(struct client *client, struct slice body)
{
    struct wire_reader reader;

    wire_reader_init(&reader, body);
    (void)zk_get_int(&reader);
    assert_int_equal(zk_get_int(&reader), TIMEOUT_MS);
    client->session = (uint64_t)zk_get_long(&reader);
    memcpy(client->passwd, zk_get_bytes(&reader).data, ZK_PASSWD_BYTES);
    client->welcome = true;
}

static void take_frame(struct world *world, struct client *client, struct slice body)
{
    struct wire_reader reader;

    if (!client->welcome) {
        take_welcome(client, body);
        return;
    }
    wire_reader_init(&reader, body);

    int32_t xid = zk_get_int(&reader);
    zxid_t zxid = (zxid_t)zk_get_long(&reader);
    int32_t code = zk_get_int(&reader);

    const struct frame *expected =
        pick(world, client, xid == ZK_XID_EVENT, xid == ZK_XID_EVENT ? 0 : zxid);

    if (xid == ZK_XID_EVENT) {
        take_event(world, client, expected, zxid, &reader);
    } else {
        take_reply(client, expected, xid, zxid, code);
    }
}

static void receive(struct world *world, struct client *client)
{
    uint8_t *room = buf_reserve(&client->in, IN_MAX / 2);
    ssize_t got = recv(client->fd, room, IN_MAX / 2, MSG_DONTWAIT);
    size_t used = 0;

    client->in.len += got > 0 ? (size_t)got : 0;
    assert_true(got != 0); /* No connection ends by itself. */
    while (client->in.len - used >= ZK_INT_BYTES) {
        size_t len = (size_t)zk_load_int(client->in.data + used);

        assert_true(client->in.len - used >= ZK_INT_BYTES + len);
        take_frame(world, client, slice_make(client->in.data + used + ZK_INT_BYTES, len));
        used += ZK_INT_BYTES + len;
    }
    buf_consume(&client->in, used);
    for (size_t i = 0; i < client->expected_count; i++) {
        assert_true(client->expected[i].had);
    }
    client->expected_count = 0;
}

/* Lets the front end do all that it can, and compares what each client receives. */
static void turn(struct world *world)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        if (world->clients[i].fd >= 0 && world->clients[i].welcome) {
            answer_all(world, &world->clients[i]);
        }
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        zk_bench_round(&world->bench);
        zk_bench_check(&world->bench);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        if (world->clients[i].fd >= 0) {
            receive(world, &world->clients[i]);
        }
    }
}

/* ---- The gate ---- */

static struct client *client_of(struct world *world, uint32_t fifo)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        if (world->clients[i].fd >= 0 && world->clients[i].fifo == fifo) {
            return &world->clients[i];
        }
    }
    return NULL;
}

static enum zk_model_change change_of(enum op_id op)
{
    if (op == OP_CREATE) {
        return ZK_MODEL_CREATE;
    }
    if (op == OP_SET) {
        return ZK_MODEL_SET;
    }
    return op == OP_DELETE ? ZK_MODEL_DELETE : ZK_MODEL_CHANGES;
}

/* A write has run; its client may have left. */
static void note_run(struct world *world, const struct op_request *ran)
{
    enum zk_model_change change = change_of(ran->args.op);
    uint8_t path = zk_model_path(ran->args.path);
    struct client *client = client_of(world, ran->fifo);
    int32_t code = 0;

    if (change == ZK_MODEL_CHANGES) {
        return; /* It is about a session. */
    }
    code = zk_model_judge(world->nodes, change, path);
    if (!client && ran->result.err == ERR_SESSION_MOVED) {
        return;
    }
    assert_int_equal(ran->result.err == ERR_OK, code == ZK_OK);
    if (code == ZK_OK) {
        apply(world, change, path);
    }
    for (size_t i = 0; client && i < client->request_count; i++) {
        struct request *request = &client->requests[i];

        if (zk_model_is_write(&request->asked) && !request->ran) {
            request->code = code;
            request->gate = ran;
            request->ran = true;
            return;
        }
    }
}

static void note_answer(struct world *world, const struct op_request *answered)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *client = &world->clients[i];

        for (size_t k = 0; k < client->request_count; k++) {
            if (client->requests[k].gate == answered) {
                client->requests[k].gate = NULL;
                client->requests[k].answered = true;
            }
        }
    }
}

static bool run_one(struct world *world)
{
    const struct op_request *request = zk_bench_run(&world->bench, draw(world, 100));

    if (request) {
        note_run(world, request);
    }
    return request != NULL;
}

static bool answer_one(struct world *world)
{
    const struct op_request *request = zk_bench_answer(&world->bench, draw(world, 100));

    if (request) {
        note_answer(world, request);
    }
    return request != NULL;
}

static void settle(struct world *world)
{
    bool moved = true;

    while (moved) {
        turn(world);
        moved = run_one(world);
        moved = answer_one(world) || moved;
    }
}

/* Another front end changes the tree: one znode, or several at once. */
static void change_elsewhere(struct world *world)
{
    static const enum op_id ops[] = {OP_CREATE, OP_SET, OP_DELETE};
    struct op_args args;
    struct op_args steps[MULTI_MAX];
    struct zk_model_node nodes[ZK_MODEL_PATHS];
    enum zk_model_change changes[MULTI_MAX];
    uint8_t at[MULTI_MAX];
    uint32_t count = 1 + (draw(world, 3) == 0 ? draw(world, MULTI_MAX) : 0);
    bool ok = true;

    memcpy(nodes, world->nodes, sizeof(nodes));
    for (uint32_t i = 0; i < count; i++) {
        changes[i] = (enum zk_model_change)draw(world, ZK_MODEL_CHANGES);
        at[i] = (uint8_t)(1 + draw(world, ZK_MODEL_PATHS - 1));
        op_args_init(&steps[i], ops[changes[i]]);
        steps[i].path = slice_str(zk_model_paths[at[i]]);
        ok = ok && zk_model_judge(nodes, changes[i], at[i]) == ZK_OK;
        if (ok) {
            zk_model_apply(nodes, changes[i], at[i], 0);
        }
    }
    op_args_init(&args, OP_MULTI);
    args.ops = steps;
    args.op_count = count;

    enum err err = zk_bench_write(&world->bench, count == 1 ? &steps[0] : &args);

    assert_int_equal(err == ERR_OK, ok);
    for (uint32_t i = 0; ok && i < count; i++) {
        apply(world, changes[i], at[i]);
    }
}

/* ---- The clients ---- */

static void send_all(struct client *client, const struct buf *bytes)
{
    ssize_t put = send(client->fd, bytes->data, bytes->len, MSG_NOSIGNAL | MSG_DONTWAIT);

    assert_int_equal(put, bytes->len);
}

static struct request *add_request(struct client *client, int32_t type, uint8_t path, int mode)
{
    struct request *request = &client->requests[client->request_count++];

    ASSERT(client->request_count < REQUESTS_MAX);
    *request = (struct request){.xid = ++client->xid, .asked = {type, path, mode}};
    return request;
}

static void ask(struct client *client, int32_t type, uint8_t path, int mode)
{
    const struct request *request = add_request(client, type, path, mode);
    struct buf out;

    buf_init(&out, IN_MAX);
    if (type == ZK_CREATE) {
        zk_ask_create(&out, request->xid, type, zk_model_paths[path], slice_str("x"), 0);
    } else if (type == ZK_SET_DATA) {
        zk_ask_set(&out, request->xid, zk_model_paths[path], slice_str("y"), -1);
    } else if (type == ZK_DELETE) {
        zk_ask_delete(&out, request->xid, zk_model_paths[path], -1);
    } else {
        zk_ask_path(&out, request->xid, type, zk_model_paths[path], mode);
    }
    send_all(client, &out);
    buf_release(&out);
}

static void ask_something(struct world *world, struct client *client)
{
    static const int32_t types[] = {ZK_GET_DATA,  ZK_EXISTS,        ZK_GET_CHILDREN2,
                                    ZK_ADD_WATCH, ZK_CHECK_WATCHES, ZK_REMOVE_WATCHES,
                                    ZK_CREATE,    ZK_SET_DATA,      ZK_DELETE};
    int32_t type = types[draw(world, sizeof(types) / sizeof(types[0]))];
    uint8_t path = (uint8_t)draw(world, ZK_MODEL_PATHS);
    int mode = 0;

    if (!world->bench.prompt && (type == ZK_CHECK_WATCHES || type == ZK_REMOVE_WATCHES)) {
        type = ZK_EXISTS; /* They also see watches of changes that are still in the window. */
    }
    if (type == ZK_CREATE || type == ZK_SET_DATA || type == ZK_DELETE) {
        path = path == 0 ? 1 : path; /* The root is always there. */
    } else if (type == ZK_CHECK_WATCHES || type == ZK_REMOVE_WATCHES) {
        mode = 1 + (int)draw(world, ZK_WATCHES_RECURSIVE);
    } else {
        mode = draw(world, 3) > 0 ? 1 : 0;
    }
    ask(client, type, path, mode);
}

/* As libraries do right after a reconnect; now and then the client says that it has seen all. */
static void set_watches(struct world *world, struct client *client)
{
    struct request *request = add_request(client, ZK_SET_WATCHES, 0, 0);
    struct buf out;

    request->since = draw(world, 4) == 0 ? world->bench.gate->zxid : client->seen;
    memcpy(request->lists, client->watched, sizeof(request->lists));
    client->set_xid = request->xid;
    buf_init(&out, IN_MAX);
    zk_model_ask(&out, request->xid, request->since, request->lists);
    send_all(client, &out);
    buf_release(&out);
}

static void leave(struct client *client)
{
    close(client->fd);
    client->fd = -1;
    client->welcome = false;
    client->set_xid = 0;
    client->request_count = 0;
    client->expected_count = 0;
    buf_clear(&client->in);
    zk_model_forget(&client->tables);
}

/* Opens a session, or takes the old one and its watches to the new connection. */
static void come(struct world *world, struct client *client)
{
    struct buf out;

    if (draw(world, 4) == 0) {
        client->session = 0;
        memset(client->watched, 0, sizeof(client->watched));
    }
    client->fd = zk_bench_dial(&world->bench, 0);
    client->fifo = world->bench.zk->fifos + 1; /* That of the next connection. */
    buf_init(&out, IN_MAX);
    zk_ask_hello(&out, client->seen, TIMEOUT_MS, client->session, client->passwd);
    send_all(client, &out);
    buf_release(&out);
    settle(world);
    assert_true(client->welcome);
    set_watches(world, client);
}

static void step(struct world *world)
{
    struct client *client = &world->clients[draw(world, CLIENTS)];
    uint32_t dice = draw(world, 100);

    if (client->fd < 0) {
        if (dice < 100 / AWAY_STEPS) {
            come(world, client);
        }
    } else if (dice < 45 && client->request_count + 2 < REQUESTS_MAX) {
        ask_something(world, client);
    } else if (dice < 65) {
        change_elsewhere(world);
    } else if (dice < 75) {
        (void)run_one(world);
    } else if (dice < 85) {
        (void)answer_one(world);
    } else if (dice < 89) {
        turn(world); /* What the client has sent is not lost. */
        leave(client);
    } else {
        turn(world);
    }
}

static void play(uint64_t seed, uint32_t *events, uint32_t *missed_events)
{
    struct world *world = mem_zalloc(1, sizeof(*world));

    rng_init(&world->rng, seed);
    zk_bench_open(&world->bench);
    world->bench.prompt = seed % 2 == 0;
    zk_model_init(world->nodes);
    for (size_t i = 0; i < CLIENTS; i++) {
        world->clients[i].fd = -1;
        world->clients[i].tables.on_event = expect_event;
        world->clients[i].tables.ctx = &world->clients[i];
        buf_init(&world->clients[i].in, IN_MAX);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        step(world);
    }
    settle(world);
    for (size_t i = 0; i < CLIENTS; i++) {
        if (world->clients[i].fd >= 0) {
            leave(&world->clients[i]);
        }
        buf_release(&world->clients[i].in);
    }
    zk_bench_close(&world->bench);
    *events += world->events;
    *missed_events += world->missed;
    mem_free(world);
}

TEST(native_clients_receive_what_zookeeper_tells)
{
    uint32_t events = 0;
    uint32_t missed_events = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        play(seed, &events, &missed_events);
    }
    print_message("%u events, %u of them after a reconnect\n", events, missed_events);
    assert_true(events > 5 * SEEDS && missed_events > SEEDS / 2);
}
