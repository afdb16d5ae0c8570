/* The life of a socket: taken over, opened, read piece by piece, finished, gone. */
#include "base/check.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/utf8.h"
#include "ws/ws_int.h"

void ws_socket_new(struct ws *ws, struct ws_arrival *take_arrival)
{
    struct ws_socket *socket = mem_zalloc(1, sizeof(*socket));
    const struct gate_limits *limits = ws->limits;

    socket->ws = ws;
    socket->lane = ++ws->lanes;
    socket->seat = take_arrival->seat;
    socket->who = take_arrival->who;
    watch_owner_init(&socket->owner, &socket->who, limits->watches_max, limits->watch_bytes_max);
    list_push_back(&ws->sockets, &socket->node);
    list_init(&socket->turn);
    list_init(&socket->held);
    list_init(&socket->behind);
    list_init(&socket->stalled);
    list_init(&socket->untold);
    list_init(&socket->messages);
    socket->next = &socket->messages;
    buf_init(&socket->in, limits->message_bytes_max);
    buf_init(&socket->kept, 3 * (size_t)WS_READ_BYTES); /* The library may read once more. */
    ws_frame_init(&socket->frames, limits->message_bytes_max);
    pieces_init(&socket->out, gate_unsent(ws->gate)); /* Bounded by ws_out_is_full and lag.c. */
    ws_beat_start(socket);
    metric_add(&ws->metrics.sockets_ever, 1);
    atomic_fetch_add_explicit(&ws->metrics.sockets.value, 1, memory_order_relaxed);
    ws_library_adopt(socket, take_arrival);
    mem_free(take_arrival);
}

void ws_socket_opened(struct ws_socket *socket)
{
    socket->open = true;
    socket->reads = true;
    ws_tell_hello(socket);
    if (atomic_load(&socket->ws->draining)) {
        ws_socket_finish(socket, WS_CODE_GOING_AWAY, "drain");
    }
}

static void count_pieces(struct ws *ws, size_t bytes)
{
    ws->pieces = bytes;
    metric_set(&ws->metrics.pieces, bytes);
}

/* Of the message that has come so far. */
static void drop_pieces(struct ws_socket *socket)
{
    ASSERT(socket->ws->pieces >= socket->in.len);
    count_pieces(socket->ws, socket->ws->pieces - socket->in.len);
    buf_release(&socket->in);
    socket->in_end_ms = 0;
}

void ws_socket_gone(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;

    socket->open = false;
    drop_pieces(socket);
    ws_read_release(socket);
    if (ws->adopting == socket) {
        ws->adopting = NULL;
    }
    ws_metrics_closed(ws, socket->code);
    ws_session_detach(socket);
    ws_queue_release(socket);
    ws_lag_release(socket);
    ws_beat_stop(socket);
    watch_owner_release(subscribe_table(ws->subscriber), &socket->owner);
    list_remove(&socket->node);
    list_remove(&socket->turn);
    list_remove(&socket->held);
    list_remove(&socket->untold);
    ws_out_release(socket);
    principal_release(&socket->who);
    ws->give_seat(socket->seat);
    mem_free(socket);
    atomic_fetch_sub_explicit(&ws->metrics.sockets.value, 1, memory_order_relaxed);
    atomic_fetch_sub(&ws->taken, 1);
}

void ws_socket_turn(struct ws_socket *socket)
{
    if (list_empty(&socket->turn)) {
        list_push_back(&socket->ws->turn, &socket->turn);
    }
}

void ws_socket_later(struct ws_socket *socket)
{
    list_remove(&socket->turn);
    list_push_back(&socket->ws->later, &socket->turn);
}

bool ws_socket_waits_to_resume(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;
    uint64_t now_us = os_now_us();

    if (ws->resume_us == 0) {
        ws->resume_us = now_us;
    }
    if (now_us - ws->resume_us < WS_WORK_US) {
        return false;
    }
    ws_socket_later(socket);
    return true;
}

static void await_rest(struct ws_socket *socket)
{
    socket->in_end_ms = os_now_ms() + socket->ws->limits->body_timeout_ms;
    ws_beat_at(socket, socket->in_end_ms);
}

void ws_socket_stop(struct ws_socket *socket, enum ws_stop why, bool stop)
{
    uint32_t before = socket->stops;

    socket->stops = stop ? before | why : before & ~(uint32_t)why;
    if ((before == 0) == (socket->stops == 0)) {
        return;
    }
    if (socket->stops == 0 && socket->in_end_ms != 0) {
        await_rest(socket); /* The time in which we did not read was not the client's. */
    }
    if (socket->kept.len > 0) {
        ws_socket_turn(socket); /* It is taken first. */
    }
    ws_read_pace(socket);
}

void ws_socket_finish(struct ws_socket *socket, enum ws_code code, const char *reason)
{
    if (socket->code != WS_CODE_NONE || socket->farewell) {
        return;
    }
    socket->code = code;
    socket->reason = reason;
    socket->leave_ms = os_now_ms() + WS_LINGER_MS;
    ws_beat_at(socket, socket->leave_ms);
    drop_pieces(socket);
    ws_socket_stop(socket, WS_STOP_CLOSING, true);
    ws_socket_turn(socket);
}

void ws_socket_said_farewell(struct ws_socket *socket)
{
    socket->farewell = true;
    socket->end_ms = os_now_ms() + WS_LINGER_MS;
    ws_beat_at(socket, socket->end_ms);
}

/* The library notices when it writes or, after a write that failed, which it does not try again,
 * when it reads. Nothing is sent any more: others may have the room at once. */
void ws_socket_cut(struct ws_socket *socket)
{
    socket->open = false;
    ws_out_release(socket);
    if (socket->wsi) {
        loop_shutdown(lws_get_socket_fd(socket->wsi));
        lws_callback_on_writable(socket->wsi);
        ws_read_pace(socket);
    }
}

/* ---- Reading ---- */

bool ws_socket_is_fresh(const struct ws_socket *socket)
{
    return socket->behind_ms == 0 ||
           os_now_ms() < socket->behind_ms + socket->ws->limits->request_timeout_ms;
}

/* Of bytes that may have waited for longer the client may be frozen since. */
void ws_socket_heard(struct ws_socket *socket)
{
    socket->heard_ms = os_now_ms();
    if (ws_socket_is_fresh(socket)) {
        ws_session_keep(socket);
    }
}

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
        ws_socket_stop(socket, WS_STOP_RATE, true);
        ws_beat_at(socket, os_now_ms() + (socket->rate_us - now_us - WS_BURST_US) / 1000 + 1);
    }
}

static void take_message(struct ws_socket *socket, struct slice text)
{
    metric_add(&socket->ws->metrics.messages, 1);
    if (!utf8_valid(text)) {
        ws_socket_finish(socket, WS_CODE_NOT_UTF8, "not UTF-8");
        return;
    }
    keep_to_rate(socket);
    ws_queue_message(socket, text);
    ws_socket_turn(socket);
}

/* A message that ends the socket is read no further. When messages that are not whole take all the
 * room there is, somebody has to go: the one whose piece does not fit, so that those who have room
 * can finish. What makes a message whole always fits. */
static bool is_welcome(struct ws_socket *socket, struct slice piece, bool text, bool last)
{
    const struct ws *ws = socket->ws;

    if (!text) {
        ws_socket_finish(socket, WS_CODE_NOT_TEXT, "messages are text");
    } else if (piece.len > socket->in.size_max - socket->in.len) {
        ws_socket_finish(socket, WS_CODE_TOO_LARGE, "larger than maxMessageBytes");
    } else if (!last && piece.len > ws->pieces_max - ws->pieces) {
        ws_socket_finish(socket, WS_CODE_NO_ROOM, "too many unfinished messages");
    }
    return socket->code == WS_CODE_NONE;
}

void ws_socket_receive(struct ws_socket *socket, struct slice piece, bool text, bool last)
{
    if (!socket->open || socket->code != WS_CODE_NONE || !is_welcome(socket, piece, text, last)) {
        return;
    }
    if (last && socket->in_end_ms == 0) {
        take_message(socket, piece); /* The common one, whole. */
        return;
    }
    count_pieces(socket->ws, socket->ws->pieces + piece.len);
    (void)buf_append_slice(&socket->in, piece);
    if (last) {
        take_message(socket, buf_slice(&socket->in));
        drop_pieces(socket);
    } else if (socket->in_end_ms == 0) {
        await_rest(socket);
    }
}
