#include "tests/proc/sealed.h"

#include "tls/calls.h"
#include "tls/socket.h"

#include "base/check.h"
#include "base/os_clock.h"
#include "tests/lib/cert_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PORTS_MAX = 65536,
    SHAKE_MS = 60000, /* For a handshake with a replica that is frozen for a while. */
    POLL_FDS_MAX = 4096,
    CONFIG_MAX = 64 << 10
};

static struct {
    pthread_once_t once;
    pid_t owner; /* The process that removes the files. */
    struct cert_kit certs;
    char ca[CERT_KIT_PATH_MAX];
    SSL_CTX *ctx;
    _Atomic bool ports[PORTS_MAX];
} sealed = {.once = PTHREAD_ONCE_INIT};

bool sealed_on(void)
{
    const char *value = getenv("ZABRA_TEST_TLS"); /* NOLINT(concurrency-mt-unsafe): never set. */

    return value && strcmp(value, "1") == 0;
}

static void make(void)
{
    tls_calls_check();
    sealed.owner = getpid();
    cert_kit_open(&sealed.certs);
    cert_kit_add_server(&sealed.certs, "replica", "replica");
    (void)cert_kit_path(&sealed.certs, "ca.pem", sealed.ca);
    sealed.ctx = SSL_CTX_new(TLS_client_method());
    ASSERT(sealed.ctx && SSL_CTX_load_verify_file(sealed.ctx, sealed.ca) == 1);
    SSL_CTX_set_verify(sealed.ctx, SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_mode(sealed.ctx, SSL_MODE_RELEASE_BUFFERS);
}

__attribute__((destructor)) static void unmake(void)
{
    if (sealed.owner != 0 && sealed.owner == getpid()) {
        cert_kit_close(&sealed.certs);
        SSL_CTX_free(sealed.ctx);
    }
}

const char *sealed_ca(void)
{
    (void)pthread_once(&sealed.once, make);
    return sealed.ca;
}

void sealed_configure(const char *keys, struct buf *out)
{
    if (!sealed_on() || (keys && strstr(keys, "clientTls="))) {
        return;
    }
    (void)sealed_ca();
    buf_printf(out, "clientTls=optional\ntlsCertFile=%s/replica.pem\ntlsKeyFile=%s/replica.key\n",
               sealed.certs.dir, sealed.certs.dir);
}

void sealed_note(uint16_t client_port, const char *config)
{
    char text[CONFIG_MAX] = "";
    FILE *file = NULL;

    if (!sealed_on()) {
        return;
    }
    (void)sealed_ca();
    file = fopen(config, "re");
    ASSERT(file);
    (void)fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    sealed.ports[client_port] = strstr(text, sealed.certs.dir) != NULL;
}

bool sealed_has(uint16_t port)
{
    return sealed.ports[port];
}

/* ---- The calls of the test's objects ---- */

/* The linker (--wrap) binds the calls of the test's objects to __wrap_..., and gives the replaced
 * functions as __real_... */
int real_connect(int fd, const struct sockaddr *address, socklen_t len) __asm__("__real_connect");
ssize_t real_recv(int fd, void *to, size_t len, int flags) __asm__("__real_recv");
ssize_t real_read(int fd, void *to, size_t len) __asm__("__real_read");
ssize_t real_send(int fd, const void *from, size_t len, int flags) __asm__("__real_send");
ssize_t real_write(int fd, const void *from, size_t len) __asm__("__real_write");
int real_poll(struct pollfd *fds, nfds_t count, int timeout_ms) __asm__("__real_poll");

int sealed_connect(int fd, const struct sockaddr *address, socklen_t len) __asm__("__wrap_connect");
ssize_t sealed_recv(int fd, void *to, size_t len, int flags) __asm__("__wrap_recv");
ssize_t sealed_read(int fd, void *to, size_t len) __asm__("__wrap_read");
ssize_t sealed_send(int fd, const void *from, size_t len, int flags) __asm__("__wrap_send");
ssize_t sealed_write(int fd, const void *from, size_t len) __asm__("__wrap_write");
int sealed_poll(struct pollfd *fds, nfds_t count, int timeout_ms) __asm__("__wrap_poll");

static bool wait_for(int fd, short events, uint64_t end_ms)
{
    uint64_t now_ms = os_now_ms();
    struct pollfd ready = {.fd = fd, .events = events};

    return now_ms < end_ms && real_poll(&ready, 1, (int)(end_ms - now_ms)) == 1;
}

static bool shake(struct tls_socket *socket, int fd)
{
    uint64_t end_ms = os_now_ms() + SHAKE_MS;
    enum tls_failure failure;
    char detail[TLS_DETAIL_MAX];

    for (;;) {
        switch (tls_socket_shake(socket, &failure, detail)) {
        case TLS_STEP_DONE:
            return true;
        case TLS_STEP_FAILED:
            return false;
        case TLS_STEP_READ:
        case TLS_STEP_WRITE:
            if (!wait_for(fd, POLLIN, end_ms)) {
                return false;
            }
        }
    }
}

/* Makes the handshake on a connected socket. When it fails, the socket is shut down: the test finds
 * a connection that was closed without an answer. */
static void seal(int fd)
{
    SSL *ssl = SSL_new(sealed.ctx);
    struct tls_socket *socket = NULL;

    ASSERT(ssl);
    ASSERT(SSL_set1_host(ssl, "localhost") == 1);
    SSL_set_connect_state(ssl);
    socket = tls_socket_wrap(ssl, fd);
    if (shake(socket, fd)) {
        tls_socket_attach(socket);
    } else {
        tls_socket_free(socket);
        (void)shutdown(fd, SHUT_RDWR);
    }
}

static bool is_connected(int fd)
{
    int error = 0;
    socklen_t len = sizeof(error);

    return wait_for(fd, POLLOUT, os_now_ms() + SHAKE_MS) &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0;
}

int sealed_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    int result = real_connect(fd, address, len);
    int error = errno;
    uint16_t port = 0;

    if (address->sa_family == AF_INET) {
        port = ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
    }
    if ((result == 0 || error == EINPROGRESS) && port != 0 && sealed_has(port) &&
        is_connected(fd)) {
        seal(fd);
    }
    errno = error;
    return result;
}

/* Whether a call for an attached descriptor may wait; then waits. */
static bool wait_again(int fd, short events, int flags)
{
    struct timeval limit = {.tv_sec = 0};
    socklen_t len = sizeof(limit);
    struct pollfd ready = {.fd = fd, .events = events};
    int timeout_ms = -1;

    if (errno != EAGAIN || (flags & MSG_DONTWAIT) || (fcntl(fd, F_GETFL) & O_NONBLOCK)) {
        return false;
    }
    (void)getsockopt(fd, SOL_SOCKET, events == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO, &limit, &len);
    if (limit.tv_sec != 0 || limit.tv_usec != 0) {
        timeout_ms = (int)(limit.tv_sec * 1000 + limit.tv_usec / 1000);
    }
    if (real_poll(&ready, 1, timeout_ms) == 1) {
        return true;
    }
    errno = EAGAIN;
    return false;
}

ssize_t sealed_recv(int fd, void *to, size_t len, int flags)
{
    struct tls_socket *socket = tls_socket_of(fd);
    ssize_t got = 0;

    if (!socket) {
        return real_recv(fd, to, len, flags);
    }
    do {
        got = tls_socket_recv(socket, to, len, flags);
    } while (got < 0 && wait_again(fd, POLLIN, flags));
    return got;
}

ssize_t sealed_read(int fd, void *to, size_t len)
{
    return tls_socket_of(fd) ? sealed_recv(fd, to, len, 0) : real_read(fd, to, len);
}

ssize_t sealed_send(int fd, const void *from, size_t len, int flags)
{
    const uint8_t *bytes = from;
    size_t done = 0;
    ssize_t sent = real_send(fd, from, len, flags);

    if (!tls_socket_of(fd)) {
        return sent;
    }
    /* A socket that waits takes all bytes. */
    for (; done < len; sent = real_send(fd, bytes + done, len - done, flags)) {
        done += sent > 0 ? (size_t)sent : 0;
        if (sent < 0 && !wait_again(fd, POLLOUT, flags)) {
            break;
        }
        if (done < len && (fcntl(fd, F_GETFL) & O_NONBLOCK)) {
            break;
        }
    }
    return done > 0 ? (ssize_t)done : sent;
}

ssize_t sealed_write(int fd, const void *from, size_t len)
{
    return tls_socket_of(fd) ? sealed_send(fd, from, len, MSG_NOSIGNAL) : real_write(fd, from, len);
}

/* Whether a descriptor can be read: not when only a part of a record has arrived, or a ticket. */
static bool is_readable(int fd)
{
    char byte = 0;

    return tls_socket_recv(tls_socket_of(fd), &byte, 1, MSG_PEEK) >= 0 || errno != EAGAIN;
}

/* Corrects the events of attached descriptors; returns how many descriptors are ready. */
static int correct(struct pollfd *fds, nfds_t count)
{
    int ready = 0;

    for (nfds_t i = 0; i < count; i++) {
        if (tls_socket_of(fds[i].fd) && (fds[i].events & POLLIN)) {
            bool readable =
                (fds[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 || tls_socket_waits(fds[i].fd);

            fds[i].revents = (short)(fds[i].revents & ~POLLIN);
            fds[i].revents |= readable && is_readable(fds[i].fd) ? POLLIN : 0;
        }
        ready += fds[i].revents != 0;
    }
    return ready;
}

static bool any_waits(const struct pollfd *fds, nfds_t count)
{
    for (nfds_t i = 0; i < count; i++) {
        if ((fds[i].events & POLLIN) && tls_socket_waits(fds[i].fd)) {
            return true;
        }
    }
    return false;
}

int sealed_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    uint64_t end_ms = os_now_ms() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0);
    int left_ms = timeout_ms;
    int ready = 0;

    if (!sealed_on()) {
        return real_poll(fds, count, timeout_ms);
    }
    do {
        uint64_t now_ms = os_now_ms();

        if (timeout_ms > 0) {
            left_ms = now_ms < end_ms ? (int)(end_ms - now_ms) : 0;
        }
        ready = real_poll(fds, count, any_waits(fds, count) ? 0 : left_ms);
        ready = ready >= 0 ? correct(fds, count) : ready;
    } while (ready == 0 && left_ms != 0);
    return ready;
}
