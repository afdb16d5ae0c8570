/*
 * Clients that do not keep up. When more events wait for a client than may wait, its watches are
 * held and their events discarded, from the beginning of one zxid on; the client receives
 * "overrun". Once it has read half of its queue the socket stands in line, and its watches catch
 * up, one at a time: from the window, or as a difference, or with a gap. A socket that is behind
 * and does not read is in no line, so it costs other sockets nothing. Its replies wait until the
 * client has received all events that their state includes.
 *
 * When unsent bytes of all clients, here and over HTTP, reach maxUnsentBytes, sockets lose their
 * queues, those first that have taken nothing for the longest time. Events are discarded and sent
 * later; a socket whose replies use the memory is closed.
 */
#include "ws/ws_int.h"

/* ---- Relief: too many unsent bytes of all clients, here and over HTTP ---- */

/* A value that does not fit is refused while some memory is left. For a moment that counts as full:
 * so slow sockets free memory, and the client's retry succeeds. */
static bool is_full(struct ws *ws)
{
    const struct budget *budget = gate_unsent(ws->gate);
    enum budget_level level = budget_level(budget);
    uint64_t refusals = budget_refusals(budget);
    uint64_t now_ms = os_now_ms();

    if (refusals != ws->relief.refusals) {
        ws->relief.refusals = refusals;
        ws->relief.refused_until = now_ms + WS_RELIEF_LAST_MS;
    }
    return level == BUDGET_FULL || (level == BUDGET_SHORT && now_ms < ws->relief.refused_until);
}

static void cut_slowest(void *ctx, uint64_t grace_ms)
{
    struct ws *ws = ctx;
    uint64_t now_ms = os_now_ms();

    list_for_each_entry_safe (struct ws_socket, socket, tmp, out.stalled, &ws->stalled) {
        if (budget_is_relieved(gate_unsent(ws->gate)) || now_ms < socket->out.stall_ms + grace_ms) {
            return;
        }
        if (!socket->out.dry && !socket->closing.mute && !socket->closing.farewell) {
            ws_lags_cut(socket);
            socket->out.dry = true;
        }
    }
}

/* May more events wait? When memory is full the slowest sockets first lose theirs. */
static bool finds_room(struct ws *ws)
{
    const struct budget *budget = gate_unsent(ws->gate);

    return budget_level(budget) != BUDGET_FULL ||
           budget_relieve(&ws->relief.times, budget, os_now_ms(), cut_slowest, ws);
}

/* Closes slow sockets with many unsent bytes when no events are left to discard. */
static void close_slowest(struct ws *ws)
{
    uint64_t now_ms = os_now_ms();

    list_for_each_entry_safe (struct ws_socket, socket, tmp, out.stalled, &ws->stalled) {
        if (!is_full(ws) || now_ms < socket->out.stall_ms + WS_RELIEF_CLOSE_MS) {
            return;
        }
        if (!socket->closing.mute && !socket->closing.farewell && socket->open &&
            ws_out_unsent(socket) >= WS_RELIEF_BYTES) {
            ws_close_slow(socket);
            if (ws_out_unsent(socket) >= WS_RELIEF_BYTES) {
                ws_close_cut(socket); /* The rest of a large frame is in front of the farewell. */
            }
        }
    }
}

void ws_overrun_relieve(struct ws *ws)
{
    const struct budget *budget = gate_unsent(ws->gate);

    if (is_full(ws)) {
        (void)budget_relieve(&ws->relief.times, budget, os_now_ms(), cut_slowest, ws);
        close_slowest(ws);
    } else if (budget_level(budget) == BUDGET_SHORT) {
        budget_relieve_early(&ws->relief.times, os_now_ms(), cut_slowest, ws);
    }
}

/* ---- One client that does not keep up ---- */

static void stand_in_line(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;

    if (list_empty(&socket->lags.line)) {
        list_push_back(&ws->line, &socket->lags.line);
        ev_async_send(ws->loop, &ws->changed); /* This turn may have served the line already. */
    }
}

/* Bytes of events that may wait. Missed events come in small parts while memory is short. */
static size_t most(const struct ws_socket *socket)
{
    size_t max = socket->ws->limits->socket_queue_bytes_max;

    if (socket->lags.catching && max > WS_FEW_BYTES &&
        budget_level(gate_unsent(socket->ws->gate)) != BUDGET_ROOMY) {
        return WS_FEW_BYTES;
    }
    return max;
}

/* Only between two zxids, so that discarding begins with a whole zxid. A difference comes in one
 * piece, and has its own bound. */
static bool is_over(struct ws_socket *socket, const struct watch_event *event)
{
    size_t unsent = ws_out_unsent(socket);
    bool full = !finds_room(socket->ws);

    if (event->diff) {
        return full || unsent > WS_DIFF_MAX;
    }
    return (full || unsent > most(socket)) && event->zxid != socket->order.last_event;
}

/* Relief may hold watches while this event is handed out: removes those from the chain. */
static struct watch *without_held(struct watch *hits)
{
    struct watch *kept = NULL;
    struct watch **end = &kept;

    for (struct watch *hit = hits; hit; hit = hit->hit_next) {
        if (!hit->held) {
            *end = hit;
            end = &hit->hit_next;
        }
    }
    *end = NULL;
    return kept;
}

/* Watches whose events can come later are held; the others stay in the chain. */
struct watch *ws_overrun_hold(struct ws_socket *socket, struct watch *hits,
                              const struct watch_event *event)
{
    uint32_t ids[WS_IDS_MAX];
    size_t count = 0;
    zxid_t from = 0;
    struct watch *kept = NULL;
    struct watch **end = &kept;

    if (!is_over(socket, event)) {
        return without_held(hits);
    }
    hits = without_held(hits);
    for (struct watch *hit = hits; hit; hit = hit->hit_next) {
        if (watch_is_one_shot(hit->kind)) {
            *end = hit; /* Its only event ever. */
            end = &hit->hit_next;
            continue;
        }
        /* The parts of a difference do not come in the order of zxids. */
        from = event->diff ? hit->diff_since : event->zxid - 1;
        watch_hold(hit);
        ws_lags_add(socket, hit->id, from, event->diff && ws_out_unsent(socket) > WS_DIFF_MAX);
        if (count < WS_IDS_MAX) {
            ids[count++] = hit->id;
        }
    }
    *end = NULL;
    if (count > 0 && budget_level(gate_unsent(socket->ws->gate)) != BUDGET_ROOMY) {
        socket->lags.must_empty = true;
    }
    if (count > 0 && !socket->lags.catching) {
        ws_notice_overrun(socket, ids, count, from); /* Once until it has caught up. */
        stand_in_line(socket);
    }
    return kept;
}

/* The subscriber has lost its place in the window: all watches of the socket continue from there.
 * A watch that has just caught up may be ahead of it. */
static void lose_place(struct ws_socket *socket, zxid_t from)
{
    uint32_t added = 0;

    list_for_each_entry (struct watch, watch, by_owner, &socket->owner.watches) {
        if (!watch->held) {
            watch_hold(watch);
            ws_lags_add(socket, watch->id, max_u64(from, watch->start), false);
            added++;
        }
    }
    ws_lags_notify(socket, added);
    if (ws_lags_any(socket)) {
        stand_in_line(socket);
    }
}

void ws_overrun_lost(struct ws *ws, zxid_t from)
{
    list_for_each_entry (struct ws_socket, socket, node, &ws->sockets) {
        if (socket->open && !socket->closing.farewell && !socket->closing.mute) {
            lose_place(socket, from);
        }
    }
}

/* ---- Catching up ---- */

static bool is_due(const struct ws_socket *socket)
{
    size_t few = socket->lags.must_empty ? 0 : socket->ws->limits->socket_queue_bytes_max / 2;

    return ws_lags_any(socket) && !socket->closing.mute && ws_out_unsent(socket) <= few;
}

void ws_overrun_eased(struct ws_socket *socket)
{
    if (is_due(socket)) {
        stand_in_line(socket);
    }
}

/* Of one held watch. False: it has to wait. */
static bool catch_up(struct ws_socket *socket, struct ws_lag lag)
{
    struct subscriber *subscriber = socket->ws->subscriber;
    struct watch *watch = watch_by_id(subscribe_table(subscriber), &socket->owner, lag.watch);
    struct subscribe_result result;
    zxid_t from = lag.gap ? subscribe_at(subscriber) : lag.from;

    if (!watch) {
        return true; /* Removed meanwhile. */
    }
    enum err err = subscribe_catch_up(subscriber, watch, from, &result);

    if (err != ERR_OK) {
        return false;
    }
    if (lag.gap || result.resumed == SUBSCRIBE_GAP) {
        ws_notice_gap(socket, lag.watch, result.zxid);
    }
    return true;
}

/* The oldest lag. Catching up may hold the watch again, which adds a lag at the end. */
static bool catch_up_one(struct ws_socket *socket)
{
    struct ws_lag lag = socket->lags.list[socket->lags.first++];
    bool caught = false;

    socket->lags.catching = true;
    caught = catch_up(socket, lag);
    socket->lags.catching = false;
    if (!caught) {
        ws_lags_add(socket, lag.watch, lag.from, lag.gap);
    }
    return caught;
}

static void forget_rounds(struct ws_socket *socket)
{
    socket->lags.rounds = 0;
    socket->lags.round_end = 0;
}

/* One watch of the first socket in line, which goes to the end of the line. A socket with too much
 * to read leaves the line until that is read: ws_overrun_eased. False: no watch could catch up. */
static bool serve_first(struct ws *ws)
{
    struct ws_socket *socket = list_take(&ws->line, struct ws_socket, lags.line);
    bool served = true;

    if (is_due(socket)) {
        served = catch_up_one(socket);
        ws_turn_soon(socket); /* A reply may have waited for that. */
    }
    if (!ws_lags_any(socket)) {
        ws_lags_forget(socket);
        socket->lags.must_empty = false;
        if (list_empty(&socket->queue.messages)) {
            forget_rounds(socket); /* Those of a message that waits still count. */
        }
    } else if (is_due(socket)) {
        list_push_back(&ws->line, &socket->lags.line);
    }
    return served;
}

void ws_overrun_catch_up(struct ws *ws)
{
    uint64_t end_us = os_now_us() + WS_WORK_US;
    bool served = false;

    if (!finds_room(ws)) {
        return; /* Tried again WS_LOOK_MS later, or sooner. */
    }
    ws_order_pump(ws, ZXID_MAX); /* One watch may be ahead of the others. */
    for (size_t i = 0; i < WS_CATCH_UPS && !list_empty(&ws->line); i++) {
        if (i > 0 && os_now_us() >= end_us) {
            break;
        }
        served = serve_first(ws) || served;
    }
    if (served && !list_empty(&ws->line)) {
        ev_async_send(ws->loop, &ws->changed);
    }
}

/* ---- Replies ---- */

/* A zxid above all present lags. */
static zxid_t end_of_round(const struct ws_socket *socket)
{
    zxid_t end = subscribe_at(socket->ws->subscriber);

    for (uint32_t i = socket->lags.first; i < socket->lags.count; i++) {
        end = socket->lags.list[i].from >= end ? socket->lags.list[i].from + 1 : end;
    }
    return end;
}

/* Each round ends, because the lags below a zxid get fewer whenever the client reads; but new lags
 * may begin meanwhile. */
static bool is_hopeless(const struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    uint64_t patience_us = (uint64_t)message->ws->limits->request_timeout_ms * 1000;

    if (ws_lags_bound(socket, socket->lags.round_end) == socket->lags.round_end) {
        socket->lags.rounds++;
        socket->lags.round_end = end_of_round(socket);
    }
    return socket->lags.rounds > WS_ROUNDS && os_now_us() > message->start_us + patience_us;
}

bool ws_overrun_waits(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    const char *why = "this socket is about to be closed";

    if (!ws_lags_any(socket)) {
        forget_rounds(socket);
        return false;
    }
    if (socket->closing.code != WS_CODE_NONE ||
        gate_check_local(message->ws->gate, &why) != ERR_OK) {
        ws_message_refuse(message, ERR_NOT_READY, why);
    } else if (is_hopeless(message)) {
        ws_message_refuse(message, ERR_THROTTLED,
                          "events of this socket's watches come faster than it reads them");
    }
    return true;
}
