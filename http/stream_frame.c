/* The frames of a stream. A Server-Sent Event has a name, a JSON object, and, if a client may
 * resume from it, an id that browsers send back automatically; NDJSON is the object alone. */
#include "base/check.h"
#include "base/os_rng.h"
#include "http/stream.h"

#include <stdio.h>

enum {
    HISTORY_TEXT = 24,
    RETRY_TEXT = 32,
    RETRY_MS = 500,        /* A browser reconnects after this time, */
    RETRY_SPREAD_MS = 2000 /* plus a random part of this, so that not all reconnect at once. */
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

/* `zxid` 0: a client cannot resume from this frame. */
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

static bool same_event(const struct watcher_frames *frames, const struct watch_event *event)
{
    return frames->zxid == event->zxid && frames->type == event->type &&
           frames->path == event->path.data;
}

/* Drops the frames of the last event. */
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
    if (text->cap > STREAM_KEEP_BYTES) {
        buf_release(text);
    }
    return frame;
}

struct blob *stream_event_frame(struct http_stream *stream, const struct watch_event *event)
{
    struct watcher_frames *frames = &stream->client.watcher->frames;
    size_t form = (size_t)stream->sse | (size_t)stream->request.values << 1 |
                  (size_t)event->last << 2 | (size_t)stream->format << 3;

    ASSERT(form < WATCHER_FRAMES);
    if (!same_event(frames, event)) {
        begin_event(frames, event);
    }
    if (!frames->shared[form]) {
        frames->shared[form] = make_frame(stream, event);
    }
    return frames->shared[form];
}

/* A fresh stream, and one after a gap, can be resumed from its first frame. */
static bool is_bookmark(const struct subscribe_result *result)
{
    return result->resumed == SUBSCRIBE_FRESH || result->resumed == SUBSCRIBE_GAP;
}

/* One frame, from its name to the queue. */
struct frame {
    struct http_stream *stream;
    struct buf out;
    struct jsonw json;
};

static void frame_open(struct frame *frame, struct http_stream *stream, const char *name)
{
    frame->stream = stream;
    buf_init(&frame->out, SIZE_MAX / 2);
    frame_begin(stream, &frame->out, name);
    jsonw_init(&frame->json, &frame->out);
}

static void frame_put(struct frame *frame, enum piece_kind kind, zxid_t zxid)
{
    frame_end(frame->stream, &frame->out, zxid);
    stream_put(frame->stream, kind, buf_slice(&frame->out));
    buf_release(&frame->out);
}

static void put_retry(struct http_stream *stream)
{
    char line[RETRY_TEXT];
    int len = snprintf(line, sizeof(line), "retry: %u\n",
                       RETRY_MS + (unsigned int)(os_random_u64() % RETRY_SPREAD_MS));

    stream_put(stream, PIECE_FIXED, slice_make(line, (size_t)len));
}

void stream_put_hello(struct http_stream *stream, const struct subscribe_result *result)
{
    struct gate_status status;
    char history[HISTORY_TEXT];
    struct frame frame;
    struct jsonw *json = &frame.json;

    gate_status(stream->http->gate, &status);
    (void)snprintf(history, sizeof(history), "%016llx", (unsigned long long)stream->history);
    if (stream->sse) {
        put_retry(stream);
    }
    frame_open(&frame, stream, "watch");
    jsonw_object(json);
    jsonw_kv_cstr(json, "event", "watch");
    jsonw_kv_string(json, "path", stream->request.path);
    jsonw_kv_cstr(json, "kind", watch_kind_name(stream->request.kind));
    jsonw_kv_cstr(json, "resumed", subscribe_resumed_name(result->resumed));
    jsonw_kv_hex(json, "zxid", result->zxid);
    jsonw_kv_cstr(json, "history", history);
    jsonw_kv_u64(json, "server", status.id);
    jsonw_kv_u64(json, "heartbeat_ms", stream->beat_every_ms);
    jsonw_object_end(json);
    frame_put(&frame, PIECE_FIXED, is_bookmark(result) ? result->zxid : 0);
}

void stream_put_heartbeat(struct http_stream *stream, zxid_t zxid)
{
    struct frame frame;

    frame_open(&frame, stream, "heartbeat");
    op_json_heartbeat(&frame.json, zxid);
    frame_put(&frame, PIECE_BEAT, zxid);
}

void stream_put_overrun(struct http_stream *stream, zxid_t from)
{
    struct frame frame;

    frame_open(&frame, stream, "overrun");
    op_json_overrun(&frame.json, NULL, 0, from);
    frame_put(&frame, PIECE_NOTICE, 0);
}

void stream_put_gap(struct http_stream *stream, zxid_t zxid)
{
    struct frame frame;

    frame_open(&frame, stream, "gap");
    op_json_gap(&frame.json, NULL, 0, zxid);
    frame_put(&frame, PIECE_FIXED, zxid);
}

void stream_put_session(struct http_stream *stream)
{
    struct frame frame;

    frame_open(&frame, stream, "session");
    op_json_session_event(&frame.json, stream->session_end, stream->session,
                          stream->session_end_zxid);
    frame_put(&frame, PIECE_FIXED, 0);
}

void stream_put_closing(struct http_stream *stream, const char *reason)
{
    struct buf servers;
    struct jsonw json;
    struct frame frame;

    buf_init(&servers, SIZE_MAX / 2);
    jsonw_init(&json, &servers);
    gate_write_servers(stream->http->gate, &json);
    frame_open(&frame, stream, "closing");
    op_json_closing(&frame.json, reason, buf_slice(&servers));
    frame_put(&frame, PIECE_FIXED, 0);
    buf_release(&servers);
}
