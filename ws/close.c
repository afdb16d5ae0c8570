/* How a socket ends: what was asked is answered, the last message, the close frame, the end. */
#include "base/loop.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

void ws_close_begin(struct ws_socket *socket, enum ws_code code, const char *reason)
{
    if (socket->code != WS_CODE_NONE || socket->farewell) {
        return;
    }
    socket->code = code;
    socket->reason = reason;
    socket->leave_ms = os_now_ms() + WS_LINGER_MS;
    ws_timer_at(socket, socket->leave_ms);
    ws_intake_drop_message(socket);
    ws_intake_stop(socket, WS_STOP_CLOSING, true);
    ws_turn_soon(socket);
}

void ws_close_slow(struct ws_socket *socket)
{
    ws_out_drop(socket);
    ws_message_release_all(socket);
    socket->mute = true;
    socket->code = WS_CODE_NONE;
    ws_close_begin(socket, WS_CODE_SLOW, "slow");
}

void ws_close_frame_queued(struct ws_socket *socket)
{
    socket->farewell = true;
    socket->end_ms = os_now_ms() + WS_LINGER_MS;
    ws_timer_at(socket, socket->end_ms);
}

/* The last message of a socket that is to be closed, once nothing is left to answer, or what is
 * left would have to wait too long for what the client has missed. */
void ws_close_farewell(struct ws_socket *socket)
{
    if (socket->code == WS_CODE_NONE || socket->farewell) {
        return;
    }
    if (socket->gives_up &&
        (ws_lags_any(socket) || ws_out_is_full(socket) || !list_empty(&socket->untold))) {
        ws_message_release_all(socket);
    }
    if (socket->count > 0) {
        return;
    }
    ws_notice_closing(socket);
    ws_out_close(socket, (uint16_t)socket->code, socket->rule ? socket->rule : socket->reason);
    ws_close_frame_queued(socket);
}

/* Both have said that they close, or the client says nothing that can be understood: we send no
 * more; the client sees that and closes. It may need until `end_ms`: a connection that is
 * closed with bytes unread is reset, and takes away what the client has not read yet. */
void ws_close_part(struct ws_socket *socket)
{
    if (socket->open && socket->farewell && socket->parted && !socket->shut &&
        ws_out_unsent(socket) == 0) {
        socket->shut = true;
        loop_shutdown_write(lws_get_socket_fd(socket->wsi));
    }
}

/* The library notices when it writes or, after a write that failed, which it does not try again,
 * when it reads. Nothing is sent any more: others may have the room at once. */
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
