/*
 * The timer of a socket: heartbeats, pings, silent and slow clients, rate limits, deadlines. When
 * the timer fires, all of them are checked.
 */
#include "ws/ws_int.h"

enum {
    LATE_MS = 250 /* A timer that fires this late means that the loop was stalled. */
};

static void look_at_rate(struct ws_socket *socket)
{
    if ((socket->intake.stops & WS_STOP_RATE) &&
        socket->intake.rate_us <= os_now_us() + WS_BURST_US) {
        ws_intake_stop(socket, WS_STOP_RATE, false);
    }
}

/* Closes the socket when an incomplete message takes too long to arrive: the message would occupy
 * memory for ever. */
static void look_at_message(struct ws_socket *socket, uint64_t now_ms)
{
    if (socket->intake.message_end_ms != 0 && socket->intake.stops == 0 &&
        now_ms >= socket->intake.message_end_ms) {
        ws_close_begin(socket, WS_CODE_POLICY, "the message was not complete within bodyTimeout");
    }
}

/* Closes the socket of a client that has not sent `auth` in time, with requireIdentity. */
static void look_at_identity(struct ws_socket *socket, uint64_t now_ms)
{
    if (principal_has_identity(&socket->principal)) {
        socket->clock.identity_ms = 0;
    } else if (socket->clock.identity_ms != 0 && now_ms >= socket->clock.identity_ms) {
        ws_close_begin(socket, WS_CODE_POLICY, ws_anonymous);
    }
}

/* Abandons replies that still wait when `leave_ms` has passed, so that the close frame can be
 * queued. Cuts the connection when `end_ms` has passed, because the client has not closed it after
 * the close frame. */
static void look_at_end(struct ws_socket *socket, uint64_t now_ms)
{
    if (socket->closing.leave_ms != 0 && now_ms >= socket->closing.leave_ms &&
        !socket->closing.farewell) {
        socket->closing.replies_abandoned = true;
        ws_turn_soon(socket);
    }
    if (socket->closing.end_ms != 0 && now_ms >= socket->closing.end_ms) {
        ws_close_cut(socket);
    }
}

/* Closes the socket of a client that has taken no bytes for slowTimeout, and discards the socket's
 * queue. */
static void look_at_pace(struct ws_socket *socket, uint64_t now_ms)
{
    uint64_t limit_ms = socket->ws->limits->slow_timeout_ms;

    if (socket->out.stall_ms == 0 || now_ms < socket->out.stall_ms + limit_ms || !socket->open ||
        socket->closing.farewell) {
        return;
    }
    if (ws_out_is_taken(socket, &socket->out.taken)) {
        /* The client takes bytes, but still too few for the kernel to accept new bytes. */
        ws_out_moves(socket, now_ms);
    } else {
        ws_close_slow(socket);
    }
}

/* Checks whether bytes arrive at a client whose pong is delayed, because this replica does not read
 * the socket or the ping waits behind other unsent bytes. Bytes that arrive show that the
 * connection exists, so they count as a sign of life. They do not keep the session alive, because
 * the kernel of a frozen client takes bytes, too. There is one exception: while this replica does
 * not read the socket (turn.c), the session is kept alive, for at most requestTimeout. */
static void look_for_life(struct ws_socket *socket, uint64_t now_ms)
{
    bool pong_delayed = socket->intake.behind_ms != 0 || socket->out.stall_ms != 0;

    if (!pong_delayed || !ws_out_is_taken(socket, &socket->clock.alive)) {
        return;
    }
    socket->clock.heard_ms = now_ms;
    if (!socket->intake.reads && socket->closing.code == WS_CODE_NONE &&
        ws_intake_is_fresh(socket)) {
        ws_session_keep(socket);
    }
}

static void look_at_silence(struct ws_socket *socket, uint64_t now_ms)
{
    uint64_t limit_ms = (uint64_t)socket->ws->limits->heartbeat_ms * WS_SILENT_BEATS;

    if (socket->open && now_ms >= socket->clock.heard_ms + limit_ms) {
        ws_close_cut(socket);
    }
}

static void beat(struct ws_socket *socket, uint64_t now_ms)
{
    struct jsonw json;

    if (!socket->open || socket->closing.farewell || socket->closing.mute) {
        return;
    }
    if (now_ms >= socket->clock.beat_ms) {
        socket->clock.beat_ms = now_ms + socket->ws->limits->heartbeat_ms;
        json = ws_out_begin(socket->ws);
        op_json_heartbeat(&json, ws_order_complete(socket));
        (void)ws_out_end(socket, PIECE_BEAT);
    }
    if (now_ms >= socket->clock.ping_ms) {
        socket->clock.ping_ms = now_ms + ws_timer_ping_every(socket);
        look_for_life(socket, now_ms);
        ws_out_ping(socket);
    }
}

/* Sets the timer to the earliest deadline that is in the future. A deadline that has passed is
 * checked again when the timer fires, at the next heartbeat at the latest. */
static void arm_next(struct ws_socket *socket, uint64_t now_ms)
{
    const struct config_clients *limits = socket->ws->limits;
    const uint64_t due_ms[] = {
        socket->clock.beat_ms,
        socket->clock.ping_ms,
        socket->closing.leave_ms,
        socket->closing.end_ms,
        socket->intake.message_end_ms,
        socket->clock.identity_ms,
        socket->out.stall_ms != 0 ? socket->out.stall_ms + limits->slow_timeout_ms : 0,
        (socket->intake.stops & WS_STOP_RATE) ? (socket->intake.rate_us - WS_BURST_US) / 1000 + 1
                                              : 0,
    };
    uint64_t at_ms = now_ms + limits->heartbeat_ms;

    for (size_t i = 0; i < sizeof(due_ms) / sizeof(due_ms[0]); i++) {
        at_ms = due_ms[i] > now_ms ? min_u64(at_ms, due_ms[i]) : at_ms;
    }
    ws_timer_set(socket, at_ms);
}

static void put_off(uint64_t *ms, uint64_t by_ms)
{
    *ms += *ms != 0 ? by_ms : 0;
}

/* Moves the client's deadlines when the timer fires late. A late timer means that the process was
 * stopped or the loop was busy: bytes that the client has sent meanwhile are not read yet, and no
 * bytes were sent to the client. So the delay does not count against the client, and LATE_MS are
 * added to read the waiting bytes before any limit applies. When the timer is late several times in
 * a row, LATE_MS are added only once: otherwise a loop that is always late would never apply a
 * limit. */
static void excuse(struct ws_socket *socket, uint64_t now_ms)
{
    uint64_t late_ms = now_ms > socket->clock.due_ms ? now_ms - socket->clock.due_ms : 0;
    uint64_t by_ms = late_ms + (socket->clock.late ? 0 : LATE_MS);

    socket->clock.late = late_ms >= LATE_MS;
    if (!socket->clock.late) {
        return;
    }
    put_off(&socket->clock.heard_ms, by_ms);
    put_off(&socket->intake.message_end_ms, by_ms);
    put_off(&socket->clock.identity_ms, by_ms);
    put_off(&socket->out.stall_ms, by_ms);
    put_off(&socket->intake.behind_ms, by_ms);
    put_off(&socket->closing.leave_ms, by_ms);
    put_off(&socket->closing.end_ms, by_ms);
}

static void on_timer(struct ev_loop *loop UNUSED, struct ev_timer *timer, int events UNUSED)
{
    struct ws_socket *socket = list_entry(timer, struct ws_socket, clock.timer);
    uint64_t now_ms = os_now_ms();

    excuse(socket, now_ms);
    look_at_rate(socket);
    look_at_message(socket, now_ms);
    look_at_identity(socket, now_ms);
    look_at_pace(socket, now_ms);
    look_at_silence(socket, now_ms);
    look_at_end(socket, now_ms);
    beat(socket, now_ms);
    arm_next(socket, now_ms);
}

/* The first heartbeat comes at a random time, so that sockets that opened together do not send
 * their heartbeats together for ever. */
void ws_beat_start(struct ws_socket *socket)
{
    uint64_t every_ms = socket->ws->limits->heartbeat_ms;
    uint64_t now_ms = os_now_ms();

    ev_init(&socket->clock.timer, on_timer);
    socket->clock.heard_ms = now_ms;
    socket->clock.beat_ms = now_ms + every_ms / 2 + rng_below(&socket->ws->rng, every_ms / 2 + 1);
    socket->clock.ping_ms = socket->clock.beat_ms;
    ws_timer_set(socket, socket->clock.beat_ms);
    if (socket->ws->limits->require_identity && !principal_has_identity(&socket->principal)) {
        socket->clock.identity_ms = now_ms + socket->ws->limits->head_timeout_ms;
        ws_timer_at(socket, socket->clock.identity_ms);
    }
}

/* Closes all sockets when gate_check_local has failed for WS_UNFIT_MS, so that the clients connect
 * to other replicas. */
void ws_beat_look(struct ws *ws)
{
    const char *why = NULL;
    uint64_t now_ms = os_now_ms();

    if (gate_check_local(ws->gate, &why) == ERR_OK) {
        ws->unfit_ms = 0;
        return;
    }
    if (ws->unfit_ms == 0) {
        ws->unfit_ms = now_ms;
    }
    if (now_ms < ws->unfit_ms + WS_UNFIT_MS) {
        return;
    }
    list_for_each_entry (struct ws_socket, socket, node, &ws->sockets) {
        ws_close_begin(socket, WS_CODE_UNFIT, "stale");
    }
}
