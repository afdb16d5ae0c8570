/*
 * gate.h - the front door of a replica: everything that http/, ws/ and zk/ may use.
 *
 * Reads run on the front end's thread against the view, after gate_check_local has allowed the
 * read. Everything that needs the core - writes, quorum rounds, waiting for a zxid - is submitted
 * and comes back through op_request.on_reply.
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
struct backups;
struct reloads;
struct view;
struct window;

/* Returns the budget of bytes that wait to be sent to clients, over HTTP and WebSocket together
 * (maxUnsentBytes). Any thread. */
struct budget *gate_unsent(struct gate *gate);

/* Returns what can be read again while this replica runs; see reload.h. Any thread. */
struct reloads *gate_reloads(struct gate *gate);

/* Backups of this replica (backups.h). */
struct backups *gate_backups(struct gate *gate);

struct view *gate_view(struct gate *gate);
struct window *gate_window(struct gate *gate); /* The recent changes, for subscribers. */

/* Records that a client has used this session (public id), which keeps the session alive. Any
 * thread; takes no lock of the core. */
void gate_touch(struct gate *gate, uint64_t session);

/* Takes the request. `on_reply` is called exactly once, on the core thread, by the request's
 * deadline at the latest. One case differs: when a write with a key finds that its client has used
 * up its share of the remembered results, `on_reply` is called before this function returns, with
 * ERR_THROTTLED. In `on_reply` the result of a write is complete. For a read (linearizable or with
 * a minimum zxid) ERR_OK means that the caller runs the read function now. If the state is then
 * below `wait_zxid`, because a snapshot has replaced it in between, the answer is
 * ERR_REPLICA_BEHIND. Returns ERR_THROTTLED when the bounded queue is full: the request stays the
 * caller's. Returns ERR_CLOSED while shutting down, and ERR_NOT_READ_ONLY for a write when this
 * replica accepts no writes from its clients. Any thread. */
enum err gate_submit(struct gate *gate, struct op_request *take_request);

/* Returns ERR_OK when a local read may be answered now; else ERR_NOT_READY with the reason in
 * `ret_why`. Any thread. */
enum err gate_check_local(struct gate *gate, const char **ret_why);

/* The status of this replica, read without waiting for the core; any thread. */
struct gate_status {
    uint32_t id;
    const char *role; /* "leader", "follower", "observer", "looking", "quarantine". */
    bool serving;     /* In step, and accepts writes. */
    bool in_step;     /* In step with an established leader. */
    bool draining;
    uint32_t epoch;
    uint32_t leader; /* 0: none. */
    zxid_t applied;  /* applied <= committed, applied <= durable <= logged. */
    zxid_t committed;
    zxid_t durable;
    zxid_t logged;
    uint64_t digest; /* Digest of the state at `applied`. */
    uint64_t lag_ms; /* Time since contact with a leader that has a quorum, or since the start. */
    uint64_t history;
    uint64_t queue; /* Requests in flight. */
    uint64_t uptime_ms;
    uint32_t members; /* Of the committed configuration; 0: not known yet. */
    uint32_t voters;  /* Of these. */
    /* Connected learners of this leader by their role, and how many of them are in step. */
    uint32_t followers;
    uint32_t synced_followers;
    uint32_t observers;
    uint32_t synced_observers;
};

void gate_status(struct gate *gate, struct gate_status *ret_status);

/* Returns the `history` of gate_status alone. Takes no lock, because it is called for every answer.
 * Any thread. */
uint64_t gate_history(struct gate *gate);

/* Write the JSON bodies of the status operations, one JSON value each. Any thread. */
void gate_write_status(struct gate *gate, struct jsonw *json);
/* `https`: the client uses https, so the URLs of the replicas do. */
zxid_t gate_write_ensemble(struct gate *gate, bool https, struct jsonw *json);
void gate_write_limits(struct gate *gate, struct jsonw *json);

/* Writes one JSON array: the client addresses ("host:port") of the other replicas, as far as they
 * advertise them (advertiseClient), for clients that must reconnect elsewhere. Any thread. */
void gate_write_servers(struct gate *gate, struct jsonw *json);

/* Appends the client addresses of all replicas as far as they advertise them, this one included,
 * each followed by a blank. Any thread. */
void gate_append_clients(struct gate *gate, struct buf *out);

enum {
    GATE_CHECKS_MAX = 16,
    GATE_CHECK_TEXT_MAX = 512
};

/* One of the named checks behind /livez and /readyz, with a sentence about its result. */
struct gate_check {
    const char *name;
    bool ok;
    char text[GATE_CHECK_TEXT_MAX];
};

size_t gate_livez(struct gate *gate, struct gate_check checks[GATE_CHECKS_MAX]);
size_t gate_readyz(struct gate *gate, struct gate_check checks[GATE_CHECKS_MAX]);

/* Writes all metrics as Prometheus text, including those of the front ends. Any thread. */
void gate_write_metrics(struct gate *gate, struct buf *out);

/* Figures of all front ends together. */
struct gate_front_figures {
    uint64_t connections; /* HTTP connections. */
    uint64_t sockets;
    uint64_t streams;         /* Streams and long polls. */
    uint64_t watches;         /* Watches of sockets and native clients, and one for each stream. */
    uint64_t events;          /* Events sent since the start. */
    uint64_t natives;         /* Connections of native clients. */
    uint64_t native_requests; /* Their requests since the start, pings included. */
};

enum gate_front {
    GATE_FRONT_HTTP,
    GATE_FRONT_WS,
    GATE_FRONT_NATIVE,
    GATE_FRONTS
};

struct watch_listing;

/* Functions that add the data of a front end; NULL: the front end adds nothing. Called on any
 * thread. */
struct gate_front_hooks {
    void (*figures)(void *ctx, struct gate_front_figures *figures);
    void (*metrics)(void *ctx, struct buf *out);
    /* Posts the listing (watch_listing.h) to the front end's own thread, which adds its rows and
     * passes the listing on. */
    void (*listing)(void *ctx, struct watch_listing *listing);
    void *ctx;
};

/* Sets the hooks of a front end; after the return its earlier hooks are not called any more. */
void gate_set_front(struct gate *gate, enum gate_front front, struct gate_front_hooks hooks);
void gate_front_figures(struct gate *gate, struct gate_front_figures *ret_figures);

/* Writes one JSON value: the recent past for plots; see trend.h. `args` are those of OP_TREND. Any
 * thread. */
void gate_write_trend(struct gate *gate, const struct op_args *args, struct jsonw *json);

/* Counts a request for gate_write_top; see top.h. Any thread; never waits. */
void gate_note_request(struct gate *gate, const struct op_args *args,
                       const struct op_principal *who);

/* Writes one JSON value: the busiest prefixes of paths and clients, as far as the principal may see
 * them. Any thread. */
void gate_write_top(struct gate *gate, const struct op_principal *who, struct jsonw *json);

/* Writes the answer of an OP_SHAPE_INFO operation, one JSON value. `session` is the public id of
 * the request's session, or 0. Returns the version of the configuration in the answer of
 * OP_ENSEMBLE, else 0. Any thread. */
zxid_t gate_write_info(struct gate *gate, const struct op_args *args,
                       const struct op_principal *principal, uint64_t session, struct jsonw *json);

/* ---- Credentials: see guard.h. Any thread. ---- */

enum gate_failure {
    GATE_FAILED_PASSWORD,  /* The refusing ACL names this user, with other passwords. */
    GATE_FAILED_SUPER,     /* The super user's name with another password. */
    GATE_FAILED_MALFORMED, /* Credentials that cannot be parsed. */
    GATE_FAILED_SESSION,   /* A secret that belongs to no session. */
    GATE_FAILURES
};

extern const char gate_credentials_slowed[]; /* The text of the refusal. */

/* Checks whether too many passwords have failed. Returns 0 if not; else returns the ms until this
 * user may try again from this address, and the caller answers ERR_THROTTLED. Called before the
 * identities from index `first` on are used. */
uint32_t gate_credentials_wait(struct gate *gate, const struct op_principal *who, uint32_t first);

/* Counts identities that ACLs have refused, and keeps identities that ACLs or superDigest have
 * confirmed. Called after each answer. */
void gate_credentials_seen(struct gate *gate, const struct op_principal *who);

/* Checks a refused write against the ACLs in this replica's state and marks the identities with
 * wrong passwords. If the leader is another replica, it has refused the write but could not mark
 * them here. Called for each answered write, before gate_credentials_seen. */
void gate_credentials_refused(struct gate *gate, const struct op_request *request);

/* Counts a failure that only the front end sees: GATE_FAILED_MALFORMED or GATE_FAILED_SESSION. */
void gate_credentials_failed(struct gate *gate, const struct op_principal *who,
                             enum gate_failure kind);

/* A request that a front end refuses. */
struct gate_refusal {
    const char *op;             /* Name of the operation; NULL: unknown. */
    const struct op_args *args; /* NULL: unknown. */
    const struct op_principal *client;
    uint64_t session; /* Public id; 0: none, or unknown. */
    bool has_index;   /* `index` is the element of the multi that was refused. */
    uint32_t index;
    enum err err;
    uint32_t status; /* Of the answer; 0: that of `err`. */
    const char *why; /* NULL: the text of `err`. */
};

/* Records the request in the audit log if it was refused for its credentials, its permissions, or
 * because this replica takes no writes. Without an audit log, and for other errors, does nothing.
 */
void gate_refused(struct gate *gate, const struct gate_refusal *refusal);

/* Counts one answered operation. `op` is an id of the operation table, or 0. Any thread. */
void gate_count_op(struct gate *gate, enum op_id op, bool failed, uint64_t latency_us);

/* A request that took longer than slowRequest; times are monotonic ms. */
struct gate_slow {
    const char *front; /* "http", "ws" or "native". */
    const struct op_def *def;
    bool is_write;
    struct slice path; /* Empty: none. */
    const char *address;
    const char *request; /* The number of the request, as text. */
    uint64_t session;    /* Public id, or 0. */
    struct slice trace;  /* Trace id (trace.h); empty: none. */
    enum err err;
    zxid_t zxid;
    uint64_t begin_ms;  /* The whole request had arrived. */
    uint64_t served_ms; /* The answer was complete. */
    uint64_t end_ms;    /* The answer had left, or its connection had ended. */
    struct op_times times;
};

/* Counts and logs a slow request; see slow.h. Any thread. */
void gate_slow(struct gate *gate, const struct gate_slow *slow);

/* Returns the limits that the front ends enforce; constant after start. */
const struct config_clients *gate_limits(struct gate *gate);

#endif
