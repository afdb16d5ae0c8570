/* Connections whose first head is incomplete, or that were refused. Acceptor's thread. */
#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "http/accept_int.h"
#include "http/address.h"

#include <errno.h>
#include <unistd.h>

enum {
    LINGERS_MAX = 256,
    SEATS_MAX = 512, /* For connections over a cap, which may be probes. */
    SEAT_MS = 1000   /* For such a connection to send its request. */
};

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
    if (close_fd) {
        if (pending->counted) {
            http_caps_give(&accept->http->caps, http_address_key(address_of(pending)));
        }
        close(pending->watch.fd);
    }
    mem_free(pending);
}

/* The smaller limit; 0 in `limit`: the limit of open files is high enough. */
static uint32_t at_most(uint32_t limit, uint32_t most)
{
    return limit > 0 && limit < most ? limit : most;
}

/* Answers without the library. The socket is read for a while before it is closed: closing it with
 * unread bytes would reset the connection and destroy the answer. */
static void refuse(struct pending *pending, enum err err, uint32_t status, const char *detail)
{
    struct http_accept *accept = pending->accept;
    struct buf out;

    leave_seat(pending);
    buf_init(&out, HTTP_KEEP_BYTES);
    http_raw_problem(accept->http, &out, err, status, detail);
    (void)loop_send(pending->watch.fd, out.data, out.len);
    buf_release(&out);
    loop_shutdown_write(pending->watch.fd);
    if (accept->lingering >= at_most(accept->http->limits->lingers_max, LINGERS_MAX)) {
        pending_drop(pending, true);
        return;
    }
    loop_low_water(pending->watch.fd, 1);
    accept->lingering++;
    pending->lingering = true;
    pending->deadline_ms = os_now_ms() + HTTP_LINGER_MS;
}

static void hand_over(struct pending *pending, struct slice head)
{
    struct http *http = pending->accept->http;
    struct MHD_Daemon *daemon = http_head_waits(head) ? http->waiting_daemon : http->daemon;
    int fd = pending->watch.fd;
    struct sockaddr_storage address = pending->address;
    socklen_t len =
        address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

    loop_low_water(fd, 1);
    pending_drop(pending, false);
    atomic_fetch_add(&http->handed, 1);
    /* On failure the library has closed the socket and will not report it. */
    if (MHD_add_connection(daemon, fd, (const struct sockaddr *)&address, len) != MHD_YES) {
        http_caps_give(&http->caps, http_address_key((const struct sockaddr *)&address));
        atomic_fetch_sub(&http->handed, 1);
    }
}

static void refuse_head(struct pending *pending, enum err err, uint32_t status, const char *detail)
{
    metric_add(&pending->accept->http->metrics.refused_head, 1);
    refuse(pending, err, status, detail);
}

/* The bytes stay in the socket: the taker reads the head again. */
static void hand_to_sockets(struct pending *pending, size_t head_len, const char *key,
                            struct op_principal *principal)
{
    struct http_accept *accept = pending->accept;
    struct http *http = accept->http;
    struct http_seat *seat = http_seat_new(http, http_address_key(address_of(pending)));

    loop_low_water(pending->watch.fd, 1);
    loop_remove(&accept->loop, &pending->watch);
    if (http->upgrade.take(http->upgrade.ctx, pending->watch.fd, head_len, key, principal, seat)) {
        list_remove(&pending->node);
        mem_free(pending);
        return;
    }
    mem_free(seat);
    loop_add(&accept->loop, &pending->watch);
    refuse(pending, ERR_NOT_READY, MHD_HTTP_SERVICE_UNAVAILABLE,
           "all WebSockets of this replica are taken");
}

static void refuse_over_cap(struct pending *pending)
{
    if (pending->cap == HTTP_CAP_TOTAL) {
        refuse(pending, ERR_NOT_READY, MHD_HTTP_SERVICE_UNAVAILABLE,
               "all connections of this replica are taken");
    } else {
        refuse(pending, ERR_THROTTLED, MHD_HTTP_TOO_MANY_REQUESTS,
               "too many connections from this address");
    }
}

/* Over a cap a probe is still answered, by the thread for probes. */
static void admit_probe(struct pending *pending, struct slice head)
{
    struct http_accept *accept = pending->accept;

    if (!http_probe_asks(head)) {
        refuse_over_cap(pending);
        return;
    }
    loop_low_water(pending->watch.fd, 1);
    loop_remove(&accept->loop, &pending->watch);
    if (http_probe_give(accept->http->probe, pending->watch.fd,
                        http_address_key(address_of(pending)))) {
        leave_seat(pending);
        list_remove(&pending->node);
        mem_free(pending);
        return;
    }
    loop_add(&accept->loop, &pending->watch);
    refuse_over_cap(pending);
}

/* Consumes the credentials of the request. */
static void upgrade(struct pending *pending, size_t head_len, struct http_upgrade_request *request)
{
    struct op_principal principal = {.auth = request->auth};

    http_address_text(address_of(pending), principal.address, sizeof(principal.address));
    http_upgrade_guard(pending->accept->http, &principal, request);
    if (request->err != ERR_OK) {
        refuse(pending, request->err, (uint32_t)err_http_status(request->err), request->detail);
    } else {
        hand_to_sockets(pending, head_len, request->key, &principal);
    }
    principal_release(&principal);
}

static void admit(struct pending *pending, struct slice head)
{
    struct http_upgrade_request request;

    if (pending->cap != HTTP_CAP_OK) {
        admit_probe(pending, head);
    } else if (!http_upgrade_read(pending->accept->http, head, &request)) {
        hand_over(pending, head);
    } else {
        upgrade(pending, head.len, &request);
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
    if (got <= 0 || (size_t)got == pending->peeked) {
        /* Closed by the client, or it ended sending before its head was complete. */
        pending_drop(pending, true);
        return;
    }

    struct slice bytes = slice_make(accept->head, (size_t)got);
    struct http_framing framing;
    struct http_refusal refusal = http_head_check_framing(bytes, max, &framing);
    struct slice head = slice_make(bytes.data, framing.head_len);
    const char *fault =
        refusal.err == ERR_OK && head.len > 0 ? http_head_check(head) : refusal.detail;

    if (fault && refusal.err == ERR_OK) {
        refuse_head(pending, ERR_BAD_ARGUMENTS, MHD_HTTP_BAD_REQUEST, fault);
    } else if (fault) {
        refuse_head(pending, refusal.err, refusal.status, fault);
    } else if (head.len > 0) {
        admit(pending, head);
    } else {
        pending->seat.stage = SEATS_BEGUN;
        pending->peeked = bytes.len;
        loop_low_water(pending->watch.fd, (int)bytes.len + 1);
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
    pending->watch = (struct loop_watch){
        .fd = fd, .interest = LOOP_READ, .on_ready = on_pending, .ctx = pending};
    list_push_back(&accept->pending, &pending->node);
    loop_add(&accept->loop, &pending->watch);
    return pending;
}

static void take_seat(struct pending *pending, enum http_cap cap)
{
    struct http_accept *accept = pending->accept;
    struct http_metrics *metrics = &accept->http->metrics;

    metric_add(cap == HTTP_CAP_TOTAL ? &metrics->refused_total : &metrics->refused_address, 1);
    metric_add(&metrics->seats_ever, 1);
    if (accept->seats.count >= at_most(accept->http->limits->seats_max, SEATS_MAX)) {
        refuse_over_cap(list_entry(seats_weakest(&accept->seats), struct pending, seat));
    }
    pending->cap = cap;
    pending->deadline_ms = os_now_ms() + SEAT_MS;
    seats_take(&accept->seats, &pending->seat, http_address_key(address_of(pending)));
}

void http_pending_take(struct http_accept *accept, int fd, const struct sockaddr_storage *address)
{
    struct http *http = accept->http;
    struct pending *pending = pending_new(accept, fd, address);
    enum http_cap cap = http_caps_take(&http->caps, http_address_key(address_of(pending)));

    metric_add(&http->metrics.connections_ever, 1);
    pending->counted = cap == HTTP_CAP_OK;
    if (cap != HTTP_CAP_OK) {
        take_seat(pending, cap);
    }
    look_at_head(pending);
}

void http_pending_scan(struct http_accept *accept, uint64_t now_ms)
{
    struct list *next = NULL;

    for (struct list *at = accept->pending.next; at != &accept->pending; at = next) {
        struct pending *pending = list_entry(at, struct pending, node);

        next = at->next;
        if (now_ms < pending->deadline_ms) {
            continue;
        }
        if (pending->cap != HTTP_CAP_OK) {
            refuse_over_cap(pending);
        } else if (pending->lingering || pending->peeked == 0) {
            /* A connection that has sent nothing has no request to answer. */
            pending_drop(pending, true);
        } else {
            refuse_head(pending, ERR_BAD_ARGUMENTS, MHD_HTTP_REQUEST_TIMEOUT,
                        "the request head took too long");
        }
    }
}

/* A client that sends its request later finds the answer in its socket. */
void http_pending_refuse_silent(struct http_accept *accept)
{
    struct list *next = NULL;

    for (struct list *at = accept->pending.next; at != &accept->pending; at = next) {
        struct pending *pending = list_entry(at, struct pending, node);

        next = at->next;
        if (!pending->lingering && pending->peeked == 0) {
            refuse(pending, ERR_NOT_READY, MHD_HTTP_SERVICE_UNAVAILABLE,
                   "this replica is shutting down");
        }
    }
}

void http_pending_drop_all(struct http_accept *accept)
{
    while (!list_empty(&accept->pending)) {
        pending_drop(list_first(&accept->pending, struct pending, node), true);
    }
}
