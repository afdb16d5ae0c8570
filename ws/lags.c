/*
 * What a client has seen and missed. A lag is a held watch and the zxid after which it continues; a
 * socket lists its lags, oldest first. When queued events are discarded, their watches get lags.
 * Before a reply leaves, the subscriber hands out all changes up to the state of that reply, for
 * all sockets (rule 2 of README.md).
 */
#include "ws/ws_int.h"

enum {
    LAGS_CAP_MIN = 4
};

/* Removes lags that have caught up, and lags whose watch is gone, so that there are never more lags
 * than watches. */
static void tidy(struct ws_socket *socket)
{
    const struct watch_table *table = subscribe_table(socket->ws->subscriber);
    struct ws_lags *lags = &socket->lags;
    uint32_t kept = 0;

    for (uint32_t i = lags->first; i < lags->count; i++) {
        if (watch_by_id(table, &socket->owner, lags->list[i].watch)) {
            lags->list[kept++] = lags->list[i];
        }
    }
    lags->first = 0;
    lags->count = kept;
    ASSERT(kept <= socket->owner.count);
}

static void make_room(struct ws_socket *socket)
{
    struct ws_lags *lags = &socket->lags;

    if (lags->count < lags->cap) {
        return;
    }
    tidy(socket);
    if (lags->count >= lags->cap / 2) {
        lags->cap = lags->cap > 0 ? 2 * lags->cap : LAGS_CAP_MIN;
        lags->list = mem_realloc(lags->list, lags->cap * sizeof(*lags->list));
    }
}

void ws_lags_add(struct ws_socket *socket, uint32_t watch, zxid_t from, bool gap)
{
    struct ws_lags *lags = &socket->lags;

    make_room(socket);
    ASSERT(lags->count < lags->cap);
    lags->list[lags->count++] = (struct ws_lag){.watch = watch, .gap = gap, .from = from};
}

/* Drops the lags of a watch that has resumed. If the watch was held again meanwhile, its newest lag
 * stays. */
void ws_lags_resumed(struct ws_socket *socket, uint32_t id)
{
    const struct watch_table *table = subscribe_table(socket->ws->subscriber);
    const struct watch *watch = watch_by_id(table, &socket->owner, id);
    struct ws_lags *lags = &socket->lags;
    bool held = watch && watch->held;

    for (uint32_t i = lags->count; i > lags->first; i--) {
        if (lags->list[i - 1].watch != id) {
            continue;
        }
        if (!held) {
            memmove(&lags->list[i - 1], &lags->list[i], (lags->count - i) * sizeof(*lags->list));
            lags->count--;
        }
        held = false;
    }
}

bool ws_lags_any(const struct ws_socket *socket)
{
    return socket->lags.count > socket->lags.first;
}

zxid_t ws_lags_bound(const struct ws_socket *socket, zxid_t zxid)
{
    const struct ws_lags *lags = &socket->lags;

    for (uint32_t i = lags->first; i < lags->count; i++) {
        zxid = min_u64(lags->list[i].from, zxid);
    }
    return zxid;
}

void ws_lags_forget(struct ws_socket *socket)
{
    struct ws_lags *lags = &socket->lags;

    mem_free(lags->list);
    lags->list = NULL;
    lags->first = 0;
    lags->count = 0;
    lags->cap = 0;
}

/* ---- Discarding ---- */

/* The zxids after which watches continue, collected while the end of a queue is discarded. */
struct cutting {
    struct ws_socket *socket;
    struct map by_watch; /* Maps the id of a watch to its item of `rewinds`. */
    struct ws_lag *rewinds;
    uint32_t count;
    zxid_t all; /* The lowest such zxid of events for several watches; ZXID_MAX: none. */
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
        cutting->all = min_u64(tag->from, cutting->all);
        return;
    }
    rewind = map_get_u64(&cutting->by_watch, tag->watch);
    if (rewind) {
        rewind->from = min_u64(tag->from, rewind->from);
    } else if (watch_by_id(subscribe_table(socket->ws->subscriber), &socket->owner, tag->watch)) {
        rewind = &cutting->rewinds[cutting->count++];
        *rewind = (struct ws_lag){.watch = tag->watch, .from = tag->from};
        (void)map_put_u64(&cutting->by_watch, tag->watch, rewind);
    }
}

/* Returns the zxid after which this watch continues, or ZXID_MAX if no discarded event can have
 * been for this watch. */
static zxid_t rewind_of(const struct cutting *cutting, const struct watch *watch)
{
    const struct ws_lag *rewind = map_get_u64(&cutting->by_watch, watch->id);
    zxid_t all = max_u64(cutting->all, watch->start);
    zxid_t from = cutting->all == ZXID_MAX ? ZXID_MAX : all;

    return rewind && rewind->from < from ? rewind->from : from;
}

static void rewind_lags(struct ws_socket *socket, const struct cutting *cutting)
{
    const struct watch_table *table = subscribe_table(socket->ws->subscriber);
    const struct ws_lags *lags = &socket->lags;

    for (uint32_t i = lags->first; i < lags->count; i++) {
        struct ws_lag *lag = &lags->list[i];
        const struct watch *watch = watch_by_id(table, &socket->owner, lag->watch);
        zxid_t from = watch ? rewind_of(cutting, watch) : ZXID_MAX;

        lag->from = min_u64(from, lag->from);
    }
}

static void rewind_watches(struct ws_socket *socket, const struct cutting *cutting)
{
    list_for_each_entry (struct watch, watch, by_owner, &socket->owner.watches) {
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

/* Sends overrun notices for the newest lags. ws_lags_cut announces all lags again, because it may
 * have discarded the earlier notices. */
void ws_lags_notify(struct ws_socket *socket, uint32_t newest)
{
    const struct ws_lags *lags = &socket->lags;
    uint32_t ids[WS_IDS_MAX];
    zxid_t least = ZXID_MAX;
    size_t count = 0;

    for (uint32_t i = lags->count - newest; i < lags->count; i++) {
        ids[count++] = lags->list[i].watch;
        least = min_u64(lags->list[i].from, least);
        if (count == WS_IDS_MAX || i + 1 == lags->count) {
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
    if (pieces_cut(&socket->out.pieces, on_cut, &cutting) > 0) {
        tidy(socket);
        rewind_lags(socket, &cutting);
        rewind_watches(socket, &cutting);
        ws_lags_notify(socket, socket->lags.count - socket->lags.first);
        socket->order.last_event = 0;
        socket->lags.must_empty = true;
    }
    map_release(&cutting.by_watch);
    mem_free(cutting.rewinds);
}

/* ---- Events before replies ---- */

const char ws_order_taking_over[] =
    "this replica is loading another state: retry, or use another replica";

void ws_order_saw(struct ws_socket *socket, zxid_t zxid)
{
    socket->order.seen = max_u64(zxid, socket->order.seen);
}

zxid_t ws_order_complete(const struct ws_socket *socket)
{
    return ws_lags_bound(socket, subscribe_at(socket->ws->subscriber));
}

void ws_order_pump(struct ws *ws, zxid_t until)
{
    if (until > subscribe_at(ws->subscriber)) {
        (void)subscribe_pump(ws->subscriber, until, SIZE_MAX);
    }
}

/* Whether all events up to this zxid are queued for the client. If their changes have not come yet,
 * puts the socket into ws->waiting. */
static bool has_all(struct ws_socket *socket, zxid_t until)
{
    struct ws *ws = socket->ws;

    list_remove(&socket->order.waiting);
    ws_order_pump(ws, until);
    if (subscribe_at(ws->subscriber) < until) {
        list_push_back(&ws->waiting, &socket->order.waiting);
        return false;
    }
    return ws_lags_bound(socket, until) == until;
}

void ws_order_retry(struct ws *ws)
{
    list_take_each (struct ws_socket, socket, order.waiting, &ws->waiting) {
        ws_turn_soon(socket);
    }
}

/* Refuses a message that has waited for changes for requestTimeout. Changes are missing while this
 * replica loads another state. If the other state is older, the changes may never come, or other
 * changes may come instead. The other state may also lack a write that was applied before, so the
 * outcome of such a write is unknown. */
static void refuse_late(struct ws_message *message)
{
    const struct op_request *request = message->request;
    uint64_t patience_us = (uint64_t)message->ws->limits->request_timeout_ms * 1000;
    uint64_t now_us = os_now_us();
    bool write = op_args_kind(&request->args) == OP_KIND_WRITE;

    if (message->waits_since_us == 0) {
        message->waits_since_us = now_us;
    }
    if (now_us - message->waits_since_us < patience_us) {
        return;
    }
    if (!write) {
        ws_message_refuse(message, ERR_REPLICA_BEHIND, ws_order_taking_over);
    } else if (request->result.err == ERR_OK) {
        ws_message_refuse(message, ERR_OUTCOME_UNKNOWN, ws_order_taking_over);
    } else {
        ws_message_refuse(message, request->result.err, err_text(request->result.err));
    }
}

bool ws_order_allows(struct ws_message *message, zxid_t until)
{
    if (has_all(message->socket, until)) {
        return true;
    }
    if (!list_empty(&message->socket->order.waiting)) {
        refuse_late(message);
    }
    return false;
}
