/* The watcher's side of a stream: calls, heartbeats, time limits and its end. Changes are in
 * stream_changes.c. */
#include "base/mem.h"
#include "base/minmax.h"
#include "http/stream.h"

enum {
    EXCUSES_MAX = 4 /* slowTimeout is extended this many times at most. */
};

/* ---- The end ---- */

static void end_because(struct http_stream *stream, const char *reason)
{
    if (stream->state == STREAM_OPEN) {
        stream_put_closing(stream, reason);
        stream_end(stream);
    }
}

static void end_session(struct http_stream *stream)
{
    if (stream->state == STREAM_OPEN) {
        stream_put_session(stream);
        stream_end(stream);
    }
}

/* ---- Changes ---- */

static void on_change(struct watcher_client *client, zxid_t zxid, const struct change *change)
{
    struct http_stream *stream = stream_of(client);

    if (change->type == TXN_SESSION_CLOSE && change->session == stream->session) {
        stream->session_end = change->expired ? "expired" : "closed";
        stream->session_end_zxid = zxid;
        watcher_due(client);
    }
}

/* ---- Calls ---- */

/* It is not known how a missing session ended. It is reported as expired, like the error
 * SessionExpired; WebSockets do the same. */
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
    if (stream->state == STREAM_OPENING) {
        stream_try_open(stream);
    }
    if (stream->state == STREAM_OPEN && stream->ask_session) {
        ask_session(stream);
    }
    if (stream->state == STREAM_OPEN && stream->held && stream_queued(stream, NULL) == 0) {
        stream_catch_up(stream);
    }
    if (stream->session_end) {
        end_session(stream);
    }
    if (stream->finished) {
        stream_end(stream);
    }
    stream_resume(stream);
}

static void on_due(struct watcher_client *client)
{
    serve(stream_of(client));
}

static void stream_free(struct http_stream *stream)
{
    watcher_client_release(&stream->client);
    buf_release(&stream->path);
    pieces_release(&stream->queue);
    pthread_mutex_destroy(&stream->mutex);
    mem_free(stream);
}

static void on_call(struct watcher_client *client, uint32_t calls)
{
    struct http_stream *stream = stream_of(client);

    if (calls & WATCHER_GONE) {
        stream_end(stream);
        watcher_remove(client);
        stream_free(stream);
    } else if (calls & WATCHER_BEGIN) {
        stream_begin(stream);
    } else {
        serve(stream);
    }
}

static void on_hangup(struct watcher_client *client)
{
    struct http_stream *stream = stream_of(client);
    bool opening = stream->state == STREAM_OPENING;

    stream_end(stream);
    stream_break_off(stream);
    if (opening) {
        stream_answer(stream, ERR_CLOSED);
    }
}

static void on_end(struct watcher_client *client, enum watcher_end why)
{
    struct http_stream *stream = stream_of(client);

    if (stream->state == STREAM_OPENING) {
        stream_answer(stream, ERR_NOT_READY);
    } else {
        end_because(stream, why == WATCHER_DRAIN ? "drain" : "cut-off");
    }
}

/* ---- Time ---- */

/* With keepSession the session stays alive as long as the client's kernel acknowledges what is
 * sent, which it also does for a frozen process. */
static void touch(struct http_stream *stream)
{
    if (stream->keeps_session && stream->session != 0 &&
        loop_is_read(stream->client.hangup.fd, &stream->acked)) {
        gate_touch(stream->http->gate, stream->session);
    }
}

/* When a client that has taken nothing since `since_ms` counts as slow. After a stall of this
 * process, which sent nothing meanwhile, the time starts again; but not for ever, if the process
 * stalls again and again. */
static uint64_t slow_at(const struct http_stream *stream, uint64_t since_ms)
{
    uint64_t limit_ms = stream->http->limits->slow_timeout_ms;
    uint64_t stalled_ms = stream->client.watcher->stalled_ms;
    uint64_t last_ms = since_ms + (EXCUSES_MAX - 1) * limit_ms;

    stalled_ms = min_u64(stalled_ms, last_ms);
    return max_u64(since_ms, stalled_ms) + limit_ms;
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
    size_t len = stream_queued(stream, &moved_ms);

    if (is_slow(stream, now_ms, len, moved_ms)) {
        metric_add(&stream->client.watcher->metrics.slow, 1);
        end_because(stream, "slow");
        return stream->limit_ms;
    }
    if (now_ms >= stream->beat_ms) {
        stream->beat_ms = now_ms + stream->beat_every_ms;
        touch(stream);
        if (len == 0) {
            stream_put_heartbeat(stream, stream->held
                                             ? stream->from
                                             : subscribe_at(stream->client.watcher->subscriber));
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

    switch (stream->state) {
    case STREAM_OPENING:
        stream_try_open(stream);
        return now_ms + WATCHER_RETRY_MS;
    case STREAM_OPEN:
        return open_time(stream, now_ms);
    case STREAM_ENDED:
        break;
    }
    if (now_ms == client->watcher->stalled_ms && stream->limit_ms != UINT64_MAX) {
        stream->limit_ms = slow_at(stream, stream->ended_ms);
    }
    if (now_ms < stream->limit_ms) {
        return stream->limit_ms;
    }
    stream_break_off(stream); /* The client has not read the last frames in time. */
    stream->limit_ms = UINT64_MAX;
    return UINT64_MAX;
}

const struct watcher_ops stream_ops = {
    .is_stream = true,
    .on_call = on_call,
    .on_event = stream_on_event,
    .on_change = on_change,
    .on_lost = stream_on_lost,
    .on_due = on_due,
    .on_hangup = on_hangup,
    .on_end = on_end,
    .on_time = on_time,
};
