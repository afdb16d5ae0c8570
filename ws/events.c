/*
 * Events: the subscriber hands out each change with the watches that match the change, for all
 * sockets, in the order of the changes. Watches are added here, too: a new watch may at once get
 * events that it has missed, and the reply to the message that adds it must precede these events.
 */
#include "ws/ws_int.h"

static void add_wish(struct ws_wish *wish, const struct watch *watch)
{
    bool data = watch->format != OP_NONE;
    bool has_data = wish->values && wish->format != OP_NONE;

    if (watch->values && (!has_data || (data && watch->id < wish->watch))) {
        *wish = (struct ws_wish){
            .values = true, .format = (enum op_dataformat)watch->format, .watch = watch->id};
    }
}

static bool holds(const struct ws_payload *payload, const struct watch_event *event,
                  const struct ws_wish *wish)
{
    const struct watch_event *last = &payload->event;

    return last->zxid == event->zxid && last->change == event->change &&
           last->type == event->type && last->last == event->last &&
           payload->wish.values == wish->values && payload->wish.format == wish->format &&
           slice_eq(last->path, event->path);
}

/* Writes the payload of an event, unless it was already written for another socket. An event of a
 * difference is for one socket only, so it is always written. */
static void write_payload(struct ws_payload *payload, const struct watch_event *event,
                          const struct ws_wish *wish)
{
    struct jsonw json;

    if (!event->diff && holds(payload, event, wish)) {
        return;
    }
    buf_clear(&payload->text);
    buf_clear(&payload->path);
    jsonw_init(&json, &payload->text);
    op_json_event(&json, event, NULL, wish->values, wish->format);
    blob_unref(payload->shared);
    payload->shared = NULL;
    if (payload->text.len >= PIECES_SHARE_BYTES) {
        payload->shared = blob_new(buf_slice(&payload->text));
    }
    payload->event = *event;
    payload->event.zxid = event->diff ? 0 : event->zxid;
    (void)buf_append_slice(&payload->path, event->path);
    payload->event.path = buf_slice(&payload->path);
    payload->wish = *wish;
    /* The first member is "event"; "watches" is inserted after the comma that follows it. */
    payload->split = slice_find(buf_slice(&payload->text), ',') + 1;
}

/* Returns the tag of an event. The event of a one-shot watch is the only event of this watch and
 * must not be dropped; all other events can be sent later instead. */
static struct piece_tag tag_of(const struct ws_socket *socket, const struct watch *hits,
                               const struct watch_event *event)
{
    struct piece_tag tag = {.kind = PIECE_EVENT,
                            .starts = event->diff || event->zxid != socket->order.last_event,
                            .watch = hits->hit_next ? 0 : hits->id,
                            .from = event->diff ? hits->diff_since : event->zxid - 1};

    for (const struct watch *hit = hits; hit; hit = hit->hit_next) {
        if (watch_is_one_shot(hit->kind)) {
            tag.kind = PIECE_FIXED;
        }
    }
    return tag;
}

static void send_event(struct ws_socket *socket, const struct watch *hits,
                       const struct watch_event *event)
{
    struct ws *ws = socket->ws;
    struct ws_payload *payload = &ws->payload;
    struct ws_wish wish = {.format = OP_AUTO};

    buf_clear(&ws->scratch);
    for (const struct watch *hit = hits; hit; hit = hit->hit_next) {
        add_wish(&wish, hit);
        (void)buf_printf(&ws->scratch, hit == hits ? "\"watches\":[%u" : ",%u", hit->id);
    }
    (void)buf_append_str(&ws->scratch, "],");
    write_payload(payload, event, &wish);

    const struct slice parts[WS_PARTS] = {
        slice_make(payload->text.data, payload->split),
        buf_slice(&ws->scratch),
        payload->shared
            ? slice_make(NULL, 0)
            : slice_make(payload->text.data + payload->split, payload->text.len - payload->split),
    };
    const struct piece_tag tag = tag_of(socket, hits, event);

    ws_out_event(socket, &tag, parts, payload->shared, payload->split);
    socket->order.last_event = event->zxid;
    ws_order_saw(socket, event->zxid);
    metric_add(&ws->metrics.events, 1);
}

/* ---- Watches ---- */

/* Replies once to the message that adds a watch, before the first event that the watch has
 * missed. */
static void answer(struct ws *ws)
{
    struct ws_answering *answering = &ws->answering;

    if (answering->replied || answering->result.id == 0) {
        return;
    }
    answering->replied = true;
    if (answering->read) {
        answering->failed =
            !ws_reply_result(answering->message, answering->read, answering->result.id);
    } else {
        struct subscribe_result shown = answering->result;

        /* While this watch was added, other watches of the socket may have been held. The reply
         * must not name a zxid above an event that they have missed. */
        shown.zxid = ws_lags_bound(answering->message->socket, shown.zxid);
        ws_reply_watch(answering->message, &shown);
    }
}

static void on_event(void *ctx, struct watch_owner *owner, struct watch *hits,
                     const struct watch_event *event)
{
    struct ws *ws = ctx;
    struct ws_socket *socket = list_entry(owner, struct ws_socket, owner);

    if (ws->answering.message && ws->answering.message->socket == socket) {
        answer(ws);
    }
    if (!socket->open || socket->closing.farewell || socket->closing.mute) {
        return;
    }
    hits = ws_overrun_hold(socket, hits, event);
    if (hits) {
        send_event(socket, hits, event);
    }
}

enum err ws_events_watch(struct ws_message *message, const struct op_result *read,
                         const struct subscribe_request *request)
{
    struct ws *ws = message->ws;
    struct ws_socket *socket = message->socket;
    struct ws_answering *answering = &ws->answering;
    enum err err = ERR_OK;

    *answering = (struct ws_answering){.message = message, .read = read};
    if (read || !request->has_since) {
        err = subscribe_add_at(ws->subscriber, &socket->owner, request, &answering->result);
    } else {
        err = subscribe_add(ws->subscriber, &socket->owner, request, &answering->result);
    }
    if (err == ERR_OK) {
        answer(ws);
    }
    if (err == ERR_OK && answering->result.resumed != SUBSCRIBE_FRESH) {
        ws_lags_resumed(socket, answering->result.id);
    }
    if (read && !answering->failed && answering->result.resumed == SUBSCRIBE_GAP) {
        ws_notice_gap(socket, answering->result.id, answering->result.zxid);
    }
    if (answering->failed && !answering->result.used_up) {
        struct watch_table *table = subscribe_table(ws->subscriber);

        watch_remove(table, watch_by_id(table, &socket->owner, answering->result.id));
    }
    answering->message = NULL;
    return err;
}

/* ---- The subscriber ---- */

static void on_change(void *ctx, zxid_t zxid, const struct state_change *change)
{
    if (change->type == TXN_SESSION_CLOSE || change->type == TXN_SESSION_MOVE) {
        ws_session_changed(ctx, zxid, change);
    }
}

static void on_lost(void *ctx, zxid_t from)
{
    struct ws *ws = ctx;

    ws_session_look_all(ws);
    ws_overrun_lost(ws, from);
}

/* Wakes the sockets' thread after a change; called on the core thread. Without sockets no client
 * waits for changes, so one wake-up per WS_SKIPPED_WAKEUPS_MAX changes is enough. Without these few
 * wake-ups the first socket would have to catch up with many changes before its first message. */
static void wake(void *ctx)
{
    struct ws *ws = ctx;

    if (atomic_load(&ws->taken) > 0 || ++ws->skipped_wakeups % WS_SKIPPED_WAKEUPS_MAX == 0) {
        ev_async_send(ws->loop, &ws->changed);
    }
}

/* A round with many greetings, messages or turns may take 100 ms when the processors are busy. Its
 * events must not wait for the end of the round. */
void ws_events_let_out(struct ws *ws)
{
    uint64_t now_us = os_now_us();
    uint64_t end_us = now_us + WS_WORK_US;

    if (now_us - ws->news_us < WS_EVENTS_US) {
        return;
    }
    (void)subscribe_pump(ws->subscriber, ZXID_MAX, WS_PUMP_SETS);
    while (!list_empty(&ws->news) && os_now_us() < end_us) {
        struct ws_socket *socket = list_take(&ws->news, struct ws_socket, out.news);

        if (socket->open && !ws_out_flush(socket)) {
            ws_close_cut(socket);
        }
    }
    ws->news_us = os_now_us();
}

void ws_events_open(struct ws *ws)
{
    const struct subscribe_sink sink = {
        .ctx = ws, .on_event = on_event, .on_change = on_change, .on_lost = on_lost};
    struct window *window = gate_window(ws->gate);
    struct jsonw json;

    buf_init(&ws->payload.text, SIZE_MAX / 2); /* Bounded by the size of one event. */
    buf_init(&ws->payload.path, SIZE_MAX / 2);
    buf_init(&ws->limits_json, SIZE_MAX / 2);
    jsonw_init(&json, &ws->limits_json);
    gate_write_limits(ws->gate, &json);
    ws->subscriber = subscriber_new(gate_view(ws->gate), window, &sink);
    ws->listener = (struct window_listener){.wake = wake, .ctx = ws};
    window_listen(window, &ws->listener);
}

void ws_events_close(struct ws *ws)
{
    window_unlisten(gate_window(ws->gate), &ws->listener);
    subscriber_free(ws->subscriber);
    buf_release(&ws->payload.text);
    blob_unref(ws->payload.shared);
    buf_release(&ws->payload.path);
    buf_release(&ws->limits_json);
}
