/*
 * What a client's bytes are: messages and control frames, in order. Each call takes what lies there
 * as far as messages may be taken; the rest is kept, at most two pieces of a connection, and taken
 * first when it continues. So a client whose messages wait is heard as long as there is room.
 */
#include "base/check.h"
#include "base/loop.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

static void take_ping(struct ws_socket *socket, struct slice payload)
{
    ASSERT(payload.len <= sizeof(socket->pong));
    socket->pong_len = (uint8_t)payload.len;
    socket->pong_due = true; /* The newest, in place of one that has not left (5.5.3). */
    if (payload.len > 0) {
        memcpy(socket->pong, payload.data, payload.len);
    }
    ws_socket_turn(socket);
}

/* A pong repeats the time of its ping (out.c): the client was alive then, and has sent all that is
 * still unread after it. When we have read all the time since, nothing waits any more. */
static void take_pong(struct ws_socket *socket, struct slice payload)
{
    uint64_t asked_ms = 0;

    if (socket->behind_ms == 0 || payload.len != sizeof(asked_ms)) {
        return;
    }
    memcpy(&asked_ms, payload.data, sizeof(asked_ms));
    if (asked_ms > socket->behind_ms && asked_ms <= os_now_ms()) {
        socket->behind_ms = socket->reads && asked_ms >= socket->read_ms ? 0 : asked_ms;
        ws_socket_heard(socket);
    }
}

/* The client closes. What it asked and was not answered is not any more; what waits for it leaves
 * before our close frame, which says the same. */
static void take_close(struct ws_socket *socket, uint16_t code)
{
    socket->parted = true;
    if (!socket->farewell) {
        ws_queue_release(socket);
        ws_out_close(socket, code, "");
        ws_socket_said_farewell(socket);
    }
    ws_socket_turn(socket);
}

static const char *reason_of(uint16_t code)
{
    switch (code) {
    case WS_CODE_NOT_UTF8:
        return "not UTF-8";
    case WS_CODE_TOO_LARGE:
        return "larger than maxMessageBytes";
    default:
        return "malformed frame";
    }
}

static void take_fault(struct ws_socket *socket, const struct ws_frame *frame)
{
    socket->parted = true; /* Nothing that can be understood comes any more. */
    socket->rule = frame->reason;
    ws_socket_finish(socket, (enum ws_code)frame->code, reason_of(frame->code));
}

/* Once we are closing only the client's close counts. */
static void take(struct ws_socket *socket, enum ws_frame_kind kind, const struct ws_frame *frame)
{
    if (kind == WS_FRAME_CLOSE) {
        take_close(socket, frame->code);
    } else if (kind == WS_FRAME_FAULT) {
        take_fault(socket, frame);
    } else if (socket->code != WS_CODE_NONE) {
        return;
    } else if (kind == WS_FRAME_PIECE) {
        ws_socket_receive(socket, frame->bytes, frame->text, frame->last);
    } else if (kind == WS_FRAME_PING) {
        take_ping(socket, frame->bytes);
    } else {
        take_pong(socket, frame->bytes);
    }
}

static bool may_take(const struct ws_socket *socket)
{
    return (socket->stops == 0 || socket->farewell) && !socket->parted;
}

/* Bytes that are taken; all of them when none are of interest any more. */
static size_t take_some(struct ws_socket *socket, uint8_t *bytes, size_t len)
{
    uint8_t *at = bytes;
    size_t left = len;
    struct ws_frame frame;

    while (may_take(socket)) {
        enum ws_frame_kind kind = ws_frame_next(&socket->frames, &at, &left, &frame);

        if (kind == WS_FRAME_NONE) {
            break;
        }
        take(socket, kind, &frame);
    }
    return socket->parted ? len : len - left;
}

static void keep(struct ws_socket *socket, const uint8_t *bytes, size_t len)
{
    if (len == 0) {
        return;
    }
    if (!buf_append(&socket->kept, bytes, len)) {
        ws_socket_cut(socket); /* The library reads on although it was told not to. */
        return;
    }
    socket->ws->bytes += len;
}

static void drop_kept(struct ws_socket *socket, size_t len)
{
    ASSERT(socket->ws->bytes >= len);
    socket->ws->bytes -= len;
    buf_consume(&socket->kept, len);
    if (socket->kept.len == 0) {
        buf_release(&socket->kept);
    }
}

/* Bytes that are kept come first. */
void ws_read_bytes(struct ws_socket *socket, uint8_t *bytes, size_t len)
{
    if (!socket->open) {
        return; /* It was cut: the library reads on until it finds the end. */
    }
    if (socket->code == WS_CODE_NONE && !socket->farewell) {
        ws_socket_heard(socket);
    }
    size_t taken = socket->kept.len == 0 ? take_some(socket, bytes, len) : 0;

    keep(socket, bytes + taken, len - taken);
    ws_read_pace(socket);
}

void ws_read_kept(struct ws_socket *socket)
{
    if (socket->kept.len > 0 && (may_take(socket) || socket->parted)) {
        drop_kept(socket, take_some(socket, socket->kept.data, socket->kept.len));
    }
    ws_read_pace(socket);
}

/* Is the client to be read? While its messages wait, until one piece of the connection is kept.
 * While it closes, or behind a cut, all is read: its own close, and its end. */
static bool has_room(const struct ws_socket *socket)
{
    if (!socket->open || socket->farewell || (socket->stops == 0 && socket->kept.len == 0)) {
        return true;
    }
    return socket->kept.len < WS_READ_BYTES && socket->ws->bytes < WS_ALL_BYTES;
}

void ws_read_pace(struct ws_socket *socket)
{
    bool reads = has_room(socket);

    if (!socket->wsi || reads == socket->reads) {
        return;
    }
    if (reads) {
        socket->read_ms = os_now_ms();
    } else if (socket->behind_ms == 0) {
        socket->behind_ms = os_now_ms();
    }
    socket->reads = reads;
    (void)lws_rx_flow_control(socket->wsi, reads);
}

void ws_read_release(struct ws_socket *socket)
{
    drop_kept(socket, socket->kept.len);
}
