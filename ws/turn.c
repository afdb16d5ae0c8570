/* When a socket is looked at next: at the end of this turn of the loop, or of a later one. */
#include "base/os_clock.h"
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
