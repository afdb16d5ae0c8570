/*
 * zk_int.h - what the files of this folder share: the front end, a connection, one request.
 *
 * The front end's thread owns everything; members that other threads use are marked. A connection
 * is freed only at the end of its turn (conn.c), so the other files may hold pointers to it while
 * they run. A call lives until it is answered or its connection is gone; a call whose request is in
 * the gate lives until the gate returns the request.
 */
#ifndef ZK_ZK_INT_H
#define ZK_ZK_INT_H

#include "zk/encode.h"
#include "zk/zk.h"

#include "base/budget.h"
#include "base/check.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/mailbox.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/os_clock.h"
#include "base/pieces.h"
#include "base/thread.h"
#include "server/op/ops.h"
#include "server/process/gate.h"
#include "server/process/watch_listing.h"
#include "server/watch/subscribe.h"

#include <ev.h>

enum {
    ZK_READ_BYTES = 64 << 10,   /* Most bytes of one read. */
    ZK_READS_MAX = 4,           /* Reads of one connection before others have their turn. */
    ZK_SMALL_BYTES = 4096,      /* Fewer bytes of frames that are not taken do not count. */
    ZK_CALLS_MAX = 1000,        /* Requests of one connection that wait for their replies. */
    ZK_FLIGHT_BYTES = 16 << 20, /* Memory of these requests. */
    ZK_ALWAYS_BYTES = 512,      /* A request of this size is taken without room, if it is alone. */
    ZK_REPLY_MAX = 16 << 20,    /* Bytes of one reply: clients expect at most 1 to 4 MiB. */
    ZK_LONG_REPLY = 2 << 20,    /* A longer reply is written when others have had their turns. */
    ZK_UNREAD_BYTES = 1 << 20,  /* Unsent bytes at which a client gets no more replies. */
    ZK_SEND_BYTES = 256 << 10,  /* Bytes of replies that are collected for one write. */
    ZK_KEEP_BYTES = 1 << 20,    /* Bytes of scratch memory that are kept. */
    ZK_PUMP_SETS = 256,         /* Transactions handed out before connections have their turn. */
    ZK_SKIPPED_WAKEUPS_MAX =
        64,                 /* Without connections the thread wakes once per so many changes. */
    ZK_WORK_US = 5000,      /* Time of one connection in its turn, */
    ZK_WORK_LEAST_US = 500, /* and while many connections have work. */
    ZK_TURNS_US = 20000,    /* Time of all turns before the thread polls again. */
    ZK_RETRY_MS = 5,        /* Delay before the gate is tried again after it had no room. */
    ZK_TICK_MS = 250,       /* Interval of the checks of all deadlines. */
    ZK_LATE_MS = 250,       /* A tick that is later judges no client. */
    ZK_UNFIT_MS = 1000,  /* A replica that may not answer for this long closes its connections. */
    ZK_LINGER_MS = 3000, /* Time for replies that are due, then the same time for the client to
                            close. */
    ZK_AHEAD_MS = 500,   /* How long a client that has seen a newer state waits for this replica. */
    ZK_OPENING_MS = 1000, /* The least time in which a session may be opened. */
    ZK_TOUCH_MS = 100,    /* A session is touched once in this time at most. */
    ZK_RELIEF_MS = 1000,  /* Memory is short: a client that took nothing for this long is closed. */
    ZK_WORD_LEN = 4,
    ZK_HASH_LEN = TXN_SECRET_HASH_LEN
};

#define ZK_METRICS(X)                                                                           \
    X(connections, gauge, "zabra_native_connections", "Open connections of native clients.")    \
    X(connections_ever, counter, "zabra_native_connections_total",                              \
      "Connections of native clients accepted.")                                                \
    X(sessions, counter, "zabra_native_sessions_total", "Sessions opened by native clients.")   \
    X(takeovers, counter, "zabra_native_takeovers_total",                                       \
      "Sessions that native clients have moved to a connection of this replica.")               \
    X(refused, counter, "zabra_native_sessions_refused_total",                                  \
      "Connections that named a session that has ended, or with a wrong password.")             \
    X(requests, counter, "zabra_native_requests_total", "Requests received, pings included.")   \
    X(replies, counter, "zabra_native_replies_total", "Replies sent, those to pings included.") \
    X(events, counter, "zabra_native_events_total", "Events sent.")                             \
    X(watches, gauge, "zabra_native_watches", "Watches of all native clients.")                 \
    X(pieces, gauge, "zabra_native_unfinished_bytes", "Bytes of requests that are not taken.")  \
    X(words, counter, "zabra_native_words_total", "Command words answered.")                    \
    X(received_bytes, counter, "zabra_native_received_bytes_total", "Bytes received.")          \
    X(sent_bytes, counter, "zabra_native_sent_bytes_total", "Bytes sent.")

enum {
    ZK_REASONS_MAX = 24
};

struct zk_metrics {
    ZK_METRICS(METRIC_MEMBER)
    struct metric_counter closes[ZK_REASONS_MAX]; /* Same indexes as zk_reasons. */
    struct metric_counter ephemerals;
};

struct zk_conn;
struct zk_call;
struct zk_gather;

/* A mailbox that the loop waits on. */
struct zk_inbox {
    struct mailbox box;
    struct ev_io io;
    void (*take)(struct zk *zk, struct list *node);
};

/* What the command words say about the time of requests; of this thread alone. */
struct zk_latency {
    uint64_t count;
    uint64_t sum_us;
    uint64_t least_us;
    uint64_t most_us;
};

struct zk {
    struct gate *gate;
    const struct config_clients *limits;
    void (*give_seat)(void *seat);
    struct thread thread;
    struct ev_loop *loop;
    uint8_t *read;          /* Scratch memory of ZK_READ_BYTES. */
    struct buf out;         /* Frames for `writer` that are not in its queue yet. */
    struct zk_conn *writer; /* NULL: `out` is empty. */
    struct buf event;       /* The event being written. */
    struct blob *shared;    /* Its bytes, if they are long enough to share. */

    struct zk_written { /* What `event` has; zxid 0: nothing that other connections get. */
        zxid_t zxid;
        enum watch_event_type type;
        struct slice path;
    } written;

    struct zk_inbox arrivals; /* From any thread: struct zk_arrival. */
    struct zk_inbox replies;  /* From the core thread: op_request.node. */
    struct zk_inbox asked;    /* From any thread: watch_listing.node. */
    struct ev_async changed;  /* The window has grown, or `draining` or `stopping` has been set. */
    struct ev_prepare turn_end;
    struct ev_timer retry; /* Runs while `held` is not empty. */
    struct ev_timer tick;
    uint64_t tick_ms; /* When the next tick is due. */
    bool late;        /* The last tick was late. */
    struct window_listener listener;

    struct subscriber *subscriber;
    struct list conns;     /* All connections, by zk_conn.node. */
    struct list turn;      /* By zk_conn.turn: connections with something to run or to send. */
    struct list later;     /* By zk_conn.turn: their next turn comes after another poll. */
    struct list longs;     /* By zk_conn.longs: the first call waits to write a long reply. */
    struct list lists;     /* The same, of calls that keep a place meanwhile. */
    bool list_turn;        /* The last long reply was for one of `lists`. */
    bool long_turn;        /* The turn that runs may write a long reply. */
    struct list places;    /* By zk_call.place: calls with a place, which read a long list. */
    struct list placeless; /* By zk_call.place: calls that wait for a place; see zk_fair_push. */
    uint64_t place_rank;   /* The highest rank of those that have waited and got a place. */
    uint64_t now_us;       /* When the clock was read last, for a request or a reply. */
    uint64_t end_us;       /* When the turn that runs ends. */
    struct list held;      /* By zk_conn.held: the gate had no room. */
    struct list waiting;   /* By zk_conn.waiting: a reply waits for changes. */
    struct list stalled;   /* By zk_conn.stalled: unsent bytes, the longest stalled first. */
    struct map attached;   /* From the public id of a session to its connection. */
    bool sessions_unread;  /* A session could not be looked up, because the state was unreadable. */
    struct list roomless;  /* By zk_conn.roomless: `calls` had no room for the next request. */
    bool gave_room;        /* Memory of `calls` was given back, and `roomless` was not asked. */
    struct budget_shares watches; /* Memory of watches. */
    struct budget_shares calls;   /* Memory of requests, until the gate has returned them. */
    struct budget_shares pieces;  /* Bytes of frames that are not taken; see ZK_SMALL_BYTES. */
    uint64_t inside;              /* Requests that the gate holds. */
    uint64_t inside_max;          /* Half of the gate's limit. */
    uint64_t promised;            /* The sum of zk_conn.share. */
    uint32_t fifos;               /* The number given last to a connection as its `fifo`. */
    uint64_t unfit_ms;            /* Since when this replica may not answer requests; 0: it may. */
    struct zk_latency latency;
    struct zk_limits frames;
    struct buf acls;          /* ACLs of the request that is decoded. */
    struct op_principal self; /* Of what this front end asks for itself: the super user's rights. */

    _Atomic uint32_t taken;   /* Any thread: connections that were taken and are not closed. */
    uint32_t skipped_wakeups; /* Core thread: changes that came while there was no connection. */
    _Atomic bool draining;
    _Atomic bool stopping;
    struct mailbox emptied; /* Closed once the front end is draining and no connection is left. */
    struct zk_metrics metrics;
};

enum zk_state {
    ZK_HELLO,   /* Nothing but the first frame, or a command word, is read. */
    ZK_OPENING, /* The session is being opened or moved; nothing is read. */
    ZK_OPEN,
    ZK_CLOSING, /* Replies that are due leave, then the connection ends. */
    ZK_CUT      /* The connection is freed at the end of its turn. */
};

/* Why no requests of a connection are taken now: a set of bits. */
enum zk_stop_bit {
    ZK_STOP_FULL = 1,    /* A limit of requests in flight, by number or by bytes, is reached. */
    ZK_STOP_HELD = 2,    /* The gate has no room. */
    ZK_STOP_UNREAD = 4,  /* The client does not read its replies. */
    ZK_STOP_OPENING = 8, /* The session does not stand yet. */
    ZK_STOP_LAST = 16,   /* The last request was taken, or the connection is closing. */
    ZK_STOP_ROOM = 32    /* Requests of all clients, or of this address, use all their memory. */
};

/* The session of a connection: session.c. */
struct zk_session {
    uint64_t id;     /* Public id; 0: none is attached. */
    uint64_t number; /* Zxid of the attachment. */
    zxid_t owned;    /* Of the newest change of its ephemerals that was handed out, or may be among
                        changes that were lost. */
    uint32_t timeout_ms;
    bool ending; /* The client is closing the session. */
    uint64_t touched_ms;
    uint8_t hash[ZK_HASH_LEN]; /* Of its secret. */
};

/* A session that is being opened or moved: connect.c. */
struct zk_opening {
    struct zk_call *call; /* Its request; NULL: not begun. */
    zxid_t last_zxid;     /* The newest state that the client has seen. */
    uint64_t id;          /* Public id that the client named; 0: a new session. */
    uint32_t timeout_ms;
    bool tells_read_only; /* The answer has a member `readOnly`. */
    bool settled;
    uint64_t since_ms;
    char secret[OP_SECRET_LEN + 1];
    uint8_t password[ZK_PASSWD_BYTES];
};

/* Bytes of events among those that are not sent: `old` until `old_ends` more bytes have left, and
 * `fresh` for longer. They are at most the events of twice the bytes that wait. */
struct zk_unsent {
    size_t old;
    size_t old_ends;
    size_t fresh;
};

/* Node of a queue in which the keys take turns: fair.c. */
struct zk_fair {
    struct list node;
    uint64_t key;
    uint64_t rank; /* Never falls along the queue; it differs for nodes of one key. */
};

struct zk_conn {
    struct zk *zk;
    int fd;
    uint8_t state; /* enum zk_state */
    bool shut;     /* Our side of the connection is shut down. */
    bool arrived;  /* The socket may have bytes, or its end. */
    bool full;     /* The kernel took no more bytes. */
    bool lost;     /* No further reply leaves. */
    bool secure;   /* It has TLS. */
    uint32_t stops;
    uint32_t frame_left; /* With TLS: bytes of the frame at the head of the unsent bytes that are
                            not sent; 0: none of them is. */
    struct ev_io io;     /* One for both directions: most connections are idle. */
    struct list node;
    struct list turn;
    struct zk_fair longs; /* Node in zk.longs or zk.lists: the connection also has other turns
                             meanwhile. */
    void *seat;
    struct op_principal principal;
    struct watch_owner owner;

    struct buf in;        /* Bytes of frames that are not taken. */
    size_t in_counted;    /* Of these, the bytes that count in zk.pieces. */
    uint64_t address_key; /* The key of the client's address in zk.pieces and zk.calls. */

    struct list calls;    /* By zk_call.node, in order of arrival. */
    struct list *next;    /* The first call that is not started; `calls` itself: none. */
    uint64_t share;       /* Requests for which it has room in the gate in its next turn. */
    struct list held;     /* Node in zk.held. */
    struct list roomless; /* Node in zk.roomless. */
    size_t roomless_len;  /* Bytes of the request that found no room. */
    uint32_t fifo;        /* Writes of a FIFO take effect in order. */
    uint32_t count;       /* Calls. */
    uint32_t set_watches; /* Of these, those of setWatches. */
    uint32_t unrun;       /* Started calls that run once all earlier ones are answered. */
    size_t bytes;         /* Memory of the calls. */

    struct pieces out;
    struct zk_unsent events;
    struct list stalled; /* Node in zk.stalled. */
    uint64_t stall_ms;   /* Since when the client takes no bytes; 0: no bytes wait. */

    zxid_t seen;         /* The highest zxid in an event or a reply. */
    struct list waiting; /* Node in zk.waiting. */
    struct zk_session session;
    struct zk_opening *opening; /* NULL: no session is being opened. */

    int unread;           /* Bytes that waited in the socket at the last tick, if it was asked. */
    uint64_t heard_ms;    /* When bytes of the client arrived last. */
    uint64_t deadline_ms; /* For the first frame; of a closing connection: its end. */
    uint64_t identity_ms; /* When the client must have an identity; 0: it has, or needs none. */
    const char *reason;   /* Why it closes: one of zk_reasons. */
    uint32_t received;    /* Requests, for `cons`. */
    uint32_t replied;
    uint64_t since_ms;
};

enum zk_step {
    ZK_NEW,    /* Not started, or waiting to run. */
    ZK_INSIDE, /* The gate has its request. */
    ZK_BACK    /* The gate has returned its request. */
};

/* One request of a client. A call that is answered at once lives on the stack and borrows the bytes
 * of its frame. */
struct zk_call {
    struct list node;
    struct zk *zk;
    struct zk_conn *conn;       /* NULL: the connection is gone. */
    struct op_request *request; /* For the gate; NULL: this thread runs the call. */
    struct zk_request req;
    uint8_t *memory; /* The frame that `req` points into; NULL: it is borrowed, or there is none. */
    struct buf acls; /* ACLs that `req` points into. */
    size_t bytes;    /* Its memory; 0: it is on the stack. */
    uint64_t address_key;
    enum zk_code fault; /* The code to reply without running; ZK_OK: none. */
    bool last;          /* The connection closes after the reply. */
    bool unrun;         /* Counted in zk_conn.unrun. */
    uint8_t step;       /* enum zk_step */
    bool walked;        /* getEphemerals, getAllChildrenNumber: all znodes are read. */
    uint64_t start_us;
    uint64_t waits_since_us;   /* Since when it waits for changes that its reply shows; 0: never. */
    zxid_t from;               /* getEphemerals: the state of the first page. */
    zxid_t upto;               /* The newest state that was read, for requests that read several. */
    uint32_t counted;          /* The same: znodes so far; `acls` has the path of the last one. */
    struct buf names;          /* getEphemerals: paths, encoded. */
    struct zk_gather *gather;  /* Long lists that are being read; NULL: none. */
    struct zk_fair place;      /* Node in zk.places, or in zk.placeless. */
    uint64_t place_since_us;   /* Since when it has a place, or else waits for one; 0: neither. */
    bool placed;               /* It has a place. */
    uint8_t hash[ZK_HASH_LEN]; /* About a session: of its secret. */
};

/* ---- zk.c ---- */

/* zk_start and zk_stop without the thread: a test runs the loop itself. */
struct zk *zk_open(struct gate *gate, void (*give_seat)(void *seat));
void zk_close(struct zk *zk);

/* ---- close.c: how a connection ends ---- */

extern const char *const zk_reasons[ZK_REASONS_MAX]; /* NULL behind the last. */

/* Lets replies that are due leave, and ends the connection. Later calls have no effect. */
void zk_close_begin(struct zk_conn *conn, const char *reason);
void zk_close_cut(struct zk_conn *conn, const char *reason); /* Ends it at once. */

/* Ends it after the replies that are queued; all requests without a reply are dropped. */
void zk_close_lost(struct zk_conn *conn, const char *reason);
bool zk_close_is_begun(const struct zk_conn *conn);

/* ---- turn.c: when a connection has its turn, and whether it is read ---- */
void zk_turn_soon(struct zk_conn *conn);  /* At the end of this round of the loop. */
void zk_turn_later(struct zk_conn *conn); /* After another poll. */

/* Whether this turn may write a long reply to the call. False: another one will, behind those of
 * others, and until then no other reply is written but to pings. */
bool zk_turn_takes_long(struct zk_call *call);

/* Takes the next connection that may write a long reply; NULL: none waits for that. Lists, each of
 * which keeps one of a few places meanwhile, have every second of these turns. */
struct zk_conn *zk_turn_next_long(struct zk *zk);
bool zk_turn_awaits_long(const struct zk *zk); /* Whether some connection waits for that. */
void zk_turn_stop(struct zk_conn *conn, enum zk_stop_bit why, bool stop);

/* The loop waits, or waits no longer, for bytes (EV_READ) or for room (EV_WRITE). */
void zk_turn_await(struct zk_conn *conn, int event, bool on);

/* ---- out.c: bytes to the client ---- */

/* Returns the buffer for frames of this connection. The caller appends whole frames. */
struct buf *zk_out_begin(struct zk_conn *conn);

/* Ends a frame that began at `at`. False when the frame is too large: it is dropped. */
bool zk_out_end(struct zk_conn *conn, size_t at);

/* Queues the frame of an event, in zk->event or zk->shared. */
void zk_out_event(struct zk_conn *conn);
size_t zk_out_unsent(const struct zk_conn *conn);
size_t zk_out_events(const struct zk_conn *conn); /* Of these the events, or somewhat more. */
bool zk_out_is_full(const struct zk_conn *conn);
void zk_out_flush(struct zk_conn *conn); /* May cut the connection. */
void zk_out_release(struct zk_conn *conn);
void zk_out_relieve(struct zk *zk); /* Closes slow clients while memory is short. */

/* ---- fair.c ---- */

/* Adds the node to a queue of such nodes: behind those of its key, and so far in front that between
 * two of them no other key has more than one. Nodes are removed by list_remove. `least`: the lowest
 * rank that it may have. A queue that serves nodes behind its front passes a rank above those that
 * it has served: else a key that is served there would return in front of those that wait. */
void zk_fair_push(struct list *queue, struct zk_fair *node, uint64_t key, uint64_t least);

/* ---- place.c: places for calls of the queue that keep much memory for several turns ---- */

/* Whether the call has a place, or takes one. False: its turn comes when it has one, or is late. */
bool zk_place_take(struct zk_call *call);

/* Gives the place back, or ends the wait for one. */
void zk_place_give(struct zk_call *call);

/* Whether the call has had its place for requestTimeout, or has waited so long for one. */
bool zk_place_is_late(const struct zk_call *call);
void zk_place_tick(struct zk *zk); /* Gives those that wait and are late a turn. */

/* ---- order.c: events before replies ---- */
void zk_order_pump(struct zk *zk, zxid_t until);

/* Whether the reply to this call, which shows the state of `until`, may leave now. False: the
 * connection is in zk.waiting, or it is closed because the changes do not come. */
bool zk_order_allows(struct zk_call *call, zxid_t until);
void zk_order_retry(struct zk *zk);
void zk_order_saw(struct zk_conn *conn, zxid_t zxid);

/* Whether events are missed yet: more than `answered` requests setWatches have no reply, or one of
 * them arrives. */
bool zk_order_lacks(const struct zk_conn *conn, uint32_t answered);

/* Returns the zxid for the header of a frame: -1, which clients do not keep, in this case. */
zxid_t zk_order_told(const struct zk_conn *conn, uint32_t answered);

/* ---- call.c: one request ---- */

/* Whether there is memory for one more request. False: the connection is stopped until there is. */
bool zk_call_has_room(struct zk_conn *conn, struct slice frame);

/* Lets connections continue that found no memory, if some was given back. */
void zk_call_resume(struct zk *zk);

/* Makes a call of the queue with a copy of its frame (without the length). */
struct zk_call *zk_call_new(struct zk_conn *conn, struct slice frame);
bool zk_sets_watches(int32_t type);
void zk_call_done(struct zk_call *take_call);
void zk_call_free(struct zk_call *take_call);
void zk_call_release_all(struct zk_conn *conn);
struct op_request *zk_call_request(struct zk_call *call, enum op_id op);

/* Puts the principal and the session of the connection into the request. */
void zk_call_identify(struct zk_call *call);

/* Keeps room in the gate for so many requests of this connection, until the end of its turn. */
void zk_call_promise(struct zk_conn *conn, uint64_t share);

void zk_call_retry(struct zk *zk); /* Tries again for those in zk.held, in a moment. */

/* Hands the request to the gate. False when the gate has no room; then the connection is held. */
bool zk_call_submit(struct zk_call *call);

/* ---- session.c: the session of a connection ---- */
void zk_session_touch(struct zk_conn *conn); /* The client has sent bytes. */
void zk_session_attach(struct zk_conn *conn, const struct op_session_info *info);
void zk_session_detach(struct zk_conn *conn);
void zk_session_changed(struct zk *zk, const struct state_change *change);
void zk_session_owns(struct zk *zk, uint64_t session, zxid_t zxid); /* Its ephemerals changed. */
void zk_session_look(struct zk_conn *conn);
void zk_session_look_all(struct zk *zk);

/* ---- connect.c: from the first frame to the session ---- */
void zk_connect_begin(struct zk_conn *conn, struct slice frame);
void zk_connect_run(struct zk_conn *conn); /* Continues. */
void zk_connect_release(struct zk_conn *conn);

/* ---- watch.c: watches, and the events that they get ---- */
void zk_watch_open(struct zk *zk);
void zk_watch_close(struct zk *zk);

/* Sends an event without a zxid: the client has missed it, or may miss an earlier one yet. */
void zk_watch_tell(struct zk_conn *conn, enum watch_event_type type, struct slice path);

/* Adds a watch from the state `since` on. */
enum err zk_watch_add(struct zk_conn *conn, enum watch_kind kind, struct slice path, zxid_t since);

/* ---- reply.c: replies ---- */
void zk_reply_code(struct zk_call *call, enum zk_code code);
void zk_reply_result(struct zk_call *call, const struct op_result *result, zxid_t zxid);
void zk_reply_count(struct zk_call *call, enum err err); /* For a reply that was written. */

/* ---- gather.c: long lists of children ---- */

enum zk_gathered {
    ZK_GATHERED_PART,      /* It continues in another turn, which comes by itself. */
    ZK_GATHERED_ALL,       /* `*ret_result` is a multi of all elements, of one state, but for the
                              names in zk_gather_names. The caller releases it. */
    ZK_GATHERED_TOO_LARGE, /* The reply would exceed ZK_REPLY_MAX. */
    ZK_GATHERED_LATE,      /* The lists have changed for requestTimeout, or there was no time. */
    ZK_GATHERED_LOST       /* This replica may not show its state any more. */
};

/* Reads the lists of a call of the queue: getChildren, getChildren2, multiRead. */
enum zk_gathered zk_gather_run(struct zk_call *call, struct op_result *ret_result);

/* Returns the names of each element; NULL without lists that are read like this. */
const struct zk_names *zk_gather_names(const struct zk_gather *gather);
void zk_gather_free(struct zk_gather *take_gather); /* Accepts NULL. */

/* Gives up what was read; the call begins again when it runs. */
void zk_gather_drop(struct zk_call *call);

/* ---- read.c, lists.c, auth.c: requests that this thread runs. True when the request is answered
 * or its connection has ended; false: it runs again. ---- */
bool zk_read_may(struct zk_call *call);
bool zk_read_run(struct zk_call *call);
bool zk_lists_set(struct zk_call *call);
bool zk_lists_add(struct zk_call *call);
bool zk_lists_find(struct zk_call *call);
bool zk_auth_add(struct zk_call *call);
bool zk_auth_show(struct zk_call *call);
bool zk_auth_ephemerals(struct zk_call *call);
bool zk_auth_count(struct zk_call *call);

/* Gives up what getEphemerals has read; it begins again when it runs. */
void zk_auth_forget(struct zk_call *call);

/* ---- run.c ---- */
bool zk_run(struct zk_call *call);

/* Gives up what the call has read in a place, and its place; it begins again when it runs. A call
 * that waits for a place continues to wait. */
void zk_run_again(struct zk_call *call);

/* ---- queue.c: requests in order ---- */

/* Takes a frame, which comes without its length. False: there is no room for it now. */
bool zk_queue_take(struct zk_conn *conn, struct slice frame);

/* Whether the client may have another reply; else ZK_STOP_UNREAD is set, or the connection is lost.
 * May send what is collected, and cut the connection. */
bool zk_queue_takes_more(struct zk_conn *conn);
void zk_queue_run(struct zk_conn *conn);
void zk_queue_back(struct zk *zk, struct op_request *take_request);

/* ---- words.c ---- */
void zk_words_answer(struct zk_conn *conn, struct slice name);

/* ---- tick.c ---- */
void zk_tick(struct zk *zk);

/* ---- conn.c: the life of a connection, its bytes ---- */

/* A connection that was handed over and is not adopted yet. */
struct zk_arrival {
    struct list node;
    int fd;
    struct op_principal principal;
    void *seat;
};

void zk_conn_adopt(struct zk *zk, struct zk_arrival *take_arrival);
void zk_conn_turn(struct zk_conn *conn); /* May free it. */
void zk_conn_free(struct zk_conn *conn);

#endif
