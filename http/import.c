/*
 * Imports: the body is applied in batches as it arrives, and reading continues only when a batch is
 * answered. So the length of the body is unlimited, and the client's progress is that of the
 * import. The library accepts no answer before the end of the body: a failure in the middle is
 * reported after the rest has been read, or by raw bytes at the end of the connection.
 *
 */
#include "server/transfer/import.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/os_clock.h"
#include "http/http_int.h"

struct http_import {
    struct import *import;
    uint64_t start_ms;
    uint64_t held_ms;  /* Spent on batches, which does not count as the client's time. */
    uint64_t seen;     /* Bytes of the body before the failure. */
    uint64_t asked_ms; /* When the last batch was submitted. */
    bool admitted;     /* This replica has applied the state that the client has seen. */
};

static struct http_import *import_of(const struct http_conn *conn)
{
    return conn->request.task.data;
}

static void release(struct http_conn *conn)
{
    struct http_import *import = import_of(conn);
    struct http_transfers *transfers = &conn->http->transfers;

    const struct op_import_figures *figures = import_figures(import->import);

    metric_add(&transfers->imported_znodes,
               conn->request.args.dry_run ? 0 : figures->created + figures->overwritten);
    metric_add(&transfers->imports_failed, import_state(import->import) == IMPORT_DONE ? 0 : 1);
    atomic_fetch_sub_explicit(&transfers->imports.value, 1, memory_order_relaxed);
    http_transfer_end(conn->http, conn->address_key);
    import_free(import->import);
    mem_free(import);
}

/* The body has the time of any body of its length, plus the time spent on batches. */
static bool extend(struct http_conn *conn)
{
    struct http_import *import = import_of(conn);
    uint64_t body_ms = conn->http->limits->body_timeout_ms;
    uint64_t seen = import->seen + conn->request.body.seen;
    uint64_t end_ms = import->start_ms + import->held_ms + body_ms + seen / HTTP_BYTES_PER_MS;
    uint64_t now_ms = os_now_ms();
    uint64_t left_ms = end_ms > now_ms ? end_ms - now_ms : 1;

    return http_conn_enter(conn, HTTP_BODY, min_u64(left_ms, body_ms));
}

static enum MHD_Result submit(struct http_conn *conn, struct op_request *take_op)
{
    if (!http_conn_enter(conn, HTTP_BUSY, 0)) {
        op_request_free(take_op);
        return MHD_NO;
    }
    import_of(conn)->asked_ms = os_now_ms();
    return http_submit(conn, take_op);
}

static enum MHD_Result submit_batch(struct http_conn *conn)
{
    struct op_request *op = op_request_new();

    import_fill(import_of(conn)->import, op);
    op->session = conn->request.auth.session;
    return submit(conn, op);
}

static bool is_session_unknown(const struct http_request *request)
{
    return request->auth.session.shown && request->auth.session_id == 0;
}

/* A plan from a state older than the client has seen could skip znodes that do not exist any more.
 * A session that this replica does not know may be new, or may have ended. */
static bool must_wait(struct http_conn *conn)
{
    struct http_import *import = import_of(conn);
    uint64_t min_zxid = conn->request.wants.min_zxid;
    bool behind = !import->admitted && min_zxid != 0 && min_zxid > http_status(conn)->applied;

    import->admitted = import->admitted || (!behind && !is_session_unknown(&conn->request));
    return !import->admitted;
}

static enum MHD_Result submit_wait(struct http_conn *conn)
{
    struct op_request *op = op_request_new();

    op->def = ops_by_id(OP_STAT);
    op_args_init(&op->args, OP_STAT);
    op->args.path = conn->request.args.path;
    op->consistency = is_session_unknown(&conn->request) ? OP_LINEARIZABLE : OP_LOCAL;
    op->min_zxid = conn->request.wants.min_zxid;
    return submit(conn, op);
}

static void admit(struct http_conn *conn, const struct op_result *result)
{
    struct http_import *import = import_of(conn);
    const char *why = result->detail ? result->detail : err_text(result->err);
    enum err err = result->err;

    import->admitted = true;
    if (err == ERR_OK && is_session_unknown(&conn->request)) {
        err = http_session_find(conn, &why);
    }
    if (err != ERR_OK) {
        import_stop(import->import, err, why);
    }
}

/* Takes the gate's answer, if there is one. */
static void take_answer(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct http_import *import = import_of(conn);

    if (!request->op) {
        return;
    }
    import->held_ms += os_now_ms() - import->asked_ms;
    if (import->admitted) {
        import_answer(import->import, &request->op->result);
    } else {
        admit(conn, &request->op->result);
    }
    op_request_free(request->op);
    request->op = NULL;
    request->replica.has_status = false;
}

/* From here on the rest of the body is discarded. */
static void refuse(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    const struct op_fault *fault = import_fault(import_of(conn)->import);

    http_refuse(conn, fault->err, "%s", fault->detail);
    import_of(conn)->seen += request->body.seen;
    request->body.seen = 0;
}

static enum MHD_Result take_body(struct http_conn *conn, const char *data, size_t *len)
{
    struct import *import = import_of(conn)->import;
    size_t used = 0;

    take_answer(conn);
    if (import_state(import) == IMPORT_TAKES && must_wait(conn)) {
        return submit_wait(conn);
    }
    if (import_state(import) == IMPORT_TAKES && atomic_load(&conn->http->draining)) {
        import_stop(import, ERR_NOT_READY,
                    "this replica is shutting down: continue on another replica");
    }
    if (import_state(import) == IMPORT_TAKES) {
        used = import_take(import, slice_make(data, *len));
    }
    conn->request.body.seen += used;
    *len -= used;
    if (import_state(import) == IMPORT_READY) {
        return submit_batch(conn);
    }
    if (import_state(import) == IMPORT_FAILED) {
        refuse(conn);
        *len = 0;
    }
    return extend(conn) ? MHD_YES : MHD_NO;
}

/* ---- The answer ---- */

static enum MHD_Result answer_problem(struct http_conn *conn)
{
    const struct http_request *request = &conn->request;
    struct op_problem problem = op_problem_make(OP_KIND_WRITE, request->fault.err);

    if (problem.err == ERR_NO_AUTH && !conn->principal.auth) {
        problem.status = MHD_HTTP_UNAUTHORIZED;
    }
    problem.detail = request->fault.detail;
    problem.import = import_figures(import_of(conn)->import);
    return http_answer_problem(conn, &problem);
}

static enum MHD_Result answer_done(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    const struct op_import_figures *figures = import_figures(import_of(conn)->import);
    struct MHD_Response *response = NULL;
    struct jsonw json;

    if (figures->zxid != 0) {
        request->answer.zxid = figures->zxid;
    }
    buf_clear(&conn->out.own);
    jsonw_init(&json, &conn->out.own);
    op_json_import(&json, figures);
    response = http_response_out(conn, "application/json");
    http_header_no_store(response);
    http_header_common(conn, response, true);
    return http_send(conn, request->def->status, response);
}

static enum MHD_Result resume(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct import *import = import_of(conn)->import;

    if (!http_conn_enter(conn, HTTP_BUSY, 0)) {
        return MHD_NO;
    }
    take_answer(conn);
    if (import_state(import) == IMPORT_TAKES && must_wait(conn)) {
        return submit_wait(conn);
    }
    while (import_state(import) == IMPORT_TAKES) {
        import_end(import);
    }
    if (import_state(import) == IMPORT_READY) {
        return submit_batch(conn);
    }
    if (import_state(import) == IMPORT_FAILED && !request->refused) {
        refuse(conn);
    }
    return request->refused ? answer_problem(conn) : answer_done(conn);
}

/* ---- Begin ---- */

static const struct http_task_ops import_task = {
    .resume = resume,
    .take_body = take_body,
    .extend = extend,
    .release = release,
};

void http_import_begin(struct http_conn *conn)
{
    const struct config_clients *limits = conn->http->limits;
    struct http_request *request = &conn->request;
    struct http_transfers *transfers = &conn->http->transfers;
    const struct import_limits import_limits = {.data_bytes_max = limits->data_bytes_max,
                                                .multi_ops_max = limits->multi_ops_max,
                                                .multi_bytes_max = limits->multi_bytes_max};
    struct http_import *import = NULL;
    const char *why = NULL;
    zxid_t zxid = 0;
    enum err err = op_args_check(&request->args, &why);

    if (request->auth.session.shown) {
        (void)http_session_look(conn, &zxid);
    }
    if (err != ERR_OK) {
        http_refuse(conn, err, "%s", why);
        return;
    }
    if (request->head.idempotency_key.data) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "an import takes no Idempotency-Key: repeat it with conflict=skip or "
                    "conflict=overwrite");
        return;
    }
    if (limits->read_only && !request->args.dry_run) {
        http_refuse(conn, ERR_NOT_READ_ONLY, "%s", err_text(ERR_NOT_READ_ONLY));
        return;
    }
    if (!http_transfer_begin(conn)) {
        return;
    }
    import = mem_zalloc(1, sizeof(*import));
    import->import =
        import_new(gate_view(conn->http->gate), &conn->principal, &request->args, &import_limits);
    import->start_ms = os_now_ms();
    request->task = (struct http_task){&import_task, import};
    request->answer.is_untimed = true;
    metric_add(&transfers->imports, 1);
    metric_add(&transfers->imports_ever, 1);
}
