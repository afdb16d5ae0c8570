/*
 * The requests of a connection, in order. Replies leave in the order of requests. A read runs when
 * all requests before it are answered; a write starts when all before it have run. So writes are in
 * the gate together, and a read sees all earlier writes and no later one. Requests that can be
 * answered at once, which are most reads, are answered out of the bytes that were read.
 */
#include "zk/zk_int.h"

enum {
    PINGS_PER_LOOK = 16 /* Pings between two looks at the clock, which costs as much as a ping. */
};

/* ---- Starting ---- */

/* Whether the client must prove an identity first (requireIdentity). */
static bool lacks_identity(const struct zk_call *call)
{
    return call->zk->limits->require_identity && !principal_has_identity(&call->conn->principal) &&
           call->req.type != ZK_AUTH && call->req.type != ZK_CLOSE_SESSION;
}

static void check_identity(struct zk_call *call)
{
    if (call->fault == ZK_OK && lacks_identity(call)) {
        call->fault = ZK_SESSION_CLOSED_REQUIRE_AUTH;
        call->last = true;
    }
}

/* Makes the request of a call that goes through the gate. */
static void make_request(struct zk_call *call)
{
    struct op_request *request = NULL;

    if (call->req.type == ZK_CLOSE_SESSION) {
        request = zk_call_request(call, OP_CLOSE);
        memcpy(call->hash, call->conn->session.hash, ZK_HASH_LEN);
        request->args.secret_hash = slice_make(call->hash, ZK_HASH_LEN);
        return;
    }
    request = zk_call_request(call, call->req.args.op);
    request->args = call->req.args;
    request->multi = call->req.multi; /* The request owns the elements from now on. */
    call->req.multi = NULL;
    gate_note_request(call->zk->gate, &request->args, &call->conn->principal);
}

static bool needs_gate(const struct zk_call *call)
{
    return call->req.kind == ZK_GATE || call->req.type == ZK_CLOSE_SESSION;
}

static void mark_unrun(struct zk_call *call)
{
    call->unrun = true;
    call->conn->unrun++;
}

/* Starts a call; false when it cannot start yet. */
static bool start(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;

    if (!needs_gate(call)) {
        mark_unrun(call);
        return true;
    }
    if (conn->unrun > 0) {
        return false;
    }
    check_identity(call);
    if (call->fault != ZK_OK) {
        mark_unrun(call);
        return true;
    }
    if (!call->request) {
        make_request(call);
    }
    zk_call_identify(call);
    if (call->req.type == ZK_CLOSE_SESSION) {
        conn->session.ending = true;
    }
    return zk_call_submit(call);
}

static void start_some(struct zk_conn *conn)
{
    while (list_empty(&conn->held) && conn->next != &conn->calls &&
           start(list_entry(conn->next, struct zk_call, node))) {
        conn->next = conn->next->next;
    }
}

/* ---- Answering ---- */

/* Answers the first call; false when it cannot be answered now. */
static bool answer_first(struct zk_conn *conn)
{
    struct zk_call *call = list_first(&conn->calls, struct zk_call, node);

    if (list_empty(&conn->calls) || conn->next == &call->node || call->step == ZK_INSIDE ||
        !list_empty(&conn->longs.node)) {
        return false;
    }
    if (!needs_gate(call)) {
        check_identity(call);
    }
    if (!zk_run(call)) {
        return false;
    }
    conn->unrun -= call->unrun ? 1 : 0;
    zk_call_done(call);
    return true;
}

bool zk_queue_takes_more(struct zk_conn *conn)
{
    bool full = zk_out_is_full(conn);

    if (!full && conn->zk->writer == conn && conn->zk->out.len >= ZK_SEND_BYTES) {
        zk_out_flush(conn);
        full = zk_out_is_full(conn);
    }
    if (full) {
        zk_turn_stop(conn, ZK_STOP_UNREAD, true);
    }
    return !full && !conn->lost && conn->state != ZK_CUT;
}

/* Drops what must not be answered any more. */
static void drop_lost(struct zk_conn *conn)
{
    if (conn->lost || conn->state == ZK_CUT) {
        zk_call_release_all(conn);
        if (conn->opening) {
            conn->opening->call = NULL;
        }
    }
}

void zk_queue_run(struct zk_conn *conn)
{
    bool more = !list_empty(&conn->calls) && conn->state != ZK_OPENING;

    while (more && zk_queue_takes_more(conn)) {
        start_some(conn);
        more = answer_first(conn);
        if (more && conn->zk->now_us >= conn->zk->end_us) {
            zk_turn_later(conn);
            more = false;
        }
    }
    if ((conn->stops & ZK_STOP_UNREAD) && !list_empty(&conn->calls)) {
        zk_run_again(list_first(&conn->calls, struct zk_call, node));
    }
    drop_lost(conn);
    zk_call_promise(conn, 0); /* What it has not used is for others. */
    zk_turn_stop(conn, ZK_STOP_HELD, !list_empty(&conn->held));
}

void zk_queue_back(struct zk *zk, struct op_request *take_request)
{
    struct zk_call *call = take_request->ctx;

    ASSERT(call->step == ZK_INSIDE && zk->inside > 0);
    zk->inside--;
    call->step = ZK_BACK;
    if (call->conn) {
        zk_turn_soon(call->conn);
    } else {
        zk_call_free(call);
    }
}

/* ---- Arrival ---- */

/* Types whose call keeps state between its turns, or waits for the gate. */
static bool is_kept(int32_t type)
{
    switch (type) {
    case ZK_EXISTS:
    case ZK_GET_DATA:
    case ZK_GET_ACL:
    case ZK_GET_CHILDREN:
    case ZK_GET_CHILDREN2:
        return false;
    default:
        return true;
    }
}

/* Answers a read at once. False when it must wait. */
static bool answer_at_once(struct zk_conn *conn, struct slice frame)
{
    struct zk *zk = conn->zk;
    struct zk_call call = {.zk = zk, .conn = conn, .start_us = os_now_us()};
    bool done = false;

    zk->now_us = call.start_us;
    buf_clear(&zk->acls);
    done = zk_decode(&zk->frames, frame, &zk->acls, &call.req);
    ASSERT(done); /* The caller has read the header. */
    check_identity(&call);
    done = zk_run(&call);
    zk_request_release(&call.req);
    return done || conn->lost;
}

/* A ping is answered at once, before replies that wait. */
static void answer_ping(struct zk_conn *conn, int32_t xid)
{
    zk_encode_code(zk_out_begin(conn), xid, zk_order_told(conn, 0), ZK_OK);
    metric_add(&conn->zk->metrics.replies, 1);
    conn->replied++;
    if (conn->replied % PINGS_PER_LOOK == 0) {
        conn->zk->now_us = os_now_us(); /* Many pings end a turn as other requests do. */
    }
    zk_turn_soon(conn);
}

static void count_request(struct zk_conn *conn)
{
    metric_add(&conn->zk->metrics.requests, 1);
    conn->received++;
}

bool zk_queue_take(struct zk_conn *conn, struct slice frame)
{
    int32_t xid = zk_load_int(frame.data);
    int32_t type = zk_load_int(frame.data + ZK_INT_BYTES);
    struct zk_call *call = NULL;

    if (type == ZK_PING) {
        count_request(conn);
        answer_ping(conn, xid);
        return true;
    }
    if (list_empty(&conn->calls) && !is_kept(type) && answer_at_once(conn, frame)) {
        count_request(conn);
        return true;
    }
    if (zk_close_is_begun(conn)) {
        return true;
    }
    if (!zk_call_has_room(conn, frame)) {
        return false;
    }
    count_request(conn);
    bool all_started = conn->next == &conn->calls;

    call = zk_call_new(conn, frame);
    conn->zk->now_us = call->start_us;
    if (all_started) {
        conn->next = &call->node;
    }
    if (type == ZK_CLOSE_SESSION) {
        zk_turn_stop(conn, ZK_STOP_LAST, true); /* Nothing behind it is read. */
    }
    zk_turn_soon(conn);
    return true;
}
