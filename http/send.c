/*
 * Responses: their headers, their bodies, sending. A small body is written completely and handed to
 * libmicrohttpd ("the library"). A large body is a text (base/text.h): it has references to values,
 * and each value is encoded, block by block, when the socket accepts more bytes. So a client that
 * reads nothing costs the memory of one block and of the values, which answers to other clients
 * share. This memory counts in maxUnsentBytes, and a large answer for which there is no room is
 * refused.
 */
#include "base/lack.h"
#include "http/etag.h"
#include "http/http_int.h"

#include <time.h>

/* ---- Headers ---- */

enum {
    DATE_LEN = 64,
    HEX_LEN = 24,
    BLOCK_BYTES = 128 << 10, /* Bytes of a large answer that are encoded at a time. */
    REFUSED_BYTES = 16 << 10 /* While the budget is full, a larger answer is refused. */
};

void http_header(struct MHD_Response *response, const char *name, const char *value)
{
    (void)MHD_add_response_header(response, name, value);
}

/* Returns the present date. Formatting a date costs as much as the rest of a small answer, so it is
 * done once a second. The names are English, because zabra never sets a locale. */
static const char *date_now(void)
{
    static _Thread_local char text[DATE_LEN];
    static _Thread_local time_t second;
    time_t now = os_wall_ms() / 1000;
    struct tm tm;

    if (now != second) {
        second = now;
        (void)strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    }
    return text;
}

/* Writes all 16 digits of the history. */
static void history_text(char out[HEX_LEN], uint64_t history)
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 16; i++) {
        out[i] = digits[history >> (60 - 4 * i) & 15];
    }
    out[16] = '\0';
}

static void cors_headers(struct http_conn *conn, struct MHD_Response *response)
{
    struct buf origin;

    if (!conn->request.answer.cors) {
        return;
    }
    buf_init(&origin, HTTP_KEEP_BYTES);
    buf_append_slice(&origin, conn->request.head.origin);
    http_header(response, "Access-Control-Allow-Origin", buf_cstr(&origin));
    http_header(response, "Access-Control-Expose-Headers",
                "ETag, Idempotency-Replayed, Location, Preference-Applied, Retry-After, "
                "WWW-Authenticate, Zk-Zxid, Zk-History, Zk-Stat");
    buf_release(&origin);
}

/* Makes browsers use https for the configured time (RFC 6797). Only an answer over TLS may ask
 * that. */
static void hsts_header(struct http_conn *conn, struct MHD_Response *response)
{
    uint64_t ms = conn->http->limits->tls.hsts_ms;
    char text[48];

    if (ms > 0 && http_is_https(conn)) {
        (void)snprintf(text, sizeof(text), "max-age=%llu", (unsigned long long)(ms / 1000));
        http_header(response, "Strict-Transport-Security", text);
    }
}

void http_header_no_store(struct MHD_Response *response)
{
    http_header(response, "Cache-Control", "no-store");
    http_header(response, "X-Content-Type-Options", "nosniff");
}

void http_header_date(struct MHD_Response *response)
{
    http_header(response, "Date", date_now());
}

void http_header_common(struct http_conn *conn, struct MHD_Response *response, bool date)
{
    struct http_request *request = &conn->request;
    char text[HEX_LEN];

    if (request->answer.zxid == 0) {
        request->answer.zxid = http_status(conn)->applied;
    }
    memcpy(text, "0x", 2);
    *http_put_hex(text + 2, request->answer.zxid) = '\0';
    http_header(response, "Zk-Zxid", text);
    history_text(text, request->replica.history);
    http_header(response, "Zk-History", text);
    hsts_header(conn, response);
    if (date) {
        http_header_date(response);
        http_header(response, "Vary", "Accept, Authorization, Origin");
    }
    if (request->answer.replayed) {
        http_header(response, "Idempotency-Replayed", "true");
    }
    if (request->answer.has_waited) {
        (void)snprintf(text, sizeof(text), "wait=%u", (request->wants.wait_ms + 999) / 1000);
        http_header(response, "Preference-Applied", text);
    }
    cors_headers(conn, response);
    if (request->answer.close ||
        atomic_load_explicit(&conn->http->draining, memory_order_relaxed)) {
        http_header(response, "Connection", "close");
    }
}

/* Frees what the request does not need any more, because an answer may wait long for its client. */
static void drop_request(struct http_conn *conn)
{
    struct http_request *request = &conn->request;

    buf_trim(&conn->strings, HTTP_KEEP_BYTES);
    mem_free(request->multi);
    request->multi = NULL;
    op_request_free(request->op);
    request->op = NULL;
    request->args.ops = NULL;
    request->args.op_count = 0;
    http_request_body_drop(conn);
}

enum MHD_Result http_send(struct http_conn *conn, uint32_t status, struct MHD_Response *response)
{
    struct http_request *request = &conn->request;
    uint64_t limit_ms = request->answer.is_endless ? 0
                                                   : conn->http->limits->body_timeout_ms +
                                                         request->answer.bytes / HTTP_BYTES_PER_MS;
    enum MHD_Result done = MHD_NO;

    ASSERT(!request->answer.queued);
    request->answer.queued = true;
    request->answer.status = status;
    http_slow_served(conn);
    if (http_conn_enter(conn, HTTP_SENDING, limit_ms)) {
        done = MHD_queue_response(conn->mhd, status, response);
    }
    MHD_destroy_response(response);
    drop_request(conn);
    return done;
}

enum MHD_Result http_send_out(struct http_conn *conn, uint32_t status, const char *content_type)
{
    struct MHD_Response *response = http_response_out(conn, content_type);

    http_header_no_store(response);
    if (conn->request.wants.media == HTTP_MEDIA_HTML) {
        http_header(response, "Content-Security-Policy", "default-src 'none'; style-src 'self'");
    }
    http_header_common(conn, response, true);
    return http_send(conn, status, response);
}

enum MHD_Result http_send_lines(struct http_conn *conn, struct MHD_Response *response,
                                const char *content_type)
{
    http_header(response, "Content-Type", content_type);
    http_header_no_store(response);
    http_header_common(conn, response, true);
    return http_send(conn, MHD_HTTP_OK, response);
}

/* ---- Bodies ---- */

/* The body of a large answer, which may outlive the request. */
struct http_body {
    struct text text;
    struct text_place place;
    size_t block; /* Bytes of the library's buffer, counted in the budget. */
};

/* Refuses an answer because there is no room; returns false. */
static bool refuse_no_room(struct http_conn *conn)
{
    metric_add(&conn->http->metrics.refused_unsent, 1);
    text_clear(&conn->out, TEXT_FREE_BYTES);
    http_refuse(conn, ERR_THROTTLED,
                "unread answers fill maxUnsentBytes: ask for less, try again later, or use another "
                "replica");
    return false;
}

/* Returns the size of the library's buffer for a large answer. */
static size_t block_of(const struct text *text)
{
    return min_size(text_len(text), BLOCK_BYTES);
}

/* Whether the answer is for a write. Such an answer is never refused for lack of room, because the
 * client must learn whether the write was done. */
static bool is_for_write(const struct http_conn *conn)
{
    return conn->request.def && op_args_kind(&conn->request.args) == OP_KIND_WRITE;
}

/* Whether the answer is refused for lack of room. REFUSED_BYTES is low, because many small
 * answers together take as much as a few large ones. */
static bool is_refused(const struct http_conn *conn, size_t len)
{
    return len > REFUSED_BYTES && !is_for_write(conn) &&
           budget_level(conn->out.budget) == BUDGET_FULL;
}

bool http_body_has_room(struct http_conn *conn)
{
    return is_refused(conn, conn->out.own.len) ? refuse_no_room(conn) : true;
}

bool http_body_seal(struct http_conn *conn)
{
    struct text *out = &conn->out;

    if (text_is_plain(out) && !out->no_room && !out->own.overflow && is_for_write(conn)) {
        return true; /* Never refused: http_response_out only counts the text. */
    }
    if (!http_body_has_room(conn)) {
        return false;
    }
    if (!text_seal(out)) {
        if (out->no_room) {
            return refuse_no_room(conn);
        }
        http_refuse(conn, ERR_TOO_LARGE,
                    "the answer would be larger than 64 MiB: request less at a time");
        return false;
    }
    if (text_is_plain(out)) {
        return true;
    }
    return budget_try_take(out->budget, block_of(out)) ? true : refuse_no_room(conn);
}

static ssize_t on_read(void *cls, uint64_t pos, char *to, size_t max)
{
    struct http_body *body = cls;

    ASSERT(pos == body->place.total);
    return (ssize_t)text_read(&body->text, &body->place, to, max);
}

static void on_free(void *cls)
{
    struct http_body *body = cls;

    budget_give(body->text.budget, body->block);
    text_release(&body->text);
    mem_free(body);
}

/* Returns the response, or ends the process: the library fails only when there is no memory. */
static struct MHD_Response *must_have(struct MHD_Response *response)
{
    if (!response) {
        lack_failed(
            "there is no memory left for an answer to a client: lower maxUnsentBytes, or give "
            "this process more memory");
    }
    return response;
}

struct MHD_Response *http_response_pulled(uint64_t size, size_t block,
                                          ssize_t (*read)(void *cls, uint64_t pos, char *to,
                                                          size_t max),
                                          void *cls, void (*release)(void *cls))
{
    return must_have(MHD_create_response_from_callback(size, block, read, cls, release));
}

static struct MHD_Response *from_text(struct http_conn *conn)
{
    struct http_body *body = mem_zalloc(1, sizeof(*body));

    body->block = block_of(&conn->out);
    text_move(&body->text, &conn->out);
    atomic_store_explicit(&conn->kept, body->text.pinned + body->text.counted + body->block,
                          memory_order_relaxed);
    return http_response_pulled(text_len(&body->text), body->block, on_read, body, on_free);
}

/* Returns a response with the bytes of conn->out, which do not change before the next request of
 * this connection. */
static struct MHD_Response *from_own(struct http_conn *conn)
{
    struct text *out = &conn->out;
    struct MHD_Response *response = must_have(
        MHD_create_response_from_buffer(out->own.len, out->own.data, MHD_RESPMEM_PERSISTENT));

    text_count(out);
    if (out->counted > 0) {
        atomic_store_explicit(&conn->kept, out->counted, memory_order_relaxed);
    }
    return response;
}

struct MHD_Response *http_response_out(struct http_conn *conn, const char *content_type)
{
    uint64_t len = text_len(&conn->out);
    struct MHD_Response *response = text_is_plain(&conn->out) ? from_own(conn) : from_text(conn);

    conn->request.answer.bytes = len;
    http_header(response, "Content-Type", content_type);
    return response;
}

struct MHD_Response *http_response_empty(void)
{
    static char nothing[1];

    return must_have(MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT));
}

struct MHD_Response *http_response_lasting(struct http_conn *conn, struct slice bytes,
                                           const char *content_type, const char *etag)
{
    const struct MHD_IoVec piece = {.iov_base = bytes.data, .iov_len = bytes.len};
    struct http_request *request = &conn->request;
    struct slice asked = request->head.if_none_match;
    bool has_it = asked.data && http_etag_matches(asked, etag);
    struct MHD_Response *response =
        has_it ? http_response_empty()
               : must_have(MHD_create_response_from_iovec(&piece, 1, NULL, NULL));

    request->answer.status = has_it ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK;
    if (!has_it) {
        request->answer.bytes = bytes.len;
        http_header(response, "Content-Type", content_type);
    }
    http_header(response, "ETag", etag);
    return response;
}

/* ---- The bytes of one znode ---- */

struct pinned {
    struct blob *blob;
    struct budget *budget;
};

static void free_small(void *cls)
{
    blob_unref(cls);
}

static void free_pinned(void *cls)
{
    struct pinned *pinned = cls;

    blob_unpin(pinned->blob, pinned->budget);
    mem_free(pinned);
}

/* Returns a response with the bytes of the blob. The library does not write to them, although its
 * parameter is not const. */
static struct MHD_Response *from_blob(struct blob *blob, void (*release)(void *), void *cls)
{
    return must_have(MHD_create_response_from_buffer_with_free_callback_cls(blob->len, blob->data,
                                                                            release, cls));
}

struct MHD_Response *http_response_blob(struct http_conn *conn, struct blob *blob)
{
    struct budget *budget = conn->out.budget;
    struct pinned *pinned = NULL;

    conn->request.answer.bytes = blob->len;
    if (blob->len <= TEXT_FREE_BYTES) {
        return from_blob(blob, free_small, blob_ref(blob));
    }
    if (is_refused(conn, blob->len) || (blob->len >= TEXT_REF_MIN && !blob_try_pin(blob, budget))) {
        (void)refuse_no_room(conn);
        return NULL;
    }
    if (blob->len < TEXT_REF_MIN) {
        (void)blob_pin(blob, budget);
    }
    pinned = mem_alloc(sizeof(*pinned));
    *pinned = (struct pinned){.blob = blob, .budget = budget};
    atomic_store_explicit(&conn->kept, blob->len, memory_order_relaxed);
    return from_blob(blob, free_pinned, pinned);
}
