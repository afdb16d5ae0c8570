/*
 * Connections whose first head is incomplete, or that were refused. Runs on the acceptor's thread.
 *
 * The first head decides whether a connection goes to the WebSocket front end or to libmicrohttpd
 * ("the library"). In both cases the bytes of the head stay in the socket. A malformed first head
 * is refused here, and so is a faulty request for a WebSocket. The clients get the same problem
 * objects as for errors of later requests.
 */
#include "base/base64.h"
#include "http/accept_int.h"

#include <errno.h>
#include <unistd.h>

enum {
    LINGERS_MAX = 256,
    SEATS_MAX = 512, /* Seats for connections over a cap, which may be probes. */
    SEAT_MS = 1000,  /* A connection with a seat must send its request in this time. */
    KEY_BYTES = 16,
    SOCKET_KEY_LEN = 24 /* KEY_BYTES in base64. */
};

/* ---- Requests for a WebSocket ---- */

/* A complete first head that has passed http_head_check_framing. */
struct first_head {
    size_t len;
    struct http_line line;
    struct http_head head;
    struct http_forwarded_head forwarded; /* That of `head`. */
};

/* Whether the request is HTTP/1.0. The version follows the target in the request line. */
static bool is_http_1_0(const struct http_line *line)
{
    static const char version[] = " HTTP/1.0";

    return memcmp(line->target.data + line->target.len, version, strlen(version)) == 0;
}

/* Whether the key is exactly 16 bytes in canonical base64. */
static bool is_key(struct slice key)
{
    struct buf bytes;
    bool sound = false;

    buf_init(&bytes, SOCKET_KEY_LEN);
    sound =
        key.len == SOCKET_KEY_LEN && base64_decode(&bytes, key) == ERR_OK && bytes.len == KEY_BYTES;
    buf_release(&bytes);
    return sound;
}

/* Returns what is wrong with a request for a WebSocket, besides its credentials. `host` is the host
 * that the client has addressed. */
static struct http_refusal check_upgrade(const struct http *http, const struct first_head *first,
                                         const struct http_target *target, struct slice host)
{
    const struct http_head *head = &first->head;
    uint64_t body_len = 0;

    const struct {
        bool fails;
        enum err err;
        const char *detail;
    } checks[] = {
        {head->host.data && !http_host_allowed(&http->names, head->host), ERR_MISDIRECTED,
         "the Host is not in allowedHosts"},
        {host.data && !http_host_allowed(&http->names, host), ERR_MISDIRECTED,
         "the host that the proxy names is not in allowedHosts"},
        {head->origin.data && !http_origin_is_host(head->origin, host) &&
             !http_origin_allowed(http, head->origin),
         ERR_NO_AUTH, "the Origin is not in allowedOrigins"},
        {http_head_is_cross_origin(head), ERR_NO_AUTH,
         "a page of another origin sends this request (Sec-Fetch-Site) and must send an Origin "
         "that is in allowedOrigins"},
        {is_http_1_0(&first->line), ERR_BAD_ARGUMENTS, "a WebSocket needs HTTP/1.1"},
        {http_head_body(head, &body_len), ERR_BAD_ARGUMENTS,
         "the request for a WebSocket must not have a body"},
        {!slice_eq(head->socket_version, slice_str("13")), ERR_UPGRADE_REQUIRED,
         "Sec-WebSocket-Version must be 13"},
        {!is_key(head->socket_key), ERR_BAD_ARGUMENTS,
         "Sec-WebSocket-Key must be 16 bytes in base64"},
        {!http_list_has(head->socket_protocol, OP_PROTOCOL), ERR_BAD_ARGUMENTS,
         "Sec-WebSocket-Protocol must offer zabra.v1.json, the only subprotocol"},
        {target->param_count > 0, ERR_BAD_ARGUMENTS,
         "the URL of a WebSocket must have no query; to use a session, send attach"},
        {!http->upgrade.take, ERR_UNIMPLEMENTED, "this replica serves no WebSockets"},
        {atomic_load(&http->draining), ERR_NOT_READY, "this replica is shutting down"},
    };

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (checks[i].fails) {
            return http_refusal_make(checks[i].err, checks[i].detail);
        }
    }
    return (struct http_refusal){.err = ERR_OK};
}

/* A request for a WebSocket: what is wrong with it, if anything, and its client. */
struct upgrade {
    struct http_refusal refusal;
    struct op_principal principal;
};

/* Applies what a trusted proxy says about its client; returns the host that the client has
 * addressed. `principal` has the address of the peer. */
static struct slice take_forwarded(const struct pending *pending, const struct first_head *first,
                                   struct upgrade *upgrade)
{
    const struct http *http = pending->accept->http;
    int fd = pending->watch.fd;
    struct http_forwarded by;

    upgrade->refusal = http_forwarded_take(http->limits, pending->is_proxy, &first->head, &by);
    upgrade->principal.https = by.has_scheme ? by.is_https : tls_socket_of(fd) != NULL;
    if (upgrade->refusal.err == ERR_OK && by.client[0] != '\0') {
        memcpy(upgrade->principal.address, by.client, sizeof(by.client));
    }
    if (upgrade->refusal.err == ERR_OK && !by.is_present) {
        upgrade->principal.auth = http_certificate(http->limits, fd);
    }
    return by.host.data ? by.host : first->head.host;
}

/* True when the request asks for a WebSocket, and then fills in `upgrade`, which has the address of
 * the peer. False: the request is for the library. */
static bool read_upgrade(const struct pending *pending, const struct first_head *first,
                         struct upgrade *upgrade)
{
    const struct http *http = pending->accept->http;
    struct http_target target;
    struct buf decoded;
    const char *why = NULL;
    bool mine = false;

    if (!slice_eq(first->line.method, slice_str("GET")) ||
        !http_list_has(first->head.upgrade, "websocket") ||
        !http_list_has(first->head.connection, "upgrade")) {
        return false;
    }
    buf_init(&decoded, (size_t)http->limits->head_bytes_max * 4 + 2);
    mine = http_target_parse(first->line.target, &decoded, &target, &why) == ERR_OK &&
           target.authority.len == 0 && slice_eq(target.path, slice_str("/ws/v1"));
    if (mine) {
        struct slice host = take_forwarded(pending, first, upgrade);

        if (upgrade->refusal.err == ERR_OK) {
            upgrade->refusal = check_upgrade(http, first, &target, host);
        }
    }
    buf_release(&decoded);
    return mine;
}

/* ---- Connections of the acceptor ---- */

static const struct sockaddr *address_of(const struct pending *pending)
{
    return (const struct sockaddr *)&pending->address;
}

static void leave_seat(struct pending *pending)
{
    if (pending->cap != HTTP_CAP_OK) {
        pending->cap = HTTP_CAP_OK;
        seats_leave(&pending->accept->seats, &pending->seat);
    }
}

static void pending_drop(struct pending *pending, bool close_fd)
{
    struct http_accept *accept = pending->accept;

    leave_seat(pending);
    loop_remove(&accept->loop, &pending->watch);
    list_remove(&pending->node);
    accept->lingering -= pending->lingering;
    if (close_fd && pending->counted) {
        http_caps_give(&accept->http->caps, http_address_key(address_of(pending)));
    }
    if (close_fd) {
        close(pending->watch.fd);
    }
    mem_free(pending);
}

/* Sends an answer without the library. The socket is read for a while before it is closed: closing
 * it with unread bytes would reset the connection and destroy the answer. */
static void finish_with(struct pending *pending, struct slice answer)
{
    struct http_accept *accept = pending->accept;

    leave_seat(pending);
    (void)loop_send(pending->watch.fd, answer.data, answer.len);
    loop_shutdown_write(pending->watch.fd);
    if (accept->lingering >= seats_limit(accept->http->limits->lingers_max, LINGERS_MAX)) {
        pending_drop(pending, true);
        return;
    }
    loop_low_water(pending->watch.fd, 1);
    accept->lingering++;
    pending->lingering = true;
    pending->deadline_ms = os_now_ms() + HTTP_LINGER_MS;
}

static void refuse(struct pending *pending, struct http_refusal refusal)
{
    struct buf out;

    buf_init(&out, HTTP_KEEP_BYTES);
    http_raw_problem(pending->accept->http, &out, refusal);
    finish_with(pending, buf_slice(&out));
    buf_release(&out);
}

static void hand_over(struct pending *pending, const struct first_head *first)
{
    struct http *http = pending->accept->http;
    int fd = pending->watch.fd;
    struct sockaddr_storage address = pending->address;

    loop_low_water(fd, 1);
    pending_drop(pending, false);
    http_greet_take(http, fd, &address, http_head_waits(&first->line, &first->head));
}

static void refuse_head(struct pending *pending, struct http_refusal refusal)
{
    metric_add(&pending->accept->http->metrics.refused_head, 1);
    refuse(pending, refusal);
}

/* Hands the connection to the WebSocket front end. The bytes stay in the socket, because the front
 * end reads the head again. */
static void hand_to_sockets(struct pending *pending, const struct first_head *first,
                            struct op_principal *principal)
{
    char key[SOCKET_KEY_LEN + 1] = {0};
    struct http_accept *accept = pending->accept;
    struct http *http = accept->http;
    struct http_seat *seat = http_seat_new(http, http_address_key(address_of(pending)));

    memcpy(key, first->head.socket_key.data, SOCKET_KEY_LEN);
    loop_low_water(pending->watch.fd, 1);
    loop_remove(&accept->loop, &pending->watch);
    if (http->upgrade.take(http->upgrade.ctx, pending->watch.fd, first->len, key, principal,
                           seat)) {
        list_remove(&pending->node);
        mem_free(pending);
        return;
    }
    mem_free(seat);
    loop_add(&accept->loop, &pending->watch);
    refuse(
        pending,
        http_refusal_make(
            ERR_NOT_READY,
            "this replica has as many WebSockets as maxWebSockets allows: try again later, or use "
            "another replica"));
}

static void refuse_over_cap(struct pending *pending)
{
    refuse(
        pending,
        pending->cap == HTTP_CAP_TOTAL
            ? http_refusal_make(
                  ERR_NOT_READY,
                  "this replica has as many connections as maxConnections allows: try again "
                  "later, or use another replica")
            : http_refusal_make(
                  ERR_THROTTLED,
                  "this address has as many connections as maxConnectionsPerAddress allows: close "
                  "some, or try again later"));
}

/* Handles the request of a connection over a cap: the thread for probes answers a probe, and other
 * requests are refused. */
static void admit_probe(struct pending *pending, const struct http_line *line)
{
    struct http_accept *accept = pending->accept;

    if (!http_probe_asks(line)) {
        refuse_over_cap(pending);
        return;
    }
    loop_low_water(pending->watch.fd, 1);
    loop_remove(&accept->loop, &pending->watch);
    if (http_probe_give(accept->http->probe, pending->watch.fd,
                        http_address_key(address_of(pending)), pending->is_proxy)) {
        leave_seat(pending);
        list_remove(&pending->node);
        mem_free(pending);
        return;
    }
    loop_add(&accept->loop, &pending->watch);
    refuse_over_cap(pending);
}

static void answer_upgrade(struct pending *pending, const struct first_head *first,
                           struct upgrade *upgrade)
{
    struct http_refusal refusal = upgrade->refusal;
    uint32_t wait_ms = 0;

    if (refusal.err == ERR_OK) {
        refusal = http_take_credentials(pending->accept->http, first->head.authorization,
                                        &upgrade->principal, &wait_ms);
    }
    if (refusal.err != ERR_OK) {
        gate_refused(pending->accept->http->gate,
                     &(struct gate_refusal){.op = "websocket",
                                            .client = &upgrade->principal,
                                            .err = refusal.err,
                                            .status = refusal.status,
                                            .why = refusal.detail});
        refuse(pending, refusal);
    } else {
        hand_to_sockets(pending, first, &upgrade->principal);
    }
    principal_release(&upgrade->principal);
}

/* Answers a plain request where TLS is required. */
static void refuse_plain(struct pending *pending, const struct first_head *first)
{
    struct buf out;

    buf_init(&out,
             (size_t)pending->accept->http->limits->head_bytes_max + 2 * (size_t)HTTP_KEEP_BYTES);
    if (http_shake_redirect(pending->accept->http, &first->line, &first->head, &out)) {
        finish_with(pending, buf_slice(&out));
    } else {
        refuse(pending, http_refusal_make(
                            ERR_BAD_ARGUMENTS,
                            "this replica serves clients by TLS only (clientTls=required): use "
                            "https"));
    }
    buf_release(&out);
}

static void admit(struct pending *pending, const struct first_head *first)
{
    struct upgrade upgrade = {.refusal = {.err = ERR_OK}};

    http_address_text(address_of(pending), upgrade.principal.address,
                      sizeof(upgrade.principal.address));
    if (!pending->sealed &&
        pending->accept->http->limits->tls.mode == (uint32_t)CONFIG_TLS_REQUIRED) {
        refuse_plain(pending, first);
    } else if (pending->cap != HTTP_CAP_OK) {
        admit_probe(pending, &first->line);
    } else if (!read_upgrade(pending, first, &upgrade)) {
        hand_over(pending, first);
    } else {
        answer_upgrade(pending, first, &upgrade);
    }
}

/* True when the first byte has begun TLS: then the connection is with the thread of handshakes, or
 * closed. */
static bool begin_tls(struct pending *pending, uint8_t first)
{
    if (pending->known || !http_shake_is_tls(pending->accept, first)) {
        return false;
    }
    pending->known = true;
    pending->seat.stage = SEATS_BEGUN;
    if (!http_shake_begin(pending)) {
        pending_drop(pending, true);
    }
    return true;
}

/* Whether nothing follows the `got` bytes. A plain socket is only reported with more bytes than
 * before, or at its end (see mark). TLS is also reported when a part of a record has arrived. */
static bool is_over(const struct pending *pending, ssize_t got)
{
    return got <= 0 || ((size_t)got == pending->peeked &&
                        (!pending->sealed || tls_socket_is_ended(pending->watch.fd)));
}

/* Makes the loop report the socket when more bytes than these have arrived. Peeked bytes of TLS are
 * in this process, so the kernel has only newer ones. */
static void mark(struct pending *pending, size_t peeked)
{
    pending->known = true;
    pending->seat.stage = SEATS_BEGUN;
    pending->peeked = peeked;
    if (!pending->sealed) {
        loop_low_water(pending->watch.fd, (int)peeked + 1);
    }
}

/* Hands the connection to the front end of native clients, or closes it. */
static void hand_to_native(struct pending *pending)
{
    if (http_native_give(pending)) {
        list_remove(&pending->node);
        mem_free(pending);
    } else {
        pending_drop(pending, true);
    }
}

static void look_at_head(struct pending *pending)
{
    struct http_accept *accept = pending->accept;
    size_t max = accept->http->limits->head_bytes_max;
    ssize_t got = loop_peek(pending->watch.fd, accept->head, max + 1);

    if (got == -EAGAIN || got == -EINTR) {
        return;
    }
    if (is_over(pending, got)) {
        /* The client has closed, or has ended sending before its head was complete. */
        pending_drop(pending, true);
        return;
    }
    if (begin_tls(pending, accept->head[0])) {
        return;
    }

    struct slice bytes = slice_make(accept->head, (size_t)got);

    if (pending->native_only || http_native_is(accept->http, bytes)) {
        hand_to_native(pending);
        return;
    }

    struct http_framing framing;
    struct http_refusal refusal = http_head_check_framing(bytes, max, &framing);
    struct first_head first = {.len = framing.head_len};

    if (refusal.err == ERR_OK && first.len > 0) {
        struct slice head = slice_make(bytes.data, first.len);
        const char *fault = http_head_read(head, &first.line, &first.head, &first.forwarded);

        refusal = http_refusal_make(fault ? ERR_BAD_ARGUMENTS : ERR_OK, fault);
    }
    if (refusal.err != ERR_OK) {
        refuse_head(pending, refusal);
    } else if (first.len > 0) {
        admit(pending, &first);
    } else {
        mark(pending, bytes.len);
    }
}

static void on_pending(struct loop_watch *watch, uint32_t ready)
{
    struct pending *pending = watch->ctx;

    if (pending->lingering) {
        if ((ready & LOOP_HANGUP) || !loop_swallow(watch->fd)) {
            pending_drop(pending, true);
        }
        return;
    }
    look_at_head(pending);
}

static struct pending *pending_new(struct http_accept *accept, int fd,
                                   const struct sockaddr_storage *address)
{
    struct pending *pending = mem_zalloc(1, sizeof(*pending));

    pending->accept = accept;
    pending->address = *address;
    pending->deadline_ms = os_now_ms() + accept->http->limits->head_timeout_ms;
    list_push_back(&accept->pending, &pending->node);
    loop_add_reader(&accept->loop, &pending->watch, fd, on_pending, pending);
    return pending;
}

/* Takes the seat of a connection for another one. A connection in its handshake cannot be answered:
 * it is cut, and closed when it comes back. */
static void unseat(struct pending *pending)
{
    if (!pending->shaking) {
        refuse_over_cap(pending);
        return;
    }
    leave_seat(pending);
    pending->unseated = true;
    http_shake_cut(pending, TLS_UNSEATED);
}

static void take_seat(struct pending *pending, enum http_cap cap)
{
    struct http_accept *accept = pending->accept;
    struct http_metrics *metrics = &accept->http->metrics;

    metric_add(cap == HTTP_CAP_TOTAL ? &metrics->refused_total : &metrics->refused_address, 1);
    metric_add(&metrics->seats_ever, 1);
    if (accept->seats.count >= seats_limit(accept->http->limits->seats_max, SEATS_MAX)) {
        unseat(list_entry(seats_weakest(&accept->seats), struct pending, seat));
    }
    pending->cap = cap;
    pending->deadline_ms = os_now_ms() + SEAT_MS;
    seats_take(&accept->seats, &pending->seat, http_address_key(address_of(pending)));
}

void http_pending_take(struct http_accept *accept, int fd, const struct sockaddr_storage *address,
                       bool native_only)
{
    struct http *http = accept->http;
    struct pending *pending = pending_new(accept, fd, address);
    char peer[ADDRESS_TEXT_MAX];

    http_address_text(address_of(pending), peer, sizeof(peer));
    pending->native_only = native_only;
    pending->is_proxy = http_is_proxy(http->limits, peer);

    enum http_cap cap =
        http_caps_take(&http->caps, http_address_key(address_of(pending)), pending->is_proxy);

    metric_add(&http->metrics.connections_ever, 1);
    pending->counted = cap == HTTP_CAP_OK;
    if (cap != HTTP_CAP_OK) {
        take_seat(pending, cap);
    }
    look_at_head(pending);
}

/* A connection whose seat is gone has a descriptor that counts nowhere, so it is closed. */
void http_pending_take_shaken(struct http_accept *accept)
{
    struct list batch;

    (void)mailbox_drain(tls_shaker_done(accept->shaker), &batch);
    list_take_each (struct tls_shake, shake, node, &batch) {
        struct pending *pending = list_entry(shake, struct pending, shake);

        if (http_shake_end(pending) && !pending->unseated) {
            look_at_head(pending);
        } else {
            pending_drop(pending, true);
        }
    }
}

void http_pending_scan(struct http_accept *accept, uint64_t now_ms)
{
    list_for_each_entry_safe (struct pending, pending, next, node, &accept->pending) {
        if (now_ms < pending->deadline_ms || pending->shaking) {
            continue; /* The thread of handshakes has the same deadline. */
        }
        if (pending->cap != HTTP_CAP_OK) {
            refuse_over_cap(pending);
        } else if (pending->lingering || pending->peeked == 0) {
            /* A connection that has sent nothing has no request to answer. */
            pending_drop(pending, true);
        } else {
            refuse_head(pending,
                        http_refusal_late("the request head did not arrive within headTimeout"));
        }
    }
}

/* Refuses clients that have sent nothing, and ends handshakes. A client that sends its request
 * later finds the answer in its socket. */
void http_pending_refuse_silent(struct http_accept *accept)
{
    list_for_each_entry_safe (struct pending, pending, next, node, &accept->pending) {
        if (pending->shaking) {
            http_shake_cut(pending, TLS_STOPPED);
        } else if (!pending->lingering && pending->peeked == 0) {
            refuse(pending, http_refusal_make(ERR_NOT_READY, "this replica is shutting down"));
        }
    }
}

void http_pending_drop_all(struct http_accept *accept)
{
    list_for_each_entry_safe (struct pending, pending, next, node, &accept->pending) {
        pending_drop(pending, true);
    }
}
