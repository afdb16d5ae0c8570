/*
 * ws_int.h - what the files of this folder share: the front end, a socket, one message.
 *
 * Owner of everything is the thread of the sockets, except for what is marked. A socket lives as
 * long as the library's connection; a message as long as its reply is due or the gate holds its
 * request, whichever is longer.
 */
#ifndef WS_WS_INT_H
#define WS_WS_INT_H

#include "base/list.h"
#include "base/mailbox.h"
#include "base/map.h"
#include "base/metric.h"
#include "base/pieces.h"
#include "base/rng.h"
#include "base/thread.h"
#include "server/json/op_json.h"
#include "server/process/census.h"
#include "server/process/gate.h"
#include "server/watch/subscribe.h"
#include "ws/frame.h"
#include "ws/ws.h"

#include <ev.h>
#include <libwebsockets.h>

enum {
    WS_READ_BYTES = 32768,   /* Of a connection, at a time; twice as much of one whose messages
                                wait is kept. */
    WS_UNHEARD_MAX = 64,     /* Times of news after which the thread looks without any socket. */
    WS_FEW_BYTES = 64 << 10, /* Of what a client has missed, while room is short. */
    WS_TURN_BYTES = 1 << 20, /* Sent to one socket before others have their turn. */
    WS_KERNEL_BYTES = 256 << 10, /* Of one socket that the kernel may hold. */
    WS_UNREAD_BYTES = 1 << 20,   /* Of replies that a client has not read: no more are made. */
    WS_FLIGHT_BYTES = 16 << 20,  /* Of messages of one socket that are not answered yet. */
    WS_ALL_BYTES = 256 << 20,    /* The same of all, with what has been read of sockets that may not
                                    be read on; beyond it each socket may have one. */
    WS_PIECES_BYTES = 256 << 20, /* Of messages of all that are not whole yet. */
    WS_REPLY_MAX = 64 << 20,     /* Bytes of one reply. */
    WS_DIFF_MAX = 64 << 20,      /* Unsent bytes at which a difference ends as a gap. */
    WS_KEEP_BYTES = 1 << 20,     /* Of scratch memory between messages. */
    WS_BLOCK_BYTES = 64 << 10,   /* Of a large reply, encoded for one write. */
    WS_PUMP_SETS = 256,          /* Transactions told before sockets have their turn. */
    WS_CATCH_UPS = 64,           /* Watches that catch up before sockets have their turn. */
    WS_WORK_US = 5000,           /* The same in time; for watches that resume in a turn; and for
                                    the messages of one socket in its turn. */
    WS_TURNS_US = 20000,         /* Turns, before the thread reads what has arrived meanwhile. */
    WS_ROUNDS = 4,               /* That reads wait at least for what their client has missed. */
    WS_RETRY_MS = 5,             /* Until the gate is asked again after it had no room. */
    WS_RELIEF_MS = 50,           /* Between looks at who is slowest, when that brings nothing. */
    WS_RELIEF_GRACE_MS = 1000,   /* Has taken nothing for so long: slow, when room is short. */
    WS_RELIEF_CLOSE_MS = 250,    /* The same, when there is none left at all. */
    WS_RELIEF_LAST_MS = 1000,    /* While it is short, a refusal counts as none left for so long. */
    WS_RELIEF_BYTES = 4 << 10,   /* What waits for one that is closed then, at least. */
    WS_REFUSED_BYTES = 16 << 10, /* Answers to reads beyond that need room. */
    WS_LOOK_MS = 500,            /* Between looks at whether this replica may answer at all. */
    WS_UNFIT_MS = 1000,          /* How long it may be unfit before sockets are closed. */
    WS_LINGER_MS = 3000,         /* For a client to take the last bytes and close. */
    WS_SILENT_BEATS = 3,         /* Heartbeats without a sign of the client: it is gone. */
    WS_BEATS_PER_TIMEOUT = 3,    /* Pings within the time-out of an attached session. */
    WS_BURST_US = 1000000,       /* How far ahead of its rate a socket may be. */
    WS_PARTS = 3,                /* Of an event, besides what is shared. */
    WS_CODES = 12,               /* Close codes, none included. */
    WS_IDS_MAX = WATCH_KINDS + STATE_DEPTH_MAX, /* Watches of a socket that one event can match. */
    WS_KEY_LEN = 24,                            /* Sec-WebSocket-Key: 16 bytes in base64. */
    WS_SECRET_LEN = OP_SECRET_LEN
};

/* Close codes, documented in README.md. */
enum ws_code {
    WS_CODE_NONE = 0,
    WS_CODE_GOING_AWAY = 1001,
    WS_CODE_PROTOCOL = 1002,
    WS_CODE_NOT_TEXT = 1003,
    WS_CODE_NOT_UTF8 = 1007,
    WS_CODE_POLICY = 1008,
    WS_CODE_TOO_LARGE = 1009,
    WS_CODE_NO_ROOM = 1013,
    WS_CODE_SESSION_ENDED = 4408,
    WS_CODE_SESSION_MOVED = 4409,
    WS_CODE_UNFIT = 4503,
    WS_CODE_SLOW = 4508,
};

struct ws_socket;

struct ws_metrics {
    struct metric_counter sockets; /* Open now. */
    struct metric_counter sockets_ever;
    struct metric_counter messages;
    struct metric_counter events;
    struct metric_counter overruns; /* Watches whose events were thrown away. */
    struct metric_counter gaps;
    struct metric_counter refused_unsent; /* Reads without room in maxUnsentBytes. */
    struct metric_counter sent_bytes;
    struct metric_counter watches;
    struct metric_counter pieces;           /* Bytes of messages that are not whole yet. */
    struct metric_counter closes[WS_CODES]; /* By row of the table in metrics.c. */
};

/* The last event in JSON without its "watches": all who wait for it refer to it. */
struct ws_payload {
    struct buf text;
    struct blob *shared; /* The same, when it is large enough; else NULL. */
    struct buf path;     /* Of the event. */
    size_t split;        /* Where "watches" go. */
    zxid_t zxid;         /* 0: none. */
    const struct change *change;
    enum watch_event_type type;
    bool last;
    bool values;
    enum op_dataformat format; /* Of values. */
};

struct ws {
    struct gate *gate;
    const struct gate_limits *limits;
    void (*give_seat)(void *seat);
    struct thread thread;
    struct ev_loop *loop;
    struct lws_context *context;
    struct lws_vhost *vhost;
    struct ws_socket *adopting; /* Being handed to the library; NULL once it is gone. */

    struct mailbox arrivals; /* Any thread; of struct ws_arrival. */
    struct mailbox replies;  /* Core thread; of op_request.node. */
    struct mailbox asked;    /* Any thread; of struct census.node. */
    struct ev_io arrivals_io;
    struct ev_io replies_io;
    struct ev_io asked_io;
    struct ev_async changed; /* The window has grown. */
    struct ev_async command; /* `draining` or `stopping` has been set. */
    struct ev_prepare turn_end;
    struct ev_timer retry; /* Runs while `held` is not empty. */
    struct ev_timer look;
    struct window_listener listener;

    struct subscriber *subscriber;
    struct list sockets; /* Of ws_socket.node. */
    struct list turn;    /* Of ws_socket.turn: something to run or to send. */
    struct list later;   /* Of ws_socket.turn: their next turn comes behind another poll. */
    uint64_t polls;      /* So often the loop has looked for what has arrived. */
    uint64_t resume_us;  /* When the first watch of this turn resumed; 0: none yet. */
    struct list held;    /* Of ws_socket.held: the gate had no room. */
    struct list behind;  /* Of ws_socket.behind: with watches that may catch up now. */
    struct list stalled; /* Of ws_socket.stalled, by stall_ms: something waits for them. */
    uint64_t relief_ms;  /* When to look again for what the slowest can do without, */
    uint64_t early_ms;   /* and while there is some room. */
    uint64_t refusals;   /* Of the budget, as of the last look at it, ... */
    uint64_t refused_ms; /* ... and until when the newest of them counts. */
    struct list untold;  /* Of ws_socket.untold: a reply of theirs shows what is still to come. */
    struct map attached; /* Of the public id of a session to the socket it is attached to. */
    size_t bytes;        /* Of messages that are not answered yet, and of what is kept unread. */
    size_t pieces;       /* Bytes of messages that are not whole yet ... */
    size_t pieces_max;   /* ... and of how many there is room. */
    uint64_t inside;     /* Requests that the gate holds. */
    uint64_t inside_max; /* Half of what it takes: beyond all of it single ones would be refused. */
    uint32_t lanes;      /* Given to sockets so far. */
    uint64_t unfit_ms;   /* Since when this replica may not answer; 0: it may. */
    struct rng rng;
    struct buf scratch; /* The event or short reply being written. */
    struct text answer; /* The result being written. */
    uint8_t *block;     /* WS_BLOCK_BYTES of a large reply, encoded for one write. */
    struct buf limits_json;
    struct ws_payload payload;

    struct ws_answering {
        struct ws_message *message;   /* A watch is being added for it: the reply goes first. */
        const struct op_result *read; /* It goes with this answer; NULL: it was asked for alone. */
        struct subscribe_result result;
        bool said;
        bool failed; /* The answer could not be given. */
    } answering;

    _Atomic uint32_t taken; /* Any thread: connections taken and not closed. */
    uint32_t unheard;       /* Core thread: times that there was news while there was no socket. */
    _Atomic bool draining;
    _Atomic bool stopping;
    struct mailbox emptied; /* Closed once it is draining and no socket is left. */
    struct ws_metrics metrics;
};

/* Why no messages of a socket are taken now; any of these. */
enum ws_stop {
    WS_STOP_FULL = 1,    /* maxInFlight, or bytes of what is in flight. */
    WS_STOP_RATE = 2,    /* maxMessagesPerSecond. */
    WS_STOP_HELD = 4,    /* The gate has no room. */
    WS_STOP_UNREAD = 8,  /* The client does not read its replies. */
    WS_STOP_CLOSING = 16 /* For good. */
};

/* The session attached here. */
struct ws_attached {
    uint64_t id; /* Public; 0: none. */
    uint64_t number;
    uint32_t timeout_ms;
    uint8_t hash[TXN_SECRET_HASH_LEN];
};

/* A watch whose events are thrown away until it catches up. */
struct ws_lag {
    uint32_t watch;
    bool gap; /* It cannot: only a gap can be told. */
    zxid_t from;
};

struct ws_socket {
    struct ws *ws;
    struct lws *wsi; /* NULL before it is adopted. */
    struct list node;
    struct list turn;
    struct list held;
    struct list behind;
    struct list stalled;
    struct list untold;
    void *seat;
    struct op_principal who;
    struct watch_owner owner;
    uint32_t lane;  /* Of its requests: its writes take effect in order. */
    bool open;      /* The handshake is done, and the library still takes bytes. */
    uint32_t stops; /* Of enum ws_stop. */

    /* What it asks. */
    struct ws_frame_reader frames;
    struct buf kept;      /* Bytes read that wait until messages may be taken again. */
    bool reads;           /* The library is to read, ... */
    uint64_t read_ms;     /* ... since this time. */
    uint64_t behind_ms;   /* Bytes wait, or may have waited, and all that come were sent after this
                             time; 0: they come as they are sent. */
    struct buf in;        /* A message that comes in pieces ... */
    uint64_t in_end_ms;   /* ... and must be whole by then; 0: none. */
    struct list messages; /* Of ws_message.node, in order of arrival. */
    struct list *next;    /* First of them that is not started; `messages` itself: none. */
    uint32_t count;       /* Of them. */
    size_t bytes;         /* Of their texts. */
    uint32_t unrun;       /* Started ones that run only when all before them are answered. */
    uint64_t ran;         /* The poll (of ws.polls) behind which messages were run last. */
    uint64_t rate_us;     /* When it would be on time again at its rate. */

    /* What it is told. */
    struct pieces out; /* Frames. */
    bool full;         /* The kernel has not taken all it was offered, and has not said since that
                          it takes more. */
    bool dry;          /* Nothing is left in `out` that could be told later instead. */
    bool must_empty;   /* What it has missed is told once nothing else waits. */
    bool pong_due;     /* The newest ping is to be answered with this. */
    uint8_t pong_len;
    uint8_t pong[WS_FRAME_CONTROL_MAX];
    uint64_t pong_end;   /* A pong is on its way until `sent` is that. */
    zxid_t seen;         /* Highest zxid that it was told. */
    zxid_t told;         /* Of its last event. */
    struct ws_lag *lags; /* From `lag_first` to `lag_count`. */
    uint32_t lag_first;
    uint32_t lag_count;
    uint32_t lag_cap;
    bool catching;    /* One of them catches up. */
    uint32_t rounds;  /* In which its reads have waited for what it has missed, */
    zxid_t round_end; /* in this one for all below that. */
    size_t replies;   /* Bytes of those that have not all been sent, ... */
    uint64_t replied; /* ... as they will be when `sent` is that. */

    /* Its session. */
    struct ws_attached session;
    bool attaching;    /* It is being attached here, and no reply says so yet ... */
    uint64_t moved_to; /* ... and has got this number meanwhile; 0: no. */
    bool ending;       /* It is being closed from here. */
    enum err lost;     /* It went without being asked: what is asked now is refused with this. */

    /* Time, in ms. */
    struct ev_timer timer;
    uint64_t heard_ms; /* Bytes of the client have arrived. */
    uint64_t beat_ms;  /* Next heartbeat. */
    uint64_t ping_ms;  /* Next ping. */
    uint64_t stall_ms; /* Since when it has taken nothing of what waits; 0: nothing waits. */
    uint64_t sent;     /* Bytes handed to the kernel. */
    uint64_t taken;    /* Bytes that have arrived at the client, as of `stall_ms` ... */
    uint64_t alive;    /* ... and of the last look whether there is a client. */
    uint64_t due_ms;   /* When the timer fires. */
    bool late;         /* The last look came late. */
    uint64_t leave_ms; /* Then replies that it cannot be given are given up; 0: not ending. */
    bool gives_up;     /* It is then. */
    uint64_t end_ms;   /* Then it is cut off; 0: no farewell was said. */
    enum ws_code code; /* It is to be closed with this; 0: it is not. */
    const char *reason;
    const char *rule; /* Which the client has broken, for the close frame; NULL: as `reason`. */
    bool mute;        /* What waited for it was thrown away: nothing more is told but the end. */
    bool farewell;    /* Our close frame, the last of all, is in `out`. */
    bool parted;      /* Nothing of interest comes any more: a close frame has come, or a fault. */
    bool shut;        /* Nor do we send anything. */
};

enum ws_step {
    WS_NEW,    /* Not started, or waiting for its turn to run. */
    WS_INSIDE, /* The gate has its request. */
    WS_BACK    /* It came back. */
};

/* One message of a client. */
struct ws_message {
    struct list node;
    struct ws *ws;
    struct ws_socket *socket; /* NULL: gone. */
    struct op_request *request;
    struct op_message_id id;
    enum ws_step step;
    size_t bytes;           /* Of its text. */
    bool in_order;          /* Runs when all before it are answered. */
    bool about_session;     /* Its row names a session by itself. */
    bool prepared;          /* ws_session_prepare was called. */
    bool settled;           /* What it does to its session is done. */
    bool unrun;             /* Counted in its socket's `unrun`. */
    bool asked;             /* The gate was asked to let it read. */
    uint64_t untold_us;     /* Since when it waits for changes that its reply shows; 0: it has not.
                             */
    struct op_fault *fault; /* It was refused, or NULL. */
    char *secret;           /* Of the session that it opens, or NULL. */
    uint8_t hash[TXN_SECRET_HASH_LEN];
    uint64_t start_us;
};

/* ---- turn.c: the end of a turn of the loop ---- */

/* Something is to be run or sent at the end of this turn of the loop; or of the next one, behind
 * what arrives until then. */
void ws_turn_soon(struct ws_socket *socket);
void ws_turn_later(struct ws_socket *socket);

/* True when watches that resume have taken long enough in this turn: the socket has another one
 * behind the others. Thousands come at once when a replica is lost. */
bool ws_turn_waits_to_resume(struct ws_socket *socket);

/* ---- timer.c: when a socket is looked at ---- */
void ws_timer_set(struct ws_socket *socket, uint64_t at_ms);
void ws_timer_at(struct ws_socket *socket, uint64_t ms);      /* Not later than that. */
uint64_t ws_timer_ping_every(const struct ws_socket *socket); /* In ms. */
void ws_timer_session_changed(struct ws_socket *socket);      /* Its time-out counts now. */

/* ---- intake.c: what is taken in ---- */

/* Taking messages stops and continues. */
void ws_intake_stop(struct ws_socket *socket, enum ws_stop why, bool stop);
void ws_intake_pace(struct ws_socket *socket); /* Has the library read, or not. */

/* No byte of the client can have waited unread for longer than requestTimeout. */
bool ws_intake_is_fresh(const struct ws_socket *socket);

/* A message that comes in pieces. */
void ws_intake_add(struct ws_socket *socket, struct slice piece);
void ws_intake_await_rest(struct ws_socket *socket);
void ws_intake_drop_message(struct ws_socket *socket);

/* ---- out.c: bytes on their way ---- */

/* The writer for one message into ws->scratch, and its end: one text frame. False: too large; then
 * nothing was queued. */
struct jsonw ws_out_begin(struct ws *ws);
bool ws_out_end(struct ws_socket *socket, enum piece_kind kind);
bool ws_out_reply(struct ws_socket *socket); /* The same of a reply. */

/* The result in ws->answer, as a reply. A large one keeps its references to the values, and is
 * encoded while it is sent. ERR_TOO_LARGE; ERR_THROTTLED when it finds no room among what waits for
 * all clients, if it `may_refuse`: then nothing was queued. */
enum err ws_out_answer(struct ws_socket *socket, bool may_refuse);

/* A frame of WS_PARTS parts; behind them come the bytes of `shared` from `shared_at` on. */
void ws_out_event(struct ws_socket *socket, const struct piece_tag *tag,
                  const struct slice parts[WS_PARTS], struct blob *shared, size_t shared_at);
void ws_out_ping(struct ws_socket *socket);
void ws_out_pong(struct ws_socket *socket);                                     /* If one is due. */
void ws_out_close(struct ws_socket *socket, uint16_t code, const char *reason); /* 0: none. */
size_t ws_out_unsent(const struct ws_socket *socket);
bool ws_out_is_full(const struct ws_socket *socket); /* Of replies. */
bool ws_out_flush(struct ws_socket *socket);         /* False: the connection is broken. */

/* Has more arrived at the client than `*taken` bytes, which is raised to that? Also true when there
 * is nothing that could. */
bool ws_out_is_taken(const struct ws_socket *socket, uint64_t *taken);
void ws_out_moves(struct ws_socket *socket, uint64_t now_ms); /* It has taken something. */
void ws_out_drop(struct ws_socket *socket); /* What has not left, but for a frame that has begun. */
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
void ws_message_sign(struct ws_message *message);

/* Hands the message's request to the gate. False: no room, the socket is held. */
bool ws_message_submit(struct ws_message *message);

/* ---- notice.c: what the server says by itself ---- */
void ws_notice_heartbeat(struct ws_socket *socket, zxid_t zxid);
void ws_notice_session(struct ws_socket *socket, const char *state, zxid_t zxid);
void ws_notice_closing(struct ws_socket *socket);
void ws_notice_gap(struct ws_socket *socket, uint32_t watch, zxid_t zxid);
void ws_notice_overrun(struct ws_socket *socket, const uint32_t *watches, size_t count,
                       zxid_t from);

/* ---- lags.c: what a client has missed ---- */
void ws_lags_add(struct ws_socket *socket, uint32_t watch, zxid_t from, bool gap);
void ws_lags_resumed(struct ws_socket *socket, uint32_t id); /* A watch that says what it has. */
zxid_t ws_lags_bound(const struct ws_socket *socket, zxid_t zxid); /* What a heartbeat may name. */
void ws_lags_release(struct ws_socket *socket);

/* Is there anything that it has missed and not been told? Has it been told all up to `zxid`? */
bool ws_lags_any(const struct ws_socket *socket);
bool ws_lags_none_until(const struct ws_socket *socket, zxid_t zxid);

/* Throws away the events that wait for it behind the last reply; they are told later, and that is
 * said. */
void ws_lags_cut(struct ws_socket *socket);

/* ---- order.c: events and replies ---- */
extern const char ws_order_taking_over[];

void ws_order_saw(struct ws_socket *socket, zxid_t zxid); /* In an event or a reply. */
zxid_t ws_order_told(const struct ws_socket *socket);
void ws_order_pump(struct ws *ws, zxid_t until); /* All up to there. */
void ws_order_pump_some(struct ws *ws);          /* What there is, a bounded part. */

/* May the reply to this message, of that state, leave? False: there is something that its client
 * has yet to be told. When that has yet to come to this replica's window, the socket is in
 * `untold`, and the message is refused when it does not come within requestTimeout. */
bool ws_order_allows(struct ws_message *message, zxid_t until);
void ws_order_retry(struct ws *ws); /* Those in `untold` look once more. */

/* ---- reply.c ---- */
void ws_reply(struct ws_message *message, const struct op_result *result);
void ws_reply_plain(struct ws_message *message); /* Done; the zxid is all that was told. */
void ws_reply_fault(struct ws_message *message); /* It was refused. */
void ws_reply_error(struct ws_message *message, enum err err, const char *detail); /* NULL: text. */
void ws_reply_failure(struct ws_message *message, const struct op_result *result);
void ws_reply_slowed(struct ws_message *message, const char *detail, uint32_t retry_after_ms);

/* With the id of a watch, 0: none. False: an error was replied instead. */
bool ws_reply_result(struct ws_message *message, const struct op_result *result, uint32_t watch);
void ws_reply_watch(struct ws_message *message, const struct subscribe_result *result);

/* What stands between is the caller's. */
struct jsonw ws_reply_begin(struct ws_message *message, zxid_t zxid);
void ws_reply_end(struct ws_message *message, struct jsonw *json);

/* ---- close.c: how a socket ends ---- */

/* Answers what was asked, says why, and closes; the first reason stays. */
void ws_close_begin(struct ws_socket *socket, enum ws_code code, const char *reason);
void ws_close_slow(struct ws_socket *socket);     /* Instead of answering: it reads too little. */
void ws_close_farewell(struct ws_socket *socket); /* The last words, once they are due. */
void ws_close_frame_queued(struct ws_socket *socket); /* Our close frame is in `out`. */
void ws_close_part(struct ws_socket *socket);         /* Our end, once both have said all. */
void ws_close_cut(struct ws_socket *socket);          /* At once, without a word. */

/* ---- relief.c: when what waits for all clients is too much ---- */

/* May more events wait? When there is no room the slowest sockets lose theirs first. */
bool ws_relief_finds_room(struct ws *ws);
void ws_relief_end(struct ws *ws); /* Between turns: it may close sockets. */

/* ---- overrun.c: clients that do not keep up ---- */

/* On an event: takes hits that must wait off the list and holds them. */
struct watch *ws_overrun_hold(struct ws_socket *socket, struct watch *hits,
                              const struct watch_event *event);
void ws_overrun_lost(struct ws *ws, zxid_t from);
void ws_overrun_eased(struct ws_socket *socket); /* It has been sent some. */
void ws_overrun_catch_up(struct ws *ws);         /* A bounded part. */

/* Does a message that shows the present have to wait for what its client has missed? It is refused
 * when that does not end in requestTimeout, or will not be told. */
bool ws_overrun_waits(struct ws_message *message);

/* ---- session.c: what is attached ---- */

/* When its turn has come: the secret is hashed, made, or that of what is attached. False: it means
 * the session attached, and there is none. */
bool ws_session_prepare(struct ws_message *message);
void ws_session_keep(struct ws_socket *socket);    /* Touches what is attached, if it still is. */
void ws_session_touch(struct ws_message *message); /* It may show a session, which lives then. */
void ws_session_back(struct ws_message *message);  /* From the gate. */
bool ws_session_run(struct ws_message *message);   /* As ws_run, for writes about a session. */
void ws_session_detach(struct ws_socket *socket);
void ws_session_changed(struct ws *ws, zxid_t zxid, const struct change *change);
void ws_session_look(struct ws_socket *socket); /* Changes were missed: is it still attached? */

/* ---- events.c: events, and the watches that they are for ---- */
void ws_events_open(struct ws *ws);
void ws_events_close(struct ws *ws);

/* Adds a watch; the reply to `message` leaves before the first event of it. With `read` it is
 * registered behind that answer, which is the reply. What precedes the reply has been told. On an
 * error there is no reply yet. */
enum err ws_events_watch(struct ws_message *message, const struct op_result *read,
                         const struct subscribe_request *request);

/* ---- run.c: one message runs ---- */

/* Everything before it is answered. True when it is answered, too; false when the gate has been
 * asked, or the client has not been told all that the reply would show: it runs again after that.
 */
bool ws_run(struct ws_message *message);

/* ---- queue.c: messages in order ---- */
void ws_queue_message(struct ws_socket *socket, struct slice text);
void ws_queue_run(struct ws_socket *socket);            /* For WS_WORK_US. */
bool ws_queue_is_ready(const struct ws_socket *socket); /* It may have something to run. */
void ws_queue_eased(struct ws_socket *socket);          /* It has been sent some. */
void ws_queue_back(struct ws *ws, struct op_request *take_request);

/* ---- read.c: what a client's bytes are ---- */
void ws_read_bytes(struct ws_socket *socket, uint8_t *bytes, size_t len); /* Changes them. */
void ws_read_kept(struct ws_socket *socket); /* What was kept, as far as it may be. */
void ws_read_release(struct ws_socket *socket);

/* ---- beat.c: time ---- */
void ws_beat_start(struct ws_socket *socket);
void ws_beat_stop(struct ws_socket *socket);
void ws_beat_look(struct ws *ws); /* May this replica answer at all? */

/* ---- socket.c: the life of a socket ---- */
struct ws_arrival {
    struct list node;
    int fd;
    size_t head_len;
    char key[WS_KEY_LEN + 1];
    struct op_principal who;
    void *seat;
};

struct ws_socket *ws_socket_new(struct ws *ws, const struct ws_arrival *arrival); /* Takes `who`. */
void ws_socket_opened(struct ws_socket *socket);
void ws_socket_gone(struct ws_socket *socket); /* Frees it. */

/* ---- library.c: what libwebsockets asks and is told ---- */
bool ws_library_open(struct ws *ws);
void ws_library_close(struct ws *ws);

/* The connection is the library's afterwards; when it cannot be, it is closed and the socket gone.
 */
void ws_library_adopt(struct ws *ws, struct ws_arrival *take_arrival);

/* ---- census.c: who watches what ---- */
void ws_census_ask(void *ctx, struct census *census); /* Any thread. */
void ws_census_answer(struct ws *ws);                 /* All that wait in `asked`. */

/* ---- metrics.c ---- */
void ws_metrics_closed(struct ws *ws, enum ws_code code);
void ws_metrics_write(void *ctx, struct buf *out); /* Of a struct ws; any thread. */
void ws_metrics_add(void *ctx, struct gate_front_figures *figures);

#endif
