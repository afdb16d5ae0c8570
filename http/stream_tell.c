/* The watcher's side of a stream: its queue, its calls, heartbeats and its end. What is told of
 * changes is in stream_missed.c. */
#include "base/check.h"
#include "base/os_clock.h"
#include "http/stream.h"

enum {
    EXCUSES_MAX = 4 /* Times the patience with a client that takes nothing, at most. */
};

/* ---- The queue. ---- */

static void begin_put(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    if (stream->queue.bytes == 0) {
        stream->moved_ms = os_now_ms();
    }
}

static void end_put(struct http_stream *stream)
{
    pthread_mutex_unlock(&stream->mutex);
    watcher_due(&stream->client);
}

void stream_put(struct http_stream *stream, enum piece_kind kind, struct slice bytes)
{
    begin_put(stream);
    pieces_put_tagged(&stream->queue, &(struct piece_tag){.kind = kind}, &bytes, 1, NULL, 0);
    end_put(stream);
}

void stream_put_shared(struct http_stream *stream, const struct piece_tag *tag, struct blob *frame)
{
    struct slice small = blob_slice(frame);

    begin_put(stream);
    if (frame->len < PIECES_SHARE_BYTES) {
        pieces_put_tagged(&stream->queue, tag, &small, 1, NULL, 0);
    } else {
        pieces_put_tagged(&stream->queue, tag, NULL, 0, frame, 0);
    }
    end_put(stream);
}

void stream_put_gathered(struct http_stream *stream)
{
    begin_put(stream);
    pieces_move(&stream->queue, &stream->client.watcher->gather);
    end_put(stream);
}

static size_t queued(struct http_stream *stream, uint64_t *ret_moved_ms)
{
    pthread_mutex_lock(&stream->mutex);

    size_t len = stream->queue.bytes;

    *ret_moved_ms = stream->moved_ms;
    pthread_mutex_unlock(&stream->mutex);
    return len;
}

size_t stream_queue_len(struct http_stream *stream)
{
    uint64_t moved_ms = 0;

    return queued(stream, &moved_ms);
}

bool stream_is_overrun(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);

    bool overrun = stream->overrun;

    pthread_mutex_unlock(&stream->mutex);
    return overrun;
}

/* The library looks again. */
static void resume(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);

    bool news = stream->queue.bytes > 0 || stream->ended || stream->broken;

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
    stream->ended_ms = watcher->now_ms;
    stream->limit_ms = watcher->now_ms + stream->http->limits->slow_timeout_ms;
    watcher_ask_by(watcher, stream->limit_ms);
    watch_owner_release(subscribe_table(watcher->subscriber), &stream->client.owner);
    atomic_fetch_sub_explicit(&watcher->metrics.streams.value, 1, memory_order_relaxed);
    pthread_mutex_lock(&stream->mutex);
    stream->ended = true;
    pthread_mutex_unlock(&stream->mutex);
    watcher_due(&stream->client);
}

void stream_cut_off(struct http_stream *stream)
{
    end(stream);
    pthread_mutex_lock(&stream->mutex);
    pieces_release(&stream->queue);
    pthread_mutex_unlock(&stream->mutex);
    break_off(stream);
}

static void put_closing(struct http_stream *stream, const char *reason)
{
    struct buf out;

    buf_init(&out, SIZE_MAX / 2);
    stream_put_closing(stream, &out, reason);
    stream_put(stream, PIECE_FIXED, buf_slice(&out));
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
    stream_put(stream, PIECE_FIXED, buf_slice(&out));
    buf_release(&out);
    end(stream);
}

/* ---- Changes. ---- */

static void on_change(struct watcher_client *client, zxid_t zxid, const struct change *change)
{
    struct http_stream *stream = stream_of(client);

    if (change->type == TXN_SESSION_CLOSE && change->session == stream->session) {
        stream->session_end = change->expired ? "expired" : "closed";
        stream->session_end_zxid = zxid;
        watcher_due(client);
    }
}

/* ---- Called. ---- */

/* How a session that is not there has ended nobody can say: it is told as the word for a refusal
 * has it, SessionExpired, on WebSockets, too. */
static void ask_session(struct http_stream *stream)
{
    struct op_session_info info;

    stream->ask_session = false;
    if (stream_find_session(stream, &info) == ERR_UNKNOWN_SESSION) {
        stream->session_end = "expired";
        stream->session_end_zxid = subscribe_at(stream->client.watcher->subscriber);
    }
}

static void serve(struct http_stream *stream)
{
    if (stream->place == STREAM_OPENING) {
        stream_try_open(stream);
    }
    if (stream->place == STREAM_OPEN && stream->ask_session) {
        ask_session(stream);
    }
    if (stream->place == STREAM_OPEN && stream->held && stream_queue_len(stream) == 0) {
        stream_catch_up(stream);
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

    if (calls & WATCHER_GONE) {
        end(stream);
        watcher_remove(client);
        http_stream_free(stream);
    } else if (calls & WATCHER_BEGIN) {
        stream_begin(stream);
    } else {
        serve(stream);
    }
}

static void on_hangup(struct watcher_client *client)
{
    struct http_stream *stream = stream_of(client);
    bool opening = stream->place == STREAM_OPENING;

    end(stream);
    break_off(stream);
    if (opening) {
        stream_answer(stream, ERR_CLOSED);
    }
}

static void on_end(struct watcher_client *client, enum watcher_end why)
{
    struct http_stream *stream = stream_of(client);

    if (stream->place == STREAM_OPENING) {
        stream_answer(stream, ERR_NOT_READY);
    } else {
        end_because(stream, why == WATCHER_DRAIN ? "drain" : "cut-off");
    }
}

/* ---- Time. ---- */

/* The client has asked for it: its session is alive as long as its kernel takes in what is sent,
 * which a process that is frozen does not prevent. */
static void touch(struct http_stream *stream)
{
    if (stream->keeps_session && stream->session != 0 &&
        loop_is_read(stream->client.hangup.fd, &stream->acked)) {
        gate_touch(stream->http->gate, stream->session);
    }
}

static void beat(struct http_stream *stream)
{
    struct http_watcher *watcher = stream->client.watcher;
    struct buf out;

    buf_init(&out, SIZE_MAX / 2);
    stream_put_heartbeat(stream, &out,
                         stream->held ? stream->from : subscribe_at(watcher->subscriber));
    stream_put(stream, PIECE_BEAT, buf_slice(&out));
    buf_release(&out);
}

/* When whoever has taken nothing since then has been slow for too long. After a time in which this
 * process stood still, and sent nothing itself, it begins anew; but one that stands still again and
 * again does not keep for ever what nobody takes. */
static uint64_t slow_at(const struct http_stream *stream, uint64_t since_ms)
{
    uint64_t limit_ms = stream->http->limits->slow_timeout_ms;
    uint64_t stood_ms = stream->client.watcher->stood_ms;
    uint64_t last_ms = since_ms + (EXCUSES_MAX - 1) * limit_ms;

    stood_ms = stood_ms < last_ms ? stood_ms : last_ms;
    return (since_ms > stood_ms ? since_ms : stood_ms) + limit_ms;
}

static bool is_slow(struct http_stream *stream, uint64_t now_ms, size_t len, uint64_t moved_ms)
{
    bool stuck = len > 0 && now_ms > slow_at(stream, moved_ms);
    bool behind = stream->behind_ms != 0 && now_ms > slow_at(stream, stream->behind_ms);

    return stuck || behind;
}

static uint64_t open_time(struct http_stream *stream, uint64_t now_ms)
{
    uint64_t moved_ms = 0;
    size_t len = queued(stream, &moved_ms);

    if (is_slow(stream, now_ms, len, moved_ms)) {
        metric_add(&stream->client.watcher->metrics.slow, 1);
        end_because(stream, "slow");
        return stream->limit_ms;
    }
    if (now_ms >= stream->beat_ms) {
        stream->beat_ms = now_ms + stream->beat_every_ms;
        touch(stream);
        if (len == 0) {
            beat(stream);
        }
    }
    if (stream->held) {
        watcher_due(&stream->client);
        return now_ms + WATCHER_RETRY_MS;
    }
    if (len > 0 && slow_at(stream, moved_ms) < stream->beat_ms) {
        return slow_at(stream, moved_ms) + 1;
    }
    return stream->beat_ms;
}

static uint64_t on_time(struct watcher_client *client, uint64_t now_ms)
{
    struct http_stream *stream = stream_of(client);

    switch (stream->place) {
    case STREAM_OPENING:
        stream_try_open(stream);
        return now_ms + WATCHER_RETRY_MS;
    case STREAM_OPEN:
        return open_time(stream, now_ms);
    case STREAM_ENDED:
        break;
    }
    if (now_ms == client->watcher->stood_ms && stream->limit_ms != UINT64_MAX) {
        stream->limit_ms = slow_at(stream, stream->ended_ms);
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
    .on_event = stream_on_event,
    .on_change = on_change,
    .on_lost = stream_on_lost,
    .on_due = on_due,
    .on_hangup = on_hangup,
    .on_end = on_end,
    .on_time = on_time,
};
