/*
 * Resources that are no operation: the index, probes, metrics, the API description, OPTIONS; and
 * answers about this replica. The list of watches is collected by the threads that own the watches,
 * while the connection is suspended.
 */
#include "http/etag.h"
#include "http/watcher.h"
#include "openapi/documents.h"

/* Sends the body in conn->out, with an ETag unless it is NULL. */
static enum MHD_Result send_info(struct http_conn *conn, const char *etag)
{
    if (conn->out.own.overflow) {
        http_refuse(conn, ERR_TOO_LARGE,
                    "the answer would be larger than 64 MiB: request less at a time");
    }
    if (conn->request.refused || !http_body_has_room(conn)) {
        return http_answer_fault(conn);
    }
    struct MHD_Response *response = http_response_out(conn, "application/json");

    if (etag) {
        http_header(response, "ETag", etag);
    }
    http_header_no_store(response);
    http_header_common(conn, response, true);
    return http_send(conn, conn->request.def->status, response);
}

enum MHD_Result http_answer_info(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    char etag[HTTP_ETAG_MAX];
    struct jsonw json;

    buf_clear(&conn->out.own);
    jsonw_init(&json, &conn->out.own);
    http_etag_config(gate_write_info(conn->http->gate, &request->args, &conn->principal,
                                     request->auth.session_id, &json),
                     etag);
    /* The tag is that of the configuration alone, for changes of it. The rest of the answer changes
     * all the time, so it is never compared with If-None-Match. */
    return send_info(conn, request->def->id == OP_ENSEMBLE ? etag : NULL);
}

/* ---- Index ---- */

static void write_index_json(struct http_conn *conn)
{
    const struct http_routes *routes = &conn->http->routes;
    struct jsonw json;

    jsonw_init(&json, &conn->out.own);
    jsonw_object(&json);
    jsonw_kv_cstr(&json, "name", "zabra");
    jsonw_kv_cstr(&json, "version", ZABRA_VERSION);
    jsonw_kv_u64(&json, "id", http_status(conn)->id);
    jsonw_kv_cstr(&json, "role", http_status(conn)->role);
    jsonw_key(&json, "resources");
    jsonw_array(&json);
    for (uint32_t i = 0; i < routes->count; i++) {
        if (routes->items[i].kind != HTTP_ROUTE_INDEX) {
            jsonw_cstr(&json, routes->items[i].name);
        }
    }
    jsonw_array_end(&json);
    jsonw_object_end(&json);
}

static void write_index_html(struct http_conn *conn)
{
    const struct http_routes *routes = &conn->http->routes;

    buf_printf(&conn->out.own,
               "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
               "<title>zabra</title></head>\n<body><h1>zabra %s</h1>\n"
               "<p>Replica %u, %s. To look around: <a href=\"/ui/\">the dashboard</a>.</p>\n<ul>\n",
               ZABRA_VERSION, http_status(conn)->id, http_status(conn)->role);
    for (uint32_t i = 0; i < routes->count; i++) {
        const struct http_route *route = &routes->items[i];

        if (route->kind != HTTP_ROUTE_INDEX) {
            buf_printf(&conn->out.own, "<li><a href=\"%.*s%s\">%s</a></li>\n",
                       (int)route->fixed_len, route->name,
                       route->has_path || route->has_id ? "/" : "", route->name);
        }
    }
    buf_append_str(&conn->out.own, "</ul></body></html>\n");
}

enum MHD_Result http_answer_index(struct http_conn *conn)
{
    buf_clear(&conn->out.own);
    if (conn->request.wants.media == HTTP_MEDIA_HTML) {
        write_index_html(conn);
        return http_send_out(conn, MHD_HTTP_OK, "text/html; charset=utf-8");
    }
    write_index_json(conn);
    return http_send_out(conn, MHD_HTTP_OK, "application/json");
}

/* ---- Probes ---- */

static void write_checks_json(struct buf *out, const struct gate_check *checks, size_t check_count,
                              bool ok)
{
    struct jsonw json;

    jsonw_init(&json, out);
    jsonw_object(&json);
    jsonw_kv_bool(&json, "ok", ok);
    jsonw_key(&json, "checks");
    jsonw_array(&json);
    for (size_t i = 0; i < check_count; i++) {
        jsonw_object(&json);
        jsonw_kv_cstr(&json, "name", checks[i].name);
        jsonw_kv_bool(&json, "ok", checks[i].ok);
        jsonw_kv_cstr(&json, "text", checks[i].text);
        jsonw_object_end(&json);
    }
    jsonw_array_end(&json);
    jsonw_object_end(&json);
}

/* Writes one line per check. The line has the text of the check if the check fails, or with
 * ?verbose. */
static void write_checks_text(struct buf *out, const struct gate_check *checks, size_t check_count,
                              const struct http_probe_ask *ask, bool ok)
{
    for (size_t i = 0; i < check_count; i++) {
        bool tell = ask->verbose || !checks[i].ok;

        buf_printf(out, "[%c] %s%s%s\n", checks[i].ok ? '+' : '-', checks[i].name, tell ? ": " : "",
                   tell ? checks[i].text : "");
    }
    buf_printf(out, "%s: %s\n", ask->live ? "livez" : "readyz", ok ? "ok" : "not ok");
}

bool http_write_probe(struct http *http, const struct http_probe_ask *ask, struct buf *out)
{
    struct gate_check checks[GATE_CHECKS_MAX];
    size_t check_count =
        ask->live ? gate_livez(http->gate, checks) : gate_readyz(http->gate, checks);
    bool ok = true;

    for (size_t i = 0; i < check_count; i++) {
        ok = ok && checks[i].ok;
    }
    if (ask->json) {
        write_checks_json(out, checks, check_count, ok);
    } else {
        write_checks_text(out, checks, check_count, ask, ok);
    }
    return ok;
}

enum MHD_Result http_answer_probe(struct http_conn *conn)
{
    const struct http_probe_ask ask = {
        .live = strcmp(conn->request.route->name, "/livez") == 0,
        .json = conn->request.wants.media == HTTP_MEDIA_JSON,
        .verbose = conn->request.wants.verbose,
    };

    buf_clear(&conn->out.own);

    bool ok = http_write_probe(conn->http, &ask, &conn->out.own);

    return http_send_out(conn, ok ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                         ask.json ? "application/json" : "text/plain; charset=utf-8");
}

/* ---- Metrics ---- */

static void write_own_metrics(struct http *http, struct buf *out)
{
    static const char *const classes[] = {"code=\"none\"", "code=\"1xx\"", "code=\"2xx\"",
                                          "code=\"3xx\"",  "code=\"4xx\"", "code=\"5xx\""};
    const struct http_metrics *metrics = &http->metrics;

    HTTP_METRICS(METRIC_PUT)
    metric_head(out, "zabra_http_refused_total", "counter", "Connections refused at once.");
    metric_put(out, "zabra_http_refused_total", "reason=\"total\"",
               metric_get(&metrics->refused_total));
    metric_put(out, "zabra_http_refused_total", "reason=\"address\"",
               metric_get(&metrics->refused_address));
    metric_put(out, "zabra_http_refused_total", "reason=\"head\"",
               metric_get(&metrics->refused_head));
    metric_put_gauge(out, "zabra_http_body_bytes",
                     "Memory of request bodies that are not answered yet.",
                     budget_used(&http->bodies.budget));
    metric_head(out, "zabra_http_requests_total", "counter", "Requests by class of status.");
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        metric_put(out, "zabra_http_requests_total", classes[i], metric_get(&metrics->requests[i]));
    }
    metric_head(out, "zabra_http_request_seconds", "histogram",
                "Time from the request line to the end of the answer.");
    metric_put_histogram(out, "zabra_http_request_seconds", NULL, &metrics->latency);
    metric_put_gauge(out, "zabra_http_large_waiting",
                     "Large reads that wait for other large reads.",
                     atomic_load(&http->large.waiting_count));
    metric_put_gauge(out, "zabra_http_suspended",
                     "Requests that wait for the core, or for a change.",
                     atomic_load(&http->suspended));
}

static void write_watcher(const struct watcher_metrics *metrics, struct buf *out)
{
    WATCHER_METRICS(METRIC_PUT)
}

static void write_transfers(const struct http_transfers *metrics, struct buf *out)
{
    HTTP_TRANSFER_METRICS(METRIC_PUT)
}

void http_write_metrics(struct http *http, struct buf *out)
{
    gate_write_metrics(http->gate, out);
    write_own_metrics(http, out);
    write_watcher(&http->watcher->metrics, out);
    write_transfers(&http->transfers, out);
    tls_write_metrics(http->tls, out);
}

enum MHD_Result http_answer_metrics(struct http_conn *conn)
{
    buf_clear(&conn->out.own);
    http_write_metrics(conn->http, &conn->out.own);
    return http_send_out(conn, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8");
}

/* ---- The API description, which never changes while the process runs ---- */

enum MHD_Result http_answer_document(struct http_conn *conn)
{
    struct slice text = slice_make(NULL, 0);
    char etag[HTTP_ETAG_MAX];
    bool found = document_find(conn->request.route->name, &text);

    ASSERT(found);
    http_etag_bytes(text, etag);

    struct MHD_Response *response = http_response_lasting(conn, text, "application/json", etag);

    if (conn->request.answer.status == MHD_HTTP_OK) {
        http_header(response, "X-Content-Type-Options", "nosniff");
    }
    http_header(response, "Cache-Control", "no-cache");
    http_header_common(conn, response, true);
    return http_send(conn, conn->request.answer.status, response);
}

/* ---- OPTIONS ---- */

static void preflight_headers(const struct http_request *request, struct MHD_Response *response,
                              const char *allow)
{
    if (!request->answer.cors || !request->head.access_method.data) {
        return;
    }
    http_header(response, "Access-Control-Allow-Methods", allow);
    http_header(response, "Access-Control-Allow-Headers",
                "Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, "
                "Last-Event-ID, Prefer, traceparent, Zk-Acl, Zk-Session, Zk-Min-Zxid, Zk-History");
    http_header(response, "Access-Control-Max-Age", "600");
}

enum MHD_Result http_answer_options(struct http_conn *conn)
{
    const struct http_request *request = &conn->request;
    struct MHD_Response *response = http_response_empty();
    struct buf allow;

    buf_init(&allow, HTTP_KEEP_BYTES);
    if (request->route) {
        http_route_allow(request->route, http_names_element(request), &allow);
    } else {
        buf_append_str(&allow, "GET, HEAD, PUT, POST, DELETE, PATCH, OPTIONS");
    }
    http_header(response, "Allow", buf_cstr(&allow));
    preflight_headers(request, response, buf_cstr(&allow));
    http_header_common(conn, response, true);
    buf_release(&allow);
    return http_send(conn, MHD_HTTP_NO_CONTENT, response);
}

/* ---- The list of watches ---- */

/* Called on the last of the threads that collect the list. */
static void on_done(struct watch_listing *listing)
{
    struct http_conn *conn = listing->ctx;

    http_resume(conn->http, conn->mhd);
}

static enum MHD_Result resume(struct http_conn *conn)
{
    struct jsonw json;

    buf_clear(&conn->out.own);
    jsonw_init(&json, &conn->out.own);
    watch_listing_write(conn->request.task.data, &json);
    return send_info(conn, NULL);
}

static void release(struct http_conn *conn)
{
    watch_listing_release(conn->request.task.data);
    mem_free(conn->request.task.data);
}

static const struct http_task_ops watches_task = {.resume = resume, .release = release};

enum MHD_Result http_watches_begin(struct http_conn *conn)
{
    struct watch_listing *listing = mem_zalloc(1, sizeof(*listing));

    watch_listing_init(listing, conn->http->gate, &conn->request.args, &conn->principal);
    listing->on_done = on_done;
    listing->ctx = conn;
    conn->request.task = (struct http_task){&watches_task, listing};
    http_suspend(conn);
    watch_listing_pass(listing);
    return MHD_YES;
}
