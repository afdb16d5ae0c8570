/*
 * TLS on the client port: its settings, and the way of a connection through its handshake. The
 * acceptor's thread gives a connection to the thread of handshakes (tls/shaker.h) and gets it back.
 */
#include "tls/calls.h"
#include "tls/system.h"

#include "base/hash.h"
#include "base/log.h"
#include "http/accept_int.h"

#include <stdio.h>
#include <string.h>

enum {
    HTTP_TLS_REASON_MAX = 384,
    LOG_EACH_MS = 10000,      /* At most one line per address and reason in this time, */
    LOGS_PER_PERIOD_MAX = 100 /* and so many lines of all addresses. */
};

/* ---- Settings ---- */

static struct tls_setup setup_of(const struct config_tls *tls)
{
    return (struct tls_setup){.cert_files = tls->cert_files,
                              .key_files = tls->key_files,
                              .ca_file = tls->ca_file,
                              .crl_file = tls->crl_file,
                              .clients = (enum tls_clients)tls->clients,
                              .identity = (enum tls_identity_kind)tls->identity};
}

enum err http_tls_open(const struct config_clients *limits, struct tls_current **ret_current,
                       struct tls_fault *ret_fault)
{
    const struct tls_setup setup = setup_of(&limits->tls);

    tls_calls_check();
    ASSERT(tls_calls_has("recv")); /* inlet.c */
    *ret_current = NULL;
    return limits->tls.mode == CONFIG_TLS_OFF ? ERR_OK
                                              : tls_current_open(&setup, ret_current, ret_fault);
}

bool http_tls_check(const struct config_clients *limits, struct tls_fault *ret_fault)
{
    struct tls_current *current = NULL;
    enum err err = http_tls_open(limits, &current, ret_fault);

    tls_current_close(current);
    return err == ERR_OK;
}

/* ---- Failures ---- */

/* Whether this failure of this address may be logged now: a client that fails again and again must
 * not fill the log. The table is small; when two keys share a row, both are logged more often. */
static bool may_log(struct http_tls_log *log, uint64_t key, uint64_t now_ms)
{
    struct http_tls_row *row = &log->rows[key % HTTP_TLS_ROWS];

    MUTEX_HOLD(&log->mutex);
    if (now_ms >= log->period_ms + LOG_EACH_MS) {
        log->period_ms = now_ms;
        log->lines = 0;
    }
    if (row->key == key && now_ms < row->logged_ms + LOG_EACH_MS) {
        return false;
    }
    if (log->lines >= LOGS_PER_PERIOD_MAX) {
        return false;
    }
    log->lines++;
    *row = (struct http_tls_row){.key = key, .logged_ms = now_ms};
    return true;
}

void http_tls_failed(struct http *http, const struct sockaddr *address, enum tls_failure failure,
                     const char *detail)
{
    uint8_t kind = (uint8_t)failure;
    char client[HTTP_HOST_MAX];
    char reason[HTTP_TLS_REASON_MAX];

    uint64_t key = hash64(http_address_key(address), slice_make(&kind, 1)) | 1;

    if (!may_log(&http->tls_log, key, os_now_ms())) {
        return;
    }
    http_address_text(address, client, sizeof(client));
    (void)snprintf(reason, sizeof(reason), *detail ? "%s (%s)" : "%s%s", tls_failure_text(failure),
                   detail);
    log_warn("tls", "connection from {address}%s: {reason}%s", client, reason);
}

/* Called when an attached connection breaks. */
static void on_broken(void *ctx, const struct tls_socket_peer *peer, enum tls_failure failure,
                      const char *detail)
{
    struct http *http = ctx;

    metric_add(&tls_current_metrics(http->tls)->broken[failure], 1);
    http_tls_failed(http, &peer->address.any, failure, detail);
}

/* ---- The way through the handshake ---- */

bool http_shake_is_tls(const struct http_accept *accept, uint8_t first)
{
    return accept->shaker && first == HTTP_TLS_FIRST_BYTE;
}

bool http_shake_begin(struct pending *pending)
{
    struct http_accept *accept = pending->accept;

    pending->shake.fd = pending->watch.fd;
    pending->shake.deadline_ms = pending->deadline_ms;
    pending->shake.address_key = http_address_key((const struct sockaddr *)&pending->address);
    pending->shaking = tls_shaker_give(accept->shaker, &pending->shake);
    if (pending->shaking) {
        loop_remove(&accept->loop, &pending->watch);
    }
    return pending->shaking;
}

void http_shake_cut(struct pending *pending, enum tls_failure why)
{
    ASSERT(pending->shaking);
    atomic_store(&pending->shake.cut, why);
    (void)tls_system_shutdown(pending->watch.fd, SHUT_RDWR);
}

bool http_shake_end(struct pending *pending)
{
    struct http *http = pending->accept->http;
    const struct tls_shake *shake = &pending->shake;
    struct tls_socket_peer peer = {.broke = on_broken, .ctx = http};

    pending->shaking = false;
    loop_add(&pending->accept->loop, &pending->watch);
    if (!shake->socket) {
        if (shake->failure != TLS_STOPPED) { /* That is no fault of a client. */
            http_tls_failed(http, (const struct sockaddr *)&pending->address, shake->failure,
                            shake->detail);
        }
        return false;
    }
    memcpy(&peer.address, &pending->address, sizeof(peer.address));
    tls_socket_report(shake->socket, &peer);
    tls_socket_attach(shake->socket);
    pending->sealed = true;
    return true;
}

/* ---- Plain requests where TLS is required ---- */

/* Whether the answer may be a redirection: the request changes nothing, it asks for no WebSocket
 * (such clients follow no redirection), and its host is one that this replica serves. */
static bool may_redirect(const struct http *http, const struct http_line *line,
                         const struct http_head *head)
{
    return (slice_eq(line->method, slice_str("GET")) ||
            slice_eq(line->method, slice_str("HEAD"))) &&
           !head->upgrade.data && head->host.len > 0 &&
           http_host_allowed(&http->names, head->host) && line->target.len > 0 &&
           line->target.data[0] == '/';
}

bool http_shake_redirect(struct http *http, const struct http_line *line,
                         const struct http_head *head, struct buf *out)
{
    static const char body[] = "this replica serves clients by TLS only: use https\n";
    struct http_raw raw = {.status = MHD_HTTP_PERMANENT_REDIRECT,
                           .content_type = "text/plain; charset=utf-8",
                           .body = slice_str(body),
                           .is_head = slice_eq(line->method, slice_str("HEAD"))};
    struct buf location;

    if (!may_redirect(http, line, head)) {
        return false;
    }
    buf_init(&location, (size_t)http->limits->head_bytes_max + HTTP_KEEP_BYTES);
    buf_printf(&location, "Location: https://%.*s%.*s\r\n", (int)head->host.len,
               (const char *)head->host.data, (int)line->target.len,
               (const char *)line->target.data);
    raw.headers = buf_cstr(&location);
    http_raw_answer(http, out, &raw);
    buf_release(&location);
    return true;
}
