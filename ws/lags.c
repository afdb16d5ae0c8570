/*
 * What a socket's watches have missed: a list of lags, oldest first. A lag is a watch that is held,
 * and the zxid behind which it continues. Events that wait are thrown away here, too: that makes
 * lags of their watches.
 */
#include "base/check.h"
#include "base/mem.h"
#include "ws/ws_int.h"

enum {
    LAGS_CAP_MIN = 4
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

void ws_lags_add(struct ws_socket *socket, uint32_t watch, zxid_t from, bool gap)
{
    make_room(socket);
    ASSERT(socket->lag_count < socket->lag_cap);
    socket->lags[socket->lag_count++] = (struct ws_lag){.watch = watch, .gap = gap, .from = from};
}

/* What was thrown away on the way here is still to be told. */
void ws_lags_resumed(struct ws_socket *socket, uint32_t id)
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

bool ws_lags_any(const struct ws_socket *socket)
{
    return socket->lag_count > socket->lag_first;
}

zxid_t ws_lags_bound(const struct ws_socket *socket, zxid_t zxid)
{
    for (uint32_t i = socket->lag_first; i < socket->lag_count; i++) {
        zxid = socket->lags[i].from < zxid ? socket->lags[i].from : zxid;
    }
    return zxid;
}

bool ws_lags_none_until(const struct ws_socket *socket, zxid_t zxid)
{
    return ws_lags_bound(socket, zxid) == zxid;
}

void ws_lags_release(struct ws_socket *socket)
{
    list_remove(&socket->behind);
    mem_free(socket->lags);
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
            ws_lags_add(socket, watch->id, from, false);
        }
    }
}

/* Of all that it has missed: what was said of that may have been thrown away, too. */
static void tell_all_overrun(struct ws_socket *socket)
{
    uint32_t ids[WS_IDS_MAX];
    zxid_t least = ZXID_MAX;
    size_t count = 0;

    for (uint32_t i = socket->lag_first; i < socket->lag_count; i++) {
        ids[count++] = socket->lags[i].watch;
        least = socket->lags[i].from < least ? socket->lags[i].from : least;
        if (count == WS_IDS_MAX || i + 1 == socket->lag_count) {
            ws_notice_overrun(socket, ids, count, least);
            least = ZXID_MAX;
            count = 0;
        }
    }
}

void ws_lags_cut(struct ws_socket *socket)
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
