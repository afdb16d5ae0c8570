/* Headers that all answers share; sending a response. */
#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "http/http_int.h"

#include <stdio.h>

enum {
    DATE_LEN = 64,
    HEX_LEN = 24
};

void http_header(struct MHD_Response *response, const char *name, const char *value)
{
    (void)MHD_add_response_header(response, name, value);
}

/* Converts days since 1970 to a date (Gregorian, by 400-year eras that start on 1 March). */
static void civil_date(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
    int64_t shifted = days + 719468;
    int64_t era = shifted / 146097;
    int64_t of_era = shifted % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153; /* 0: March. */

    *ret_day = (int)(of_year - (153 * month + 2) / 5 + 1);
    *ret_month = (int)(month < 10 ? month + 2 : month - 10); /* 0: January. */
    *ret_year = (int)(year + era * 400 + (month >= 10));
}

static void write_date(int64_t second, char out[DATE_LEN])
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    static const char *const weekdays[] = {"Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"};
    int64_t days = second / 86400;
    int of_day = (int)(second % 86400);
    int year = 0;
    int month = 0;
    int day = 0;

    civil_date(days, &year, &month, &day);
    (void)snprintf(out, DATE_LEN, "%s, %02d %s %04d %02d:%02d:%02d GMT", weekdays[days % 7], day,
                   months[month], year % 10000, of_day / 3600, of_day / 60 % 60, of_day % 60);
}

/* Formatting a date costs as much as the rest of a small answer, so it is done once a second. */
static const char *date_now(void)
{
    static _Thread_local char text[DATE_LEN];
    static _Thread_local int64_t second;
    int64_t now = os_wall_ms() / 1000;

    if (now != second) {
        second = now;
        write_date(now, text);
    }
    return text;
}

static void hex_text(char out[HEX_LEN], uint64_t value, bool prefix)
{
    static const char digits[] = "0123456789abcdef";
    size_t len = 0;
    int shift = prefix ? 0 : 60; /* Without a prefix all 16 digits. */

    if (prefix) {
        out[len++] = '0';
        out[len++] = 'x';
        while (shift < 60 && value >> (shift + 4) != 0) {
            shift += 4;
        }
    }
    for (; shift >= 0; shift -= 4) {
        out[len++] = digits[value >> shift & 15];
    }
    out[len] = '\0';
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
    hex_text(text, request->answer.zxid, true);
    http_header(response, "Zk-Zxid", text);
    hex_text(text, request->replica.history, false);
    http_header(response, "Zk-History", text);
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

/* Frees what is not needed any more, because an answer may wait long for its client. */
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
    if (http_conn_enter(conn, HTTP_SENDING, limit_ms)) {
        done = MHD_queue_response(conn->mhd, status, response);
    }
    MHD_destroy_response(response);
    drop_request(conn);
    return done;
}

enum MHD_Result http_send_lines(struct http_conn *conn, struct MHD_Response *response,
                                const char *content_type)
{
    http_header(response, "Content-Type", content_type);
    http_header_no_store(response);
    http_header_common(conn, response, true);
    return http_send(conn, MHD_HTTP_OK, response);
}
