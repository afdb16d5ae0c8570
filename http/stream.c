/*
 * A stream. The threads of libmicrohttpd ("the library") begin a stream, answer the request, and
 * take bytes from the queue. The watcher's thread handles calls, heartbeats, time limits and the
 * end of the stream; changes are in stream_changes.c.
 */
#include "http/stream.h"

/* ---- The watcher's thread ---- */

enum {
    EXCUSES_MAX = 4,      /* After stalls, a client has this many times slowTimeout at most. */
    RESPONSE_BLOCK = 1024 /* The library uses it for HTTP/1.0 only. */
};

static void end_because(struct http_stream *stream, const char *reason)
{
    if (stream->state == STREAM_OPEN) {
        stream_put_closing(stream, reason);
        stream_end(stream);
    }
}

static void on_change(struct watcher_client *client, zxid_t zxid, const struct state_change *change)
{
    struct http_stream *stream = stream_of(client);

    if (change->type == TXN_SESSION_CLOSE && change->session == stream->session) {
        stream->session_end = change->expired ? "expired" : "closed";
        stream->session_end_zxid = zxid;
        watcher_due(client);
    }
}

/* Looks up whether the session still exists. How a missing session ended is unknown; the stream
 * reports the session as expired, as a WebSocket and the error SessionExpired do. */
static void ask_session(struct http_stream *stream)
{
    struct op_session_info info;
    enum err err = stream_find_session(stream, &info);

    stream->ask_session = err == ERR_NOT_READY; /* Then open_time tries again. */
    if (err == ERR_UNKNOWN_SESSION) {
        stream->session_end = "expired";
        stream->session_end_zxid = subscribe_at(stream->client.watcher->subscriber);
    }
}

static void on_due(struct watcher_client *client)
{
    struct http_stream *stream = stream_of(client);

    if (stream->state == STREAM_OPENING) {
        stream_try_open(stream);
    }
    if (stream->state == STREAM_OPEN && stream->ask_session) {
        ask_session(stream);
    }
    if (stream->state == STREAM_OPEN && stream->held && stream_queued(stream, NULL) == 0) {
        stream_catch_up(stream);
    }
    if (stream->state == STREAM_OPEN && stream->session_end) {
        stream_put_session(stream);
    }
    if (stream->session_end || stream->finished) {
        stream_end(stream);
    }
    stream_resume(stream);
}

static void on_call(struct watcher_client *client, uint32_t calls)
{
    struct http_stream *stream = stream_of(client);

    if (calls & WATCHER_GONE) {
        stream_end(stream);
        watcher_remove(client);
        watcher_client_release(client);
        buf_release(&stream->path);
        pieces_release(&stream->queue);
        pthread_mutex_destroy(&stream->mutex);
        mem_free(stream);
    } else if (calls & WATCHER_BEGIN) {
        stream_begin(stream);
    } else {
        on_due(client);
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

/* Keeps the session alive (keepSession), as long as the client's kernel acknowledges what is sent.
 * The kernel does that even while the client's process is frozen. */
static void touch(struct http_stream *stream)
{
    if (stream->keeps_session && stream->session != 0 &&
        loop_is_read(stream->client.hangup.fd, &stream->acked)) {
        gate_touch(stream->http->gate, stream->session);
    }
}

/* Returns when a client that has taken nothing since `since_ms` counts as slow. After a stall of
 * this process, which sent nothing meanwhile, slowTimeout starts again. If the process stalls again
 * and again, the client has EXCUSES_MAX times slowTimeout at most. */
static uint64_t slow_at(const struct http_stream *stream, uint64_t since_ms)
{
    uint64_t limit_ms = stream->http->limits->slow_timeout_ms;
    uint64_t stalled_ms = stream->client.watcher->stalled_ms;
    uint64_t last_ms = since_ms + (EXCUSES_MAX - 1) * limit_ms;

    return max_u64(since_ms, min_u64(stalled_ms, last_ms)) + limit_ms;
}

static uint64_t open_time(struct http_stream *stream, uint64_t now_ms)
{
    uint64_t moved_ms = 0;
    size_t len = stream_queued(stream, &moved_ms);
    bool stuck = len > 0 && now_ms > slow_at(stream, moved_ms);
    bool behind = stream->behind_ms != 0 && now_ms > slow_at(stream, stream->behind_ms);

    if (stuck || behind) {
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
    if (stream->held || stream->ask_session) {
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
    stream_break_off(stream); /* The client has not read the last frames by `limit_ms`. */
    stream->limit_ms = UINT64_MAX;
    return UINT64_MAX;
}

static const struct watcher_ops stream_ops = {
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

/* ---- The library's threads ---- */

/* Ends the response or suspends the connection. Called with the mutex held and the queue empty. */
static ssize_t idle(struct http_stream *stream)
{
    if (stream->ended) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (stream->wants_room) {
        stream->wants_room = false;
        watcher_call(&stream->client, WATCHER_ROOM);
    }
    stream->parked = true;
    MHD_suspend_connection(stream->mhd);
    return 0;
}

/* Gives bytes to the library, which asks again when the socket has room. */
static ssize_t on_read(void *cls, uint64_t pos UNUSED, char *to, size_t max)
{
    struct http_stream *stream = cls;

    MUTEX_HOLD(&stream->mutex);
    if (stream->broken) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }

    size_t len = pieces_take(&stream->queue, to, max);

    stream->overrun = false;
    if (len == 0) {
        return idle(stream);
    }
    stream->moved_ms = os_now_ms();
    return (ssize_t)len;
}

/* Releases the stream: the response is freed, so no thread of the library uses the queue any more.
 */
static void on_free(void *cls)
{
    watcher_call(&((struct http_stream *)cls)->client, WATCHER_GONE);
}

static struct http_stream *stream_new(struct http_conn *conn)
{
    const struct http_request *request = &conn->request;
    const struct op_args *args = &request->args;
    enum watch_kind kind = args->kind ? args->kind : WATCH_PERSISTENT;
    struct http_stream *stream = mem_zalloc(1, sizeof(*stream));

    watcher_client_init(&stream->client, &stream_ops, conn);
    stream->http = conn->http;
    stream->mhd = conn->mhd;
    stream->sse = request->wants.media == HTTP_MEDIA_SSE;
    stream->format = args->values ? args->dataformat : OP_AUTO;
    stream->history = request->replica.history;
    stream->session = request->auth.session_id;
    stream->keeps_session = request->wants.keep_session;
    stream->beat_every_ms = conn->http->limits->heartbeat_ms;
    stream->limit_ms = os_now_ms() + conn->http->limits->request_timeout_ms;
    buf_init(&stream->path, SIZE_MAX / 2);
    buf_append_slice(&stream->path, args->path);
    stream->request = (struct subscribe_request){.kind = kind,
                                                 .path = buf_slice(&stream->path),
                                                 .values = args->values,
                                                 .has_since = args->has_since,
                                                 .since = args->since};
    stream->least = max_u64(request->wants.min_zxid, args->has_since ? args->since : 0);
    pieces_init(&stream->queue, gate_unsent(conn->http->gate));
    pthread_mutex_init(&stream->mutex, NULL);
    return stream;
}

/* Makes the checks that do not need the watcher. False: the request is refused. */
static bool may_begin(struct http_conn *conn)
{
    const struct http_request *request = &conn->request;
    const struct op_args *args = &request->args;

    if (http_check_serving(conn) && args->has_since_history &&
        args->since_history != request->replica.history) {
        http_refuse(
            conn, ERR_HISTORY_CHANGED,
            "the history in since= or Last-Event-ID is not that of this ensemble: read again, "
            "then watch without since=");
    }
    return !request->refused;
}

static enum MHD_Result answer_head(struct http_conn *conn, struct MHD_Response *response)
{
    bool sse = conn->request.wants.media == HTTP_MEDIA_SSE;

    http_header(response, "X-Accel-Buffering", "no");
    return http_send_lines(conn, response, sse ? "text/event-stream" : "application/x-ndjson");
}

static const char behind_text[] =
    "this replica has not yet applied the zxid of since= or Zk-Min-Zxid: retry, or use another "
    "replica";

static const char *const refusal_texts[ERR_COUNT] = {
    [ERR_REPLICA_BEHIND] = behind_text,
    [ERR_NOT_READY] = "this replica is shutting down or has no leader: use another replica",
    [ERR_THROTTLED] = "unread answers fill maxUnsentBytes: try again later, or use another replica",
};

static enum MHD_Result opened(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct http_stream *stream = request->task.data;
    struct MHD_Response *response = NULL;

    request->replica.has_status = false;
    if (stream->err == ERR_CLOSED) {
        return MHD_NO; /* The client has closed the connection. */
    }
    if (stream->err != ERR_OK) {
        const char *text = refusal_texts[stream->err];

        http_refuse(conn, stream->err, "%s", text ? text : err_text(stream->err));
        return http_answer_fault(conn);
    }
    request->answer.zxid = stream->zxid;
    request->task = (struct http_task){.ops = NULL}; /* The response owns the stream now. */
    request->answer.is_endless = true;
    response = http_response_pulled(MHD_SIZE_UNKNOWN, RESPONSE_BLOCK, on_read, stream, on_free);
    return answer_head(conn, response);
}

static void drop(struct http_conn *conn)
{
    on_free(conn->request.task.data);
}

static const struct http_task_ops stream_task = {.resume = opened, .release = drop};

enum MHD_Result http_stream_begin(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct http_stream *stream = NULL;

    if (!may_begin(conn)) {
        return http_answer_fault(conn);
    }
    if (request->is_head) {
        return answer_head(conn, http_response_empty());
    }
    if (!watcher_take_slot(conn)) {
        return http_answer_fault(conn);
    }
    stream = stream_new(conn);
    request->task = (struct http_task){&stream_task, stream};
    request->answer.is_untimed = true;
    http_suspend(conn);
    watcher_call(&stream->client, WATCHER_BEGIN);
    return MHD_YES;
}
