/*
 * watcher.h - the thread behind streams and long polls: one subscriber, all who wait, their timers.
 *
 * Whoever waits is a `watcher_client`, embedded in a stream or a long poll. A library thread makes
 * it and calls; what happens to it then is done by the watcher's thread, which alone touches the
 * subscriber. A call is a bit: a client called twice before the thread has looked is looked at
 * once. A connection that waits is suspended, so the library does not look at its socket: the
 * watcher has a descriptor of its own for it, to learn that the client has hung up.
 */
#ifndef HTTP_WATCHER_H
#define HTTP_WATCHER_H

#include "base/loop.h"
#include "base/mailbox.h"
#include "base/pieces.h"
#include "base/thread.h"
#include "http/http_int.h"
#include "server/process/watch_listing.h"
#include "server/watch/subscribe.h"

enum {
    WATCHER_FORMATS = OP_NONE + 1,        /* Of data. */
    WATCHER_FRAMES = 8 * WATCHER_FORMATS, /* Forms of one event. */
    WATCHER_RETRY_MS = 20,                /* Between two looks at what is not there yet. */
    WATCHER_LATE_MS = 250,                /* A turn later than this: the process stood still. */
    WATCHER_WORK_US = 5000, /* For what clients have missed, before changes have their turn. */
    WATCHER_SETS = 64       /* Transactions told before those that wait are served. */
};

/* What a library thread asks for. */
enum watcher_call {
    WATCHER_BEGIN = 1U << 0, /* Wait for changes from now on. */
    WATCHER_ROOM = 1U << 1,  /* The queue of a stream that is behind has become empty. */
    WATCHER_GONE = 1U << 2   /* Nobody else knows the client any more: free it. */
};

enum watcher_end {
    WATCHER_DRAIN,  /* The replica is being stopped. */
    WATCHER_CUT_OFF /* It has been without a leader for too long. */
};

struct watcher_client;

/* All run on the watcher's thread. on_event, on_change and on_lost come from inside the subscriber:
 * they may hold watches, and else only note and call watcher_due. */
struct watcher_ops {
    bool is_stream; /* The client is that of a struct http_stream. */
    void (*on_call)(struct watcher_client *client, uint32_t calls);
    void (*on_event)(struct watcher_client *client, struct watch *hits,
                     const struct watch_event *event);
    /* SET_ACL and SESSION_CLOSE, for clients that listen. */
    void (*on_change)(struct watcher_client *client, zxid_t zxid, const struct change *change);
    void (*on_lost)(struct watcher_client *client, zxid_t from);
    void (*on_due)(struct watcher_client *client);
    void (*on_hangup)(struct watcher_client *client);
    void (*on_end)(struct watcher_client *client, enum watcher_end end);
    /* Returns when it wants to be asked again at the latest. */
    uint64_t (*on_time)(struct watcher_client *client, uint64_t now_ms);
};

struct watcher_client {
    const struct watcher_ops *ops;
    struct http_watcher *watcher;
    struct watch_owner owner;
    struct op_principal who;  /* A reference of its own. */
    _Atomic uint32_t calls;   /* Bits; whoever sets the first one posts `call`. */
    struct list call;         /* In watcher.inbox. */
    struct list node;         /* In watcher.clients. */
    struct list listening;    /* In watcher.listeners. */
    struct list due;          /* In watcher.due, or watcher.later. */
    struct loop_watch hangup; /* fd -1: not watched. */
    bool watched;             /* For a hang-up. */
    bool known;               /* In watcher.clients. */
    uint64_t session;         /* Public id of the session it is in, or 0. */
    const char *over;         /* What it is: see watch_listing.h. */
};

/* The event that is being handed out, in each form that is asked for: a thousand streams that are
 * told the same share the bytes. */
struct watcher_frames {
    zxid_t zxid;
    enum watch_event_type type;
    const uint8_t *path;
    struct blob *shared[WATCHER_FRAMES]; /* NULL: not made yet. */
};

struct watcher_metrics {
    struct metric_counter streams; /* Open now. */
    struct metric_counter waits;   /* Long polls that wait now. */
    struct metric_counter events;  /* Written to streams. */
    struct metric_counter
        overruns;               /* Streams that were told a difference, because they are slow. */
    struct metric_counter gaps; /* Streams that were told to read anew. */
    struct metric_counter slow; /* Streams that were closed because nobody reads them. */
};

/* Called between events, when clients may be ended to make room for others. */
typedef void watcher_relieve_fn(struct http_watcher *watcher);

struct http_watcher {
    struct http *http;
    watcher_relieve_fn *relieve;
    struct loop loop;
    struct mailbox inbox;
    struct loop_watch inbox_watch;
    struct mailbox asked; /* Any thread; of struct watch_listing.node. */
    struct loop_watch asked_watch;
    struct loop_watch wake;
    _Atomic bool woken; /* A wake is on its way. */
    _Atomic bool drain;
    _Atomic bool stop;
    _Atomic uint32_t places; /* Taken, of config_clients.streams_max. */
    struct window_listener listener;
    struct watcher_metrics metrics;
    struct thread thread;

    /* The thread's. */
    struct subscriber *subscriber;
    struct list clients;
    struct list listeners;
    struct list due;
    struct list later;               /* Due in the next turn. */
    struct watcher_client *gatherer; /* Is being told what it has missed, into `gather`. */
    struct pieces gather;
    struct buf text; /* Of one event. */
    struct watcher_frames frames;
    uint64_t relief_ms; /* When to look again for what the slowest can do without, */
    uint64_t early_ms;  /* and while there is some room. */
    uint64_t now_ms;
    uint64_t turn_us;  /* When the turn began. */
    uint64_t next_ms;  /* When somebody wants to be asked. */
    uint64_t stood_ms; /* End of the last time in which the process stood still; 0: never. */
    uint64_t check_ms; /* When to ask whether this replica may still answer. */
    bool more;         /* The window holds more than was told in this turn. */
    bool ended;        /* All clients were told to end. */
};

struct http_watcher *http_watcher_start(struct http *http, watcher_relieve_fn *relieve);

/* Tells all who wait to go elsewhere; whoever comes later is told so at once. Any thread. */
void http_watcher_drain(struct http_watcher *watcher);

/* Returns once all clients are gone: the library's daemons must have been stopped. */
void http_watcher_stop(struct http_watcher *watcher);

void http_watcher_write_metrics(const struct http_watcher *watcher, struct buf *out);

/* ---- Any thread ---- */

/* A place for one more client; false: all are taken. */
bool watcher_take_place(struct http_watcher *watcher);
void watcher_give_place(struct http_watcher *watcher);

/* A client of `conn`, with a place. */
void watcher_client_init(struct watcher_client *client, const struct watcher_ops *ops,
                         struct http_conn *conn);
void watcher_client_release(struct watcher_client *client); /* Gives the place back. */
void watcher_call(struct watcher_client *client, enum watcher_call call);

/* ---- The watcher's thread ---- */
struct budget *watcher_unsent(const struct http_watcher *watcher);

/* Takes it among the clients and watches for a hang-up of `fd`, whose owner keeps it. False: there
 * is no descriptor left. */
bool watcher_add(struct watcher_client *client, int fd);

/* It wants on_change. */
void watcher_listen(struct watcher_client *client);

/* No watch, no timer, no call back any more. Harmless when repeated. */
void watcher_remove(struct watcher_client *client);

/* on_due will be called when the subscriber is done. */
void watcher_due(struct watcher_client *client);

/* True when what clients have missed has taken long enough in this turn: on_due will be called in
 * the next one. Others must not wait while a thousand are told of last week. */
bool watcher_is_tired(struct watcher_client *client);

/* on_time will be called at `at_ms` at the latest. */
void watcher_ask_by(struct http_watcher *watcher, uint64_t at_ms);

#endif
