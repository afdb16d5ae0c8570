/*
 * gate.h - the front door of a replica: the one way in for http/ and ws/.
 *
 * Reads run on the front end's thread against the view, after gate_check_local said that this
 * replica may answer. Everything that needs the core - writes, quorum rounds, waiting for a zxid -
 * is submitted and comes back through op_request.on_reply.
 */
#ifndef SERVER_GATE_H
#define SERVER_GATE_H

#include "base/err.h"
#include "base/jsonw.h"
#include "base/metric.h"
#include "server/op.h"

struct gate;
struct view;

struct view *gate_view(struct gate *gate);

/* Any thread. Takes the request; `on_reply` will be called exactly once, on the core thread, by the
 * request's deadline at the latest. For a write the result is complete. For a read (linearizable or
 * with a minimum zxid) ERR_OK means: now run its read function. ERR_THROTTLED when the bounded
 * queue is full: the request stays the caller's. ERR_CLOSED while shutting down. */
enum err gate_submit(struct gate *gate, struct op_request *take_request);

/* Any thread: may a local read be answered now? OK, or ERR_NOT_READY with the reason in `ret_why`.
 */
enum err gate_check_local(struct gate *gate, const char **ret_why);

/* What is known without asking the core; any thread. */
struct gate_status {
    uint32_t id;
    const char *role; /* "leader", "follower", "observer", "looking", "quarantine". */
    bool serving;     /* In step with an established leader, and allowed to answer. */
    bool draining;
    uint32_t epoch;
    uint32_t leader; /* 0: none. */
    zxid_t applied;  /* applied <= committed, applied <= durable <= logged. */
    zxid_t committed;
    zxid_t durable;
    zxid_t logged;
    uint64_t digest; /* Of the state at `applied`. */
    uint64_t lag_ms; /* Since this replica last heard from a leader with a quorum. */
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

/* Prometheus text of everything except the front ends' own connections. Any thread. */
void gate_write_metrics(struct gate *gate, struct buf *out);

/* Front ends count here: one operation answered. `op` is a row's id or 0. Any thread. */
void gate_count_op(struct gate *gate, enum op_id op, bool failed, uint64_t latency_us);

/* Limits and lists that the front ends enforce; constant after start. */
struct gate_limits {
    uint32_t data_bytes_max;
    uint32_t body_bytes_max; /* multi bodies. */
    uint32_t connections_max;
    uint32_t connections_per_address_max;
    uint32_t head_bytes_max;
    uint32_t head_timeout_ms;
    uint32_t body_timeout_ms;
    uint32_t idle_timeout_ms;
    uint32_t request_timeout_ms;
    uint32_t children_page_max;
    uint32_t http_threads;
    const char *allowed_hosts; /* Comma separated as configured; "" means the default list. */
    const char *allowed_origins;
    const char *client_address;
    uint16_t client_port;
    bool access_log;
};
const struct gate_limits *gate_limits(struct gate *gate);

#endif
