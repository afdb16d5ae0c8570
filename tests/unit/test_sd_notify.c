/* Messages to a service manager. */
#include "base/sd_notify.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sd_notify notify;
static int manager = -1; /* The socket of the manager. */
static char name[64];

/* Sets a variable of the environment; NULL: removes it. */
static void set(const char *variable, const char *value)
{
    if (value) {
        assert_int_equal(setenv(variable, value, 1), 0);
    } else {
        assert_int_equal(unsetenv(variable), 0);
    }
}

static void set_up(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof(sa_family_t); /* The kernel chooses a name: unix(7), autobind. */

    notify = (struct sd_notify){.fd = -1};
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(manager >= 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&address, size), 0);
    size = sizeof address;
    assert_int_equal(getsockname(manager, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(name, sizeof name, "@%.*s", (int)(size - sizeof(sa_family_t) - 1),
                   address.sun_path + 1);
    set("NOTIFY_SOCKET", name);
    set("WATCHDOG_USEC", NULL);
    set("WATCHDOG_PID", NULL);
}

static void tear_down(void)
{
    sd_notify_close(&notify);
    (void)close(manager);
    set("NOTIFY_SOCKET", NULL);
    set("WATCHDOG_USEC", NULL);
    set("WATCHDOG_PID", NULL);
}

/* The next message; "": there is none. */
static const char *received(void)
{
    static char text[SD_NOTIFY_TEXT_MAX + 1];
    ssize_t got = recv(manager, text, sizeof text - 1, 0);

    text[got > 0 ? got : 0] = '\0';
    return text;
}

TEST(a_message_arrives_whole, set_up, tear_down)
{
    sd_notify_open(&notify);
    sd_notify_send(&notify, "READY=1\nSTATUS=epoch %d", 7);
    assert_string_equal(received(), "READY=1\nSTATUS=epoch 7");
    assert_string_equal(received(), "");
}

TEST(a_long_message_is_cut, set_up, tear_down)
{
    char text[2 * SD_NOTIFY_TEXT_MAX];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    sd_notify_open(&notify);
    sd_notify_send(&notify, "%s", text);
    assert_int_equal(strlen(received()), SD_NOTIFY_TEXT_MAX - 1);
}

TEST(without_a_manager_nothing_is_sent, set_up, tear_down)
{
    static const char *const unusable[] = {NULL, "", "@", "relative/path", "/no/such/socket"};
    char long_path[200] = "/";

    memset(long_path + 1, 'x', sizeof long_path - 2);
    for (size_t i = 0; i < sizeof unusable / sizeof unusable[0]; i++) {
        set("NOTIFY_SOCKET", unusable[i]);
        sd_notify_open(&notify);
        assert_int_equal(notify.fd, -1);
        sd_notify_send(&notify, "READY=1");
    }
    set("NOTIFY_SOCKET", long_path);
    sd_notify_open(&notify);
    assert_int_equal(notify.fd, -1);
}

TEST(the_watchdog_is_that_of_this_process, set_up, tear_down)
{
    char pid[32];

    (void)snprintf(pid, sizeof pid, "%ld", (long)getpid());
    sd_notify_open(&notify);
    assert_int_equal(notify.watchdog_ms, 0);
    sd_notify_close(&notify);
    set("WATCHDOG_USEC", "30000000");
    sd_notify_open(&notify);
    assert_int_equal(notify.watchdog_ms, 30000);
    sd_notify_close(&notify);
    set("WATCHDOG_PID", pid);
    sd_notify_open(&notify);
    assert_int_equal(notify.watchdog_ms, 30000);
    sd_notify_close(&notify);
    set("WATCHDOG_USEC", "30 s");
    sd_notify_open(&notify);
    assert_int_equal(notify.watchdog_ms, 0);
    sd_notify_close(&notify);
    set("WATCHDOG_USEC", "30000000");
    set("WATCHDOG_PID", "1"); /* An ancestor of this process; the variables were inherited. */
    sd_notify_open(&notify);
    assert_int_equal(notify.watchdog_ms, 0);
}

/* A manager that reads nothing must not stop the process. */
TEST(a_manager_that_reads_nothing_delays_nothing, set_up, tear_down)
{
    sd_notify_open(&notify);
    for (int i = 0; i < 100000; i++) {
        sd_notify_send(&notify, "WATCHDOG=1");
    }
    assert_string_equal(received(), "WATCHDOG=1");
}
