#include "tests/proc/plain.h"

#include "base/check.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "tests/lib/exchange.h"
#include "tests/proc/web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    PIECE = 64 << 10,
    HEADER_MAX = 1024
};

struct plain {
    int fd; /* -1: ended. */
    uint16_t port;
    uint64_t end_ms; /* Deadline of the current call. */
    struct buf in;
    bool chunked;    /* The stream's body is chunked. */
    struct buf text; /* Decoded chunks of a stream. */
    struct buf line;
    char header[HEADER_MAX];
};

void plain_answer_init(struct plain_answer *answer)
{
    *answer = (struct plain_answer){.status = 0};
    buf_init(&answer->head, PLAIN_HEAD_MAX);
    buf_init(&answer->body, PLAIN_BYTES_MAX);
}

void plain_answer_release(struct plain_answer *answer)
{
    buf_release(&answer->head);
    buf_release(&answer->body);
}

static void end(struct plain *plain)
{
    if (plain->fd >= 0) {
        close(plain->fd);
        plain->fd = -1;
    }
}

static int left_ms(const struct plain *plain)
{
    uint64_t now_ms = os_now_ms();

    return now_ms < plain->end_ms ? (int)(plain->end_ms - now_ms) : 0;
}

static bool wait_for(struct plain *plain, short events)
{
    struct pollfd ready = {.fd = plain->fd, .events = events};

    return plain->fd >= 0 && poll(&ready, 1, left_ms(plain)) == 1;
}

struct plain *plain_open(uint16_t port, uint32_t timeout_ms)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct plain *plain = mem_zalloc(1, sizeof(*plain));

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    plain->port = port;
    plain->end_ms = os_now_ms() + timeout_ms;
    buf_init(&plain->in, PLAIN_BYTES_MAX + PIECE);
    buf_init(&plain->text, PLAIN_BYTES_MAX);
    buf_init(&plain->line, PLAIN_BYTES_MAX);
    plain->fd = loop_connect((const struct sockaddr *)&address, sizeof(address));
    if (plain->fd < 0 || !wait_for(plain, POLLOUT) || loop_connect_result(plain->fd) != 0) {
        plain_close(plain);
        return NULL;
    }
    return plain;
}

void plain_close(struct plain *plain)
{
    if (!plain) {
        return;
    }
    end(plain);
    buf_release(&plain->in);
    buf_release(&plain->text);
    buf_release(&plain->line);
    mem_free(plain);
}

bool plain_is_open(const struct plain *plain)
{
    return plain->fd >= 0;
}

/* ---- Bytes. ---- */

static bool send_all(struct plain *plain, struct slice bytes, bool *ret_sent)
{
    size_t sent = 0;

    while (sent < bytes.len && wait_for(plain, POLLOUT)) {
        ssize_t got = loop_send(plain->fd, bytes.data + sent, bytes.len - sent);

        if (got < 0 && got != -EAGAIN) {
            return false;
        }
        sent += got > 0 ? (size_t)got : 0;
        *ret_sent = *ret_sent || sent > 0;
    }
    return sent == bytes.len;
}

/* False when nothing arrived in time, or the server has closed. */
static bool read_some(struct plain *plain)
{
    uint8_t *to = buf_reserve(&plain->in, PIECE);

    if (!to || !wait_for(plain, POLLIN)) {
        return false;
    }

    ssize_t got = read(plain->fd, to, PIECE);

    if (got > 0) {
        plain->in.len += (size_t)got;
        return true;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        end(plain);
        return false;
    }
    return true;
}

/* ---- The answer. ---- */

const char *plain_header(struct plain_answer *answer, const char *name)
{
    return web_header_of(buf_cstr(&answer->head), name);
}

json_t *plain_json(const struct plain_answer *answer)
{
    return json_loadb((const char *)answer->body.data, answer->body.len, JSON_DECODE_ANY, NULL);
}

static bool take_head(struct plain *plain, struct plain_answer *answer)
{
    const uint8_t *blank = NULL;
    int status = 0;

    while (!blank) {
        blank = plain->in.len > 0 ? memmem(plain->in.data, plain->in.len, "\r\n\r\n", 4) : NULL;
        if (!blank && !read_some(plain)) {
            return false;
        }
    }

    size_t len = (size_t)(blank - plain->in.data) + 4;

    buf_append(&answer->head, plain->in.data, len);
    buf_consume(&plain->in, len);
    if (sscanf(buf_cstr(&answer->head), "HTTP/1.1 %d", &status) != 1) {
        return false;
    }
    answer->status = status;
    return true;
}

static bool has_body(const struct plain_call *call, long status)
{
    return status != 204 && status != 304 && strcmp(call->method, "HEAD") != 0;
}

/* Reads a body of known length; answers that are no streams have one. */
static bool take_body(struct plain *plain, const struct plain_call *call,
                      struct plain_answer *answer)
{
    const char *length = plain_header(answer, "Content-Length");
    size_t want = length ? strtoul(length, NULL, 10) : 0;

    if (!has_body(call, answer->status)) {
        return true;
    }
    if (!length) {
        return false;
    }
    while (plain->in.len < want) {
        if (!read_some(plain)) {
            return false;
        }
    }
    buf_append(&answer->body, plain->in.data, want);
    buf_consume(&plain->in, want);
    return true;
}

static bool send_call(struct plain *plain, const struct plain_call *call, bool *ret_sent)
{
    size_t len = call->body ? strlen(call->body) : 0;
    struct buf text;

    buf_init(&text, PLAIN_BYTES_MAX);
    buf_printf(&text, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s", call->method, call->target,
               plain->port, call->headers ? call->headers : "");
    if (call->body) {
        buf_printf(&text, "Content-Length: %zu\r\n", len);
    }
    buf_append_str(&text, "\r\n");
    buf_append(&text, call->body, len);
    *ret_sent = false;

    bool sent = send_all(plain, buf_slice(&text), ret_sent);

    buf_release(&text);
    return sent;
}

static void begin(struct plain *plain, uint32_t timeout_ms, struct plain_answer *answer)
{
    plain->end_ms = os_now_ms() + timeout_ms;
    answer->status = 0;
    answer->sent = false;
    buf_clear(&answer->head);
    buf_clear(&answer->body);
}

static void note(const struct plain_call *call, const struct plain_answer *answer, bool stream)
{
    exchange_http(&(struct exchange){.method = call->method,
                                     .target = call->target,
                                     .headers = call->headers,
                                     .body = call->body,
                                     .head = buf_slice(&answer->head),
                                     .answer = buf_slice(&answer->body),
                                     .stream = stream});
}

long plain_do(struct plain *plain, const struct plain_call *call, uint32_t timeout_ms,
              struct plain_answer *answer)
{
    begin(plain, timeout_ms, answer);
    if (!send_call(plain, call, &answer->sent) || !take_head(plain, answer) ||
        !take_body(plain, call, answer)) {
        answer->status = 0;
        end(plain);
        return 0;
    }

    note(call, answer, false);

    const char *connection = plain_header(answer, "Connection");

    if (connection && !strcasecmp(connection, "close")) {
        end(plain);
    }
    return answer->status;
}

/* ---- Streams. ---- */

long plain_stream(struct plain *plain, const char *target, const char *headers, uint32_t timeout_ms,
                  struct plain_answer *answer)
{
    struct plain_call call = {.method = "GET", .target = target, .headers = headers};

    begin(plain, timeout_ms, answer);
    if (!send_call(plain, &call, &answer->sent) || !take_head(plain, answer)) {
        end(plain);
        return 0;
    }

    note(&call, answer, true);

    const char *coding = plain_header(answer, "Transfer-Encoding");

    plain->chunked = coding && !strcasecmp(coding, "chunked");
    return answer->status;
}

/* Takes one complete chunk; false when more bytes are needed. The last one ends the stream. */
static bool take_chunk(struct plain *plain)
{
    const uint8_t *at = plain->in.len > 0 ? memmem(plain->in.data, plain->in.len, "\r\n", 2) : NULL;
    size_t head = at ? (size_t)(at - plain->in.data) + 2 : 0;
    size_t len = at ? strtoul(buf_cstr(&plain->in), NULL, 16) : 0;

    if (!at || plain->in.len < head + len + 2) {
        return false;
    }
    buf_append(&plain->text, plain->in.data + head, len);
    buf_consume(&plain->in, head + len + 2);
    if (len == 0) {
        end(plain);
    }
    return true;
}

static void take_text(struct plain *plain)
{
    if (!plain->chunked) {
        buf_append_slice(&plain->text, buf_slice(&plain->in));
        buf_clear(&plain->in);
        return;
    }
    while (plain->fd >= 0 && take_chunk(plain)) {
    }
}

static bool cut_line(struct plain *plain)
{
    const uint8_t *at =
        plain->text.len > 0 ? memchr(plain->text.data, '\n', plain->text.len) : NULL;
    size_t len = at ? (size_t)(at - plain->text.data) : 0;

    if (!at) {
        return false;
    }
    buf_clear(&plain->line);
    buf_append(&plain->line, plain->text.data, len);
    buf_consume(&plain->text, len + 1);
    return true;
}

const char *plain_line(struct plain *plain, uint32_t timeout_ms)
{
    bool more = true;

    plain->end_ms = os_now_ms() + timeout_ms;
    take_text(plain);
    while (!cut_line(plain)) {
        if (!more) {
            return NULL;
        }
        more = read_some(plain);
        take_text(plain);
    }
    if (plain->line.len > 0 && plain->line.data[0] == '{') {
        exchange_event(NULL, NULL, buf_cstr(&plain->line));
    }
    return buf_cstr(&plain->line);
}
