/*
 * The timer of a socket. It is set for the next thing that is due, and set again only when it fires
 * (beat.c): so the common message moves no timer at all.
 */
#include "base/os_clock.h"
#include "ws/ws_int.h"

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

/* At least WS_BEATS_PER_TIMEOUT pings within the time-out of the session. */
uint64_t ws_timer_ping_every(const struct ws_socket *socket)
{
    uint64_t every_ms = socket->ws->limits->heartbeat_ms;

    if (socket->session.attached.id != 0) {
        uint64_t beat_ms = socket->session.attached.timeout_ms / WS_BEATS_PER_TIMEOUT;

        every_ms = beat_ms != 0 && beat_ms < every_ms ? beat_ms : every_ms;
    }
    return every_ms;
}

void ws_timer_session_changed(struct ws_socket *socket)
{
    uint64_t at_ms = os_now_ms() + ws_timer_ping_every(socket);

    if (at_ms < socket->clock.ping_ms) {
        socket->clock.ping_ms = at_ms;
        ws_timer_at(socket, at_ms);
    }
}
