/* The watcher's side of a stream: changes, heartbeats and the end into its queue. */
#include "base/check.h"
#include "base/os_clock.h"
#include "http/stream.h"

enum {
    SESSION_BEATS = 3 /* Heartbeats in the time-out of a session. */
};

/* ---- The queue. ---- */

static void put(struct http_stream *stream, struct slice bytes)
{
    pthread_mutex_lock(&stream->mutex);
    if (stream->queue.len == 0) {
        stream->moved_ms = os_now_ms();
    }
    buf_append_slice(&stream->queue, bytes);
    pthread_mutex_unlock(&stream->mutex);
    watcher_due(&stream->client);
}

static size_t queued(struct http_stream *stream, uint64_t *ret_moved_ms)
{
    pthread_mutex_lock(&stream->mutex);

    size_t len = stream->queue.len - stream->read_at;

    *ret_moved_ms = stream->moved_ms;
    pthread_mutex_unlock(&stream->mutex);
    return len;
}

static size_t queue_len(struct http_stream *stream)
{
    uint64_t moved_ms = 0;

    return queued(stream, &moved_ms);
}

/* The library looks again. */
static void resume(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);

    bool news = stream->queue.len > 0 || stream->ended || stream->broken;

    if (stream->parked && news) {
        stream->parked = false;
        MHD_resume_connection(stream->mhd);
    }
    pthread_mutex_unlock(&stream->mutex);
}

/* Nobody is at the other end, or nobody who reads. */
static void break_off(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    stream->broken = true;
    pthread_mutex_unlock(&stream->mutex);
    if (stream->client.hangup.fd >= 0) {
        loop_shutdown(stream->client.hangup.fd);
    }
    resume(stream);
}

/* ---- The end. ---- */

/* No watch and no heartbeat any more; what is in the queue may be read for a while. */
static void end(struct http_stream *stream)
{
    struct http_watcher *watcher = stream->client.watcher;

    if (stream->place != STREAM_OPEN) {
        return;
    }
    stream->place = STREAM_ENDED;
    stream->held = false;
    stream->limit_ms = watcher->now_ms + stream->http->limits->slow_timeout_ms;
    watcher_ask_by(watcher, stream->limit_ms);
    watch_owner_release(subscribe_table(watcher->subscriber), &stream->client.owner);
    atomic_fetch_sub_explicit(&watcher->metrics.streams.value, 1, memory_order_relaxed);
    pthread_mutex_lock(&stream->mutex);
    stream->ended = true;
    pthread_mutex_unlock(&stream->mutex);
    watcher_due(&stream->client);
}

static void put_closing(struct http_stream *stream, const char *reason)
{
    struct buf out;

    buf_init(&out, SIZE_MAX / 2);
    stream_put_closing(stream, &out, reason);
    put(stream, buf_slice(&out));
    buf_release(&out);
}

static void end_because(struct http_stream *stream, const char *reason)
{
    if (stream->place == STREAM_OPEN) {
        put_closing(stream, reason);
        end(stream);
    }
}

static void end_session(struct http_stream *stream)
{
    struct buf out;

    if (stream->place != STREAM_OPEN) {
        return;
    }
    buf_init(&out, SIZE_MAX / 2);
    stream_put_session(stream, &out);
    put(stream, buf_slice(&out));
    buf_release(&out);
    end(stream);
}

/* Its end, if it comes later than this look, will be among the changes. */
static enum err find_session(const struct http_stream *stream, struct op_session_info *ret_info)
{
    const struct op_session session = {.shown = true, .id = stream->session};

    return view_find_session(gate_view(stream->http->gate), &session, ret_info);
}

/* ---- Changes. ---- */

static bool is_one_shot(const struct http_stream *stream)
{
    return watch_is_one_shot(stream->request.kind);
}

/* Events from this one on stay in the window. */
static void hold(struct http_stream *stream, struct watch *watch, zxid_t zxid)
{
    watch_hold(watch);
    stream->held = true;
    stream->from = zxid - 1;
    stream->group = 0;
    if (stream->behind_ms == 0) {
        stream->behind_ms = os_now_ms();
    }
    pthread_mutex_lock(&stream->mutex);
    stream->wants_room = true;
    pthread_mutex_unlock(&stream->mutex);
    watcher_due(&stream->client); /* The queue may be empty by now. */
}

static void told(struct http_stream *stream, const struct watch_event *event)
{
    metric_add(&stream->client.watcher->metrics.events, 1);
    stream->group = event->last ? 0 : event->zxid;
    if (event->last && is_one_shot(stream)) {
        stream->finished = true;
        watcher_due(&stream->client);
    }
}

/* A full queue is looked at between transactions only: each is told as a whole. */
static bool is_full(const struct http_stream *stream, const struct watch_event *event, size_t len)
{
    return len >= stream->http->limits->socket_queue_bytes_max && stream->group != event->zxid &&
           !is_one_shot(stream);
}

/* What it has missed goes to the watcher's own buffer, because the frame that says how it was made
 * up comes first. A difference is of use only as a whole. */
static void gather(struct http_stream *stream, struct watch *watch, const struct watch_event *event)
{
    struct buf *out = &stream->client.watcher->gather;
    size_t max = stream->http->limits->socket_queue_bytes_max;

    if (event->diff && (stream->cut || (out->len >= max && !is_one_shot(stream)))) {
        stream->cut = true;
    } else if (!event->diff && is_full(stream, event, out->len)) {
        hold(stream, watch, event->zxid);
    } else {
        stream_put_event(stream, out, event);
        told(stream, event);
    }
}

static void on_event(struct watcher_client *client, struct watch *hits,
                     const struct watch_event *event)
{
    struct http_stream *stream = stream_of(client);

    if (client->watcher->gatherer == client) {
        gather(stream, hits, event);
    } else if (is_full(stream, event, queue_len(stream))) {
        hold(stream, hits, event->zxid);
    } else {
        put(stream, stream_event_frame(stream, event));
        told(stream, event);
    }
}

static void on_change(struct watcher_client *client, zxid_t zxid, const struct change *change)
{
    struct http_stream *stream = stream_of(client);

    if (change->type == TXN_SESSION_CLOSE && change->session == stream->session) {
        stream->session_end = change->expired ? "expired" : "closed";
        stream->session_end_zxid = zxid;
        watcher_due(client);
    }
}

/* ---- What it has missed. ---- */

static void gather_begin(struct http_stream *stream)
{
    buf_clear(&stream->client.watcher->gather);
    stream->client.watcher->gatherer = &stream->client;
    stream->cut = false;
}

/* A difference that is too large is none. */
static void gather_end(struct http_stream *stream, struct subscribe_result *result)
{
    struct http_watcher *watcher = stream->client.watcher;

    watcher->gatherer = NULL;
    if (stream->cut) {
        buf_clear(&watcher->gather);
        result->resumed = SUBSCRIBE_GAP;
        stream->group = 0;
    }
    if (result->resumed == SUBSCRIBE_GAP) {
        metric_add(&watcher->metrics.gaps, 1);
    }
}

static void put_gathered(struct http_stream *stream)
{
    struct buf *gathered = &stream->client.watcher->gather;

    put(stream, buf_slice(gathered));
    if (gathered->cap > STREAM_KEEP_BYTES) {
        buf_release(gathered);
        buf_init(gathered, SIZE_MAX / 2);
    }
}

/* Says that not each change is told one by one. */
static void put_notice(struct http_stream *stream, const struct subscribe_result *result,
                       zxid_t from)
{
    struct buf out;

    buf_init(&out, SIZE_MAX / 2);
    if (result->resumed == SUBSCRIBE_GAP) {
        stream_put_gap(stream, &out, result->zxid);
    } else if (result->resumed == SUBSCRIBE_DIFFED) {
        metric_add(&stream->client.watcher->metrics.overruns, 1);
        stream_put_overrun(stream, &out, from);
    }
    put(stream, buf_slice(&out));
    buf_release(&out);
}

static void catch_up(struct http_stream *stream)
{
    struct subscriber *subscriber = stream->client.watcher->subscriber;
    struct watch *watch =
        watch_by_id(subscribe_table(subscriber), &stream->client.owner, stream->watch);
    struct subscribe_result result = {.resumed = SUBSCRIBE_REPLAYED};
    zxid_t from = stream->from;

    ASSERT(stream->held && watch);
    gather_begin(stream);
    stream->held = false;

    enum err err = subscribe_catch_up(subscriber, watch, from, &result);

    gather_end(stream, &result);
    if (err != ERR_OK) {
        stream->held = true; /* The state is not whole yet. */
        return;
    }
    put_notice(stream, &result, from);
    put_gathered(stream);
    if (!stream->held) {
        stream->behind_ms = 0;
    }
}

static void on_lost(struct watcher_client *client, zxid_t from)
{
    struct http_stream *stream = stream_of(client);
    struct watch *watch = NULL;

    if (stream->place != STREAM_OPEN) {
        return;
    }
    stream->ask_session = stream->session != 0;
    watcher_due(client);
    watch =
        watch_by_id(subscribe_table(client->watcher->subscriber), &client->owner, stream->watch);
    if (watch && !stream->held) {
        hold(stream, watch, (from > watch->start ? from : watch->start) + 1);
    }
}

/* ---- Begin. ---- */

static enum err try_add(struct http_stream *stream, struct subscribe_result *ret_result)
{
    struct subscriber *subscriber = stream->client.watcher->subscriber;
    enum err err = ERR_REPLICA_BEHIND;

    gather_begin(stream);
    if (subscribe_pump(subscriber, ZXID_MAX, SIZE_MAX) >= stream->least) {
        err = subscribe_add(subscriber, &stream->client.owner, &stream->request, ret_result);
    }
    gather_end(stream, ret_result);
    return err;
}

/* Gives the connection back to the library, which asks http_stream_opened. */
static void answer(struct http_stream *stream, enum err err)
{
    struct http *http = stream->http;

    stream->err = err;
    if (err != ERR_OK) {
        stream->place = STREAM_ENDED;
        stream->limit_ms = UINT64_MAX;
        watch_owner_release(subscribe_table(stream->client.watcher->subscriber),
                            &stream->client.owner);
    }
    MHD_resume_connection(stream->mhd);
    http_suspended_drop(http);
}

static void open(struct http_stream *stream, const struct subscribe_result *result)
{
    struct http_watcher *watcher = stream->client.watcher;
    struct buf hello;

    stream->place = STREAM_OPEN;
    stream->watch = result->id;
    stream->zxid = result->zxid;
    stream->beat_ms = watcher->now_ms + stream->beat_every_ms;
    watcher_ask_by(watcher, stream->beat_ms);
    metric_add(&watcher->metrics.streams, 1);
    if (stream->session != 0) {
        watcher_listen(&stream->client);
    }
    buf_init(&hello, SIZE_MAX / 2);
    stream_put_hello(stream, &hello, result);
    put(stream, buf_slice(&hello));
    buf_release(&hello);
    put_gathered(stream);
}

/* It must be heard of often enough. */
static enum err enter_session(struct http_stream *stream)
{
    struct op_session_info info;
    enum err err = find_session(stream, &info);

    if (err != ERR_OK) {
        return err == ERR_UNKNOWN_SESSION ? ERR_SESSION_EXPIRED : err;
    }
    if (info.timeout_ms / SESSION_BEATS < stream->beat_every_ms) {
        stream->beat_every_ms = info.timeout_ms / SESSION_BEATS;
    }
    return ERR_OK;
}

static void try_open(struct http_stream *stream)
{
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
    answer(stream, err);
}

static void begin(struct http_stream *stream)
{
    if (!watcher_add(&stream->client, stream->fd)) {
        answer(stream, ERR_NOT_READY);
    } else if (stream->client.watcher->ended) {
        answer(stream, ERR_NOT_READY);
    } else {
        try_open(stream);
    }
}

/* ---- Called. ---- */

static void ask_session(struct http_stream *stream)
{
    struct op_session_info info;

    stream->ask_session = false;
    if (find_session(stream, &info) == ERR_UNKNOWN_SESSION) {
        stream->session_end = "closed";
        stream->session_end_zxid = subscribe_at(stream->client.watcher->subscriber);
    }
}

static void serve(struct http_stream *stream)
{
    if (stream->place == STREAM_OPEN && stream->ask_session) {
        ask_session(stream);
    }
    if (stream->place == STREAM_OPEN && stream->held && queue_len(stream) == 0) {
        catch_up(stream);
    }
    if (stream->session_end) {
        end_session(stream);
    }
    if (stream->finished) {
        end(stream);
    }
    resume(stream);
}

static void on_due(struct watcher_client *client)
{
    serve(stream_of(client));
}

static void on_call(struct watcher_client *client, uint32_t calls)
{
    struct http_stream *stream = stream_of(client);

    if (calls & WATCHER_BEGIN) {
        begin(stream);
    }
    if (calls & WATCHER_GONE) {
        end(stream);
        watcher_remove(client);
        http_stream_free(stream);
    } else {
        serve(stream);
    }
}

static void on_hangup(struct watcher_client *client)
{
    struct http_stream *stream = stream_of(client);
    bool opening = stream->place == STREAM_OPENING;

    loop_modify(&client->watcher->loop, &client->hangup, 0);
    end(stream);
    break_off(stream);
    if (opening) {
        answer(stream, ERR_CLOSED);
    }
}

static void on_end(struct watcher_client *client, enum watcher_end why)
{
    struct http_stream *stream = stream_of(client);

    if (stream->place == STREAM_OPENING) {
        answer(stream, ERR_NOT_READY);
    } else {
        end_because(stream, why == WATCHER_DRAIN ? "drain" : "cut-off");
    }
}

/* ---- Time. ---- */

/* A session is alive as long as its client's kernel acknowledges what is sent. */
static void beat(struct http_stream *stream)
{
    struct http_watcher *watcher = stream->client.watcher;
    struct buf out;

    if (stream->session != 0 && loop_all_acked(stream->client.hangup.fd)) {
        gate_touch(stream->http->gate, stream->session);
    }
    buf_init(&out, SIZE_MAX / 2);
    stream_put_heartbeat(stream, &out,
                         stream->held ? stream->from : subscribe_at(watcher->subscriber));
    put(stream, buf_slice(&out));
    buf_release(&out);
}

static bool is_slow(struct http_stream *stream, uint64_t now_ms, size_t len, uint64_t moved_ms)
{
    uint64_t limit_ms = stream->http->limits->slow_timeout_ms;
    bool stuck = len > 0 && now_ms > moved_ms + limit_ms;
    bool behind = stream->behind_ms != 0 && now_ms > stream->behind_ms + limit_ms;

    return stuck || behind;
}

static uint64_t open_time(struct http_stream *stream, uint64_t now_ms)
{
    uint64_t moved_ms = 0;
    size_t len = queued(stream, &moved_ms);
    uint64_t slow_ms = stream->http->limits->slow_timeout_ms;

    if (is_slow(stream, now_ms, len, moved_ms)) {
        metric_add(&stream->client.watcher->metrics.slow, 1);
        end_because(stream, "slow");
        return stream->limit_ms;
    }
    if (now_ms >= stream->beat_ms) {
        stream->beat_ms = now_ms + stream->beat_every_ms;
        if (len == 0) {
            beat(stream);
        }
    }
    if (stream->held) {
        watcher_due(&stream->client);
        return now_ms + WATCHER_RETRY_MS;
    }
    if (len > 0 && moved_ms + slow_ms < stream->beat_ms) {
        return moved_ms + slow_ms + 1;
    }
    return stream->beat_ms;
}

static uint64_t on_time(struct watcher_client *client, uint64_t now_ms)
{
    struct http_stream *stream = stream_of(client);

    switch (stream->place) {
    case STREAM_OPENING:
        try_open(stream);
        return now_ms + WATCHER_RETRY_MS;
    case STREAM_OPEN:
        return open_time(stream, now_ms);
    case STREAM_ENDED:
        break;
    }
    if (now_ms < stream->limit_ms) {
        return stream->limit_ms;
    }
    break_off(stream); /* Its last words are of no interest to anybody. */
    stream->limit_ms = UINT64_MAX;
    return UINT64_MAX;
}

const struct watcher_ops stream_ops = {
    .on_call = on_call,
    .on_event = on_event,
    .on_change = on_change,
    .on_lost = on_lost,
    .on_due = on_due,
    .on_hangup = on_hangup,
    .on_end = on_end,
    .on_time = on_time,
};
