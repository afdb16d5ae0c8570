/*
 * Clients that do not keep up. When more events wait for a client than it may have waiting, its
 * watches are held and their events thrown away, from the beginning of one zxid on; it is told
 * "overrun". Once it has read half of what waits it stands in line, and its watches catch up, one
 * at a time: from the window, or as a difference, or with a gap. Who is behind and does not read is
 * in no line: what one socket does not read costs the others nothing. Its replies wait until it has
 * been told all that their state includes.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

static void stand_in_line(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;

    if (list_empty(&socket->behind)) {
        list_push_back(&ws->behind, &socket->behind);
        ev_async_send(ws->loop, &ws->changed); /* This turn may have had its look. */
    }
}

/* Bytes of events that may wait. What a client has missed comes in small parts while the room for
 * all is short. */
static size_t most(const struct ws_socket *socket)
{
    size_t max = socket->ws->limits->socket_queue_bytes_max;

    if (socket->catching && max > WS_FEW_BYTES &&
        budget_level(gate_unsent(socket->ws->gate)) != BUDGET_ROOMY) {
        return WS_FEW_BYTES;
    }
    return max;
}

/* Only between two zxids, so that what is thrown away begins with a whole one; a difference comes
 * in one piece, and has its own bound. */
static bool is_over(struct ws_socket *socket, const struct watch_event *event)
{
    size_t unsent = ws_out_unsent(socket);
    bool full = !ws_relief_finds_room(socket->ws);

    if (event->diff) {
        return full || unsent > WS_DIFF_MAX;
    }
    return (full || unsent > most(socket)) && event->zxid != socket->told;
}

/* One that was held when the slowest lost what waits for them, while this event was handed out. */
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

/* Holds the watches that can be told later; those that cannot are left in the chain. */
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
            *end = hit; /* The only event that it will ever have. */
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
        socket->must_empty = true;
    }
    if (count > 0 && !socket->catching) {
        ws_notice_overrun(socket, ids, count, from); /* Once, however long it takes. */
        stand_in_line(socket);
    }
    return kept;
}

/* What happens to the watches of one socket when the subscriber has lost its place. One that has
 * just caught up may be ahead of it. */
static void lose_place(struct ws_socket *socket, zxid_t from)
{
    uint32_t ids[WS_IDS_MAX];
    zxid_t least = ZXID_MAX;
    size_t count = 0;

    list_for_each (it, &socket->owner.watches) {
        struct watch *watch = list_entry(it, struct watch, by_owner);
        zxid_t place = from > watch->start ? from : watch->start;

        if (watch->held) {
            continue;
        }
        watch_hold(watch);
        ws_lags_add(socket, watch->id, place, false);
        least = place < least ? place : least;
        ids[count++] = watch->id;
        if (count == WS_IDS_MAX) {
            ws_notice_overrun(socket, ids, count, least);
            least = ZXID_MAX;
            count = 0;
        }
    }
    if (count > 0) {
        ws_notice_overrun(socket, ids, count, least);
    }
    if (ws_lags_any(socket)) {
        stand_in_line(socket);
    }
}

void ws_overrun_lost(struct ws *ws, zxid_t from)
{
    list_for_each (it, &ws->sockets) {
        struct ws_socket *socket = list_entry(it, struct ws_socket, node);

        if (socket->open && !socket->farewell && !socket->mute) {
            lose_place(socket, from);
        }
    }
}

/* ---- Catching up ---- */

static bool is_due(const struct ws_socket *socket)
{
    size_t few = socket->must_empty ? 0 : socket->ws->limits->socket_queue_bytes_max / 2;

    return ws_lags_any(socket) && !socket->mute && ws_out_unsent(socket) <= few;
}

void ws_overrun_eased(struct ws_socket *socket)
{
    if (is_due(socket)) {
        stand_in_line(socket);
    }
}

/* One watch that was held; false when it has to wait. */
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

/* Oldest first. Catching up may hold the watch again, which adds a lag at the end. */
static bool catch_up_one(struct ws_socket *socket)
{
    struct ws_lag lag = socket->lags[socket->lag_first++];
    bool caught = false;

    socket->catching = true;
    caught = catch_up(socket, lag);
    socket->catching = false;
    if (!caught) {
        ws_lags_add(socket, lag.watch, lag.from, lag.gap);
    }
    return caught;
}

static void forget_rounds(struct ws_socket *socket)
{
    socket->rounds = 0;
    socket->round_end = 0;
}

/* A message that waits may miss this moment: what it has waited still counts. */
static void keeps_up(struct ws_socket *socket)
{
    mem_free(socket->lags);
    socket->lags = NULL;
    socket->lag_first = 0;
    socket->lag_count = 0;
    socket->lag_cap = 0;
    socket->must_empty = false;
    if (list_empty(&socket->messages)) {
        forget_rounds(socket);
    }
}

/* One watch of the first in line, which goes to the end of it. Who has too much to read leaves it
 * until that is read: ws_overrun_eased. False: no watch could catch up now. */
static bool serve_first(struct ws *ws)
{
    struct ws_socket *socket = list_first(&ws->behind, struct ws_socket, behind);
    bool served = true;

    list_remove(&socket->behind);
    if (is_due(socket)) {
        served = catch_up_one(socket);
        ws_turn_soon(socket); /* A reply may have waited for that. */
    }
    if (!ws_lags_any(socket)) {
        keeps_up(socket);
    } else if (is_due(socket)) {
        list_push_back(&ws->behind, &socket->behind);
    }
    return served;
}

void ws_overrun_catch_up(struct ws *ws)
{
    uint64_t end_us = os_now_us() + WS_WORK_US;
    bool served = false;

    if (!ws_relief_finds_room(ws)) {
        return; /* WS_LOOK_MS later, or sooner. */
    }
    ws_order_pump(ws, ZXID_MAX); /* A watch may have been told of more than the others. */
    for (size_t i = 0; i < WS_CATCH_UPS && !list_empty(&ws->behind); i++) {
        if (i > 0 && os_now_us() >= end_us) {
            break;
        }
        served = serve_first(ws) || served;
    }
    if (served && !list_empty(&ws->behind)) {
        ev_async_send(ws->loop, &ws->changed);
    }
}

/* ---- Replies ---- */

/* Above all that is missing now. */
static zxid_t end_of_round(const struct ws_socket *socket)
{
    zxid_t end = subscribe_at(socket->ws->subscriber);

    for (uint32_t i = socket->lag_first; i < socket->lag_count; i++) {
        end = socket->lags[i].from >= end ? socket->lags[i].from + 1 : end;
    }
    return end;
}

/* Each round ends, as what a client has missed before a zxid gets less whenever it reads; but new
 * things may be missed meanwhile. */
static bool is_hopeless(const struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    uint64_t patience_us = (uint64_t)message->ws->limits->request_timeout_ms * 1000;

    if (ws_lags_none_until(socket, socket->round_end)) {
        socket->rounds++;
        socket->round_end = end_of_round(socket);
    }
    return socket->rounds > WS_ROUNDS && os_now_us() > message->start_us + patience_us;
}

bool ws_overrun_waits(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    const char *why = "this socket is about to be closed";

    if (!ws_lags_any(socket)) {
        forget_rounds(socket);
        return false;
    }
    if (socket->code != WS_CODE_NONE || gate_check_local(message->ws->gate, &why) != ERR_OK) {
        ws_message_refuse(message, ERR_NOT_READY, why);
    } else if (is_hopeless(message)) {
        ws_message_refuse(message, ERR_THROTTLED,
                          "events of this socket's watches come faster than it reads them");
    }
    return true;
}
