/* Turns results into responses: representation, conditions, status. */
#include "http/etag.h"
#include "http/http_int.h"
#include "server/op/change.h"

enum {
    LOCATION_MAX = 2048,
    LOCATION_NAME_LEN = 12 /* "Location: " and the end of the line. */
};

/* Appends "http://host:port" or "https://host:port", as the client has addressed this replica: by
 * the Host of the request, else by the address of this replica. */
static void put_base(struct http_conn *conn, struct buf *out)
{
    struct slice host = conn->request.host;

    buf_append_str(out, http_is_https(conn) ? "https://" : "http://");
    if (host.len > 0) {
        buf_append_slice(out, host);
    } else {
        const struct config_clients *limits = conn->http->limits;
        bool v6 = strchr(limits->client_address, ':') != NULL;

        buf_printf(out, v6 ? "[%s]:%u" : "%s:%u", limits->client_address, conn->http->port);
    }
}

/* Appends the URL of a znode on the request's route, or of the session that this request has
 * opened. The URL of a session contains its secret, so only the creator of the session receives it.
 */
static void put_uri_of(struct http_conn *conn, const struct op_result *result, struct slice path,
                       struct buf *out)
{
    const struct http_route *route = conn->request.route;
    struct slice secret = conn->request.args.secret;

    if (result->has_session && secret.len == 0) {
        return;
    }
    put_base(conn, out);
    buf_append(out, route->name, route->fixed_len);
    http_target_encode(out, result->has_session ? slice_str("/") : path);
    if (result->has_session) {
        buf_append_slice(out, secret);
    }
}

/* ---- Problems ---- */

static bool is_gone(enum err err)
{
    return err == ERR_SESSION_EXPIRED || err == ERR_UNKNOWN_SESSION;
}

/* Whether a heartbeat has failed because its session has ended. PUT /sessions/v1/{id} addresses the
 * session as a resource, so the answer is 404. ZooKeeper's REST gateway also answers 404, and its
 * clients then open another session. */
static bool is_lost_heartbeat(const struct http_request *request, enum err err)
{
    return request->def && request->def->id == OP_TOUCH && request->auth.url_secret.data &&
           is_gone(err);
}

static void problem_headers(struct http_conn *conn, const struct op_problem *problem,
                            uint32_t status, struct MHD_Response *response)
{
    char etag[HTTP_ETAG_MAX];
    struct buf allow;

    http_header_no_store(response);
    if (problem->retry_after_ms > 0) {
        char seconds[24];

        (void)snprintf(seconds, sizeof(seconds), "%llu",
                       (unsigned long long)(problem->retry_after_ms + 999) / 1000);
        http_header(response, "Retry-After", seconds);
    }
    if (status == MHD_HTTP_UNAUTHORIZED) {
        /* The challenge names what the client needs: another session, or credentials. */
        http_header(response, "WWW-Authenticate",
                    is_gone(problem->err) ? "Zk-Session" : HTTP_CHALLENGE_BASIC);
    }
    if (problem->err == ERR_UPGRADE_REQUIRED) {
        http_header(response, "Upgrade", "websocket");
    }
    if (problem->err == ERR_UNSUPPORTED_MEDIA_TYPE && conn->request.head.content_encoding.data) {
        http_header(response, "Accept-Encoding", "identity");
    }
    if (problem->err == ERR_METHOD_NOT_ALLOWED) {
        buf_init(&allow, HTTP_KEEP_BYTES);
        http_route_allow(conn->request.route, http_names_element(&conn->request), &allow);
        http_header(response, "Allow", buf_cstr(&allow));
        buf_release(&allow);
    }
    if (problem->result && problem->result->has_stat) {
        http_etag_changed(conn->request.args.op, &problem->result->stat, etag);
        http_header(response, "ETag", etag);
    }
    if (problem->result && problem->result->has_change) {
        http_etag_config(op_change_version(blob_slice(problem->result->change)), etag);
        http_header(response, "ETag", etag);
    }
}

/* Returns the kind of the request; OP_KIND_INFO while it is unknown. */
static enum op_kind kind_of(const struct http_request *request)
{
    return request->def ? op_args_kind(&request->args) : OP_KIND_INFO;
}

/* Reports a refusal to the audit log, before the text of the problem can be changed. */
static void tell_refused(struct http_conn *conn, const struct op_problem *problem, uint32_t status)
{
    const struct http_request *request = &conn->request;

    gate_refused(conn->http->gate, &(struct gate_refusal){
                                       .op = request->def ? request->def->name : NULL,
                                       .args = &request->args,
                                       .client = &conn->principal,
                                       .session = request->auth.session_id,
                                       .has_index = problem->has_index,
                                       .index = problem->index,
                                       .err = problem->err,
                                       .status = status,
                                       .why = problem->detail,
                                   });
}

enum MHD_Result http_answer_problem(struct http_conn *conn, const struct op_problem *given)
{
    struct http_request *request = &conn->request;
    struct op_problem problem = *given;
    uint32_t status = (uint32_t)err_http_status(problem.err);
    bool may_retry = status == MHD_HTTP_TOO_MANY_REQUESTS ||
                     status == MHD_HTTP_SERVICE_UNAVAILABLE || problem.err == ERR_IN_FLIGHT;
    char instance[HTTP_INSTANCE_MAX];
    struct jsonw json;

    if (is_lost_heartbeat(request, problem.err)) {
        problem.status = MHD_HTTP_NOT_FOUND;
    }
    status = problem.status ? problem.status : status;
    (void)snprintf(instance, sizeof(instance), "urn:zabra:request:%llx",
                   (unsigned long long)request->id);
    problem.instance = instance;
    problem.path = request->args.path;
    problem.zxid = request->answer.zxid ? request->answer.zxid : http_status(conn)->applied;
    if (!may_retry) {
        problem.retry_after_ms = 0;
    } else if (problem.retry_after_ms == 0) {
        problem.retry_after_ms = HTTP_RETRY_AFTER_MS;
    }
    buf_clear(&conn->uri);
    if (conn->target.len > 0 && conn->target.data[0] == '/') {
        put_base(conn, &conn->uri);
    }
    http_redact_target(request->route, buf_slice(&conn->target), &conn->uri);
    problem.request = buf_slice(&conn->uri);
    text_clear(&conn->out, HTTP_KEEP_BYTES);
    jsonw_init(&json, &conn->out.own);
    op_json_problem(&json, &problem);
    tell_refused(conn, &problem, status);
    request->fault.err = problem.err;

    struct MHD_Response *response = http_response_out(conn, "application/problem+json");

    problem_headers(conn, &problem, status, response);
    http_header_common(conn, response, true);
    return http_send(conn, status, response);
}

enum MHD_Result http_answer_fault(struct http_conn *conn)
{
    const struct op_fault *fault = &conn->request.fault;
    struct op_problem problem = op_problem_of_fault(kind_of(&conn->request), fault);

    ASSERT(conn->request.refused);
    if (conn->request.auth.is_anonymous) {
        problem.status = MHD_HTTP_UNAUTHORIZED;
    }
    return http_answer_problem(conn, &problem);
}

static enum MHD_Result answer_error(struct http_conn *conn, const struct op_result *result)
{
    const struct http_request *request = &conn->request;
    struct op_problem problem = op_problem_of_result(kind_of(request), &request->args, result);

    /* The status is 401, because a client without credentials may still send the credentials that
     * the ACL requires. */
    if (result->err == ERR_NO_AUTH && !conn->principal.auth) {
        problem.status = MHD_HTTP_UNAUTHORIZED;
    }
    return http_answer_problem(conn, &problem);
}

/* ---- Successes ---- */

/* Answers with the bytes of the znode, without a copy: the response holds a reference. Date is left
 * out to keep the head of raw reads short. */
static enum MHD_Result answer_bytes(struct http_conn *conn, struct op_result *result,
                                    const char *etag)
{
    struct MHD_Response *response = NULL;
    bool empty = !result->data || conn->request.is_head;
    char stat[HTTP_STAT_MAX];

    if (empty) {
        response = http_response_empty();
    } else {
        response = http_response_blob(conn, result->data);
        if (!response) {
            return http_answer_fault(conn);
        }
        http_header(response, "Content-Type", "application/octet-stream");
    }
    http_stat_text(&result->stat, stat);
    http_header(response, "ETag", etag);
    http_header(response, "Zk-Stat", stat);
    http_header(response, "X-Content-Type-Options", "nosniff");
    http_header(response, "Content-Security-Policy", "sandbox");
    /* The JSON of this URL has the same tag, so a cache could mix up both forms. */
    http_header(response, "Cache-Control", "no-store");
    http_header_common(conn, response, false);
    return http_send(conn, empty ? MHD_HTTP_NO_CONTENT : MHD_HTTP_OK, response);
}

/* Returns the maximum length of Location. A longer one does not fit into the library's memory next
 * to the head of the request; the library would then send no answer at all. */
static size_t location_max(struct http_conn *conn)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    int entries =
        MHD_get_connection_values(conn->mhd, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND, NULL, NULL);
    size_t left = info ? http_pool_left(conn->http->limits->head_bytes_max, info->header_size,
                                        (size_t)entries)
                       : 0;

    left = left > LOCATION_NAME_LEN ? left - LOCATION_NAME_LEN : 0;
    return min_size(left, LOCATION_MAX);
}

static void put_location(struct http_conn *conn, const struct op_result *result,
                         struct MHD_Response *response)
{
    struct slice path = result->path.len > 0 ? result->path : conn->request.args.path;
    struct buf location;
    char member[16];

    if (result->has_change) {
        (void)snprintf(member, sizeof(member), "/%u", conn->request.args.member);
        path = slice_str(member);
    }

    buf_init(&location, location_max(conn));
    put_uri_of(conn, result, path, &location);
    if (!location.overflow) {
        http_header(response, "Location", buf_cstr(&location));
    }
    buf_release(&location);
}

static enum MHD_Result answer_empty(struct http_conn *conn, const struct op_result *result,
                                    uint32_t status, const char *etag)
{
    struct MHD_Response *response = http_response_empty();
    char stat[HTTP_STAT_MAX];

    if (etag[0]) {
        http_header(response, "ETag", etag);
    }
    if (status == MHD_HTTP_CREATED) {
        put_location(conn, result, response);
    } else if (conn->request.wants.media == HTTP_MEDIA_RAW && result->has_stat) {
        http_stat_text(&result->stat, stat);
        http_header(response, "Zk-Stat", stat);
    }
    if (status == MHD_HTTP_NOT_MODIFIED && conn->request.wants.media == HTTP_MEDIA_JSON) {
        http_header(response, "Cache-Control", "no-cache"); /* As in an answer with a body. */
    }
    http_header_common(conn, response, true);
    return http_send(conn, status, response);
}

/* Returns the path in the URL of the request. For a create this is the parent of the new znode:
 * ZooKeeper's own gateway answers with the same URL. */
static struct slice addressed_path(const struct http_request *request)
{
    struct slice path = request->args.path;

    if (request->def->shape != OP_SHAPE_CREATED) {
        return path;
    }
    for (size_t end = path.len; end > 0; end--) {
        if (path.data[end - 1] == '/') {
            return slice_make(path.data, end > 1 ? end - 1 : 1);
        }
    }
    return path;
}

/* Returns the status of a success. A write that has created its znode is answered with 201, even if
 * the request was to set a znode. When this replica knows the write only from the log, `created` is
 * missing; then the creation shows in a czxid that equals the zxid of the write. */
static uint32_t status_of(const struct http_request *request, const struct op_result *result)
{
    bool raw = request->wants.media == HTTP_MEDIA_RAW;
    bool by_stat = result->has_stat && result->stat.czxid == result->zxid;

    if (result->has_change && !op_change_is_applied(blob_slice(result->change))) {
        return MHD_HTTP_OK; /* A dry run has added no member. */
    }

    if (request->def->kind == OP_KIND_WRITE && (result->created || by_stat)) {
        return MHD_HTTP_CREATED;
    }
    return raw ? request->def->status_raw : request->def->status;
}

static enum MHD_Result answer_json(struct http_conn *conn, const struct op_result *result,
                                   const char *etag)
{
    struct http_request *request = &conn->request;
    struct op_json_style style = {.message = false};
    uint32_t status = status_of(request, result);
    struct jsonw json;

    buf_clear(&conn->uri);
    put_uri_of(conn, result, addressed_path(request), &conn->uri);
    style.uri = buf_slice(&conn->uri);
    text_clear(&conn->out, HTTP_KEEP_BYTES);
    jsonw_init_text(&json, &conn->out);
    if (op_json_result(&json, &request->args, result, &style) != ERR_OK) {
        http_refuse(conn, ERR_NOT_ACCEPTABLE,
                    "the data does not fit the requested dataformat; base64 fits any data");
        return http_answer_fault(conn);
    }
    if (!http_body_seal(conn)) {
        return http_answer_fault(conn);
    }

    struct MHD_Response *response = http_response_out(conn, "application/json");

    if (etag[0]) {
        http_header(response, "ETag", etag);
    }
    if (status == MHD_HTTP_CREATED) {
        put_location(conn, result, response);
    }
    http_header(response, "Cache-Control", result->has_session ? "no-store" : "no-cache");
    http_header(response, "X-Content-Type-Options", "nosniff");
    http_header_common(conn, response, true);
    return http_send(conn, status, response);
}

static bool not_modified(const struct http_request *request, const char *etag)
{
    struct slice asked = request->head.if_none_match;

    return request->def->kind == OP_KIND_READ && asked.data && etag[0] &&
           http_etag_matches(asked, etag);
}

bool http_answer_is_unchanged(const struct http_request *request, const struct op_result *result)
{
    /* Without If-None-Match the client has no answer yet, so it waits until the znode exists. */
    bool is_awaited = request->def->kind == OP_KIND_READ && result->err == ERR_NO_NODE &&
                      !request->head.if_none_match.data;
    char etag[HTTP_ETAG_MAX];

    http_etag(&request->args, result, etag);
    return result->err == ERR_OK ? not_modified(request, etag) : is_awaited;
}

enum MHD_Result http_answer_result(struct http_conn *conn, struct op_result *result)
{
    struct http_request *request = &conn->request;
    bool raw = request->wants.media == HTTP_MEDIA_RAW;
    char etag[HTTP_ETAG_MAX];
    uint32_t status = 0;

    if (result->zxid != 0) {
        request->answer.zxid = result->zxid;
    }
    request->answer.replayed = result->replayed;
    /* Closing a closed session is no error: the first answer may have been lost. */
    if (request->def->id == OP_CLOSE && is_gone(result->err)) {
        return answer_empty(conn, result, request->def->status, "");
    }
    http_etag(&request->args, result, etag);
    if (result->err != ERR_OK) {
        return answer_error(conn, result);
    }
    if (not_modified(request, etag)) {
        return answer_empty(conn, result, MHD_HTTP_NOT_MODIFIED, etag);
    }
    status = status_of(request, result);
    if (raw && request->def->shape == OP_SHAPE_DATA) {
        return answer_bytes(conn, result, etag);
    }
    if (raw || request->def->shape == OP_SHAPE_NONE) {
        return answer_empty(conn, result, status, etag);
    }
    return answer_json(conn, result, etag);
}
