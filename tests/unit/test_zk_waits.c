/* Native clients whose requests wait: for the gate, or for the events that go before their replies.
 */
#include "tests/unit/zk_bench.h"
#include "tests/unit/zk_client_kit.h"

/* ---- Clients that wait for the gate ---- */

static uint32_t count_inside(const struct client *client)
{
    uint32_t count = 0;

    list_for_each_entry (struct zk_call, call, node, &client->conn->calls) {
        count += call->step == ZK_INSIDE ? 1 : 0;
    }
    return count;
}

/* Sends so many writes that the client must wait for the gate. */
static void ask_sets(struct client *client, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        zk_ask_set(&client->out, ++client->xid, "/", slice_str("x"), -1);
    }
    deliver(client);
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
