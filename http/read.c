/*
 * Reads of the tree. Most are answered at once. A large read waits for its turn (large.c). A read
 * whose answer has not changed may wait for a change instead (wait.c). Either way it is read again
 * when its connection is resumed.
 *
 */
#include "base/check.h"
#include "http/http_int.h"
#include "server/read/view.h"

static void read_view(struct http_conn *conn, struct op_result *result)
{
    struct http_request *request = &conn->request;

    op_result_init(result);
    view_run(gate_view(conn->http->gate), &conn->principal, &request->args, result);
    if (result->zxid != 0 && result->zxid < http_least_zxid(request)) {
        op_result_release(result);
        op_result_init(result);
        result->err = ERR_REPLICA_BEHIND;
        result->detail = HTTP_TAKING_OVER;
    }
}

static enum MHD_Result answer(struct http_conn *conn, struct op_result *result)
{
    struct http_request *request = &conn->request;
    bool may_wait = request->wants.wait_ms > 0 && http_answer_is_unchanged(request, result);

    if (may_wait && http_wait_begin(conn, result)) {
        return MHD_YES;
    }
    return request->refused ? http_answer_fault(conn) : http_answer_result(conn, result);
}

static enum MHD_Result resume(struct http_conn *conn)
{
    if (conn->request.large.state != HTTP_LARGE_NONE) {
        return http_large_has_turn(conn) ? http_read(conn) : http_answer_fault(conn);
    }
    if (http_wait_has_hung_up(conn)) {
        return MHD_NO;
    }
    http_status_renew(conn);
    return http_check_local(conn) ? http_read(conn) : http_answer_fault(conn);
}

static void release(struct http_conn *conn)
{
    http_large_leave(conn); /* The connection may be closed between the resumption and the read. */
    http_wait_free(conn);
}

static const struct http_task_ops read_task = {.resume = resume, .release = release};

enum MHD_Result http_read(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    enum http_large_entry entry = HTTP_LARGE_ENTERED;
    struct op_result result;
    enum MHD_Result done = MHD_YES;

    ASSERT(view_reads(request->def->id));
    request->task.ops = &read_task;
    op_result_init(&result);
    if (http_large_before(request)) {
        entry = http_large_enter(conn);
    }
    if (entry == HTTP_LARGE_ENTERED) {
        read_view(conn, &result);
        entry = http_large_behind(request, &result) ? http_large_enter(conn) : entry;
    }
    if (entry == HTTP_LARGE_ENTERED) {
        done = answer(conn, &result);
        http_large_leave(conn);
    } else if (entry == HTTP_LARGE_REFUSED) {
        done = http_answer_fault(conn);
    }
    op_result_release(&result);
    return done; /* When the read waits, another thread may already have resumed the connection. */
}
