/* Decodes the target and the head to arguments, following the row of the operation. */
#include "http/http_int.h"
#include "server/read/view.h"

enum {
    WAIT_SECONDS_MAX = 1000000 /* Higher values of Prefer: wait count as this value; maxWait limits
                                  reads further. */
};

/* ---- Where the request comes from ---- */

/* Applies what a trusted proxy says about its client. The certificate of the connection is that of
 * the peer: it proves nothing about the client of a proxy, also when the proxy does not name it. */
static void take_forwarded(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct http_forwarded by;
    struct http_refusal refusal =
        http_forwarded_take(conn->http->limits, conn->is_proxy, &request->head, &by);

    request->host = by.host.data ? by.host : request->head.host;
    request->has_scheme = by.has_scheme;
    request->is_https = by.is_https;
    conn->principal.https = http_is_https(conn);
    if (refusal.err != ERR_OK) {
        http_refuse(conn, refusal.err, "%s", refusal.detail);
        return;
    }
    if (by.client[0] != '\0') {
        memcpy(conn->principal.address, by.client, sizeof(by.client));
        conn->client_key = http_client_key(by.client);
    }
    conn->principal.auth = by.is_present ? NULL : auth_ref(conn->certificate);
}

/* ---- Where the request goes ---- */

static void check_host(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct slice host = request->head.host;
    struct slice authority = request->target.authority;

    if (authority.len > 0 && !http_equals_nocase(authority, host)) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "the host in the request target differs from the header Host");
    }
    /* Only HTTP/1.0 may have no Host; other requests without one are refused earlier. */
    if (host.data && !http_host_allowed(&conn->http->names, host)) {
        http_refuse(conn, ERR_MISDIRECTED, "the Host %.*s is not in allowedHosts",
                    HTTP_QUOTE(host));
    }
    if (request->host.data && !http_host_allowed(&conn->http->names, request->host)) {
        http_refuse(conn, ERR_MISDIRECTED,
                    "the host %.*s, which the proxy names, is not in allowedHosts",
                    HTTP_QUOTE(request->host));
    }
}

static bool is_write_method(const struct http_request *request)
{
    return !slice_eq(request->method, slice_str("GET")) &&
           !slice_eq(request->method, slice_str("OPTIONS"));
}

static void check_origin(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct slice origin = request->head.origin;

    if (http_head_is_cross_origin(&request->head) && is_write_method(request)) {
        http_refuse(conn, ERR_NO_AUTH,
                    "a page of another origin sends this request (Sec-Fetch-Site: %.*s) and must "
                    "send an Origin that is in allowedOrigins",
                    HTTP_QUOTE(request->head.fetch_site));
    }
    if (!origin.data || http_origin_is_host(origin, request->host)) {
        return;
    }
    request->answer.cors = origin.len <= HTTP_ORIGIN_MAX && http_origin_allowed(conn->http, origin);
    if (!request->answer.cors && is_write_method(request)) {
        http_refuse(conn, ERR_NO_AUTH, "the Origin %.*s is not in allowedOrigins",
                    HTTP_QUOTE(origin));
    }
}

/* Whether the request needs an identity. Probes do not, nor the files of the dashboard, which are
 * the same for everybody and let the user sign in, nor OPTIONS: browsers ask it without credentials
 * before they send any. */
static bool needs_identity(const struct http_conn *conn)
{
    const struct http_request *request = &conn->request;
    const struct http_route *route = request->route;
    bool is_free = route && (route->kind == HTTP_ROUTE_PROBE || route->kind == HTTP_ROUTE_UI);

    return conn->http->limits->require_identity && !is_free &&
           !slice_eq(request->method, slice_str("OPTIONS"));
}

static void find_route(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct slice path = slice_make(NULL, 0);

    if (request->target.is_asterisk) {
        if (!slice_eq(request->method, slice_str("OPTIONS"))) {
            http_refuse(conn, ERR_BAD_ARGUMENTS, "only an OPTIONS request may have the target *");
        }
        return;
    }
    request->route = http_route_find(&conn->http->routes, request->target.path, &path);
    if (needs_identity(conn) && !http_identify(conn)) {
        return;
    }
    if (!request->route) {
        http_refuse(conn, ERR_NOT_FOUND, "there is no resource at this URL; see /");
        return;
    }
    if (request->route->has_member) {
        request->member = path.len > 0 ? slice_from(path, 1) : path;
    } else if (request->route->has_id) {
        request->auth.url_secret = path.len > 1 ? slice_from(path, 1) : slice_make(NULL, 0);
    } else {
        request->args.path = path;
    }
    if (request->route->kind == HTTP_ROUTE_SOCKET) {
        request->answer.close = true;
        http_refuse(conn, ERR_UPGRADE_REQUIRED,
                    "a WebSocket begins with GET, Upgrade: websocket and Connection: Upgrade in "
                    "the first request of a connection");
    }
}

/* ---- The row of the route ---- */

static const struct http_param *find_param(const struct http_target *target, struct slice name)
{
    for (uint32_t i = 0; i < target->param_count; i++) {
        if (slice_eq(target->params[i].name, name)) {
            return &target->params[i];
        }
    }
    return NULL;
}

/* Returns the row that applies when no query parameter selects another row. At /sessions/v1, the
 * only collection, this is the row about all sessions, unless the request names a session. */
static const struct op_def *default_row(const struct http_request *request)
{
    bool named = request->auth.url_secret.len > 0 || request->head.session.data ||
                 find_param(&request->target, slice_str("session"));
    const struct op_def *all =
        named ? NULL : http_route_collection(request->route, request->method);

    return all ? all : http_route_method(request->route, request->method);
}

static const struct op_def *choose_row(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    const struct http_route *route = request->route;
    const struct op_def *def = default_row(request);
    bool element = http_names_element(request);
    struct slice key = http_route_key(route, request->method);
    const struct http_param *param = key.len > 0 ? find_param(&request->target, key) : NULL;
    struct slice value = param ? param->value : slice_make(NULL, 0);

    if (!def || !http_route_is_of(def, element)) {
        http_refuse(conn, ERR_METHOD_NOT_ALLOWED, "%s does not have the method %.*s", route->name,
                    HTTP_QUOTE(request->method));
        return NULL;
    }
    if (def->id == OP_RELOAD && !param) { /* Nothing else is meant here, but a mistake may be. */
        http_refuse(conn, ERR_BAD_ARGUMENTS, "POST %s needs op=reload", route->name);
        return NULL;
    }
    if (param) {
        def = http_route_select(route, request->method, value);
        def = def && http_route_is_of(def, element) ? def : NULL;
    }
    if (!def) {
        http_refuse(conn, ERR_BAD_ARGUMENTS, "%.*s has the unknown value %.*s", HTTP_QUOTE(key),
                    HTTP_QUOTE(value));
    }
    return def;
}

/* Parses a value into `args`. `name` is the client's name for the field. */
static void parse_into(struct http_conn *conn, const struct op_field *field, struct slice name,
                       struct slice value, struct op_args *args)
{
    const char *why = NULL;
    enum err err = op_field_parse(field, value, args, &why);

    if (err != ERR_OK) {
        http_refuse(conn, err, "%.*s %s", HTTP_QUOTE(name), why);
    }
}

/* Takes the id of the member that the URL names. */
static void take_member(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct slice name = slice_str("id");

    parse_into(conn, op_field_find(request->def, name), name, request->member, &request->args);
}

static void choose(struct http_conn *conn)
{
    struct http_request *request = &conn->request;

    if (request->refused || slice_eq(request->method, slice_str("OPTIONS"))) {
        return;
    }
    if (request->route->kind != HTTP_ROUTE_OPS) {
        if (!slice_eq(request->method, slice_str("GET"))) {
            http_refuse(conn, ERR_METHOD_NOT_ALLOWED, "%s accepts only GET, HEAD and OPTIONS",
                        request->route->name);
        }
        return;
    }

    struct slice path = request->args.path;

    request->def = choose_row(conn);
    if (request->def) {
        op_args_init(&request->args, request->def->id);
        request->args.path = path;
    }
    if (request->def && request->member.data) {
        take_member(conn);
    }
}

/* ---- Query parameters ---- */

/* Returns the field of a query parameter, or NULL. In a URL, the kind of a watch is called mode. */
static const struct op_field *query_field(const struct op_def *def, struct slice name)
{
    bool mode = slice_eq(name, slice_str("mode"));
    const struct op_field *field = def ? op_field_find(def, mode ? slice_str("kind") : name) : NULL;

    return field && (field->source == OP_FROM_QUERY) ? field : NULL;
}

static void take_field(struct http_conn *conn, const struct op_field *field, struct slice name,
                       struct slice value)
{
    struct http_request *request = &conn->request;

    if (field->type != OP_FIELD_NAME) {
        parse_into(conn, field, name, value, &request->args);
        return;
    }
    if (slice_find(value, '/') < value.len) {
        http_refuse(conn, ERR_BAD_ARGUMENTS, "name= must not contain a slash");
    }
    request->body.name = value.data ? value : slice_str("");
}

static void take_path_alias(struct http_conn *conn, struct slice value)
{
    struct http_request *request = &conn->request;

    if (request->args.path.len > 0) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "the path is given twice, in the URL and as path=: give only one of them");
    } else {
        request->args.path = value.len > 0 ? value : slice_str("");
    }
}

static void take_consistency(struct http_conn *conn, struct slice value)
{
    if (slice_eq(value, slice_str("linearizable"))) {
        conn->request.wants.consistency = OP_LINEARIZABLE;
    } else if (!slice_eq(value, slice_str("local"))) {
        http_refuse(conn, ERR_BAD_ARGUMENTS, "consistency= must be local or linearizable");
    }
}

/* Checks dataformat where it has no meaning, and then ignores it, because old clients send it
 * everywhere. */
static void check_dataformat(struct http_conn *conn, const struct http_param *param)
{
    struct op_args unused = {.op = OP_GET};

    parse_into(conn, op_field_find(ops_by_id(OP_GET), param->name), param->name, param->value,
               &unused);
}

/* Takes keepSession: whether a stream keeps its session alive. keepSession is no field of the row,
 * because WebSockets keep sessions alive in another way. */
static void take_keep_session(struct http_conn *conn, const struct http_param *param)
{
    static const struct op_field field = {
        "keepSession", OP_FIELD_BOOL, OP_FROM_QUERY, offsetof(struct op_args, values), 0, 0, 1};
    struct op_args read = {.op = OP_WATCH};

    parse_into(conn, &field, param->name, param->value, &read);
    conn->request.wants.keep_session = read.values;
}

static void take_param(struct http_conn *conn, const struct http_param *param)
{
    struct http_request *request = &conn->request;
    const struct http_route *route = request->route;
    const struct op_field *field = query_field(request->def, param->name);
    struct slice key = http_route_key(route, request->method);
    enum op_id op = request->def ? request->def->id : 0;
    bool reads_tree = request->def && (view_reads(op) || op == OP_EXPORT);

    if (field) {
        take_field(conn, field, param->name, param->value);
    } else if (slice_eq(param->name, slice_str("dataformat"))) {
        check_dataformat(conn, param);
    } else if (key.len > 0 && slice_eq(param->name, key)) {
        return; /* The parameter has selected the row. */
    } else if (route->has_path && slice_eq(param->name, slice_str("path"))) {
        take_path_alias(conn, param->value);
    } else if (reads_tree && slice_eq(param->name, slice_str("consistency"))) {
        take_consistency(conn, param->value);
    } else if (op == OP_WATCH && slice_eq(param->name, slice_str("keepSession"))) {
        take_keep_session(conn, param);
    } else if (slice_eq(param->name, slice_str("callback"))) {
        http_refuse(conn, ERR_NOT_ACCEPTABLE, "callback= is not supported: zabra has no JSONP");
    } else if (slice_eq(param->name, slice_str("session"))) {
        request->auth.session_param = param->value.data ? param->value : slice_str("");
    } else if (route->kind == HTTP_ROUTE_PROBE && slice_eq(param->name, slice_str("verbose"))) {
        request->wants.verbose = true;
    } else {
        http_refuse(conn, ERR_BAD_ARGUMENTS, "unknown query parameter %.*s",
                    HTTP_QUOTE(param->name));
    }
}

static void take_query(struct http_conn *conn)
{
    const struct http_target *target = &conn->request.target;

    for (uint32_t i = 0; i < target->param_count; i++) {
        if (find_param(target, target->params[i].name) != &target->params[i]) {
            http_refuse(conn, ERR_BAD_ARGUMENTS, "query parameter %.*s is given twice",
                        HTTP_QUOTE(target->params[i].name));
        }
        take_param(conn, &target->params[i]);
    }
    /* A URL without a path means the root. */
    if (conn->request.route->has_path && conn->request.args.path.len == 0 &&
        !conn->request.args.path.data) {
        conn->request.args.path = slice_str("/");
    }
}

/* ---- Headers ---- */

static void take_position(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct slice hex = request->head.history;
    uint64_t history = 0;

    if (request->head.min_zxid.data &&
        !op_zxid_parse(request->head.min_zxid, &request->wants.min_zxid)) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "Zk-Min-Zxid must be a zxid as in Zk-Zxid, 0x and hexadecimal digits, or the "
                    "same as a decimal number");
    }
    if (!hex.data) {
        return;
    }
    if (!op_hex_parse(slice_from(hex, slice_starts_with(hex, slice_str("0x")) ? 2 : 0), &history)) {
        http_refuse(conn, ERR_BAD_ARGUMENTS, "Zk-History is not a hexadecimal number");
    } else if (history != request->replica.history) {
        http_refuse(conn, ERR_HISTORY_CHANGED,
                    "the history in Zk-History is not that of this ensemble: read again without "
                    "Zk-History");
    }
}

static void take_header_fields(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    const struct op_field *since = op_field_find(request->def, slice_str("since"));

    for (const struct op_field *field = request->def->fields; field->name; field++) {
        struct slice value = field->source == OP_FROM_HEADER
                                 ? http_head_get(&request->head, field->name)
                                 : slice_make(NULL, 0);

        if (value.data) {
            take_field(conn, field, slice_str(field->name), value);
        }
    }
    /* When a browser reconnects, its Last-Event-ID is newer than the `since` of its URL, and
     * replaces it. */
    if (since && request->head.last_event_id.len > 0) {
        take_field(conn, since, slice_str("Last-Event-ID"), request->head.last_event_id);
    }
}

/* Refuses a condition that would be ignored. */
static void check_conditions(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    const struct http_head *head = &request->head;

    if (head->if_match.data && !op_field_find(request->def, slice_str("If-Match"))) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "this request does not support If-Match: send the request without this header");
    }
    if (request->def->kind == OP_KIND_WRITE && head->if_none_match.data &&
        !op_field_find(request->def, slice_str("If-None-Match"))) {
        http_refuse(
            conn, ERR_BAD_ARGUMENTS,
            "this request does not support If-None-Match: send the request without this header");
    }
}

/* Takes "wait=25": how many seconds the client waits for the answer. Only the first wait= counts;
 * it is ignored when its value is no number. A read waits no longer than maxWait, a write no longer
 * than requestTimeout. */
static void take_prefer(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct slice list = request->head.prefer;
    struct slice element;
    uint64_t max_ms = request->def->kind == OP_KIND_WRITE ? (uint64_t)WAIT_SECONDS_MAX * 1000
                                                          : conn->http->limits->wait_max_ms;
    uint64_t seconds = 0;
    bool found = false;

    while (!found && http_list_next(&list, &element)) {
        found = slice_starts_with(element, slice_str("wait="));
    }
    for (size_t i = strlen("wait="); found && i < element.len && seconds < WAIT_SECONDS_MAX; i++) {
        if (element.data[i] < '0' || element.data[i] > '9') {
            return;
        }
        seconds = seconds * 10 + (uint64_t)(element.data[i] - '0');
    }
    request->wants.wait_ms = (uint32_t)min_u64(seconds * 1000, max_ms);
}

/* Returns the media types of a resource, the preferred one first. */
static const enum http_media *offered_by(const struct http_request *request)
{
    enum {
        MEDIA_MAX = 3 /* Including HTTP_MEDIA_NONE at the end. */
    };

    static const enum http_media fixed[][MEDIA_MAX] = {
        [HTTP_ROUTE_INDEX] = {HTTP_MEDIA_JSON, HTTP_MEDIA_HTML},
        [HTTP_ROUTE_PROBE] = {HTTP_MEDIA_TEXT, HTTP_MEDIA_JSON},
        [HTTP_ROUTE_METRICS] = {HTTP_MEDIA_TEXT},
        [HTTP_ROUTE_DOCUMENT] = {HTTP_MEDIA_JSON},
    };

    static const enum http_media streams[] = {HTTP_MEDIA_SSE, HTTP_MEDIA_NDJSON, HTTP_MEDIA_NONE};

    static const enum http_media lines[] = {HTTP_MEDIA_NDJSON, HTTP_MEDIA_NONE};

    static const enum http_media json_or_raw[] = {HTTP_MEDIA_JSON, HTTP_MEDIA_RAW, HTTP_MEDIA_NONE};
    const struct op_def *def = request->def;

    if (!def) {
        return fixed[request->route->kind];
    }
    if (def->shape == OP_SHAPE_FRONT) {
        return streams;
    }
    if (def->shape == OP_SHAPE_BACKUP) {
        return json_or_raw + 1;
    }
    if (def->shape == OP_SHAPE_LINES) {
        return lines;
    }
    return def->status_raw ? json_or_raw : fixed[HTTP_ROUTE_DOCUMENT];
}

static void choose_media(struct http_conn *conn)
{
    struct http_request *request = &conn->request;

    request->wants.media = http_head_media(request->head.accept, offered_by(request));
    if (request->wants.media == HTTP_MEDIA_NONE) {
        http_refuse(conn, ERR_NOT_ACCEPTABLE,
                    "this resource is not available in any media type of the header Accept");
    }
}

/* ---- The whole head ---- */

static void decode_target(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    const char *why = NULL;

    if (conn->target.overflow) {
        http_refuse(conn, ERR_HEADER_TOO_LARGE, "the URL is too long for maxHeadBytes");
        return;
    }

    enum err err =
        http_target_parse(buf_slice(&conn->target), &conn->decoded, &request->target, &why);

    if (err != ERR_OK) {
        http_refuse(conn, err, "%s", why);
    }
}

void http_decode_head(struct http_conn *conn)
{
    struct http_request *request = &conn->request;

    if (request->head.fault) {
        request->answer.close = true;
        http_refuse(conn, ERR_BAD_ARGUMENTS, "%s", request->head.fault);
        return;
    }
    take_forwarded(conn);
    decode_target(conn);
    check_host(conn);
    check_origin(conn);
    if (!request->refused) {
        find_route(conn);
    }
    choose(conn);
    if (request->refused || slice_eq(request->method, slice_str("OPTIONS"))) {
        return;
    }
    if (request->route->kind == HTTP_ROUTE_UI) {
        http_choose_body(conn); /* The page handles its query and credentials itself. */
        return;
    }
    take_query(conn);
    take_position(conn);
    http_authenticate(conn);
    if (request->wants.keep_session && !request->auth.session.shown) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "keepSession needs a session to keep alive: give it as Zk-Session or session=");
    }
    if (request->def) {
        take_header_fields(conn);
        check_conditions(conn);
        take_prefer(conn);
    }
    choose_media(conn);
    http_choose_body(conn);
}
