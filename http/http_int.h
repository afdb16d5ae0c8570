/*
 * http_int.h - what the files of this folder share: the front end, its connections, one request.
 *
 * Owners: `struct http` is constant after the start except for atomics and what a mutex guards. A
 * connection belongs to the one library thread that serves it, except for `phase` and
 * `deadline_ms`, which the acceptor reads to enforce deadlines, and for the time it is suspended,
 * when its request belongs to the gate.
 */
#ifndef HTTP_HTTP_INT_H
#define HTTP_HTTP_INT_H

#include "base/list.h"
#include "base/map.h"
#include "base/metric.h"
#include "http/http.h"
#include "http/inlet.h"
#include "http/request.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

struct http_accept;
struct http_conn;
struct http_probe;
struct http_watcher;

enum {
    HTTP_SCAN_MS = 250,           /* How often deadlines are looked at. */
    HTTP_SCAN_LATE_MS = 500,      /* A look so much too late: the process has stood still. */
    HTTP_ORIGIN_MAX = 300,        /* Each answer repeats it; a name of 253 fits. */
    HTTP_KEEP_BYTES = 4096,       /* A connection's buffers above this are freed when idle. */
    HTTP_LINGER_MS = 1000,        /* A refused client may send on and read its answer that long. */
    HTTP_SWALLOW_BYTES = 8 << 20, /* Of a refused body read to its end for the answer's sake. */
    /* The same of an import that was refused or has failed: who sends a long one does not look for
     * an answer before its end, and would not find it behind a reset. */
    HTTP_IMPORT_SWALLOW_BYTES = 1 << 30,
    HTTP_RETRY_AFTER_MS = 1000,
    HTTP_ENDING_MS = 3000,  /* For the last answers of http_stop; they are small. */
    HTTP_INSTANCE_MAX = 64, /* Text that names a request. */
    HTTP_BYTES_PER_MS = 16, /* Slowest reader of an answer that is put up with. */
    HTTP_PACE_CREDIT = HTTP_BYTES_PER_MS * 4000, /* Bytes; so long a reader may be slower. */
    HTTP_ANSWER_MAX = 64 << 20,                  /* Bytes of a JSON answer. */
    HTTP_CLIENTS_MAX = 64 << 10,                 /* Of the client addresses of all replicas. */
    HTTP_SLOWEST_MAX = 256,                      /* Cut off at one look at most. */
    HTTP_BODIES_BYTES = 256 << 20 /* Of the requests of all connections, until they are answered. */
};

#define HTTP_TAKING_OVER     "this replica is taking over another state"
#define HTTP_CHALLENGE_BASIC "Basic realm=\"zabra\", charset=\"UTF-8\""

struct http_metrics {
    struct metric_counter connections;      /* Open now, handed to the library. */
    struct metric_counter connections_ever; /* Accepted. */
    struct metric_counter refused_total;    /* At accept: all connections taken. */
    struct metric_counter refused_address;  /* At accept: too many from the address. */
    struct metric_counter refused_head;     /* Malformed, too large or too slow first head. */
    struct metric_counter seats_ever;       /* Over a cap: taken for a probe that may come. */
    struct metric_counter timeouts;         /* Deadlines passed on open connections. */
    struct metric_counter refused_unsent;   /* Answers without room in maxUnsentBytes. */
    struct metric_counter refused_bodies;   /* Requests whose body had no room in http.bodies. */
    struct metric_counter closed_slowest;   /* Cut off to make room there. */
    struct metric_counter requests[6];      /* By class of status; 0: answered with none. */
    struct metric_histogram latency;        /* From the request line to the end of the answer. */
};

/* Connections per address; any thread. */
struct http_caps {
    pthread_mutex_t mutex;
    struct map counts; /* Of the address's hash to a count kept in the pointer itself. */
    uint32_t total;
    uint32_t total_max;
    uint32_t address_max;
    uint32_t copies;    /* Second descriptors of connections that wait for changes. */
    uint32_t files_max; /* Of connections and copies together. */
};

/* Exports and imports. */
struct http_transfers {
    _Atomic uint32_t places;              /* Taken, of config_clients.transfers_max. */
    struct metric_counter exports;        /* Under way. */
    struct metric_counter exports_ever;   /* Begun. */
    struct metric_counter exports_failed; /* Ended without their last line. */
    struct metric_counter exported_znodes;
    struct metric_counter imports;         /* Under way. */
    struct metric_counter imports_ever;    /* Begun. */
    struct metric_counter imports_failed;  /* Not done to their end. */
    struct metric_counter imported_znodes; /* Created or overwritten. */
};

/* Large reads; see large.c. */
struct http_large {
    pthread_mutex_t mutex;
    struct list waiting; /* Of struct http_large_turn.node, in order; suspended. */
    uint32_t waiting_count;
    uint32_t running;
    uint32_t running_max;
};

/* Of the acceptor, from one look at slow clients to the next; see slow.c. */
struct http_relief {
    uint64_t refusals; /* Of the budget, at the last look. */
    uint64_t used;     /* Bytes, when connections were last cut off to make room, */
    uint64_t expected; /* and what these kept; 0: none since there was room. */
    uint32_t least;    /* Slow connections to cut off at the next time. */
};

struct http_names; /* Host and Origin lists: hosts.c. */

struct http {
    struct gate *gate;
    const struct config_clients *limits;
    struct http_routes routes;
    struct http_names *names;
    struct http_caps caps;
    struct MHD_Daemon *daemon;
    /* One thread for connections that begin with a stream or a long poll: each resumption walks all
     * suspended connections of its daemon, and those of the other one must not pay for them. */
    struct MHD_Daemon *waiting_daemon;
    struct http_watcher *watcher;
    struct http_accept *accept;
    struct http_probe *probe;
    struct http_upgrade upgrade; /* `take` NULL: no WebSockets. */
    uint16_t port;
    pthread_mutex_t conns_mutex;
    struct list conns; /* Of struct http_conn.node; guarded by conns_mutex. */
    _Atomic uint64_t next_request;
    _Atomic uint32_t handed; /* Connections given to the library that it has not opened yet. */
    _Atomic bool draining;
    _Atomic uint32_t ending;    /* Large reads resumed by http_stop and not yet answered. */
    pthread_mutex_t wait_mutex; /* Of `suspended`; http_drain and http_stop wait on `changed`. */
    pthread_cond_t changed;
    uint32_t suspended; /* Requests that the gate holds. */
    struct http_transfers transfers;
    struct http_large large;
    struct http_relief relief;
    struct budget bodies; /* Of requests that are not answered yet. */
    struct http_metrics metrics;
};

/* Where a connection stands; what the deadline is about. */
enum http_phase {
    HTTP_IDLE,    /* Between requests. */
    HTTP_HEAD,    /* The request line is here. */
    HTTP_BODY,    /* The head is here. */
    HTTP_BUSY,    /* All is here, the answer is made: no deadline of ours. */
    HTTP_SENDING, /* The answer is on its way. */
    HTTP_EXPIRED  /* It was answered past the library; nobody else may. Until the deadline what
                     comes is thrown away; then, or without one, it is closed. */
};

/* How a client takes its answer; the acceptor's. */
struct http_pace {
    uint64_t of_ms;    /* The deadline of that answer: it tells one from the next. */
    uint64_t acked;    /* Bytes that the client's kernel has acknowledged. */
    uint64_t moved_ms; /* When these were seen to grow, or nothing waited. */
    uint64_t seen_ms;  /* The last look. */
    uint64_t look_ms;  /* When to look again; UINT64_MAX: nothing waits. */
    int64_t credit;    /* By http_pace_credit; below 0: slower than HTTP_BYTES_PER_MS. */
};

struct http_conn {
    struct list node; /* In http.conns. */
    struct http *http;
    struct MHD_Connection *mhd;
    int fd; /* The library's; valid while the connection is in the list. */
    _Atomic uint32_t phase;
    _Atomic uint64_t deadline_ms;
    struct http_inlet inlet;       /* Library thread. */
    uint64_t address_key;          /* Of http.caps. */
    struct op_principal principal; /* `auth` is that of the request alone. */
    struct http_request request;
    struct buf target;  /* The target as sent. */
    struct buf decoded; /* What its parts decode to. */
    struct buf body;
    size_t body_charged;   /* Bytes that the request has taken from http.bodies. */
    struct buf strings;    /* What strings of a JSON body decode to. */
    struct buf acl;        /* What Zk-Acl decodes to. */
    struct buf uri;        /* URL of the resource addressed. */
    struct text out;       /* The answer's body while it is sent; of a large one until then. */
    _Atomic uint64_t kept; /* Bytes that its answer keeps in the budget, about; 0: small. */
    struct http_pace pace;
};

/* ---- conn.c: the life of a connection ---- */
void http_conn_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                      enum MHD_ConnectionNotificationCode code);
struct http_conn *http_conn_of(struct MHD_Connection *mhd);

/* Moves to a phase that ends `limit_ms` from now (0: never). False when the acceptor was faster and
 * the connection is already closed. */
bool http_conn_enter(struct http_conn *conn, enum http_phase phase, uint64_t limit_ms);
/* The answer to a request in whose middle the library takes none: by raw bytes, and the end. The
 * caller has moved to HTTP_EXPIRED. */
void http_conn_tell(struct http_conn *conn, enum err err, uint32_t status, const char *detail);
/* Tells what the inlet has found, and ends the connection; in its library thread. */
void http_conn_refuse(struct http_conn *conn);
void http_conn_reset(struct http_conn *conn); /* Frees what the request held. */

/* Acceptor: closes connections whose deadline has passed. */
void http_conns_scan(struct http *http, uint64_t now_ms);

/* Acceptor: closes those that have nothing more to say; returns how many have. */
uint32_t http_conns_close_idle(struct http *http);

/* ---- request.c: what every stage of a request may need ---- */

/* Refuses the request; the first refusal stays. */
void http_refuse(struct http_conn *conn, enum err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A client's text for a format of "%.*s": never more than an error should repeat. */
int http_quote_len(struct slice text);
const char *http_quote(struct slice text);

/* False, and the request is refused: this replica may not answer from its own state now. */
bool http_check_local(struct http_conn *conn);

/* What the gate knows now; asked once for each request, and only when something depends on it. */
const struct gate_status *http_status(struct http_conn *conn);
void http_status_renew(struct http_conn *conn); /* After a suspension: the status is asked again. */

/* An answer must not be of an older state than this. */
zxid_t http_least_zxid(const struct http_request *request);

/* The handler is called again when the connection is resumed, from any thread. That thread may
 * touch neither the connection nor `http` afterwards: http_stop waits for the last one. */
void http_suspend(struct http_conn *conn);
void http_resume(struct http *http, struct MHD_Connection *mhd);
uint32_t http_suspended(struct http *http);

/* Hands the request, for the principal of the connection, to the gate and suspends the connection;
 * the reply is in request.op when the handler is called again. Takes `op`. */
enum MHD_Result http_submit(struct http_conn *conn, struct op_request *take_op);

/* Looks the session of the request up here, and says that its client is alive. ERR_UNKNOWN_SESSION
 * is certain only if `*ret_zxid`, the state looked at, is that of a quorum round begun since. */
enum err http_session_look(struct http_conn *conn, zxid_t *ret_zxid);

/* Behind a quorum round: a session that is not there now is gone, unless this state is an older one
 * that has been put in place since. */
enum err http_session_find(struct http_conn *conn, const char **ret_why);

/* ---- caps.c ---- */
enum http_cap {
    HTTP_CAP_OK,
    HTTP_CAP_TOTAL,
    HTTP_CAP_ADDRESS
};

void http_caps_init(struct http_caps *caps, const struct config_clients *limits);
/* `lost`: places that nobody will give back. */
void http_caps_release(struct http_caps *caps, uint32_t lost);
enum http_cap http_caps_take(struct http_caps *caps, uint64_t address_key);
void http_caps_give(struct http_caps *caps, uint64_t address_key);

/* A second descriptor for a connection; false: the share of all clients is used up. */
bool http_caps_take_copy(struct http_caps *caps);
void http_caps_give_copy(struct http_caps *caps);

/* ---- accept.c ---- */
enum err http_accept_start(struct http *http, struct http_accept **ret_accept);
void http_accept_close(struct http_accept *accept); /* No new connections; returns once true. */
/* Returns once all connections are closed, those that speak after their answer; at `end_ms` (as
 * os_now_ms) at the latest. */
void http_accept_finish(struct http_accept *accept, uint64_t end_ms);
void http_accept_stop(struct http_accept *accept);

/* ---- upgrade.c: connections that become WebSockets ---- */
struct http_seat;

enum {
    HTTP_SOCKET_KEY_LEN = 24 /* 16 bytes in base64. */
};

struct http_upgrade_request {
    char key[HTTP_SOCKET_KEY_LEN + 1]; /* When there is no error. */
    enum err err;                      /* Why not. */
    const char *detail;                /* Constant. */
    struct auth *auth;                 /* What was shown; the caller's reference. */
};

/* True when a whole first head asks for the WebSocket; false: it is for the library. */
bool http_upgrade_read(const struct http *http, struct slice bytes,
                       struct http_upgrade_request *ret_request);
/* Counts malformed credentials, and refuses a user whose passwords have failed too often. */
void http_upgrade_guard(const struct http *http, const struct op_principal *who,
                        struct http_upgrade_request *request);
struct http_seat *http_seat_new(struct http *http, uint64_t address_key);

/* ---- handler.c: what the library calls ---- */
void *http_on_target(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls);
void http_on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                       enum MHD_RequestTerminationCode code);

/* ---- read.c ---- */

/* Runs the row's read function and answers, at once or after waiting. Library thread. */
enum MHD_Result http_read(struct http_conn *conn);

/* ---- decode.c, decode_body.c: from target, head and body to arguments ---- */
void http_decode_head(struct http_conn *conn); /* Sets request.refused when it must be. */
void http_choose_body(struct http_conn *conn); /* By the head: which form, how much. */
void http_decode_body(struct http_conn *conn); /* All of it is there. */

/* ---- request_body.c: the bodies of all requests together ---- */

/* False, and the request is refused: there is no room for more. At most request.body.max bytes. */
bool http_request_body_append(struct http_conn *conn, const char *data, size_t len);

/* Counts what the body was decoded to; false as above. */
bool http_request_body_decoded(struct http_conn *conn);

/* The body is not needed any more, nor is what it was decoded to. */
void http_request_body_drop(struct http_conn *conn);

/* ---- who.c: credentials, session, key of a retry ---- */

/* By the head, when the row is known. */
void http_take_who(struct http_conn *conn);

/* The ACL of the header, once the body is decoded. */
void http_place_acl(struct http_conn *conn);

/* ---- mask.c: targets without secrets ---- */

/* Appends the target as sent, or its path alone. `route` may be NULL. */
void http_mask_target(const struct http_route *route, struct slice raw, struct buf *out);
void http_mask_path(const struct http_route *route, struct slice path, struct buf *out);

/* ---- answer.c: from results to responses ---- */
enum MHD_Result http_answer_result(struct http_conn *conn, struct op_result *result);

/* Of a read: the client has this answer already, or there is nothing yet to answer with. */
bool http_answer_is_unchanged(const struct http_request *request, const struct op_result *result);

/* `given` says what went wrong; where, when and who is filled in. */
enum MHD_Result http_answer_problem(struct http_conn *conn, const struct op_problem *given);
enum MHD_Result http_answer_fault(struct http_conn *conn);

/* ---- body.c: the library's response object ---- */

/* The text in conn->out is whole. False, and the request is refused: it is too long, or there is no
 * room for it in maxUnsentBytes. Needed before http_response_out when it may have references. */
bool http_body_seal(struct http_conn *conn);

/* The same for a body without references that may be refused: false when all room is used and it is
 * no small one. Answers to writes always have room. */
bool http_body_has_room(struct http_conn *conn);

/* Refuses an answer for want of room; returns false. */
bool http_refuse_no_room(struct http_conn *conn);

/* A body in conn->out, of that media type. */
struct MHD_Response *http_response_out(struct http_conn *conn, const char *content_type);
struct MHD_Response *http_response_empty(void);

/* Bytes that outlast the answer. */
struct MHD_Response *http_response_lasting(struct slice bytes);

/* A body that the library asks for piece by piece. */
struct MHD_Response *http_response_pulled(uint64_t size, size_t block,
                                          ssize_t (*read)(void *cls, uint64_t pos, char *to,
                                                          size_t max),
                                          void *cls, void (*release)(void *cls));

/* The bytes themselves, straight from the tree. NULL, and the request is refused: no room. */
struct MHD_Response *http_response_blob(struct http_conn *conn, struct blob *blob);

/* ---- send.c: headers ---- */
void http_header(struct MHD_Response *response, const char *name, const char *value);
void http_header_date(struct MHD_Response *response);

/* `date`: with Date, and the Vary of answers that are made for their client. */
void http_header_common(struct http_conn *conn, struct MHD_Response *response, bool date);

/* Queues and lets go of the response, and of what the request has brought along: results of the
 * gate and arguments of a multi are gone afterwards. */
enum MHD_Result http_send(struct http_conn *conn, uint32_t status, struct MHD_Response *response);

/* ---- info.c: what is no operation ---- */
enum MHD_Result http_answer_index(struct http_conn *conn);
enum MHD_Result http_answer_probe(struct http_conn *conn);
enum MHD_Result http_answer_metrics(struct http_conn *conn);
enum MHD_Result http_answer_document(struct http_conn *conn);
enum MHD_Result http_answer_options(struct http_conn *conn);
enum MHD_Result http_answer_info(struct http_conn *conn);
enum MHD_Result http_send_info(struct http_conn *conn); /* The body of such an answer is made. */

/* What a probe asks of. */
struct http_probe_ask {
    bool live; /* Else ready. */
    bool json;
    bool verbose;
};

/* Bodies; any thread. True: all is well. */
bool http_write_probe(struct http *http, const struct http_probe_ask *ask, struct buf *out);
void http_write_metrics(struct http *http, struct buf *out);

/* ---- probe.c: probes that need no place and none of the library's threads ---- */

/* Listens on limits->probe_address, if there is one; ERR_BUSY, ERR_CONFIG, ERR_IO. */
enum err http_probe_start(struct http *http, struct http_probe **ret_probe);
void http_probe_stop(struct http_probe *probe); /* Accepts NULL. */

/* A whole head that asks for a probe. */
bool http_probe_asks(struct slice head);

/* Acceptor: gives a socket away whose head asks for a probe; false when there is no room. */
bool http_probe_give(struct http_probe *probe, int fd, uint64_t address_key);

/* ---- ui.c: the dashboard ---- */
enum MHD_Result http_answer_ui(struct http_conn *conn);

/* ---- stream.c: events as they happen ---- */
enum MHD_Result http_stream_begin(struct http_conn *conn);

/* ---- watches.c: who watches what ---- */
enum MHD_Result http_watches_begin(struct http_conn *conn);

/* ---- wait.c: long polls; `task.data` of a read ---- */

/* The answer is unchanged, and the client would rather wait (request.wants.wait_ms). True: the
 * connection is suspended until the znode changes; `result` is what was read. False: the read is
 * answered at once, or refused. */
bool http_wait_begin(struct http_conn *conn, const struct op_result *result);
bool http_wait_has_hung_up(const struct http_conn *conn); /* The client, while it waited. */
void http_wait_free(struct http_conn *conn);              /* Accepts that there is none. */

/* ---- transfer.c: exports, and what they share with imports ---- */
enum MHD_Result http_export_begin(struct http_conn *conn);

/* A place for one more; false, with the request refused, when all are taken or this replica may not
 * answer. */
bool http_transfer_begin(struct http_conn *conn);
void http_transfer_end(struct http *http);
void http_transfer_write_metrics(const struct http *http, struct buf *out);

/* ---- import.c: bodies that are done as they come ---- */
void http_import_begin(struct http_conn *conn); /* The head is here; it may be refused. */

/* ---- large.c: reads that take a thread for long ---- */
enum http_large_entry {
    HTTP_LARGE_ENTERED,
    HTTP_LARGE_WAITING, /* Suspended until it has its turn, or its time is over. */
    HTTP_LARGE_REFUSED  /* request.refused. */
};

void http_large_init(struct http_large *large, uint32_t http_threads);
void http_large_release(struct http_large *large);

/* Known to be large before, or behind, the read itself. */
bool http_large_before(const struct http_request *request);
bool http_large_behind(const struct http_request *request, const struct op_result *result);
enum http_large_entry http_large_enter(struct http_conn *conn);
void http_large_leave(struct http_conn *conn);            /* When it has entered; else nothing. */
void http_large_scan(struct http *http, uint64_t now_ms); /* Acceptor: whose time is over. */
void http_large_end(struct http *http); /* All that wait get 503; http.ending counts them. */
uint32_t http_large_waiting(struct http_large *large);
bool http_large_has_turn(struct http_conn *conn); /* Resumed; false: refused, it is too late. */

/* ---- raw.c: answers without the library ---- */

/* A whole response with a problem body and `Connection: close`. */
struct http_raw {
    uint32_t status;
    const char *content_type;
    const char *headers; /* More of them, with their line ends; "" */
    struct slice body;
    bool is_head; /* Its length is told, and it is not sent. */
};

void http_raw_answer(struct http *http, struct buf *out, const struct http_raw *raw);
void http_raw_problem(struct http *http, struct buf *out, enum err err, uint32_t status,
                      const char *detail);

/* Closes a connection with 503, for lack of descriptors. */
void http_raw_turn_away(struct http *http, int take_fd);

/* ---- hosts.c ---- */
struct http_names *http_names_new(const struct config_clients *limits);
void http_names_free(struct http_names *names);
bool http_host_allowed(const struct http_names *names, struct slice host);

/* On the list of origins. */
bool http_origin_listed(const struct http_names *names, struct slice origin);

/* The page comes from a replica of this ensemble: of `clients`, addresses with a blank behind each.
 * Names and addresses of loopback are one. */
bool http_origin_is_replica(struct slice clients, struct slice origin);

/* A page of another origin than ours that may talk to us: listed, or of a replica. Any thread. */
bool http_origin_allowed(const struct http *http, struct slice origin);

/* The page comes from the very host it talks to. */
bool http_origin_is_host(struct slice origin, struct slice host);

#endif
