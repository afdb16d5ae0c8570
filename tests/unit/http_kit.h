/*
 * http_kit.h - a running HTTP front end over the gate of http_gate.h, and a client that sends bytes
 * exactly as given.
 */
#ifndef TESTS_UNIT_HTTP_KIT_H
#define TESTS_UNIT_HTTP_KIT_H

#include "http/http_int.h"
#include "tests/lib/unit.h"
#include "tests/unit/http_gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    KIT_ANSWER_MAX = 8 << 20
};

/* ---- Clients with passwords ---- */

#define KIT_BOB   "Authorization: Basic Ym9iOnB3\r\n"         /* bob:pw */
#define KIT_EVE   "Authorization: basic   ZXZlOng6eTp6\r\n"   /* eve:x:y:z */
#define KIT_ROOT  "Authorization: Basic c3VwZXI6cm9vdA==\r\n" /* super:root */
#define KIT_SUPER "super:zUZ0bpqYS7FucDXsnUgxOWTto1s="        /* Of super:root. */

/* Makes KIT_ROOT the super user. */
static inline void kit_permit_root(struct config_clients *limits)
{
    (void)snprintf(limits->super_digest, sizeof(limits->super_digest), KIT_SUPER);
}

/* The port that the kernel chose. */
static inline uint16_t kit_port(const struct http *http)
{
    return http->port;
}

/* ---- The client ---- */

struct kit_answer {
    int status; /* 0: the connection closed without an answer. */
    char *head; /* As received, without its blank line. */
    uint8_t *body;
    size_t body_len;
    bool closed; /* The server closed the connection after it. */
};

static inline int kit_connect(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void kit_send_bytes(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);

        if (sent <= 0) {
            return; /* The server may close the connection midway: the answer shows it. */
        }
        at += sent;
        len -= (size_t)sent;
    }
}

static inline void kit_send(int fd, const char *text)
{
    kit_send_bytes(fd, text, strlen(text));
}

/* Reads more bytes into `buf`; false at the end of the stream. Fails the test at the deadline. */
static bool kit_recv(int fd, struct buf *buf)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    uint8_t *to = buf_reserve(buf, 65536);

    assert_non_null(to);
    assert_int_equal(poll(&wait, 1, KIT_DEADLINE_MS), 1);

    ssize_t got = recv(fd, to, 65536, 0);

    if (got <= 0) {
        return false;
    }
    buf->len += (size_t)got;
    return true;
}

static const char *kit_header(const struct kit_answer *answer, const char *name)
{
    static char value[8192];
    size_t name_len = strlen(name);

    for (const char *line = strchr(answer->head, '\n'); line; line = strchr(line + 1, '\n')) {
        if (strncasecmp(line + 1, name, name_len) == 0 && line[1 + name_len] == ':') {
            const char *from = line + 1 + name_len + 2;

            (void)snprintf(value, sizeof(value), "%.*s", (int)strcspn(from, "\r\n"), from);
            return value;
        }
    }
    return NULL;
}

static inline void kit_free(struct kit_answer *answer)
{
    mem_free(answer->head);
    mem_free(answer->body);
    *answer = (struct kit_answer){.status = 0};
}

/* Reads one answer; `no_body` for HEAD. Fails if further bytes follow it. */
static inline struct kit_answer kit_read(int fd, bool no_body)
{
    struct kit_answer answer = {.status = 0};
    struct buf buf;
    const uint8_t *end = NULL;

    buf_init(&buf, KIT_ANSWER_MAX);
    while (!(end = buf.len ? memmem(buf.data, buf.len, "\r\n\r\n", 4) : NULL)) {
        if (!kit_recv(fd, &buf)) {
            answer.closed = true;
            answer.head = mem_strdup("");
            answer.body = mem_alloc(1);
            buf_release(&buf);
            return answer;
        }
    }

    size_t head_len = (size_t)(end - buf.data);
    const char *length = NULL;
    size_t body_len = 0;

    answer.head = mem_alloc(head_len + 1);
    memcpy(answer.head, buf.data, head_len);
    answer.head[head_len] = '\0';
    assert_int_equal(sscanf(answer.head, "HTTP/1.1 %d", &answer.status), 1);
    length = kit_header(&answer, "Content-Length");
    if (length && !no_body && answer.status != 204 && answer.status != 304) {
        assert_int_equal(sscanf(length, "%zu", &body_len), 1);
    }
    while (buf.len < head_len + 4 + body_len) {
        assert_true(kit_recv(fd, &buf));
    }
    answer.body_len = buf.len - head_len - 4;
    assert_int_equal(answer.body_len, body_len);
    answer.body = mem_alloc(body_len + 1);
    memcpy(answer.body, buf.data + head_len + 4, body_len);
    answer.body[body_len] = '\0';
    buf_release(&buf);
    return answer;
}

/* True once the server has closed the connection. */
static inline bool kit_closed(int fd)
{
    struct buf buf;
    bool more = true;

    buf_init(&buf, KIT_ANSWER_MAX);
    more = kit_recv(fd, &buf);
    buf_release(&buf);
    return !more;
}

/* Sends one request on a new connection. `headers` are full lines; a body is sent with its length.
 */
static inline struct kit_answer kit_ask(uint16_t port, const char *method, const char *target,
                                        const char *headers, const char *body)
{
    int fd = kit_connect(port);
    struct buf out;
    struct kit_answer answer;

    buf_init(&out, KIT_ANSWER_MAX);
    buf_printf(&out, "%s %s HTTP/1.1\r\nHost: localhost:%u\r\n%s", method, target, port, headers);
    if (body) {
        buf_printf(&out, "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
    } else {
        buf_append_str(&out, "\r\n");
    }
    kit_send_bytes(fd, out.data, out.len);
    answer = kit_read(fd, strcmp(method, "HEAD") == 0);
    close(fd);
    buf_release(&out);
    return answer;
}

static inline bool kit_body_has(const struct kit_answer *answer, const char *text)
{
    return strstr((const char *)answer->body, text) != NULL;
}

#endif
