/* A replica that pauses again and again, as on an overloaded machine: a client's timeout is
 * extended for a while, but not for ever. */
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    STOP_MS = 1200, /* Much longer than the threshold of a pause, */
    RUN_MS = 60,    /* with so short a time between two that every check is late. */
    STOPS_MAX = 60,
    CLIENTS = 3
};

static struct ensemble ensemble;

static void open_one(void)
{
    ensemble_launch(&ensemble, 1, "headTimeout=400\nbodyTimeout=400\nheartbeatInterval=200\n");
}

static void close_one(void)
{
    ensemble_close(&ensemble);
}

/* Opens a connection, sends these bytes and then nothing. */
static int send_half(const char *text)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(ensemble.replicas[0].client_port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    return fd;
}

/* Reads the received bytes without an answer; true when the server has closed the connection. */
static bool is_cut_off(int fd)
{
    char piece[4096];
    ssize_t got = 0;

    do {
        got = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);
    } while (got > 0);
    return got == 0 || errno != EAGAIN;
}

static void stop_for_a_while(void)
{
    ensemble_signal(&ensemble, 0, SIGSTOP);
    (void)poll(NULL, 0, STOP_MS);
    ensemble_signal(&ensemble, 0, SIGCONT);
    (void)poll(NULL, 0, RUN_MS);
}

TEST_GROUP(open_one, close_one)

TEST(a_silent_client_is_disconnected_despite_pauses)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    int fds[CLIENTS] = {
        send_half("GET /znodes/v1/ HTTP/1.1\r\nHost: local"),
        send_half("PUT /znodes/v1/half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx"),
        socket_fd(socket),
    };
    int left = CLIENTS;

    for (int i = 0; i < STOPS_MAX && left > 0; i++) {
        stop_for_a_while();
        left = 0;
        for (int j = 0; j < CLIENTS; j++) {
            left += !is_cut_off(fds[j]);
        }
    }
    assert_int_equal(left, 0);
    close(fds[0]);
    close(fds[1]);
    socket_close(socket);
}
