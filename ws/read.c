/*
 * What a client's bytes are: messages and control frames, in order. Each call takes what lies there
 * as far as messages may be taken; the rest is kept, at most two pieces of a connection, and taken
 * first when it continues. So a client whose messages wait is heard as long as there is room.
 */
#include "base/check.h"
#include "base/os_clock.h"
#include "base/utf8.h"
#include "ws/ws_int.h"

/* ---- Messages ---- */

/* One more message: when is it on time at the configured rate? */
static void keep_to_rate(struct ws_socket *socket)
{
    uint32_t per_s = socket->ws->limits->socket_messages_per_s;
    uint64_t now_us = os_now_us();

    if (per_s == 0) {
        return;
    }
    socket->rate_us = (socket->rate_us > now_us ? socket->rate_us : now_us) + 1000000 / per_s;
    if (socket->rate_us > now_us + WS_BURST_US) {
        ws_intake_stop(socket, WS_STOP_RATE, true);
        ws_timer_at(socket, os_now_ms() + (socket->rate_us - now_us - WS_BURST_US) / 1000 + 1);
    }
}

static void take_message(struct ws_socket *socket, struct slice text)
{
    metric_add(&socket->ws->metrics.messages, 1);
    if (!utf8_valid(text)) {
        ws_close_begin(socket, WS_CODE_NOT_UTF8, "not UTF-8");
        return;
    }
    keep_to_rate(socket);
    ws_queue_message(socket, text);
    ws_turn_soon(socket);
}

/* A message that ends the socket is read no further. When messages that are not whole take all the
 * room there is, somebody has to go: the one whose piece does not fit, so that those who have room
 * can finish. What makes a message whole always fits. */
static bool is_welcome(struct ws_socket *socket, struct slice piece, bool text, bool last)
{
    const struct ws *ws = socket->ws;

    if (!text) {
        ws_close_begin(socket, WS_CODE_NOT_TEXT, "messages are text");
    } else if (piece.len > socket->in.size_max - socket->in.len) {
        ws_close_begin(socket, WS_CODE_TOO_LARGE, "larger than maxMessageBytes");
    } else if (!last && piece.len > ws->pieces_max - ws->pieces) {
        ws_close_begin(socket, WS_CODE_NO_ROOM, "too many unfinished messages");
    }
    return socket->code == WS_CODE_NONE;
}

static void receive(struct ws_socket *socket, struct slice piece, bool text, bool last)
{
    if (!socket->open || socket->code != WS_CODE_NONE || !is_welcome(socket, piece, text, last)) {
        return;
    }
    if (last && socket->in_end_ms == 0) {
        take_message(socket, piece); /* The common one, whole. */
        return;
    }
    ws_intake_add(socket, piece);
    if (last) {
        take_message(socket, buf_slice(&socket->in));
        ws_intake_drop_message(socket);
    } else if (socket->in_end_ms == 0) {
        ws_intake_await_rest(socket);
    }
}

/* ---- Control frames ---- */

/* Of bytes that may have waited for longer the client may be frozen since. */
static void heard(struct ws_socket *socket)
{
    socket->heard_ms = os_now_ms();
    if (ws_intake_is_fresh(socket)) {
        ws_session_keep(socket);
    }
}

static void take_ping(struct ws_socket *socket, struct slice payload)
{
    ASSERT(payload.len <= sizeof(socket->pong));
    socket->pong_len = (uint8_t)payload.len;
    socket->pong_due = true; /* The newest, in place of one that has not left (5.5.3). */
    if (payload.len > 0) {
        memcpy(socket->pong, payload.data, payload.len);
    }
    ws_turn_soon(socket);
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
        heard(socket);
    }
}

/* The client closes. What it asked and was not answered is not any more; what waits for it leaves
 * before our close frame, which says the same. */
static void take_close(struct ws_socket *socket, uint16_t code)
{
    socket->parted = true;
    if (!socket->farewell) {
        ws_message_release_all(socket);
        ws_out_close(socket, code, "");
        ws_close_frame_queued(socket);
    }
    ws_turn_soon(socket);
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
    ws_close_begin(socket, (enum ws_code)frame->code, reason_of(frame->code));
}

/* ---- Bytes ---- */

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
        receive(socket, frame->bytes, frame->text, frame->last);
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
        ws_close_cut(socket); /* The library reads on although it was told not to. */
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
        heard(socket);
    }
    size_t taken = socket->kept.len == 0 ? take_some(socket, bytes, len) : 0;

    keep(socket, bytes + taken, len - taken);
    ws_intake_pace(socket);
}

void ws_read_kept(struct ws_socket *socket)
{
    if (socket->kept.len > 0 && (may_take(socket) || socket->parted)) {
        drop_kept(socket, take_some(socket, socket->kept.data, socket->kept.len));
    }
    ws_intake_pace(socket);
}

void ws_read_release(struct ws_socket *socket)
{
    drop_kept(socket, socket->kept.len);
}
