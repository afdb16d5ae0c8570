/*
 * Clients that do not keep up. When too many events wait for a client, its watches are held: their
 * events are discarded, beginning with the first event of a transaction, and the client receives
 * "overrun". Once the client has read half of its queue, the socket joins ws->line and its watches
 * catch up one at a time: from the window, by a difference (server/watch/README.md), or with a gap.
 * A socket that is behind and whose client does not read is not in ws->line, so it costs other
 * sockets nothing. Replies wait until all events that their state includes are queued.
 *
 * When the unsent bytes of all clients, here and over HTTP, reach maxUnsentBytes, sockets lose
 * their queued events, beginning with the socket that has taken no bytes for the longest time. The
 * discarded events are sent later. A socket is closed if its replies, which cannot be discarded,
 * use the memory.
 */
#include "ws/ws_int.h"

/* ---- Relief: too many unsent bytes of all clients, here and over HTTP ---- */

/* True when the memory for unsent bytes counts as full. A large value may be refused although
 * some memory is left. For WS_RELIEF_LAST_MS after such a refusal short memory counts as full, so
 * that slow sockets free memory and the client's retry succeeds. */
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

/* Whether more events may be queued. When memory is full, this function makes room: the slowest
 * sockets lose their queued events. */
static bool finds_room(struct ws *ws)
{
    const struct budget *budget = gate_unsent(ws->gate);

    return budget_level(budget) != BUDGET_FULL ||
           budget_relieve(&ws->relief.times, budget, os_now_ms(), cut_slowest, ws);
}

/* Closes slow sockets with many unsent bytes until memory is no longer full. Called when discarding
 * events was not enough. */
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
                ws_close_cut(socket); /* The unsent rest of a large frame still uses the memory. */
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
        ev_async_send(ws->loop, &ws->changed); /* Another round: this one may be past ws->line. */
    }
}

/* Returns how many unsent bytes a socket may have before its events are discarded. While memory is
 * short, missed events come in small parts. */
static size_t most(const struct ws_socket *socket)
{
    size_t max = socket->ws->limits->socket_queue_bytes_max;

    if (socket->lags.catching && max > WS_FEW_BYTES &&
        budget_level(gate_unsent(socket->ws->gate)) != BUDGET_ROOMY) {
        return WS_FEW_BYTES;
    }
    return max;
}

/* Whether the queue is too long for this event. A difference must be sent as a whole, so it has a
 * larger limit, WS_DIFF_MAX. For other events: false when another event of the same zxid was
 * already queued, so that discarding begins with the first event of a transaction. */
static bool is_over(struct ws_socket *socket, const struct watch_event *event)
{
    size_t unsent = ws_out_unsent(socket);
    bool full = !finds_room(socket->ws);

    if (event->diff) {
        return full || unsent > WS_DIFF_MAX;
    }
    return (full || unsent > most(socket)) && event->zxid != socket->order.last_event;
}

/* Returns the list `hits` (by hit_next) without held watches. It may have some, because is_over()
 * may have held watches to free memory. */
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

/* Holds watches whose events can be sent later; one-shot watches stay in the list. */
struct watch *ws_overrun_hold(struct ws_socket *socket, struct watch *hits,
                              const struct watch_event *event)
{
    uint32_t ids[WS_IDS_MAX];
    size_t count = 0;
    zxid_t from = 0;
    struct watch *kept = NULL;
    struct watch **end = &kept;
    bool over = is_over(socket, event);

    hits = without_held(hits);
    if (!over) {
        return hits;
    }
    for (struct watch *hit = hits; hit; hit = hit->hit_next) {
        if (watch_is_one_shot(hit->kind)) {
            *end = hit; /* A one-shot watch has one event, which is not sent again. */
            end = &hit->hit_next;
            continue;
        }
        /* A watch cannot continue within a difference (since_of in subscribe.c), so the whole
         * difference is repeated. */
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
        ws_notice_overrun(socket, ids, count, from); /* Sent once until the watch catches up. */
        stand_in_line(socket);
    }
    return kept;
}

/* Holds all watches of the socket, because the subscriber has lost its place in the window. Each
 * watch continues after `from`, or after its own start if that zxid is higher, for example when
 * the watch has just caught up. */
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

/* Catches up one held watch. False when the watch has to wait. */
static bool catch_up(struct ws_socket *socket, struct ws_lag lag)
{
    struct subscriber *subscriber = socket->ws->subscriber;
    struct watch *watch = watch_by_id(subscribe_table(subscriber), &socket->owner, lag.watch);
    struct subscribe_result result;
    zxid_t from = lag.gap ? subscribe_at(subscriber) : lag.from;

    if (!watch) {
        return true; /* The watch was removed meanwhile. */
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

/* Catches up the watch of the oldest lag; false when the watch has to wait. Catching up may hold
 * the watch again, which adds a lag at the end of the list. */
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

/* Catches up one watch of the first socket in line, and moves the socket to the end of the line. A
 * socket whose client has too much to read leaves the line; ws_overrun_eased puts it back after the
 * client has read. False when the watch could not catch up. */
static bool serve_first(struct ws *ws)
{
    struct ws_socket *socket = list_take(&ws->line, struct ws_socket, lags.line);
    bool served = true;

    if (is_due(socket)) {
        served = catch_up_one(socket);
        ws_turn_soon(socket); /* A reply may have waited for these events. */
    }
    if (!ws_lags_any(socket)) {
        ws_lags_forget(socket);
        socket->lags.must_empty = false;
        if (list_empty(&socket->queue.messages)) {
            forget_rounds(socket); /* While a message waits, is_hopeless needs the rounds. */
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
        return; /* The next round tries again, after WS_LOOK_MS at most. */
    }
    /* Hands out the newest changes to all watches, because a difference may already have shown them
     * to one watch. */
    ws_order_pump(ws, ZXID_MAX);
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

/* Returns a zxid above all current lags. */
static zxid_t end_of_round(const struct ws_socket *socket)
{
    zxid_t end = subscribe_at(socket->ws->subscriber);

    for (uint32_t i = socket->lags.first; i < socket->lags.count; i++) {
        end = socket->lags.list[i].from >= end ? socket->lags.list[i].from + 1 : end;
    }
    return end;
}

/* True when a message has waited for missed events for longer than requestTimeout and WS_ROUNDS
 * rounds. A round lasts until all lags that existed at its beginning have caught up, so each round
 * ends if the client reads. New lags may begin during a round. */
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
    const char *why = "this replica is about to close this WebSocket: connect again";

    if (!ws_lags_any(socket)) {
        forget_rounds(socket);
        return false;
    }
    if (socket->closing.code != WS_CODE_NONE ||
        gate_check_local(message->ws->gate, &why) != ERR_OK) {
        ws_message_refuse(message, ERR_NOT_READY, why);
    } else if (is_hopeless(message)) {
        ws_message_refuse(
            message, ERR_THROTTLED,
            "the watches of this WebSocket send events faster than the client reads them");
    }
    return true;
}
