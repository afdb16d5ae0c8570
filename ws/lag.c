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

enum {
    LAGS_CAP_MIN = 4,
    IDS_MAX = WATCH_KINDS + STATE_DEPTH_MAX /* Watches of one owner that one event can match. */
};

/* Forgets those that have caught up, and those whose watch was removed meanwhile: there are never
 * more than watches. */
static void tidy(struct ws_socket *socket)
{
    const struct watch_table *table = subscribe_table(socket->ws->subscriber);
    uint32_t kept = 0;

    for (uint32_t i = socket->lag_first; i < socket->lag_count; i++) {
        if (watch_by_id(table, &socket->owner, socket->lags[i].watch)) {
            socket->lags[kept++] = socket->lags[i];
        }
    }
    socket->lag_first = 0;
    socket->lag_count = kept;
    ASSERT(kept <= socket->owner.count);
}

static void make_room(struct ws_socket *socket)
{
    if (socket->lag_count < socket->lag_cap) {
        return;
    }
    tidy(socket);
    if (socket->lag_count >= socket->lag_cap / 2) {
        socket->lag_cap = socket->lag_cap > 0 ? 2 * socket->lag_cap : LAGS_CAP_MIN;
        socket->lags = mem_realloc(socket->lags, socket->lag_cap * sizeof(*socket->lags));
    }
}

static void add_lag(struct ws_socket *socket, uint32_t watch, zxid_t from, bool gap)
{
    make_room(socket);
    ASSERT(socket->lag_count < socket->lag_cap);
    socket->lags[socket->lag_count++] = (struct ws_lag){.watch = watch, .gap = gap, .from = from};
}

static void stand_in_line(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;

    if (list_empty(&socket->behind)) {
        list_push_back(&ws->behind, &socket->behind);
        ev_async_send(ws->loop, &ws->changed); /* This turn may have had its look. */
    }
}

/* What was thrown away on the way here is still to be told. */
void ws_lag_resumed(struct ws_socket *socket, uint32_t id)
{
    const struct watch_table *table = subscribe_table(socket->ws->subscriber);
    const struct watch *watch = watch_by_id(table, &socket->owner, id);
    bool held = watch && watch->held;

    for (uint32_t i = socket->lag_count; i > socket->lag_first; i--) {
        if (socket->lags[i - 1].watch != id) {
            continue;
        }
        if (!held) {
            memmove(&socket->lags[i - 1], &socket->lags[i],
                    (socket->lag_count - i) * sizeof(*socket->lags));
            socket->lag_count--;
        }
        held = false;
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
struct watch *ws_lag_hold(struct ws_socket *socket, struct watch *hits,
                          const struct watch_event *event)
{
    uint32_t ids[IDS_MAX];
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
        add_lag(socket, hit->id, from, event->diff && ws_out_unsent(socket) > WS_DIFF_MAX);
        if (count < IDS_MAX) {
            ids[count++] = hit->id;
        }
    }
    *end = NULL;
    if (count > 0 && budget_level(gate_unsent(socket->ws->gate)) != BUDGET_ROOMY) {
        socket->must_empty = true;
    }
    if (count > 0 && !socket->catching) {
        ws_tell_overrun(socket, ids, count, from); /* Once, however long it takes. */
        stand_in_line(socket);
    }
    return kept;
}

/* What happens to the watches of one socket when the subscriber has lost its place. One that has
 * just caught up may be ahead of it. */
static void lose_place(struct ws_socket *socket, zxid_t from)
{
    uint32_t ids[IDS_MAX];
    zxid_t least = ZXID_MAX;
    size_t count = 0;

    list_for_each (it, &socket->owner.watches) {
        struct watch *watch = list_entry(it, struct watch, by_owner);
        zxid_t place = from > watch->start ? from : watch->start;

        if (watch->held) {
            continue;
        }
        watch_hold(watch);
        add_lag(socket, watch->id, place, false);
        least = place < least ? place : least;
        ids[count++] = watch->id;
        if (count == IDS_MAX) {
            ws_tell_overrun(socket, ids, count, least);
            least = ZXID_MAX;
            count = 0;
        }
    }
    if (count > 0) {
        ws_tell_overrun(socket, ids, count, least);
    }
    if (ws_lag_is_behind(socket)) {
        stand_in_line(socket);
    }
}

void ws_lag_lost(struct ws *ws, zxid_t from)
{
    list_for_each (it, &ws->sockets) {
        struct ws_socket *socket = list_entry(it, struct ws_socket, node);

        if (socket->open && !socket->farewell && !socket->mute) {
            lose_place(socket, from);
        }
    }
}

static bool is_due(const struct ws_socket *socket)
{
    size_t few = socket->must_empty ? 0 : socket->ws->limits->socket_queue_bytes_max / 2;

    return ws_lag_is_behind(socket) && !socket->mute && ws_out_unsent(socket) <= few;
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
        ws_tell_gap(socket, lag.watch, result.zxid);
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
        add_lag(socket, lag.watch, lag.from, lag.gap);
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

void ws_lag_eased(struct ws_socket *socket)
{
    if (is_due(socket)) {
        stand_in_line(socket);
    }
}

/* One watch of the first in line, which goes to the end of it. Who has too much to read leaves it
 * until that is read: ws_lag_eased. False: no watch could catch up now. */
static bool serve_first(struct ws *ws)
{
    struct ws_socket *socket = list_first(&ws->behind, struct ws_socket, behind);
    bool served = true;

    list_remove(&socket->behind);
    if (is_due(socket)) {
        served = catch_up_one(socket);
        ws_socket_turn(socket); /* A reply may have waited for that. */
    }
    if (!ws_lag_is_behind(socket)) {
        keeps_up(socket);
    } else if (is_due(socket)) {
        list_push_back(&ws->behind, &socket->behind);
    }
    return served;
}

void ws_lag_catch_up(struct ws *ws)
{
    uint64_t end_us = os_now_us() + WS_WORK_US;
    bool served = false;

    if (!ws_relief_finds_room(ws)) {
        return; /* WS_LOOK_MS later, or sooner. */
    }
    ws_tell_changes(ws, ZXID_MAX); /* A watch may have been told of more than the others. */
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

/* ---- Thrown away ---- */

/* From where watches are to be told again, while the end of a queue is thrown away. */
struct cutting {
    struct ws_socket *socket;
    struct map by_watch; /* To one of `rewinds`. */
    struct ws_lag *rewinds;
    uint32_t count;
    zxid_t all; /* All watches, from there at least. */
};

static void on_cut(void *ctx, const struct piece_tag *tag)
{
    struct cutting *cutting = ctx;
    const struct ws_socket *socket = cutting->socket;
    struct ws_lag *rewind = NULL;

    if (tag->kind != PIECE_EVENT) {
        return;
    }
    if (tag->watch == 0) {
        cutting->all = tag->from < cutting->all ? tag->from : cutting->all;
        return;
    }
    rewind = map_get_u64(&cutting->by_watch, tag->watch);
    if (rewind) {
        rewind->from = tag->from < rewind->from ? tag->from : rewind->from;
    } else if (watch_by_id(subscribe_table(socket->ws->subscriber), &socket->owner, tag->watch)) {
        rewind = &cutting->rewinds[cutting->count++];
        *rewind = (struct ws_lag){.watch = tag->watch, .from = tag->from};
        (void)map_put_u64(&cutting->by_watch, tag->watch, rewind);
    }
}

/* Where this watch has to go on, if it was told of what was thrown away. */
static zxid_t rewind_of(const struct cutting *cutting, const struct watch *watch)
{
    const struct ws_lag *rewind = map_get_u64(&cutting->by_watch, watch->id);
    zxid_t all = cutting->all > watch->start ? cutting->all : watch->start;
    zxid_t from = cutting->all == ZXID_MAX ? ZXID_MAX : all;

    return rewind && rewind->from < from ? rewind->from : from;
}

static void rewind_lags(struct ws_socket *socket, const struct cutting *cutting)
{
    const struct watch_table *table = subscribe_table(socket->ws->subscriber);

    for (uint32_t i = socket->lag_first; i < socket->lag_count; i++) {
        struct ws_lag *lag = &socket->lags[i];
        const struct watch *watch = watch_by_id(table, &socket->owner, lag->watch);
        zxid_t from = watch ? rewind_of(cutting, watch) : ZXID_MAX;

        lag->from = from < lag->from ? from : lag->from;
    }
}

static void rewind_watches(struct ws_socket *socket, const struct cutting *cutting)
{
    list_for_each (it, &socket->owner.watches) {
        struct watch *watch = list_entry(it, struct watch, by_owner);
        zxid_t from = ZXID_MAX;

        if (watch->held || watch_is_one_shot(watch->kind)) {
            continue;
        }
        from = rewind_of(cutting, watch);
        if (from != ZXID_MAX) {
            watch_hold(watch);
            add_lag(socket, watch->id, from, false);
        }
    }
}

/* Of all that it has missed: what was said of that may have been thrown away, too. */
static void tell_all_overrun(struct ws_socket *socket)
{
    uint32_t ids[IDS_MAX];
    zxid_t least = ZXID_MAX;
    size_t count = 0;

    for (uint32_t i = socket->lag_first; i < socket->lag_count; i++) {
        ids[count++] = socket->lags[i].watch;
        least = socket->lags[i].from < least ? socket->lags[i].from : least;
        if (count == IDS_MAX || i + 1 == socket->lag_count) {
            ws_tell_overrun(socket, ids, count, least);
            least = ZXID_MAX;
            count = 0;
        }
    }
}

void ws_lag_cut(struct ws_socket *socket)
{
    struct cutting cutting = {
        .socket = socket,
        .all = ZXID_MAX,
        .rewinds = mem_zalloc(socket->owner.count, sizeof(*cutting.rewinds)),
    };

    map_init(&cutting.by_watch);
    if (pieces_cut(&socket->out, on_cut, &cutting) > 0) {
        tidy(socket);
        rewind_lags(socket, &cutting);
        rewind_watches(socket, &cutting);
        tell_all_overrun(socket);
        socket->told = 0;
        socket->must_empty = true;
    }
    map_release(&cutting.by_watch);
    mem_free(cutting.rewinds);
}

/* ---- Replies ---- */

bool ws_lag_is_behind(const struct ws_socket *socket)
{
    return socket->lag_count > socket->lag_first;
}

zxid_t ws_lag_bound(const struct ws_socket *socket, zxid_t zxid)
{
    for (uint32_t i = socket->lag_first; i < socket->lag_count; i++) {
        zxid = socket->lags[i].from < zxid ? socket->lags[i].from : zxid;
    }
    return zxid;
}

bool ws_lag_has_told(const struct ws_socket *socket, zxid_t zxid)
{
    return ws_lag_bound(socket, zxid) == zxid;
}

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

    if (ws_lag_has_told(socket, socket->round_end)) {
        socket->rounds++;
        socket->round_end = end_of_round(socket);
    }
    return socket->rounds > WS_ROUNDS && os_now_us() > message->start_us + patience_us;
}

bool ws_lag_waits(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    const char *why = "this socket is about to be closed";

    if (!ws_lag_is_behind(socket)) {
        forget_rounds(socket);
        return false;
    }
    if (socket->code != WS_CODE_NONE || gate_check_local(message->ws->gate, &why) != ERR_OK) {
        ws_refuse(message, ERR_NOT_READY, why);
    } else if (is_hopeless(message)) {
        ws_refuse(message, ERR_THROTTLED,
                  "events of this socket's watches come faster than it reads them");
    }
    return true;
}

void ws_lag_release(struct ws_socket *socket)
{
    list_remove(&socket->behind);
    mem_free(socket->lags);
}
