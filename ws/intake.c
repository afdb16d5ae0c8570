/*
 * Intake from a client: whether its messages are taken, whether its bytes are read, and the memory
 * of an incomplete message.
 */
#include "base/check.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

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

/* May the library read? While messages wait, until the bytes of one read are kept. While the socket
 * closes, or after a cut, everything is read: the client's close frame, and its end. */
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
}

void ws_intake_stop(struct ws_socket *socket, enum ws_stop why, bool stop)
{
    uint32_t before = socket->intake.stops;

    socket->intake.stops = stop ? before | why : before & ~(uint32_t)why;
    if ((before == 0) == (socket->intake.stops == 0)) {
        return;
    }
    if (socket->intake.stops == 0 && socket->intake.message_end_ms != 0) {
        ws_intake_await_rest(
            socket); /* The server did not read meanwhile: the time does not count. */
    }
    if (socket->intake.kept.len > 0) {
        ws_turn_soon(socket); /* Kept bytes are taken first. */
    }
    ws_intake_pace(socket);
}

bool ws_intake_is_fresh(const struct ws_socket *socket)
{
    return socket->intake.behind_ms == 0 ||
           os_now_ms() < socket->intake.behind_ms + socket->ws->limits->request_timeout_ms;
}
