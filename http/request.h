/*
 * request.h - one request; each of its parts is filled in by one stage.
 *
 * The whole struct is zeroed between two requests of a connection. Slices point into the
 * connection's buffers or the memory of libmicrohttpd, which live as long as the request.
 */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include "base/list.h"
#include "http/head.h"
#include "http/route.h"
#include "http/target.h"
#include "server/json/op_json.h"
#include "server/process/gate.h"

#include <microhttpd.h>

struct http_conn;

enum http_large_state {
    HTTP_LARGE_NONE,
    HTTP_LARGE_WAITS,
    HTTP_LARGE_RUNS,
    HTTP_LARGE_LATE /* The wait in the queue has ended without a turn. */
};

/* The turn of one large read; see read.c. */
struct http_large_turn {
    enum http_large_state state;
    struct list node;
    uint64_t end_ms; /* The deadline of the wait. */
    bool ends;       /* The read counts in http.ending. */
};

/* The task of a request that cannot be answered at once, because the request waits for another
 * thread or its body is processed piece by piece. A request has one task at a time; a later task
 * replaces the earlier one. */
struct http_task_ops {
    /* Called when the body is complete or the connection was resumed: answers, or suspends the
     * connection again. */
    enum MHD_Result (*resume)(struct http_conn *conn);
    /* For a task that starts at the head: takes the next bytes of the body and sets `*len` to the
     * number of bytes that are left. */
    enum MHD_Result (*take_body)(struct http_conn *conn, const char *data, size_t *len);
    /* For a task that starts at the head and whose request was refused: extends the deadline of the
     * rest of the body; false when the time is up. */
    bool (*extend)(struct http_conn *conn);
    void (*release)(struct http_conn *conn); /* Called at the end; NULL: nothing to free. */
};

struct http_task {
    const struct http_task_ops *ops; /* NULL: no task. */
    void *data;
};

/* Authentication: the client and its session; auth.c. */
struct http_auth {
    bool is_anonymous; /* Refused because it has no identity (requireIdentity): answered 401. */
    struct slice url_secret;    /* The secret of a session in the URL; `data` NULL: not given. */
    struct slice session_param; /* The value of session=. */
    struct op_session session;  /* The session, by the hash of its secret. */
    uint64_t session_id;        /* The public id of the session; 0: not found yet. */
    char secret[OP_SECRET_LEN + 1]; /* The secret of the session that this request opens. */
    uint8_t secret_hash[TXN_SECRET_HASH_LEN];
    struct slice key; /* Idempotency-Key; empty: none. */
    struct slice acl; /* The ACL of Zk-Acl, as bytes (acl.h). */
};

/* How the client wants to be answered; decode.c. */
struct http_wants {
    enum http_media media;
    enum op_consistency consistency;
    zxid_t min_zxid;   /* The answer must reflect at least this state. */
    uint32_t wait_ms;  /* The value of Prefer: wait, or 0. */
    bool keep_session; /* The stream keeps its session alive. */
    bool verbose;      /* A probe lists the text of all checks. */
};

/* The body; decode_body.c, handler.c. */
struct http_request_body {
    bool json;
    uint64_t max;      /* Bytes that are accepted. */
    uint64_t seen;     /* Bytes received, including those not kept. */
    struct slice name; /* The name of the znode to create; `data` NULL: not given. */
};

/* The state of this replica when the request last read it; request.c. */
struct http_request_replica {
    bool has_status;
    struct gate_status status;
    uint64_t history;
};

/* The answer; answer.c, send.c, and the handlers of each kind of answer. */
struct http_answer {
    bool queued;     /* The library has the answer. */
    bool close;      /* The answer is the last one of its connection. */
    bool cors;       /* The page of the Origin may read the answer. */
    bool replayed;   /* The answer repeats the answer to an earlier request with this key. */
    bool has_waited; /* The client's Prefer: wait was honoured. */
    bool is_endless; /* The end cannot be predicted, so http_send sets no deadline. */
    bool is_untimed; /* The request waits on purpose: its duration is no latency of this replica. */
    uint32_t status;
    size_t bytes;
    zxid_t zxid; /* The state that the answer reflects. */
};

/* What the log of slow requests needs; slow.c. */
struct http_slow {
    uint64_t begin_ms;  /* The whole request had arrived; 0: it is not measured, or not slow. */
    uint64_t served_ms; /* The answer was complete. */
    struct op_times times;
    bool is_write;
    uint8_t *path; /* Own memory, of a slow request only. */
    size_t path_len;
};

/* One request; zeroed between two requests. */
struct http_request {
    uint64_t id;
    uint64_t start_us;
    bool begun;          /* The handler has been called with the head. */
    bool refused;        /* `fault` is the answer. */
    bool is_head;        /* A HEAD request, handled as GET. */
    struct slice method; /* "GET" for a HEAD request. */
    struct op_fault fault;
    struct http_target target;
    struct http_head head;
    struct slice host; /* As the client sent it: Host, or what a trusted proxy names. */
    bool has_scheme;   /* A trusted proxy names the scheme that the client uses: */
    bool is_https;     /* https. */
    const struct http_route *route;
    struct slice member;      /* The id of a member in the URL; `data` NULL: not given. */
    const struct op_def *def; /* NULL for answers that need no operation. */
    struct op_args args;
    struct op_args *multi; /* The memory of args.ops, until `op` takes it over. */
    struct http_auth auth;
    struct http_wants wants;
    struct http_request_body body;
    struct http_request_replica replica;
    struct http_task task;        /* What the request does until it is answered. */
    struct op_request *op;        /* The request at the gate; later it holds the result. */
    struct http_large_turn large; /* The turn of the request among the large reads. */
    struct http_answer answer;
    struct http_slow slow;
};

/* Whether the URL names an element of a collection: a session, or a member of the ensemble. */
static inline bool http_names_element(const struct http_request *request)
{
    return request->auth.url_secret.len > 0 || request->member.data;
}

#endif
