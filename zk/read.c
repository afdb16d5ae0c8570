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

/* Returns the error that ends the connection, of the whole or of an element; ERR_OK: none. */
static enum err fatal_error(const struct op_result *result)
{
    enum err err = zk_error_code(result->err) == ZK_CLOSE ? result->err : ERR_OK;

    for (uint32_t i = 0; i < result->result_count && err == ERR_OK; i++) {
        enum err one = result->results[i].err;

        err = zk_error_code(one) == ZK_CLOSE ? one : ERR_OK;
    }
    return err;
}

/* Replies to a read. False when events must leave first, or others have their turns: then the read
 * runs again. */
static bool reply(struct zk_call *call, const struct op_result *result)
{
    struct zk_conn *conn = call->conn;
    zxid_t zxid = max_u64(result->upto, result->zxid);
    enum err fatal = fatal_error(result);
    size_t size = zk_encode_size(result, zk_gather_names(call->gather));

    if (fatal != ERR_OK) {
        zk_close_lost(conn, zk_error_reason(fatal));
        return true;
    }
    if (zxid < conn->seen) { /* An older state has replaced the one that the client has seen. */
        zk_close_lost(conn, "replica_behind");
        return true;
    }
    if (size > ZK_REPLY_MAX) {
        zk_reply_code(call, ZK_THROTTLED);
        return true;
    }
    if (!zk_order_allows(call, zxid) || (size > ZK_LONG_REPLY && !zk_turn_takes_long(call))) {
        return false;
    }
    gate_note_request(call->zk->gate, &call->req.args, &conn->principal);
    if (add_watch(call, result, zxid)) {
        zk_reply_result(call, result, zxid);
    }
    return true;
}

/* Whether a list is not whole, or not of one state. */
static bool is_cut_off(const struct op_result *result)
{
    bool cut = result->more || (result->upto != 0 && result->upto != result->zxid);

    for (uint32_t i = 0; i < result->result_count && !cut; i++) {
        cut = result->results[i].more || result->results[i].err == ERR_TOO_LARGE;
    }
    return cut;
}

/* Reads what does not fit into one short hold of the lock. */
static bool gather(struct zk_call *call)
{
    struct op_result result;
    bool done = true;

    switch (zk_gather_run(call, &result)) {
    case ZK_GATHERED_PART:
        return false;
    case ZK_GATHERED_LOST:
        zk_close_lost(call->conn, "not_ready");
        return true;
    case ZK_GATHERED_TOO_LARGE:
    case ZK_GATHERED_LATE:
        zk_reply_code(call, ZK_THROTTLED);
        return true;
    case ZK_GATHERED_ALL:
        break;
    }
    done = reply(call, call->req.multi || result.result_count == 0 ? &result : &result.results[0]);
    op_result_release(&result);
    return done;
}

bool zk_read_run(struct zk_call *call)
{
    struct op_result result;
    bool in_queue = call->memory;
    bool done = false;

    if (!zk_read_may(call)) {
        return true;
    }
    if (call->place_since_us != 0) {
        return gather(call);
    }
    op_result_init(&result);
    view_run(gate_view(call->zk->gate), &call->conn->principal, &call->req.args, &result);
    if (!is_cut_off(&result)) {
        done = reply(call, &result);
    } else if (in_queue) {
        done = gather(call);
    }
    op_result_release(&result);
    return done;
}
