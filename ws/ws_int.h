/*
 * ws_int.h - what the files of this folder share: the front end, a socket, one message.
 *
 * Owner of everything is the thread of the sockets, except for what is marked. A socket lives as
 * long as the library's connection; a message as long as its reply is due or the gate holds its
 * request, whichever is longer.
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
    WS_READ_BYTES = 32768, /* Read from a connection at a time. Of a connection whose messages wait,
                              up to twice as much is kept. */
    WS_SKIPPED_WAKEUPS_MAX = 64, /* Without sockets the thread wakes once per this many changes. */
    WS_FEW_BYTES = 64 << 10,     /* Of missed events in a queue, while memory is short. */
    WS_TURN_BYTES = 1 << 20,     /* Sent to one socket before the next socket has its turn. */
    WS_KERNEL_BYTES = 256 << 10, /* Send buffer of one socket in the kernel. */
    WS_UNREAD_BYTES = 1 << 20,   /* Bytes of unread replies at which a client gets no more. */
    WS_FLIGHT_BYTES = 16 << 20,  /* Messages of one socket that are not answered yet. */
    WS_REPLY_MAX = 64 << 20,     /* Bytes of one reply. */
    WS_DIFF_MAX = 64 << 20,      /* Unsent bytes at which a difference ends as a gap. */
    WS_KEEP_BYTES = 1 << 20,     /* Scratch memory that is kept between messages. */
    WS_BLOCK_BYTES = 64 << 10,   /* Of a large reply, encoded for one write. */
    WS_PUMP_SETS = 256,          /* Transactions handed out before sockets have their turn. */
    WS_CATCH_UPS = 64,           /* Watches that catch up before sockets have their turn. */
    WS_WORK_US = 5000,           /* Time for each of: catching up, watches that resume in one turn,
                                    the messages of one socket in its turn. */
    WS_TURNS_US = 20000,         /* Time for all turns before the thread polls again. */
    WS_ROUNDS = 4,               /* Least rounds that a read waits for missed events. */
    WS_RETRY_MS = 5,             /* After the gate had no room, until it is tried again. */
    WS_RELIEF_CLOSE_MS = 250,    /* A socket that took nothing for so long is slow: no memory. */
    WS_RELIEF_LAST_MS = 1000,    /* How long after a refusal short memory counts as full. */
    WS_RELIEF_BYTES = 4 << 10,   /* Least unsent bytes of a socket that is closed for memory. */
    WS_REFUSED_BYTES = 16 << 10, /* Answers to reads above this size need room. */
    WS_LOOK_MS = 500,            /* Between checks whether this replica may answer at all. */
    WS_UNFIT_MS = 1000,          /* How long it may be unfit before sockets are closed. */
    WS_LINGER_MS = 3000,         /* For a client to take the last bytes and close. */
    WS_SILENT_BEATS = 3,         /* Heartbeat intervals without a byte: the client is gone. */
    WS_BEATS_PER_TIMEOUT = 3,    /* Pings within the time-out of an attached session. */
    WS_BURST_US = 1000000,       /* How far ahead of its rate limit a socket may be. */
    WS_PARTS = 3,                /* Of an event, besides what is shared. */
    WS_CODES = 12,               /* Close codes, "none" included. */
    WS_IDS_MAX = WATCH_KINDS + STATE_DEPTH_MAX, /* Watches of a socket that one event can match. */
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
    struct metric_counter closes[WS_CODES]; /* By index in ws_codes. */
};

/* The last event in JSON without its "watches": all sockets that wait for it refer to it. */
struct ws_payload {
    struct buf text;
    struct blob *shared; /* The same, when it is large enough; else NULL. */
    struct buf path;     /* Of the event. */
    size_t split;        /* Where "watches" go. */
    zxid_t zxid;         /* 0: none. */
    const struct state_change *change;
    enum watch_event_type type;
    bool last;
    bool values;
    enum op_dataformat format; /* Of values. */
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
    struct ws_socket *adopting; /* Being handed to the library; NULL once it is gone. */

    struct ws_inbox arrivals; /* Any thread; of struct ws_arrival. */
    struct ws_inbox replies;  /* Core thread; of op_request.node. */
    struct ws_inbox asked;    /* Any thread; of struct watch_listing.node. */
    struct ev_async changed;  /* The window has grown, or `draining` or `stopping` has been set. */
    struct ev_prepare turn_end;
    struct ev_timer retry; /* Runs while `held` is not empty. */
    struct ev_timer look;
    struct window_listener listener;

    struct subscriber *subscriber;
    struct list sockets; /* Of ws_socket.node. */
    struct list turn;    /* Of ws_socket.turn: something to run or to send. */
    struct list later;   /* Of ws_socket.turn: their next turn comes after another poll. */
    uint64_t polls;      /* How often the loop has polled. */
    uint64_t resume_us;  /* When the first watch of this turn resumed; 0: none yet. */
    struct list held;    /* Of ws_socket.queue.held: the gate had no room. */
    struct list line;    /* Of ws_socket.lags.line: with watches that may catch up now. */
    struct list stalled; /* Of ws_socket.out.stalled, by stall_ms: sockets with unsent bytes. */
    struct list waiting; /* Of ws_socket.order.waiting: with a reply whose changes have not come. */
    struct map attached; /* From the public id of a session to the socket that has it. */
    size_t bytes; /* Of messages that are not answered yet, and of bytes kept of sockets that are
                     not read; at pool_bytes_max each socket may have one message. */
    struct budget_shares pieces; /* Bytes of incomplete messages. */
    uint64_t inside;             /* Requests that the gate holds. */
    uint64_t inside_max; /* Half of the gate's limit; near the limit the gate refuses some. */
    uint32_t fifos;      /* Given to sockets so far. */
    uint64_t unfit_ms;   /* Since when this replica may not answer; 0: it may. */
    struct rng rng;
    struct buf scratch; /* The event or short reply being written. */
    struct text answer; /* The result being written. */
    uint8_t *block;     /* WS_BLOCK_BYTES of a large reply, encoded for one write. */
    struct buf limits_json;
    struct ws_payload payload;

    struct ws_relief { /* By overrun.c. */
        struct budget_relief times;
        uint64_t refusals;      /* Of the budget, at the last look, ... */
        uint64_t refused_until; /* ... and until when the newest of them counts, in ms. */
    } relief;

    struct ws_answering {             /* By events.c, while a watch is added. */
        struct ws_message *message;   /* Its reply goes before the watch's first event. */
        const struct op_result *read; /* The read that the watch goes with; NULL: a plain watch. */
        struct subscribe_result result;
        bool replied;
        bool failed; /* An error was replied instead. */
    } answering;

    _Atomic uint32_t taken;   /* Any thread: connections taken and not closed. */
    uint32_t skipped_wakeups; /* Core thread: new changes while there was no socket. */
    _Atomic bool draining;
    _Atomic bool stopping;
    struct mailbox emptied; /* Closed once it is draining and no socket is left. */
    struct ws_metrics metrics;
};

/* Why no messages of a socket are taken now; any of these. */
enum ws_stop {
    WS_STOP_FULL = 1,    /* maxInFlight, or bytes in flight. */
    WS_STOP_RATE = 2,    /* maxMessagesPerSecond. */
    WS_STOP_HELD = 4,    /* The gate has no room. */
    WS_STOP_UNREAD = 8,  /* The client does not read its replies. */
    WS_STOP_CLOSING = 16 /* For good. */
};

/* What arrives from the client: read.c and turn.c. */
struct ws_intake {
    uint32_t stops; /* Of enum ws_stop. */
    struct ws_frame_reader frames;
    struct buf kept;         /* Bytes that wait until messages are taken again. */
    bool reads;              /* The library is to read, ... */
    uint64_t reads_since_ms; /* ... since then. */
    /* All bytes that arrive were sent after this time, but may have waited unread in the kernels of
     * both sides: when the socket was read last, or the time of a later ping whose pong has
     * arrived. 0: bytes are read as they are sent, since the pong of a ping that was sent after
     * reading resumed. */
    uint64_t behind_ms;
    struct buf message;      /* A message that arrives in pieces, ... */
    uint64_t message_end_ms; /* ... which must be complete by then; 0: none. */
    uint64_t address_key;    /* Of the client, in ws.pieces. */
    uint64_t rate_us;        /* When the next message would be within the rate limit. */
};

/* Its messages in order: run.c and message.c. */
struct ws_queue {
    struct list messages; /* Of ws_message.node, in order of arrival. */
    struct list *next;    /* The first that is not started; `messages` itself: none. */
    struct list held;     /* In ws.held. */
    uint32_t fifo;        /* Of its requests: its writes take effect in order. */
    uint32_t count;       /* Of messages. */
    size_t bytes;         /* Of their texts. */
    uint32_t unrun;       /* Started messages that run once all before them are answered. */
    uint64_t ran_poll;    /* The poll (of ws.polls) after which messages were run last. */
};

/* Bytes to the client: out.c. */
struct ws_out {
    struct pieces pieces; /* Frames. */
    bool full;            /* The kernel's buffer was full, and the library has not said since that
                             there is room. */
    bool dry;             /* Nothing is left that can be sent later instead: overrun.c. */
    bool pong_due;        /* The newest ping is to be answered with this. */
    uint8_t pong_len;
    uint8_t pong[WS_FRAME_CONTROL_MAX];
    uint64_t pong_end;   /* A pong is under way until `sent` reaches this. */
    size_t replies;      /* Bytes of replies that are not all sent, ... */
    uint64_t replied;    /* ... and what `sent` will be when they are. */
    uint64_t sent;       /* Bytes handed to the kernel. */
    uint64_t taken;      /* Bytes that have arrived at the client, as of `stall_ms`. */
    uint64_t stall_ms;   /* Since when the client takes nothing; 0: nothing waits. */
    struct list stalled; /* In ws.stalled. */
};

/* What the client has seen: lags.c and events.c. */
struct ws_order {
    zxid_t seen;         /* The highest zxid in an event or a reply. */
    zxid_t last_event;   /* Of the last event queued; 0: none, or events were discarded since. */
    struct list waiting; /* In ws.waiting. */
};

/* A watch whose events are discarded until it catches up. */
struct ws_lag {
    uint32_t watch;
    bool gap; /* It cannot catch up: the client receives a gap. */
    zxid_t from;
};

/* What the client has missed: lags.c and overrun.c. */
struct ws_lags {
    struct ws_lag *list; /* From `first` to `count`. */
    uint32_t first;
    uint32_t count;
    uint32_t cap;
    struct list line; /* In ws.line. */
    bool catching;    /* One of them is catching up. */
    bool must_empty;  /* None catches up before everything else is sent. */
    uint32_t rounds;  /* For which reads have waited for missed events; ... */
    zxid_t round_end; /* ... this round waits for all below that. */
};

/* The session: session.c. */
struct ws_session {
    struct ws_attached {
        uint64_t id; /* Public; 0: none is attached. */
        uint64_t number;
        uint32_t timeout_ms;
        uint8_t hash[TXN_SECRET_HASH_LEN];
    } attached;

    bool attaching;    /* An `attach` is under way, and not answered yet; ... */
    uint64_t moved_to; /* ... meanwhile the session got this attachment number; 0: none. */
    bool ending;       /* The client is closing it. */
    enum err lost;     /* It was lost: later messages are refused with this. */
};

/* Time, in ms: turn.c and beat.c. */
struct ws_clock {
    struct ev_timer timer;
    uint64_t due_ms;   /* When the timer fires. */
    bool late;         /* It fired late the last time. */
    uint64_t heard_ms; /* When bytes of the client arrived last. */
    uint64_t beat_ms;  /* The next heartbeat. */
    uint64_t ping_ms;  /* The next ping. */
    uint64_t alive;    /* Bytes that had arrived at the client at the last check for life. */
};

/* Its end: close.c. */
struct ws_closing {
    enum ws_code code;      /* To close with; 0: it is not closing. */
    const char *reason;     /* For the last message. */
    const char *rule;       /* That the client broke, for the close frame; NULL: `reason`. */
    uint64_t leave_ms;      /* When replies that have to wait are abandoned; 0: not closing. */
    bool replies_abandoned; /* That time has come. */
    bool mute;              /* Its queue was discarded: only the end is still sent. */
    bool farewell;          /* Our close frame, the last frame of all, is queued. */
    uint64_t end_ms;        /* When the connection is cut; 0: no close frame is queued. */
    bool parted;            /* Further bytes are ignored, after its close frame or a fault. */
    bool shut;              /* Our side of the connection is shut down. */
};

struct ws_socket {
    struct ws *ws;
    struct lws *wsi; /* NULL before it is adopted. */
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
    WS_BACK    /* The request came back. */
};

/* One message of a client. */
struct ws_message {
    struct list node;
    struct ws *ws;
    struct ws_socket *socket; /* NULL: gone. */
    struct op_request *request;
    struct op_message_id id;
    enum ws_step step;
    size_t bytes;            /* Of its text. */
    bool in_order;           /* Runs when all before it are answered. */
    bool about_session;      /* Its operation names a session by itself. */
    bool prepared;           /* ws_session_prepare was called. */
    bool settled;            /* Its effect on the socket's session is done. */
    bool unrun;              /* Counted in its queue's `unrun`. */
    bool asked;              /* Its read needs the gate's permission, and has asked for it. */
    uint64_t waits_since_us; /* Waits for changes that its reply shows; 0: it has not waited. */
    struct op_fault *fault;  /* It was refused, or NULL. */
    char *secret;            /* Of the session that it opens, or NULL. */
    uint8_t hash[TXN_SECRET_HASH_LEN];
    uint64_t start_us;
};

/* ---- turn.c: when a socket has its turn, and whether it is read ---- */

/* The socket has its turn at the end of this round of the loop; or of the next one, after another
 * poll. */
void ws_turn_soon(struct ws_socket *socket);
void ws_turn_later(struct ws_socket *socket);

/* True when watches that resume have used their time in this round: the socket has its turn later.
 * Thousands of watches resume at once when a replica is lost. */
bool ws_turn_waits_to_resume(struct ws_socket *socket);

void ws_timer_set(struct ws_socket *socket, uint64_t at_ms);
void ws_timer_at(struct ws_socket *socket, uint64_t ms);      /* Not later than that. */
uint64_t ws_timer_ping_every(const struct ws_socket *socket); /* In ms. */
void ws_timer_session_changed(struct ws_socket *socket);      /* Pings follow its time-out. */

/* Stops or continues taking messages. */
void ws_intake_stop(struct ws_socket *socket, enum ws_stop why, bool stop);
void ws_intake_pace(struct ws_socket *socket); /* Starts or stops reading. */

/* No byte of the client can have waited unread for longer than requestTimeout. */
bool ws_intake_is_fresh(const struct ws_socket *socket);

/* A message that comes in pieces. False: incomplete messages of all sockets, or of this address,
 * use their memory, so the socket must be closed and others can complete theirs. The last piece
 * always fits. */
bool ws_intake_add(struct ws_socket *socket, struct slice piece, bool last);
void ws_intake_await_rest(struct ws_socket *socket);
void ws_intake_drop_message(struct ws_socket *socket);

/* ---- out.c: frames ---- */

/* The writer for one message into ws->scratch, and its end: one text frame. False: too large; then
 * nothing was queued. */
struct jsonw ws_out_begin(struct ws *ws);
bool ws_out_end(struct ws_socket *socket, enum piece_kind kind);
bool ws_out_reply(struct ws_socket *socket); /* The same of a reply. */

/* Queues the result in ws->answer as a reply. A large one keeps its references to the values, and
 * is encoded while it is sent. ERR_TOO_LARGE, or ERR_THROTTLED when it does not fit into
 * maxUnsentBytes and it `may_refuse`: then nothing was queued. */
enum err ws_out_answer(struct ws_socket *socket, bool may_refuse);

/* A frame of WS_PARTS parts, and then the bytes of `shared` from `shared_at` on. */
void ws_out_event(struct ws_socket *socket, const struct piece_tag *tag,
                  const struct slice parts[WS_PARTS], struct blob *shared, size_t shared_at);
void ws_notice_gap(struct ws_socket *socket, uint32_t watch, zxid_t zxid);
void ws_notice_overrun(struct ws_socket *socket, const uint32_t *watches, size_t count,
                       zxid_t from);
void ws_out_ping(struct ws_socket *socket);

/* Our close frame, the last of all. `code` 0: none. */
void ws_out_close(struct ws_socket *socket, uint16_t code, const char *reason);
size_t ws_out_unsent(const struct ws_socket *socket);
bool ws_out_is_full(const struct ws_socket *socket); /* Of replies. */
bool ws_out_flush(struct ws_socket *socket);         /* False: the connection is broken. */

/* Have more than `*taken` bytes arrived at the client? Raises `*taken`. Also true when no bytes are
 * under way. */
bool ws_out_is_taken(const struct ws_socket *socket, uint64_t *taken);
void ws_out_moves(struct ws_socket *socket, uint64_t now_ms); /* The client has taken bytes. */
void ws_out_release(struct ws_socket *socket);

/* ---- message.c: one message ---- */
struct ws_message *ws_message_new(struct ws_socket *socket, struct slice text);
void ws_message_done(struct ws_message *message); /* It is answered. */
void ws_message_free(struct ws_message *message); /* Its socket is gone. */
void ws_message_release_all(struct ws_socket *socket);
bool ws_message_has_field(const struct op_def *def, enum op_field_type type);

/* Refuses a message when its turn comes; the first refusal stays. */
void ws_message_refuse(struct ws_message *message, enum err err, const char *detail);

/* Puts principal and session into the request, as they are now. */
void ws_message_identify(struct ws_message *message);

/* Hands the message's request to the gate. False: no room, the socket is held. */
bool ws_message_submit(struct ws_message *message);

/* ---- lags.c: what a client has seen and missed ---- */
void ws_lags_add(struct ws_socket *socket, uint32_t watch, zxid_t from, bool gap);
void ws_lags_resumed(struct ws_socket *socket, uint32_t id);       /* A watch with `since`. */
zxid_t ws_lags_bound(const struct ws_socket *socket, zxid_t zxid); /* Or less: a lag's. */
void ws_lags_forget(struct ws_socket *socket);                     /* All. */

/* Names the newest ones to the client. */
void ws_lags_notify(struct ws_socket *socket, uint32_t newest);

bool ws_lags_any(const struct ws_socket *socket);

/* Discards the events queued after the last reply, and notifies the client; they are sent later. */
void ws_lags_cut(struct ws_socket *socket);

/* Events before replies. */
extern const char ws_order_taking_over[];

void ws_order_saw(struct ws_socket *socket, zxid_t zxid); /* In an event or a reply. */

/* The newest zxid up to which all events have been queued: a reply or heartbeat may name it. */
zxid_t ws_order_complete(const struct ws_socket *socket);
void ws_order_pump(struct ws *ws, zxid_t until); /* Hands out all changes up to there. */

/* May the reply to this message, which shows the state of `until`, leave? False: events must leave
 * first. When their changes have not come to this replica's window yet, the socket is in
 * ws.waiting, and the message is refused when they do not come within requestTimeout. */
bool ws_order_allows(struct ws_message *message, zxid_t until);
void ws_order_retry(struct ws *ws); /* Sockets in ws.waiting try again. */

/* ---- reply.c ---- */
void ws_reply_plain(struct ws_message *message); /* With nothing but a zxid. */
void ws_reply_fault(struct ws_message *message); /* With its refusal. */
void ws_reply_error(struct ws_message *message, enum err err, const char *detail); /* NULL: text. */
void ws_reply_failure(struct ws_message *message, const struct op_result *result);

/* With the id of a watch, 0: none. False: an error was replied instead. */
bool ws_reply_result(struct ws_message *message, const struct op_result *result, uint32_t watch);
void ws_reply_watch(struct ws_message *message, const struct subscribe_result *result);

/* The caller writes the members between these. */
struct jsonw ws_reply_begin(struct ws_message *message, zxid_t zxid);
void ws_reply_end(struct ws_message *message, struct jsonw *json);

/* ---- close.c: how a socket ends ---- */

/* The codes that the server closes sockets with; 0: closed by its client, or a broken connection.
 */
extern const enum ws_code ws_codes[WS_CODES];

void ws_close_count(struct ws *ws, enum ws_code code); /* In the metrics. */

/* Answers pending messages, gives the reason, and closes; the first reason stays. */
void ws_close_begin(struct ws_socket *socket, enum ws_code code, const char *reason);
void ws_close_slow(struct ws_socket *socket);     /* Drops its messages: it reads too little. */
void ws_close_farewell(struct ws_socket *socket); /* The last frames, once they are due. */
void ws_close_part(struct ws_socket *socket);     /* Our end, after both close frames. */
void ws_close_cut(struct ws_socket *socket);      /* At once, without a frame. */

/* ---- overrun.c: clients that do not keep up ---- */
void ws_overrun_relieve(struct ws *ws); /* Between turns: it may close sockets. */

/* On an event: holds watches that must wait, and returns the rest of the chain. */
struct watch *ws_overrun_hold(struct ws_socket *socket, struct watch *hits,
                              const struct watch_event *event);
void ws_overrun_lost(struct ws *ws, zxid_t from);
void ws_overrun_eased(struct ws_socket *socket); /* Bytes have left. */
void ws_overrun_catch_up(struct ws *ws);         /* A bounded part. */

/* Does a message that shows the present have to wait for events that its client has missed? It is
 * refused when the wait exceeds requestTimeout, or the events will not be sent. */
bool ws_overrun_waits(struct ws_message *message);

/* ---- session.c: what is attached ---- */

/* Before a message runs: makes its secret, hashes it, or takes the hash of the attached session.
 * False: it means the attached session, and there is none. */
bool ws_session_prepare(struct ws_message *message);
void ws_session_keep(struct ws_socket *socket);    /* Touches the attached session. */
void ws_session_touch(struct ws_message *message); /* Touches a session that it names. */
void ws_session_back(struct ws_message *message);  /* Back from the gate. */
bool ws_session_run(
    struct ws_message *message); /* For writes about a session: true, when it is answered. */
void ws_session_detach(struct ws_socket *socket);
void ws_session_changed(struct ws *ws, zxid_t zxid, const struct state_change *change);
void ws_session_look(struct ws_socket *socket); /* Is the session still attached? */

/* ---- events.c: events, and the watches that they are for ---- */
void ws_events_open(struct ws *ws);
void ws_events_close(struct ws *ws);

/* Adds a watch, and replies to `message` before the watch's first event. With `read` the watch
 * begins after that answer, which is the reply. Events that precede the reply must have left. On an
 * error there is no reply yet. */
enum err ws_events_watch(struct ws_message *message, const struct op_result *read,
                         const struct subscribe_request *request);

/* ---- run.c: messages in order ---- */
void ws_queue_message(struct ws_socket *socket, struct slice text);
void ws_queue_run(struct ws_socket *socket);            /* For WS_WORK_US. */
bool ws_queue_is_ready(const struct ws_socket *socket); /* It may have something to run. */
void ws_queue_eased(struct ws_socket *socket);          /* Bytes have left. */
void ws_queue_back(struct ws *ws, struct op_request *take_request);

/* ---- read.c: a client's bytes ---- */
void ws_read_bytes(struct ws_socket *socket, uint8_t *bytes, size_t len); /* Unmasks them. */
void ws_read_kept(struct ws_socket *socket); /* Takes kept bytes, as far as messages are taken. */

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

#endif
