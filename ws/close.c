/* How a socket ends: pending replies leave, then the event `closing` and the close frame, then the
 * connection is closed. */
#include "ws/ws_int.h"

const enum ws_code ws_codes[WS_CODES] = {
    WS_CODE_NONE,   WS_CODE_GOING_AWAY, WS_CODE_NOT_TEXT,      WS_CODE_NOT_UTF8,
    WS_CODE_POLICY, WS_CODE_TOO_LARGE,  WS_CODE_SESSION_ENDED, WS_CODE_SESSION_MOVED,
    WS_CODE_UNFIT,  WS_CODE_SLOW,       WS_CODE_NO_ROOM,       WS_CODE_PROTOCOL,
};

const char ws_anonymous[] = "the client has no identity";

void ws_close_count(struct ws *ws, enum ws_code code)
{
    for (size_t i = 0; i < WS_CODES; i++) {
        if (ws_codes[i] == code) {
            metric_add(&ws->metrics.closes[i], 1);
        }
    }
}

void ws_close_begin(struct ws_socket *socket, enum ws_code code, const char *reason)
{
    if (socket->closing.code != WS_CODE_NONE || socket->closing.farewell) {
        return;
    }
    socket->closing.code = code;
    socket->closing.reason = reason;
    socket->closing.leave_ms = os_now_ms() + WS_LINGER_MS;
    ws_timer_at(socket, socket->closing.leave_ms);
    ws_intake_drop_message(socket);
    ws_intake_stop(socket, WS_STOP_CLOSING, true);
    ws_turn_soon(socket);
}

void ws_close_slow(struct ws_socket *socket)
{
    pieces_drop(&socket->out.pieces); /* A frame that has begun stays. */
    ws_message_release_all(socket);
    socket->closing.mute = true;
    socket->closing.code = WS_CODE_NONE;
    ws_close_begin(socket, WS_CODE_SLOW, "slow");
}

/* Once all messages are answered, queues the event `closing`, which names the other replicas, and
 * then the close frame. After `leave_ms`, messages that still wait for events, or for the client
 * to read, are dropped without a reply. */
void ws_close_farewell(struct ws_socket *socket)
{
    if (socket->closing.code == WS_CODE_NONE || socket->closing.farewell) {
        return;
    }
    if (socket->closing.replies_abandoned &&
        (ws_lags_any(socket) || ws_out_is_full(socket) || !list_empty(&socket->order.waiting))) {
        ws_message_release_all(socket);
    }
    if (socket->queue.count > 0) {
        return;
    }

    struct jsonw json = ws_out_begin(socket->ws);

    op_json_closing_begin(&json, socket->closing.reason);
    gate_write_servers(socket->ws->gate, &json);
    jsonw_object_end(&json);
    (void)ws_out_end(socket, PIECE_FIXED);
    ws_out_close(socket, (uint16_t)socket->closing.code,
                 socket->closing.rule ? socket->closing.rule : socket->closing.reason);
}

/* Shuts down our side of the connection once both sides have sent a close frame, or the client has
 * broken the protocol. The client sees the shutdown and has until `end_ms` to close the connection.
 * We do not close at once: the kernel resets a connection that is closed with unread bytes, and
 * then the client loses the bytes that it has not read yet. */
void ws_close_part(struct ws_socket *socket)
{
    if (socket->open && socket->closing.farewell && socket->closing.parted &&
        !socket->closing.shut && ws_out_unsent(socket) == 0) {
        socket->closing.shut = true;
        loop_shutdown_write(lws_get_socket_fd(socket->wsi));
    }
}

/* Cuts the connection. libwebsockets notices the cut at its next writable callback. After a failed
 * write there may be no further callback; then libwebsockets notices the cut when it reads. No more
 * bytes are sent, so the memory of the queue is freed at once. */
void ws_close_cut(struct ws_socket *socket)
{
    socket->open = false;
    ws_out_release(socket);
    if (socket->wsi) {
        loop_shutdown(lws_get_socket_fd(socket->wsi));
        lws_callback_on_writable(socket->wsi);
        ws_intake_pace(socket);
    }
}
