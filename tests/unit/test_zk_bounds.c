/* What a native client cannot do to the others: hold the thread, or use up memory. */
#include "tests/unit/zk_bench.h"
#include "tests/unit/zk_client_kit.h"

#include <stdio.h>

/* ---- Time ---- */

TEST_BENCH(a_client_that_asks_without_end_leaves_the_thread_to_others)
{
    enum {
        READS = 40,
        READ_MS = 2
    };
    struct client greedy;
    struct client modest;

    dial(&greedy, 0);
    dial(&modest, 0);
    atomic_store(&bench.gate->stand_ms, READ_MS);
    for (int i = 0; i < READS; i++) {
        ask(&greedy, ZK_EXISTS, "/", 0);
    }
    deliver(&greedy);
    zk_ask_plain(&modest.out, ZK_XID_PING, ZK_PING);
    deliver(&modest);
    while (modest.pings == 0) {
        round_all();
        take(&greedy);
        take(&modest);
        assert_true(greedy.replies < READS);
    }
    assert_true(greedy.replies <= 2 * (ZK_WORK_US / (1000 * READ_MS) + 1));
    await(&greedy, READS);
    hang_up(&greedy);
    hang_up(&modest);
}

/* Over TLS each reply is a write of its own. */
TEST_BENCH(pings_over_tls_leave_the_thread_to_others)
{
    enum {
        PINGS = 4000,
        WRITES = 50
    };
    struct client client;

    dial(&client, 0);
    client.conn->secure = true;
    for (int i = 0; i < PINGS; i++) {
        zk_ask_plain(&client.out, ZK_XID_PING, ZK_PING);
    }
    deliver(&client);
    assert_int_equal(client.out.len, 0);
    step(&client);
    assert_in_range(client.pings, 1, WRITES);
    while (client.conn->replied < PINGS) {
        client.conn->full = true;
        round_all();
    }
    uint32_t before = client.pings;

    client.conn->full = false;
    step(&client);
    assert_in_range(client.pings - before, 1, WRITES);
    await(&client, PINGS);
    hang_up(&client);
}

TEST_BENCH(those_who_had_their_turn_wait_behind_those_who_had_none)
{
    enum {
        CLIENTS = 12,
        READS = 30,
        READ_MS = 4
    };
    static struct client clients[CLIENTS];

    for (int i = 0; i < CLIENTS; i++) {
        dial(&clients[i], 0);
    }
    atomic_store(&bench.gate->stand_ms, READ_MS);
    for (int i = 0; i < CLIENTS; i++) {
        for (int k = 0; k < READS; k++) {
            ask(&clients[i], ZK_EXISTS, "/", 0);
        }
        deliver(&clients[i]);
    }
    uint32_t fewest = 0;
    uint32_t most = 0;

    while (fewest < 2) {
        round_all();
        fewest = READS;
        most = 0;
        for (int i = 0; i < CLIENTS; i++) {
            take(&clients[i]);
            fewest = min_u32(clients[i].replies, fewest);
            most = max_u32(clients[i].replies, most);
        }
        assert_true(most < READS / 2);
    }
    for (int i = 0; i < CLIENTS; i++) {
        hang_up(&clients[i]);
    }
}

TEST_BENCH(set_watches_leaves_the_thread_to_others)
{
    enum {
        PATHS = 900,
        PATH_MAX_BYTES = 16,
        STEP_PATHS = 50
    };

    static char text[PATHS][PATH_MAX_BYTES];
    static const char *paths[PATHS];
    struct zk_ask_list lists[ZK_LISTS] = {[ZK_LIST_EXISTS] = {paths, PATHS}};
    struct client client;

    bench.gate->limits.watches_max = PATHS;
    for (int i = 0; i < PATHS; i++) {
        (void)snprintf(text[i], PATH_MAX_BYTES, "/w%d", i);
        paths[i] = text[i];
    }
    dial(&client, 0);
    zk_ask_watches(&client.out, ++client.xid, 0, lists);
    deliver(&client);
    step(&client);
    assert_in_range(client.conn->owner.count, 1, STEP_PATHS);
    await(&client, 1);
    assert_int_equal(client.err, 0);
    assert_int_equal(client.conn->owner.count, PATHS);
    hang_up(&client);
}

/* ---- Memory ---- */

TEST_BENCH(pings_of_a_client_that_does_not_read_are_not_answered)
{
    enum {
        PINGS = 300000
    };
    struct client client;

    dial(&client, ROOM);
    for (int i = 0; i < PINGS; i++) {
        zk_ask_plain(&client.out, ZK_XID_PING, ZK_PING);
    }
    for (int i = 0; i < ROUNDS_MAX && client.out.len > 0; i++) {
        deliver(&client);
        round_all();
        assert_true(zk_out_unsent(client.conn) <= ZK_UNREAD_BYTES + 2 * (size_t)READ_BYTES);
        if (client.conn->stops & ZK_STOP_UNREAD) {
            break;
        }
    }
    assert_true(client.conn->stops & ZK_STOP_UNREAD);
    await(&client, PINGS); /* Once it reads, it gets all of them. */
    assert_int_equal(client.pings, PINGS);
    hang_up(&client);
}

/* A multiRead of the data of one znode, `count` times. */
static void ask_data(struct client *client, const char *path, uint32_t count)
{
    size_t frame = zk_ask_begin(&client->out, ++client->xid, ZK_MULTI_READ);

    for (uint32_t i = 0; i <= count; i++) {
        zk_put_int(&client->out, i < count ? ZK_GET_DATA : -1);
        zk_put_bool(&client->out, i == count);
        zk_put_int(&client->out, -1);
        if (i < count) {
            zk_put_bytes(&client->out, slice_str(path));
            zk_put_bool(&client->out, false);
        }
    }
    zk_frame_end(&client->out, frame);
}

TEST_BENCH(an_event_does_not_cut_a_client_with_a_long_reply)
{
    enum {
        DATA_BYTES = 30000,
        READS = 60,
        EVENTS_BYTES = 100000
    };

    static uint8_t data[DATA_BYTES];
    struct client client;
    struct client other;

    bench.gate->limits.socket_queue_bytes_max = EVENTS_BYTES;
    dial(&other, 0);
    create(&other, "/long", slice_make(data, DATA_BYTES));
    create(&other, "/seen", slice_str("x"));
    dial(&client, ROOM);
    ask(&client, ZK_GET_DATA, "/seen", 1);
    await(&client, 1);
    ask_data(&client, "/long", READS);
    deliver(&client);
    for (int i = 0; i < ROUNDS_MAX && zk_out_unsent(client.conn) < ZK_UNREAD_BYTES; i++) {
        round_all();
    }
    assert_true(zk_out_unsent(client.conn) > ZK_UNREAD_BYTES + EVENTS_BYTES);
    zk_ask_set(&other.out, ++other.xid, "/seen", slice_str("y"), -1);
    await(&other, 3);
    await(&client, 2);
    assert_true(client.last.len > READS * (size_t)DATA_BYTES);
    for (int i = 0; i < ROUNDS_MAX && client.events == 0; i++) {
        round_all();
        take(&client);
    }
    assert_int_equal(client.events, 1);
    assert_false(client.ended);
    hang_up(&client);
    hang_up(&other);
}

TEST_BENCH(a_reply_of_too_much_data_is_refused_before_it_is_written)
{
    enum {
        DATA_BYTES = 1 << 16,
        READS = (16 << 20) / DATA_BYTES
    };

    static uint8_t data[DATA_BYTES];
    struct client client;

    bench.zk->frames.multi_ops_max = READS;
    dial(&client, 0);
    create(&client, "/long", slice_make(data, DATA_BYTES));
    ask_data(&client, "/long", READS);
    await(&client, 2);
    assert_int_equal(client.err, ZK_THROTTLED);
    assert_int_equal(client.last.len, 0);
    ask_data(&client, "/long", READS - 1);
    await(&client, 3);
    assert_int_equal(client.err, 0);
    assert_true(client.last.len > (READS - 1) * (size_t)DATA_BYTES);
    hang_up(&client);
}

TEST_BENCH(long_replies_are_written_behind_the_turns_of_others)
{
    enum {
        CLIENTS = 5,
        DATA_BYTES = 1 << 16,
        READS = (3 << 20) / DATA_BYTES
    };

    static uint8_t data[DATA_BYTES];
    static struct client clients[CLIENTS];
    struct client modest;
    uint64_t written = 0;

    dial(&modest, 0);
    create(&modest, "/long", slice_make(data, DATA_BYTES));
    for (int i = 0; i < CLIENTS; i++) {
        dial(&clients[i], 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        ask_data(&clients[i], "/long", READS);
        deliver(&clients[i]);
    }
    zk_ask_plain(&modest.out, ZK_XID_PING, ZK_PING);
    deliver(&modest);
    zk_bench_round(&bench);
    list_remove(&modest.conn->turn);
    list_push_back(&bench.zk->turn, &modest.conn->turn);
    uint64_t before = metric_get(&bench.zk->metrics.replies);

    for (int i = 0; i < ROUNDS_MAX && modest.pings == 0; i++) {
        round_all();
        take(&modest);
        written = metric_get(&bench.zk->metrics.replies) - before;
    }
    assert_in_range(written, 1, 2); /* The ping, and one long reply. */
    for (int i = 0; i < CLIENTS; i++) {
        await(&clients[i], 1);
        assert_int_equal(clients[i].err, 0);
        hang_up(&clients[i]);
    }
    hang_up(&modest);
}

enum {
    FLOOD_CLIENTS = 8,
    FLOOD_DATA_BYTES = 1 << 16,
    FLOOD_READS = (3 << 20) / FLOOD_DATA_BYTES
};

/* Clients of one address, or of one each, which wait to get a long reply. */
static void flood(struct client *clients, bool apart)
{
    static uint8_t data[FLOOD_DATA_BYTES];
    struct op_args args;

    op_args_init(&args, OP_CREATE);
    args.path = slice_str("/data");
    args.data = slice_make(data, sizeof(data));
    assert_int_equal(zk_bench_write(&bench, &args), ERR_OK);
    for (int i = 0; i < FLOOD_CLIENTS; i++) {
        dial(&clients[i], 0);
        clients[i].conn->address_key += apart ? (uint64_t)i : 0;
        ask(&clients[i], ZK_GET_DATA, "/data", 1);
        await(&clients[i], 1);
    }
    for (int i = 0; i < FLOOD_CLIENTS; i++) {
        ask_data(&clients[i], "/data", FLOOD_READS);
        deliver(&clients[i]);
        step(&clients[i]);
        assert_int_equal(clients[i].replies, 1);
    }
}

TEST_BENCH(a_client_that_waits_for_a_long_reply_gets_pings_and_events)
{
    static struct client clients[FLOOD_CLIENTS];
    struct client *waits = &clients[FLOOD_CLIENTS - 1];
    struct client *leaves = &clients[FLOOD_CLIENTS - 2];

    flood(clients, false);
    zk_ask_plain(&waits->out, ZK_XID_PING, ZK_PING);
    deliver(waits);
    write_one(OP_SET, "/data", "");
    hang_up(leaves);
    for (int i = 0; i < 3; i++) {
        round_all();
    }
    take(waits);
    assert_int_equal(waits->pings, 1);
    assert_int_equal(waits->events, 1);
    assert_int_equal(waits->replies, 2);
    assert_int_equal(bench.seats, FLOOD_CLIENTS - 1);
    for (int i = 0; i < FLOOD_CLIENTS; i++) {
        if (&clients[i] != leaves) {
            await(&clients[i], &clients[i] == waits ? 3 : 2);
            assert_int_equal(clients[i].err, 0);
            hang_up(&clients[i]);
        }
    }
}

static int count_longs(void)
{
    int count = 0;

    list_for_each (it, &bench.zk->longs) {
        count++;
    }
    list_for_each (it, &bench.zk->lists) {
        count++;
    }
    return count;
}

/* Clients that will ask for a long list. */
static void dial_lists(struct client *clients, int count)
{
    enum {
        CHILDREN = VIEW_NODES_MAX + 200,
        NAME_BYTES = 2000
    };

    static char path[NAME_BYTES + 16];

    write_one(OP_CREATE, "/long", "");
    for (int i = 0; i < CHILDREN; i++) {
        (void)snprintf(path, sizeof(path), "/long/%0*d", NAME_BYTES, i);
        write_one(OP_CREATE, path, "");
    }
    for (int i = 0; i < count; i++) {
        dial(&clients[i], 0);
    }
}

/* They have read their lists, and wait with `others` to get them. */
static void read_lists(struct client *clients, int count, int others)
{
    for (int i = 0; i < count; i++) {
        ask(&clients[i], ZK_GET_CHILDREN, "/long", 0);
        deliver(&clients[i]);
        for (int k = 0; k < ROUNDS_MAX && count_longs() < others + i + 1; k++) {
            step(&clients[i]);
        }
    }
    assert_int_equal(count_longs(), others + count);
}

/* All long replies are written after all. */
static void end_flood(struct client *clients)
{
    for (int i = 0; i < FLOOD_CLIENTS; i++) {
        await(&clients[i], 2);
        hang_up(&clients[i]);
    }
}

static void end_long(struct client *client)
{
    await(client, 1);
    assert_int_equal(client->err, 0);
    hang_up(client);
}

TEST_BENCH(a_long_reply_waits_behind_one_of_each_other_address)
{
    static struct client clients[FLOOD_CLIENTS];
    struct client modest;
    struct client list;

    dial(&modest, 0);
    dial_lists(&list, 1);
    modest.conn->address_key = 1;
    flood(clients, false);
    ask_data(&modest, "/data", FLOOD_READS);
    deliver(&modest);
    step(&modest);
    read_lists(&list, 1, FLOOD_CLIENTS + 1);
    for (int i = 0; i < 3; i++) {
        round_all();
    }
    assert_int_equal(count_longs(), FLOOD_CLIENTS - 1);
    assert_true(list_empty(&modest.conn->longs.node) && list_empty(&list.conn->longs.node));
    end_long(&modest);
    end_long(&list);
    end_flood(clients);
}

/* Each of them keeps one of a few places. */
TEST_BENCH(lists_wait_behind_one_long_reply_each)
{
    enum {
        LISTS = 2
    };
    static struct client clients[FLOOD_CLIENTS];
    struct client lists[LISTS];

    dial_lists(lists, LISTS);
    flood(clients, true);
    read_lists(lists, LISTS, FLOOD_CLIENTS);
    for (int i = 0; i < 2 * LISTS; i++) {
        round_all();
    }
    assert_int_equal(count_longs(), FLOOD_CLIENTS - LISTS);
    for (int i = 0; i < LISTS; i++) {
        assert_true(list_empty(&lists[i].conn->longs.node));
        end_long(&lists[i]);
    }
    end_flood(clients);
}

static void adjust(struct config_clients *limits)
{
    limits->socket_queue_bytes_max = 8 << 20;
}

static void open_wide(void)
{
    zk_bench_open_with(&bench, adjust);
}

TEST(events_behind_the_longest_reply_are_kept, open_wide, close_bench)
{
    enum {
        REPLIES_BYTES = ZK_UNREAD_BYTES + ZK_REPLY_MAX,
        PATH_BYTES = 100000
    };

    static uint8_t path[PATH_BYTES];
    size_t events_max = bench.gate->limits.socket_queue_bytes_max;
    struct client client;

    dial(&client, ROOM);
    struct buf *out = zk_out_begin(client.conn);

    uint8_t *replies = buf_reserve(out, REPLIES_BYTES);

    assert_non_null(replies);
    memset(replies, 0, REPLIES_BYTES);
    out->len += REPLIES_BYTES;
    for (uint32_t i = 1; i * (PATH_BYTES + 100) < events_max; i++) {
        size_t before = zk_out_unsent(client.conn);

        zk_watch_tell(client.conn, WATCH_DELETED, slice_make(path, PATH_BYTES));
        assert_true(zk_out_unsent(client.conn) > before + PATH_BYTES);
    }
    assert_int_not_equal(client.conn->state, ZK_CUT);
    hang_up(&client);
}

/* But events that it does not read are bounded, also behind a reply. */
TEST_BENCH(a_client_that_does_not_read_its_events_is_cut)
{
    enum {
        EVENTS_BYTES = 10000,
        SETS = 400
    };
    struct client client;
    struct client other;
    int32_t set = 0;

    bench.gate->limits.socket_queue_bytes_max = EVENTS_BYTES;
    dial(&other, 0);
    create(&other, "/seen", slice_str("x"));
    dial(&client, 1);
    size_t frame = zk_ask_begin(&client.out, ++client.xid, ZK_ADD_WATCH);

    zk_put_bytes(&client.out, slice_str("/seen"));
    zk_put_int(&client.out, ZK_ADD_PERSISTENT);
    zk_frame_end(&client.out, frame);
    await(&client, 1);
    while (set < SETS && bench.seats == 2) {
        zk_ask_set(&other.out, ++other.xid, "/seen", slice_str("y"), -1);
        await(&other, other.replies + 1);
        assert_true(bench.seats < 2 || zk_out_unsent(client.conn) <= EVENTS_BYTES);
        set++;
    }
    assert_true(set < SETS);
    assert_true(set > EVENTS_BYTES / 50);
    hang_up(&client);
    hang_up(&other);
}

/* Of the events that setWatches sends at once no more wait than a client may have. */
TEST_BENCH(a_client_that_reads_its_missed_events_is_not_cut)
{
    enum {
        EVENTS_BYTES = 10000,
        PATHS = 100,
        PATH_BYTES = 1000,
        ROUNDS = 20
    };

    static char text[PATHS][PATH_BYTES];
    static const char *paths[PATHS];
    struct zk_ask_list lists[ZK_LISTS] = {[ZK_LIST_DATA] = {paths, PATHS}};
    struct client client;

    bench.gate->limits.socket_queue_bytes_max = EVENTS_BYTES;
    for (int i = 0; i < PATHS; i++) {
        (void)snprintf(text[i], PATH_BYTES, "/%0*d", PATH_BYTES - 2, i);
        paths[i] = text[i];
    }
    dial(&client, 1);
    zk_ask_watches(&client.out, ++client.xid, 0, lists);
    deliver(&client);
    for (int i = 0; i < ROUNDS; i++) { /* It reads nothing yet. */
        round_all();
    }
    assert_int_equal(bench.seats, 1);
    assert_in_range(zk_out_unsent(client.conn), 1, EVENTS_BYTES);
    await(&client, 1);
    assert_int_equal(client.err, 0);
    assert_int_equal(client.events, PATHS);
    hang_up(&client);
}

TEST_BENCH(bytes_of_incomplete_requests_are_counted_until_their_connection_ends)
{
    struct client client;
    static uint8_t part[READ_BYTES];

    dial(&client, 0);
    size_t frame = zk_ask_begin(&client.out, 1, ZK_SET_DATA);

    (void)buf_append(&client.out, part, sizeof(part));
    zk_frame_end(&client.out, frame);
    client.out.len--;
    for (int i = 0; i < ROUNDS_MAX && metric_get(&bench.zk->metrics.pieces) < READ_BYTES; i++) {
        deliver(&client);
        round_all();
    }
    assert_true(metric_get(&bench.zk->metrics.pieces) >= READ_BYTES);
    hang_up(&client);
    for (int i = 0; i < ROUNDS_MAX && bench.seats > 0; i++) {
        round_all();
    }
    assert_int_equal(metric_get(&bench.zk->metrics.pieces), 0);
}
