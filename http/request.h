/*
 * request.h - one request, in parts by the stage that fills them in.
 *
 * All of it is zeroed between two requests of a connection. What is borrowed lies in the buffers of
 * the connection, or in the library's memory, until then.
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
    HTTP_LARGE_LATE /* Its time in the line is over. */
};

/* One read among them. */
struct http_large_turn {
    enum http_large_state state;
    struct list node;
    uint64_t end_ms; /* When it need wait no longer. */
    bool ends;       /* Counts in http.ending. */
};

/* What a request does that cannot be answered at once: it waits for another thread, or takes its
 * body piece by piece. One at a time; the one that follows takes its place. */
struct http_task_ops {
    /* The body is complete, or the connection was resumed: answers, or suspends again. */
    enum MHD_Result (*resume)(struct http_conn *conn);
    /* Of a task that begins with the head: the next bytes of the body; `*len` is what was left. */
    enum MHD_Result (*take_body)(struct http_conn *conn, const char *data, size_t *len);
    /* And, once it is refused, gives the rest of the body its time; false when that is over. */
    bool (*extend)(struct http_conn *conn);
    void (*release)(struct http_conn *conn); /* The request has ended. NULL: nothing to free. */
};

struct http_task {
    const struct http_task_ops *ops; /* NULL: no task. */
    void *data;
};

/* Who asks, and in which session; auth.c. */
struct http_auth {
    struct slice url_secret;        /* Of a session, in the URL; `data` NULL: not given. */
    struct slice session_param;     /* The same as session=. */
    struct op_session session;      /* By its hash. */
    uint64_t session_id;            /* Public; 0: not found yet. */
    char secret[OP_SECRET_LEN + 1]; /* Of the session to be opened. */
    uint8_t secret_hash[TXN_SECRET_HASH_LEN];
    struct slice key; /* Idempotency-Key; empty: none. */
    struct slice acl; /* Zk-Acl, encoded. */
};

/* How the client wants to be answered; decode.c. */
struct http_wants {
    enum http_media media;
    enum op_consistency consistency;
    zxid_t min_zxid;   /* The answer must not be of an older state. */
    uint32_t wait_ms;  /* Prefer: wait; 0: answered at once. */
    bool keep_session; /* The stream keeps its session alive. */
    bool verbose;      /* Of a probe. */
};

/* The body; decode_body.c, handler.c. */
struct http_request_body {
    bool json;
    uint64_t max;      /* Bytes that are accepted. */
    uint64_t seen;     /* Bytes received, also those not kept. */
    struct slice name; /* Of the znode to create; `data` NULL: not given. */
};

/* What this replica knew when it was asked; request.c. */
struct http_request_replica {
    bool has_status;
    struct gate_status status;
    uint64_t history;
};

/* The answer; answer.c, send.c, and the handlers of each kind of answer. */
struct http_answer {
    bool queued;     /* The library has it. */
    bool close;      /* It is the last one of its connection. */
    bool cors;       /* The Origin may read it. */
    bool replayed;   /* It is that to an earlier request with the same key. */
    bool has_waited; /* As Prefer asks. */
    bool is_endless; /* It has no end of its own, and no deadline. */
    bool is_untimed; /* It took time on purpose, which says nothing about this replica. */
    uint32_t status;
    size_t bytes;
    zxid_t zxid; /* The state that it reflects. */
};

/* One request; zeroed between two. */
struct http_request {
    uint64_t id;
    uint64_t start_us;
    bool begun;          /* The first call of the handler was made. */
    bool refused;        /* `fault` is the answer. */
    bool is_head;        /* HEAD, handled as GET: */
    struct slice method; /* "GET" then. */
    struct op_fault fault;
    struct http_target target;
    struct http_head head;
    const struct http_route *route;
    const struct op_def *def; /* NULL for what is no operation. */
    struct op_args args;
    struct op_args *multi; /* Behind args.ops, when they are not in `op`. */
    struct http_auth auth;
    struct http_wants wants;
    struct http_request_body body;
    struct http_request_replica replica;
    struct http_task task;        /* What it does until it can be answered. */
    struct op_request *op;        /* While the gate has it, and its result after. */
    struct http_large_turn large; /* Among the large reads. */
    struct http_answer answer;
};

#endif
