/*
 * Frames to a client. This file, not libwebsockets ("the library"), writes frames to the socket.
 * Therefore many frames leave in one system call. The library's writable callback, which costs two
 * changes of the poll set, is needed only when bytes are left. Bytes that the kernel does not take
 * stay in the queue of this file (ws_out.pieces). The library gets none of them: while it has bytes
 * to send, it does not read the raw socket, and polls the socket again and again.
 */
#include "ws/ws_int.h"

#include <errno.h>

enum {
    FRAME_TEXT = 0x81, /* A final text frame. */
    FRAME_CLOSE = 0x88,
    FRAME_PING = 0x89,
    FRAME_PONG = 0x8a,
    FRAME_HEAD_MAX = 10,
    CODE_LEN = 2,      /* Bytes of the code in a close frame. */
    LEN_16_BITS = 126, /* In the second byte: the length follows in 16 bits. */
    LEN_64_BITS = 127
};

enum sending {
    SENDING_MORE, /* The kernel has taken all bytes that were offered. */
    SENDING_FULL, /* The kernel takes no more bytes now. */
    SENDING_BROKEN
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

void ws_out_event(struct ws_socket *socket, const struct piece_tag *tag,
                  const struct slice parts[WS_PARTS], struct blob *shared, size_t shared_at)
{
    uint8_t head[FRAME_HEAD_MAX];
    struct slice all[1 + WS_PARTS];
    size_t len = shared ? shared->len - shared_at : 0;

    ASSERT(!socket->closing.farewell);
    for (size_t i = 0; i < WS_PARTS; i++) {
        all[1 + i] = parts[i];
        len += parts[i].len;
    }
    all[0] = slice_make(head, frame_head(head, len));
    pieces_put_tagged(&socket->out.pieces, tag, all, 1 + WS_PARTS, shared, shared_at);
    socket->out.dry = false;
    if (list_empty(&socket->out.news)) {
        list_push_back(&socket->ws->news, &socket->out.news);
    }
    ws_turn_soon(socket);
}

static void put(struct ws_socket *socket, enum piece_kind kind, struct slice head,
                struct slice text)
{
    const struct slice parts[] = {head, text};

    if (socket->closing.farewell) {
        return;
    }
    if (kind == PIECE_FIXED) {
        pieces_put(&socket->out.pieces, parts, 2);
    } else {
        pieces_put_tagged(&socket->out.pieces, &(struct piece_tag){.kind = kind}, parts, 2, NULL,
                          0);
    }
    ws_turn_soon(socket);
}

static void put_control(struct ws_socket *socket, enum piece_kind kind, uint8_t first,
                        struct slice payload)
{
    const uint8_t head[] = {first, (uint8_t)payload.len};

    ASSERT(payload.len <= WS_FRAME_CONTROL_MAX);
    put(socket, kind, slice_make(head, sizeof(head)), payload);
}

/* Puts the current time into the ping. The pong repeats this time (RFC 6455, 5.5.3). */
void ws_out_ping(struct ws_socket *socket)
{
    uint64_t now_ms = os_now_ms();

    put_control(socket, PIECE_BEAT, FRAME_PING, slice_make(&now_ms, sizeof(now_ms)));
}

/* Queues the pong that is due, unless an earlier pong is still unsent. When that pong is sent, the
 * next pong answers the newest ping only. */
static void answer_ping(struct ws_socket *socket)
{
    if (!socket->out.pong_due || socket->out.sent < socket->out.pong_end) {
        return;
    }
    put_control(socket, PIECE_FIXED, FRAME_PONG,
                slice_make(socket->out.pong, socket->out.pong_len));
    socket->out.pong_due = false;
    socket->out.pong_end = socket->out.sent + ws_out_unsent(socket);
}

void ws_out_close(struct ws_socket *socket, uint16_t code, const char *reason)
{
    uint8_t payload[WS_FRAME_CONTROL_MAX];
    struct slice text = slice_str(reason);

    ASSERT(CODE_LEN + text.len <= sizeof(payload));
    payload[0] = (uint8_t)(code >> 8);
    payload[1] = (uint8_t)code;
    memcpy(payload + CODE_LEN, text.data, text.len);
    put_control(socket, PIECE_FIXED, FRAME_CLOSE,
                slice_make(payload, code != 0 ? CODE_LEN + text.len : 0));
    socket->closing.farewell = true;
    socket->closing.end_ms = os_now_ms() + WS_LINGER_MS;
    ws_timer_at(socket, socket->closing.end_ms);
}

struct jsonw ws_out_begin(struct ws *ws)
{
    struct jsonw json;

    buf_clear(&ws->scratch);
    jsonw_init(&json, &ws->scratch);
    return json;
}

bool ws_out_end(struct ws_socket *socket, enum piece_kind kind)
{
    struct buf *scratch = &socket->ws->scratch;
    uint8_t head[FRAME_HEAD_MAX];

    if (scratch->overflow) {
        return false;
    }
    put(socket, kind, slice_make(head, frame_head(head, scratch->len)), buf_slice(scratch));
    if (scratch->cap > WS_KEEP_BYTES) {
        buf_release(scratch);
    }
    return true;
}

/* Counts a reply that was just queued. `before` is the number of unsent bytes before it was queued;
 * all bytes after them are the reply. */
static void count_reply(struct ws_socket *socket, size_t before)
{
    socket->out.replies = socket->out.sent < socket->out.replied ? socket->out.replies : 0;
    socket->out.replies += ws_out_unsent(socket) - before;
    socket->out.replied = socket->out.sent + ws_out_unsent(socket);
}

bool ws_out_reply(struct ws_socket *socket)
{
    size_t before = ws_out_unsent(socket);

    if (!ws_out_end(socket, PIECE_FIXED)) {
        return false;
    }
    count_reply(socket, before);
    return true;
}

/* ---- Results ---- */

/* True for a small text: copying its bytes now costs no more than queueing the text and encoding it
 * later. */
static bool is_small(const struct text *text)
{
    return text_is_plain(text) && text->own.len <= TEXT_SMALL_BYTES;
}

static enum err seal(struct text *text, bool may_refuse)
{
    bool full = may_refuse && budget_level(text->budget) == BUDGET_FULL;

    if (full && is_small(text) && text->own.len > WS_REFUSED_BYTES) {
        return ERR_THROTTLED;
    }
    if (may_refuse) {
        return text_seal(text) ? ERR_OK : text->no_room ? ERR_THROTTLED : ERR_TOO_LARGE;
    }
    ASSERT(text_is_plain(text));
    if (text->own.overflow) {
        return ERR_TOO_LARGE;
    }
    text_count(text);
    return ERR_OK;
}

/* Queues the text as one frame, whose length is known before the first byte is encoded. */
static void put_answer(struct ws_socket *socket, struct text *text)
{
    uint8_t head[FRAME_HEAD_MAX];
    struct slice frame = slice_make(head, frame_head(head, (size_t)text_len(text)));

    if (is_small(text)) {
        put(socket, PIECE_FIXED, frame, buf_slice(&text->own));
    } else if (!socket->closing.farewell) {
        pieces_put_text(&socket->out.pieces, frame, text);
        ws_turn_soon(socket);
    }
}

enum err ws_out_answer(struct ws_socket *socket, bool may_refuse)
{
    struct text *text = &socket->ws->answer;
    size_t before = ws_out_unsent(socket);
    enum err err = seal(text, may_refuse);

    if (err == ERR_OK) {
        put_answer(socket, text);
        count_reply(socket, before);
    } else if (err == ERR_THROTTLED) {
        metric_add(&socket->ws->metrics.refused_unsent, 1);
    }
    text_clear(text, TEXT_FREE_BYTES);
    return err;
}

/* True when no more replies may be queued. Once WS_UNREAD_BYTES of replies are queued, the result
 * stays true until all replies are sent. A second limit bounds all unsent bytes, because a reply
 * may also queue events, such as those that a watch has missed. All other events have their own
 * limit (overrun.c). */
bool ws_out_is_full(const struct ws_socket *socket)
{
    size_t most = socket->ws->limits->socket_queue_bytes_max + WS_UNREAD_BYTES;

    return (socket->out.sent < socket->out.replied && socket->out.replies >= WS_UNREAD_BYTES) ||
           ws_out_unsent(socket) >= most;
}

size_t ws_out_unsent(const struct ws_socket *socket)
{
    return socket->out.pieces.bytes;
}

void ws_out_release(struct ws_socket *socket)
{
    pieces_release(&socket->out.pieces);
    list_remove(&socket->out.stalled);
    list_remove(&socket->out.news);
}

static enum sending send_some(struct ws_socket *socket, size_t most)
{
    struct slice parts[LOOP_PARTS_MAX];
    size_t count = pieces_look(&socket->out.pieces, parts, LOOP_PARTS_MAX, most, socket->ws->block,
                               WS_BLOCK_BYTES);
    ssize_t sent = loop_send_parts(lws_get_socket_fd(socket->wsi), parts, count);
    size_t len = 0;

    if (sent < 0 && sent != -EAGAIN && sent != -EINTR) {
        return SENDING_BROKEN;
    }
    for (size_t i = 0; i < count; i++) {
        len += parts[i].len;
    }
    if (sent > 0) {
        pieces_pass(&socket->out.pieces, (size_t)sent);
        socket->out.sent += (size_t)sent;
        metric_add(&socket->ws->metrics.sent_bytes, (uint64_t)sent);
    }
    socket->out.full = sent != (ssize_t)len;
    return socket->out.full ? SENDING_FULL : SENDING_MORE;
}

bool ws_out_is_taken(const struct ws_socket *socket, uint64_t *taken)
{
    return socket->open && loop_is_read(lws_get_socket_fd(socket->wsi), taken);
}

void ws_out_moves(struct ws_socket *socket, uint64_t now_ms)
{
    socket->out.stall_ms = now_ms;
    list_remove(&socket->out.stalled);
    list_push_back(&socket->ws->stalled, &socket->out.stalled);
}

/* Notes since when the client has taken no bytes of its queue. */
static void look_at_pace(struct ws_socket *socket, uint64_t sent_before)
{
    if (ws_out_unsent(socket) == 0) {
        socket->out.stall_ms = 0;
        list_remove(&socket->out.stalled);
        return;
    }
    lws_callback_on_writable(socket->wsi);
    if (socket->out.stall_ms == 0) {
        (void)ws_out_is_taken(socket, &socket->out.taken);
    }
    if (socket->out.stall_ms == 0 || socket->out.sent != sent_before) {
        ws_out_moves(socket, os_now_ms());
        ws_timer_at(socket, socket->out.stall_ms + socket->ws->limits->slow_timeout_ms);
    }
}

bool ws_out_flush(struct ws_socket *socket)
{
    uint64_t sent_before = socket->out.sent;
    uint64_t end = sent_before + WS_TURN_BYTES;
    /* While the kernel's buffer is full, an attempt to send would encode a block in vain. The
     * library calls back when the kernel has room. */
    enum sending sending =
        socket->out.full && pieces_at_text(&socket->out.pieces) ? SENDING_FULL : SENDING_MORE;

    list_remove(&socket->out.news);
    answer_ping(socket);
    while (sending == SENDING_MORE && ws_out_unsent(socket) > 0 && socket->out.sent < end) {
        sending = send_some(socket, end - socket->out.sent);
    }
    if (sending == SENDING_BROKEN) {
        return false;
    }
    look_at_pace(socket, sent_before);
    if (socket->out.pong_due && socket->out.sent >= socket->out.pong_end) {
        ws_turn_soon(socket);
    }
    return true;
}

/* ---- Notices of lost events ---- */

void ws_notice_gap(struct ws_socket *socket, uint32_t watch, zxid_t zxid)
{
    struct jsonw json = ws_out_begin(socket->ws);

    op_json_gap(&json, &watch, 1, zxid);
    (void)ws_out_end(socket, PIECE_FIXED);
    metric_add(&socket->ws->metrics.gaps, 1);
}

void ws_notice_overrun(struct ws_socket *socket, const uint32_t *watches, size_t count, zxid_t from)
{
    struct jsonw json = ws_out_begin(socket->ws);

    op_json_overrun(&json, watches, count, from);
    (void)ws_out_end(socket, PIECE_NOTICE);
    metric_add(&socket->ws->metrics.overruns, count);
}
