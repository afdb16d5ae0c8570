/*
 * Time: heartbeats, pings, silence, slowness, rates. One timer for each socket, which is set for
 * the next thing that is due and looked at again when it fires, so that the common message moves no
 * timer at all.
 */
#include "base/os_clock.h"
#include "ws/ws_int.h"

enum {
    LATE_MS = 250 /* A look that comes later than this: the loop has stood still. */
};

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return b != 0 && b < a ? b : a;
}

static void look_at_rate(struct ws_socket *socket)
{
    if ((socket->stops & WS_STOP_RATE) && socket->rate_us <= os_now_us() + WS_BURST_US) {
        ws_intake_stop(socket, WS_STOP_RATE, false);
    }
}

/* A message that never ends would keep its memory. */
static void look_at_message(struct ws_socket *socket, uint64_t now_ms)
{
    if (socket->in_end_ms != 0 && socket->stops == 0 && now_ms >= socket->in_end_ms) {
        ws_close_begin(socket, WS_CODE_POLICY, "the message takes too long");
    }
}

/* The last words are due, or are sent and the client neither reads nor closes. */
static void look_at_end(struct ws_socket *socket, uint64_t now_ms)
{
    if (socket->leave_ms != 0 && now_ms >= socket->leave_ms && !socket->farewell) {
        socket->gives_up = true;
        ws_turn_soon(socket);
    }
    if (socket->end_ms != 0 && now_ms >= socket->end_ms) {
        ws_close_cut(socket);
    }
}

/* Has taken nothing for too long: what waits for it is thrown away. */
static void look_at_pace(struct ws_socket *socket, uint64_t now_ms)
{
    uint64_t limit_ms = socket->ws->limits->slow_timeout_ms;

    if (socket->stall_ms == 0 || now_ms < socket->stall_ms + limit_ms || !socket->open ||
        socket->farewell) {
        return;
    }
    if (ws_out_is_taken(socket, &socket->taken)) {
        ws_out_moves(socket, now_ms); /* The library has more than it could send in that time. */
        return;
    }
    ws_close_slow(socket);
}

/* No pong can be read while the socket is not read, or while the ping waits behind other bytes.
 * Then bytes that arrive at the client show that there is a connection. They do not keep the
 * session: the kernel of a frozen client takes them as well. Only while this replica reads nothing
 * more (read.c), the session does not age, for requestTimeout at most. */
static void look_for_life(struct ws_socket *socket, uint64_t now_ms)
{
    bool unheard = socket->behind_ms != 0 || socket->stall_ms != 0;

    if (!unheard || !ws_out_is_taken(socket, &socket->alive)) {
        return;
    }
    socket->heard_ms = now_ms;
    if (!socket->reads && socket->code == WS_CODE_NONE && ws_intake_is_fresh(socket)) {
        ws_session_keep(socket);
    }
}

static void look_at_silence(struct ws_socket *socket, uint64_t now_ms)
{
    uint64_t limit_ms = (uint64_t)socket->ws->limits->heartbeat_ms * WS_SILENT_BEATS;

    if (socket->open && now_ms >= socket->heard_ms + limit_ms) {
        ws_close_cut(socket);
    }
}

static void beat(struct ws_socket *socket, uint64_t now_ms)
{
    if (!socket->open || socket->farewell || socket->mute) {
        return;
    }
    if (now_ms >= socket->beat_ms) {
        socket->beat_ms = now_ms + socket->ws->limits->heartbeat_ms;
        ws_notice_heartbeat(socket, ws_order_told(socket));
    }
    if (now_ms >= socket->ping_ms) {
        socket->ping_ms = now_ms + ws_timer_ping_every(socket);
        look_for_life(socket, now_ms);
        ws_out_ping(socket);
    }
}

/* What was due and could not be done is looked at again with the next heartbeat. */
static void arm_next(struct ws_socket *socket, uint64_t now_ms)
{
    const struct gate_limits *limits = socket->ws->limits;
    const uint64_t due_ms[] = {
        socket->beat_ms,
        socket->ping_ms,
        socket->leave_ms,
        socket->end_ms,
        socket->in_end_ms,
        socket->stall_ms != 0 ? socket->stall_ms + limits->slow_timeout_ms : 0,
        (socket->stops & WS_STOP_RATE) ? (socket->rate_us - WS_BURST_US) / 1000 + 1 : 0,
    };
    uint64_t at_ms = now_ms + limits->heartbeat_ms;

    for (size_t i = 0; i < sizeof(due_ms) / sizeof(due_ms[0]); i++) {
        at_ms = due_ms[i] > now_ms ? earlier(at_ms, due_ms[i]) : at_ms;
    }
    ws_timer_set(socket, at_ms);
}

static void put_off(uint64_t *ms, uint64_t by_ms)
{
    *ms += *ms != 0 ? by_ms : 0;
}

/* The process was stopped, or the loop was busy with something else: what the client has sent
 * meanwhile is not read yet, and nothing was sent to it. The time is not the client's, and what
 * waits is read before it is judged: once only, or a loop that is late at every look would never
 * judge anybody. */
static void excuse(struct ws_socket *socket, uint64_t now_ms)
{
    uint64_t late_ms = now_ms > socket->due_ms ? now_ms - socket->due_ms : 0;
    uint64_t by_ms = late_ms + (socket->late ? 0 : LATE_MS);

    socket->late = late_ms >= LATE_MS;
    if (!socket->late) {
        return;
    }
    put_off(&socket->heard_ms, by_ms);
    put_off(&socket->in_end_ms, by_ms);
    put_off(&socket->stall_ms, by_ms);
    put_off(&socket->behind_ms, by_ms);
    put_off(&socket->leave_ms, by_ms);
    put_off(&socket->end_ms, by_ms);
}

static void on_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct ws_socket *socket = timer->data;
    uint64_t now_ms = os_now_ms();

    (void)loop;
    (void)events;
    excuse(socket, now_ms);
    look_at_rate(socket);
    look_at_message(socket, now_ms);
    look_at_pace(socket, now_ms);
    look_at_silence(socket, now_ms);
    look_at_end(socket, now_ms);
    beat(socket, now_ms);
    arm_next(socket, now_ms);
}

/* The first heartbeat comes somewhere within the interval, so that sockets which came together do
 * not beat together for ever. */
void ws_beat_start(struct ws_socket *socket)
{
    uint64_t every_ms = socket->ws->limits->heartbeat_ms;
    uint64_t now_ms = os_now_ms();

    ev_init(&socket->timer, on_timer);
    socket->timer.data = socket;
    socket->heard_ms = now_ms;
    socket->beat_ms = now_ms + every_ms / 2 + rng_below(&socket->ws->rng, every_ms / 2 + 1);
    socket->ping_ms = socket->beat_ms;
    ws_timer_set(socket, socket->beat_ms);
}

void ws_beat_stop(struct ws_socket *socket)
{
    ev_timer_stop(socket->ws->loop, &socket->timer);
}

/* A replica that has been cut off has nothing to tell, and sends its clients elsewhere. */
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
    list_for_each (it, &ws->sockets) {
        ws_close_begin(list_entry(it, struct ws_socket, node), WS_CODE_UNFIT, "stale");
    }
}
