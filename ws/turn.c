/*
 * Decides when a socket has its turn (at the end of this round of the loop, or of a later round)
 * and when its timer fires. Also decides whether its messages are taken and its bytes are read.
 */
#include "tls/socket.h"

#include "ws/ws_int.h"

void ws_turn_soon(struct ws_socket *socket)
{
    if (list_empty(&socket->turn)) {
        list_push_back(&socket->ws->turn, &socket->turn);
    }
}

void ws_turn_later(struct ws_socket *socket)
{
    list_remove(&socket->turn);
    list_push_back(&socket->ws->later, &socket->turn);
}

bool ws_turn_waits_to_resume(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;
    uint64_t now_us = os_now_us();

    if (ws->resume_us == 0) {
        ws->resume_us = now_us;
    }
    if (now_us - ws->resume_us < WS_WORK_US) {
        return false;
    }
    ws_turn_later(socket);
    return true;
}

/* ---- The timer. It is set at once for a deadline before `due_ms`. When a deadline is put off, the
 * timer is not set: it fires as before, and is then set for the next deadline (beat.c). An ordinary
 * message only puts deadlines off, so it does not set the timer. ---- */

void ws_timer_set(struct ws_socket *socket, uint64_t at_ms)
{
    struct ev_loop *loop = socket->ws->loop;
    uint64_t now_ms = os_now_ms();

    socket->clock.due_ms = at_ms;
    ev_timer_stop(loop, &socket->clock.timer);
    ev_timer_set(&socket->clock.timer, at_ms > now_ms ? (double)(at_ms - now_ms) / 1000. : 0., 0.);
    ev_timer_start(loop, &socket->clock.timer);
}

void ws_timer_at(struct ws_socket *socket, uint64_t ms)
{
    if (ms < socket->clock.due_ms || !ev_is_active(&socket->clock.timer)) {
        ws_timer_set(socket, ms);
    }
}

/* Returns the interval of pings in ms, for at least WS_BEATS_PER_TIMEOUT pings within the session's
 * time-out. */
uint64_t ws_timer_ping_every(const struct ws_socket *socket)
{
    uint64_t every_ms = socket->ws->limits->heartbeat_ms;
    uint64_t beat_ms = socket->session.attached.timeout_ms / WS_BEATS_PER_TIMEOUT;

    return beat_ms != 0 ? min_u64(beat_ms, every_ms) : every_ms;
}

void ws_timer_session_changed(struct ws_socket *socket)
{
    uint64_t at_ms = os_now_ms() + ws_timer_ping_every(socket);

    if (at_ms < socket->clock.ping_ms) {
        socket->clock.ping_ms = at_ms;
        ws_timer_at(socket, at_ms);
    }
}

/* ---- Intake ---- */

static void show_pieces(struct ws *ws)
{
    metric_set(&ws->metrics.pieces, budget_used(&ws->pieces.budget));
}

bool ws_intake_add(struct ws_socket *socket, struct slice piece, bool last)
{
    struct budget_shares *pieces = &socket->ws->pieces;

    if (last) {
        budget_shares_take(pieces, socket->intake.address_key, piece.len);
    } else if (!budget_shares_try_take(pieces, socket->intake.address_key, piece.len)) {
        return false;
    }
    show_pieces(socket->ws);
    (void)buf_append_slice(&socket->intake.message, piece);
    return true;
}

void ws_intake_drop_message(struct ws_socket *socket)
{
    budget_shares_give(&socket->ws->pieces, socket->intake.address_key, socket->intake.message.len);
    show_pieces(socket->ws);
    buf_release(&socket->intake.message);
    socket->intake.message_end_ms = 0;
}

void ws_intake_await_rest(struct ws_socket *socket)
{
    socket->intake.message_end_ms = os_now_ms() + socket->ws->limits->body_timeout_ms;
    ws_timer_at(socket, socket->intake.message_end_ms);
}

/* Whether libwebsockets may read. While messages wait, it may read until WS_READ_BYTES are kept.
 * Once our close frame is queued, or ws_close_cut has cut the connection, it may read everything,
 * to find the client's close frame and the end of the connection. */
static bool has_room(const struct ws_socket *socket)
{
    if (!socket->open || socket->closing.farewell ||
        (socket->intake.stops == 0 && socket->intake.kept.len == 0)) {
        return true;
    }
    return socket->intake.kept.len < WS_READ_BYTES &&
           socket->ws->bytes < socket->ws->limits->pool_bytes_max;
}

void ws_intake_pace(struct ws_socket *socket)
{
    bool reads = has_room(socket);

    if (!socket->wsi || reads == socket->intake.reads) {
        return;
    }
    if (reads) {
        socket->intake.reads_since_ms = os_now_ms();
    } else if (socket->intake.behind_ms == 0) {
        socket->intake.behind_ms = os_now_ms();
    }
    socket->intake.reads = reads;
    (void)lws_rx_flow_control(socket->wsi, reads);
    if (reads && tls_socket_waits(lws_get_socket_fd(socket->wsi))) {
        ws_turn_soon(socket); /* The loop does not report what TLS has decrypted. */
    }
}

void ws_intake_stop(struct ws_socket *socket, enum ws_stop why, bool stop)
{
    uint32_t before = socket->intake.stops;

    socket->intake.stops = stop ? before | why : before & ~(uint32_t)why;
    if ((before == 0) == (socket->intake.stops == 0)) {
        return;
    }
    if (socket->intake.stops == 0 && socket->intake.message_end_ms != 0) {
        ws_intake_await_rest(socket); /* The message gets its full time limit again. */
    }
    if (socket->intake.kept.len > 0) {
        ws_turn_soon(socket); /* The turn takes the kept bytes before newer ones. */
    }
    ws_intake_pace(socket);
}

bool ws_intake_is_fresh(const struct ws_socket *socket)
{
    return socket->intake.behind_ms == 0 ||
           os_now_ms() < socket->intake.behind_ms + socket->ws->limits->request_timeout_ms;
}
