/*
 * Connections that become WebSockets, as their first head decides. Its bytes stay in the socket for
 * the WebSocket front end. All faults that HTTP can answer are refused here, so that clients get
 * the same problem objects from both protocols.
 *
 */
#include "base/base64.h"
#include "base/check.h"
#include "base/mem.h"
#include "http/http_int.h"

#include <stdio.h>

enum {
    KEY_BYTES = 16
};

static const char socket_path[] = "/ws/v1";
static const char subprotocol[] = "zabra.v1.json";

struct http_seat {
    struct http *http;
    uint64_t address_key;
};

struct http_seat *http_seat_new(struct http *http, uint64_t address_key)
{
    struct http_seat *seat = mem_zalloc(1, sizeof(*seat));

    *seat = (struct http_seat){.http = http, .address_key = address_key};
    return seat;
}

void http_seat_give(void *take_seat)
{
    struct http_seat *seat = take_seat;

    http_caps_give(&seat->http->caps, seat->address_key);
    mem_free(seat);
}

static bool is_upgrade(const struct http_line *line, const struct http_head *head)
{
    return slice_eq(line->method, slice_str("GET")) && http_list_has(head->upgrade, "websocket") &&
           http_list_has(head->connection, "upgrade");
}

static void refuse(struct http_upgrade_request *request, enum err err, const char *detail)
{
    if (request->err == ERR_OK) {
        request->err = err;
        request->detail = detail;
    }
}

static void check_page(const struct http *http, const struct http_head *head,
                       struct http_upgrade_request *request)
{
    if (head->host.data && !http_host_allowed(http->names, head->host)) {
        refuse(request, ERR_MISDIRECTED, "the Host is not in allowedHosts");
    }
    if (head->origin.data && !http_origin_is_host(head->origin, head->host) &&
        !http_origin_allowed(http, head->origin)) {
        refuse(request, ERR_NO_AUTH, "the Origin is not in allowedOrigins");
    }
    if (http_head_is_cross_origin(head)) {
        refuse(request, ERR_NO_AUTH,
               "Sec-Fetch-Site is that of another page, and no Origin in allowedOrigins is given");
    }
}

/* The version follows the target in the request line. */
static bool is_http_1_0(const struct http_line *line)
{
    static const char version[] = " HTTP/1.0";

    return memcmp(line->target.data + line->target.len, version, strlen(version)) == 0;
}

/* Exactly 16 bytes in canonical base64. */
static void take_key(struct slice key, struct http_upgrade_request *request)
{
    struct buf bytes;
    bool sound = false;

    buf_init(&bytes, HTTP_SOCKET_KEY_LEN);
    sound = key.len == HTTP_SOCKET_KEY_LEN && base64_decode(&bytes, key) == ERR_OK &&
            bytes.len == KEY_BYTES;
    buf_release(&bytes);
    if (sound) {
        memcpy(request->key, key.data, key.len);
    } else {
        refuse(request, ERR_BAD_ARGUMENTS, "Sec-WebSocket-Key must be 16 bytes in base64");
    }
}

static void check_protocol(const struct http_line *line, const struct http_head *head,
                           struct http_upgrade_request *request)
{
    uint64_t body_len = 0;

    if (is_http_1_0(line)) {
        refuse(request, ERR_BAD_ARGUMENTS, "a WebSocket needs HTTP/1.1");
    }
    if (http_head_body(head, &body_len)) {
        refuse(request, ERR_BAD_ARGUMENTS, "the request for a WebSocket has a body");
    }
    if (!slice_eq(head->socket_version, slice_str("13"))) {
        refuse(request, ERR_UPGRADE_REQUIRED, "Sec-WebSocket-Version must be 13");
    }
    take_key(head->socket_key, request);
    if (!http_list_has(head->socket_protocol, subprotocol)) {
        refuse(request, ERR_BAD_ARGUMENTS,
               "Sec-WebSocket-Protocol must offer zabra.v1.json, the only subprotocol");
    }
}

static void check_ready(const struct http *http, struct http_upgrade_request *request)
{
    if (!http->upgrade.take) {
        refuse(request, ERR_UNIMPLEMENTED, "this replica serves no WebSockets");
    }
    if (atomic_load(&http->draining)) {
        refuse(request, ERR_NOT_READY, "this replica is shutting down");
    }
}

static void show_credentials(const struct http *http, const struct http_head *head,
                             struct http_upgrade_request *request)
{
    if (request->err == ERR_OK && head->authorization.data &&
        auth_basic(head->authorization, http->limits->super_digest, &request->auth) != ERR_OK) {
        refuse(request, ERR_AUTH_FAILED, "Authorization must be Basic with user:password");
    }
}

bool http_upgrade_read(const struct http *http, struct slice bytes,
                       struct http_upgrade_request *ret_request)
{
    struct http_head head;
    struct http_line line;
    struct http_target target;
    struct buf decoded;
    const char *why = NULL;
    bool mine = false;

    *ret_request = (struct http_upgrade_request){.err = ERR_OK};
    if (http_head_read(bytes, &line, &head) || !is_upgrade(&line, &head)) {
        return false;
    }
    buf_init(&decoded, (size_t)http->limits->head_bytes_max * 4 + 2);
    if (http_target_parse(line.target, &decoded, &target, &why) == ERR_OK) {
        mine = target.authority.len == 0 && slice_eq(target.path, slice_str(socket_path));
    }
    if (mine) {
        check_page(http, &head, ret_request);
        check_protocol(&line, &head, ret_request);
        if (target.param_count > 0) {
            refuse(ret_request, ERR_BAD_ARGUMENTS,
                   "the URL of a WebSocket has no query; a session is shown by attach");
        }
        check_ready(http, ret_request);
        show_credentials(http, &head, ret_request);
    }
    buf_release(&decoded);
    return mine;
}

void http_upgrade_guard(const struct http *http, const struct op_principal *principal,
                        struct http_upgrade_request *request)
{
    if (request->err == ERR_AUTH_FAILED) {
        gate_credentials_failed(http->gate, principal, GATE_FAILED_MALFORMED);
    } else if (request->err == ERR_OK && gate_credentials_wait(http->gate, principal, 0) > 0) {
        refuse(request, ERR_THROTTLED, gate_credentials_slowed);
    }
}
