/*
 * Connections and their deadlines. The library closes only silent connections; a client that sends
 * a byte now and then would stay for ever. So each phase has a deadline, which the acceptor
 * enforces. The phase changes by compare-and-swap: the thread that changes it has the right to
 * write to the socket.
 *
 */
#include "base/check.h"
#include "base/hash.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "http/address.h"
#include "http/slow_int.h"
#include "server/op/acl.h"

/* The deadline of a head starts with its first byte. */
static void on_part(struct http_inlet *inlet)
{
    struct http_conn *conn = list_entry(inlet, struct http_conn, inlet);

    if (atomic_load(&conn->phase) == HTTP_IDLE) {
        (void)http_conn_enter(conn, HTTP_HEAD, conn->http->limits->head_timeout_ms);
    }
}

static void on_refused(struct http_inlet *inlet)
{
    http_conn_refuse(list_entry(inlet, struct http_conn, inlet));
}

static struct http_conn *conn_new(struct http *http, struct MHD_Connection *mhd)
{
    struct http_conn *conn = mem_zalloc(1, sizeof(*conn));
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

    ASSERT(info);
    conn->http = http;
    conn->mhd = mhd;
    conn->fd = info->connect_fd;
    info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    ASSERT(info);
    http_address_text(info->client_addr, conn->principal.address, sizeof(conn->principal.address));
    conn->address_key = http_address_key(info->client_addr);
    http_inlet_init(&conn->inlet, http->limits->head_bytes_max);
    conn->inlet.on_part = on_part;
    conn->inlet.on_refused = on_refused;
    buf_init(&conn->target, (size_t)http->limits->head_bytes_max * 2);
    buf_init(&conn->decoded, (size_t)http->limits->head_bytes_max * 4 + 2);
    buf_init(&conn->body, SIZE_MAX / 2); /* Bounded per request. */
    buf_init(&conn->strings, SIZE_MAX / 2);
    buf_init(&conn->acl, ACL_BYTES_MAX);
    buf_init(&conn->uri, SIZE_MAX / 2);
    text_init(&conn->out, HTTP_ANSWER_MAX, gate_unsent(http->gate));
    return conn;
}

static void conn_free(struct http_conn *conn)
{
    ASSERT(!conn->request.op);

    buf_release(&conn->target);
    buf_release(&conn->decoded);
    buf_release(&conn->body);
    buf_release(&conn->strings);
    buf_release(&conn->acl);
    buf_release(&conn->uri);
    http_inlet_release(&conn->inlet);
    text_release(&conn->out);
    mem_free(conn);
}

static void conn_open(struct http *http, struct MHD_Connection *mhd, void **socket_context)
{
    struct http_conn *conn = conn_new(http, mhd);

    http_inlet_attach(&conn->inlet, conn->fd);
    /* The acceptor has seen a complete head: the connection is not idle before that is answered. */
    (void)http_conn_enter(conn, HTTP_HEAD, http->limits->head_timeout_ms);
    pthread_mutex_lock(&http->conns_mutex);
    list_push_back(&http->conns, &conn->node);
    pthread_mutex_unlock(&http->conns_mutex);
    atomic_fetch_sub(&http->handed, 1);
    atomic_fetch_add_explicit(&http->metrics.connections.value, 1, memory_order_relaxed);
    *socket_context = conn;
}

static void conn_close(struct http_conn *conn)
{
    struct http *http = conn->http;

    http_inlet_detach(&conn->inlet, conn->fd);
    pthread_mutex_lock(&http->conns_mutex);
    list_remove(&conn->node);
    pthread_mutex_unlock(&http->conns_mutex);
    atomic_fetch_sub_explicit(&http->metrics.connections.value, 1, memory_order_relaxed);
    http_caps_give(&http->caps, conn->address_key);
    http_conn_reset(conn);
    conn_free(conn);
}

void http_conn_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                      enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        conn_open(cls, mhd, socket_context);
    } else if (*socket_context) {
        conn_close(*socket_context);
        *socket_context = NULL;
    }
}

struct http_conn *http_conn_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    ASSERT(info && info->socket_context);
    return info->socket_context;
}

bool http_conn_enter(struct http_conn *conn, enum http_phase phase, uint64_t limit_ms)
{
    uint32_t old = atomic_load(&conn->phase);

    if (old != HTTP_EXPIRED) {
        atomic_store(&conn->deadline_ms, limit_ms ? os_now_ms() + limit_ms : 0);
    }
    while (old != HTTP_EXPIRED) {
        if (atomic_compare_exchange_weak(&conn->phase, &old, (uint32_t)phase)) {
            return true;
        }
    }
    return false;
}

void http_conn_reset(struct http_conn *conn)
{
    struct http_request *request = &conn->request;

    if (request->task.ops && request->task.ops->release) {
        request->task.ops->release(conn);
    }
    mem_free(request->multi);
    op_request_free(request->op);
    principal_release(&conn->principal);
    explicit_bzero(request->auth.secret, sizeof(request->auth.secret));
    *request = (struct http_request){.id = 0};
    buf_trim(&conn->target, HTTP_KEEP_BYTES);
    buf_trim(&conn->decoded, HTTP_KEEP_BYTES);
    buf_trim(&conn->strings, HTTP_KEEP_BYTES);
    http_request_body_drop(conn);
    buf_trim(&conn->acl, HTTP_KEEP_BYTES);
    buf_trim(&conn->uri, HTTP_KEEP_BYTES);
    text_clear(&conn->out, HTTP_KEEP_BYTES);
    if (atomic_load_explicit(&conn->kept, memory_order_relaxed) > 0) {
        atomic_store_explicit(&conn->kept, 0, memory_order_relaxed);
    }
}

/* A reset would destroy the answer for a client that is still sending. So the library continues to
 * read, and closes when the client does or when http_conns_scan has shut the connection down. */
void http_conn_send_problem(struct http_conn *conn, enum err err, uint32_t status,
                            const char *detail)
{
    struct buf out;

    ASSERT(atomic_load(&conn->phase) == HTTP_EXPIRED);
    buf_init(&out, HTTP_KEEP_BYTES);
    http_raw_problem(conn->http, &out, err, status, detail);
    (void)loop_send(conn->fd, out.data, out.len);
    buf_release(&out);
    atomic_store(&conn->deadline_ms, os_now_ms() + HTTP_LINGER_MS);
    loop_shutdown_write(conn->fd);
}

void http_conn_refuse(struct http_conn *conn)
{
    const struct http_refusal *refusal = &conn->inlet.refusal;

    metric_add(&conn->http->metrics.refused_head, 1);
    conn->request.fault.err = refusal->err;
    conn->request.answer.status = refusal->status;
    if (http_conn_enter(conn, HTTP_EXPIRED, HTTP_LINGER_MS)) {
        http_conn_send_problem(conn, refusal->err, refusal->status, refusal->detail);
    }
}

/* A request that is late is answered; a connection that is idle or being answered is just closed.
 * */
static bool expire(struct http_conn *conn, uint32_t phase)
{
    if (!atomic_compare_exchange_strong(&conn->phase, &phase, HTTP_EXPIRED)) {
        return false;
    }
    if (phase != HTTP_IDLE && phase != HTTP_EXPIRED) {
        metric_add(&conn->http->metrics.timeouts, 1);
    }
    if (phase == HTTP_HEAD || phase == HTTP_BODY) {
        http_conn_send_problem(conn, ERR_BAD_ARGUMENTS, MHD_HTTP_REQUEST_TIMEOUT,
                               phase == HTTP_HEAD ? "the request head took too long"
                                                  : "the request body took too long");
        return true;
    }
    atomic_store(&conn->deadline_ms, 0);
    loop_cut(conn->fd);
    return true;
}

static void cut_slowest(struct http *http, const struct http_slowest *slowest)
{
    uint32_t count = http_slow_choose(&http->relief, slowest);

    for (uint32_t i = 0; i < count; i++) {
        bool cut = expire(slowest->conns[i], HTTP_SENDING);

        metric_add(&http->metrics.closed_slowest, cut ? 1 : 0);
    }
}

void http_conns_scan(struct http *http, uint64_t now_ms)
{
    struct http_slowest slowest;

    http_slow_begin(http, now_ms, &slowest);
    pthread_mutex_lock(&http->conns_mutex);
    list_for_each (at, &http->conns) {
        struct http_conn *conn = list_entry(at, struct http_conn, node);
        uint32_t phase = atomic_load(&conn->phase);
        uint64_t deadline = atomic_load(&conn->deadline_ms);

        bool late = phase != HTTP_BUSY && deadline != 0 && now_ms >= deadline;

        if (late || http_slow_look(conn, phase, deadline, &slowest)) {
            (void)expire(conn, phase);
        }
    }
    cut_slowest(http, &slowest);
    pthread_mutex_unlock(&http->conns_mutex);
}

/* A request may already be in the socket: it is answered first. */
static bool is_idle(const struct http_conn *conn, uint32_t phase)
{
    uint8_t byte = 0;

    return phase == HTTP_IDLE && loop_peek(conn->fd, &byte, 1) <= 0;
}

uint32_t http_conns_close_idle(struct http *http)
{
    uint32_t left = 0;

    pthread_mutex_lock(&http->conns_mutex);
    list_for_each (at, &http->conns) {
        struct http_conn *conn = list_entry(at, struct http_conn, node);
        uint32_t phase = atomic_load(&conn->phase);

        if (phase == HTTP_EXPIRED) {
            continue;
        }
        if (is_idle(conn, phase)) {
            (void)expire(conn, phase);
        } else {
            left++;
        }
    }
    pthread_mutex_unlock(&http->conns_mutex);
    return left;
}
