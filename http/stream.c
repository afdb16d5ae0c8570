/* The library's side of a stream: from request to response, and the bytes from its queue. */
#include "http/stream.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"

enum {
    RESPONSE_BLOCK = 1024 /* Used for HTTP/1.0 only. */
};

/* ---- The queue. ---- */

/* With the mutex held. */
static size_t take_bytes(struct http_stream *stream, char *to, size_t max)
{
    size_t len = pieces_take(&stream->queue, to, max);

    stream->overrun = false;
    if (len > 0) {
        stream->moved_ms = os_now_ms();
    }
    return len;
}

/* With the mutex held and the queue empty. */
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

/* The library asks again when the socket has room. */
static ssize_t on_read(void *cls, uint64_t pos, char *to, size_t max)
{
    struct http_stream *stream = cls;
    ssize_t len = MHD_CONTENT_READER_END_WITH_ERROR;

    (void)pos;
    pthread_mutex_lock(&stream->mutex);
    if (!stream->broken) {
        len = (ssize_t)take_bytes(stream, to, max);
        if (len == 0) {
            len = idle(stream);
        }
    }
    pthread_mutex_unlock(&stream->mutex);
    return len;
}

/* The response is freed, so no thread of the library uses the queue any more. */
static void on_free(void *cls)
{
    struct http_stream *stream = cls;

    watcher_call(&stream->client, WATCHER_GONE);
}

/* ---- Begin and answer. ---- */

static struct http_stream *stream_new(struct http_conn *conn)
{
    const struct http_request *request = &conn->request;
    const struct op_args *args = &request->args;
    enum watch_kind kind = args->kind ? args->kind : WATCH_PERSISTENT;
    struct http_stream *stream = mem_zalloc(1, sizeof(*stream));

    watcher_client_init(&stream->client, &stream_ops, conn);
    stream->http = conn->http;
    stream->mhd = conn->mhd;
    stream->fd = conn->fd;
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
    stream->least = request->wants.min_zxid;
    if (args->has_since && args->since > stream->least) {
        stream->least = args->since;
    }
    pieces_init(&stream->queue, gate_unsent(conn->http->gate));
    pthread_mutex_init(&stream->mutex, NULL);
    return stream;
}

/* Checks that do not need the watcher. */
static bool may_begin(struct http_conn *conn)
{
    const struct http_request *request = &conn->request;
    const struct op_args *args = &request->args;

    if (!http_check_local(conn)) {
        return false;
    }
    if (atomic_load(&conn->http->draining)) {
        http_refuse(conn, ERR_NOT_READY, "this replica is shutting down: use another replica");
    } else if (args->has_since_history && args->since_history != request->replica.history) {
        http_refuse(conn, ERR_HISTORY_CHANGED,
                    "this ensemble has another history: read again, then watch without since");
    }
    return !request->refused;
}

static enum MHD_Result answer_head(struct http_conn *conn, struct MHD_Response *response)
{
    bool sse = conn->request.wants.media == HTTP_MEDIA_SSE;

    http_header(response, "X-Accel-Buffering", "no");
    return http_send_lines(conn, response, sse ? "text/event-stream" : "application/x-ndjson");
}

static const char *refusal_text(enum err err)
{
    if (err == ERR_REPLICA_BEHIND) {
        return "this replica has not applied since or Zk-Min-Zxid: try again or at another one";
    }
    if (err == ERR_NOT_READY) {
        return "this replica is shutting down or has no leader: use another replica";
    }
    if (err == ERR_THROTTLED) {
        return "unread answers fill maxUnsentBytes: try again later, or use another replica";
    }
    return err_text(err);
}

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
        http_refuse(conn, stream->err, "%s", refusal_text(stream->err));
        return http_answer_fault(conn);
    }
    request->answer.zxid = stream->zxid;
    request->task =
        (struct http_task){.ops = NULL}; /* From here on the response owns the stream. */
    request->answer.is_endless = true;
    response = http_response_pulled(MHD_SIZE_UNKNOWN, RESPONSE_BLOCK, on_read, stream, on_free);
    return answer_head(conn, response);
}

static void drop(struct http_conn *conn)
{
    struct http_stream *stream = conn->request.task.data;

    watcher_call(&stream->client, WATCHER_GONE);
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
    if (!watcher_take_slot(conn->http->watcher)) {
        http_refuse(conn, ERR_THROTTLED,
                    "this replica has as many waiting requests and streams as it may "
                    "(maxStreams)");
        return http_answer_fault(conn);
    }
    stream = stream_new(conn);
    request->task = (struct http_task){&stream_task, stream};
    request->answer.is_untimed = true;
    http_suspend(conn);
    watcher_call(&stream->client, WATCHER_BEGIN);
    return MHD_YES;
}
