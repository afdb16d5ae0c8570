/*
 * One request of a client: decoded, counted, handed to the gate, freed. What counts is the memory
 * of a request, because its operations may be thirty times as large as its frame. It counts until
 * the gate has returned the request, also when the connection has ended.
 */
#include "zk/zk_int.h"

void zk_call_free(struct zk_call *take_call)
{
    budget_shares_give(&take_call->zk->calls, take_call->address_key, take_call->bytes);
    take_call->zk->gave_room = true;
    zk_gather_free(take_call->gather);
    zk_place_give(take_call);
    zk_request_release(&take_call->req);
    op_request_free(take_call->request);
    buf_release(&take_call->acls);
    buf_release(&take_call->names);
    mem_free(take_call->memory);
    mem_free(take_call);
}

bool zk_sets_watches(int32_t type)
{
    return type == ZK_SET_WATCHES || type == ZK_SET_WATCHES2;
}

/* Whether the requests in flight have reached 1/`part` of their limit. The client is stopped at the
 * limit and continues below half of it. */
static bool is_full(const struct zk_conn *conn, uint32_t part)
{
    uint32_t most = min_u32(ZK_CALLS_MAX, conn->zk->limits->socket_in_flight_max);

    return conn->count >= max_u32(most / part, 1) || conn->bytes >= ZK_FLIGHT_BYTES / part;
}

static void count_out(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;

    ASSERT(conn->count > 0 && conn->bytes >= call->bytes);
    conn->count--;
    conn->set_watches -= zk_sets_watches(call->req.type) ? 1 : 0;
    conn->bytes -= call->bytes;
    if ((conn->stops & ZK_STOP_FULL) && (conn->count == 0 || !is_full(conn, 2))) {
        zk_turn_stop(conn, ZK_STOP_FULL, false);
    }
}

/* A small request of a connection without others is always taken: so a client behind a busy address
 * makes progress, and its session stays alive. */
static bool has_room(const struct zk_conn *conn, size_t len)
{
    return (conn->count == 0 && len <= ZK_ALWAYS_BYTES) ||
           !budget_shares_is_full(&conn->zk->calls, conn->address_key);
}

bool zk_call_has_room(struct zk_conn *conn, struct slice frame)
{
    bool has = has_room(conn, frame.len);

    if (!has && list_empty(&conn->roomless)) {
        conn->roomless_len = frame.len;
        list_push_back(&conn->zk->roomless, &conn->roomless);
        zk_turn_stop(conn, ZK_STOP_ROOM, true);
    }
    return has;
}

void zk_call_resume(struct zk *zk)
{
    if (!zk->gave_room || list_empty(&zk->roomless)) {
        return;
    }
    zk->gave_room = false;
    list_for_each_entry_safe (struct zk_conn, conn, next, roomless, &zk->roomless) {
        if (has_room(conn, conn->roomless_len)) {
            list_remove(&conn->roomless);
            zk_turn_stop(conn, ZK_STOP_ROOM, false);
        }
    }
}

/* Returns the memory of a call, with the request that it may hand to the gate. */
static size_t memory_of(const struct zk_call *call, size_t frame_len)
{
    return sizeof(*call) + sizeof(*call->request) + frame_len + call->acls.cap +
           (call->req.multi ? call->req.args.op_count * sizeof(*call->req.multi) : 0);
}

struct zk_call *zk_call_new(struct zk_conn *conn, struct slice frame)
{
    struct zk_call *call = mem_zalloc(1, sizeof(*call));
    struct zk *zk = conn->zk;

    call->zk = zk;
    call->conn = conn;
    call->address_key = conn->address_key;
    call->start_us = os_now_us();
    list_init(&call->place.node);
    buf_init(&call->acls, SIZE_MAX / 2); /* Bounded by the frame. */
    buf_init(&call->names, ZK_REPLY_MAX);
    if (frame.len > 0) {
        call->memory = mem_dup(frame.data, frame.len);
        bool sound =
            zk_decode(&zk->frames, slice_make(call->memory, frame.len), &call->acls, &call->req);

        ASSERT(sound); /* The caller has read the header. */
    }
    call->bytes = memory_of(call, frame.len);
    budget_shares_take(&zk->calls, call->address_key, call->bytes);
    list_push_back(&conn->calls, &call->node);
    conn->count++;
    conn->set_watches += zk_sets_watches(call->req.type) ? 1 : 0;
    conn->bytes += call->bytes;
    if (is_full(conn, 1)) {
        zk_turn_stop(conn, ZK_STOP_FULL, true);
    }
    return call;
}

static void on_reply(struct op_request *request)
{
    struct zk_call *call = request->ctx;
    struct zk *zk = call->zk;

    mailbox_must_post(&zk->replies.box, &request->node);
}

struct op_request *zk_call_request(struct zk_call *call, enum op_id op)
{
    struct op_request *request = op_request_new();

    request->def = ops_by_id(op);
    request->on_reply = on_reply;
    request->ctx = call;
    op_args_init(&request->args, op);
    op_request_free(call->request);
    call->request = request;
    call->step = ZK_NEW;
    return request;
}

/* Sets the principal and the session just before the request is submitted, because earlier requests
 * may have changed them. */
void zk_call_identify(struct zk_call *call)
{
    const struct zk_conn *conn = call->conn;
    struct op_request *request = call->request;

    principal_release(&request->principal);
    request->principal = principal_copy(&conn->principal);
    if (conn->session.id != 0) {
        request->session = (struct op_session){
            .shown = true, .id = conn->session.id, .attach = conn->session.number};
    }
}

void zk_call_retry(struct zk *zk)
{
    if (!ev_is_active(&zk->retry)) {
        ev_timer_set(&zk->retry, ZK_RETRY_MS / 1000.0, 0.);
        ev_timer_start(zk->loop, &zk->retry);
    }
}

void zk_call_promise(struct zk_conn *conn, uint64_t share)
{
    conn->zk->promised += share - conn->share;
    conn->share = share;
}

/* Whether the gate has room for one more request of this connection. */
static bool gate_has_room(const struct zk_conn *conn)
{
    const struct zk *zk = conn->zk;

    return conn->share > 0 || zk->inside + zk->promised < zk->inside_max;
}

static void hold(struct zk_conn *conn)
{
    struct zk *zk = conn->zk;

    zk_call_promise(conn, 0);
    zk_turn_stop(conn, ZK_STOP_HELD, true);
    if (list_empty(&conn->held)) {
        list_push_back(&zk->held, &conn->held);
    }
    zk_call_retry(zk);
}

/* A client that waits for its session gives up after a part of its timeout, and tries another
 * replica: the Java client after its timeout divided by the number of replicas that it knows. What
 * it has asked for must not happen after that, so its request has a third of the timeout. */
static uint32_t patience_ms(const struct zk_conn *conn)
{
    uint32_t most = conn->zk->limits->request_timeout_ms;

    return conn->opening ? min_u32(most, max_u32(conn->opening->timeout_ms / 3, ZK_OPENING_MS))
                         : most;
}

bool zk_call_submit(struct zk_call *call)
{
    struct zk *zk = call->zk;
    enum err err = ERR_OK;

    ASSERT(call->step != ZK_INSIDE);
    if (!gate_has_room(call->conn)) {
        hold(call->conn);
        return false;
    }
    call->request->fifo = call->conn->fifo;
    call->request->deadline_ms = os_now_ms() + patience_ms(call->conn);
    call->step = ZK_INSIDE;
    zk->inside++;
    err = gate_submit(zk->gate, call->request);
    if (err == ERR_OK) {
        zk_call_promise(call->conn, call->conn->share - min_u64(call->conn->share, 1));
        return true;
    }
    zk->inside--;
    call->step = ZK_NEW;
    if (err == ERR_THROTTLED) {
        hold(call->conn);
        return false;
    }
    call->step = ZK_BACK;
    call->request->result.err = err;
    return true;
}

void zk_call_done(struct zk_call *take_call)
{
    list_remove(&take_call->node);
    count_out(take_call);
    zk_call_free(take_call);
}

/* Drops all calls of a connection. A call whose request is inside the gate is freed when the
 * request comes back. */
void zk_call_release_all(struct zk_conn *conn)
{
    list_for_each_entry_safe (struct zk_call, call, tmp, node, &conn->calls) {
        list_remove(&call->node);
        count_out(call);
        call->conn = NULL;
        if (call->step != ZK_INSIDE) {
            zk_call_free(call);
        } else if (call->request->def->id == OP_ATTACH || call->request->def->id == OP_OPEN) {
            atomic_store(&call->request->abandoned, true);
        }
    }
    conn->next = &conn->calls;
    conn->unrun = 0;
    list_remove(&conn->longs.node);
    zk_call_promise(conn, 0);
}
