/*
 * Exports and imports.
 *
 * An export is a subtree as it was at one zxid. libmicrohttpd ("the library") pulls bytes when the
 * socket has room, so the reader sets the pace, and nothing waits in a queue. A slow reader
 * occupies a slot and the znodes that are kept for it (maxExportBytes). A reader is disconnected
 * when it reads nothing for slowTimeout, or when the export lasts longer than slowTimeout plus the
 * time for its bytes at HTTP_BYTES_PER_MS.
 *
 * The body of an import is applied in batches as it arrives, and reading continues only when a
 * batch is answered. So the length of the body is unlimited, and the client sends no faster than
 * the import is applied. The library accepts no answer before the end of the body: a failure in the
 * middle is reported after the rest has been read, or as raw bytes that end the connection.
 */
#include "http/http_int.h"
#include "server/transfer/export.h"
#include "server/transfer/import.h"

enum {
    RESPONSE_BLOCK = 1024, /* The library uses it for HTTP/1.0 only. */
    /* The maximum rate of an export. Without this limit an export and its reader would take all
     * processor time, and writes of other clients would wait. */
    BYTES_PER_S = 32 << 20,
    /* The library fills a socket until the kernel takes no more, and its thread serves no other
     * connection meanwhile: with 128 KiB, writes of others wait half a millisecond longer. */
    UNSENT_BYTES = 32 << 10
};

struct http_export {
    struct http *http;
    struct http_conn *conn; /* Valid while the response is pulled. */
    uint64_t address_key;
    struct export *export;
    struct buf out;
    size_t taken; /* Bytes of `out` that were pulled. */
    bool more;    /* `out` is not the last part. */
    uint64_t start_ms;
    uint64_t sent; /* Bytes that the library has pulled. */
};

/* ---- Slots ---- */

static void give_slot(struct http *http, uint64_t address_key)
{
    budget_shares_give(&http->transfers.places, address_key, 1);
}

/* Takes a slot for a transfer; false, with the request refused, when all slots are in use or this
 * replica may not answer. */
static bool take_slot(struct http_conn *conn)
{
    struct http *http = conn->http;

    if (!http_check_serving(conn)) {
        return false;
    }
    if (budget_shares_try_take(&http->transfers.places, conn->client_key, 1)) {
        return true;
    }
    http_refuse(conn, ERR_THROTTLED,
                "the limit of exports and imports (maxTransfers), of this replica or of your "
                "address, is reached: try again later, or use another replica");
    return false;
}

/* ---- The answer ---- */

/* Sets the deadline: the client must read again within slowTimeout, and the whole export may last
 * slowTimeout plus the time for the bytes pulled so far. False when the time is up. */
static bool set_deadline(struct http_export *export)
{
    uint64_t slow_ms = export->http->limits->slow_timeout_ms;
    uint64_t end_ms = export->start_ms + slow_ms + export->sent / HTTP_BYTES_PER_MS;
    uint64_t now_ms = os_now_ms();
    uint64_t left_ms = end_ms > now_ms ? end_ms - now_ms : 0;

    left_ms = min_u64(left_ms, slow_ms);
    return left_ms > 0 && http_conn_enter(export->conn, HTTP_SENDING, left_ms);
}

static void write_more(struct http_export *export)
{
    buf_clear(&export->out);
    export->taken = 0;
    if (atomic_load(&export->http->draining)) {
        export_stop(export->export, &export->out, ERR_NOT_READY,
                    "this replica is shutting down: start again on another replica");
        export->more = false;
        return;
    }
    export->more = export_write(export->export, &export->out);
}

static ssize_t on_read(void *cls, uint64_t pos UNUSED, char *to, size_t max)
{
    struct http_export *export = cls;

    if (export->taken == export->out.len && export->more) {
        write_more(export);
    }

    size_t left = export->out.len - export->taken;
    size_t len = min_size(left, max);

    if (len == 0 && !export->more) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (len > 0) {
        memcpy(to, export->out.data + export->taken, len);
    }
    export->taken += len;
    export->sent += len; /* If `len` is 0, the library serves other connections, then asks again. */
    return set_deadline(export) ? (ssize_t)len : MHD_CONTENT_READER_END_WITH_ERROR;
}

/* Called when the response was sent or the connection is closed. */
static void on_free(void *cls)
{
    struct http_export *export = cls;
    struct http_transfers *transfers = &export->http->transfers;
    bool whole =
        !export->more && export->taken == export->out.len && export_error(export->export) == ERR_OK;

    metric_add(&transfers->exported_znodes, export_figures(export->export)->znodes);
    metric_add(&transfers->exports_failed, whole ? 0 : 1);
    atomic_fetch_sub_explicit(&transfers->exports.value, 1, memory_order_relaxed);
    export_free(export->export);
    give_slot(export->http, export->address_key);
    buf_release(&export->out);
    mem_free(export);
}

static enum MHD_Result answer_lines(struct http_conn *conn, struct export *take_export)
{
    struct http *http = conn->http;
    struct http_export *export = mem_zalloc(1, sizeof(*export));
    struct MHD_Response *response = NULL;

    export->http = http;
    export->conn = conn;
    export->address_key = conn->client_key;
    export->export = take_export;
    export->more = true;
    export->start_ms = os_now_ms();
    buf_init(&export->out, SIZE_MAX / 2); /* export_write appends about 16 KiB, or one znode. */
    metric_add(&http->transfers.exports, 1);
    metric_add(&http->transfers.exports_ever, 1);
    response = http_response_pulled(MHD_SIZE_UNKNOWN, RESPONSE_BLOCK, on_read, export, on_free);
    conn->request.answer.is_endless = true;
    conn->request.answer.is_untimed = true;
    conn->request.answer.close = true; /* The pace (loop_pace) stays, so the connection ends. */
    loop_pace(conn->fd, BYTES_PER_S, UNSENT_BYTES);
    return http_send_lines(conn, response, "application/x-ndjson");
}

enum MHD_Result http_export_begin(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct op_result result;
    struct export *export = NULL;
    enum MHD_Result done = MHD_NO;

    if (!take_slot(conn)) {
        return http_answer_fault(conn);
    }
    op_result_init(&result);
    export = export_new(gate_view(conn->http->gate), &conn->principal, &request->args,
                        request->replica.history, conn->http->limits->export_bytes_max, &result);
    if (export && result.zxid < http_least_zxid(request)) {
        export_free(export);
        export = NULL;
        result.err = ERR_REPLICA_BEHIND;
        result.detail = HTTP_TAKING_OVER;
    }
    request->answer.zxid = result.zxid;
    if (export && !request->is_head) {
        done = answer_lines(conn, export);
    } else {
        give_slot(conn->http, conn->client_key);
        export_free(export);
        done = result.err == ERR_OK
                   ? http_send_lines(conn, http_response_empty(), "application/x-ndjson")
                   : http_answer_result(conn, &result);
    }
    op_result_release(&result);
    return done;
}

/* ---- Imports ---- */

struct http_import {
    struct import *import;
    uint64_t start_ms;
    uint64_t held_ms;  /* Time spent on batches; it does not count against the client. */
    uint64_t seen;     /* Bytes of the body before the failure. */
    uint64_t asked_ms; /* When the last batch was submitted. */
    bool admitted;     /* The import need not wait for this replica any more, see must_wait. */
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
    give_slot(conn->http, conn->client_key);
    import_free(import->import);
    mem_free(import);
}

/* Extends the deadline of the body: the client has bodyTimeout, plus the time for the bytes that
 * have arrived (at HTTP_BYTES_PER_MS), plus the time that was spent on batches. False when the
 * connection has expired. */
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

/* Whether the import must wait until this replica is up to date. An import that reads a state older
 * than the client has seen could skip lines because of znodes that do not exist any more. Only an
 * up-to-date replica can tell whether a session that it does not know is new or has ended. */
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
    http_slow_batch(conn, import->asked_ms);
    if (import->admitted) {
        import_answer(import->import, &request->op->result);
    } else {
        admit(conn, &request->op->result);
    }
    op_request_free(request->op);
    request->op = NULL;
    request->replica.has_status = false;
}

/* Refuses a failed import. The unread part of the body is then discarded. */
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
    struct jsonw json;

    if (figures->zxid != 0) {
        request->answer.zxid = figures->zxid;
    }
    buf_clear(&conn->out.own);
    jsonw_init(&json, &conn->out.own);
    op_json_import(&json, figures);
    return http_send_out(conn, request->def->status, "application/json");
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
                                                .multi_bytes_max = limits->multi_bytes_max,
                                                .inherit_acl = limits->inherit_acl};
    struct http_import *import = NULL;
    const char *why = NULL;
    enum err err = op_args_check(&request->args, &why);

    http_session_look(conn);
    if (err != ERR_OK) {
        http_refuse(conn, err, "%s", why);
    } else if (request->head.idempotency_key.data) {
        http_refuse(
            conn, ERR_BAD_ARGUMENTS,
            "an import does not accept an Idempotency-Key: repeat the import with conflict=skip "
            "or conflict=overwrite");
    } else if (limits->read_only && !request->args.dry_run) {
        http_refuse(conn, ERR_NOT_READ_ONLY, "%s", err_text(ERR_NOT_READ_ONLY));
    }
    if (request->refused || !take_slot(conn)) {
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
