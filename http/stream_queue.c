/*
 * The queue of a stream (stream.h): frames that wait for its client. Queued events may also be
 * discarded, because they can be replayed from the window.
 *
 * The frame of a Server-Sent Event has a name and a JSON object. A frame from which a client may
 * resume also has an id, which browsers send back automatically. The frame of NDJSON is the object
 * alone.
 */
#include "base/os_rng.h"
#include "http/stream.h"

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

static void stream_put(struct http_stream *stream, enum piece_kind kind, struct slice bytes)
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

size_t stream_queued(struct http_stream *stream, uint64_t *ret_moved_ms)
{
    MUTEX_HOLD(&stream->mutex);
    if (ret_moved_ms) {
        *ret_moved_ms = stream->moved_ms;
    }
    return stream->queue.bytes;
}

/* ---- Hold and overrun ---- */

struct watch *stream_watch(struct http_stream *stream)
{
    const struct watch_table *table = subscribe_table(stream->client.watcher->subscriber);

    return watch_by_id(table, &stream->client.owner, stream->watch);
}

void stream_hold(struct http_stream *stream, struct watch *watch, zxid_t zxid)
{
    watch_hold(watch);
    stream->held = true;
    stream->from = zxid - 1;
    stream->group = 0;
    if (stream->behind_ms == 0) {
        stream->behind_ms = os_now_ms();
    }
    atomic_store(&stream->wants_room, true);
    watcher_due(&stream->client); /* If the queue is already empty, WATCHER_ROOM may not come. */
}

static void on_cut(void *ctx, const struct piece_tag *tag)
{
    zxid_t *from = ctx;

    if (tag->kind == PIECE_EVENT && tag->from < *from) {
        *from = tag->from;
    }
}

/* Discards the queued events. Returns the zxid from which they can be replayed; ZXID_MAX: there
 * were none. A parked stream has sent everything and may catch up at once; any other stream catches
 * up when the library asks for more bytes. */
static zxid_t cut_queue(struct http_stream *stream)
{
    zxid_t from = ZXID_MAX;

    MUTEX_HOLD(&stream->mutex);
    if (pieces_cut(&stream->queue, on_cut, &from) > 0) {
        stream->overrun = !stream->parked;
    }
    return from;
}

void stream_overrun(struct http_stream *stream)
{
    struct watch *watch = stream_watch(stream);
    zxid_t from = ZXID_MAX;

    if (stream->state != STREAM_OPEN || !watch) {
        return;
    }
    from = cut_queue(stream);
    if (from == ZXID_MAX) {
        return;
    }
    if (watch->held) {
        stream->from = min_u64(from, stream->from);
    } else {
        stream_hold(stream, watch, from + 1);
    }
}

/* ---- The end ---- */

void stream_resume(struct http_stream *stream)
{
    MUTEX_HOLD(&stream->mutex);
    if (stream->parked && (stream->queue.bytes > 0 || stream->ended || stream->broken)) {
        stream->parked = false;
        MHD_resume_connection(stream->mhd);
    }
}

void stream_break_off(struct http_stream *stream)
{
    atomic_store(&stream->broken, true);
    if (stream->client.hangup.fd >= 0) {
        loop_shutdown(stream->client.hangup.fd);
    }
    stream_resume(stream);
}

void stream_end(struct http_stream *stream)
{
    struct http_watcher *watcher = stream->client.watcher;

    if (stream->state != STREAM_OPEN) {
        return;
    }
    stream->state = STREAM_ENDED;
    stream->held = false;
    stream->ended_ms = watcher->now_ms;
    stream->limit_ms = watcher->now_ms + stream->http->limits->slow_timeout_ms;
    watcher_ask_by(watcher, stream->limit_ms);
    watch_owner_release(subscribe_table(watcher->subscriber), &stream->client.owner);
    atomic_fetch_sub_explicit(&watcher->metrics.streams.value, 1, memory_order_relaxed);
    atomic_store(&stream->ended, true);
    watcher_due(&stream->client);
}

void stream_cut_off(struct http_stream *stream)
{
    stream_end(stream);
    pthread_mutex_lock(&stream->mutex);
    pieces_release(&stream->queue);
    pthread_mutex_unlock(&stream->mutex);
    stream_break_off(stream);
}

/* ---- Frames ---- */

enum {
    RETRY_TEXT = 32,
    RETRY_MS = 500,        /* The shortest time after which a browser reconnects. */
    RETRY_SPREAD_MS = 2000 /* A random part of it is added: not all browsers reconnect at once. */
};

/* Writes the start of a frame, up to the object. */
static void frame_begin(const struct http_stream *stream, struct buf *out, const char *name)
{
    if (stream->sse) {
        buf_append_str(out, "event: ");
        buf_append_str(out, name);
        buf_append_str(out, "\ndata: ");
    }
}

/* Writes the end of a frame. `zxid` 0: a client cannot resume from this frame. */
static void frame_end(const struct http_stream *stream, struct buf *out, zxid_t zxid)
{
    buf_append_byte(out, '\n');
    if (!stream->sse) {
        return;
    }
    if (zxid != 0) {
        buf_printf(out, "id: %016llx:0x%llx\n", (unsigned long long)stream->history,
                   (unsigned long long)zxid);
    }
    buf_append_byte(out, '\n');
}

void stream_put_event(const struct http_stream *stream, struct buf *out,
                      const struct watch_event *event)
{
    struct jsonw json;

    frame_begin(stream, out, watch_event_name(event->type));
    jsonw_init(&json, out);
    op_json_event(&json, event, NULL, stream->request.values, stream->format);
    frame_end(stream, out, event->last ? event->zxid : 0);
}

/* Drops the frames of the previous event. */
static void begin_event(struct watcher_frames *frames, const struct watch_event *event)
{
    for (size_t i = 0; i < WATCHER_FRAMES; i++) {
        blob_unref(frames->shared[i]);
        frames->shared[i] = NULL;
    }
    frames->zxid = event->zxid;
    frames->type = event->type;
    frames->path = event->path.data;
}

static struct blob *make_frame(struct http_stream *stream, const struct watch_event *event)
{
    struct buf *text = &stream->client.watcher->text;
    struct blob *frame = NULL;

    buf_clear(text);
    stream_put_event(stream, text, event);
    frame = blob_new(buf_slice(text));
    buf_trim(text, STREAM_KEEP_BYTES);
    return frame;
}

struct blob *stream_event_frame(struct http_stream *stream, const struct watch_event *event)
{
    struct watcher_frames *frames = &stream->client.watcher->frames;
    size_t form = (size_t)stream->sse | (size_t)stream->request.values << 1 |
                  (size_t)event->last << 2 | (size_t)stream->format << 3;

    ASSERT(form < WATCHER_FRAMES);
    if (frames->zxid != event->zxid || frames->type != event->type ||
        frames->path != event->path.data) {
        begin_event(frames, event);
    }
    if (!frames->shared[form]) {
        frames->shared[form] = make_frame(stream, event);
    }
    return frames->shared[form];
}

/* Returns a writer for the object of a frame, which frame_put queues. Until then no event may be
 * encoded, because the frame of an event is written to the same buffer, the watcher's text. */
static struct jsonw frame_open(struct http_stream *stream, const char *name)
{
    struct buf *out = &stream->client.watcher->text;
    struct jsonw json;

    buf_clear(out);
    frame_begin(stream, out, name);
    jsonw_init(&json, out);
    return json;
}

static void frame_put(struct http_stream *stream, enum piece_kind kind, zxid_t zxid)
{
    struct buf *out = &stream->client.watcher->text;

    frame_end(stream, out, zxid);
    stream_put(stream, kind, buf_slice(out));
    buf_trim(out, STREAM_KEEP_BYTES);
}

void stream_put_hello(struct http_stream *stream, const struct subscribe_result *result)
{
    /* A fresh stream, and a stream after a gap, can be resumed from its first frame. */
    bool resumable = result->resumed == SUBSCRIBE_FRESH || result->resumed == SUBSCRIBE_GAP;
    struct gate_status status;
    struct jsonw json;

    gate_status(stream->http->gate, &status);
    if (stream->sse) {
        uint64_t retry_ms = RETRY_MS + os_random_u64() % RETRY_SPREAD_MS;
        char line[RETRY_TEXT];
        int len = snprintf(line, sizeof(line), "retry: %u\n", (unsigned int)retry_ms);

        stream_put(stream, PIECE_FIXED, slice_make(line, (size_t)len));
    }
    json = frame_open(stream, "watch");
    jsonw_object(&json);
    jsonw_kv_cstr(&json, "event", "watch");
    jsonw_kv_string(&json, "path", stream->request.path);
    jsonw_kv_cstr(&json, "kind", watch_kind_name(stream->request.kind));
    jsonw_kv_cstr(&json, "resumed", subscribe_resumed_name(result->resumed));
    jsonw_kv_hex(&json, "zxid", result->zxid);
    op_json_history(&json, stream->history);
    jsonw_kv_u64(&json, "server", status.id);
    jsonw_kv_u64(&json, "heartbeat_ms", stream->beat_every_ms);
    jsonw_object_end(&json);
    frame_put(stream, PIECE_FIXED, resumable ? result->zxid : 0);
}

void stream_put_heartbeat(struct http_stream *stream, zxid_t zxid)
{
    struct jsonw json = frame_open(stream, "heartbeat");

    op_json_heartbeat(&json, zxid);
    frame_put(stream, PIECE_BEAT, zxid);
}

void stream_put_overrun(struct http_stream *stream, zxid_t from)
{
    struct jsonw json = frame_open(stream, "overrun");

    op_json_overrun(&json, NULL, 0, from);
    frame_put(stream, PIECE_NOTICE, 0);
}

void stream_put_gap(struct http_stream *stream, zxid_t zxid)
{
    struct jsonw json = frame_open(stream, "gap");

    op_json_gap(&json, NULL, 0, zxid);
    frame_put(stream, PIECE_FIXED, zxid);
}

void stream_put_session(struct http_stream *stream)
{
    struct jsonw json = frame_open(stream, "session");

    op_json_session_event(&json, stream->session_end, stream->session, stream->session_end_zxid);
    frame_put(stream, PIECE_FIXED, 0);
}

void stream_put_closing(struct http_stream *stream, const char *reason)
{
    struct jsonw json = frame_open(stream, "closing");

    op_json_closing_begin(&json, reason);
    gate_write_servers(stream->http->gate, &json);
    jsonw_object_end(&json);
    frame_put(stream, PIECE_FIXED, 0);
}
