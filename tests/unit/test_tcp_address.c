/* Addresses of replicas that change while the transport runs, also while a name is looked up. */
#include "tests/lib/ports.h"
#include "tests/lib/tcp_kit.h"
#include "zab/tcp/tcp_int.h"

#include <errno.h>
#include <poll.h>
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

/* A socket that accepts and says nothing. */
static int listen_at(uint16_t port)
{
    struct sockaddr_in addr = kit_loopback(port);
    int fd = loop_listen((struct sockaddr *)&addr, sizeof(addr), 8);

    assert_true(fd >= 0);
    return fd;
}

static int accept_at(int listen_fd)
{
    struct sockaddr_storage from;

    return loop_accept(listen_fd, &from);
}

/* Waits until replica 2 has sent something to the silent socket. */
static int wait_for_dialer(const struct kit_setup *setup, int listen_fd)
{
    char byte = 0;
    int fd = -1;

    KIT_RUN_UNTIL(setup, (fd = accept_at(listen_fd)) >= 0);
    KIT_RUN_UNTIL(setup, recv(fd, &byte, 1, MSG_PEEK) == 1);
    return fd;
}

/* Whether the other end of the socket has closed it. */
static bool has_ended(int fd)
{
    uint8_t bytes[4096];
    ssize_t got = 0;

    while ((got = read(fd, bytes, sizeof(bytes))) > 0) {
    }
    return got == 0 || (got < 0 && errno != EAGAIN);
}

/* ---- Addresses. ---- */

TEST(a_connection_stays_when_the_address_changes, kit_setup, set_up, stop_both)
{
    kit_connect_both(kit_setup);
    kit_setup->port[1] = port_free(); /* That of its next process. */
    kit_set_peer(2, local, kit_setup->port[1]);
    kit_set_peer(1, local, port_free());
    kit_send_round(1, 0);
    kit_send_round(2, 0);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].messages == 1 && kit_nodes[2].messages == 1);
    assert_int_equal(kit_nodes[1].downs + kit_nodes[2].downs, 0);
    kit_stop(1);
    kit_start(kit_setup, 1);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].ups == 2);
}

/* The replica has been dialed at an address where no replica answers. */
TEST(an_attempt_to_connect_ends_when_the_address_changes, kit_setup, set_up, stop_both)
{
    uint16_t silent = port_free();
    int listen_fd = listen_at(silent);
    int fd = -1;

    kit_setup->connect_timeout_ms = FOR_EVER_MS;
    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    kit_set_peer(2, local, silent);
    fd = wait_for_dialer(kit_setup, listen_fd);
    kit_set_peer(2, local, silent); /* No change. */
    kit_run(kit_setup);
    assert_false(has_ended(fd));
    kit_set_peer(2, local, kit_setup->port[1]);
    assert_true(has_ended(fd));
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].ups == 1);
    close(fd);
    close(listen_fd);
}

TEST(an_attempt_to_connect_ends_with_the_removal, kit_setup, set_up, stop_both)
{
    uint16_t silent = port_free();
    int listen_fd = listen_at(silent);
    int fd = -1;

    kit_setup->connect_timeout_ms = FOR_EVER_MS;
    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    kit_set_peer(2, local, silent);
    (void)tcp_tick(kit_nodes[2].tcp, os_now_ms()); /* Connects. */
    kit_set_no_peer(2);
    KIT_RUN_UNTIL(kit_setup, (fd = accept_at(listen_fd)) >= 0);
    KIT_RUN_UNTIL(kit_setup, has_ended(fd));
    close(fd);
    kit_set_peer(2, local, silent);
    fd = wait_for_dialer(kit_setup, listen_fd);
    kit_set_no_peer(2);
    assert_true(has_ended(fd));
    kit_set_peer(2, local, kit_setup->port[1]);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].ups == 1);
    assert_int_equal(kit_nodes[2].downs, 0);
    close(fd);
    close(listen_fd);
}

/* Starts replica 2, which asks for the address of replica 1 by name, and waits until the answer is
 * there; replica 2 has not taken it yet. */
static void ask_by_name(const struct kit_setup *setup, uint16_t port)
{
    struct pollfd wait = {.events = POLLIN};

    kit_start(setup, 1);
    kit_start(setup, 2);
    kit_set_peer(2, "localhost", port);
    (void)tcp_tick(kit_nodes[2].tcp, os_now_ms());
    assert_int_equal(kit_nodes[2].tcp->lookups, 1);
    wait.fd = resolver_event_fd(kit_nodes[2].tcp->resolver);
    assert_int_equal(poll(&wait, 1, KIT_DEADLINE_MS), 1);
}

/* No replica may be dialed at the port of the name that was asked for first. */
static void expect_up_elsewhere(const struct kit_setup *setup, int listen_fd)
{
    KIT_RUN_UNTIL(setup, kit_nodes[2].ups == 1 && kit_nodes[2].tcp->lookups == 0);
    assert_int_equal(accept_at(listen_fd), -EAGAIN);
    assert_int_equal(kit_nodes[2].downs, 0);
    close(listen_fd);
}

TEST(an_answer_for_a_removed_replica_is_dropped, kit_setup, set_up, stop_both)
{
    uint16_t silent = port_free();
    int listen_fd = listen_at(silent);

    ask_by_name(kit_setup, silent);
    kit_set_no_peer(2);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].tcp->lookups == 0);
    kit_set_peer(2, local, kit_setup->port[1]);
    expect_up_elsewhere(kit_setup, listen_fd);
}

TEST(an_answer_about_another_address_is_dropped, kit_setup, set_up, stop_both)
{
    uint16_t silent = port_free();
    int listen_fd = listen_at(silent);

    ask_by_name(kit_setup, silent);
    kit_set_peer(2, "localhost", kit_setup->port[1]); /* The same replica, and the same name. */
    expect_up_elsewhere(kit_setup, listen_fd);
}

/* The next name is one that no host can have. */
TEST(an_answer_about_another_name_is_dropped, kit_setup, set_up, stop_both)
{
    uint16_t silent = port_free();
    int listen_fd = listen_at(silent);
    char label[101];

    memset(label, 'a', sizeof(label) - 1);
    label[sizeof(label) - 1] = '\0';
    ask_by_name(kit_setup, silent);
    kit_set_peer(2, label, silent);
    (void)tcp_tick(kit_nodes[2].tcp, os_now_ms());
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].tcp->lookups < 2);
    kit_set_peer(2, local, kit_setup->port[1]);
    expect_up_elsewhere(kit_setup, listen_fd);
}

TEST(an_answer_for_a_replica_that_was_added_again_is_dropped, kit_setup, set_up, stop_both)
{
    uint16_t silent = port_free();
    int listen_fd = listen_at(silent);

    ask_by_name(kit_setup, silent);
    kit_set_no_peer(2);
    kit_set_peer(2, local, kit_setup->port[1]);
    expect_up_elsewhere(kit_setup, listen_fd);
}

/* The resolver hangs while names change: a bounded number of them wait. */
TEST(lookups_are_bounded, kit_setup, set_up, stop_both)
{
    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    for (uint32_t i = 0; i < TCP_LOOKUPS_MAX + 10; i++) {
        kit_set_peer(2, "localhost", (uint16_t)(i + 1));
        (void)tcp_tick(kit_nodes[2].tcp, os_now_ms());
        assert_int_equal(kit_nodes[2].tcp->lookups, min_u32(i + 1, TCP_LOOKUPS_MAX));
    }
    kit_set_peer(2, "localhost", kit_setup->port[1]);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].ups == 1);
    assert_int_equal(kit_nodes[2].tcp->lookups, 0);
}

/* While the address changes, the replica may be at either. */
TEST(the_old_and_the_new_address_are_dialed, kit_setup, set_up, stop_both)
{
    uint16_t closed = port_free();

    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    kit_set_two_addresses(2, local, closed, local, kit_setup->port[1]);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].ups == 1);
    kit_set_two_addresses(2, local, kit_setup->port[1], "localhost", closed);
    tcp_disconnect(kit_nodes[2].tcp, 1);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].ups == 2);
    kit_set_two_addresses(2, "localhost", closed, "localhost", kit_setup->port[1]);
    tcp_disconnect(kit_nodes[2].tcp, 1);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[2].ups == 3);
    assert_int_equal(kit_nodes[2].downs, 2);
}

/* The second address is dialed at once after the first one, and then there is a pause. */
TEST(the_two_addresses_take_turns, kit_setup, set_up, stop_both)
{
    uint16_t ports[2] = {port_free(), port_free()};
    int listen_fds[2] = {listen_at(ports[0]), listen_at(ports[1])};
    const struct link *link = NULL;

    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    kit_set_two_addresses(2, local, ports[0], local, ports[1]);
    link = tcp_link(kit_nodes[2].tcp, 1);
    for (uint32_t attempt = 0; attempt < 20; attempt++) {
        uint64_t before_ms = os_now_ms();
        int fd = -1;

        KIT_RUN_UNTIL(kit_setup, (fd = accept_at(listen_fds[attempt % 2])) >= 0);
        assert_int_equal(accept_at(listen_fds[1 - attempt % 2]), -EAGAIN);
        close(fd);
        while (link->dialing) {
            assert_true(os_now_ms() < before_ms + KIT_DEADLINE_MS);
            loop_run_once(&kit_nodes[2].loop, 1);
        }
        if (attempt % 2 == 0) {
            assert_true(link->retry_at_ms <= os_now_ms());
        } else {
            assert_true(link->retry_at_ms > before_ms);
        }
    }
    close(listen_fds[0]);
    close(listen_fds[1]);
}

/* It may call, because its configuration has the address of the other one. */
TEST(a_replica_without_a_known_address_is_not_dialed, kit_setup, set_up, stop_both)
{
    kit_start(kit_setup, 1);
    kit_start(kit_setup, 2);
    kit_set_peer(2, "", 0);
    assert_true(tcp_tick(kit_nodes[2].tcp, os_now_ms()) == UINT64_MAX);
    kit_set_peer(1, "", 0);
    kit_set_peer(2, local, kit_setup->port[1]);
    KIT_RUN_UNTIL(kit_setup, kit_nodes[1].ups == 1 && kit_nodes[2].ups == 1);
}
