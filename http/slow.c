/* Slow requests: when a request began, and what its line in the log needs (server/process/slow.h).
 * Times are taken only while slowRequest is on. */
#include "http/http_int.h"
#include "server/op/trace.h"

enum {
    PATH_MAX_BYTES = 1024
};

static bool is_on(const struct http_conn *conn)
{
    return conn->http->limits->slow_request_ms > 0;
}

void http_slow_begin(struct http_conn *conn)
{
    if (is_on(conn)) {
        conn->request.slow.begin_ms = os_now_ms();
        conn->request.slow.times = (struct op_times){.sent_ms = 0};
    }
}

void http_slow_turn(struct http_conn *conn)
{
    if (is_on(conn)) {
        conn->request.slow.times.sent_ms = os_now_ms();
    }
}

/* Streams and transfers last on purpose. A long poll began when it was woken up. */
static bool is_measured(const struct http_request *request)
{
    return request->slow.begin_ms != 0 && request->def &&
           (!request->answer.is_untimed || request->answer.has_waited);
}

static bool is_slow(const struct http_conn *conn, uint64_t begin_ms, uint64_t served_ms)
{
    return served_ms >= begin_ms + conn->http->limits->slow_request_ms;
}

static struct slice path_of(const struct http_request *request)
{
    return slice_make(request->args.path.data, min_size(request->args.path.len, PATH_MAX_BYTES));
}

void http_slow_served(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct http_slow *slow = &request->slow;

    if (!is_on(conn) || !is_measured(request)) {
        return;
    }
    slow->served_ms = os_now_ms();
    if (!is_slow(conn, slow->begin_ms, slow->served_ms)) {
        slow->begin_ms = 0;
        return;
    }
    if (request->op) {
        slow->times = request->op->times;
    }
    struct slice path = path_of(request);

    slow->path = path.len > 0 ? mem_dup(path.data, path.len) : NULL;
    slow->path_len = path.len;
    slow->is_write = op_args_kind(&request->args) == OP_KIND_WRITE;
}

/* Adds to `slow` what is the same for every line of this request. */
static void note(struct http_conn *conn, struct gate_slow slow)
{
    const struct http_request *request = &conn->request;
    char number[HTTP_INSTANCE_MAX];

    (void)snprintf(number, sizeof(number), "%llx", (unsigned long long)request->id);
    slow.front = "http";
    slow.def = request->def;
    slow.address = conn->principal.address;
    slow.session = request->auth.session_id;
    slow.request = number;
    slow.trace = op_trace_id(request->head.traceparent);
    slow.end_ms = os_now_ms();
    gate_slow(conn->http->gate, &slow);
}

void http_slow_completed(struct http_conn *conn)
{
    const struct http_request *request = &conn->request;
    const struct http_slow *slow = &request->slow;

    if (slow->begin_ms == 0 || slow->served_ms == 0) {
        return;
    }
    note(conn, (struct gate_slow){
                   .is_write = slow->is_write,
                   .path = slice_make(slow->path, slow->path_len),
                   .err = request->fault.err,
                   .zxid = request->answer.zxid,
                   .begin_ms = slow->begin_ms,
                   .served_ms = slow->served_ms,
                   .times = slow->times,
               });
}

void http_slow_batch(struct http_conn *conn, uint64_t begin_ms)
{
    const struct op_request *op = conn->request.op;
    const struct gate_slow slow = {
        .is_write = op_args_kind(&op->args) == OP_KIND_WRITE,
        .path = path_of(&conn->request),
        .err = op->result.err,
        .zxid = op->result.zxid,
        .begin_ms = begin_ms,
        .served_ms = os_now_ms(),
        .times = op->times,
    };

    if (is_on(conn) && is_slow(conn, begin_ms, slow.served_ms)) {
        note(conn, slow);
    }
}

void http_slow_release(struct http_request *request)
{
    mem_free(request->slow.path);
    request->slow.path = NULL;
}
