/* The check of a port before a start: clients that connect meanwhile see no error. */
#include "base/loop.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/thread.h"
#include "server/process/server_int.h"
#include "tests/lib/ports.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum {
    MEETINGS = 3,     /* Clients that connected at the moment of the check. */
    PATIENCE_MS = 20, /* A client that is neither accepted nor refused by then has met the check. */
    DEADLINE_MS = 60000
};

struct client {
    struct thread thread;
    uint16_t port;
    _Atomic bool stopping;
    _Atomic uint32_t let_in;
    _Atomic uint32_t kept_out;
    _Atomic uint32_t refused;
};

static void knock(struct client *client)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(client->port)};

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    int fd = loop_connect((const struct sockaddr *)&to, sizeof(to));
    struct pollfd come = {.fd = fd, .events = POLLOUT};

    if (fd == -ECONNREFUSED) {
        atomic_fetch_add(&client->refused, 1);
        return;
    }
    if (poll(&come, 1, PATIENCE_MS) == 0) {
        atomic_fetch_add(&client->kept_out, 1);
    } else if (loop_connect_result(fd) == 0) {
        atomic_fetch_add(&client->let_in, 1);
    } else {
        atomic_fetch_add(&client->refused, 1);
    }
    close(fd);
}

static void knock_on(void *arg)
{
    struct client *client = arg;

    while (!atomic_load(&client->stopping)) {
        knock(client);
    }
}

/* A client that is accepted and then closed could not know whether its request was done. */
TEST(no_client_is_accepted_before_the_server_can_answer)
{
    struct client client = {.port = port_free()};
    struct config *config = mem_zalloc(1, sizeof(*config));
    struct config_report *report = mem_zalloc(1, sizeof(*report));
    uint64_t end_ms = os_now_ms() + DEADLINE_MS;
    char error[SERVER_ERROR_MAX];
    char port[64];
    const char *args[] = {"--id=1", "--dataDir=/tmp/zabra-never-made", port};
    const struct config_sources sources = {.args = args, .arg_count = sizeof args / sizeof args[0]};

    (void)snprintf(port, sizeof(port), "--clientPort=%u", client.port);
    assert_int_equal(config_load(&sources, config, report), ERR_OK);
    thread_start(&client.thread, "client", knock_on, &client);
    while (atomic_load(&client.kept_out) < MEETINGS && atomic_load(&client.let_in) == 0) {
        assert_true(os_now_ms() < end_ms);
        assert_int_equal(server_check(config, error), ERR_OK);
    }
    atomic_store(&client.stopping, true);
    thread_join(&client.thread);
    assert_int_equal(client.let_in, 0);
    mem_free(report);
    mem_free(config);
}
