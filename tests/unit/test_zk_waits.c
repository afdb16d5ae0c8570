/* Native clients whose requests wait: for the gate, or for the events that go before their replies.
 */
#include "tests/unit/zk_bench.h"
#include "tests/unit/zk_client_kit.h"

#include <stdio.h>

/* ---- Clients that wait for the gate ---- */

static uint32_t count_inside(const struct client *client)
{
    uint32_t count = 0;

    list_for_each_entry (struct zk_call, call, node, &client->conn->calls) {
        count += call->step == ZK_INSIDE ? 1 : 0;
    }
    return count;
}

static void send_sets(struct client *client, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        zk_ask_set(&client->out, ++client->xid, "/", slice_str("x"), -1);
    }
    deliver(client);
}

/* Sends so many writes that the client must wait for the gate. */
static void ask_sets(struct client *client, uint32_t count)
{
    send_sets(client, count);
    for (int i = 0; i < ROUNDS_MAX && client->conn->stops == 0; i++) {
        zk_bench_round(&bench);
    }
    assert_true(client->conn->stops != 0);
}

TEST_BENCH(room_in_the_gate_is_shared_by_those_who_wait)
{
    enum {
        GREEDY = 29,
        MODEST = 4
    };
    struct client greedy;
    struct client modest;

    dial(&greedy, 0);
    dial(&modest, 0);
    ask_sets(&greedy, GREEDY);
    ask_sets(&modest, MODEST);
    assert_int_equal(count_inside(&greedy), bench.zk->inside_max);
    assert_int_equal(count_inside(&modest), 0);
    for (int i = 0; i < 2 * MODEST; i++) {
        assert_true(zk_bench_run(&bench, 0) && zk_bench_answer(&bench, 0));
        zk_bench_round(&bench);
        zk_bench_round(&bench);
    }
    assert_true(count_inside(&modest) >= MODEST - 1);
    await(&greedy, GREEDY);
    await(&modest, MODEST);
    hang_up(&greedy);
    hang_up(&modest);
}

/* Lets all connections have their turns. */
static void settle(void)
{
    bool more = true;

    for (int i = 0; i < ROUNDS_MAX && more; i++) {
        zk_bench_round(&bench);
        zk_bench_check(&bench);
        more = !list_empty(&bench.zk->turn) || !list_empty(&bench.zk->later);
    }
    assert_false(more);
}

/* All requests inside the gate come back at once: the room is for those that have waited longest,
 * and those whose requests have come back wait behind them. */
TEST_BENCH(room_in_the_gate_is_given_in_the_order_of_waiting)
{
    enum {
        CLIENTS = 100,
        SETS = 6,
        BATCH = 20,
        BATCHES = CLIENTS / BATCH + 1 /* The first one has several requests of some clients. */
    };
    static struct client clients[CLIENTS];

    assert_int_equal(bench.zk->inside_max, BATCH);
    for (int i = 0; i < CLIENTS; i++) {
        dial(&clients[i], 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        send_sets(&clients[i], SETS);
        settle();
    }
    for (int i = 0; i < BATCHES; i++) {
        assert_int_equal(bench.inside_count, BATCH);
        while (zk_bench_run(&bench, 0) || zk_bench_answer(&bench, 0)) {
        }
        settle();
    }
    for (int i = 0; i < CLIENTS; i++) {
        take(&clients[i]);
        assert_in_range(clients[i].replies, 1, i <= BATCH / SETS ? SETS : 2);
    }
    for (int i = 0; i < CLIENTS; i++) {
        hang_up(&clients[i]);
    }
}

TEST_BENCH(a_client_that_is_made_to_wait_is_heard)
{
    enum {
        SETS = 40
    };
    struct client client;

    dial(&client, 0);
    ask_sets(&client, SETS);
    for (int i = 0; i < 2; i++) {
        zk_bench_pass(&bench, TIMEOUT_MS);
        atomic_store(&bench.gate->touched, 0);
        zk_bench_pass(&bench, TIMEOUT_MS);
        assert_int_equal(bench.gate->touched, 0); /* It has sent nothing since. */
        zk_ask_plain(&client.out, ZK_XID_PING, ZK_PING);
        deliver(&client);
        zk_bench_pass(&bench, TIMEOUT_MS);
        assert_int_equal(bench.gate->touched, client.conn->session.id);
    }
    await(&client, SETS + 2);
    hang_up(&client);
}

/* Its bytes are in the socket; the loop has found them, or has not polled yet. */
TEST_BENCH(a_client_that_waits_for_its_turn_is_heard)
{
    struct client client;

    dial(&client, 0);
    for (uint32_t polled = 0; polled < 2; polled++) {
        zk_ask_plain(&client.out, ZK_XID_PING, ZK_PING);
        deliver(&client);
        if (polled) {
            zk_bench_round(&bench);
            assert_true(client.conn->arrived);
        }
        atomic_store(&bench.gate->touched, 0);
        zk_bench_pass(&bench, TIMEOUT_MS);
        assert_int_equal(bench.gate->touched, client.conn->session.id);
        atomic_store(&bench.gate->touched, 0);
        zk_bench_pass(&bench, TIMEOUT_MS);
        assert_int_equal(bench.gate->touched, 0); /* It has sent nothing since. */
        await(&client, polled + 1);
    }
    zk_bench_pass(&bench, TIMEOUT_MS);
    assert_int_equal(client.conn->state, ZK_CUT); /* Of a silent client nothing waits. */
    hang_up(&client);
}

/* ---- What belongs to a session ---- */

TEST_BENCH(counts_and_ephemerals_show_nothing_before_its_event)
{
    struct client client;
    zxid_t seen = 0;

    dial(&client, 0);
    write_one(OP_CREATE, "/top", "");
    ask(&client, ZK_EXISTS, "/top/a", 1);
    await(&client, 1);
    for (int i = 0; i < 2; i++) {
        write_one(OP_CREATE, i == 0 ? "/top/a" : "/top/b", "");
        seen = atomic_load(&bench.gate->applied);
        ask(&client, i == 0 ? ZK_GET_ALL_CHILDREN_NUMBER : ZK_GET_EPHEMERALS, "/top", -1);
        await(&client, 2 + (uint32_t)i);
        assert_int_equal(client.events, 1);
        assert_int_equal(client.err, 0);
        assert_true(client.zxid >= seen);
    }
    hang_up(&client);
}

enum {
    EPHEMERALS = VIEW_NODES_MAX + 200
};

/* Reads one page of the client's ephemerals, and deletes the first of them. */
static void begin_ephemerals(struct client *client, bool watches)
{
    enum {
        PATH_MAX_BYTES = 16
    };

    char path[PATH_MAX_BYTES];

    dial(client, 0);
    for (int i = 0; i < EPHEMERALS; i++) {
        (void)snprintf(path, sizeof(path), "/%06d", i);
        zk_ask_create(&client->out, ++client->xid, ZK_CREATE, path, slice_str(""), 1);
    }
    ask(client, ZK_EXISTS, "/000000", watches ? 1 : 0);
    await(client, EPHEMERALS + 1);
    ask(client, ZK_GET_EPHEMERALS, "", -1);
    deliver(client);
    for (int i = 0; i < ROUNDS_MAX && list_empty(&bench.zk->places); i++) {
        step(client);
    }
    write_one(OP_DELETE, "/000000", "");
}

/* The reply must have all ephemerals but the first one. */
static void end_ephemerals(struct client *client)
{
    struct wire_reader reader;

    await(client, EPHEMERALS + 2);
    assert_int_equal(client->err, 0);
    wire_reader_init(&reader, buf_slice(&client->last));
    assert_int_equal(zk_get_int(&reader), EPHEMERALS - 1);
    assert_true(slice_eq(zk_get_bytes(&reader), slice_str("/000001")));
}

TEST_BENCH(ephemerals_that_change_while_they_are_read_are_read_again)
{
    struct client client;

    begin_ephemerals(&client, true);
    end_ephemerals(&client);
    assert_int_equal(client.events, 1);
    hang_up(&client);
}

/* No change was handed out, and the client has no watch whose loss ends its connection. */
TEST_BENCH(ephemerals_are_read_again_when_changes_were_lost)
{
    struct client client;

    begin_ephemerals(&client, false);
    zk_bench_replace(&bench);
    end_ephemerals(&client);
    hang_up(&client);
}

/* ---- Missed events ---- */

/* Libraries keep the zxid of each header, and set their watches from there when they connect again.
 */
TEST_BENCH(no_header_has_a_zxid_above_events_that_set_watches_has_not_sent)
{
    enum {
        PATHS = 40,
        PATH_MAX_BYTES = 16
    };

    static char text[PATHS][PATH_MAX_BYTES];
    static const char *none[PATHS];
    static const char *const early = "/early";
    static const char *const late = "/late";
    struct zk_ask_list first[ZK_LISTS] = {
        [ZK_LIST_DATA] = {&early, 1}, [ZK_LIST_EXISTS] = {none, PATHS}};
    struct zk_ask_list second[ZK_LISTS] = {[ZK_LIST_DATA] = {&late, 1}};
    struct client client;

    for (int i = 0; i < PATHS; i++) {
        (void)snprintf(text[i], PATH_MAX_BYTES, "/none%d", i);
        none[i] = text[i];
    }
    write_one(OP_CREATE, early, "");
    write_one(OP_CREATE, late, "");
    zxid_t since = atomic_load(&bench.gate->applied);

    write_one(OP_SET, late, "missed");
    dial(&client, 0);
    zk_ask_watches(&client.out, ++client.xid, since, first);
    zk_ask_watches(&client.out, ++client.xid, since, second);
    deliver(&client);
    step(&client);
    assert_in_range(client.conn->owner.count, 1, PATHS);
    write_one(OP_SET, early, "x");
    while (client.events < 2) {
        zk_ask_plain(&client.out, ZK_XID_PING, ZK_PING);
        deliver(&client);
        step(&client);
        assert_true(client.events == 2 || client.most <= since);
    }
    assert_true(client.pings > 1);
    await(&client, client.pings + 2);
    assert_int_equal(client.err, 0);
    assert_int_equal(client.most, bench.gate->applied);
    hang_up(&client);
}

/* The Java client sends many watches in several frames. */
TEST_BENCH(no_header_has_a_zxid_while_a_set_watches_arrives)
{
    static const char *const early = "/early";
    static const char *const late = "/late";
    struct zk_ask_list first[ZK_LISTS] = {[ZK_LIST_DATA] = {&early, 1}};
    struct zk_ask_list second[ZK_LISTS] = {[ZK_LIST_DATA] = {&late, 1}};
    struct client client;
    struct buf rest;

    write_one(OP_CREATE, early, "");
    write_one(OP_CREATE, late, "");
    zxid_t since = atomic_load(&bench.gate->applied);

    write_one(OP_SET, late, "missed");
    dial(&client, 0);
    buf_init(&rest, ROOM);
    zk_ask_watches(&rest, 2, since, second);
    zk_ask_watches(&client.out, ++client.xid, since, first);
    (void)buf_append(&client.out, rest.data, ZK_HEAD_BYTES);
    await(&client, 1);
    write_one(OP_SET, early, "x");
    for (int i = 0; i < ROUNDS_MAX && client.events == 0; i++) {
        round_all();
        take(&client);
    }
    assert_int_equal(client.most, 0);
    (void)buf_append_slice(&client.out, slice_from(buf_slice(&rest), ZK_HEAD_BYTES));
    await(&client, 2);
    assert_int_equal(client.events, 2);
    assert_int_equal(client.most, bench.gate->applied);
    buf_release(&rest);
    hang_up(&client);
}

/* ---- Queues ---- */

TEST(keys_take_turns_in_a_queue)
{
    enum {
        NODES = 7,
        LATE = 3
    };

    static const uint64_t keys[NODES] = {1, 1, 1, 2, 2, 3, 1};
    static const size_t order[NODES] = {0, 3, 5, 1, 4, 2, 6};
    struct zk_fair nodes[NODES];
    struct zk_fair late;
    struct list queue;

    list_init(&queue);
    for (size_t i = 0; i < NODES; i++) {
        zk_fair_push(&queue, &nodes[i], keys[i], 0);
    }
    for (size_t i = 0; i < NODES; i++) {
        assert_ptr_equal(list_pop(&queue), &nodes[order[i]].node);
        if (i == LATE) { /* A new key waits behind one node of each other one, if that is next. */
            zk_fair_push(&queue, &late, 4, 0);
            assert_ptr_equal(queue.next->next, &late.node);
            list_remove(&late.node);
        }
    }
    assert_true(list_empty(&queue));
}

/* ---- Places for long lists ---- */

enum {
    PLACE_CALLS = 8,
    PLACE_TIMEOUT_MS = 10
};

/* Calls of connections that do nothing else: three of an address, three of another, and two. */
static struct {
    struct zk zk;
    struct config_clients limits;
    struct zk_conn conns[PLACE_CALLS];
    struct zk_call calls[PLACE_CALLS];
} places;

static void open_places(void)
{
    memset(&places, 0, sizeof(places));
    places.limits.request_timeout_ms = PLACE_TIMEOUT_MS;
    places.zk.limits = &places.limits;
    places.zk.now_us = 1;
    list_init(&places.zk.turn);
    list_init(&places.zk.places);
    list_init(&places.zk.placeless);
    for (size_t i = 0; i < PLACE_CALLS; i++) {
        places.conns[i].zk = &places.zk;
        list_init(&places.conns[i].turn);
        list_init(&places.conns[i].longs.node);
        places.calls[i].zk = &places.zk;
        places.calls[i].conn = &places.conns[i];
        places.calls[i].address_key = i / 3;
        list_init(&places.calls[i].place.node);
    }
}

static bool want_place(size_t call)
{
    return zk_place_take(&places.calls[call]);
}

static void leave_place(size_t call)
{
    zk_place_give(&places.calls[call]);
}

TEST(an_address_with_many_lists_does_not_keep_another_from_a_place)
{
    enum {
        LISTS = 1000
    };

    static const size_t wanted[] = {0, 1, 2, 3, 4, 6, 7};

    open_places();
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        (void)want_place(wanted[i]);
    }
    leave_place(3);
    (void)want_place(3);
    leave_place(6);
    (void)want_place(5);
    for (size_t i = 0; i < LISTS && !places.calls[7].placed; i++) {
        leave_place(3 + i % 3);
        (void)want_place(3 + i % 3);
    }
    assert_true(places.calls[7].placed);
    assert_false(places.calls[2].placed); /* The first two of its address have never left. */
}

TEST(a_call_that_has_waited_for_its_place_has_time_to_use_it)
{
    struct zk_call *waits = &places.calls[2];

    open_places();
    assert_true(want_place(0) && want_place(1) && !want_place(2));
    places.zk.now_us += 1000 * PLACE_TIMEOUT_MS - 1;
    assert_false(zk_place_is_late(waits));
    leave_place(0);
    assert_true(want_place(2));
    places.zk.now_us += 1000 * PLACE_TIMEOUT_MS - 1;
    assert_true(want_place(2));
    assert_false(zk_place_is_late(waits));
    places.zk.now_us++;
    assert_true(zk_place_is_late(waits));
}

/* When it gets the place and its client does not read yet, it passes the place on. */
TEST(a_call_whose_client_does_not_read_waits_for_its_place_as_before)
{
    struct zk_call *first = &places.calls[2];
    struct zk_call *second = &places.calls[3];

    open_places();
    second->address_key = first->address_key;
    assert_true(want_place(0) && want_place(1) && !want_place(2) && !want_place(3));
    uint64_t since_us = places.zk.now_us++;

    zk_run_again(first);
    assert_int_equal(first->place_since_us, since_us);
    leave_place(0);
    assert_true(first->placed && !second->placed);
    assert_false(list_empty(&first->conn->turn));
    zk_run_again(first);
    assert_true(!first->placed && second->placed);
    assert_false(list_empty(&second->conn->turn));
    assert_false(want_place(2));
    leave_place(1);
    assert_true(first->placed);
}
