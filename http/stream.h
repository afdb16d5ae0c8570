/*
 * stream.h - one stream of events: GET /watch/v1/{path} as Server-Sent Events or NDJSON.
 *
 * The watcher's thread writes frames into the stream's queue; the library's thread takes them out
 * when the socket has room, and suspends the connection when there is nothing. An event is encoded
 * once for all streams of one form, whose queues refer to it. The window of changes is the one
 * buffer for those who are slow: when a queue is full, or all queues together are, the watch is
 * held, and catches up from the window once the queue is empty. Only when the window has moved on
 * as well is anything coalesced, and then the client is told.
 */
#ifndef HTTP_STREAM_H
#define HTTP_STREAM_H

#include "http/watcher.h"

enum {
    STREAM_KEEP_BYTES = 16 << 10,  /* Of the text of an event, between events. */
    STREAM_FEW_BYTES = 64 << 10,   /* Of what a client has missed, while room is short. */
    STREAM_RELIEF_MS = 50,         /* Between looks at who is slowest. */
    STREAM_RELIEF_GRACE_MS = 1000, /* Has taken nothing for so long: slow, when room is short. */
    STREAM_RELIEF_CLOSE_MS = 250,  /* The same, when there is none left at all. */
    STREAM_RELIEF_BYTES = 4 << 10  /* What waits for one that is cut off then, at least. */
};

enum stream_place {
    STREAM_OPENING, /* Not answered yet; it may wait for `least`. */
    STREAM_OPEN,
    STREAM_ENDED /* Its last frame is in the queue; or it was refused. */
};

struct http_stream {
    struct watcher_client client;
    struct http *http;
    struct MHD_Connection *mhd;
    struct buf path;
    struct subscribe_request request; /* `path` is the one above. */
    zxid_t least;                     /* Not answered before this replica has come so far. */
    uint64_t history;
    uint64_t session;   /* Public id of the session it is in, or 0. */
    bool keeps_session; /* It was asked to keep that alive. */
    uint32_t beat_every_ms;
    int fd;                    /* The library's. */
    bool sse;                  /* Else NDJSON. */
    enum op_dataformat format; /* Of values. */

    /* The watcher's thread; the first two are read by the library's thread once it is resumed. */
    enum err err;
    zxid_t zxid; /* State that the answer reflects. */
    enum stream_place place;
    uint32_t watch;          /* Its id. */
    zxid_t group;            /* Of which not all is told yet, or 0. */
    bool held;               /* Events behind `from` are not in the queue. */
    bool cut;                /* A difference is larger than the queue may be. */
    bool crowded;            /* There was no room for all of a difference. */
    bool finished;           /* A one-shot watch is used up. */
    const char *session_end; /* "closed", "expired", or NULL while the session lives. */
    zxid_t session_end_zxid;
    bool ask_session; /* Changes were lost: its end may have been among them. */
    zxid_t from;
    uint64_t acked;     /* Bytes that the client's kernel had taken in at the last heartbeat. */
    uint64_t behind_ms; /* Since when it is held, or 0. */
    uint64_t beat_ms;   /* When the next heartbeat is due. */
    uint64_t limit_ms;  /* Opening: until when. Ended: until when its queue may be read, */
    uint64_t ended_ms;  /* and since when it is over. */

    pthread_mutex_t mutex; /* Of what follows. */
    struct pieces queue;
    bool parked;       /* Suspended for want of bytes. */
    bool overrun;      /* Lost what waited: goes on once the library asks for more. */
    bool ended;        /* Behind the queue comes the end. */
    bool broken;       /* The connection is of no use any more. */
    bool wants_room;   /* WATCHER_ROOM when the queue is empty. */
    uint64_t moved_ms; /* When the library took bytes, or first found some. */
};

static inline struct http_stream *stream_of(struct watcher_client *client)
{
    return list_entry(client, struct http_stream, client);
}

/* ---- stream_queue.c: what waits for the client; the watcher's thread ---- */

void stream_put(struct http_stream *stream, enum piece_kind kind, struct slice bytes);
void stream_put_shared(struct http_stream *stream, const struct piece_tag *tag, struct blob *frame);
void stream_put_gathered(struct http_stream *stream);
size_t stream_queued(struct http_stream *stream, uint64_t *ret_moved_ms); /* Bytes. */
size_t stream_queue_len(struct http_stream *stream);
bool stream_is_overrun(struct http_stream *stream);
void stream_resume(struct http_stream *stream); /* Its connection, if there is something to send. */

struct watch *stream_watch(struct http_stream *stream); /* NULL: it is used up, or was released. */

/* Events from `zxid` on stay in the window. */
void stream_hold(struct http_stream *stream, struct watch *watch, zxid_t zxid);

/* Throws away the events that wait, and holds the watch at the first of them. */
void stream_overrun(struct http_stream *stream);

/* No watch and no heartbeat any more; what is in the queue may be read for a while. */
void stream_end(struct http_stream *stream);

/* The connection ends, whatever waits for it. */
void stream_break_off(struct http_stream *stream);

/* Both, and the queue is emptied. */
void stream_cut_off(struct http_stream *stream);

/* ---- stream_tell.c: calls, heartbeats, the end ---- */
extern const struct watcher_ops stream_ops;

/* ---- stream_missed.c: changes ---- */
void stream_on_event(struct watcher_client *client, struct watch *hits,
                     const struct watch_event *event);
void stream_on_lost(struct watcher_client *client, zxid_t from);

/* Goes on from where its watch was held. */
void stream_catch_up(struct http_stream *stream);

void stream_begin(struct http_stream *stream);

/* Opens it, refuses it, or leaves it for another try. */
void stream_try_open(struct http_stream *stream);

/* Gives the connection back to the library, which asks http_stream_opened. */
void stream_answer(struct http_stream *stream, enum err err);

/* Its end, if it comes later than this look, will be among the changes. */
enum err stream_find_session(const struct http_stream *stream, struct op_session_info *ret_info);

/* ---- stream_frame.c: what a stream says ---- */

/* The events of a pump are the same for many streams: the reference is the watcher's, and good
 * until the next call. */
struct blob *stream_event_frame(struct http_stream *stream, const struct watch_event *event);

/* Each appends one frame. */
void stream_put_event(const struct http_stream *stream, struct buf *out,
                      const struct watch_event *event);
void stream_put_hello(const struct http_stream *stream, struct buf *out,
                      const struct subscribe_result *result);
void stream_put_heartbeat(const struct http_stream *stream, struct buf *out, zxid_t zxid);
void stream_put_overrun(const struct http_stream *stream, struct buf *out, zxid_t from);
void stream_put_gap(const struct http_stream *stream, struct buf *out, zxid_t zxid);
void stream_put_session(const struct http_stream *stream, struct buf *out);
void stream_put_closing(const struct http_stream *stream, struct buf *out, const char *reason);

/* ---- stream_relief.c: when what waits for all clients is too much ---- */

/* May more events wait? When there is no room the slowest streams lose theirs first. */
bool stream_relief_finds_room(struct http_watcher *watcher);
void stream_relief(struct http_watcher *watcher); /* Between events: it may end streams. */

#endif
