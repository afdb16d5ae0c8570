/*
 * stream.h - one stream of events: GET /watch/v1/{path} as Server-Sent Events or NDJSON.
 *
 * The watcher's thread puts frames into the stream's queue. The thread of libmicrohttpd ("the
 * library") takes them out when the socket has room, and suspends the connection when the queue is
 * empty. An event is encoded once for all streams of one form, and their queues share the frame.
 * The window of changes is the only buffer for slow clients: when a queue is full, or all queues
 * together are full, the watch is held, and catches up from the window when the queue is empty.
 * Events are lost only when the window no longer reaches back that far; the client then receives
 * `overrun` and the difference to the present tree (subscribe.h), or `gap`.
 */
#ifndef HTTP_STREAM_H
#define HTTP_STREAM_H

#include "http/watcher.h"

enum {
    STREAM_KEEP_BYTES = 16 << 10, /* Memory that is kept for the text of events. */
    STREAM_FEW_BYTES = 64 << 10,  /* Bytes of missed events at a time, while the budget is short. */
    /* While the budget is full, a stream that has taken nothing for STREAM_RELIEF_CLOSE_MS is
     * closed if it holds STREAM_RELIEF_BYTES or more. */
    STREAM_RELIEF_CLOSE_MS = 250,
    STREAM_RELIEF_BYTES = 4 << 10
};

enum stream_state {
    STREAM_OPENING, /* Not answered yet; the stream may wait for `least`. */
    STREAM_OPEN,
    STREAM_ENDED /* The last frame is in the queue, or the stream was refused. */
};

struct http_stream {
    struct watcher_client client;
    struct http *http;
    struct MHD_Connection *mhd;
    struct buf path;
    struct subscribe_request request; /* request.path points to `path`. */
    zxid_t least; /* The stream opens when this replica has applied this zxid. */
    uint64_t history;
    uint64_t session;   /* The public id of its session, or 0. */
    bool keeps_session; /* The stream's heartbeats keep the session alive. */
    uint32_t beat_every_ms;
    bool sse;                  /* Server-Sent Events; else NDJSON. */
    enum op_dataformat format; /* Format of the values in events. */

    /* Used by the watcher's thread; the library's thread reads `err` and `zxid` after the
     * connection was resumed. */
    enum err err;
    zxid_t zxid; /* The state that the answer reflects. */
    enum stream_state state;
    uint32_t watch;          /* The id of the watch. */
    zxid_t group;            /* The transaction whose events are not all queued yet, or 0. */
    bool held;               /* Events after `from` are not in the queue. */
    bool cut;                /* The difference is larger than a queue may be. */
    bool crowded;            /* The budget had no room for the difference. */
    bool finished;           /* The one-shot watch has fired. */
    const char *session_end; /* "closed", "expired", or NULL while the session is alive. */
    zxid_t session_end_zxid;
    bool ask_session; /* Changes were lost; the end of the session may be among them. */
    zxid_t from;
    uint64_t acked;     /* Bytes that the client's kernel had acknowledged at the last heartbeat. */
    uint64_t behind_ms; /* Since when the watch is held, or 0. */
    uint64_t beat_ms;   /* When the next heartbeat is due. */
    uint64_t limit_ms;  /* The deadline for opening; after the end, for reading the queue. */
    uint64_t ended_ms;  /* When the stream ended. */

    pthread_mutex_t mutex; /* Guards the members below that are not atomic. */
    struct pieces queue;
    bool parked;             /* Suspended because the queue is empty. */
    _Atomic bool overrun;    /* Events were discarded since the library last took bytes. */
    _Atomic bool ended;      /* The response ends after the queue. */
    _Atomic bool broken;     /* The connection is closed, or must be closed. */
    _Atomic bool wants_room; /* The library's thread calls WATCHER_ROOM when the queue is empty. */
    uint64_t moved_ms; /* When the library last took bytes, or bytes came into an empty queue. */
};

static inline struct http_stream *stream_of(struct watcher_client *client)
{
    return list_entry(client, struct http_stream, client);
}

/* ---- stream_queue.c: what waits for the client; the watcher's thread ---- */

void stream_put_shared(struct http_stream *stream, const struct piece_tag *tag, struct blob *frame);
void stream_put_gathered(struct http_stream *stream);

/* Returns the bytes in the queue. `*ret_moved_ms` is when the client last made progress;
 * `ret_moved_ms` may be NULL. */
size_t stream_queued(struct http_stream *stream, uint64_t *ret_moved_ms);

/* Resumes the suspended connection if there are bytes to send, or the response must end. */
void stream_resume(struct http_stream *stream);

struct watch *stream_watch(struct http_stream *stream); /* NULL: it has fired or was released. */

/* Holds the watch: the events from `zxid` on reach the stream later, replayed from the
 * window. */
void stream_hold(struct http_stream *stream, struct watch *watch, zxid_t zxid);

/* Discards the queued events and holds the watch at the first of them. */
void stream_overrun(struct http_stream *stream);

/* Ends the stream: removes its watch and heartbeats. The client has slowTimeout to read the queued
 * frames. */
void stream_end(struct http_stream *stream);

/* Closes the connection, whatever the queue holds. */
void stream_break_off(struct http_stream *stream);

/* Ends the stream, empties the queue and closes the connection. */
void stream_cut_off(struct http_stream *stream);

/* ---- stream_changes.c: changes ---- */

/* Makes room when unsent bytes fill the budget. Called between events, as it may end streams. */
void stream_relief(struct http_watcher *watcher);
void stream_on_event(struct watcher_client *client, struct watch *hits,
                     const struct watch_event *event);
void stream_on_lost(struct watcher_client *client, zxid_t from);

/* Delivers the events that the stream has missed since its watch was held. */
void stream_catch_up(struct http_stream *stream);

void stream_begin(struct http_stream *stream);

/* Opens the stream, refuses it, or leaves it for the next try. */
void stream_try_open(struct http_stream *stream);

/* Resumes the connection, which is then answered with the stream or the error. */
void stream_answer(struct http_stream *stream, enum err err);

/* Looks up the session of the stream. If the session ends after this call, its end will be among
 * the changes. */
enum err stream_find_session(const struct http_stream *stream, struct op_session_info *ret_info);

/* ---- stream_queue.c: the frames ---- */

/* Returns the frame of an event. Streams that receive the same event share its frame, so the
 * watcher owns the reference, which is valid until the next call. */
struct blob *stream_event_frame(struct http_stream *stream, const struct watch_event *event);

/* Appends the frame of an event. */
void stream_put_event(const struct http_stream *stream, struct buf *out,
                      const struct watch_event *event);

/* Each of these functions puts one frame into the queue. */
void stream_put_hello(struct http_stream *stream, const struct subscribe_result *result);
void stream_put_heartbeat(struct http_stream *stream, zxid_t zxid);
void stream_put_overrun(struct http_stream *stream, zxid_t from);
void stream_put_gap(struct http_stream *stream, zxid_t zxid);
void stream_put_session(struct http_stream *stream);
void stream_put_closing(struct http_stream *stream, const char *reason);

#endif
