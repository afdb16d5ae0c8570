#include "tests/lib/stream_kit.h"

#include "base/check.h"
#include "tests/lib/exchange.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WAIT_MS = 120000,
    READ_BYTES = 65536,
    EVENT_TEXT_MAX = 4096,
    MEMBER_MAX = 2048
};

int kit_stream_connect(uint16_t port, int receive_bytes)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    if (receive_bytes > 0) {
        assert_int_equal(
            setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes)), 0);
    }
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Reads more bytes into `raw`; false once the server has closed the connection. */
static bool receive(struct kit_stream *stream)
{
    struct pollfd wait = {.fd = stream->fd, .events = POLLIN};
    uint8_t *to = buf_reserve(&stream->raw, READ_BYTES);

    ASSERT(to);
    if (poll(&wait, 1, WAIT_MS) != 1) {
        fail_msg("nothing arrived; not yet decoded: %s; the last frame was %s",
                 buf_cstr(&stream->text), buf_cstr(&stream->frame));
    }

    ssize_t got = recv(stream->fd, to, READ_BYTES, 0);

    if (got <= 0) {
        stream->closed = true;
        return false;
    }
    stream->raw.len += (size_t)got;
    return true;
}

void kit_stream_read_head(struct kit_stream *stream)
{
    const uint8_t *end = NULL;

    while (!(end = stream->raw.len ? memmem(stream->raw.data, stream->raw.len, "\r\n\r\n", 4)
                                   : NULL)) {
        assert_true(receive(stream));
    }

    size_t len = (size_t)(end - stream->raw.data) + 4;

    assert_true(len < sizeof(stream->head));
    memcpy(stream->head, stream->raw.data, len);
    stream->head[len] = '\0';
    buf_consume(&stream->raw, len);
    assert_int_equal(sscanf(stream->head, "HTTP/1.1 %d", &stream->status), 1);
    stream->chunked = strcasestr(stream->head, "transfer-encoding: chunked") != NULL;
    stream->lines = strstr(stream->head, "text/event-stream") == NULL;
}

/* Sends a head and a body. */
static void begin(struct kit_stream *stream, int fd, const char *head, int len, const char *body)
{
    ssize_t body_len = (ssize_t)strlen(body);

    *stream = (struct kit_stream){.fd = fd};
    buf_init(&stream->raw, STREAM_KIT_TEXT_MAX);
    buf_init(&stream->text, STREAM_KIT_TEXT_MAX);
    buf_init(&stream->frame, STREAM_KIT_TEXT_MAX);
    assert_true(len > 0 && len < STREAM_KIT_HEAD_MAX);
    assert_int_equal(send(fd, head, (size_t)len, MSG_NOSIGNAL), len);
    assert_int_equal(send(fd, body, (size_t)body_len, MSG_NOSIGNAL), body_len);
}

void kit_stream_send(struct kit_stream *stream, int fd, uint16_t port, const char *target,
                     const char *headers)
{
    char text[STREAM_KIT_HEAD_MAX];
    int len = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost:%u\r\n%s\r\n",
                       target, port, headers);

    begin(stream, fd, text, len, "");
}

void kit_stream_post(struct kit_stream *stream, int fd, uint16_t port, const char *target,
                     const char *json)
{
    char text[STREAM_KIT_HEAD_MAX];
    int len = snprintf(text, sizeof(text),
                       "POST %s HTTP/1.1\r\nHost: localhost:%u\r\nConnection: close\r\n"
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                       target, port, strlen(json));

    begin(stream, fd, text, len, json);
}

void kit_stream_ask(struct kit_stream *stream, int fd, uint16_t port, const char *target,
                    const char *headers)
{
    kit_stream_send(stream, fd, port, target, headers);
    kit_stream_read_head(stream);
}

bool kit_stream_has_more(const struct kit_stream *stream)
{
    struct pollfd wait = {.fd = stream->fd, .events = POLLIN};

    return poll(&wait, 1, 0) == 1;
}

void kit_stream_open(struct kit_stream *stream, uint16_t port, const char *target,
                     const char *headers)
{
    kit_stream_ask(stream, kit_stream_connect(port, 0), port, target, headers);
}

void kit_stream_close(struct kit_stream *stream)
{
    close(stream->fd);
    buf_release(&stream->raw);
    buf_release(&stream->text);
    buf_release(&stream->frame);
}

/* ---- Chunks. ---- */

/* The size of the next chunk; false when its line is incomplete. */
static bool begin_chunk(struct kit_stream *stream)
{
    const uint8_t *from = stream->raw.data;
    const uint8_t *end = stream->raw.len ? memmem(from, stream->raw.len, "\r\n", 2) : NULL;
    char line[32] = "";

    if (!end) {
        return false;
    }
    assert_true((size_t)(end - from) < sizeof(line));
    memcpy(line, from, (size_t)(end - from));
    stream->chunk_left = strtoull(line, NULL, 16);
    /* A blank line follows the last chunk and belongs to it. */
    size_t len = (size_t)(end - from) + (stream->chunk_left == 0 ? 4 : 2);

    if (stream->raw.len < len) {
        return false;
    }
    stream->complete = stream->chunk_left == 0;
    stream->in_chunk = !stream->complete;
    buf_consume(&stream->raw, len);
    return true;
}

/* Moves bytes of the body from `raw` to `text`; false when that needs more bytes. */
static bool take_apart(struct kit_stream *stream)
{
    size_t left = stream->chunk_left;
    size_t len = stream->raw.len < left ? stream->raw.len : left;

    if (!stream->chunked) {
        buf_append_slice(&stream->text, buf_slice(&stream->raw));
        buf_clear(&stream->raw);
        return false;
    }
    if (stream->complete || (!stream->in_chunk && !begin_chunk(stream))) {
        return false;
    }
    if (!stream->in_chunk || stream->chunk_left != left) {
        return !stream->complete;
    }
    buf_append(&stream->text, stream->raw.data, len);
    buf_consume(&stream->raw, len);
    stream->chunk_left -= len;
    if (stream->chunk_left == 0 && stream->raw.len >= 2) {
        buf_consume(&stream->raw, 2);
        stream->in_chunk = false;
        return true;
    }
    return false;
}

static bool cut_frame(struct kit_stream *stream)
{
    const char *mark = stream->lines ? "\n" : "\n\n";
    const uint8_t *end =
        stream->text.len ? memmem(stream->text.data, stream->text.len, mark, strlen(mark)) : NULL;

    if (!end) {
        return false;
    }

    size_t len = (size_t)(end - stream->text.data);

    buf_clear(&stream->frame);
    buf_append(&stream->frame, stream->text.data, len);
    buf_consume(&stream->text, len + strlen(mark));
    return true;
}

/* The value of the line with that prefix, copied; "" when there is none. */
static void copy_line(const char *frame, const char *mark, struct buf *out)
{
    const char *at = strstr(frame, mark);

    buf_clear(out);
    if (at) {
        at += strlen(mark);
        (void)buf_append(out, at, strcspn(at, "\n"));
    }
}

/* The begin of an event in NDJSON; an export has other lines. */
#define EVENT_LINE "{\"event\":"

static void note(struct kit_stream *stream)
{
    const char *frame = buf_cstr(&stream->frame);
    struct buf name;
    struct buf id;
    struct buf data;

    if (!exchange_on() || (stream->lines && strncmp(frame, EVENT_LINE, strlen(EVENT_LINE)) != 0)) {
        return;
    }
    if (stream->lines) {
        exchange_event(NULL, NULL, frame);
        return;
    }
    buf_init(&name, STREAM_KIT_HEAD_MAX);
    buf_init(&id, STREAM_KIT_HEAD_MAX);
    buf_init(&data, STREAM_KIT_TEXT_MAX);
    copy_line(frame, "event: ", &name);
    copy_line(frame, "\nid: ", &id);
    copy_line(frame, "data: ", &data);
    exchange_event(buf_cstr(&name), id.len > 0 ? buf_cstr(&id) : NULL, buf_cstr(&data));
    buf_release(&name);
    buf_release(&id);
    buf_release(&data);
}

const char *kit_stream_next(struct kit_stream *stream)
{
    for (;;) {
        while (take_apart(stream)) {
        }
        if (cut_frame(stream)) {
            note(stream);
            return buf_cstr(&stream->frame);
        }
        if (stream->complete || stream->closed) {
            return NULL;
        }
        (void)receive(stream);
    }
}

/* ---- The content of a frame. ---- */

const char *kit_stream_member(struct kit_stream *stream, const char *name)
{
    static char value[MEMBER_MAX];
    char mark[64];
    const char *at = NULL;

    (void)snprintf(mark, sizeof(mark), "\"%s\":", name);
    at = strstr(buf_cstr(&stream->frame), mark);
    value[0] = '\0';
    if (at) {
        bool quoted = at[strlen(mark)] == '"';
        const char *from = at + strlen(mark) + quoted;

        (void)snprintf(value, sizeof(value), "%.*s", (int)strcspn(from, quoted ? "\"" : ",}"),
                       from);
    }
    return value;
}

const char *kit_stream_id(struct kit_stream *stream)
{
    static char id[64];
    const char *at = strstr(buf_cstr(&stream->frame), "\nid: ");

    id[0] = '\0';
    if (at) {
        (void)snprintf(id, sizeof(id), "%.*s", (int)strcspn(at + 5, "\n"), at + 5);
    }
    return id;
}

static size_t put(char *out, size_t at, const char *before, const char *text, const char *after)
{
    if (text[0] == '\0') {
        return at;
    }
    return at + (size_t)snprintf(out + at, EVENT_TEXT_MAX - at, "%s%s%s", before, text, after);
}

static void check_name(struct kit_stream *stream, const char *name)
{
    char line[64];

    (void)snprintf(line, sizeof(line), "event: %s\n", name);
    if (!stream->lines && !strstr(buf_cstr(&stream->frame), line)) {
        fail_msg("the frame's name differs from that of its object: %s", buf_cstr(&stream->frame));
    }
}

const char *kit_stream_event(struct kit_stream *stream)
{
    static char out[EVENT_TEXT_MAX];
    size_t at = 0;

    do {
        if (!kit_stream_next(stream)) {
            return NULL;
        }
    } while (strcmp(kit_stream_member(stream, "event"), "heartbeat") == 0);
    check_name(stream, kit_stream_member(stream, "event"));
    at = put(out, at, "", kit_stream_member(stream, "event"), "");
    if (strncmp(out, "Node", 4) == 0) {
        at = put(out, at, " ", kit_stream_member(stream, "path"), "");
        at = put(out, at, " ='", kit_stream_member(stream, "dataUtf8"), "'");
        at = put(out, at, "", kit_stream_member(stream, "diff")[0] ? " diff" : "", "");
        at = put(out, at, "", strcmp(kit_stream_member(stream, "end"), "true") ? "" : " end", "");
    }
    at = put(out, at, " ", kit_stream_member(stream, "resumed"), "");
    at = put(out, at, " ", kit_stream_member(stream, "reason"), "");
    (void)put(out, at, " ", kit_stream_member(stream, "state"), "");
    return out;
}
