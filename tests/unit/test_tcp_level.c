/* Releases of two replicas: the feature levels that they support, and the versions of the protocol
 * that they speak. Both ends say why they refuse each other. */
#include "tests/lib/ports.h"
#include "tests/lib/tcp_kit.h"
#include "zab/tcp/frame.h"

#include <stdio.h>
#include <unistd.h>

static void set_up(struct kit_setup *setup)
{
    *setup = kit_make_setup();
}

static void stop_both(struct kit_setup *setup)
{
    (void)setup;
    kit_stop_both();
}

/* ---- Levels. ---- */

TEST(a_connection_tells_the_levels, kit_setup, set_up, stop_both)
{
    kit_setup->level[1] = 2;
    kit_setup->level[2] = 3;
    kit_setup->ensemble_level[1] = 2; /* Replica 2 has missed the record of the raise. */
    kit_connect_both(kit_setup);
    assert_int_equal(kit_nodes[1].hello.level, 3);
    assert_int_equal(kit_nodes[2].hello.level, 2);
}

/* Replica `old` supports less than the ensemble uses, and does not know that it does. */
static void expect_refusals(struct kit_setup *setup, uint32_t old)
{
    uint32_t other = 3 - old;
    char by_other[256];
    char by_old[256];

    setup->level[old] = 1;
    setup->level[other] = 2;
    setup->ensemble_level[old] = 0;
    setup->ensemble_level[other] = 2;
    kit_start(setup, 1);
    kit_start(setup, 2);
    KIT_RUN_UNTIL(setup, kit_nodes[1].refusals > 0 && kit_nodes[2].refusals > 0);
    (void)snprintf(by_other, sizeof(by_other),
                   "replica %u supports feature levels up to 1, and this ensemble uses level 2: "
                   "start replica %u with a later release",
                   old, old);
    (void)snprintf(by_old, sizeof(by_old),
                   "this replica supports feature levels up to 1, and the ensemble of replica %u "
                   "uses level 2: start this replica with a later release",
                   other);
    assert_string_equal(kit_nodes[other].why, by_other);
    assert_string_equal(kit_nodes[old].why, by_old);
    for (int i = 0; i < 200; i++) {
        kit_run(setup);
    }
    assert_int_equal(kit_nodes[1].refusals + kit_nodes[2].refusals, 2); /* Reported once. */
    assert_int_equal(kit_nodes[1].ups + kit_nodes[2].ups, 0);
    kit_stop(old);
    setup->level[old] = 2;
    kit_start(setup, old);
    KIT_RUN_UNTIL(setup, kit_nodes[1].ups == 1 && kit_nodes[2].ups == 1);
}

TEST(a_dialer_below_the_level_is_refused, kit_setup, set_up, stop_both)
{
    expect_refusals(kit_setup, 2);
}

TEST(an_acceptor_below_the_level_is_refused, kit_setup, set_up, stop_both)
{
    expect_refusals(kit_setup, 1);
}

/* The level rises while both are connected. */
TEST(a_raise_leaves_connections_alone, kit_setup, set_up, stop_both)
{
    kit_setup->level[1] = 1;
    kit_connect_both(kit_setup);
    tcp_set_level(kit_nodes[1].tcp, 1);
    kit_send_round(1, 0); /* Tells replica 2. */
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].messages == 1);
    assert_int_equal(kit_nodes[1].downs, 0);
    tcp_disconnect(kit_nodes[1].tcp, 2);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].refusals == 1 && kit_nodes[2].refusals == 1);
    assert_non_null(strstr(kit_nodes[1].why, "replica 2 supports feature levels up to 0"));
    assert_non_null(strstr(kit_nodes[2].why, "this replica supports feature levels up to 0"));
    assert_int_equal(kit_nodes[1].ups, 1);
}

/* Another cluster's level says nothing here. */
TEST(the_cluster_is_compared_first, kit_setup, set_up, stop_both)
{
    kit_setup->level[1] = kit_setup->ensemble_level[1] = 2;
    kit_setup->cluster[2] = 8;
    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].refusals == 1);
    assert_non_null(strstr(kit_nodes[1].why, "another cluster"));
}

/* ---- Versions. ---- */

/* Replica 2 dials a process that the test drives, and that answers with this version. Returns the
 * connection. */
static int answer_dialer(struct kit_setup *setup, uint16_t version)
{
    struct sockaddr_in addr = kit_loopback(port_free());
    struct greeting greeting = {.version = version, .from = 1, .to = 2};
    uint8_t bytes[GREETING_LEN];
    struct sockaddr_storage from;
    int listen_fd = loop_listen((struct sockaddr *)&addr, sizeof(addr), 8);
    int fd = -1;

    setup->tls[2] = KEYS_OFF;
    setup->secret[2] = NULL;
    kit_start(setup, 2);
    kit_set_peer(2, "127.0.0.1", ntohs(addr.sin_port));
    KIT_RUN_UNTIL(setup, (fd = loop_accept(listen_fd, &from)) >= 0);
    close(listen_fd);
    KIT_RUN_UNTIL(setup, read(fd, bytes, sizeof(bytes)) == GREETING_LEN);
    assert_int_equal(greeting_decode(bytes, &(struct greeting){.version = 0}), ERR_OK);
    greeting_encode(&greeting, bytes);
    assert_int_equal(write(fd, bytes, sizeof(bytes)), GREETING_LEN);
    return fd;
}

static void expect_dialer_refuses(const char *why, uint16_t version)
{
    struct kit_setup setup = kit_make_setup();
    int fd = answer_dialer(&setup, version);

    KIT_RUN_UNTIL(&setup, kit_nodes[2].refusals == 1);
    assert_string_equal(kit_nodes[2].why, why);
    close(fd);
    kit_stop(2);
}

TEST(a_dialer_refuses_releases_too_far_apart)
{
    expect_dialer_refuses("the peer speaks version 6 of the protocol, this replica versions 7 and "
                          "8: their releases are too far apart; upgrade one release at a time",
                          6);
    expect_dialer_refuses("the peer speaks version 10 of the protocol, this replica versions 7 and "
                          "8: their releases are too far apart; upgrade one release at a time",
                          10);
}
