/* Answers written straight to a socket, when the library has not got it or may not be asked. */
#include "base/check.h"
#include "http/http_int.h"

#include <stdio.h>

static const char *reason_of(uint32_t status)
{
    const char *reason = MHD_get_reason_phrase_for(status);

    return reason ? reason : "Error";
}

/* What the client needs to know beside the status. */
static const char *header_of(uint32_t status)
{
    switch (status) {
    case MHD_HTTP_TOO_MANY_REQUESTS:
    case MHD_HTTP_SERVICE_UNAVAILABLE:
        return "Retry-After: 1\r\n";
    case MHD_HTTP_UNAUTHORIZED:
        return "WWW-Authenticate: " HTTP_CHALLENGE_BASIC "\r\n";
    case MHD_HTTP_UPGRADE_REQUIRED:
        return "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    default:
        return "";
    }
}

void http_raw_problem(struct http *http, struct buf *out, enum err err, uint32_t status,
                      const char *detail)
{
    struct buf body;
    struct jsonw json;
    struct op_problem problem = op_problem_make(OP_KIND_INFO, err); /* Before any operation. */
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
    buf_printf(out,
               "HTTP/1.1 %u %s\r\nContent-Type: application/problem+json\r\n"
               "Content-Length: %zu\r\nCache-Control: no-store\r\nConnection: close\r\n"
               "Zk-Zxid: 0x%llx\r\nZk-History: %016llx\r\n%s\r\n",
               status, reason_of(status), body.len, (unsigned long long)now.applied,
               (unsigned long long)now.history, header_of(status));
    buf_append_slice(out, buf_slice(&body));
    buf_release(&body);
}
