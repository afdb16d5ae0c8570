/*
 * gate.h - the front door of a replica: the one way in for http/ and ws/.
 *
 * Reads run on the front end's thread against the view, after gate_check_local said that this
 * replica may answer. Everything that needs the core - writes, quorum rounds, waiting for a zxid -
 * is submitted and comes back through op_request.on_reply.
 */
#ifndef SERVER_GATE_H
#define SERVER_GATE_H

#include "base/budget.h"
#include "base/err.h"
#include "base/jsonw.h"
#include "base/metric.h"
#include "server/config/config.h"
#include "server/op/op.h"

struct gate;
struct view;
struct window;

/* What waits to be sent to clients counts here, over HTTP and WebSocket together
 * (maxUnsentBytes). Any thread. */
struct budget *gate_unsent(struct gate *gate);

struct view *gate_view(struct gate *gate);
struct window *gate_window(struct gate *gate); /* The recent changes, for subscribers. */

/* Any thread, no lock of the core: the client of this session (public id) has been heard of. */
void gate_touch(struct gate *gate, uint64_t session);

/* Any thread. Takes the request; `on_reply` will be called exactly once, on the core thread, by the
 * request's deadline at the latest; for a write with a key whose client has used up its share of
 * what is remembered it is called before this returns, with ERR_THROTTLED. For a write the result
 * is complete. For a read (linearizable or with a minimum zxid) ERR_OK means: now run its read
 * function; what that answers of a state below `wait_zxid` is ERR_REPLICA_BEHIND, for a snapshot
 * may have replaced the state in between. ERR_THROTTLED when the bounded queue is full: the request
 * stays the caller's. ERR_CLOSED while shutting down. ERR_NOT_READ_ONLY: a write, and this replica
 * takes none from its clients. */
enum err gate_submit(struct gate *gate, struct op_request *take_request);

/* Any thread: may a local read be answered now? OK, or ERR_NOT_READY with the reason in `ret_why`.
 */
enum err gate_check_local(struct gate *gate, const char **ret_why);

/* What is known without asking the core; any thread. */
struct gate_status {
    uint32_t id;
    const char *role; /* "leader", "follower", "observer", "looking", "quarantine". */
    bool serving;     /* In step with an established leader, and takes writes. */
    bool in_step;     /* The first half of that. */
    bool draining;
    uint32_t epoch;
    uint32_t leader; /* 0: none. */
    zxid_t applied;  /* applied <= committed, applied <= durable <= logged. */
    zxid_t committed;
    zxid_t durable;
    zxid_t logged;
    uint64_t digest; /* Of the state at `applied`. */
    uint64_t lag_ms; /* Since this replica last heard from a leader with a quorum, or its start. */
    uint64_t history;
    uint64_t queue; /* Requests inside. */
};

void gate_status(struct gate *gate, struct gate_status *ret_status);

/* Its `history` alone, without a lock: every answer names it. Any thread. */
uint64_t gate_history(struct gate *gate);

/* JSON bodies of the information operations; `verbose` and the principal where they matter. Any
 * thread. Each writes one JSON value. */
void gate_write_status(struct gate *gate, struct jsonw *json);
void gate_write_ensemble(struct gate *gate, struct jsonw *json);
void gate_write_limits(struct gate *gate, struct jsonw *json);

/* One JSON array: the client addresses ("host:port") of the other replicas as far as they advertise
 * them (advertiseClient), for clients that have to go elsewhere. Any thread. */
void gate_write_servers(struct gate *gate, struct jsonw *json);

/* Appends the client addresses of all replicas as far as they advertise them, this one included,
 * each followed by a blank. Any thread. */
void gate_append_clients(struct gate *gate, struct buf *out);

enum {
    GATE_CHECKS_MAX = 16,
    GATE_CHECK_TEXT_MAX = 512
};

/* Named checks behind /livez and /readyz. Each check: name, ok, a sentence. */
struct gate_check {
    const char *name;
    bool ok;
    char text[GATE_CHECK_TEXT_MAX];
};

size_t gate_livez(struct gate *gate, struct gate_check checks[GATE_CHECKS_MAX]);
size_t gate_readyz(struct gate *gate, struct gate_check checks[GATE_CHECKS_MAX]);

/* Prometheus text of everything except HTTP's own connections. Any thread. */
void gate_write_metrics(struct gate *gate, struct buf *out);

/* What a front end adds to that; `write` is called on any thread, but no more once this has
 * returned with another one (NULL: none). */
void gate_set_front_metrics(struct gate *gate, void (*write)(void *ctx, struct buf *out),
                            void *ctx);

/* What the front ends have open, and have told, all together. */
struct gate_front_figures {
    uint64_t connections; /* HTTP. */
    uint64_t sockets;
    uint64_t streams; /* And long polls. */
    uint64_t watches; /* Of sockets, and one of each stream. */
    uint64_t events;  /* Told since the start. */
};

enum gate_front {
    GATE_FRONT_HTTP,
    GATE_FRONT_WS,
    GATE_FRONTS
};

/* A front end adds its own; `add` is called as `write` of gate_set_front_metrics. */
void gate_set_front_figures(struct gate *gate, enum gate_front front,
                            void (*add)(void *ctx, struct gate_front_figures *figures), void *ctx);
void gate_front_figures(struct gate *gate, struct gate_front_figures *ret_figures);

/* How a front end takes part in a watch listing (watch_listing.h): `ask` posts the listing to the
 * front end's own thread, which adds its rows and passes it on. Called as `add`. */
struct watch_listing;
void gate_set_front_listing(struct gate *gate, enum gate_front front,
                            void (*ask)(void *ctx, struct watch_listing *listing), void *ctx);

/* One JSON value: the recent past for plots; see trend.h. `args` of OP_TREND. Any thread. */
void gate_write_trend(struct gate *gate, const struct op_args *args, struct jsonw *json);

/* ---- Credentials: see guard.h. Any thread. ---- */

enum gate_failure {
    GATE_FAILED_PASSWORD,  /* A list that refused names the user with other passwords. */
    GATE_FAILED_SUPER,     /* The super user's name with another password. */
    GATE_FAILED_MALFORMED, /* No credentials at all. */
    GATE_FAILED_SESSION,   /* The secret of no session. */
    GATE_FAILURES
};

extern const char gate_credentials_slowed[]; /* The sentence for whoever has to wait. */

/* Before identities from index `first` on are used: 0, or the ms for which this user has to wait at
 * this address, because passwords have failed; then ERR_THROTTLED is the answer. */
uint32_t gate_credentials_wait(struct gate *gate, const struct op_principal *who, uint32_t first);

/* After each answer: what access control lists have said of the identities counts. */
void gate_credentials_seen(struct gate *gate, const struct op_principal *who);

/* Ahead of that, for a write that has come back: the leader that refused it may be another replica,
 * so the lists are looked at here once more. */
void gate_credentials_refused(struct gate *gate, const struct op_request *request);

/* A failure that only the front end sees: GATE_FAILED_MALFORMED or GATE_FAILED_SESSION. */
void gate_credentials_failed(struct gate *gate, const struct op_principal *who,
                             enum gate_failure kind);

/* Front ends count here: one operation answered. `op` is a row's id or 0. Any thread. */
void gate_count_op(struct gate *gate, enum op_id op, bool failed, uint64_t latency_us);

/* What the front ends enforce; constant after start. */
const struct config_clients *gate_limits(struct gate *gate);

#endif
