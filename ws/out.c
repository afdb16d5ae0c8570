/*
 * Bytes on their way to a client. Frames are written here and not by the library, so that many of
 * them leave in one system call, and outside of its writable callback: that costs two changes of
 * the poll set a message. The library still owns the socket: it keeps what the kernel does not
 * take, and puts its own control frames between runs of ours, so a run ends with a whole frame.
 */
#include "base/check.h"
#include "base/loop.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

enum {
    FRAME_TEXT = 0x81, /* Final. */
    FRAME_PING = 0x89,
    FRAME_HEAD_MAX = 10,
    LEN_16_BITS = 126, /* In the second byte: the length follows. */
    LEN_64_BITS = 127
};

static size_t frame_head(uint8_t head[FRAME_HEAD_MAX], size_t len)
{
    size_t bytes = len < LEN_16_BITS ? 0 : len <= UINT16_MAX ? 2 : 8;

    head[0] = FRAME_TEXT;
    head[1] = (uint8_t)(bytes == 0 ? len : bytes == 2 ? LEN_16_BITS : LEN_64_BITS);
    for (size_t i = 0; i < bytes; i++) {
        head[2 + i] = (uint8_t)(len >> (8 * (bytes - 1 - i)));
    }
    return 2 + bytes;
}

/* Of the frame that begins at `at`, head included. */
static size_t frame_len(const uint8_t *at)
{
    size_t bytes = at[1] < LEN_16_BITS ? 0 : at[1] == LEN_16_BITS ? 2 : 8;
    size_t len = bytes == 0 ? at[1] : 0;

    for (size_t i = 0; i < bytes; i++) {
        len = len << 8 | at[2 + i];
    }
    return 2 + bytes + len;
}

void ws_out_frame(struct ws_socket *socket, const struct slice *parts, size_t count)
{
    uint8_t head[FRAME_HEAD_MAX];
    size_t len = 0;

    for (size_t i = 0; i < count; i++) {
        len += parts[i].len;
    }
    (void)buf_append(&socket->out, head, frame_head(head, len));
    for (size_t i = 0; i < count; i++) {
        (void)buf_append_slice(&socket->out, parts[i]);
    }
    ASSERT(!socket->out.overflow);
    ws_socket_turn(socket);
}

/* With a byte in it: the library does not tell us of an empty pong. */
void ws_out_ping(struct ws_socket *socket)
{
    static const uint8_t ping[] = {FRAME_PING, 1, 'z'};

    (void)buf_append(&socket->out, ping, sizeof(ping));
    ws_socket_turn(socket);
}

struct jsonw ws_out_begin(struct ws *ws)
{
    struct jsonw json;

    buf_clear(&ws->scratch);
    jsonw_init(&json, &ws->scratch);
    return json;
}

bool ws_out_end(struct ws_socket *socket)
{
    struct buf *scratch = &socket->ws->scratch;
    struct slice text = buf_slice(scratch);

    if (scratch->overflow) {
        return false;
    }
    ws_out_frame(socket, &text, 1);
    if (scratch->cap > WS_KEEP_BYTES) {
        buf_release(scratch);
    }
    return true;
}

bool ws_out_reply(struct ws_socket *socket)
{
    size_t before = ws_out_unsent(socket);

    if (!ws_out_end(socket)) {
        return false;
    }
    socket->replies = socket->sent < socket->replied ? socket->replies : 0;
    socket->replies += ws_out_unsent(socket) - before;
    socket->replied = socket->sent + ws_out_unsent(socket);
    return true;
}

/* More are made when all of them have been sent. What a reply brings along, such as the events that
 * a watch has missed, is bounded by what waits in all; other events are bounded before that. */
bool ws_out_is_full(const struct ws_socket *socket)
{
    size_t most = socket->ws->limits->socket_queue_bytes_max + WS_UNREAD_BYTES;

    return (socket->sent < socket->replied && socket->replies >= WS_UNREAD_BYTES) ||
           ws_out_unsent(socket) >= most;
}

size_t ws_out_unsent(const struct ws_socket *socket)
{
    return socket->out.len - socket->out_at;
}

/* The library keeps what it has; memory of an idle socket is freed. */
void ws_out_drop(struct ws_socket *socket)
{
    buf_release(&socket->out);
    socket->out_at = 0;
}

/* Whole frames, at least WS_SEND_BYTES of them when there are so many. */
static size_t next_run(const struct ws_socket *socket)
{
    size_t end = socket->out_at;

    while (end < socket->out.len && end - socket->out_at < WS_SEND_BYTES) {
        end += frame_len(socket->out.data + end);
    }
    ASSERT(end <= socket->out.len);
    return end - socket->out_at;
}

/* False when the connection is broken. */
static bool send_run(struct ws_socket *socket)
{
    size_t len = next_run(socket);

    if (lws_write(socket->wsi, socket->out.data + socket->out_at, len, LWS_WRITE_RAW) < 0) {
        return false;
    }
    socket->out_at += len;
    socket->sent += len;
    metric_add(&socket->ws->metrics.sent_bytes, len);
    return true;
}

/* A long queue that drains slowly gives its memory back on the way. */
static void compact(struct ws_socket *socket)
{
    if (socket->out_at == socket->out.len) {
        ws_out_drop(socket);
    } else if (socket->out_at > socket->out.len / 2) {
        buf_consume(&socket->out, socket->out_at);
        socket->out_at = 0;
    }
}

bool ws_out_is_taken(const struct ws_socket *socket, uint64_t *taken)
{
    return socket->open && loop_is_read(lws_get_socket_fd(socket->wsi), taken);
}

/* Does it take what waits for it? */
static void look_at_pace(struct ws_socket *socket, uint64_t sent_before)
{
    bool waiting = socket->out.len > 0 || lws_partial_buffered(socket->wsi);

    if (!waiting) {
        socket->stall_ms = 0;
        return;
    }
    lws_callback_on_writable(socket->wsi);
    if (socket->stall_ms == 0) {
        (void)ws_out_is_taken(socket, &socket->taken);
    }
    if (socket->stall_ms == 0 || socket->sent != sent_before) {
        socket->stall_ms = os_now_ms();
        ws_beat_at(socket, socket->stall_ms + socket->ws->limits->slow_timeout_ms);
    }
}

void ws_out_flush(struct ws_socket *socket)
{
    size_t end = socket->out_at + WS_TURN_BYTES;
    uint64_t sent_before = socket->sent;

    while (socket->open && socket->out_at < socket->out.len && socket->out_at < end &&
           !lws_partial_buffered(socket->wsi)) {
        if (!send_run(socket)) {
            ws_socket_cut(socket);
            return;
        }
    }
    if (socket->open) {
        compact(socket);
        look_at_pace(socket, sent_before);
        ws_lag_eased(socket);
        ws_queue_eased(socket);
    }
}
