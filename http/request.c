/*
 * What every stage of a request may need: functions that refuse the request, suspend and resume its
 * connection, give it to the core, find its session and keep its body. Nothing here answers a
 * request, so all other files may call these functions.
 */
#include "http/http_int.h"

#include <stdarg.h>

enum {
    SMALL_BYTES = 32 << 10 /* A body and its decoded parts up to this size are never refused. */
};

/* ---- Refusals ---- */

void http_refuse(struct http_conn *conn, enum err err, const char *format, ...)
{
    struct http_request *request = &conn->request;
    va_list args;

    if (request->refused) {
        return;
    }
    request->refused = true;
    request->fault.err = err;
    va_start(args, format);
    (void)vsnprintf(request->fault.detail, sizeof(request->fault.detail), format, args);
    va_end(args);
}

bool http_check_local(struct http_conn *conn)
{
    const char *why = NULL;
    enum err err = gate_check_local(conn->http->gate, &why);

    if (err != ERR_OK) {
        http_refuse(conn, err, "%s", why ? why : err_text(err));
    }
    return err == ERR_OK;
}

bool http_check_serving(struct http_conn *conn)
{
    if (http_check_local(conn) && atomic_load(&conn->http->draining)) {
        http_refuse(conn, ERR_NOT_READY, "this replica is shutting down: use another replica");
    }
    return !conn->request.refused;
}

/* ---- The state of this replica ---- */

const struct gate_status *http_status(struct http_conn *conn)
{
    struct http_request *request = &conn->request;

    if (!request->replica.has_status) {
        gate_status(conn->http->gate, &request->replica.status);
        request->replica.has_status = true;
    }
    return &request->replica.status;
}

void http_status_renew(struct http_conn *conn)
{
    conn->request.replica.has_status = false;
    conn->request.replica.history = gate_history(conn->http->gate);
}

/* One lower bound is the zxid that the core has waited for (wait_zxid). This replica had applied it
 * then, but a snapshot may have installed an older state since. */
zxid_t http_least_zxid(const struct http_request *request)
{
    zxid_t waited = request->op ? request->op->wait_zxid : 0;

    return max_u64(waited, request->wants.min_zxid);
}

/* ---- Suspended connections ---- */

void http_suspend(struct http_conn *conn)
{
    struct http *http = conn->http;

    pthread_mutex_lock(&http->wait_mutex);
    http->suspended++;
    pthread_mutex_unlock(&http->wait_mutex);
    MHD_suspend_connection(conn->mhd);
}

void http_resume(struct http *http, struct MHD_Connection *mhd)
{
    MHD_resume_connection(mhd);
    MUTEX_HOLD(&http->wait_mutex);
    ASSERT(http->suspended > 0);
    http->suspended--;
    pthread_cond_broadcast(&http->changed);
}

/* ---- The core ---- */

/* Called on the core's thread. */
static void on_reply(struct op_request *op)
{
    struct http_conn *conn = op->ctx;

    http_resume(conn->http, conn->mhd);
}

/* Returns how long the core may take. When the client of a write prefers to wait less than
 * requestTimeout (Prefer: wait), that shorter time counts, and a write that is not done by then is
 * answered with the outcome not-applied or unknown. For a read, Prefer: wait is the time to wait
 * for a change instead. */
static uint64_t patience_ms(const struct http_conn *conn, const struct op_request *op)
{
    uint64_t most_ms = conn->http->limits->request_timeout_ms;
    uint64_t wait_ms = conn->request.wants.wait_ms;

    return op->def->kind == OP_KIND_WRITE && wait_ms > 0 && wait_ms < most_ms ? wait_ms : most_ms;
}

/* The connection is suspended first, because the reply may come before gate_submit returns. */
enum MHD_Result http_submit(struct http_conn *conn, struct op_request *take_op)
{
    struct op_request *op = take_op;

    ASSERT(!conn->request.op);
    op->principal = principal_copy(&conn->principal);
    op->deadline_ms = os_now_ms() + patience_ms(conn, op);
    op->on_reply = on_reply;
    op->ctx = conn;
    conn->request.op = op;
    http_suspend(conn);

    enum err err = gate_submit(conn->http->gate, op);

    if (err != ERR_OK) {
        op->result.err = err;
        on_reply(op);
    }
    return MHD_YES;
}

/* ---- Sessions ---- */

void http_session_look(struct http_conn *conn)
{
    const char *why = NULL;

    if (conn->request.auth.session.shown) {
        (void)http_session_find(conn, &why);
    }
}

/* An unknown session has certainly ended only if the state that was read is as new as the quorum
 * round of this request; http_least_zxid includes the zxid of that round. */
enum err http_session_find(struct http_conn *conn, const char **ret_why)
{
    struct http_auth *auth = &conn->request.auth;
    struct op_session_info info = {.zxid = 0};
    enum err err = view_find_session(gate_view(conn->http->gate), &auth->session, &info);

    ASSERT(auth->session.shown);
    if (err == ERR_OK) {
        auth->session_id = info.id;
        gate_touch(conn->http->gate, info.id);
        return ERR_OK;
    }
    if (err == ERR_UNKNOWN_SESSION && info.zxid >= http_least_zxid(&conn->request)) {
        *ret_why = "the session has expired, or was closed";
        return ERR_SESSION_EXPIRED;
    }
    *ret_why = HTTP_TAKING_OVER;
    return ERR_REPLICA_BEHIND;
}

/*
 * ---- Bodies ----
 *
 * A connection keeps a body until the request is answered or refused. Each body has its own limit
 * (request.body.max); the bodies of all connections share http.bodies, of which the clients of one
 * address get a part at most. The memory of the buffer counts, and so do the decoded parts of a
 * JSON body. A request that needs up to SMALL_BYTES, for example one with a body of 8 KiB, counts
 * in http.bodies but is never refused. An import keeps no body: its lines are processed as they
 * arrive.
 */

/* Returns how many bytes of a buffer count in http.bodies: none if the connection keeps the buffer
 * between requests, because it is small. */
static size_t counted(size_t cap)
{
    return cap > HTTP_KEEP_BYTES ? cap : 0;
}

/* Raises what the request takes from the budget to `bytes`. False, with the request refused: the
 * budget has no room. */
static bool charge(struct http_conn *conn, size_t bytes)
{
    struct budget_shares *bodies = &conn->http->bodies;

    if (bytes <= conn->body_charged) {
        return true;
    }
    if (bytes <= SMALL_BYTES) {
        budget_shares_take(bodies, conn->client_key, bytes - conn->body_charged);
    } else if (!budget_shares_try_take(bodies, conn->client_key, bytes - conn->body_charged)) {
        metric_add(&conn->http->metrics.refused_bodies, 1);
        http_refuse(
            conn, ERR_THROTTLED,
            "request bodies in flight fill the %d MiB that this replica has for them, or "
            "the part of it that one address may use: try again later, send less at once, or "
            "use another replica",
            (int)(bodies->budget.max >> 20));
        return false;
    }
    conn->body_charged = bytes;
    return true;
}

/* Returns the capacity that the buffer will have with `len` more bytes: the buffer doubles, up to
 * its maximum. */
static size_t cap_with(const struct buf *body, size_t len)
{
    size_t total = body->len + len;

    if (total < body->cap) {
        return body->cap;
    }
    return max_size(min_size(body->cap * 2, body->size_max + 1), total + 1);
}

bool http_request_body_append(struct http_conn *conn, const char *data, size_t len)
{
    struct buf *body = &conn->body;

    ASSERT(conn->request.body.max < SIZE_MAX / 2 && body->len + len <= conn->request.body.max);
    body->size_max = (size_t)conn->request.body.max;
    if (!charge(conn, counted(cap_with(body, len)))) {
        http_request_body_drop(conn);
        return false;
    }
    ASSERT(buf_append(body, data, len));
    return true;
}

bool http_request_body_decoded(struct http_conn *conn)
{
    const struct http_request *request = &conn->request;
    size_t ops = request->multi ? request->args.op_count * sizeof(*request->multi) : 0;

    return charge(conn, counted(conn->body.cap) + counted(conn->strings.cap) + ops);
}

void http_request_body_drop(struct http_conn *conn)
{
    buf_trim(&conn->body, HTTP_KEEP_BYTES);
    if (conn->body_charged > 0) {
        budget_shares_give(&conn->http->bodies, conn->client_key, conn->body_charged);
        conn->body_charged = 0;
    }
}
