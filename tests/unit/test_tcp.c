/* The transport between two replicas: handshake, traffic, backpressure, disconnects and reconnects.
 */
#include "tests/lib/ports.h"
#include "tests/lib/tcp_kit.h"
#include "zab/tcp/frame.h"

#include <unistd.h>

enum {
    SENDS_MAX = 1000000
};

static void set_up(struct kit_setup *setup)
{
    *setup = kit_make_setup();
}

static void stop_both(struct kit_setup *setup)
{
    (void)setup;
    kit_stop_both();
}

TEST(handshake, kit_setup, set_up, stop_both)
{
    struct tcp_figures figures;

    kit_setup->secret[1] = kit_setup->secret[2] = "a secret of some length";
    kit_connect_both(kit_setup);
    assert_int_equal(kit_nodes[1].peer, 2);
    assert_int_equal(kit_nodes[1].hello.incarnation, 102);
    assert_true(kit_nodes[1].hello.bootstrapping);
    assert_int_equal(kit_nodes[1].hello.cluster[0], 7);
    assert_string_equal(kit_nodes[1].hello.advertise, "replica-2:9998");
    assert_string_equal(kit_nodes[2].hello.advertise, "replica-1:9998");
    assert_false(kit_nodes[2].hello.bootstrapping);
    tcp_figures(kit_nodes[1].tcp, &figures);
    assert_int_equal(figures.connected, 1);
    assert_int_equal(figures.refused, 0);
}

TEST(names_are_resolved, kit_setup, set_up, stop_both)
{
    kit_setup->host = "localhost";
    kit_connect_both(kit_setup);
}

TEST(port_in_use)
{
    struct kit_setup setup = kit_make_setup();
    struct tcp_options options = {.id = 3,
                                  .listen_host = "127.0.0.1",
                                  .listen_port = setup.port[1],
                                  .keys = kit_keys(NULL, NULL),
                                  .retry_min_ms = 1,
                                  .retry_max_ms = 1};
    struct tcp_handler handler = {.ctx = NULL};
    struct tcp *tcp = NULL;

    kit_start(&setup, 1);
    assert_int_equal(tcp_open(&kit_nodes[1].loop, &options, &handler, &tcp), ERR_BUSY);
    options.listen_host = "192.0.2.1";
    options.listen_port = setup.port[2];
    assert_int_equal(tcp_open(&kit_nodes[1].loop, &options, &handler, &tcp), ERR_CONFIG);
    assert_null(tcp);
    keys_release(options.keys);
    kit_stop(1);
}

TEST(wrong_secret, kit_setup, set_up, stop_both)
{
    struct tcp_figures figures = {.refused = 0};

    kit_setup->secret[1] = "a secret of some length";
    kit_setup->secret[2] = "a Secret of some length";
    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    while (figures.refused < 3) { /* Many attempts, one report. */
        KIT_RUN_UNTIL(kit_setup, kit_nodes[1].refusals > 0);
        kit_run(kit_setup);
        tcp_figures(kit_nodes[1].tcp, &figures);
    }
    assert_int_equal(kit_nodes[1].refusals, 1);
    assert_non_null(strstr(kit_nodes[1].why, "peerSecretFile"));
    assert_int_equal(kit_nodes[1].ups + kit_nodes[2].ups + kit_nodes[1].downs + kit_nodes[2].downs,
                     0);
}

TEST(foreign_cluster, kit_setup, set_up, stop_both)
{
    uint8_t cluster[ZAB_CLUSTER_LEN] = {7};

    kit_setup->cluster[2] = 8;
    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].refusals == 1);
    assert_non_null(strstr(kit_nodes[1].why, "another cluster"));
    assert_int_equal(kit_nodes[1].ups, 0);
    tcp_set_identity(kit_nodes[2].tcp, cluster, 0, false);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].ups == 1 && kit_nodes[2].ups == 1);
}

/* One of the two continued alone, and the other has not been emptied. */
TEST(another_history, kit_setup, set_up, stop_both)
{
    uint8_t cluster[ZAB_CLUSTER_LEN] = {7};

    kit_setup->history[1] = 3;
    kit_setup->history[2] = 4;
    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].refusals == 1);
    assert_non_null(strstr(kit_nodes[1].why, "another history"));
    assert_int_equal(kit_nodes[1].ups, 0);
    tcp_set_identity(kit_nodes[2].tcp, cluster, 3, false);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].ups == 1 && kit_nodes[2].ups == 1);
}

TEST(unknown_id, kit_setup, set_up, stop_both)
{
    kit_setup->claims = 9;
    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].refusals == 1);
    assert_non_null(strstr(kit_nodes[1].why, "replica 9 connects, but is not in the server list"));
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].refusals == 1);
    assert_non_null(strstr(kit_nodes[2].why,
                           "the peer closes the connection during the handshake: the log of the "
                           "peer has the reason"));
}

TEST(a_new_identity_reconnects, kit_setup, set_up, stop_both)
{
    uint8_t cluster[ZAB_CLUSTER_LEN] = {9};

    kit_setup->cluster[1] = kit_setup->cluster[2] = 0;
    kit_connect_both(kit_setup);
    tcp_set_identity(kit_nodes[1].tcp, cluster, 0, false);
    assert_int_equal(kit_nodes[1].downs,
                     0); /* Reported by the flush, not from within the callback. */
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].ups == 2 && kit_nodes[2].ups == 2);
    assert_int_equal(kit_nodes[1].downs, 1);
    assert_int_equal(kit_nodes[2].downs, 1);
    assert_int_equal(kit_nodes[2].hello.cluster[0], 9);
}

TEST(both_directions, kit_setup, set_up, stop_both)
{
    const uint64_t count = 20000;

    kit_setup->queue_bytes_max = 64 << 20;
    kit_connect_both(kit_setup);
    for (uint64_t i = 0; i < count; i++) {
        kit_send_round(1, i);
        kit_send_round(2, i);
    }
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].messages == count && kit_nodes[2].messages == count);
    kit_nodes[1].next_round = kit_nodes[2].next_round = 0;
    kit_nodes[1].echo = 2;
    for (uint64_t i = 0; i < count; i++) {
        kit_send_round(2, i);
    }
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].messages == 2 * count);
    assert_int_equal(kit_nodes[1].downs + kit_nodes[2].downs, 0);
}

TEST(long_frames, kit_setup, set_up, stop_both)
{
    kit_setup->queue_bytes_max = 64 << 20;
    kit_connect_both(kit_setup);
    for (uint64_t round = 0; round < 6; round += 2) {
        kit_send_forward(2, round, ZAB_FORWARD_BYTES_MAX);
        kit_send_round(2, round + 1);
        KIT_RUN_UNTIL(kit_setup, kit_nodes[1].messages == round + 2);
    }
    assert_int_equal(kit_nodes[1].bytes, 3ULL * ZAB_FORWARD_BYTES_MAX);
    assert_int_equal(kit_nodes[1].downs, 0);
}

TEST(one_byte_at_a_time, kit_setup, set_up, stop_both)
{
    kit_setup->secret[1] = kit_setup->secret[2] = "a secret of some length";
    kit_relay_open(kit_setup, 1, UINT64_MAX);
    kit_connect_both(kit_setup);
    kit_nodes[1].echo = 2;
    for (uint64_t i = 0; i < 5; i++) {
        kit_send_round(2, i);
    }
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].messages == 5);
    kit_relay_close();
}

/* Returns how many bytes replica 2 sends before replica 1 knows that it is replica 2. */
static uint64_t length_of_handshake(void)
{
    struct kit_setup setup = kit_make_setup();
    uint64_t len = 0;

    kit_relay_open(&setup, KIT_RELAY_BYTES, UINT64_MAX);
    kit_start(&setup, 1);
    kit_start(&setup, 2);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].ups == 1);
    len = kit_relay.passed;
    kit_relay_close();
    kit_stop_both();
    return len;
}

/* Whichever byte is damaged, in the handshake or after it: the damaged connection delivers no
 * further message, and the next connection works. */
TEST(each_byte_damaged)
{
    /* Plus history, start, no refusal, peerTls, two levels and the reason of a refusal. */
    const uint64_t identity = 43 + 8 + 8 + 4 + 1 + 2 + 1;
    const uint64_t record = kit_sealed() ? 5 + 1 + 16 : 0; /* What TLS adds to each. */
    const uint64_t handshake = length_of_handshake();
    const uint64_t seen = record + FRAME_HEADER_LEN + 4 + 8 + 1 + 4 + 4 + 12; /* The first frame. */
    const uint64_t total = handshake + seen + record + FRAME_HEADER_LEN + 24;

    if (!kit_sealed()) {
        assert_int_equal(handshake, GREETING_LEN + HELLO_LEN_LEN + identity + CRYPTO_SHA256_LEN);
    }

    for (uint64_t flip = 0; flip < total; flip += 3) {
        struct kit_setup setup = kit_make_setup();

        kit_relay_open(&setup, KIT_RELAY_BYTES, flip);
        kit_start(&setup, 1);
        kit_start(&setup, 2);
        KIT_RUN_UNTIL(&setup, kit_nodes[1].ups && kit_nodes[2].ups);
        if (flip >= handshake) {
            if (flip >= handshake + seen) {
                kit_send_round(2, 0);
            }
            if (kit_sealed()) {
                /* If the length of a record has grown, the receiver waits for more bytes. */
                kit_send_forward(2, flip >= handshake + seen, 8 << 10);
            }
            KIT_RUN_UNTIL(&setup, kit_nodes[1].ups == 2 && kit_nodes[2].ups == 2);
            assert_int_equal(kit_nodes[1].messages, 0);
        } else {
            assert_int_equal(kit_nodes[1].ups + kit_nodes[2].ups, 2);
            assert_int_equal(kit_nodes[1].downs, 0);
        }
        kit_send_round(2, 0);
        KIT_RUN_UNTIL(&setup, kit_nodes[1].messages == 1);
        kit_relay_close();
        kit_stop_both();
    }
}

TEST(back_pressure, kit_setup, set_up, stop_both)
{
    struct tcp_figures figures;
    uint64_t sent = 0;

    kit_setup->queue_bytes_max = 1 << 20;
    kit_relay_open(kit_setup, KIT_RELAY_BYTES, UINT64_MAX);
    kit_connect_both(kit_setup);
    kit_relay.stopped = true;
    while (kit_nodes[1].downs == 0) {
        assert_true(sent < SENDS_MAX);
        kit_send_forward(1, sent++, 16 << 10);
        tcp_figures(kit_nodes[1].tcp, &figures);
        assert_true(figures.queued <= kit_setup->queue_bytes_max + (32 << 10));
        kit_turn(1, 0);
    }
    assert_non_null(strstr(kit_nodes[1].why, "does not read"));
    kit_relay.stopped = false;
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].ups == 2 && kit_nodes[2].ups == 2);
    kit_send_round(1, 0);
    kit_nodes[2].next_round = 0;
    kit_nodes[2].messages = 0;
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].messages == 1);
    kit_relay_close();
}

TEST(disconnect_within_callback, kit_setup, set_up, stop_both)
{
    kit_connect_both(kit_setup);
    kit_nodes[1].disconnect_on = 2;
    for (uint64_t i = 0; i < 10; i++) {
        kit_send_round(2, i);
    }
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].ups == 2 && kit_nodes[2].ups == 2);
    assert_int_equal(kit_nodes[1].messages, 2);
    assert_int_equal(kit_nodes[1].downs, 1);
    assert_int_equal(kit_nodes[2].downs, 1);
}

TEST(dead_peer_is_noticed_and_found_again, kit_setup, set_up, stop_both)
{
    kit_connect_both(kit_setup);
    kit_stop(1);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].downs == 1);
    kit_start(kit_setup, 1);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].ups == 1 && kit_nodes[2].ups == 2);
    kit_stop(2);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].downs == 1);
    kit_start(kit_setup, 2);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].ups == 2 && kit_nodes[2].ups == 1);
}

/* A replica reconnects before its old connection was found dead. */
TEST(newest_connection_wins, kit_setup, set_up, stop_both)
{
    kit_relay_open(kit_setup, KIT_RELAY_BYTES, UINT64_MAX);
    kit_connect_both(kit_setup);
    kit_relay.stopped = true; /* The old connection stays open and silent. */
    kit_stop(2);

    int old_in = kit_relay.in_fd;
    int old_out = kit_relay.out_fd;

    kit_relay.in_fd = -1;
    kit_relay.stopped = false;
    kit_start(kit_setup, 2);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].ups == 2 && kit_nodes[2].ups == 1);
    assert_int_equal(kit_nodes[1].downs, 1);
    assert_non_null(strstr(kit_nodes[1].why, "newer"));
    close(old_in);
    close(old_out);
    kit_run(kit_setup);
    kit_send_round(2, 0);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].messages == 1);
    assert_int_equal(kit_nodes[1].downs, 1);
    kit_relay_close();
}
