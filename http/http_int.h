/*
 * http_int.h - what the files of this folder share: the front end, its connections, one request.
 *
 * Owners: after the start, the members of `struct http` are constant, except for atomics and
 * members that a mutex guards. A connection belongs to the library thread that serves it, with two
 * exceptions: the acceptor reads and changes `phase` and `deadline_ms` to enforce deadlines, and
 * while the connection is suspended its request belongs to the thread that will resume it.
 */
#ifndef HTTP_HTTP_INT_H
#define HTTP_HTTP_INT_H

#include "tls/current.h"
#include "tls/socket.h"

#include "base/check.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/os_clock.h"
#include "base/thread.h"
#include "http/greet.h"
#include "http/http.h"
#include "http/inlet.h"
#include "http/request.h"
#include "http/seats.h"
#include "http/tls_log.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct http_accept;
struct http_conn;
struct http_probe;
struct http_watcher;

enum {
    /* Connections that the kernel may queue before they are accepted. If a burst fills the queue,
     * the kernel drops new ones, and their clients retry a second later: too late for a probe.
     * 4096 is the usual net.core.somaxconn, which limits this value. */
    HTTP_BACKLOG = 4096,
    HTTP_SCAN_MS = 250,      /* Between two scans for expired deadlines. */
    HTTP_SCAN_LATE_MS = 500, /* A scan this late means that the process was stalled. */
    /* Bytes of an Origin, which each answer repeats; a host name of 253 bytes fits. */
    HTTP_ORIGIN_MAX = 300,
    HTTP_HOST_MAX = 256,    /* Bytes of a host name, with its NUL. */
    HTTP_KEEP_BYTES = 4096, /* The largest buffer that an idle connection keeps. */
    HTTP_LINGER_MS = 1000,  /* How long a refused client may still send and read the answer. */
    HTTP_SWALLOW_BYTES = 8 << 20, /* A refused body up to this size is read to its end, so that the
                                     client gets the answer. */
    /* This limit replaces HTTP_SWALLOW_BYTES for the body of an import that was refused or has
     * failed. It is larger because the client of a long import reads no answer before it has sent
     * the body, and a reset would destroy the answer. */
    HTTP_IMPORT_SWALLOW_BYTES = 1 << 30,
    HTTP_RETRY_AFTER_MS = 1000,
    HTTP_ENDING_MS = 3000,  /* http_stop waits this long for the last answers, which are small. */
    HTTP_QUOTE_MAX = 64,    /* Bytes of a client's text that an error repeats. */
    HTTP_INSTANCE_MAX = 64, /* Bytes of the text that identifies a request. */
    HTTP_BYTES_PER_MS = 16, /* The slowest acceptable rate of a client that reads an answer. */
    HTTP_PACE_CREDIT = HTTP_BYTES_PER_MS * 4000, /* Bytes that a client may fall behind. */
    HTTP_ANSWER_MAX = 64 << 20,                  /* Bytes of a JSON answer. */
    HTTP_CLIENTS_MAX = 64 << 10, /* Bytes of the client addresses of all replicas. */
    HTTP_SLOWEST_MAX = 256       /* Connections closed in one scan at most. */
};

#define HTTP_TAKING_OVER     "this replica is loading another state: retry, or use another replica"
#define HTTP_CHALLENGE_BASIC "Basic realm=\"zabra\", charset=\"UTF-8\""

#define HTTP_METRICS(X)                                                                   \
    X(connections, gauge, "zabra_http_connections", "Open HTTP connections.")             \
    X(connections_ever, counter, "zabra_http_connections_total", "Connections accepted.") \
    X(timeouts, counter, "zabra_http_timeouts_total", "Requests aborted by a deadline.")  \
    X(refused_unsent, counter, "zabra_http_unsent_refused_total",                         \
      "Answers refused because maxUnsentBytes was used.")                                 \
    X(refused_bodies, counter, "zabra_http_body_refused_total",                           \
      "Requests refused because other bodies used the memory for bodies.")                \
    X(closed_slowest, counter, "zabra_http_slowest_closed_total",                         \
      "Slowest connections closed because maxUnsentBytes was nearly used.")               \
    X(refused_native, counter, "zabra_http_native_refused_total",                         \
      "Connections of native clients closed at once: over a limit, or without TLS.")      \
    X(seats_ever, counter, "zabra_http_probe_seats_total",                                \
      "Connections over a limit that were kept to answer a probe.")

struct http_metrics {
    HTTP_METRICS(METRIC_MEMBER)
    struct metric_counter refused_total;   /* Connections over maxConnections. */
    struct metric_counter refused_address; /* Connections over maxConnectionsPerAddress. */
    struct metric_counter refused_head;    /* Malformed, too large or too slow heads. */
    struct metric_counter requests[6];     /* Requests by class of status; [0]: no answer. */
    struct metric_histogram latency; /* Time from the request line to the end of the answer. */
};

/* Exports, imports and backups. */
#define HTTP_TRANSFER_METRICS(X)                                                                  \
    X(exports, gauge, "zabra_http_exports", "Running exports.")                                   \
    X(exports_ever, counter, "zabra_http_exports_total", "Exports started.")                      \
    X(exports_failed, counter, "zabra_http_exports_failed_total",                                 \
      "Exports that ended without their last line.")                                              \
    X(exported_znodes, counter, "zabra_http_exported_znodes_total", "Znodes written by exports.") \
    X(imports, gauge, "zabra_http_imports", "Running imports.")                                   \
    X(imports_ever, counter, "zabra_http_imports_total", "Imports started.")                      \
    X(imports_failed, counter, "zabra_http_imports_failed_total",                                 \
      "Imports that were not completed.")                                                         \
    X(imported_znodes, counter, "zabra_http_imported_znodes_total",                               \
      "Znodes created or overwritten by imports.")                                                \
    X(backups, gauge, "zabra_http_backups", "Running backups.")                                   \
    X(backups_ever, counter, "zabra_http_backups_total", "Backups started.")                      \
    X(backups_failed, counter, "zabra_http_backups_failed_total",                                 \
      "Backups that were not sent to their end.")

struct http_transfers {
    struct budget_shares places; /* Slots in use, of config_clients.transfers_max. */
    HTTP_TRANSFER_METRICS(METRIC_MEMBER)
};

/* Large reads; see read.c. */
struct http_large {
    pthread_mutex_t mutex;
    struct list waiting; /* Suspended connections by struct http_large_turn.node, in FIFO order. */
    _Atomic uint32_t waiting_count; /* Changed with the mutex held, read without it. */
    uint32_t running;
    uint32_t running_max;
};

/* Kept by the acceptor from one scan for slow clients to the next; see conn.c. */
struct http_relief {
    uint64_t refusals; /* budget_refusals() at the last scan. */
    uint64_t used;     /* Bytes in use when connections were last closed to make room. */
    uint64_t expected; /* Bytes held by the connections that were closed last. Set to 0 as soon as
                          the budget has room again. */
    uint32_t least;    /* The least number of slow connections to close next time. */
};

struct http_names { /* Used by hosts.c. */
    const struct config_clients *limits;
    char advertised[HTTP_HOST_MAX]; /* The advertised host without its port; "": none. */
    bool loopback;                  /* The client port is bound to loopback only. */
};

struct http {
    struct gate *gate;
    const struct config_clients *limits;
    struct http_routes routes;
    struct http_names names;
    struct tls_current *tls; /* NULL: off. */
    bool tls_files_hang;     /* At the end a thread still reads files of `tls`. */
    struct http_tls_log tls_log;
    struct http_caps caps;
    struct MHD_Daemon *daemon;
    /* A daemon with one thread, for connections that start with a stream, a long poll or a
     * transfer. To resume a connection the library walks all suspended connections of its daemon,
     * and plain requests must not pay for such a walk. */
    struct MHD_Daemon *waiting_daemon;
    struct http_watcher *watcher;
    struct http_accept *accept;
    struct http_probe *probe;
    struct http_upgrade upgrade; /* `take` NULL: no WebSockets. */
    uint16_t port; /* The client port; the kernel has chosen it if the configured port is 0. */
    pthread_mutex_t conns_mutex;
    struct list conns; /* Entries are struct http_conn.node; guarded by conns_mutex. */
    _Atomic uint64_t next_request;
    struct http_greet greet;
    _Atomic bool draining;
    _Atomic uint32_t ending;    /* Requests that http_stop resumed and that are not answered yet. */
    pthread_mutex_t wait_mutex; /* The mutex of `changed`, on which the stopping thread waits. */
    pthread_cond_t changed;
    /* Requests that another thread will resume, without open streams. Written under wait_mutex. */
    _Atomic uint32_t suspended;
    struct http_transfers transfers;
    struct http_large large;
    struct http_relief relief;
    struct budget_shares bodies; /* Bytes of bodies of requests that are not answered yet. */
    struct http_metrics metrics;
};

/* The phase of a connection; `deadline_ms` is the deadline of the current phase. */
enum http_phase {
    HTTP_IDLE,    /* Between requests. */
    HTTP_HEAD,    /* The head is arriving. */
    HTTP_BODY,    /* The head is complete, the body is arriving. */
    HTTP_BUSY,    /* The request is being processed, or its answer waits for a disk: no deadline. */
    HTTP_SENDING, /* The answer is being sent. */
    HTTP_EXPIRED  /* The connection is ending: its answer, if any, was written without the library,
                     and nothing more may be sent. Incoming bytes are discarded until the deadline,
                     when the connection is closed. `deadline_ms` 0: it was closed at once. */
};

/* How fast a client reads its answer. Only the acceptor uses these members. */
struct http_pace {
    uint64_t of_ms;    /* The answer's deadline, by which slow_look recognizes a new answer. */
    uint64_t acked;    /* Bytes that the client's kernel has acknowledged. */
    uint64_t moved_ms; /* When `acked` last grew, or everything was acknowledged. */
    uint64_t seen_ms;  /* When `credit` was last updated. */
    uint64_t look_ms;  /* When to check again; UINT64_MAX: the client has read everything. */
    int64_t credit;    /* Bytes, see http_pace_credit; below 0: slower than HTTP_BYTES_PER_MS. */
};

struct http_conn {
    struct list node; /* In http.conns. */
    struct http *http;
    struct MHD_Connection *mhd;
    bool is_tls; /* The descriptor is attached to TLS (tls/socket.h). */
    int fd;      /* The library's descriptor; valid while the connection is in http.conns. */
    _Atomic uint32_t phase;
    _Atomic uint64_t deadline_ms;
    struct http_inlet inlet;       /* Used by the library thread only. */
    uint64_t address_key;          /* The key of the peer's address in http.caps. */
    uint64_t client_key;           /* The key of the client of the current request. */
    struct auth *certificate;      /* The identity of the peer's certificate; NULL: none. */
    bool is_proxy;                 /* The peer is one of trustedProxies. */
    char peer[ADDRESS_TEXT_MAX];   /* The peer's address. */
    struct op_principal principal; /* Address and `auth` belong to the current request only. */
    struct http_request request;
    struct buf target;  /* The target as sent. */
    struct buf decoded; /* The decoded parts of the target. */
    struct buf body;
    size_t body_charged; /* Bytes taken from http.bodies. */
    struct buf strings;  /* Decoded strings of a JSON body. */
    struct buf acl;      /* Memory for request.auth.acl. */
    struct buf uri;      /* The URL of the resource. */
    struct text out; /* The body of the answer. A small body stays here until it is sent; a large
                        one moves to the response. */
    _Atomic uint64_t kept; /* About how many bytes of the budget the answer holds; 0: none, as for a
                              small answer. */
    struct http_pace pace;
};

/* ---- conn.c: the life of a connection, and slow clients ---- */
void http_conn_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                      enum MHD_ConnectionNotificationCode code);

/* Whether the client uses TLS: to this replica, or to a trusted proxy in front of it. All URLs in
 * answers follow this. */
static inline bool http_is_https(const struct http_conn *conn)
{
    return conn->request.has_scheme ? conn->request.is_https : conn->is_tls;
}

/* Enters a phase whose deadline is `limit_ms` from now (0: none). False when the connection is
 * already in HTTP_EXPIRED, its last phase. */
bool http_conn_enter(struct http_conn *conn, enum http_phase phase, uint64_t limit_ms);

/* Writes the problem as raw bytes and ends the connection. For use in the middle of a request,
 * where the library accepts no answer. The caller has entered HTTP_EXPIRED. */
void http_conn_send_problem(struct http_conn *conn, struct http_refusal refusal);

/* Sends the refusal of the inlet and ends the connection. Called on the connection's library
 * thread. */
void http_conn_refuse(struct http_conn *conn);
void http_conn_reset(struct http_conn *conn); /* Frees what the request holds. */

/* Acceptor: ends connections whose deadline has passed or whose client is too slow. */
void http_conns_scan(struct http *http, uint64_t now_ms);

/* Acceptor: closes idle connections; returns how many connections still have a request. */
uint32_t http_conns_close_idle(struct http *http);

/* The result of one scan of all connections: the state of the budget, and the connections that may
 * be closed while the budget is short. */
struct http_slowest {
    enum budget_level level;
    uint64_t now_ms;
    uint64_t used;   /* Bytes of the budget in use. */
    uint64_t excess; /* Bytes that must be freed before the level is BUDGET_ROOMY again. */
    bool refused;    /* The budget has refused bytes since the last scan. */
    uint32_t going;  /* Connections that were closed but still hold bytes. */
    uint32_t count;
    struct http_conn *conns[HTTP_SLOWEST_MAX]; /* Sorted, the slowest first. */
};

/* Returns the credit `elapsed_ms` after the last check, when the client has read `taken` bytes
 * since then: these bytes are added, and each ms costs HTTP_BYTES_PER_MS. The credit never exceeds
 * HTTP_PACE_CREDIT, its value at the start of an answer. Without this limit, a client whose kernel
 * takes many bytes at once could then read nothing for long and still not count as slow. Pure. */
int64_t http_pace_credit(int64_t credit, uint64_t taken, uint64_t elapsed_ms);

/* Returns how many of slowest->conns to close after the scan. When the last closing has
 * freed too little memory, because other answers still hold the same values, the least number of
 * slow connections to close doubles. */
uint32_t http_slow_choose(struct http_relief *relief, const struct http_slowest *slowest);

/* An answer without the library: a complete response with `Connection: close`, for a socket that
 * the library does not own, or whose library thread cannot answer. */
struct http_raw {
    uint32_t status;
    const char *content_type;
    const char *headers; /* Additional header lines with their line ends, or "". */
    struct slice body;
    bool is_head; /* The length of the body is sent without the body. */
};

void http_raw_answer(struct http *http, struct buf *out, const struct http_raw *raw);
void http_raw_problem(struct http *http, struct buf *out, struct http_refusal refusal);

/* Sends the problem without waiting: bytes that the kernel does not take at once are lost. */
void http_raw_refuse(struct http *http, int fd, struct http_refusal refusal);

/* Answers a connection with 503 and closes it, because there are no descriptors. */
void http_raw_turn_away(struct http *http, int take_fd);

/* ---- request.c: what every stage of a request may need ---- */

/* Refuses the request. Later refusals of the same request have no effect. */
void http_refuse(struct http_conn *conn, enum err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A client's text as the two arguments of "%.*s", cut to the length that an error may repeat. */
#define HTTP_QUOTE(text) \
    (int)min_size((text).len, HTTP_QUOTE_MAX), (text).len > 0 ? (const char *)(text).data : ""

/* Whether this replica may answer from its own state now; if not, the request is refused. */
bool http_check_local(struct http_conn *conn);
bool http_check_serving(struct http_conn *conn); /* False also during a shutdown. */

/* Returns the gate's status, which is fetched once and kept in the request until http_status_renew.
 * http_status_renew is called after a suspension. */
const struct gate_status *http_status(struct http_conn *conn);
void http_status_renew(struct http_conn *conn);

/* Returns the zxid of the oldest state that the answer may reflect. */
zxid_t http_least_zxid(const struct http_request *request);

/* Suspends the connection until any thread resumes it; the library then calls the handler again.
 * The resuming thread must not touch the connection or `http` afterwards: http_stop may free `http`
 * once the last connection is resumed. */
void http_suspend(struct http_conn *conn);
void http_resume(struct http *http, struct MHD_Connection *mhd);

/* Gives the request, with the principal of the connection, to the gate and suspends the connection.
 * When the handler is called again, the reply is in request.op. */
enum MHD_Result http_submit(struct http_conn *conn, struct op_request *take_op);

/* Looks up the session that the request names, if any, on this replica and records a heartbeat of
 * that session. */
void http_session_look(struct http_conn *conn);

/* Does the same as http_session_look, for use after a quorum round. ERR_SESSION_EXPIRED: this
 * replica does not know the session, so the session has ended. ERR_REPLICA_BEHIND: since the round,
 * a snapshot has installed an older state. */
enum err http_session_find(struct http_conn *conn, const char **ret_why);

/* ---- shake.c ---- */

/* Loads the files of TLS; `*ret_current` is NULL when TLS is off. ERR_CONFIG, with a sentence. */
enum err http_tls_open(const struct config_clients *limits, struct tls_current **ret_current,
                       struct tls_fault *ret_fault);

/* Logs a failure, unless the log has had enough of this address lately. Any thread. */
void http_tls_failed(struct http *http, const struct sockaddr *address, enum tls_failure failure,
                     const char *detail);

/* ---- accept.c ---- */
enum err http_accept_start(struct http *http, struct http_accept **ret_accept);
void http_accept_close(struct http_accept *accept); /* Returns when no new connection can arrive. */
/* Returns when all connections are closed, the busy ones after their answer; at `end_ms` (as
 * os_now_ms) at the latest. */
void http_accept_finish(struct http_accept *accept, uint64_t end_ms);
void http_accept_stop(struct http_accept *accept); /* Accepts NULL. */

/* ---- handler.c: what the library calls ---- */
void *http_on_target(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls);
void http_on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                       enum MHD_RequestTerminationCode code);

/* ---- slow.c: slow requests ---- */
void http_slow_begin(struct http_conn *conn);  /* The whole request, or a change, has arrived. */
void http_slow_turn(struct http_conn *conn);   /* A large read that was waiting has its turn. */
void http_slow_served(struct http_conn *conn); /* Before the parts of the request are freed. */
void http_slow_completed(struct http_conn *conn);
void http_slow_release(struct http_request *request);

/* Notes a batch of an import, whose answer is in request.op, when it was slow. */
void http_slow_batch(struct http_conn *conn, uint64_t begin_ms);

/* ---- read.c ---- */

/* Runs the read function of the request's row and answers, at once or after waiting. Library
 * thread. */
enum MHD_Result http_read(struct http_conn *conn);

void http_large_init(struct http_large *large, uint32_t http_threads);
void http_large_release(struct http_large *large);

enum http_large_entry {
    HTTP_LARGE_ENTERED,
    HTTP_LARGE_WAITING, /* Suspended until its turn comes or its wait times out. */
    HTTP_LARGE_REFUSED  /* The request is refused. */
};

enum http_large_entry http_large_enter(struct http_conn *conn);
void http_large_leave(struct http_conn *conn); /* Does nothing for a read that has not entered. */

/* Acceptor: resumes large reads whose wait in the queue has timed out. */
void http_large_scan(struct http *http, uint64_t now_ms);

/* Answers all waiting large reads with 503; http.ending counts them. */
void http_large_end(struct http *http);

/* ---- decode.c, decode_body.c: from target, head and body to arguments ---- */
void http_decode_head(struct http_conn *conn); /* May refuse the request. */
void http_choose_body(struct http_conn *conn); /* Chooses form and maximum size by the head. */
void http_decode_body(struct http_conn *conn); /* Called when the body is complete. */

/* Refuses the request when a body of `len` bytes (UINT64_MAX: unknown) is too long, or when the
 * request takes no body. */
void http_check_body_len(struct http_conn *conn, uint64_t len);

/* Appends to the body, which has at most request.body.max bytes. False, with the request refused:
 * the budget has no room. */
bool http_request_body_append(struct http_conn *conn, const char *data, size_t len);

/* Counts the memory of the decoded body in the budget. False, with the request refused: no room. */
bool http_request_body_decoded(struct http_conn *conn);

/* Frees the body, when neither the body nor its decoded parts are needed any more. */
void http_request_body_drop(struct http_conn *conn);

/* ---- auth.c: request authentication ---- */

/* Reads credentials, if there are any. Refuses and counts malformed credentials. Also refuses a
 * user whose passwords have failed too often; the user may try again in `*ret_wait_ms`. */
struct http_refusal http_take_credentials(const struct http *http, struct slice authorization,
                                          struct op_principal *principal, uint32_t *ret_wait_ms);

extern const char http_identity_missing[]; /* The text of a refusal with 401. */

/* With requireIdentity: reads the credentials. False, with the request refused: they are malformed,
 * or there are none. */
bool http_identify(struct http_conn *conn);

/* Reads credentials, session, idempotency key and ACL from the head. Called when the row of the
 * request is known. */
void http_authenticate(struct http_conn *conn);

/* Applies the ACL of Zk-Acl. Called after the body is decoded. */
void http_auth_apply_acl(struct http_conn *conn);

/* ---- answer.c: from results to responses ---- */

enum MHD_Result http_answer_result(struct http_conn *conn, struct op_result *result);

/* Whether a read has nothing new for the client: the client already has this answer, or the znode
 * that the client waits for does not exist. */
bool http_answer_is_unchanged(const struct http_request *request, const struct op_result *result);

/* Answers with a problem. `given` says what failed; the function adds the request, its path and the
 * zxid. */
enum MHD_Result http_answer_problem(struct http_conn *conn, const struct op_problem *given);
enum MHD_Result http_answer_fault(struct http_conn *conn);

/* ---- send.c: responses ---- */

/* Completes the text in conn->out. False, with the request refused: the text is too long, or
 * maxUnsentBytes has no room for it. A text that may have references to values (send.c) must be
 * sealed before http_response_out. */
bool http_body_seal(struct http_conn *conn);

/* Whether there is room for a body without references. False, with the request refused: the budget
 * is full, and the body is not small. Answers to writes always have room. */
bool http_body_has_room(struct http_conn *conn);

/* Returns a response with the body in conn->out. */
struct MHD_Response *http_response_out(struct http_conn *conn, const char *content_type);
struct MHD_Response *http_response_empty(void);

/* Returns a response with bytes that outlive the answer, or without them if the client has this tag
 * already. Sets answer.status. */
struct MHD_Response *http_response_lasting(struct http_conn *conn, struct slice bytes,
                                           const char *content_type, const char *etag);

/* Returns a response whose body the library pulls piece by piece. */
struct MHD_Response *http_response_pulled(uint64_t size, size_t block,
                                          ssize_t (*read)(void *cls, uint64_t pos, char *to,
                                                          size_t max),
                                          void *cls, void (*release)(void *cls));

/* Returns a response with the bytes of a znode, without a copy. NULL, with the request refused: the
 * budget has no room. */
struct MHD_Response *http_response_blob(struct http_conn *conn, struct blob *blob);

void http_header(struct MHD_Response *response, const char *name, const char *value);
void http_header_date(struct MHD_Response *response);
void http_header_no_store(struct MHD_Response *response); /* Also adds nosniff. */

/* Adds the headers that all answers have. With `date` also adds Date, and the Vary of answers that
 * depend on the client. */
void http_header_common(struct http_conn *conn, struct MHD_Response *response, bool date);

/* Queues and releases the response, and frees what the request holds: results of the gate and
 * arguments of a multi are gone afterwards. */
enum MHD_Result http_send(struct http_conn *conn, uint32_t status, struct MHD_Response *response);

/* Sends the body in conn->out, which no cache may keep. */
enum MHD_Result http_send_out(struct http_conn *conn, uint32_t status, const char *content_type);

/* Sends an answer of lines or events with status 200; adds the headers of such an answer. */
enum MHD_Result http_send_lines(struct http_conn *conn, struct MHD_Response *response,
                                const char *content_type);

/* ---- info.c: answers that need no operation ---- */
enum MHD_Result http_answer_index(struct http_conn *conn);
enum MHD_Result http_answer_probe(struct http_conn *conn);
enum MHD_Result http_answer_metrics(struct http_conn *conn);
enum MHD_Result http_answer_document(struct http_conn *conn);
enum MHD_Result http_answer_options(struct http_conn *conn);
enum MHD_Result http_answer_info(struct http_conn *conn);
enum MHD_Result http_watches_begin(struct http_conn *conn); /* Lists watches. */
enum MHD_Result http_reload_begin(struct http_conn *conn);  /* Reads files again (reload.c). */

/* What a probe asks for. */
struct http_probe_ask {
    bool live; /* /livez; false: /readyz. */
    bool json;
    bool verbose;
};

/* These functions write the bodies of probes and metrics. Any thread. http_write_probe returns
 * whether all checks pass. */
bool http_write_probe(struct http *http, const struct http_probe_ask *ask, struct buf *out);
void http_write_metrics(struct http *http, struct buf *out);

/* ---- probe.c: probes that need no connection slot and no thread of the library ---- */

/* Starts the thread, which listens on limits->probe_address if that is set. ERR_BUSY, ERR_CONFIG,
 * ERR_IO. */
enum err http_probe_start(struct http *http, struct http_probe **ret_probe);
void http_probe_stop(struct http_probe *probe); /* Accepts NULL. */

bool http_probe_asks(const struct http_line *line); /* Whether the request is a probe. */

/* Acceptor: hands over a socket whose head asks for a probe; false when there is no room.
 * `is_proxy`: the peer is one of trustedProxies. */
bool http_probe_give(struct http_probe *probe, int fd, uint64_t address_key, bool is_proxy);

/* ---- ui.c: the dashboard ---- */
enum MHD_Result http_answer_ui(struct http_conn *conn);

/* ---- stream.c: streams of events ---- */
enum MHD_Result http_stream_begin(struct http_conn *conn);

/* ---- backup.c ---- */
enum MHD_Result http_backup_begin(struct http_conn *conn);

/* ---- transfer.c: exports and imports ---- */
enum MHD_Result http_export_begin(struct http_conn *conn);
void http_import_begin(struct http_conn *conn); /* Called after the head; may refuse the import. */

/* ---- hosts.c: addresses, hosts and origins ---- */

/* Writes the address in numeric form, without the port; IPv4 in IPv6 is written as IPv4. */
void http_address_text(const struct sockaddr *address, char *out, size_t out_len);

/* Returns the key of a client: a hash of the IPv4 address, or of the first 64 bits of the IPv6
 * address. Never 0. */
uint64_t http_address_key(const struct sockaddr *address);

/* Returns the same key for a client whose address is known as text. Other text, with which a proxy
 * hides an address, has a key of its own. */
uint64_t http_client_key(const char *client);

/* Whether the address is one of trustedProxies. */
bool http_is_proxy(const struct config_clients *limits, const char *peer);

/* Returns the identity that the certificate of a connection proves, as a new reference; NULL: none.
 */
struct auth *http_certificate(const struct config_clients *limits, int fd);

/* Reads what the peer says about its client, if the peer is one of trustedProxies (`is_proxy`);
 * else the result is empty. A refusal (400) says what is wrong. When the result is present, the
 * request is one that a proxy forwards: the certificate of the connection does not count for it. */
struct http_refusal http_forwarded_take(const struct config_clients *limits, bool is_proxy,
                                        const struct http_head *head,
                                        struct http_forwarded *ret_by);

/* Listens on a numeric address. ERR_BUSY, ERR_CONFIG, ERR_IO. */
enum err http_listen(const char *address, uint16_t port, int backlog, int *ret_fd);

/* Keeps `limits`. */
void http_names_init(struct http_names *names, const struct config_clients *limits);
bool http_host_allowed(const struct http_names *names, struct slice host);

/* Whether the origin is in allowedOrigins. */
bool http_origin_listed(const struct http_names *names, struct slice origin);

/* Whether a page comes from a replica of this ensemble. `clients` has the client address of each
 * replica, each followed by a blank. All names and addresses of loopback count as equal. */
bool http_origin_is_replica(struct slice clients, struct slice origin);

/* Whether a page of another origin may use this replica: the origin is in allowedOrigins, or the
 * page comes from a replica. Any thread. */
bool http_origin_allowed(const struct http *http, struct slice origin);

/* Whether a page comes from the host to which it sends the request. */
bool http_origin_is_host(struct slice origin, struct slice host);

#endif
