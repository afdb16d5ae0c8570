/*
 * Delivers changes to a stream: as they happen, or later if the stream has missed them. A stream
 * misses changes before it is open, when its queue is full, or when the subscriber has lost its
 * place in the window.
 *
 * When unsent bytes of streams, answers and WebSockets fill the budget, streams lose their queued
 * events, beginning with the stream that has taken nothing for the longest time. A stream catches
 * up when its client reads. If the budget stays full, streams are closed whose queues hold bytes
 * that cannot be replayed.
 */
#include "http/stream.h"

#include <stdlib.h>

enum {
    SESSION_BEATS = 3 /* Heartbeats within the timeout of a session. */
};

/* ---- Relief: too many unsent bytes, here and of WebSockets ---- */

/* A stream with queued bytes. */
struct slow {
    struct http_stream *stream;
    uint64_t moved_ms;
    size_t bytes; /* Bytes in memory; an event is kept until all of it is sent. */
};

/* Compares for qsort: the longest time without progress first, then the largest queue. */
static int compare(const void *a, const void *b)
{
    const struct slow *left = a;
    const struct slow *right = b;

    if (left->moved_ms != right->moved_ms) {
        return left->moved_ms < right->moved_ms ? -1 : 1;
    }
    return left->bytes == right->bytes ? 0 : left->bytes > right->bytes ? -1 : 1;
}

static bool look(struct watcher_client *client, struct slow *ret_slow)
{
    struct http_stream *stream = stream_of(client);

    if (!client->ops->is_stream || stream->state == STREAM_OPENING) {
        return false;
    }
    MUTEX_HOLD(&stream->mutex);
    *ret_slow = (struct slow){.stream = stream,
                              .moved_ms = stream->moved_ms,
                              .bytes = stream->queue.bytes + stream->queue.at};
    return ret_slow->bytes > 0;
}

/* Finds the streams that have taken nothing for `grace_ms`, in the order of compare(). The caller
 * frees the array. */
static size_t find_slow(struct http_watcher *watcher, uint64_t grace_ms, struct slow **ret_all)
{
    uint64_t now_ms = os_now_ms();
    size_t cap = atomic_load(&watcher->slots);
    size_t count = 0;
    struct slow *all = mem_zalloc(cap, sizeof(*all));

    list_for_each_entry (struct watcher_client, client, node, &watcher->clients) {
        if (count < cap && look(client, &all[count]) && all[count].moved_ms + grace_ms <= now_ms) {
            count++;
        }
    }
    qsort(all, count, sizeof(*all), compare);
    *ret_all = all;
    return count;
}

static void overrun_slowest(void *ctx, uint64_t grace_ms)
{
    struct http_watcher *watcher = ctx;
    struct slow *all = NULL;
    size_t count = find_slow(watcher, grace_ms, &all);

    for (size_t i = 0; i < count && !budget_is_relieved(gate_unsent(watcher->http->gate)); i++) {
        if (&all[i].stream->client != watcher->gatherer) {
            stream_overrun(all[i].stream);
        }
    }
    mem_free(all);
}

/* Whether more events may be queued. When the budget is full, the slowest streams lose their queued
 * events first, to make room. */
static bool finds_room(struct http_watcher *watcher)
{
    const struct budget *budget = gate_unsent(watcher->http->gate);

    return budget_level(budget) != BUDGET_FULL ||
           budget_relieve(&watcher->relief, budget, os_now_ms(), overrun_slowest, watcher);
}

static void cut_off_slowest(struct http_watcher *watcher)
{
    const struct budget *budget = gate_unsent(watcher->http->gate);
    struct slow *all = NULL;
    size_t count = find_slow(watcher, STREAM_RELIEF_CLOSE_MS, &all);

    for (size_t i = 0; i < count && budget_level(budget) == BUDGET_FULL; i++) {
        if (all[i].bytes >= STREAM_RELIEF_BYTES) {
            metric_add(&watcher->metrics.slow, 1);
            stream_cut_off(all[i].stream);
        }
    }
    mem_free(all);
}

void stream_relief(struct http_watcher *watcher)
{
    enum budget_level level = budget_level(gate_unsent(watcher->http->gate));

    if (level == BUDGET_SHORT) {
        budget_relieve_early(&watcher->relief, os_now_ms(), overrun_slowest, watcher);
    } else if (level == BUDGET_FULL && !finds_room(watcher)) {
        cut_off_slowest(watcher);
    }
}

enum err stream_find_session(const struct http_stream *stream, struct op_session_info *ret_info)
{
    const struct op_session session = {.shown = true, .id = stream->session};

    return view_find_session(gate_view(stream->http->gate), &session, ret_info);
}

/* ---- Queued or held ---- */

static bool is_one_shot(const struct http_stream *stream)
{
    return watch_is_one_shot(stream->request.kind);
}

static void count_event(struct http_stream *stream, const struct watch_event *event)
{
    metric_add(&stream->client.watcher->metrics.events, 1);
    stream->group = event->last ? 0 : event->zxid;
    if (event->last && is_one_shot(stream)) {
        stream->finished = true;
        watcher_due(&stream->client);
    }
}

/* Whether the queue is full for this event. A full queue matters only between transactions, because
 * each transaction is sent as a whole. */
static bool is_full(struct http_stream *stream, const struct watch_event *event, size_t len,
                    size_t max)
{
    return stream->group != event->zxid && !is_one_shot(stream) &&
           (len >= max || !finds_room(stream->client.watcher));
}

/* Returns how many bytes of missed events are collected at a time: few while the budget is short.
 */
static size_t gather_max(const struct http_stream *stream)
{
    size_t max = stream->http->limits->socket_queue_bytes_max;
    enum budget_level level = budget_level(gate_unsent(stream->http->gate));

    return level != BUDGET_ROOMY ? min_size(max, STREAM_FEW_BYTES) : max;
}

/* Returns the tag of an event, with the zxid from which the event, or the difference that it
 * belongs to, can be replayed. */
static struct piece_tag tag_of(const struct http_stream *stream, const struct watch *watch,
                               const struct watch_event *event)
{
    return (struct piece_tag){.kind = is_one_shot(stream) ? PIECE_FIXED : PIECE_EVENT,
                              .starts = event->diff || stream->group != event->zxid,
                              .watch = watch->id,
                              .from = event->diff ? watch->diff_since : event->zxid - 1};
}

static void put_gather(struct http_stream *stream, const struct watch *watch,
                       const struct watch_event *event)
{
    struct http_watcher *watcher = stream->client.watcher;
    struct piece_tag tag = tag_of(stream, watch, event);
    struct slice text;

    buf_clear(&watcher->text);
    stream_put_event(stream, &watcher->text, event);
    text = buf_slice(&watcher->text);
    pieces_put_tagged(&watcher->gather, &tag, &text, 1, NULL, 0);
    count_event(stream, event);
}

/* Collects an event of a difference. A difference is useful only as a whole, so all of it is
 * dropped when one event has no room. */
static void gather_difference(struct http_stream *stream, const struct watch *watch,
                              const struct watch_event *event)
{
    size_t max = stream->http->limits->socket_queue_bytes_max;
    size_t len = stream->client.watcher->gather.bytes;

    if (is_one_shot(stream)) {
        put_gather(stream, watch, event);
        return;
    }
    stream->cut = stream->cut || len >= max;
    stream->crowded = stream->crowded || (!stream->cut && !finds_room(stream->client.watcher));
    if (!stream->cut && !stream->crowded) {
        put_gather(stream, watch, event);
    }
}

/* Collects a missed event in the watcher's own queue. The stream gets the events later, because a
 * frame before them reports whether they are a replay, a difference or a gap. Only after the last
 * event is this known: a difference that is too large becomes a gap. */
static void gather(struct http_stream *stream, struct watch *watch, const struct watch_event *event)
{
    if (event->diff) {
        gather_difference(stream, watch, event);
    } else if (is_full(stream, event, stream->client.watcher->gather.bytes, gather_max(stream))) {
        stream_hold(stream, watch, event->zxid);
    } else {
        put_gather(stream, watch, event);
    }
}

void stream_on_event(struct watcher_client *client, struct watch *hits,
                     const struct watch_event *event)
{
    struct http_stream *stream = stream_of(client);
    size_t max = stream->http->limits->socket_queue_bytes_max;

    if (client->watcher->gatherer == client) {
        gather(stream, hits, event);
    } else if (is_full(stream, event, stream_queued(stream, NULL), max) && !hits->held) {
        stream_hold(stream, hits, event->zxid);
    }
    if (client->watcher->gatherer != client && !hits->held) {
        struct piece_tag tag = tag_of(stream, hits, event);

        stream_put_shared(stream, &tag, stream_event_frame(stream, event));
        count_event(stream, event);
    }
}

/* ---- Collecting missed events ---- */

static void gather_begin(struct http_stream *stream)
{
    ASSERT(!stream->client.watcher->gather.first);
    stream->client.watcher->gatherer = &stream->client;
    stream->cut = false;
    stream->crowded = false;
}

/* Ends the collection. A difference that is too large, or has no room, is dropped. */
static void gather_end(struct http_stream *stream, struct subscribe_result *result)
{
    struct http_watcher *watcher = stream->client.watcher;

    watcher->gatherer = NULL;
    if (stream->cut || stream->crowded) {
        pieces_release(&watcher->gather);
    }
    buf_trim(&watcher->text, STREAM_KEEP_BYTES);
    if (stream->cut) {
        result->resumed = SUBSCRIBE_GAP;
        stream->group = 0;
    }
    if (result->resumed == SUBSCRIBE_GAP) {
        metric_add(&watcher->metrics.gaps, 1);
    }
}

/* Reports that events were lost or merged. */
static void put_notice(struct http_stream *stream, const struct subscribe_result *result,
                       zxid_t from)
{
    if (result->resumed == SUBSCRIBE_GAP) {
        stream_put_gap(stream, result->zxid);
    } else if (result->resumed == SUBSCRIBE_DIFFED) {
        metric_add(&stream->client.watcher->metrics.overruns, 1);
        stream_put_overrun(stream, from);
    }
}

void stream_catch_up(struct http_stream *stream)
{
    if (watcher_over_budget(&stream->client) || atomic_load(&stream->overrun) ||
        !finds_room(stream->client.watcher)) {
        return; /* The next try comes after WATCHER_RETRY_MS, or when the library asks for more. */
    }

    struct watch *watch = stream_watch(stream);
    struct subscribe_result result = {.resumed = SUBSCRIBE_REPLAYED};
    zxid_t from = stream->from;

    ASSERT(stream->held && watch);
    gather_begin(stream);
    stream->held = false;

    enum err err = subscribe_catch_up(stream->client.watcher->subscriber, watch, from, &result);

    gather_end(stream, &result);
    if (err != ERR_OK || stream->crowded) { /* A snapshot is being installed, or no room is left. */
        watch_hold(stream_watch(stream));
        stream->held = true;
        stream->from = from;
        stream->group = 0;
        return;
    }
    put_notice(stream, &result, from);
    stream_put_gathered(stream);
    if (!stream->held) {
        stream->behind_ms = 0;
    }
}

void stream_on_lost(struct watcher_client *client, zxid_t from)
{
    struct http_stream *stream = stream_of(client);
    struct watch *watch = NULL;

    if (stream->state != STREAM_OPEN) {
        return;
    }
    stream->ask_session = stream->session != 0;
    watcher_due(client);
    watch = stream_watch(stream);
    if (watch && !stream->held) {
        stream_hold(stream, watch, max_u64(from, watch->start) + 1);
    }
}

/* ---- Open ---- */

static enum err try_add(struct http_stream *stream, struct subscribe_result *ret_result)
{
    struct subscriber *subscriber = stream->client.watcher->subscriber;
    enum err err = ERR_REPLICA_BEHIND;

    gather_begin(stream);
    if (subscribe_pump(subscriber, ZXID_MAX, SIZE_MAX) >= stream->least) {
        err = subscribe_add(subscriber, &stream->client.owner, &stream->request, ret_result);
    }
    gather_end(stream, ret_result);
    if (err == ERR_OK && stream->crowded) {
        err = ERR_THROTTLED;
    }
    if (err != ERR_OK) {
        pieces_release(&stream->client.watcher->gather);
    }
    return err;
}

void stream_answer(struct http_stream *stream, enum err err)
{
    stream->err = err;
    if (err != ERR_OK) {
        stream->state = STREAM_ENDED;
        stream->limit_ms = UINT64_MAX;
        watch_owner_release(subscribe_table(stream->client.watcher->subscriber),
                            &stream->client.owner);
    }
    http_resume(stream->http, stream->mhd);
}

static void open(struct http_stream *stream, const struct subscribe_result *result)
{
    struct http_watcher *watcher = stream->client.watcher;

    stream->state = STREAM_OPEN;
    stream->watch = result->id;
    stream->zxid = result->zxid;
    stream->beat_ms = watcher->now_ms + stream->beat_every_ms;
    watcher_ask_by(watcher, stream->beat_ms);
    metric_add(&watcher->metrics.streams, 1);
    if (stream->session != 0) {
        watcher_listen(&stream->client);
    }
    stream_put_hello(stream, result);
    stream_put_gathered(stream);
}

/* Looks up the session. If the stream keeps the session alive, its heartbeats become frequent
 * enough for the timeout of the session. */
static enum err enter_session(struct http_stream *stream)
{
    struct op_session_info info;
    enum err err = stream_find_session(stream, &info);

    if (err != ERR_OK) {
        return err == ERR_UNKNOWN_SESSION ? ERR_SESSION_EXPIRED : err;
    }
    if (stream->keeps_session && info.timeout_ms / SESSION_BEATS < stream->beat_every_ms) {
        stream->beat_every_ms = info.timeout_ms / SESSION_BEATS;
    }
    return ERR_OK;
}

void stream_try_open(struct http_stream *stream)
{
    if (stream->request.has_since && watcher_over_budget(&stream->client)) {
        return;
    }

    struct http_watcher *watcher = stream->client.watcher;
    struct subscribe_result result = {.resumed = SUBSCRIBE_FRESH};
    enum err err = try_add(stream, &result);

    if (err == ERR_REPLICA_BEHIND && watcher->now_ms < stream->limit_ms) {
        watcher_ask_by(watcher, watcher->now_ms + WATCHER_RETRY_MS);
        return;
    }
    if (err == ERR_OK && stream->session != 0) {
        err = enter_session(stream);
    }
    if (err == ERR_OK) {
        open(stream, &result);
    }
    pieces_release(&watcher->gather);
    stream_answer(stream, err);
}

void stream_begin(struct http_stream *stream)
{
    if (!watcher_add(&stream->client) || stream->client.watcher->ended) {
        stream_answer(stream, ERR_NOT_READY);
    } else {
        stream_try_open(stream);
    }
}
