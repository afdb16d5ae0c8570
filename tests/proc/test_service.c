/* What a replica tells the service manager that has started it: sd_notify(3). */
#include "tests/proc/ensemble.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    WATCHDOG_MS = 2000 * ENSEMBLE_FACTOR
};

static struct ensemble ensemble;
static int manager = -1;       /* The socket of the manager. */
static char said[1024 * 1024]; /* All messages so far, each between newlines. */
static size_t said_len;

static void open_manager(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char watchdog[32];

    assert_in_range(
        snprintf(address.sun_path, sizeof address.sun_path, "%.90s/notify", ensemble.dir), 1,
        sizeof address.sun_path - 1);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(manager >= 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&address, sizeof address), 0);
    (void)snprintf(watchdog, sizeof watchdog, "%d", WATCHDOG_MS * 1000);
    assert_int_equal(setenv("NOTIFY_SOCKET", address.sun_path, 1), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", watchdog, 1), 0);
}

static void set_up(void)
{
    said[0] = '\n';
    said[1] = '\0';
    said_len = 1;
    ensemble_open(&ensemble, 2, "drainDelay=500\n");
    open_manager();
}

static void tear_down(void)
{
    ensemble_close(&ensemble);
    (void)close(manager);
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
}

/* Takes the messages that have arrived. */
static void listen_once(void)
{
    ssize_t got = 0;

    while (got >= 0 && said_len + 2 < sizeof said) {
        got = recv(manager, said + said_len, sizeof said - said_len - 2, 0);
        if (got > 0) {
            said_len += (size_t)got;
            said[said_len++] = '\n';
            said[said_len] = '\0';
        }
    }
}

/* The number of messages so far that have this text. */
static uint32_t count(const char *text)
{
    uint32_t found = 0;

    listen_once();
    for (const char *at = strstr(said, text); at; at = strstr(at + strlen(text), text)) {
        found++;
    }
    return found;
}

/* The first of three replicas must not block the start of the others: it is ready without them. */
TEST(a_replica_is_ready_before_it_has_a_leader, set_up, tear_down)
{
    ensemble_start(&ensemble, 0);
    ENSEMBLE_WAIT(&ensemble, count("\nREADY=1\n") == 1);
    ENSEMBLE_WAIT(&ensemble, count("\nSTATUS=replica 1 does not serve: ") > 0);
    assert_int_equal(count(" leads epoch "), 0);
    ensemble_start(&ensemble, 1);
    ENSEMBLE_WAIT(&ensemble, count("\nSTATUS=replica 1 leads epoch ") > 0 ||
                                 count("\nSTATUS=replica 1 is in step with leader 2 ") > 0);
}

TEST(a_reload_and_the_end_are_announced, set_up, tear_down)
{
    ensemble_start(&ensemble, 0);
    ENSEMBLE_WAIT(&ensemble, count("\nREADY=1\n") == 1);
    ensemble_signal(&ensemble, 0, SIGHUP);
    ENSEMBLE_WAIT(&ensemble, count("\nREADY=1\n") == 2);
    assert_int_equal(count("\nRELOADING=1\nMONOTONIC_USEC="), 1);
    assert_int_equal(count("\nSTOPPING=1\n"), 0);
    (void)ensemble_stop(&ensemble, 0);
    assert_int_equal(count("\nSTOPPING=1\n"), 1);
    assert_int_equal(count("\nSTATUS=replica 1 is stopping\n"), 1);
}

TEST(the_core_shows_that_it_works, set_up, tear_down)
{
    ensemble_start(&ensemble, 0);
    ENSEMBLE_WAIT(&ensemble, count("\nREADY=1\n") == 1);
    uint32_t before = count("\nWATCHDOG=1\n");
    uint64_t begin_ms = os_now_ms();

    ENSEMBLE_WAIT(&ensemble, count("\nWATCHDOG=1\n") >= before + 3);
    assert_in_range(os_now_ms() - begin_ms, 0, 2 * WATCHDOG_MS);
    ensemble_signal(&ensemble, 0, SIGSTOP);
    before = count("\nWATCHDOG=1\n");
    begin_ms = os_now_ms();
    ENSEMBLE_WAIT(&ensemble, os_now_ms() - begin_ms >= WATCHDOG_MS);
    assert_int_equal(count("\nWATCHDOG=1\n"), before);
    ensemble_signal(&ensemble, 0, SIGCONT);
    ENSEMBLE_WAIT(&ensemble, count("\nWATCHDOG=1\n") > before);
}
