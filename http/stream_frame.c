/* The frames of a stream. A Server-Sent Event has a name, a JSON object, and, if a client may
 * resume from it, an id that browsers send back automatically; NDJSON is the object alone. */
#include "base/check.h"
#include "base/os_rng.h"
#include "http/stream.h"

#include <stdio.h>

enum {
    HISTORY_TEXT = 24,
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

void stream_put_hello(const struct http_stream *stream, struct buf *out,
                      const struct subscribe_result *result)
{
    struct gate_status status;
    char history[HISTORY_TEXT];
    struct jsonw json;

    gate_status(stream->http->gate, &status);
    (void)snprintf(history, sizeof(history), "%016llx", (unsigned long long)stream->history);
    if (stream->sse) {
        buf_printf(out, "retry: %u\n",
                   RETRY_MS + (unsigned int)(os_random_u64() % RETRY_SPREAD_MS));
    }
    frame_begin(stream, out, "watch");
    jsonw_init(&json, out);
    jsonw_object(&json);
    jsonw_kv_cstr(&json, "event", "watch");
    jsonw_kv_string(&json, "path", stream->request.path);
    jsonw_kv_cstr(&json, "kind", watch_kind_name(stream->request.kind));
    jsonw_kv_cstr(&json, "resumed", subscribe_resumed_name(result->resumed));
    jsonw_kv_hex(&json, "zxid", result->zxid);
    jsonw_kv_cstr(&json, "history", history);
    jsonw_kv_u64(&json, "server", status.id);
    jsonw_kv_u64(&json, "heartbeat_ms", stream->beat_every_ms);
    jsonw_object_end(&json);
    frame_end(stream, out, is_bookmark(result) ? result->zxid : 0);
}

void stream_put_heartbeat(const struct http_stream *stream, struct buf *out, zxid_t zxid)
{
    struct jsonw json;

    frame_begin(stream, out, "heartbeat");
    jsonw_init(&json, out);
    op_json_heartbeat(&json, zxid);
    frame_end(stream, out, zxid);
}

void stream_put_overrun(const struct http_stream *stream, struct buf *out, zxid_t from)
{
    struct jsonw json;

    frame_begin(stream, out, "overrun");
    jsonw_init(&json, out);
    op_json_overrun(&json, NULL, 0, from);
    frame_end(stream, out, 0);
}

void stream_put_gap(const struct http_stream *stream, struct buf *out, zxid_t zxid)
{
    struct jsonw json;

    frame_begin(stream, out, "gap");
    jsonw_init(&json, out);
    op_json_gap(&json, NULL, 0, zxid);
    frame_end(stream, out, zxid);
}

void stream_put_session(const struct http_stream *stream, struct buf *out)
{
    struct jsonw json;

    frame_begin(stream, out, "session");
    jsonw_init(&json, out);
    op_json_session_event(&json, stream->session_end, stream->session, stream->session_end_zxid);
    frame_end(stream, out, 0);
}

void stream_put_closing(const struct http_stream *stream, struct buf *out, const char *reason)
{
    struct buf servers;
    struct jsonw json;

    buf_init(&servers, SIZE_MAX / 2);
    jsonw_init(&json, &servers);
    gate_write_servers(stream->http->gate, &json);
    frame_begin(stream, out, "closing");
    jsonw_init(&json, out);
    op_json_closing(&json, reason, buf_slice(&servers));
    frame_end(stream, out, 0);
    buf_release(&servers);
}
