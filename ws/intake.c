/*
 * What is taken in from a client: whether its messages are taken, whether its bytes are read, and
 * the room that a message takes until it is whole.
 */
#include "base/check.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

static void count_pieces(struct ws *ws, size_t bytes)
{
    ws->pieces = bytes;
    metric_set(&ws->metrics.pieces, bytes);
}

void ws_intake_add(struct ws_socket *socket, struct slice piece)
{
    count_pieces(socket->ws, socket->ws->pieces + piece.len);
    (void)buf_append_slice(&socket->in, piece);
}

/* Of the message that has come so far. */
void ws_intake_drop_message(struct ws_socket *socket)
{
    ASSERT(socket->ws->pieces >= socket->in.len);
    count_pieces(socket->ws, socket->ws->pieces - socket->in.len);
    buf_release(&socket->in);
    socket->in_end_ms = 0;
}

void ws_intake_await_rest(struct ws_socket *socket)
{
    socket->in_end_ms = os_now_ms() + socket->ws->limits->body_timeout_ms;
    ws_timer_at(socket, socket->in_end_ms);
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

void ws_intake_pace(struct ws_socket *socket)
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

void ws_intake_stop(struct ws_socket *socket, enum ws_stop why, bool stop)
{
    uint32_t before = socket->stops;

    socket->stops = stop ? before | why : before & ~(uint32_t)why;
    if ((before == 0) == (socket->stops == 0)) {
        return;
    }
    if (socket->stops == 0 && socket->in_end_ms != 0) {
        ws_intake_await_rest(socket); /* The time in which we did not read was not the client's. */
    }
    if (socket->kept.len > 0) {
        ws_turn_soon(socket); /* It is taken first. */
    }
    ws_intake_pace(socket);
}

bool ws_intake_is_fresh(const struct ws_socket *socket)
{
    return socket->behind_ms == 0 ||
           os_now_ms() < socket->behind_ms + socket->ws->limits->request_timeout_ms;
}
