/* Runs one request whose turn it is, and replies to it. */
#include "zk/zk_int.h"

static bool run_front(struct zk_call *call)
{
    switch (call->req.type) {
    case ZK_AUTH:
        return zk_auth_add(call);
    case ZK_WHO_AM_I:
        return zk_auth_show(call);
    case ZK_GET_EPHEMERALS:
        return zk_auth_ephemerals(call);
    case ZK_GET_ALL_CHILDREN_NUMBER:
        return zk_auth_count(call);
    case ZK_SET_WATCHES:
    case ZK_SET_WATCHES2:
        return zk_lists_set(call);
    case ZK_ADD_WATCH:
        return zk_lists_add(call);
    case ZK_CHECK_WATCHES:
    case ZK_REMOVE_WATCHES:
        return zk_lists_find(call);
    default:
        zk_reply_code(call, ZK_UNIMPLEMENTED);
        zk_close_lost(call->conn, "bad_request");
        return true;
    }
}

static bool run_decided(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;

    zk_encode_decided(zk_out_begin(conn), &call->req, conn->seen);
    zk_reply_count(call, call->req.code == ZK_OK ? ERR_OK : ERR_BAD_ARGUMENTS);
    if (call->req.closes) {
        zk_close_lost(conn, "bad_request");
    }
    return true;
}

/* Returns the state that the reply to a request of the gate shows. */
static zxid_t state_of(const struct zk_call *call)
{
    zxid_t zxid = call->request->result.zxid;

    return call->req.type == ZK_SYNC ? max_u64(zxid, call->conn->seen) : zxid;
}

static bool run_back(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;
    const struct op_result *result = &call->request->result;
    bool closes = call->req.type == ZK_CLOSE_SESSION;

    if (zk_error_code(result->err) == ZK_CLOSE) {
        zk_close_lost(conn, zk_error_reason(result->err));
        return true;
    }
    if (!zk_order_allows(call, state_of(call))) {
        return false;
    }
    if (closes) {
        zk_order_saw(conn, result->zxid);
        zk_reply_code(call, zk_error_code(result->err));
        zk_session_detach(conn);
        zk_close_lost(conn, "session_closed");
    } else {
        zk_reply_result(call, result, state_of(call));
    }
    return true;
}

/* True when the call is answered, or its connection has ended. False: it runs again. */
bool zk_run(struct zk_call *call)
{
    if (call->fault != ZK_OK) {
        zk_reply_code(call, call->fault);
        if (call->last) {
            zk_close_lost(call->conn, "no_identity");
        }
        return true;
    }
    switch (call->req.kind) {
    case ZK_DECIDED:
        return run_decided(call);
    case ZK_GATE:
        return run_back(call);
    case ZK_READ:
        return zk_read_run(call);
    case ZK_FRONT:
        return call->request ? run_back(call) : run_front(call);
    }
    UNREACHABLE();
}

void zk_run_again(struct zk_call *call)
{
    zk_gather_drop(call);
    zk_auth_forget(call);
    if (call->placed) {
        zk_place_give(call);
    }
    list_remove(&call->conn->longs.node);
}
