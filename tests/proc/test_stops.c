/* A replica that stands still again and again, as on a machine that gives it the processor in
 * pieces: what is due at a client's side is put off for a while, and not for ever. */
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
    STOP_MS = 1200, /* Much longer than what counts as standing still, */
    RUN_MS = 60,    /* and so short a time between two that every look is late. */
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

/* A connection that has sent these bytes and says no more. */
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

/* Takes what has come, and answers nothing of it. */
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

TEST(who_says_no_more_is_cut_off_all_the_same)
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
