/* Replicas that are added and removed while the transport runs: in each state of a connection, and
 * within callbacks. */
#include "tests/lib/ports.h"
#include "tests/lib/tcp_raw.h"
#include "zab/tcp/frame.h"

#include <unistd.h>

enum {
    FOR_EVER_MS = 10 * KIT_DEADLINE_MS /* No test lives that long. */
};

static const char local[] = "127.0.0.1";

static void set_up(struct kit_setup *setup)
{
    *setup = kit_make_setup();
}

static void stop_both(struct kit_setup *setup)
{
    (void)setup;
    kit_stop_both();
}

static uint32_t connected(uint32_t id)
{
    struct tcp_figures figures;

    tcp_figures(kit_nodes[id].tcp, &figures);
    return figures.connected;
}

/* ---- Add and remove. ---- */

TEST(an_added_replica_is_dialed_and_may_call, kit_setup, set_up, stop_both)
{
    uint32_t refusals = 0;

    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    kit_set_no_peer(1);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].refusals == 1);
    assert_non_null(strstr(kit_nodes[1].why, "replica 2 connects, but is not in the server list"));
    kit_set_no_peer(2);
    refusals = kit_nodes[2].refusals;
    kit_set_peer(1, local, kit_setup->port[2]);
    for (int i = 0; i < 100; i++) {
        kit_run(kit_setup);
    }
    assert_int_equal(kit_nodes[1].ups + kit_nodes[2].ups, 0);
    kit_set_peer(2, local, kit_setup->port[1]);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].ups == 1 && kit_nodes[2].ups == 1);
    assert_int_equal(kit_nodes[2].refusals, refusals);
    kit_send_round(1, 0);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].messages == 1);
}

/* It gets what was queued for it before. */
static void expect_removed(const struct kit_setup *setup, uint32_t by)
{
    uint32_t other = 3 - by;

    kit_connect_both(setup);
    kit_send_round(by, 0);
    kit_set_no_peer(by);
    kit_send_round(by, 1); /* Lost. */
    assert_int_equal(kit_nodes[by].downs, 0);
    assert_int_equal(connected(by), 0);
    KIT_RUN_UNTIL(setup, kit_nodes[by].downs == 1 && kit_nodes[other].downs == 1);
    assert_string_equal(kit_nodes[by].why, "the peer is no longer a member");
    assert_int_equal(kit_nodes[other].messages, 1);
    assert_int_equal(kit_nodes[by].ups + kit_nodes[other].ups, 2);
    kit_set_peer(by, local, setup->port[other]);
    KIT_RUN_UNTIL(setup, kit_nodes[by].ups == 2 && kit_nodes[other].ups == 2);
    assert_int_equal(kit_nodes[by].downs + kit_nodes[other].downs, 2);
}

TEST(a_removed_replica_is_disconnected, kit_setup, set_up, stop_both)
{
    expect_removed(kit_setup, 1);
}

TEST(a_removed_replica_is_not_dialed, kit_setup, set_up, stop_both)
{
    expect_removed(kit_setup, 2);
}

/* The events of replica 1, a letter each. */
static char events[64];

static void note_event(struct kit_node *node, enum kit_event event)
{
    size_t len = strlen(events);

    (void)node;
    assert_true(len + 1 < sizeof(events));
    events[len] = "UDRM"[event];
    events[len + 1] = '\0';
}

/* Its next connection is there before the end of the first one has been reported. */
TEST(the_end_before_a_removal_is_reported_before_the_next_begin, kit_setup, set_up, stop_both)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    kit_connect_both(kit_setup);
    events[0] = '\0';
    kit_nodes[1].then = note_event;
    kit_set_no_peer(1);
    kit_set_peer(1, local, kit_setup->port[2]);
    tcp_disconnect(kit_nodes[2].tcp, 1);
    while (strlen(events) < 2) { /* Replica 1 does not flush. */
        assert_true(os_now_ms() < end_ms);
        loop_run_once(&kit_nodes[1].loop, 1);
        kit_turn(2, 0);
    }
    assert_string_equal(events, "DU");
    kit_send_round(1, 0);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].messages == 1);
    assert_string_equal(events, "DU");
}

/* Whatever waits for the next flush ends with the transport. */
TEST(a_transport_is_closed_while_a_replica_leaves, kit_setup, set_up, stop_both)
{
    kit_connect_both(kit_setup);
    kit_set_no_peer(1);
    kit_stop(1);
    assert_int_equal(kit_nodes[1].downs, 0);
    kit_start(kit_setup, 1);
}

/* A slow replica does not hold up its removal. */
TEST(a_replica_that_does_not_read_is_removed, kit_setup, set_up, stop_both)
{
    kit_setup->queue_bytes_max = 64 << 20;
    kit_relay_open(kit_setup, KIT_RELAY_BYTES, UINT64_MAX);
    kit_connect_both(kit_setup);
    kit_relay.stopped = true;
    for (uint64_t i = 0; i < 32; i++) {
        kit_send_forward(1, i, 1 << 20);
    }
    kit_turn(1, 0);
    kit_set_no_peer(1);
    kit_turn(1, 0);
    assert_int_equal(kit_nodes[1].downs, 1);
    kit_relay_close();
}

/* The caller has named itself, and has not proven itself yet. */
TEST(a_handshake_ends_with_the_removal, kit_setup, set_up, stop_both)
{
    struct greeting greeting = {.version = PROTOCOL_VERSION, .from = 2, .to = 1};
    uint8_t bytes[GREETING_LEN];

    kit_setup->connect_timeout_ms = FOR_EVER_MS;
    kit_start(kit_setup, 1);

    struct raw raw = raw_dial_1(kit_setup);

    greeting_encode(&greeting, bytes);
    raw_write(&raw, bytes, sizeof(bytes));
    raw_read(kit_setup, &raw, bytes, sizeof(bytes));
    kit_set_peer(1, local, kit_setup->port[2]); /* No change. */
    kit_run(kit_setup);
    assert_false(raw_ended(&raw));
    kit_set_no_peer(1);
    kit_set_peer(1, local, kit_setup->port[2]);
    KIT_RUN_UNTIL(kit_setup, raw_ended(&raw));
    raw_end(&raw);
    assert_int_equal(kit_nodes[1].refusals, 0);
    kit_start(kit_setup, 2);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].ups == 1);
}

/* ---- Within callbacks. ---- */

static enum kit_event trigger;
static bool adds_again;

/* Removes the other replica, which perhaps is added again at once. */
static void remove_on(struct kit_node *node, enum kit_event event)
{
    uint32_t id = node == &kit_nodes[1] ? 1 : 2;

    if (event != trigger) {
        return;
    }
    node->then = NULL;
    kit_set_no_peer(id);
    if (adds_again) {
        kit_set_peer(id, local, port_free());
    }
}

/* Runs until replica 1 has had that event, and removed replica 2. */
static void run_until_removed(const struct kit_setup *setup)
{
    KIT_RUN_UNTIL(setup, !kit_nodes[1].then);
    kit_run(setup);
}

/* Both work together again. */
static void expect_recovery(const struct kit_setup *setup)
{
    uint32_t ups = kit_nodes[1].ups;

    kit_set_peer(1, local, setup->port[2]);
    KIT_RUN_UNTIL(setup, kit_nodes[1].ups - kit_nodes[1].downs == 1 &&
                             kit_nodes[2].ups - kit_nodes[2].downs == 1);
    assert_true(adds_again || kit_nodes[1].ups > ups);
    kit_nodes[1].next_round = 0;
    kit_nodes[1].messages = 0;
    kit_send_round(2, 0);
    KIT_RUN_UNTIL(setup, kit_nodes[1].messages == 1);
}

static void arm(enum kit_event event, bool again)
{
    trigger = event;
    adds_again = again;
    kit_nodes[1].then = remove_on;
}

/* Each check runs twice: the second time the replica is added again at once. */
#define CHECK_TWICE(check)                         \
    for (int twice = 0; twice < 2; twice++) {      \
        struct kit_setup setup = kit_make_setup(); \
        check(&setup, twice == 1);                 \
        kit_stop_both();                           \
    }

static void remove_when_up(struct kit_setup *setup, bool again)
{
    kit_start(setup, 1);
    kit_start(setup, 2);
    arm(KIT_UP, again);
    run_until_removed(setup);
    assert_int_equal(kit_nodes[1].downs, 1);
    assert_string_equal(kit_nodes[1].why, "the peer is no longer a member");
    expect_recovery(setup);
}

TEST(a_removal_when_a_connection_is_up)
{
    CHECK_TWICE(remove_when_up);
}

static void remove_when_down(struct kit_setup *setup, bool again)
{
    kit_connect_both(setup);
    arm(KIT_DOWN, again);
    tcp_disconnect(kit_nodes[1].tcp, 2);
    run_until_removed(setup);
    assert_int_equal(kit_nodes[1].downs, 1);
    expect_recovery(setup);
}

TEST(a_removal_when_a_connection_ends)
{
    CHECK_TWICE(remove_when_down);
}

static void remove_on_message(struct kit_setup *setup, bool again)
{
    kit_connect_both(setup);
    arm(KIT_MESSAGE, again);
    for (uint64_t i = 0; i < 10; i++) {
        kit_send_round(2, i);
    }
    run_until_removed(setup);
    assert_int_equal(kit_nodes[1].messages, 1);
    assert_int_equal(kit_nodes[1].downs, 1);
    expect_recovery(setup);
}

TEST(a_removal_when_a_message_arrives)
{
    CHECK_TWICE(remove_on_message);
}

static void remove_on_refusal(struct kit_setup *setup, bool again)
{
    uint8_t cluster[ZAB_CLUSTER_LEN] = {7};

    setup->cluster[2] = 8;
    kit_start(setup, 1);
    kit_start(setup, 2);
    arm(KIT_REFUSED, again);
    run_until_removed(setup);
    assert_int_equal(kit_nodes[1].ups, 0);
    tcp_set_identity(kit_nodes[2].tcp, cluster, 0, false);
    expect_recovery(setup);
}

TEST(a_removal_when_a_handshake_is_refused)
{
    CHECK_TWICE(remove_on_refusal);
}

/* The next connection of a process has been proven, and the end of its old one is reported first.
 */
static void remove_on_replacement(struct kit_setup *setup, bool again)
{
    kit_relay_open(setup, KIT_RELAY_BYTES, UINT64_MAX);
    kit_connect_both(setup);
    kit_relay.stopped = true; /* The old connection stays open and silent. */
    kit_stop(2);

    int old_in = kit_relay.in_fd;
    int old_out = kit_relay.out_fd;

    kit_relay.in_fd = -1;
    kit_relay.stopped = false;
    arm(KIT_DOWN, again);
    kit_start(setup, 2);
    run_until_removed(setup);
    assert_int_equal(kit_nodes[1].ups, 1);
    assert_non_null(strstr(kit_nodes[1].why, "newer"));
    expect_recovery(setup);
    assert_int_equal(kit_nodes[1].downs, 1);
    close(old_in);
    close(old_out);
    kit_relay_close();
}

TEST(a_removal_when_a_connection_is_replaced)
{
    CHECK_TWICE(remove_on_replacement);
}

/* The dialer's own side. */
TEST(a_removal_by_the_dialer_when_a_connection_is_up, kit_setup, set_up, stop_both)
{
    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    trigger = KIT_UP;
    adds_again = false;
    kit_nodes[2].then = remove_on;
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].downs == 1);
    kit_set_peer(2, local, kit_setup->port[1]);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].ups == 2);
}
