/*
 * A client's bytes: messages and control frames, in order. Each call takes bytes while messages may
 * be taken. Further bytes are kept, at most those of two reads per connection, and are taken
 * before newer bytes. So a client whose messages wait still shows that it is alive: as long as
 * there is room, its further bytes arrive.
 */
#include "base/utf8.h"
#include "ws/ws_int.h"

/* ---- Messages ---- */

/* Counts one more message against the configured rate. */
static void keep_to_rate(struct ws_socket *socket)
{
    uint32_t per_s = socket->ws->limits->socket_messages_per_s;
    uint64_t now_us = os_now_us();

    if (per_s == 0) {
        return;
    }
    socket->intake.rate_us = max_u64(socket->intake.rate_us, now_us) + 1000000 / per_s;
    if (socket->intake.rate_us > now_us + WS_BURST_US) {
        ws_intake_stop(socket, WS_STOP_RATE, true);
        ws_timer_at(socket,
                    os_now_ms() + (socket->intake.rate_us - now_us - WS_BURST_US) / 1000 + 1);
    }
}

static void take_message(struct ws_socket *socket, struct slice text)
{
    metric_add(&socket->ws->metrics.messages, 1);
    if (!utf8_valid(text)) {
        ws_close_begin(socket, WS_CODE_NOT_UTF8, "the text is not UTF-8");
        return;
    }
    keep_to_rate(socket);
    ws_queue_message(socket, text);
    ws_turn_soon(socket);
}

/* Whether to read this piece. A message that is not text or is too large closes the socket and is
 * read no further. */
static bool is_welcome(struct ws_socket *socket, struct slice piece, bool text)
{
    if (!text) {
        ws_close_begin(socket, WS_CODE_NOT_TEXT, "the message is binary and must be text");
    } else if (piece.len > socket->intake.message.size_max - socket->intake.message.len) {
        ws_close_begin(socket, WS_CODE_TOO_LARGE, "the message is larger than maxMessageBytes");
    }
    return socket->closing.code == WS_CODE_NONE;
}

static void receive(struct ws_socket *socket, struct slice piece, bool text, bool last)
{
    if (!socket->open || socket->closing.code != WS_CODE_NONE || !is_welcome(socket, piece, text)) {
        return;
    }
    if (last && socket->intake.message_end_ms == 0) {
        take_message(socket, piece); /* The common case: a message in one piece. */
        return;
    }
    if (!ws_intake_add(socket, piece, last)) {
        ws_close_begin(
            socket, WS_CODE_NO_ROOM,
            "unfinished messages use all memory reserved for them or the share of one address; "
            "try again later");
    } else if (last) {
        take_message(socket, buf_slice(&socket->intake.message));
        ws_intake_drop_message(socket);
    } else if (socket->intake.message_end_ms == 0) {
        ws_intake_await_rest(socket);
    }
}

/* ---- Control frames ---- */

/* Notes that bytes have arrived. Bytes that may have waited unread for longer than requestTimeout
 * do not keep the session alive: the client may be frozen since it sent them. */
static void heard(struct ws_socket *socket)
{
    socket->clock.heard_ms = os_now_ms();
    if (ws_intake_is_fresh(socket)) {
        ws_session_keep(socket);
    }
}

static void take_ping(struct ws_socket *socket, struct slice payload)
{
    ASSERT(payload.len <= sizeof(socket->out.pong));
    socket->out.pong_len = (uint8_t)payload.len;
    socket->out.pong_due = true; /* For the newest ping only (RFC 6455, 5.5.3). */
    if (payload.len > 0) {
        memcpy(socket->out.pong, payload.data, payload.len);
    }
    ws_turn_soon(socket);
}

/* Raises `behind_ms`, the earliest time at which the unread bytes can have been sent. The client
 * has sent the pong after our ping, and the unread bytes after the pong. So `behind_ms` becomes the
 * time of the ping, which the pong repeats (out.c). If the socket was read all the time since the
 * ping, no bytes wait, and `behind_ms` becomes 0. */
static void take_pong(struct ws_socket *socket, struct slice payload)
{
    uint64_t asked_ms = 0;

    if (socket->intake.behind_ms == 0 || payload.len != sizeof(asked_ms)) {
        return;
    }
    memcpy(&asked_ms, payload.data, sizeof(asked_ms));
    if (asked_ms > socket->intake.behind_ms && asked_ms <= os_now_ms()) {
        socket->intake.behind_ms =
            socket->intake.reads && asked_ms >= socket->intake.reads_since_ms ? 0 : asked_ms;
        heard(socket);
    }
}

/* Handles the client's close frame. Unanswered messages get no reply; bytes that are queued for the
 * client leave before our close frame, which repeats the client's code. */
static void take_close(struct ws_socket *socket, uint16_t code)
{
    socket->closing.parted = true;
    if (!socket->closing.farewell) {
        ws_message_release_all(socket);
        ws_out_close(socket, code, "");
    }
    ws_turn_soon(socket);
}

static void take_fault(struct ws_socket *socket, const struct ws_frame *frame)
{
    socket->closing.parted = true; /* Further bytes have no meaning. */
    socket->closing.rule = frame->reason;
    ws_close_begin(socket, (enum ws_code)frame->code,
                   frame->code == WS_CODE_NOT_UTF8    ? "the text is not UTF-8"
                   : frame->code == WS_CODE_TOO_LARGE ? "the message is larger than maxMessageBytes"
                                                      : "malformed frame");
}

/* ---- Bytes ---- */

/* Handles what the reader has found. While the server closes the socket, everything except a
 * close frame or a fault is ignored. */
static void take(struct ws_socket *socket, enum ws_frame_kind kind, const struct ws_frame *frame)
{
    if (kind == WS_FRAME_CLOSE) {
        take_close(socket, frame->code);
    } else if (kind == WS_FRAME_FAULT) {
        take_fault(socket, frame);
    } else if (socket->closing.code != WS_CODE_NONE) {
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
    return (socket->intake.stops == 0 || socket->closing.farewell) && !socket->closing.parted;
}

/* Takes bytes while messages may be taken. Returns how many bytes were taken: all, once the client
 * has sent a close frame or broken a rule. */
static size_t take_some(struct ws_socket *socket, uint8_t *bytes, size_t len)
{
    uint8_t *at = bytes;
    size_t left = len;
    struct ws_frame frame;

    while (may_take(socket)) {
        enum ws_frame_kind kind = ws_frame_next(&socket->intake.frames, &at, &left, &frame);

        if (kind == WS_FRAME_NONE) {
            break;
        }
        take(socket, kind, &frame);
    }
    return socket->closing.parted ? len : len - left;
}

static void keep(struct ws_socket *socket, const uint8_t *bytes, size_t len)
{
    if (len == 0) {
        return;
    }
    if (!buf_append(&socket->intake.kept, bytes, len)) {
        ws_close_cut(socket); /* libwebsockets still reads, in spite of flow control. */
        return;
    }
    socket->ws->bytes += len;
}

static void drop_kept(struct ws_socket *socket, size_t len)
{
    ASSERT(socket->ws->bytes >= len);
    socket->ws->bytes -= len;
    buf_consume(&socket->intake.kept, len);
    if (socket->intake.kept.len == 0) {
        buf_release(&socket->intake.kept);
    }
}

/* Takes the bytes, or keeps them: bytes that were kept earlier are taken first. */
void ws_read_bytes(struct ws_socket *socket, uint8_t *bytes, size_t len)
{
    if (!socket->open) {
        return; /* The connection was cut: libwebsockets reads until it finds the end. */
    }
    if (socket->closing.code == WS_CODE_NONE && !socket->closing.farewell) {
        heard(socket);
    }
    size_t taken = socket->intake.kept.len == 0 ? take_some(socket, bytes, len) : 0;

    keep(socket, bytes + taken, len - taken);
    ws_intake_pace(socket);
}

void ws_read_kept(struct ws_socket *socket)
{
    if (socket->intake.kept.len > 0 && (may_take(socket) || socket->closing.parted)) {
        drop_kept(socket, take_some(socket, socket->intake.kept.data, socket->intake.kept.len));
    }
    ws_intake_pace(socket);
}
