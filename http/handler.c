/* The callbacks of libmicrohttpd ("the library"), in the order of the picture in README.md, and the
 * functions that they call. */
#include "base/log.h"
#include "http/http_int.h"
#include "server/op/trace.h"

enum {
    LOG_TARGET_MAX = 1024
};

void *http_on_target(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct http_conn *conn =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    struct http *http = cls;

    http_inlet_begin(&conn->inlet);
    (void)http_conn_enter(conn, HTTP_HEAD, http->limits->head_timeout_ms);
    conn->request.start_us = os_now_us();
    (void)buf_append_str(&conn->target, uri);
    return conn;
}

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind UNUSED, const char *name,
                                 size_t name_len, const char *value, size_t value_len)
{
    struct http_head *head = cls;

    http_head_add(head, slice_make(name, name_len), slice_make(value, value_len));
    return MHD_YES;
}

static void read_head(struct http_conn *conn, const char *method)
{
    struct http_request *request = &conn->request;
    struct http_forwarded_head forwarded;

    request->method = slice_str(method);
    if (slice_eq(request->method, slice_str("HEAD"))) {
        request->is_head = true;
        request->method = slice_str("GET");
    }
    if (conn->is_proxy) {
        forwarded = (struct http_forwarded_head){.host = {.count = 0}};
        request->head.forwarded = &forwarded;
    }
    (void)MHD_get_connection_values_n(conn->mhd, MHD_HEADER_KIND, on_header, &request->head);
    request->replica.history = gate_history(conn->http->gate);
    http_decode_head(conn);
    request->head.forwarded = NULL; /* The lines are used up. */
}

/* Returns how many bytes of a refused body are read. The limit is higher for an import, because the
 * client of a long import reads no answer before it has sent the body. */
static uint64_t swallow_max(const struct http_request *request)
{
    bool import = request->def && request->def->id == OP_IMPORT;

    return import ? HTTP_IMPORT_SWALLOW_BYTES : HTTP_SWALLOW_BYTES;
}

/* Whether a refused request must be answered before its body has arrived. A refused body that is
 * short enough is read to its end, so that the connection can be reused. */
static bool must_answer_now(const struct http_request *request)
{
    uint64_t len = 0;
    bool body = http_head_body(&request->head, &len);

    if (!request->refused) {
        return false;
    }
    return request->answer.close || (body && request->head.expect.data) ||
           (body && len != UINT64_MAX && len > swallow_max(request));
}

/* Discards what follows an early answer, until the deadline of the connection. */
static enum MHD_Result swallow(struct http_conn *conn, size_t *len)
{
    *len = 0;
    return atomic_load(&conn->deadline_ms) != 0 ? MHD_YES : MHD_NO;
}

/* Handles the library's first call for a request, which has the head but no body (`*len` is 0). */
static enum MHD_Result begin(struct http_conn *conn, const char *method, size_t *len)
{
    struct http_request *request = &conn->request;

    request->begun = true;
    request->id = atomic_fetch_add_explicit(&conn->http->next_request, 1, memory_order_relaxed);
    if (http_inlet_refuses(&conn->inlet)) {
        request->method = slice_str("-");
        http_conn_refuse(conn);
        return swallow(conn, len);
    }
    read_head(conn, method);
    if (!http_conn_enter(conn, HTTP_BODY, conn->http->limits->body_timeout_ms)) {
        return swallow(conn, len);
    }
    if (!request->refused && request->def && request->def->id == OP_IMPORT) {
        http_import_begin(conn);
    }
    return must_answer_now(request) ? http_answer_fault(conn) : MHD_YES;
}

/* Answers a request whose refused body is too long to be read, and ends the connection. The answer
 * is raw bytes, because the library accepts no answer in the middle of a body. */
static enum MHD_Result cut_off(struct http_conn *conn, size_t *len)
{
    const struct op_fault *fault = &conn->request.fault;
    struct http_refusal refusal = http_refusal_make(fault->err, fault->detail);

    if (conn->request.auth.is_anonymous) {
        refusal.status = MHD_HTTP_UNAUTHORIZED;
    }
    if (http_conn_enter(conn, HTTP_EXPIRED, HTTP_LINGER_MS)) {
        http_conn_send_problem(conn, refusal);
    }
    return swallow(conn, len);
}

static enum MHD_Result take_body(struct http_conn *conn, const char *data, size_t *len)
{
    struct http_request *request = &conn->request;
    const struct http_task_ops *task = request->task.ops;

    if (atomic_load(&conn->phase) == HTTP_EXPIRED) {
        return swallow(conn, len);
    }
    if (task && !request->refused) {
        return task->take_body(conn, data, len);
    }
    request->body.seen += *len;
    if (!request->refused && request->body.seen > request->body.max) {
        http_check_body_len(conn, request->body.seen);
        http_request_body_drop(conn);
    }
    if (!request->refused) {
        (void)http_request_body_append(conn, data, *len);
    } else if (request->body.seen > swallow_max(request)) {
        return cut_off(conn, len);
    }
    *len = 0;
    return !task || task->extend(conn) ? MHD_YES : MHD_NO;
}

/* Fills in the request for the core: the operation itself or, for a kind that the core does not
 * handle, the look-up of the session that the request names. */
static void fill_op(struct http_conn *conn, struct op_request *op)
{
    struct http_request *request = &conn->request;
    enum op_kind kind = op_args_kind(&request->args);

    op->def = request->def;
    op->args = request->args;
    if (kind == OP_KIND_INFO || kind == OP_KIND_FRONT) {
        op->def = ops_by_id(OP_GETSESSION);
        op_args_init(&op->args, OP_GETSESSION);
        op->args.secret_hash =
            slice_make(request->auth.session.hash, sizeof(request->auth.session.hash));
    }
    if (kind == OP_KIND_WRITE) {
        op->session = request->auth.session;
        op->key = request->auth.key;
    }
    op->multi = request->multi;
    request->multi = NULL;
}

/* Whether this replica must check the session of the request. The leader checks the sessions of
 * writes. Opening or closing a session, and the status of this replica, need no session. */
static bool needs_session(const struct http_request *request)
{
    enum op_kind kind = op_args_kind(&request->args);
    bool checked = kind == OP_KIND_READ || kind == OP_KIND_SYNC || kind == OP_KIND_FRONT ||
                   request->def->id == OP_WHOAMI;

    return request->auth.session.shown && checked;
}

/* Runs the operation on the library's thread. */
static enum MHD_Result run_here(struct http_conn *conn)
{
    enum op_kind kind = op_args_kind(&conn->request.args);
    enum op_id op = conn->request.def->id;

    if (kind == OP_KIND_INFO) {
        return op == OP_RELOAD ? http_reload_begin(conn) : http_answer_info(conn);
    }
    if (kind == OP_KIND_READ) {
        return http_read(conn);
    }
    ASSERT(kind == OP_KIND_FRONT); /* The other operations of this kind have no route. */
    return op == OP_EXPORT    ? http_export_begin(conn)
           : op == OP_BACKUP  ? http_backup_begin(conn)
           : op == OP_WATCHES ? http_watches_begin(conn)
                              : http_stream_begin(conn);
}

/* Answers a write, and records a heartbeat: for the session that the result returns or, if it
 * returns none, for the session that the request names. run_op() has already recorded the heartbeat
 * of the named session, unless this replica did not know it yet; then it is looked up again. */
static enum MHD_Result answer_write(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct op_result *result = &request->op->result;

    gate_credentials_refused(conn->http->gate, request->op);
    if (result->has_session) {
        gate_touch(conn->http->gate, result->session.id);
    } else if (request->auth.session_id == 0) {
        http_session_look(conn);
    }
    return http_answer_result(conn, result);
}

static enum MHD_Result replied(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct op_result *result = &request->op->result;
    enum op_kind kind = op_args_kind(&request->args);
    const char *why = NULL;

    http_status_renew(conn);
    if (kind == OP_KIND_WRITE) {
        return answer_write(conn);
    }
    if (result->err == ERR_OK && needs_session(request)) {
        enum err err = http_session_find(conn, &why);

        if (err != ERR_OK) {
            http_refuse(conn, err, "%s", why);
            return http_answer_fault(conn);
        }
    }
    if (result->err != ERR_OK || kind == OP_KIND_SYNC) {
        return http_answer_result(conn, result);
    }
    return run_here(conn);
}

static const struct http_task_ops core_task = {.resume = replied};

static enum MHD_Result ask_core(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct op_request *op = op_request_new();

    fill_op(conn, op);
    op->consistency = request->wants.consistency;
    op->min_zxid = request->wants.min_zxid;
    request->task.ops = &core_task;
    return http_submit(conn, op);
}

static bool needs_core(struct http_conn *conn)
{
    const struct http_request *request = &conn->request;
    enum op_kind kind = op_args_kind(&request->args);

    if (kind == OP_KIND_INFO) {
        return false;
    }
    return kind == OP_KIND_WRITE || kind == OP_KIND_SYNC ||
           request->wants.consistency == OP_LINEARIZABLE ||
           (request->wants.min_zxid != 0 && request->wants.min_zxid > http_status(conn)->applied);
}

static enum MHD_Result run_op(struct http_conn *conn)
{
    struct http_request *request = &conn->request;

    gate_note_request(conn->http->gate, &request->args, &conn->principal);
    http_session_look(conn);
    if (needs_session(request) && request->auth.session_id == 0) {
        /* The session may be too new for this replica to know it. */
        request->wants.consistency = OP_LINEARIZABLE;
        return ask_core(conn);
    }
    if (needs_core(conn)) {
        return ask_core(conn);
    }

    if (op_args_kind(&request->args) == OP_KIND_READ && !http_check_local(conn)) {
        return http_answer_fault(conn);
    }
    return run_here(conn);
}

/* The function that answers, by the kind of the route. The decoder has refused HTTP_ROUTE_SOCKET.
 */
static enum MHD_Result (*const answers[])(struct http_conn *conn) = {
    [HTTP_ROUTE_OPS] = run_op,
    [HTTP_ROUTE_INDEX] = http_answer_index,
    [HTTP_ROUTE_PROBE] = http_answer_probe,
    [HTTP_ROUTE_METRICS] = http_answer_metrics,
    [HTTP_ROUTE_DOCUMENT] = http_answer_document,
    [HTTP_ROUTE_UI] = http_answer_ui,
};

static enum MHD_Result finish(struct http_conn *conn)
{
    struct http_request *request = &conn->request;

    if (!http_conn_enter(conn, HTTP_BUSY, 0)) {
        return MHD_NO;
    }
    http_slow_begin(conn);
    http_decode_body(conn);
    if (request->refused || !http_request_body_decoded(conn)) {
        return http_answer_fault(conn);
    }
    if (slice_eq(request->method, slice_str("OPTIONS"))) {
        return http_answer_options(conn);
    }
    return answers[request->route->kind](conn);
}

// NOLINTNEXTLINE(readability-function-size): the library sets the parameters.
enum MHD_Result http_on_request(void *cls UNUSED, struct MHD_Connection *mhd UNUSED,
                                const char *url UNUSED, const char *method,
                                const char *version UNUSED, const char *upload_data,
                                size_t *upload_data_size, void **con_cls)
{
    struct http_conn *conn = *con_cls;
    struct http_request *request = &conn->request;

    if (!request->begun) {
        return begin(conn, method, upload_data_size);
    }
    if (*upload_data_size > 0) {
        return take_body(conn, upload_data, upload_data_size);
    }
    if (request->answer.queued) {
        return MHD_YES;
    }
    return request->task.ops ? request->task.ops->resume(conn) : finish(conn);
}

/* Logs one line per request, without secrets and without the query. */
static void write_access(struct http_conn *conn, uint64_t took_us)
{
    const struct http_request *request = &conn->request;
    struct slice trace = op_trace_id(request->head.traceparent);
    struct slice target = buf_slice(&conn->target);
    struct buf path;

    target.len = min_size(slice_find(target, '?'), LOG_TARGET_MAX);
    buf_init(&path, (size_t)LOG_TARGET_MAX * 2);
    http_redact_path(request->route, target, &path);
    log_info("http",
             "request={request}%llx remote={address}%s method={method}%s route={route}%s "
             "target={target}%s status={status}%u bytes={bytes}%zu us={us}%llu "
             "zxid={zxid}0x%llx code={code}%s trace={trace}%.*s",
             (unsigned long long)request->id, conn->principal.address,
             request->is_head ? "HEAD" : (const char *)request->method.data,
             request->route ? request->route->name : "-", buf_cstr(&path), request->answer.status,
             request->answer.bytes, (unsigned long long)took_us,
             (unsigned long long)request->answer.zxid, err_name(request->fault.err),
             trace.len > 0 ? (int)trace.len : 1, trace.len > 0 ? (const char *)trace.data : "-");
    buf_release(&path);
}

static void count(struct http_conn *conn)
{
    struct http *http = conn->http;
    struct http_request *request = &conn->request;
    uint64_t took_us = os_now_us() - request->start_us;
    uint32_t status_class = request->answer.status / 100;
    enum err err = request->fault.err;

    gate_credentials_seen(http->gate, &conn->principal);
    if (err == ERR_UNKNOWN_SESSION || err == ERR_SESSION_EXPIRED) {
        gate_credentials_failed(http->gate, &conn->principal, GATE_FAILED_SESSION);
    }
    metric_add(&http->metrics.requests[status_class < 6 ? status_class : 0], 1);
    if (!request->answer.is_untimed) {
        metric_observe_us(&http->metrics.latency, took_us);
    }
    if (request->def && !request->answer.is_untimed) {
        gate_count_op(http->gate, request->def->id, request->answer.status >= 400, took_us);
    }
    http_slow_completed(conn);
    if (http->limits->access_log) {
        write_access(conn, took_us);
    }
}

void http_on_completed(void *cls, struct MHD_Connection *mhd UNUSED, void **con_cls,
                       enum MHD_RequestTerminationCode code UNUSED)
{
    struct http_conn *conn = *con_cls;
    struct http *http = cls;

    if (!conn) {
        return;
    }
    if (conn->request.begun) {
        count(conn);
    }
    http_conn_reset(conn);

    bool more = conn->inlet.held.len > 0; /* The next head has started to arrive. */

    (void)http_conn_enter(conn, more ? HTTP_HEAD : HTTP_IDLE,
                          more ? http->limits->head_timeout_ms : http->limits->idle_timeout_ms);
    *con_cls = NULL;
}
