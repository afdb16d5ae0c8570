#include "tests/proc/front.h"

#include "base/check.h"
#include "base/loop.h"
#include "tests/lib/unit.h"
#include "tests/proc/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 64,
    HEAD_MAX = 16 << 10,
    HEAD_MS = 10000,
    LOOK_MS = 20,
    PIECE_BYTES = 16 << 10,
    PATH_BYTES_MAX = 512
};

/* Reads until the blank line of the head, which may be followed by a part of the body. Returns the
 * number of bytes; 0: no head. */
static size_t read_head(int client, char head[HEAD_MAX], size_t *ret_head_len)
{
    size_t len = 0;
    const char *end = NULL;

    while (!end && len + 1 < HEAD_MAX) {
        struct pollfd ready = {.fd = client, .events = POLLIN};
        ssize_t got =
            poll(&ready, 1, HEAD_MS) == 1 ? recv(client, head + len, HEAD_MAX - 1 - len, 0) : 0;

        if (got <= 0) {
            return 0;
        }
        len += (size_t)got;
        head[len] = '\0';
        end = strstr(head, "\r\n\r\n");
    }
    *ret_head_len = end ? (size_t)(end - head) + 4 : 0;
    return end ? len : 0;
}

static bool is_removed(const char *line)
{
    static const char *const names[] = {"Forwarded:", "X-Forwarded-", "Connection: keep"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncasecmp(line, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void put_own_headers(const struct front *front, int client, const char *host,
                            struct buf *out)
{
    struct sockaddr_in from;
    socklen_t len = sizeof(from);
    char address[INET_ADDRSTRLEN];

    ASSERT(getpeername(client, (struct sockaddr *)&from, &len) == 0);
    ASSERT(inet_ntop(AF_INET, &from.sin_addr, address, sizeof(address)));
    if (front->forwarded) {
        buf_printf(out, "Forwarded: for=%s;proto=https;host=\"%s\"\r\n", address, host);
    } else {
        buf_printf(out,
                   "X-Forwarded-For: %s\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: %s\r\n",
                   address, host);
    }
}

/* Writes the head that the replica gets. */
static void change_head(const struct front *front, int client, char *head, struct buf *out)
{
    char host[128] = "";
    bool upgrade = strcasestr(head, "\r\nUpgrade:") != NULL;

    for (char *line = head; *line != '\r';) {
        char *end = strstr(line, "\r\n");

        if (strncasecmp(line, "Host: ", 6) == 0) {
            (void)snprintf(host, sizeof(host), "%.*s", (int)(end - line - 6), line + 6);
        }
        if (!is_removed(line)) {
            buf_append(out, line, (size_t)(end - line) + 2);
        }
        line = end + 2;
    }
    put_own_headers(front, client, host, out);
    buf_append_str(out, upgrade ? "\r\n" : "Connection: close\r\n\r\n");
}

static SSL *dial(const struct front *front)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(front->target)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    SSL *ssl = SSL_new(front->ctx);

    ASSERT(fd >= 0 && ssl);
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + front->from);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT(bind(fd, (const struct sockaddr *)&own, sizeof(own)) == 0);
    ASSERT(SSL_set_fd(ssl, fd) == 1);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0 || SSL_connect(ssl) != 1) {
        SSL_free(ssl);
        close(fd);
        return NULL;
    }
    return ssl;
}

static void end_link(struct front *front, uint32_t at)
{
    struct front_link *link = &front->links[at];

    close(SSL_get_fd(link->replica));
    SSL_free(link->replica);
    close(link->client);
    front->links[at] = front->links[--front->count];
}

/* Forwards the first head of a connection and what follows it so far. */
static void begin_link(struct front *front, int client)
{
    char head[HEAD_MAX];
    size_t head_len = 0;
    size_t len = read_head(client, head, &head_len);
    SSL *replica = len > 0 && front->count < FRONT_LINKS_MAX ? dial(front) : NULL;
    struct buf out;

    if (!replica) {
        close(client);
        return;
    }
    buf_init(&out, (size_t)2 * HEAD_MAX);
    change_head(front, client, head, &out);
    buf_append(&out, head + head_len, len - head_len);
    front->links[front->count++] = (struct front_link){.client = client, .replica = replica};
    if (SSL_write(replica, out.data, (int)out.len) <= 0) {
        end_link(front, front->count - 1);
    }
    buf_release(&out);
}

/* False at the end of either side. */
static bool pass_up(struct front_link *link)
{
    uint8_t bytes[PIECE_BYTES];
    ssize_t got = recv(link->client, bytes, sizeof(bytes), 0);

    return got > 0 && SSL_write(link->replica, bytes, (int)got) > 0;
}

static bool pass_down(struct front_link *link)
{
    uint8_t bytes[PIECE_BYTES];

    do {
        int got = SSL_read(link->replica, bytes, sizeof(bytes));

        if (got <= 0) {
            return SSL_get_error(link->replica, got) == SSL_ERROR_WANT_READ;
        }
        if (!relay_send_all(link->client, bytes, (size_t)got)) {
            return false;
        }
    } while (SSL_pending(link->replica) > 0);
    return true;
}

static void run(void *arg)
{
    struct front *front = arg;
    struct pollfd fds[1 + 2 * FRONT_LINKS_MAX];
    sigset_t pipe;

    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe, NULL);
    while (!atomic_load(&front->stopping)) {
        uint32_t count = front->count;

        fds[0] = (struct pollfd){.fd = front->listen_fd, .events = POLLIN};
        for (uint32_t i = 0; i < count; i++) {
            fds[1 + 2 * i] = (struct pollfd){.fd = front->links[i].client, .events = POLLIN};
            fds[2 + 2 * i] =
                (struct pollfd){.fd = SSL_get_fd(front->links[i].replica), .events = POLLIN};
        }
        if (poll(fds, 1 + 2 * count, LOOK_MS) <= 0) {
            continue;
        }
        for (uint32_t i = count; i-- > 0;) {
            if ((fds[2 + 2 * i].revents && !pass_down(&front->links[i])) ||
                (fds[1 + 2 * i].revents && !pass_up(&front->links[i]))) {
                end_link(front, i);
            }
        }
        if (fds[0].revents) {
            begin_link(front, accept(front->listen_fd, NULL, NULL));
        }
    }
}

void front_start(struct front *front)
{
    char path[PATH_BYTES_MAX];

    front->ctx = SSL_CTX_new(TLS_client_method());
    ASSERT(front->ctx);
    /* Without this a blocking read waits for data after a ticket. */
    (void)SSL_CTX_clear_mode(front->ctx, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_verify(front->ctx, SSL_VERIFY_PEER, NULL);
    (void)snprintf(path, sizeof(path), "%s/ca.pem", front->certs);
    ASSERT(SSL_CTX_load_verify_file(front->ctx, path) == 1);
    (void)snprintf(path, sizeof(path), "%s/front.pem", front->certs);
    ASSERT(SSL_CTX_use_certificate_chain_file(front->ctx, path) == 1);
    (void)snprintf(path, sizeof(path), "%s/front.key", front->certs);
    ASSERT(SSL_CTX_use_PrivateKey_file(front->ctx, path, SSL_FILETYPE_PEM) == 1);
    front->listen_fd = relay_listen(BACKLOG, &front->port);
    thread_start(&front->thread, "front", run, front);
}

void front_stop(struct front *front)
{
    atomic_store(&front->stopping, true);
    thread_join(&front->thread);
    while (front->count > 0) {
        end_link(front, 0);
    }
    close(front->listen_fd);
    SSL_CTX_free(front->ctx);
}
