/* Reads of the tree, which run on this thread, and the watches that go with them. */
#include "zk/zk_int.h"

/* Whether this replica may answer now. False: the connection ends, and its client goes to another
 * replica. */
bool zk_read_may(struct zk_call *call)
{
    const char *why = NULL;

    if (gate_check_local(call->zk->gate, &why) == ERR_OK) {
        return true;
    }
    zk_close_lost(call->conn, "not_ready");
    return false;
}

static enum watch_kind kind_of(int32_t type)
{
    if (type == ZK_EXISTS) {
        return WATCH_EXISTS;
    }
    return type == ZK_GET_DATA ? WATCH_DATA : WATCH_CHILDREN;
}

/* Adds the watch of a read, which begins right after the state that was read. False when the
 * client has too many; then that is the reply. */
static bool add_watch(struct zk_call *call, const struct op_result *result, zxid_t zxid)
{
    const struct zk_request *req = &call->req;
    bool wanted = result->err == ERR_OK || (req->type == ZK_EXISTS && result->err == ERR_NO_NODE);

    if (!req->args.watch || !wanted) {
        return true;
    }
    enum err err = zk_watch_add(call->conn, kind_of(req->type), req->args.path, zxid);

    if (err == ERR_THROTTLED) {
        zk_reply_code(call, ZK_THROTTLED);
    } else if (err != ERR_OK) {
        zk_close_lost(call->conn, "not_ready");
    }
    return err == ERR_OK;
}

/* Replies to a read. False when events must leave first: then the read runs again. */
static bool reply(struct zk_call *call, const struct op_result *result)
{
    struct zk_conn *conn = call->conn;
    zxid_t zxid = max_u64(result->upto, result->zxid);

    if (zk_error_code(result->err) == ZK_CLOSE) {
        zk_close_lost(conn, zk_error_reason(result->err));
        return true;
    }
    if (zxid < conn->seen) { /* An older state has replaced the one that the client has seen. */
        zk_close_lost(conn, "replica_behind");
        return true;
    }
    if (!zk_order_allows(call, zxid)) {
        return false;
    }
    if (add_watch(call, result, zxid)) {
        zk_reply_result(call, result, zxid);
    }
    return true;
}

static bool is_cut_off(const struct op_result *result)
{
    bool more = result->more;

    for (uint32_t i = 0; i < result->result_count; i++) {
        more = more || result->results[i].more;
    }
    return more;
}

/* Whether a multiRead does not fit into one short hold of the lock. */
static bool is_large(const struct op_result *result)
{
    for (uint32_t i = 0; i < result->result_count; i++) {
        if (result->results[i].more || result->results[i].err == ERR_TOO_LARGE) {
            return true;
        }
    }
    return false;
}

static void look(struct zk_call *call, struct op_result *result)
{
    struct view *view = gate_view(call->zk->gate);
    const struct op_principal *who = &call->conn->principal;

    if (call->req.args.op == OP_CHILDREN) {
        view_all_children(view, who, &call->req.args, result);
        return;
    }
    view_run(view, who, &call->req.args, result);
    if (is_large(result)) {
        op_result_release(result);
        view_all_multi(view, who, &call->req.args, result);
    }
}

bool zk_read_run(struct zk_call *call)
{
    struct op_result result;
    bool done = true;

    if (!zk_read_may(call)) {
        return true;
    }
    gate_note_request(call->zk->gate, &call->req.args, &call->conn->principal);
    op_result_init(&result);
    look(call, &result);
    if (result.err == ERR_TOO_LARGE) {
        zk_reply_code(call, ZK_THROTTLED); /* More znodes than view_all_multi reads. */
    } else if (is_cut_off(&result)) {
        zk_close_lost(call->conn, "reply_too_large");
    } else {
        done = reply(call, &result);
    }
    op_result_release(&result);
    return done;
}
