/*
 * The queue of a stream: frames that wait for its client. The watcher's thread puts them in;
 * stream.c takes them out on the library's thread. When the queue is full the watch is held, and
 * later events stay in the window. Queued events may also be discarded, because they can be
 * replayed from the window.
 *
 */
#include "base/minmax.h"
#include "base/os_clock.h"
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

size_t stream_queued(struct http_stream *stream, uint64_t *ret_moved_ms)
{
    pthread_mutex_lock(&stream->mutex);

    size_t len = stream->queue.bytes;

    if (ret_moved_ms) {
        *ret_moved_ms = stream->moved_ms;
    }
    pthread_mutex_unlock(&stream->mutex);
    return len;
}

bool stream_is_overrun(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);

    bool overrun = stream->overrun;

    pthread_mutex_unlock(&stream->mutex);
    return overrun;
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
    pthread_mutex_lock(&stream->mutex);
    stream->wants_room = true;
    pthread_mutex_unlock(&stream->mutex);
    watcher_due(&stream->client); /* The queue may already be empty. */
}

static void on_cut(void *ctx, const struct piece_tag *tag)
{
    zxid_t *from = ctx;

    if (tag->kind == PIECE_EVENT && tag->from < *from) {
        *from = tag->from;
    }
}

/* A parked stream has sent everything; another one continues when the library asks for more. */
static zxid_t cut_queue(struct http_stream *stream)
{
    zxid_t from = ZXID_MAX;

    pthread_mutex_lock(&stream->mutex);
    if (pieces_cut(&stream->queue, on_cut, &from) > 0) {
        stream->overrun = !stream->parked;
    }
    pthread_mutex_unlock(&stream->mutex);
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

/* Wakes the library if there is something to send. */
void stream_resume(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);

    bool news = stream->queue.bytes > 0 || stream->ended || stream->broken;

    if (stream->parked && news) {
        stream->parked = false;
        MHD_resume_connection(stream->mhd);
    }
    pthread_mutex_unlock(&stream->mutex);
}

/* The client is gone, or does not read. */
void stream_break_off(struct http_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    stream->broken = true;
    pthread_mutex_unlock(&stream->mutex);
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
    pthread_mutex_lock(&stream->mutex);
    stream->ended = true;
    pthread_mutex_unlock(&stream->mutex);
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
