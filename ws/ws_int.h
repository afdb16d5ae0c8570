/*
 * ws_int.h - what the files of this folder share: the front end, a socket, one message.
 *
 * The sockets' thread owns everything; members that other threads use are marked. A socket lives as
 * long as the connection of libwebsockets ("the library"). A message lives until it is answered or
 * its socket is gone; a message whose request is in the gate lives until the gate returns the
 * request.
 */
#ifndef WS_WS_INT_H
#define WS_WS_INT_H

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
#include "base/rng.h"
#include "base/thread.h"
#include "server/json/op_json.h"
#include "server/process/gate.h"
#include "server/process/watch_listing.h"
#include "server/watch/subscribe.h"
#include "ws/frame.h"
#include "ws/ws.h"

#include <ev.h>
#include <libwebsockets.h>

enum {
    WS_READ_BYTES = 32768, /* Most bytes of one read. While a connection's messages wait, up to
                              2 * WS_READ_BYTES of its bytes are kept. */
    WS_SKIPPED_WAKEUPS_MAX = 64, /* Without sockets the thread wakes once per this many changes. */
    WS_FEW_BYTES = 64 << 10,     /* Most bytes of missed events in a queue while memory is short. */
    WS_TURN_BYTES = 1 << 20,     /* Bytes sent to one socket before the next socket has its turn. */
    WS_KERNEL_BYTES = 256 << 10, /* Bytes of one socket's send buffer in the kernel. */
    WS_UNREAD_BYTES = 1 << 20, /* Bytes of unread replies at which a client gets no more replies. */
    WS_FLIGHT_BYTES = 16 << 20, /* Bytes of one socket's messages that are not answered yet. */
    WS_REPLY_MAX = 64 << 20,    /* Bytes of one reply. */
    WS_DIFF_MAX = 64 << 20,     /* Unsent bytes above which a gap replaces a difference. */
    WS_KEEP_BYTES = 1 << 20,    /* Bytes of scratch memory that are kept between messages. */
    WS_BLOCK_BYTES = 64 << 10,  /* Bytes of a large reply that are encoded for one write. */
    WS_PUMP_SETS = 256,         /* Transactions handed out before sockets have their turn. */
    WS_CATCH_UPS = 64,          /* Watches that catch up before sockets have their turn. */
    WS_WORK_US = 5000,   /* Time limit of each of four tasks: catching up in a round, resuming in a
                            round, running the messages of one socket, letting events out. */
    WS_TURNS_US = 20000, /* Time limit of all turns before the thread polls again. */
    WS_EVENTS_US = 2000, /* A round that takes longer lets events out this often: events.c. */
    WS_ROUNDS = 4,       /* A waiting read is not refused before this many rounds of catching up. */
    WS_RETRY_MS = 5,     /* Delay before the gate is tried again after it had no room. */
    WS_RELIEF_CLOSE_MS = 250,  /* A socket that stalls this long may be closed to free memory. */
    WS_RELIEF_LAST_MS = 1000,  /* BUDGET_SHORT counts as full this long after bytes were refused. */
    WS_RELIEF_BYTES = 4 << 10, /* A socket with fewer unsent bytes is not closed to free memory. */
    WS_REFUSED_BYTES = 16 << 10, /* A larger reply to a read is refused while memory is full. */
    WS_LOOK_MS = 500,    /* Interval of the check whether this replica may answer requests. */
    WS_UNFIT_MS = 1000,  /* A replica that may not answer for this long closes its sockets. */
    WS_LINGER_MS = 3000, /* Time for pending replies, then the same time for the client to close. */
    WS_SILENT_BEATS = 3, /* A client that sends no byte for so many heartbeats is gone. */
    WS_BEATS_PER_TIMEOUT = 3, /* Pings within the time-out of an attached session. */
    WS_BURST_US = 1000000,    /* How far ahead of its rate limit a socket may be. */
    WS_PARTS = 3,             /* Parts of an event's frame, besides the shared part. */
    WS_CODES = 12,            /* Number of close codes, with WS_CODE_NONE. */
    WS_IDS_MAX = WATCH_KINDS + STATE_DEPTH_MAX, /* Most watches per socket that match one event. */
    WS_KEY_LEN = 24,                            /* Sec-WebSocket-Key: 16 bytes in base64. */
    WS_SECRET_LEN = OP_SECRET_LEN
};

struct ws_socket;

#define WS_METRICS(X)                                                                     \
    X(sockets, gauge, "zabra_ws_sockets", "Open WebSocket connections.")                  \
    X(sockets_ever, counter, "zabra_ws_sockets_total", "WebSocket connections accepted.") \
    X(messages, counter, "zabra_ws_messages_total", "Messages received from clients.")    \
    X(events, counter, "zabra_ws_events_total", "Events sent.")                           \
    X(watches, gauge, "zabra_ws_watches", "Watches of all WebSocket connections.")        \
    X(pieces, gauge, "zabra_ws_unfinished_bytes", "Bytes of incomplete messages.")        \
    X(overruns, counter, "zabra_ws_overruns_total",                                       \
      "Watches whose events were discarded because their client was slow.")               \
    X(gaps, counter, "zabra_ws_gaps_total", "Gaps reported to clients.")                  \
    X(refused_unsent, counter, "zabra_ws_unsent_refused_total",                           \
      "Reads refused because their reply did not fit into maxUnsentBytes.")               \
    X(sent_bytes, counter, "zabra_ws_sent_bytes_total", "Bytes sent.")

struct ws_metrics {
    WS_METRICS(METRIC_MEMBER)
    struct metric_counter closes[WS_CODES]; /* Same indexes as ws_codes. */
};

/* What an event contains for one socket: all that the matching watches of this socket want. The
 * event has stat and data (`values`) if any of these watches wants them. The data has the format of
 * the oldest watch whose format is not OP_NONE (no data). */
struct ws_wish {
    bool values;
    enum op_dataformat format;
    uint32_t watch;
};

/* The last event in JSON, without its member "watches": the part that the frames of all sockets
 * share. */
struct ws_payload {
    struct buf text;
    struct blob *shared;      /* The bytes of `text` if it is long enough to share; else NULL. */
    struct buf path;          /* The event's path. */
    size_t split;             /* Where "watches" is inserted in `text`. */
    struct watch_event event; /* `zxid` 0: there is no event to share. */
    struct ws_wish wish;
};

/* A mailbox that the loop waits on. */
struct ws_inbox {
    struct mailbox box;
    struct ev_io io;
    void (*take)(struct ws *ws, struct list *node);
};

struct ws {
    struct gate *gate;
    const struct config_clients *limits;
    void (*give_seat)(void *seat);
    struct thread thread;
    struct ev_loop *loop;
    struct lws_context *context;
    struct lws_vhost *vhost;
    uint8_t *unread;            /* Scratch memory of WS_READ_BYTES: see ws_library_read_unread. */
    struct ws_socket *adopting; /* Socket being handed to the library; NULL once it is freed. */

    struct ws_inbox arrivals; /* From any thread: struct ws_arrival. */
    struct ws_inbox replies;  /* From the core thread: op_request.node. */
    struct ws_inbox asked;    /* From any thread: watch_listing.node. */
    struct ev_async changed;  /* The window has grown, or `draining` or `stopping` has been set. */
    struct ev_check turn_begin;
    struct ev_prepare turn_end;
    struct ev_timer retry; /* Runs while `held` is not empty. */
    struct ev_timer look;
    struct window_listener listener;

    struct subscriber *subscriber;
    struct list sockets; /* All sockets, by ws_socket.node. */
    struct list turn;    /* By ws_socket.turn: sockets with something to run or to send. */
    struct list later;   /* By ws_socket.turn: sockets whose next turn comes after another poll. */
    struct list news;    /* By ws_socket.out.news: sockets with an event that is not sent yet. */
    uint64_t news_us;    /* When this round began, or let events out last. */
    uint64_t polls;      /* How often the loop has polled. */
    uint64_t resume_us;  /* When the first watch of this round resumed; 0: no watch has. */
    struct list held;    /* By ws_socket.queue.held: sockets for which the gate had no room. */
    struct list line;    /* By ws_socket.lags.line: sockets whose watches may catch up now. */
    struct list stalled; /* By ws_socket.out.stalled: sockets with unsent bytes, by stall_ms. */
    struct list waiting; /* By ws_socket.order.waiting: sockets whose reply waits for changes. */
    struct map attached; /* From the public id of a session to the socket that it is attached to. */
    bool sessions_unread; /* A session could not be looked up, because the state was unreadable. */
    size_t bytes; /* Memory of messages, until the gate has returned them, and of kept input, of
                     all sockets. From pool_bytes_max on, each socket may have one message. */
    struct budget_shares pieces;  /* Bytes of incomplete messages. */
    struct budget_shares watches; /* Memory of watches. */
    uint64_t inside;              /* Requests that the gate holds. */
    uint64_t inside_max; /* Half of the gate's limit: near it the gate refuses some requests. */
    uint32_t fifos;      /* The number given last to a socket as its `fifo`. */
    uint64_t unfit_ms;   /* Since when this replica may not answer requests; 0: it may. */
    struct rng rng;
    struct buf scratch; /* The event or short reply being written. */
    struct text answer; /* The result being written. */
    uint8_t *block;     /* WS_BLOCK_BYTES for the part of a large reply that one write sends. */
    struct buf limits_json;
    struct ws_payload payload;

    struct ws_relief { /* Used by overrun.c. */
        struct budget_relief times;
        uint64_t refusals;      /* The budget's count of refusals at the last check. */
        uint64_t refused_until; /* Until when short memory counts as full, in ms. */
    } relief;

    struct ws_answering {           /* Used by events.c while a watch is added. */
        struct ws_message *message; /* The message whose reply precedes the watch's first event. */
        const struct op_result *read; /* Result of the read to reply with, or NULL. */
        struct subscribe_result result;
        bool replied;
        bool failed; /* An error was replied instead. */
    } answering;

    _Atomic uint32_t taken;   /* Any thread: connections that were taken and are not closed. */
    uint32_t skipped_wakeups; /* Core thread: changes that came while there was no socket. */
    _Atomic bool draining;
    _Atomic bool stopping;
    struct mailbox emptied; /* Closed once the front end is draining and no socket is left. */
    struct ws_metrics metrics;
};

/* Why no messages of a socket are taken now: a set of bits. */
enum ws_stop {
    WS_STOP_FULL = 1,    /* A limit of messages in flight, by number or by bytes, is reached. */
    WS_STOP_RATE = 2,    /* The limit maxMessagesPerSecond is exceeded. */
    WS_STOP_HELD = 4,    /* The gate has no room. */
    WS_STOP_UNREAD = 8,  /* The client does not read its replies. */
    WS_STOP_CLOSING = 16 /* The socket is closing. This bit stays. */
};

/* What arrives from the client: read.c and turn.c. */
struct ws_intake {
    uint32_t stops; /* Bits of enum ws_stop. */
    struct ws_frame_reader frames;
    struct buf kept;         /* Bytes that wait until messages are taken again. */
    bool reads;              /* The library reads from the connection. */
    uint64_t reads_since_ms; /* When the library resumed reading last. */
    /* The earliest time at which the client can have sent the bytes that arrive now: bytes may have
     * waited unread in both kernels. If it is 0 when reading stops, it is set to the current time.
     * The pong of a later ping raises it to the time of that ping. 0: no bytes wait, because
     * reading never stopped, or a pong has answered a ping that was sent after reading resumed. */
    uint64_t behind_ms;
    struct buf message;      /* The pieces of an incomplete message. */
    uint64_t message_end_ms; /* When this message must be complete; 0: no message has begun. */
    uint64_t address_key;    /* The key of the client's address in ws.pieces. */
    uint64_t rate_us;        /* When the next message would be within the rate limit. */
};

/* The messages of a socket in order: run.c and message.c. */
struct ws_queue {
    struct list messages; /* By ws_message.node, in order of arrival. */
    struct list *next;    /* The first message that is not started; `messages` itself: none. */
    struct list held;     /* Node in ws.held. */
    uint32_t fifo;        /* FIFO of its requests: the writes of a FIFO take effect in order. */
    uint32_t count;       /* Number of messages. */
    size_t bytes;         /* Memory of the messages. */
    uint32_t unrun;       /* Started messages that run once all earlier messages are answered. */
    uint64_t ran_poll;    /* The value of ws.polls when messages were run last. */
};

/* Bytes to the client: out.c. */
struct ws_out {
    struct pieces pieces; /* Frames. */
    bool full;     /* The kernel's buffer was full, and the library has not reported room since. */
    bool dry;      /* No event is queued that could be discarded and sent later: overrun.c. */
    bool pong_due; /* `pong` must be sent, as the answer to the newest ping. */
    uint8_t pong_len;
    uint8_t pong[WS_FRAME_CONTROL_MAX];
    uint64_t pong_end;   /* A pong is unsent until `sent` reaches this value. */
    size_t replies;      /* Bytes of replies queued since the last time that no reply was unsent. */
    uint64_t replied;    /* What `sent` will be when all replies are sent. */
    uint64_t sent;       /* Bytes handed to the kernel. */
    uint64_t taken;      /* Bytes that had arrived at the client when its pace was last checked. */
    uint64_t stall_ms;   /* Since when the client takes no bytes; 0: no bytes wait. */
    struct list stalled; /* Node in ws.stalled. */
    struct list news;    /* Node in ws.news. */
};

/* What the client has seen: lags.c and events.c. */
struct ws_order {
    zxid_t seen;         /* The highest zxid in an event or a reply. */
    zxid_t last_event;   /* The zxid of the last event queued; 0: none, or events were discarded
                            since. */
    struct list waiting; /* Node in ws.waiting. */
};

/* A held watch: its events after `from` are discarded until it catches up. */
struct ws_lag {
    uint32_t watch;
    bool gap; /* It cannot catch up: the client receives a gap. */
    zxid_t from;
};

/* What the client has missed: lags.c and overrun.c. */
struct ws_lags {
    struct ws_lag *list; /* Valid from index `first` up to, not including, `count`. */
    uint32_t first;
    uint32_t count;
    uint32_t cap;
    struct list line; /* Node in ws.line. */
    bool catching;    /* A watch of the list is catching up. */
    bool must_empty;  /* No watch catches up before all queued bytes are sent. */
    uint32_t rounds;  /* Rounds of catching up (overrun.c) that reads have waited for. */
    zxid_t round_end; /* The current round ends when all lags below this zxid have caught up. */
};

/* The session of a socket: session.c. */
struct ws_session {
    struct ws_attached {
        uint64_t id; /* Public id; 0: no session is attached. */
        uint64_t number;
        uint32_t timeout_ms;
        uint8_t hash[TXN_SECRET_HASH_LEN];
    } attached;

    bool attaching;    /* An `attach` has started and is not answered yet. */
    uint64_t moved_to; /* Zxid of the newest attachment seen while `attaching`; 0: none. */
    bool ending;       /* The client is closing the session. */
    enum err lost;     /* The session was lost: later messages are refused with this error. */
};

/* Time, in ms: turn.c and beat.c. */
struct ws_clock {
    struct ev_timer timer;
    uint64_t identity_ms; /* When the client must have sent `auth`; 0: it has an identity, or needs
                             none. */
    uint64_t due_ms;      /* When the timer fires. */
    bool late;            /* The timer fired late the last time. */
    uint64_t heard_ms;    /* When bytes of the client arrived last. */
    uint64_t beat_ms;     /* When the next heartbeat is due. */
    uint64_t ping_ms;     /* When the next ping is due. */
    uint64_t alive;       /* Bytes that had arrived at the client at the last check for life. */
};

/* The end of a socket: close.c. */
struct ws_closing {
    enum ws_code code;  /* The code to close with; 0: the server is not closing the socket. */
    const char *reason; /* The reason in the event `closing`. */
    const char *rule;   /* The rule that the client broke, for the close frame; NULL: `reason`. */
    uint64_t leave_ms;  /* When replies that still wait are abandoned; 0: not closing. */
    bool replies_abandoned; /* `leave_ms` has passed. */
    bool mute;              /* The queue was discarded; only `closing` and the close frame leave. */
    bool farewell;          /* Our close frame, the last frame of all, is queued. */
    uint64_t end_ms;        /* When the connection is cut; 0: no close frame is queued. */
    bool parted; /* The client sent a close frame or broke a rule: its bytes are ignored. */
    bool shut;   /* Our side of the connection is shut down. */
};

struct ws_socket {
    struct ws *ws;
    struct lws *wsi; /* NULL before the library has adopted the socket. */
    struct list node;
    struct list turn;
    void *seat;
    struct op_principal principal;
    struct watch_owner owner;
    bool open; /* The handshake is done, and the connection is not cut. */
    struct ws_intake intake;
    struct ws_queue queue;
    struct ws_out out;
    struct ws_order order;
    struct ws_lags lags;
    struct ws_session session;
    struct ws_clock clock;
    struct ws_closing closing;
};

enum ws_step {
    WS_NEW,    /* Not started, or waiting to run. */
    WS_INSIDE, /* The gate has its request. */
    WS_BACK    /* The gate has returned its request. */
};

/* One message of a client. */
struct ws_message {
    struct list node;
    struct ws *ws;
    struct ws_socket *socket; /* NULL: the socket is gone. */
    struct op_request *request;
    struct op_message_id id;
    enum ws_step step;
    size_t bytes;            /* Its memory. */
    bool in_order;           /* It runs when all earlier messages are answered. */
    bool about_session;      /* Its operation is about a session. */
    bool prepared;           /* ws_session_prepare was called. */
    bool settled;            /* Its result was applied to the socket's session. */
    bool unrun;              /* It is counted in its queue's `unrun`. */
    bool asked;              /* The gate was asked for a quorum round, or to wait for a zxid. */
    uint64_t waits_since_us; /* Since when it waits for changes that its reply shows; 0: never. */
    struct op_fault *fault;  /* Why it was refused; NULL: it was not refused. */
    char *secret;            /* The secret of the session that it opens, or NULL. */
    uint8_t hash[TXN_SECRET_HASH_LEN];
    uint64_t start_us;
};

/* ---- turn.c: when a socket has its turn, and whether it is read ---- */

/* ws_turn_soon gives the socket its turn at the end of this round of the loop, ws_turn_later at the
 * end of the next round, after another poll. */
void ws_turn_soon(struct ws_socket *socket);
void ws_turn_later(struct ws_socket *socket);

/* True when watches that resume from a zxid have used up their time in this round; then the socket
 * has its turn later. Thousands of watches resume at once when their replica is lost. */
bool ws_turn_waits_to_resume(struct ws_socket *socket);

void ws_timer_set(struct ws_socket *socket, uint64_t at_ms);
void ws_timer_at(struct ws_socket *socket, uint64_t ms);      /* Fires at `ms` or earlier. */
uint64_t ws_timer_ping_every(const struct ws_socket *socket); /* Interval of pings in ms. */
void ws_timer_session_changed(struct ws_socket *socket);      /* Pings follow the time-out. */

/* Stops or continues taking messages. */
void ws_intake_stop(struct ws_socket *socket, enum ws_stop why, bool stop);
void ws_intake_pace(struct ws_socket *socket); /* Starts or stops reading. */

/* True when no byte of the client can have waited unread for longer than requestTimeout. */
bool ws_intake_is_fresh(const struct ws_socket *socket);

/* Appends a piece to an incomplete message. False when the incomplete messages of all sockets, or
 * those of this client's address, have used up their memory; then the socket must be closed, so
 * that other sockets can complete their messages. The last piece always fits. */
bool ws_intake_add(struct ws_socket *socket, struct slice piece, bool last);
void ws_intake_await_rest(struct ws_socket *socket);
void ws_intake_drop_message(struct ws_socket *socket);

/* ---- out.c: frames ---- */

/* ws_out_begin returns a writer for one message in ws->scratch. ws_out_end queues the message as
 * one text frame; false when the message is too large, then nothing was queued. */
struct jsonw ws_out_begin(struct ws *ws);
bool ws_out_end(struct ws_socket *socket, enum piece_kind kind);
bool ws_out_reply(struct ws_socket *socket); /* ws_out_end for a reply. */

/* Queues the result in ws->answer as a reply. A large result keeps its references to the values,
 * and is encoded while it is sent. On an error nothing was queued. ERR_TOO_LARGE: the result
 * exceeds WS_REPLY_MAX. ERR_THROTTLED: the result does not fit into maxUnsentBytes, and
 * `may_refuse` is true. */
enum err ws_out_answer(struct ws_socket *socket, bool may_refuse);

/* Queues a frame of WS_PARTS parts, followed by the bytes of `shared` from `shared_at` on. */
void ws_out_event(struct ws_socket *socket, const struct piece_tag *tag,
                  const struct slice parts[WS_PARTS], struct blob *shared, size_t shared_at);
void ws_notice_gap(struct ws_socket *socket, uint32_t watch, zxid_t zxid);
void ws_notice_overrun(struct ws_socket *socket, const uint32_t *watches, size_t count,
                       zxid_t from);
void ws_out_ping(struct ws_socket *socket);

/* Queues our close frame, the last frame of all. `code` 0: the frame has no code. */
void ws_out_close(struct ws_socket *socket, uint16_t code, const char *reason);
size_t ws_out_unsent(const struct ws_socket *socket);
bool ws_out_is_full(const struct ws_socket *socket); /* No more replies may be queued. */
bool ws_out_flush(struct ws_socket *socket);         /* False: the connection is broken. */

/* True when more than `*taken` bytes have arrived at the client, or all sent bytes have arrived.
 * Sets `*taken` to the number of bytes that have arrived. */
bool ws_out_is_taken(const struct ws_socket *socket, uint64_t *taken);
void ws_out_moves(struct ws_socket *socket, uint64_t now_ms); /* The client has taken bytes. */
void ws_out_release(struct ws_socket *socket);

/* ---- message.c: one message ---- */
struct ws_message *ws_message_new(struct ws_socket *socket, struct slice text);
void ws_message_done(struct ws_message *message); /* For an answered message. */
void ws_message_free(struct ws_message *message); /* For a message whose socket is gone. */
void ws_message_release_all(struct ws_socket *socket);
bool ws_message_has_field(const struct op_def *def, enum op_field_type type);

/* Marks a message as refused; the refusal is sent when all earlier messages are answered. A message
 * that is marked already keeps its first refusal. */
void ws_message_refuse(struct ws_message *message, enum err err, const char *detail);

/* Puts the socket's current principal and session into the request. */
void ws_message_identify(struct ws_message *message);

/* Hands the message's request to the gate. False when the gate has no room; then the socket is
 * held. */
bool ws_message_submit(struct ws_message *message);

/* ---- lags.c: what a client has seen and missed ---- */
void ws_lags_add(struct ws_socket *socket, uint32_t watch, zxid_t from, bool gap);
void ws_lags_resumed(struct ws_socket *socket, uint32_t id); /* Drops old lags of a watch. */

/* Returns the lowest of `zxid` and the `from` of all lags. */
zxid_t ws_lags_bound(const struct ws_socket *socket, zxid_t zxid);
void ws_lags_forget(struct ws_socket *socket); /* Frees all lags. */

/* Sends overrun notices for the lags that were added last; `newest` is their number. */
void ws_lags_notify(struct ws_socket *socket, uint32_t newest);

bool ws_lags_any(const struct ws_socket *socket);

/* Discards the events queued after the last frame that must arrive, such as a reply, and notifies
 * the client. The discarded events are sent later. */
void ws_lags_cut(struct ws_socket *socket);

/* The functions ws_order_* keep each event ahead of the replies that show its effect. */
extern const char ws_order_taking_over[];

void ws_order_saw(struct ws_socket *socket, zxid_t zxid); /* Notes a zxid that was sent. */

/* Returns the newest zxid up to which all events have been queued; replies and heartbeats may name
 * this zxid. */
zxid_t ws_order_complete(const struct ws_socket *socket);
void ws_order_pump(struct ws *ws, zxid_t until); /* Hands out all changes up to `until`. */

/* Whether the reply to this message, which shows the state of `until`, may leave now. False when
 * events must leave first. If their changes are not yet in this replica's window, the socket is put
 * into ws.waiting; the message is refused when they do not come within requestTimeout. */
bool ws_order_allows(struct ws_message *message, zxid_t until);
void ws_order_retry(struct ws *ws); /* Sockets in ws.waiting try again. */

/* ---- reply.c ---- */
void ws_reply_plain(struct ws_message *message); /* The reply has only a zxid. */
void ws_reply_fault(struct ws_message *message); /* The reply is its refusal. */

/* `detail` NULL: the reply has the text of `err`. */
void ws_reply_error(struct ws_message *message, enum err err, const char *detail);
void ws_reply_failure(struct ws_message *message, const struct op_result *result);

/* Replies with the result and the id of the watch that was added (0: none). False when an error was
 * replied instead. */
bool ws_reply_result(struct ws_message *message, const struct op_result *result, uint32_t watch);
void ws_reply_watch(struct ws_message *message, const struct subscribe_result *result);

/* The caller writes the reply's members between these two calls. */
struct jsonw ws_reply_begin(struct ws_message *message, zxid_t zxid);
void ws_reply_end(struct ws_message *message, struct jsonw *json);

/* ---- close.c: how a socket ends ---- */

/* The codes that the server closes sockets with, and WS_CODE_NONE for sockets that the client
 * closed or whose connection broke. */
extern const enum ws_code ws_codes[WS_CODES];

extern const char ws_anonymous[]; /* The reason to close a socket without an identity. */

void ws_close_count(struct ws *ws, enum ws_code code); /* Counts a close in the metrics. */

/* Answers pending messages, sends the reason, and closes. A later call for the socket has no
 * effect. */
void ws_close_begin(struct ws_socket *socket, enum ws_code code, const char *reason);
void ws_close_slow(struct ws_socket *socket);     /* Drops replies and messages, and closes. */
void ws_close_farewell(struct ws_socket *socket); /* Queues the last frames once they are due. */
void ws_close_part(struct ws_socket *socket);     /* Shuts down our side after both close frames. */
void ws_close_cut(struct ws_socket *socket);      /* Ends the connection at once. */

/* ---- overrun.c: clients that do not keep up ---- */
void ws_overrun_relieve(struct ws *ws); /* For use between turns: may close sockets. */

/* Called for each event, with the list (by hit_next) of the socket's watches that get the event.
 * Holds those that get it later; returns the list of the others. */
struct watch *ws_overrun_hold(struct ws_socket *socket, struct watch *hits,
                              const struct watch_event *event);
void ws_overrun_lost(struct ws *ws, zxid_t from);
void ws_overrun_eased(struct ws_socket *socket); /* For use after bytes were sent. */
void ws_overrun_catch_up(struct ws *ws);         /* Catches up some watches of ws.line. */

/* Whether a message whose reply shows the current state must wait for missed events. The message is
 * refused when the wait exceeds both requestTimeout and WS_ROUNDS rounds, or when these events will
 * not be sent any more. */
bool ws_overrun_waits(struct ws_message *message);

/* ---- session.c: what is attached ---- */

/* Prepares a message about a session before it runs: makes a secret, hashes the given secret, or
 * takes the hash of the attached session. False when there should be one and none is attached. */
bool ws_session_prepare(struct ws_message *message);
void ws_session_keep(struct ws_socket *socket);    /* Touches the attached session. */
void ws_session_touch(struct ws_message *message); /* Touches the session that `message` names. */
void ws_session_back(struct ws_message *message);  /* Its request came back from the gate. */

/* Runs a write about a session. True when the message is answered. */
bool ws_session_run(struct ws_message *message);
void ws_session_detach(struct ws_socket *socket);
void ws_session_changed(struct ws *ws, zxid_t zxid, const struct state_change *change);
/* Checks whether the session has ended or moved. If the state cannot be read now, the timer `look`
 * checks again. */
void ws_session_look(struct ws_socket *socket);
void ws_session_look_all(struct ws *ws);

/* ---- events.c: events, and the watches that they are for ---- */
void ws_events_open(struct ws *ws);
void ws_events_close(struct ws *ws);

/* Sends new events when WS_EVENTS_US have passed; for use between two pieces of work of a round. */
void ws_events_let_out(struct ws *ws);

/* Adds a watch, and replies to `message` before the watch's first event. `read` is the result to
 * reply with, and the watch begins right after the state of this result; NULL: the message only
 * adds a watch. All events that precede the reply must have been queued before the call. On an
 * error no reply was queued. */
enum err ws_events_watch(struct ws_message *message, const struct op_result *read,
                         const struct subscribe_request *request);

/* ---- run.c: messages in order ---- */
void ws_queue_message(struct ws_socket *socket, struct slice text);
void ws_queue_run(struct ws_socket *socket);            /* Runs messages for about WS_WORK_US. */
bool ws_queue_is_ready(const struct ws_socket *socket); /* A message may be ready to run. */
void ws_queue_eased(struct ws_socket *socket);          /* For use after bytes were sent. */
void ws_queue_back(struct ws *ws, struct op_request *take_request);

/* ---- read.c: a client's bytes ---- */
void ws_read_bytes(struct ws_socket *socket, uint8_t *bytes, size_t len); /* Unmasks `bytes`. */
void ws_read_kept(struct ws_socket *socket); /* Takes kept bytes while messages are taken. */

/* ---- beat.c: time ---- */
void ws_beat_start(struct ws_socket *socket);
void ws_beat_look(struct ws *ws); /* Closes sockets when this replica may not answer. */

/* ---- library.c: libwebsockets, and the life of a socket ---- */

/* A connection that was handed over and is not adopted yet. */
struct ws_arrival {
    struct list node;
    int fd;
    size_t head_len;
    char key[WS_KEY_LEN + 1];
    struct op_principal principal;
    void *seat;
};

bool ws_library_open(struct ws *ws);
void ws_library_close(struct ws *ws);

/* Gives the connection to the library; when that fails, closes it and frees the socket. */
void ws_library_adopt(struct ws *ws, struct ws_arrival *take_arrival);

/* Reads the bytes of which the library's loop does not know; a turn begins with them. */
void ws_library_read_unread(struct ws_socket *socket);

#endif
