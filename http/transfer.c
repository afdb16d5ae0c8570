/*
 * Exports: a subtree as it was at one zxid. The library pulls bytes when the socket has room, so
 * the reader sets the pace, and nothing waits in a queue. A slow reader occupies a slot and the
 * znodes that are kept for it (maxExportBytes); a reader that is slower than any body may be is
 * disconnected.
 *
 */
#include "base/check.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/os_clock.h"
#include "http/http_int.h"
#include "server/transfer/export.h"

enum {
    RESPONSE_BLOCK = 1024, /* Used for HTTP/1.0 only. */
    /* Unlimited, an export and its reader would take all processor time, and writes of other
     * clients would wait. */
    BYTES_PER_S = 32 << 20,
    AHEAD_BYTES = 128 << 10
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
    uint64_t sent; /* Bytes. */
};

/* ---- Slots ---- */

bool http_transfer_begin(struct http_conn *conn)
{
    struct http *http = conn->http;

    if (!http_check_local(conn)) {
        return false;
    }
    if (atomic_load(&http->draining)) {
        http_refuse(conn, ERR_NOT_READY, "this replica is shutting down: use another replica");
        return false;
    }
    if (budget_shares_try_take(&http->transfers.places, conn->address_key, 1)) {
        return true;
    }
    http_refuse(conn, ERR_THROTTLED,
                "this replica runs as many exports and imports as it may (maxTransfers), or as it "
                "may for your address: try again later, or use another replica");
    return false;
}

void http_transfer_end(struct http *http, uint64_t address_key)
{
    budget_shares_give(&http->transfers.places, address_key, 1);
}

/* ---- The answer ---- */

/* Limits the time to the next read of the client, and the whole time by the length of the body. */
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

static ssize_t on_read(void *cls, uint64_t pos, char *to, size_t max)
{
    struct http_export *export = cls;

    (void)pos;
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
    export->taken +=
        len; /* With 0 the library asks again, after the other connections of this thread. */
    export->sent += len;
    return set_deadline(export) ? (ssize_t)len : MHD_CONTENT_READER_END_WITH_ERROR;
}

/* The response was sent, or the connection is closed. */
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
    http_transfer_end(export->http, export->address_key);
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
    export->address_key = conn->address_key;
    export->export = take_export;
    export->more = true;
    export->start_ms = os_now_ms();
    buf_init(&export->out, SIZE_MAX / 2); /* One znode more than export_write aims at. */
    metric_add(&http->transfers.exports, 1);
    metric_add(&http->transfers.exports_ever, 1);
    response = http_response_pulled(MHD_SIZE_UNKNOWN, RESPONSE_BLOCK, on_read, export, on_free);
    conn->request.answer.is_endless = true;
    conn->request.answer.is_untimed = true;
    conn->request.answer.close = true; /* The pace of the socket cannot be reset. */
    loop_pace(conn->fd, BYTES_PER_S, AHEAD_BYTES);
    return http_send_lines(conn, response, "application/x-ndjson");
}

static enum MHD_Result begin(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct op_result result;
    struct export *export = NULL;
    enum MHD_Result done = MHD_NO;

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
        http_transfer_end(conn->http, conn->address_key);
        export_free(export);
        done = result.err == ERR_OK
                   ? http_send_lines(conn, http_response_empty(), "application/x-ndjson")
                   : http_answer_result(conn, &result);
    }
    op_result_release(&result);
    return done;
}

enum MHD_Result http_export_begin(struct http_conn *conn)
{
    return http_transfer_begin(conn) ? begin(conn) : http_answer_fault(conn);
}

/* ---- Metrics ---- */

void http_transfer_write_metrics(const struct http *http, struct buf *out)
{
    const struct http_transfers *transfers = &http->transfers;

    metric_put_gauge(out, "zabra_http_exports", "Exports under way.",
                     metric_get(&transfers->exports));
    metric_put_counter(out, "zabra_http_exports_total", "Exports begun.",
                       metric_get(&transfers->exports_ever));
    metric_put_counter(out, "zabra_http_exports_failed_total",
                       "Exports that ended without their last line: overrun, cut off, or hung up.",
                       metric_get(&transfers->exports_failed));
    metric_put_counter(out, "zabra_http_exported_znodes_total", "Znodes written by exports.",
                       metric_get(&transfers->exported_znodes));
    metric_put_gauge(out, "zabra_http_imports", "Imports under way.",
                     metric_get(&transfers->imports));
    metric_put_counter(out, "zabra_http_imports_total", "Imports begun.",
                       metric_get(&transfers->imports_ever));
    metric_put_counter(out, "zabra_http_imports_failed_total",
                       "Imports that were not done to their end.",
                       metric_get(&transfers->imports_failed));
    metric_put_counter(out, "zabra_http_imported_znodes_total",
                       "Znodes created or overwritten by imports.",
                       metric_get(&transfers->imported_znodes));
}
