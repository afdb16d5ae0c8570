#include "tests/proc/relay.h"

#include "base/loop.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

enum {
    DIAL_MS = 10000,
    SEND_MS = 10000 /* Time for the other side to take the bytes. */
};

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

int relay_listen(int backlog, uint16_t *ret_port)
{
    struct sockaddr_in addr = loopback(0);
    int fd = loop_listen((const struct sockaddr *)&addr, sizeof(addr), backlog);

    assert_true(fd >= 0);
    *ret_port = loop_local_port(fd);
    return fd;
}

void relay_limit_buffers(int fd, int bytes)
{
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

int relay_dial(uint16_t port, int buffer_bytes)
{
    struct sockaddr_in addr = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int one = 1;

    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (buffer_bytes > 0) {
        relay_limit_buffers(fd, buffer_bytes);
    }
    if ((connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) != 0 && errno != EINPROGRESS) ||
        poll(&ready, 1, DIAL_MS) != 1 || loop_connect_result(fd) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

bool relay_send_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        ssize_t sent = poll(&ready, 1, SEND_MS) == 1 ? loop_send(fd, bytes, len) : -EPIPE;

        if (sent < 0 && sent != -EAGAIN) {
            return false;
        }
        bytes += sent > 0 ? sent : 0;
        len -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}
