/*
 * watcher.h - the thread behind streams and long polls: one subscriber, all clients that wait, and
 * their timers.
 *
 * A client is a `watcher_client`, embedded in a stream or a long poll. A thread of libmicrohttpd
 * ("the library") creates the client and posts calls. The watcher's thread handles the calls, and
 * only this thread uses the subscriber. A call is a bit, so a client that is called twice is
 * handled once. The connection of a client is suspended, and the library does not watch the socket
 * of a suspended connection. So the watcher duplicates the descriptor, to notice that the client
 * has closed the connection.
 */
#ifndef HTTP_WATCHER_H
#define HTTP_WATCHER_H

#include "base/mailbox.h"
#include "base/pieces.h"
#include "http/http_int.h"
#include "server/process/watch_listing.h"
#include "server/watch/subscribe.h"

enum {
    WATCHER_FORMATS = OP_NONE + 1,        /* Data formats of values. */
    WATCHER_FRAMES = 8 * WATCHER_FORMATS, /* Encodings of one event. */
    WATCHER_RETRY_MS = 20,                /* Between two tries to open or to catch up. */
    WATCHER_LATE_MS = 250,                /* A turn this late means that the process was stalled. */
    WATCHER_WORK_US = 5000, /* Time for missed events in a turn; then new changes are handled. */
    WATCHER_SETS = 64       /* Transactions per turn. */
};

/* Calls of library threads. */
enum watcher_call {
    WATCHER_BEGIN = 1U << 0, /* Start to wait for changes. */
    WATCHER_ROOM = 1U << 1,  /* The queue of a stream that must catch up is empty. */
    WATCHER_GONE = 1U << 2   /* No other thread knows the client any more: free it. */
};

enum watcher_end {
    WATCHER_DRAIN,  /* The replica is stopping. */
    WATCHER_CUT_OFF /* The replica has had no leader for too long. */
};

struct watcher_client;

/* The callbacks of a client; all run on the watcher's thread. The subscriber calls on_event,
 * on_change and on_lost: they may call watch_hold, and otherwise only record what happened and call
 * watcher_due. If on_event or on_lost is NULL, the watcher calls watcher_due instead. */
struct watcher_ops {
    bool is_stream; /* The client is part of a struct http_stream. */
    void (*on_call)(struct watcher_client *client, uint32_t calls);
    void (*on_event)(struct watcher_client *client, struct watch *hits,
                     const struct watch_event *event);
    /* Called for SET_ACL and SESSION_CLOSE, if the client has called watcher_listen. */
    void (*on_change)(struct watcher_client *client, zxid_t zxid,
                      const struct state_change *change);
    void (*on_lost)(struct watcher_client *client, zxid_t from);
    void (*on_due)(struct watcher_client *client);
    void (*on_hangup)(struct watcher_client *client);
    void (*on_end)(struct watcher_client *client, enum watcher_end end);
    /* Returns the time by which on_time must be called again. */
    uint64_t (*on_time)(struct watcher_client *client, uint64_t now_ms);
};

struct watcher_client {
    const struct watcher_ops *ops;
    struct http_watcher *watcher;
    struct watch_owner owner;
    struct op_principal principal; /* Holds a reference of its own to `auth`. */
    _Atomic uint32_t calls;        /* Bits; the thread that sets the first bit posts `call`. */
    struct list call;              /* In watcher.inbox. */
    struct list node;              /* In watcher.clients. */
    struct list listening;         /* In watcher.listeners. */
    struct list due;               /* In watcher.due, or watcher.later. */
    int fd;                        /* The library's descriptor. */
    struct loop_watch hangup;      /* The duplicated descriptor; -1: none. */
    bool watched;                  /* `hangup` is in the loop. */
    uint64_t session;              /* The public id of its session, or 0. */
};

/* The current event in each encoding in use: streams that send the same event share the bytes. */
struct watcher_frames {
    zxid_t zxid;
    enum watch_event_type type;
    const uint8_t *path;
    struct blob *shared[WATCHER_FRAMES]; /* NULL: not encoded yet. */
};

#define WATCHER_METRICS(X)                                                             \
    X(streams, gauge, "zabra_http_streams", "Open streams of events.")                 \
    X(waits, gauge, "zabra_http_waits", "Long polls that wait.")                       \
    X(events, counter, "zabra_http_stream_events_total", "Events written to streams.") \
    X(overruns, counter, "zabra_http_stream_overruns_total",                           \
      "Slow streams that received a difference.")                                      \
    X(gaps, counter, "zabra_http_stream_gaps_total",                                   \
      "Streams that lost events and received a gap.")                                  \
    X(slow, counter, "zabra_http_stream_slow_total",                                   \
      "Streams that were closed because their client was slow.")

struct watcher_metrics {
    WATCHER_METRICS(METRIC_MEMBER)
};

/* Makes room in the budget. Called between events, so it may end clients. */
typedef void watcher_relieve_fn(struct http_watcher *watcher);

struct http_watcher {
    struct http *http;
    watcher_relieve_fn *relieve;
    struct loop loop;
    struct mailbox inbox;
    struct loop_watch inbox_watch;
    struct mailbox asked; /* Requests for the list of watches, by struct watch_listing.node; any
                             thread posts. */
    struct loop_watch asked_watch;
    struct loop_watch wake;
    _Atomic bool woken; /* A wake-up is pending. */
    _Atomic bool drain;
    _Atomic bool stop;
    _Atomic uint32_t slots; /* Slots in use, of config_clients.streams_max. */
    struct window_listener listener;
    struct watcher_metrics metrics;
    struct thread thread;

    /* Used by the watcher's thread only. */
    struct subscriber *subscriber;
    struct list clients;
    struct list listeners;
    struct list due;
    struct list later;               /* Due in the next turn. */
    struct watcher_client *gatherer; /* The client whose missed events are collected in `gather`. */
    struct pieces gather;
    struct buf text; /* Scratch space for one frame. */
    struct watcher_frames frames;
    struct budget_relief relief;
    uint64_t now_ms;
    uint64_t turn_us;    /* The start of the turn. */
    uint64_t next_ms;    /* When on_time of all clients is called next. */
    uint64_t stalled_ms; /* When the process last resumed after a stall; 0: never. */
    uint64_t check_ms;   /* When to check whether this replica may still answer. */
    bool more;           /* The window holds more events than this turn has handled. */
    bool ended;          /* All clients have been ended. */
};

struct http_watcher *http_watcher_start(struct http *http, watcher_relieve_fn *relieve);

/* Ends all clients, and from then on each new client at once, so that clients go to another
 * replica. Any thread. */
void http_watcher_drain(struct http_watcher *watcher);

/* Returns when all clients are gone. The library's daemons must have been stopped. */
void http_watcher_stop(struct http_watcher *watcher);

/* ---- Any thread ---- */

/* Takes a slot for a client of `conn`. False, with the request refused: all slots are in use. */
bool watcher_take_slot(struct http_conn *conn);

/* Initializes a client of `conn`, for which a slot was taken. */
void watcher_client_init(struct watcher_client *client, const struct watcher_ops *ops,
                         struct http_conn *conn);
void watcher_client_release(struct watcher_client *client); /* Gives the slot back. */
void watcher_call(struct watcher_client *client, enum watcher_call call);

/* ---- The watcher's thread ---- */
/* Registers the client and watches its connection for a close. False: no descriptor is left. */
bool watcher_add(struct watcher_client *client);

/* Makes the watcher call on_change for this client. */
void watcher_listen(struct watcher_client *client);

/* Removes the client's watch, timer and callbacks. May be repeated. */
void watcher_remove(struct watcher_client *client);

/* Makes the watcher call on_due when the subscriber has returned. */
void watcher_due(struct watcher_client *client);

/* True when missed events have used up their time in this turn; on_due will be called in the next
 * turn. So clients that are up to date do not wait for a thousand clients that catch up. */
bool watcher_over_budget(struct watcher_client *client);

/* Makes the watcher call on_time by `at_ms`. */
void watcher_ask_by(struct http_watcher *watcher, uint64_t at_ms);

#endif
