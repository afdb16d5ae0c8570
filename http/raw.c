/* Answers written directly to a socket that the library does not own, or whose library thread
 * cannot answer. */
#include "base/check.h"
#include "base/loop.h"
#include "http/http_int.h"

#include <stdio.h>
#include <unistd.h>

static const char *reason_of(uint32_t status)
{
    const char *reason = MHD_get_reason_phrase_for(status);

    return reason ? reason : "Error";
}

/* Headers that belong to a status. */
static const char *header_of(uint32_t status)
{
    switch (status) {
    case MHD_HTTP_TOO_MANY_REQUESTS:
    case MHD_HTTP_SERVICE_UNAVAILABLE:
        return "Retry-After: 1\r\n";
    case MHD_HTTP_UNAUTHORIZED:
        return "WWW-Authenticate: " HTTP_CHALLENGE_BASIC "\r\n";
    case MHD_HTTP_METHOD_NOT_ALLOWED:
        return "Allow: GET, HEAD\r\n"; /* For probes: only they are answered so. */
    case MHD_HTTP_UPGRADE_REQUIRED:
        return "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    default:
        return "";
    }
}

void http_raw_answer(struct http *http, struct buf *out, const struct http_raw *raw)
{
    struct gate_status now;

    gate_status(http->gate, &now);
    buf_printf(out,
               "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
               "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
               "Connection: close\r\nZk-Zxid: 0x%llx\r\nZk-History: %016llx\r\n%s\r\n",
               raw->status, reason_of(raw->status), raw->content_type, raw->body.len,
               (unsigned long long)now.applied, (unsigned long long)now.history, raw->headers);
    if (!raw->is_head) {
        buf_append_slice(out, raw->body);
    }
}

void http_raw_problem(struct http *http, struct buf *out, enum err err, uint32_t status,
                      const char *detail)
{
    struct buf body;
    struct jsonw json;
    struct op_problem problem = op_problem_make(OP_KIND_INFO, err); /* No operation has started. */
    bool retry = status == 429 || status == 503;
    struct gate_status now;
    char instance[HTTP_INSTANCE_MAX];

    ASSERT(err != ERR_OK);
    problem.detail = detail;
    problem.retry_after_ms = retry ? HTTP_RETRY_AFTER_MS : 0;
    problem.status = status;
    gate_status(http->gate, &now);
    problem.zxid = now.applied;
    (void)snprintf(instance, sizeof(instance), "urn:zabra:request:%llx",
                   (unsigned long long)atomic_fetch_add_explicit(&http->next_request, 1,
                                                                 memory_order_relaxed));
    problem.instance = instance;
    buf_init(&body, HTTP_KEEP_BYTES);
    jsonw_init(&json, &body);
    op_json_problem(&json, &problem);
    buf_append_byte(&body, '\n');
    http_raw_answer(http, out,
                    &(struct http_raw){.status = status,
                                       .content_type = "application/problem+json",
                                       .headers = header_of(status),
                                       .body = buf_slice(&body)});
    buf_release(&body);
}

void http_raw_turn_away(struct http *http, int take_fd)
{
    struct buf out;

    metric_add(&http->metrics.refused_total, 1);
    buf_init(&out, HTTP_KEEP_BYTES);
    http_raw_problem(http, &out, ERR_NOT_READY, MHD_HTTP_SERVICE_UNAVAILABLE,
                     "this replica is out of file descriptors");
    (void)loop_send(take_fd, out.data, out.len);
    buf_release(&out);
    close(take_fd);
}
