/*
 * Connections and their deadlines. libmicrohttpd ("the library") can only close silent connections;
 * a client that sends a byte now and then would stay for ever. So phases have deadlines, which the
 * acceptor enforces.
 */
#include "base/hash.h"
#include "http/http_int.h"
#include "server/op/acl.h"

#include <unistd.h>

/* ---- Answers without the library ---- */

/* Returns the header lines that belong to a status. */
static const char *header_of(uint32_t status)
{
    switch (status) {
    case MHD_HTTP_TOO_MANY_REQUESTS:
    case MHD_HTTP_SERVICE_UNAVAILABLE:
        return "Retry-After: 1\r\n";
    case MHD_HTTP_UNAUTHORIZED:
        return "WWW-Authenticate: " HTTP_CHALLENGE_BASIC "\r\n";
    case MHD_HTTP_METHOD_NOT_ALLOWED:
        return "Allow: GET, HEAD\r\n"; /* Outside the library only probes are answered with 405, and
                                          a probe must be a GET or HEAD. */
    case MHD_HTTP_UPGRADE_REQUIRED:
        return "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    default:
        return "";
    }
}

/* `now` is what the body is of, too. */
static void put_answer(struct buf *out, const struct http_raw *raw, const struct gate_status *now)
{
    const char *reason = MHD_get_reason_phrase_for(raw->status);

    buf_printf(out,
               "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
               "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
               "Connection: close\r\nZk-Zxid: 0x%llx\r\nZk-History: %016llx\r\n%s\r\n",
               raw->status, reason ? reason : "Error", raw->content_type, raw->body.len,
               (unsigned long long)now->applied, (unsigned long long)now->history, raw->headers);
    if (!raw->is_head) {
        buf_append_slice(out, raw->body);
    }
}

void http_raw_answer(struct http *http, struct buf *out, const struct http_raw *raw)
{
    struct gate_status now;

    gate_status(http->gate, &now);
    put_answer(out, raw, &now);
}

void http_raw_problem(struct http *http, struct buf *out, struct http_refusal refusal)
{
    struct buf body;
    struct jsonw json;
    /* OP_KIND_INFO, because no operation has started. */
    struct op_problem problem = op_problem_make(OP_KIND_INFO, refusal.err);
    uint32_t status = refusal.status;
    bool retry = status == 429 || status == 503;
    struct gate_status now;
    char instance[HTTP_INSTANCE_MAX];

    problem.detail = refusal.detail;
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
    put_answer(out,
               &(struct http_raw){.status = status,
                                  .content_type = "application/problem+json",
                                  .headers = header_of(status),
                                  .body = buf_slice(&body)},
               &now);
    buf_release(&body);
}

void http_raw_refuse(struct http *http, int fd, struct http_refusal refusal)
{
    struct buf out;

    buf_init(&out, HTTP_KEEP_BYTES);
    http_raw_problem(http, &out, refusal);
    (void)loop_send(fd, out.data, out.len);
    buf_release(&out);
}

/* Whether the client of a connection that was just accepted expects TLS. If it has sent nothing
 * yet, that follows from the configuration. */
static bool expects_tls(const struct http *http, int fd)
{
    uint8_t first = 0;

    if (!http->tls) {
        return false;
    }
    return loop_peek(fd, &first, 1) == 1 ? first == HTTP_TLS_FIRST_BYTE
                                         : http->limits->tls.mode == (uint32_t)CONFIG_TLS_REQUIRED;
}

void http_raw_turn_away(struct http *http, int take_fd)
{
    /* A fatal alert: internal error. There is no handshake, in which the problem could be sent. */
    static const uint8_t alert[] = {0x15, 3, 3, 0, 2, 2, 80};

    metric_add(&http->metrics.refused_total, 1);
    if (expects_tls(http, take_fd)) {
        (void)loop_send(take_fd, alert, sizeof(alert));
    } else {
        http_raw_refuse(http, take_fd,
                        http_refusal_make(ERR_NOT_READY,
                                          "this replica is out of file descriptors: try again "
                                          "later, or use another replica"));
    }
    loop_shutdown_write(take_fd);
    (void)loop_swallow(take_fd); /* A close with unread bytes would reset the connection. */
    close(take_fd);
}

/*
 * ---- Clients that do not read their answers ----
 *
 * The acceptor checks each connection whose answer is being sent or is still in the kernel. When
 * the client's kernel acknowledges nothing for slowTimeout, the connection is closed. A deadline
 * for a whole answer would protect little: at 16 KB/s it would be 22 minutes for 20 MB. While the
 * budget of unsent bytes is short, the slowest clients are closed earlier, as many as necessary.
 * The checks run on the acceptor's thread with conns_mutex held. They cost two system calls for
 * each connection that is sending: 15 ms per second for 10,000 such connections.
 *
 * A credit of bytes measures how slow a client is. Each answer starts with HTTP_PACE_CREDIT. Bytes
 * that the client reads add to the credit, and time reduces it by HTTP_BYTES_PER_MS. So a client
 * that reads a byte now and then is as slow as one that reads nothing.
 */

enum {
    LOOK_MS = 1000, /* Time between two checks; progress within this time means that a client has
                       not stalled. */
    LATE_MS = 2 * LOOK_MS /* A longer interval is a stall of this process, not of the client. */
};

int64_t http_pace_credit(int64_t credit, uint64_t taken, uint64_t elapsed_ms)
{
    uint64_t paid_ms = min_u64(elapsed_ms, LATE_MS);
    uint64_t added = min_u64(taken, INT64_MAX / 2);
    int64_t left = credit + (int64_t)added - (int64_t)(paid_ms * HTTP_BYTES_PER_MS);

    ASSERT(credit <= HTTP_PACE_CREDIT);
    return left < HTTP_PACE_CREDIT ? left : HTTP_PACE_CREDIT;
}

static uint64_t kept_by(const struct http_conn *conn)
{
    return atomic_load_explicit(&conn->kept, memory_order_relaxed);
}

/* Updates the credit of a client. A client that has read everything is not slow. */
static void rate(struct http_conn *conn, uint64_t taken, uint64_t now_ms)
{
    struct http_pace *pace = &conn->pace;
    int64_t before = pace->credit;

    pace->credit = http_pace_credit(before, taken, now_ms - pace->seen_ms);
    pace->seen_ms = now_ms;
    if (pace->credit < before && loop_is_all_read(conn->fd)) {
        pace->credit = HTTP_PACE_CREDIT;
    }
}

/* Checks the progress of a client. An idle connection whose client has read everything need not be
 * checked again. */
static void look(struct http_conn *conn, uint32_t phase, uint64_t now_ms)
{
    struct http_pace *pace = &conn->pace;
    uint64_t acked = pace->acked;
    bool moved = loop_is_read(conn->fd, &pace->acked);

    rate(conn, pace->acked - acked, now_ms);
    pace->look_ms = now_ms + LOOK_MS;
    if (moved) {
        pace->moved_ms = now_ms;
        if (phase == HTTP_IDLE && loop_is_all_read(conn->fd)) {
            pace->look_ms = UINT64_MAX;
        }
    }
}

/* Whether `a` is slower than `b`: its credit is smaller or, when both are equal, its last progress
 * is longer ago. */
static bool is_slower(const struct http_pace *a, const struct http_pace *b)
{
    return a->credit != b->credit ? a->credit < b->credit : a->moved_ms < b->moved_ms;
}

/* Adds a connection to the list, which is sorted with the slowest first; a full list drops the
 * fastest. */
static void note(struct http_slowest *slowest, struct http_conn *conn)
{
    uint32_t at = slowest->count;

    while (at > 0 && is_slower(&conn->pace, &slowest->conns[at - 1]->pace)) {
        at--;
    }
    if (at == HTTP_SLOWEST_MAX) {
        return;
    }
    slowest->count = min_u32(slowest->count + 1, HTTP_SLOWEST_MAX);
    for (uint32_t i = slowest->count - 1; i > at; i--) {
        slowest->conns[i] = slowest->conns[i - 1];
    }
    slowest->conns[at] = conn;
}

static void slow_begin(struct http *http, uint64_t now_ms, struct http_slowest *ret_slowest)
{
    const struct budget *budget = gate_unsent(http->gate);
    uint64_t roomy = budget->max - budget->max / 4;
    uint64_t refusals = budget_refusals(budget);

    ret_slowest->level = budget_level(budget);
    ret_slowest->now_ms = now_ms;
    ret_slowest->used = budget_used(budget);
    ret_slowest->excess = ret_slowest->used >= roomy ? ret_slowest->used - roomy + 1 : 0;
    ret_slowest->refused = refusals != http->relief.refusals;
    ret_slowest->going = 0;
    ret_slowest->count = 0;
    http->relief.refusals = refusals;
}

static bool has_stalled(const struct http_pace *pace, uint64_t now_ms)
{
    return now_ms - pace->moved_ms >= LOOK_MS;
}

/* Whether a client may be closed to make room. True for each client when the budget is full.
 * Otherwise true for a client that has stalled, and, after the budget has refused bytes, for a
 * client whose credit is below 0. */
static bool gives_way(const struct http_pace *pace, const struct http_slowest *slowest)
{
    return slowest->level == BUDGET_FULL || has_stalled(pace, slowest->now_ms) ||
           (slowest->refused && pace->credit < 0);
}

/* Checks one connection. True: its client has read nothing for slowTimeout, so close it now. */
static bool slow_look(struct http_conn *conn, uint32_t phase, uint64_t deadline_ms,
                      struct http_slowest *slowest)
{
    struct http_pace *pace = &conn->pace;
    uint64_t now_ms = slowest->now_ms;
    bool is_short = slowest->level != BUDGET_ROOMY && kept_by(conn) > 0;

    slowest->going += is_short && phase == HTTP_EXPIRED ? 1 : 0;
    if ((phase != HTTP_SENDING && phase != HTTP_IDLE) || deadline_ms == 0) {
        return false; /* No answer is being sent, or the answer has no deadline. */
    }
    if (pace->of_ms != deadline_ms) { /* Another answer than at the last check. */
        pace->of_ms = deadline_ms;
        pace->moved_ms = now_ms;
        pace->seen_ms = now_ms;
        pace->look_ms = now_ms + LOOK_MS;
        pace->credit = HTTP_PACE_CREDIT;
        return false;
    }
    if (now_ms >= pace->look_ms || (is_short && phase == HTTP_SENDING)) {
        look(conn, phase, now_ms);
    }
    if (now_ms - pace->moved_ms >= conn->http->limits->slow_timeout_ms &&
        pace->look_ms != UINT64_MAX) {
        return true;
    }
    if (is_short && phase == HTTP_SENDING && gives_way(pace, slowest)) {
        note(slowest, conn);
    }
    return false;
}

/* Whether a client is slow: it has stalled, or its credit is below 0. */
static bool is_slow(const struct http_conn *conn, uint64_t now_ms)
{
    return has_stalled(&conn->pace, now_ms) || conn->pace.credit < 0;
}

/* Sets the least number of slow connections to close: 1 or, when the last closing freed less than
 * half of the expected bytes, double the previous least number. */
static void set_least(struct http_relief *relief, uint64_t used)
{
    bool enough = used + relief->expected / 2 <= relief->used;

    if (relief->expected == 0 || enough) {
        relief->least = 1;
    } else if (relief->least < HTTP_SLOWEST_MAX) {
        relief->least *= 2;
    }
}

uint32_t http_slow_choose(struct http_relief *relief, const struct http_slowest *slowest)
{
    uint64_t freed = 0;
    uint32_t count = 0;

    if (slowest->excess == 0) {
        relief->expected = 0;
    }
    if (slowest->excess == 0 || slowest->count == 0 || slowest->going > 0) {
        return 0;
    }
    set_least(relief, slowest->used);
    while (count < slowest->count && freed < slowest->excess) {
        freed += kept_by(slowest->conns[count]);
        count++;
    }
    while (count < slowest->count && count < relief->least &&
           is_slow(slowest->conns[count], slowest->now_ms)) {
        freed += kept_by(slowest->conns[count]);
        count++;
    }
    relief->used = slowest->used;
    relief->expected = freed;
    return count;
}

/* ---- Connections ---- */

/* Starts the deadline of a head when the first byte of the head has arrived. */
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

    conn->http = http;
    conn->mhd = mhd;
    conn->fd = info->connect_fd;
    conn->is_tls = tls_socket_of(conn->fd) != NULL;
    info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    http_address_text(info->client_addr, conn->principal.address, sizeof(conn->principal.address));
    (void)snprintf(conn->peer, sizeof(conn->peer), "%s", conn->principal.address);
    conn->is_proxy = http_is_proxy(http->limits, conn->peer);
    conn->address_key = http_address_key(info->client_addr);
    conn->client_key = conn->address_key;
    conn->certificate = conn->is_tls ? http_certificate(http->limits, conn->fd) : NULL;
    http_inlet_init(&conn->inlet, http->limits->head_bytes_max);
    conn->inlet.on_part = on_part;
    conn->inlet.on_refused = on_refused;
    buf_init(&conn->target, (size_t)http->limits->head_bytes_max * 2);
    buf_init(&conn->decoded, (size_t)http->limits->head_bytes_max * 4 + 2);
    buf_init(&conn->body, SIZE_MAX / 2); /* Each request sets its own maximum. */
    buf_init(&conn->strings, SIZE_MAX / 2);
    buf_init(&conn->acl, ACL_BYTES_MAX);
    buf_init(&conn->uri, SIZE_MAX / 2);
    text_init(&conn->out, HTTP_ANSWER_MAX, gate_unsent(http->gate));
    return conn;
}

static void conn_open(struct http *http, struct MHD_Connection *mhd, void **socket_context)
{
    struct http_conn *conn = conn_new(http, mhd);

    http_inlet_attach(&conn->inlet, conn->fd);
    /* The first phase is HTTP_HEAD, not HTTP_IDLE, because the acceptor has seen a complete
     * head. */
    (void)http_conn_enter(conn, HTTP_HEAD, http->limits->head_timeout_ms);
    pthread_mutex_lock(&http->conns_mutex);
    list_push_back(&http->conns, &conn->node);
    pthread_mutex_unlock(&http->conns_mutex);
    http_greet_opened(http, mhd);
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
    buf_release(&conn->target);
    buf_release(&conn->decoded);
    buf_release(&conn->body);
    buf_release(&conn->strings);
    buf_release(&conn->acl);
    buf_release(&conn->uri);
    http_inlet_release(&conn->inlet);
    auth_unref(conn->certificate);
    text_release(&conn->out);
    mem_free(conn);
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
    http_slow_release(request);
    mem_free(request->multi);
    op_request_free(request->op);
    principal_release(&conn->principal);
    explicit_bzero(request->auth.secret, sizeof(request->auth.secret));
    *request = (struct http_request){.id = 0};
    buf_trim(&conn->target, HTTP_KEEP_BYTES);
    buf_trim(&conn->decoded, HTTP_KEEP_BYTES);
    buf_trim(&conn->strings, HTTP_KEEP_BYTES);
    http_request_body_drop(conn);
    if (conn->is_proxy) { /* The next request may be of another client. */
        memcpy(conn->principal.address, conn->peer, sizeof(conn->peer));
        conn->client_key = conn->address_key;
    }
    buf_trim(&conn->acl, HTTP_KEEP_BYTES);
    buf_trim(&conn->uri, HTTP_KEEP_BYTES);
    text_clear(&conn->out, HTTP_KEEP_BYTES);
    if (kept_by(conn) > 0) {
        atomic_store_explicit(&conn->kept, 0, memory_order_relaxed);
    }
}

/* Leaves the socket open for reading: closing it while the client is still sending would reset the
 * connection and destroy the answer. The library continues to read. It closes the socket when the
 * client closes, or when http_conns_scan has shut the connection down. */
void http_conn_send_problem(struct http_conn *conn, struct http_refusal refusal)
{
    ASSERT(atomic_load(&conn->phase) == HTTP_EXPIRED);
    http_raw_refuse(conn->http, conn->fd, refusal);
    atomic_store(&conn->deadline_ms, os_now_ms() + HTTP_LINGER_MS);
    loop_shutdown_write(conn->fd);
}

void http_conn_refuse(struct http_conn *conn)
{
    metric_add(&conn->http->metrics.refused_head, 1);
    conn->request.fault.err = conn->inlet.refusal.err;
    conn->request.answer.status = conn->inlet.refusal.status;
    if (http_conn_enter(conn, HTTP_EXPIRED, HTTP_LINGER_MS)) {
        http_conn_send_problem(conn, conn->inlet.refusal);
    }
}

/* Ends a connection that is still in `phase`. A late request is answered; a connection that is idle
 * or being answered is just closed. False when the connection is in another phase by now. */
static bool expire(struct http_conn *conn, uint32_t phase)
{
    if (!atomic_compare_exchange_strong(&conn->phase, &phase, HTTP_EXPIRED)) {
        return false;
    }
    if (phase != HTTP_IDLE && phase != HTTP_EXPIRED) {
        metric_add(&conn->http->metrics.timeouts, 1);
    }
    if (phase == HTTP_HEAD || phase == HTTP_BODY) {
        http_conn_send_problem(
            conn, http_refusal_late(phase == HTTP_HEAD
                                        ? "the request head did not arrive within headTimeout"
                                        : "the request body did not arrive within bodyTimeout"));
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

    slow_begin(http, now_ms, &slowest);
    MUTEX_HOLD(&http->conns_mutex);
    list_for_each_entry (struct http_conn, conn, node, &http->conns) {
        uint32_t phase = atomic_load(&conn->phase);
        uint64_t deadline = atomic_load(&conn->deadline_ms);
        bool late = phase != HTTP_BUSY && deadline != 0 && now_ms >= deadline;

        if (late || slow_look(conn, phase, deadline, &slowest)) {
            (void)expire(conn, phase);
        }
    }
    cut_slowest(http, &slowest);
}

/* Whether a connection is idle. A request that is already in the socket is answered first. */
static bool is_idle(const struct http_conn *conn, uint32_t phase)
{
    uint8_t byte = 0;

    if (phase != HTTP_IDLE) {
        return false;
    }
    /* Only the library's thread may peek through TLS. */
    return conn->is_tls ? !tls_socket_is_unread(conn->fd) : loop_peek(conn->fd, &byte, 1) <= 0;
}

uint32_t http_conns_close_idle(struct http *http)
{
    uint32_t left = 0;

    MUTEX_HOLD(&http->conns_mutex);
    list_for_each_entry (struct http_conn, conn, node, &http->conns) {
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
    return left;
}
