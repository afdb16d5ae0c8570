/*
 * Request bodies, which a connection keeps until the request is answered or refused. Each body has
 * its own limit (request.body.max); the bodies of all connections share http.bodies, of which the
 * clients of one address get a part at most. A request that needs up to SMALL_BYTES, for example
 * one with a body of 8 KiB, counts there but is never refused. An import keeps no body: its lines
 * are processed as they arrive.
 */
#include "base/check.h"
#include "http/http_int.h"

enum {
    SMALL_BYTES = 32 << 10 /* Of the body and its decoded parts. */
};

static bool refuse(struct http_conn *conn)
{
    metric_add(&conn->http->metrics.refused_bodies, 1);
    http_refuse(
        conn, ERR_THROTTLED,
        "request bodies in flight fill the %d MiB that this replica has for them, or the part of "
        "your address: try again later, send less at once, or use another replica",
        (int)(conn->http->bodies.budget.max >> 20));
    return false;
}

/* The memory of a buffer that counts: what a connection keeps between requests does not. */
static size_t counted(size_t cap)
{
    return cap > HTTP_KEEP_BYTES ? cap : 0;
}

/* Raises what the request takes from the budget to `bytes`. False, with the request refused: no
 * room. */
static bool charge(struct http_conn *conn, size_t bytes)
{
    struct budget_shares *bodies = &conn->http->bodies;

    if (bytes <= conn->body_charged) {
        return true;
    }
    if (bytes <= SMALL_BYTES) {
        budget_shares_take(bodies, conn->address_key, bytes - conn->body_charged);
    } else if (!budget_shares_try_take(bodies, conn->address_key, bytes - conn->body_charged)) {
        return refuse(conn);
    }
    conn->body_charged = bytes;
    return true;
}

/* The capacity of the buffer with `len` more bytes: it doubles, up to its maximum. */
static size_t cap_with(const struct buf *body, size_t len)
{
    size_t total = body->len + len;
    size_t cap = body->cap * 2;

    if (total < body->cap) {
        return body->cap;
    }
    cap = cap > body->size_max ? body->size_max + 1 : cap;
    return cap > total ? cap : total + 1;
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
        budget_shares_give(&conn->http->bodies, conn->address_key, conn->body_charged);
        conn->body_charged = 0;
    }
}
