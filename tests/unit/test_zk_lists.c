/* Long lists of children, which native clients get in one piece. */
#include "tests/unit/zk_bench.h"
#include "tests/unit/zk_client_kit.h"

#include <stdio.h>

enum {
    LONG = 2 * VIEW_NODES_MAX + 500, /* Children that take three pages. */
    NAME_MAX_BYTES = 32
};

static void add_child(const char *parent, uint32_t number)
{
    char path[NAME_MAX_BYTES];

    (void)snprintf(path, sizeof(path), "%s/%06u", parent, number);
    write_one(OP_CREATE, path, "");
}

static void make_list(const char *path, uint32_t count)
{
    write_one(OP_CREATE, path, "");
    for (uint32_t i = 0; i < count; i++) {
        add_child(path, i);
    }
}

static uint32_t count_places(void)
{
    uint32_t count = 0;

    for (const struct list *it = bench.zk->places.next; it != &bench.zk->places; it = it->next) {
        count++;
    }
    return count;
}

/* Reads a list of children, which must be the first `count` numbers; returns `count`. */
static uint32_t take_list(struct wire_reader *reader)
{
    uint32_t number = (uint32_t)zk_get_int(reader);

    for (uint32_t i = 0; i < number; i++) {
        char name[NAME_MAX_BYTES];

        (void)snprintf(name, sizeof(name), "%06u", i);
        assert_true(slice_eq(zk_get_bytes(reader), slice_str(name)));
    }
    return number;
}

/* A multiRead of `count` lists, and of the data of another znode behind them. */
static void ask_lists(struct client *client, const char *list, const char *data, uint32_t count)
{
    size_t frame = zk_ask_begin(&client->out, ++client->xid, ZK_MULTI_READ);

    for (uint32_t i = 0; i <= count; i++) {
        zk_put_int(&client->out, i < count ? ZK_GET_CHILDREN : ZK_GET_DATA);
        zk_put_bool(&client->out, false);
        zk_put_int(&client->out, -1);
        zk_put_bytes(&client->out, slice_str(i < count ? list : data));
        zk_put_bool(&client->out, false);
    }
    zk_put_int(&client->out, -1);
    zk_put_bool(&client->out, true);
    zk_put_int(&client->out, -1);
    zk_frame_end(&client->out, frame);
}

static void skip_head(struct wire_reader *reader, int32_t type)
{
    assert_int_equal(zk_get_int(reader), type);
    (void)zk_get_bool(reader);
    assert_int_equal(zk_get_int(reader), 0);
}

TEST_BENCH(a_long_list_is_of_one_state_while_it_changes)
{
    struct client client;
    struct wire_reader reader;
    uint32_t count = LONG;
    int32_t version = 0;

    make_list("/long", count);
    dial(&client, 0);
    ask(&client, ZK_GET_CHILDREN2, "/long", 1);
    deliver(&client);
    for (int i = 0; i < ROUNDS_MAX && client.replies == 0; i++) {
        step(&client);
        if (client.replies == 0) {
            add_child("/long", count++);
            write_one(OP_SET, "/long", "x");
            version++;
        }
    }
    assert_int_equal(client.replies, 1);
    assert_int_equal(client.err, 0);
    wire_reader_init(&reader, buf_slice(&client.last));
    assert_int_equal(take_list(&reader), count);
    for (int i = 0; i < 4; i++) {
        (void)zk_get_long(&reader);
    }
    assert_int_equal(zk_get_int(&reader), version);
    assert_int_equal(client.zxid, bench.gate->applied);
    assert_int_equal(client.events, 0);
    add_child("/long", count);
    for (int i = 0; i < ROUNDS_MAX && client.events == 0; i++) {
        round_all();
        take(&client);
    }
    assert_int_equal(client.events, 1);
    hang_up(&client);
}

TEST_BENCH(a_multi_of_long_lists_is_of_one_state)
{
    enum {
        LISTS = 3
    };
    struct client client;
    struct wire_reader reader;
    uint32_t count = LONG;
    char text[NAME_MAX_BYTES];

    make_list("/long", count);
    write_one(OP_CREATE, "/count", "2500");
    dial(&client, 0);
    ask_lists(&client, "/long", "/count", LISTS);
    deliver(&client);
    for (int i = 0; i < ROUNDS_MAX && client.replies == 0; i++) {
        step(&client);
        if (i % 4 == 1 && client.replies == 0) {
            add_child("/long", count++);
            (void)snprintf(text, sizeof(text), "%u", count);
            write_one(OP_SET, "/count", text);
        }
    }
    assert_int_equal(client.replies, 1);
    assert_int_equal(client.err, 0);
    assert_true(count > LONG);
    wire_reader_init(&reader, buf_slice(&client.last));
    for (int i = 0; i < LISTS; i++) {
        skip_head(&reader, ZK_GET_CHILDREN);
        assert_int_equal(take_list(&reader), count);
    }
    skip_head(&reader, ZK_GET_DATA);
    assert_true(slice_eq(zk_get_bytes(&reader), slice_str(text)));
    hang_up(&client);
}

TEST_BENCH(long_lists_leave_the_thread_to_others_and_few_are_read_at_a_time)
{
    enum {
        CLIENTS = 8,
        LISTS = 10
    };
    static struct client clients[CLIENTS];
    struct client modest;
    uint32_t most = 0;

    make_list("/long", LONG);
    dial(&modest, 0);
    for (int i = 0; i < CLIENTS; i++) {
        dial(&clients[i], 0);
        ask_lists(&clients[i], "/long", "/", LISTS);
        deliver(&clients[i]);
        turn(&clients[i], 1);
        turn(&clients[i], 1); /* However fast this machine is, a page is read and others are not. */
        most = max_u32(count_places(), most);
    }
    for (int i = 0; i < ROUNDS_MAX && modest.pings < 2; i++) {
        if (modest.pings == 0 || clients[0].replies > 0) {
            zk_ask_plain(&modest.out, ZK_XID_PING, ZK_PING);
            deliver(&modest);
        }
        for (int k = 0; k < 3; k++) {
            round_all();
            most = max_u32(count_places(), most);
        }
        take(&modest);
        take(&clients[0]);
        assert_true(modest.pings > 0);
    }
    assert_in_range(most, 1, 4);
    for (int i = 0; i < CLIENTS; i++) {
        await(&clients[i], 1);
        assert_int_equal(clients[i].err, 0);
        hang_up(&clients[i]);
    }
    assert_int_equal(count_places(), 0);
    hang_up(&modest);
}

/* So are the ephemerals of a session. */
TEST_BENCH(many_ephemerals_leave_the_thread_to_others)
{
    enum {
        EPHEMERALS = LONG,
        PAGES = EPHEMERALS / VIEW_NODES_MAX
    };
    struct client client;
    struct wire_reader reader;
    char path[NAME_MAX_BYTES];
    int steps = 0;

    dial(&client, 0);
    for (int i = 0; i < EPHEMERALS; i++) {
        (void)snprintf(path, sizeof(path), "/%06d", i);
        zk_ask_create(&client.out, ++client.xid, ZK_CREATE, path, slice_str(""), 1);
    }
    await(&client, EPHEMERALS);
    assert_int_equal(client.err, 0);
    ask(&client, ZK_GET_EPHEMERALS, "", -1);
    deliver(&client);
    while (client.replies == EPHEMERALS && steps < ROUNDS_MAX) {
        step(&client);
        steps++;
    }
    assert_true(steps > PAGES);
    assert_int_equal(client.err, 0);
    wire_reader_init(&reader, buf_slice(&client.last));
    assert_int_equal(zk_get_int(&reader), EPHEMERALS);
    for (int i = 0; i < EPHEMERALS; i++) {
        (void)snprintf(path, sizeof(path), "/%06d", i);
        assert_true(slice_eq(zk_get_bytes(&reader), slice_str(path)));
    }
    hang_up(&client);
}

TEST_BENCH(a_reply_that_is_too_large_is_refused_before_it_is_read)
{
    enum {
        LISTS = 9000,
        CHILDREN = 1600
    };
    struct client client;

    bench.zk->frames.multi_ops_max = LISTS + 1;
    bench.zk->frames.multi_bytes_max = 1 << 20;
    make_list("/long", CHILDREN);
    dial(&client, 0);
    ask_lists(&client, "/long", "/", LISTS);
    await(&client, 1);
    assert_int_equal(client.err, ZK_THROTTLED);
    ask(&client, ZK_EXISTS, "/", 0);
    await(&client, 2);
    assert_int_equal(client.err, 0);
    hang_up(&client);
}

TEST_BENCH(a_client_that_leaves_ends_the_reading_of_its_list)
{
    struct client client;

    make_list("/long", LONG);
    dial(&client, 0);
    ask(&client, ZK_GET_CHILDREN, "/long", 0);
    deliver(&client);
    step(&client);
    step(&client);
    assert_int_equal(count_places(), 1);
    hang_up(&client);
    for (int i = 0; i < ROUNDS_MAX && bench.seats > 0; i++) {
        round_all();
    }
    assert_int_equal(count_places(), 0);
}

/* Asks for the list, of which one page is read. */
static void begin_list(struct client *client)
{
    ask(client, ZK_GET_CHILDREN, "/long", 0);
    deliver(client);
    for (int i = 0; i < ROUNDS_MAX && list_empty(&client->conn->calls); i++) {
        turn(client, 1);
    }
    assert_false(list_empty(&client->conn->calls));
}

enum {
    PINGS = 4000, /* Their replies are longer than ROOM. */
    LONG_TURN_US = 10000000
};

/* Sends pings, whose replies the client does not read. */
static uint32_t ping(struct client *client)
{
    for (int i = 0; i < PINGS; i++) {
        zk_ask_plain(&client->out, ZK_XID_PING, ZK_PING);
    }
    deliver(client);
    assert_int_equal(client->out.len, 0);
    turn(client, LONG_TURN_US);
    return PINGS;
}

TEST_BENCH(clients_that_do_not_read_leave_the_reading_of_lists_to_others)
{
    enum {
        CLIENTS = 4
    };
    static struct client clients[CLIENTS];
    uint32_t asked[CLIENTS] = {0};
    struct client modest;

    make_list("/long", LONG);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        dial(&clients[i], ROOM);
        clients[i].conn->address_key = 1 + i / 2;
        while (zk_out_unsent(clients[i].conn) + ROOM < ZK_UNREAD_BYTES) {
            asked[i] += ping(&clients[i]);
        }
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        begin_list(&clients[i]);
        assert_int_equal(count_places(), i + 1);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        asked[i] += ping(&clients[i]);
        assert_true(clients[i].conn->stops & ZK_STOP_UNREAD);
    }
    dial(&modest, 0);
    ask(&modest, ZK_GET_CHILDREN, "/long", 0);
    await(&modest, 1);
    assert_int_equal(modest.err, 0);
    hang_up(&modest);
    for (uint32_t i = 0; i < CLIENTS; i++) { /* Once they read, they get their lists. */
        await(&clients[i], asked[i] + 1);
        assert_int_equal(clients[i].pings, asked[i]);
        assert_int_equal(clients[i].err, 0);
        hang_up(&clients[i]);
    }
}

TEST_BENCH(clients_of_one_address_have_a_part_of_the_places)
{
    enum {
        CLIENTS = 4
    };
    static struct client clients[CLIENTS];

    make_list("/long", LONG);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        dial(&clients[i], 0);
    }
    clients[CLIENTS - 1].conn->address_key = 1;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        begin_list(&clients[i]);
    }
    assert_int_equal(count_places(), 3);
    assert_non_null(list_first(&clients[CLIENTS - 1].conn->calls, struct zk_call, node)->gather);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        await(&clients[i], 1);
        assert_int_equal(clients[i].err, 0);
        hang_up(&clients[i]);
    }
}

/* The last hold visits a bounded number of children, and a list that left it does not count. */
TEST_BENCH(a_list_that_grows_fast_for_a_while_is_read_in_the_end)
{
    enum {
        JUMPS = 8
    };
    struct client client;
    uint32_t count = LONG;
    uint32_t jumps = 0;

    make_list("/long", count);
    dial(&client, 0);
    ask_lists(&client, "/long", "/", 1);
    deliver(&client);
    step(&client);
    const struct zk_call *call = list_first(&client.conn->calls, struct zk_call, node);

    for (int i = 0; i < ROUNDS_MAX && client.replies == 0; i++) {
        bool in_hold = call->req.args.ops[0].op == OP_CHILDREN;
        uint32_t grows = in_hold && jumps < JUMPS ? VIEW_NODES_MAX + 1 : 1;

        jumps += grows > 1 ? 1 : 0;
        while (grows-- > 0) {
            add_child("/long", count++);
        }
        step(&client);
    }
    assert_int_equal(jumps, JUMPS);
    assert_int_equal(client.replies, 1);
    assert_int_equal(client.err, 0);
    hang_up(&client);
}

/* A place goes to a client that waits for it, before the next list of the one that had it. */
TEST_BENCH(a_client_with_many_lists_leaves_its_place_to_those_who_wait)
{
    enum {
        CLIENTS = 3 /* Of one address, which has two places. */
    };
    static struct client clients[CLIENTS];
    struct client *greedy = &clients[0];
    struct client *waits = &clients[CLIENTS - 1];

    make_list("/long", LONG);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        dial(&clients[i], 0);
    }
    ask(greedy, ZK_GET_CHILDREN, "/long", 0);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        begin_list(&clients[i]);
    }
    assert_int_equal(count_places(), 2);
    for (int i = 0; i < ROUNDS_MAX && greedy->replies == 0; i++) {
        step(greedy);
    }
    step(greedy);
    step(waits);
    assert_non_null(list_first(&waits->conn->calls, struct zk_call, node)->gather);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        await(&clients[i], i == 0 ? 2 : 1);
        assert_int_equal(clients[i].err, 0);
        hang_up(&clients[i]);
    }
}

TEST_BENCH(a_list_that_waits_too_long_for_its_place_is_refused)
{
    enum {
        CLIENTS = 3 /* Of one address, which has two places. */
    };
    static struct client clients[CLIENTS];
    struct client *waits = &clients[CLIENTS - 1];

    make_list("/long", LONG);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        dial(&clients[i], 0);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        begin_list(&clients[i]);
    }
    step(waits);
    zk_tick(bench.zk);
    assert_true(list_empty(&waits->conn->turn));
    list_first(&waits->conn->calls, struct zk_call, node)->place_since_us -=
        1000 * (uint64_t)bench.gate->limits.request_timeout_ms;
    zk_tick(bench.zk);
    assert_false(list_empty(&waits->conn->turn));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        await(&clients[i], 1);
        assert_int_equal(clients[i].err, i < CLIENTS - 1 ? 0 : ZK_THROTTLED);
        hang_up(&clients[i]);
    }
}

/* Many ephemerals are a long list, too. */
TEST_BENCH(ephemerals_are_read_for_few_clients_at_a_time)
{
    enum {
        CLIENTS = 4,
        EPHEMERALS = VIEW_NODES_MAX + 200
    };
    static struct client clients[CLIENTS];
    struct wire_reader reader;
    char path[NAME_MAX_BYTES];
    uint32_t kept = 0;

    for (int i = 0; i < CLIENTS; i++) {
        dial(&clients[i], 0);
        for (int k = 0; k < EPHEMERALS; k++) {
            (void)snprintf(path, sizeof(path), "/%d-%06d", i, k);
            zk_ask_create(&clients[i].out, ++clients[i].xid, ZK_CREATE, path, slice_str(""), 1);
        }
        await(&clients[i], EPHEMERALS);
    }
    for (int i = 0; i < CLIENTS; i++) {
        ask(&clients[i], ZK_GET_EPHEMERALS, "", -1);
        deliver(&clients[i]);
        step(&clients[i]);
        kept += list_first(&clients[i].conn->calls, struct zk_call, node)->names.len > 0 ? 1 : 0;
    }
    assert_in_range(kept, 1, 2);
    for (int i = 0; i < CLIENTS; i++) {
        await(&clients[i], EPHEMERALS + 1);
        assert_int_equal(clients[i].err, 0);
        wire_reader_init(&reader, buf_slice(&clients[i].last));
        assert_int_equal(zk_get_int(&reader), EPHEMERALS);
        (void)snprintf(path, sizeof(path), "/%d-%06d", i, 0);
        assert_true(slice_eq(zk_get_bytes(&reader), slice_str(path)));
        hang_up(&clients[i]);
    }
}

TEST_BENCH(a_list_that_was_read_is_not_late_because_it_waits_to_be_written)
{
    enum {
        CHILDREN = VIEW_NODES_MAX + 200,
        NAME_BYTES = 2000
    };

    static char path[NAME_BYTES + NAME_MAX_BYTES];
    struct client client;

    write_one(OP_CREATE, "/long", "");
    for (int i = 0; i < CHILDREN; i++) {
        (void)snprintf(path, sizeof(path), "/long/%0*d", NAME_BYTES, i);
        write_one(OP_CREATE, path, "");
    }
    dial(&client, 0);
    ask(&client, ZK_GET_CHILDREN, "/long", 0);
    deliver(&client);
    for (int i = 0; i < ROUNDS_MAX && !zk_turn_awaits_long(bench.zk); i++) {
        step(&client);
    }
    list_first(&client.conn->calls, struct zk_call, node)->place_since_us -=
        1000 * (uint64_t)bench.gate->limits.request_timeout_ms;
    await(&client, 1);
    assert_int_equal(client.err, 0);
    hang_up(&client);
}

/* Several requests without time to be answered: what is kept is dropped with the place. */
TEST_BENCH(ephemerals_of_a_client_that_does_not_read_are_dropped)
{
    struct client client;
    char path[NAME_MAX_BYTES];
    uint32_t asked = LONG;

    dial(&client, ROOM);
    for (int i = 0; i < LONG; i++) {
        (void)snprintf(path, sizeof(path), "/%06d", i);
        zk_ask_create(&client.out, ++client.xid, ZK_CREATE, path, slice_str(""), 1);
    }
    await(&client, LONG);
    while (zk_out_unsent(client.conn) + ROOM < ZK_UNREAD_BYTES) {
        asked += ping(&client);
    }
    ask(&client, ZK_GET_EPHEMERALS, "", -1);
    deliver(&client);
    turn(&client, 1);
    const struct zk_call *call = list_first(&client.conn->calls, struct zk_call, node);

    assert_true(call->names.len > 0);
    assert_int_equal(count_places(), 1);
    asked += ping(&client);
    assert_true(client.conn->stops & ZK_STOP_UNREAD);
    assert_int_equal(call->names.cap, 0);
    assert_int_equal(count_places(), 0);
    await(&client, asked + 1);
    assert_int_equal(client.err, 0);
    hang_up(&client);
}

/* ---- A count of many znodes ---- */

TEST_BENCH(a_count_leaves_the_thread_to_others)
{
    struct client client;
    struct wire_reader reader;
    int steps = 0;

    make_list("/long", LONG);
    dial(&client, 0);
    ask(&client, ZK_GET_ALL_CHILDREN_NUMBER, "/long", -1);
    deliver(&client);
    while (client.replies == 0 && steps < ROUNDS_MAX) {
        step(&client);
        steps++;
    }
    assert_true(steps > LONG / VIEW_NODES_MAX);
    assert_int_equal(client.err, 0);
    wire_reader_init(&reader, buf_slice(&client.last));
    assert_int_equal(zk_get_int(&reader), LONG);
    hang_up(&client);
}

TEST_BENCH(a_count_ends_at_its_bound_although_the_turn_is_over)
{
    enum {
        COUNTED_MAX = 1000000
    };
    struct client client;

    make_list("/long", LONG);
    dial(&client, 0);
    ask(&client, ZK_GET_ALL_CHILDREN_NUMBER, "/long", -1);
    deliver(&client);
    for (int i = 0; i < ROUNDS_MAX && list_empty(&client.conn->calls); i++) {
        step(&client);
    }
    list_first(&client.conn->calls, struct zk_call, node)->counted = COUNTED_MAX;
    step(&client);
    assert_int_equal(client.replies, 1);
    assert_int_equal(client.err, ZK_THROTTLED);
    hang_up(&client);
}
