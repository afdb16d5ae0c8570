/*
 * The acceptor: one thread that owns the listening socket and the connections whose first head is
 * not complete. It peeks, so that the library finds all bytes unread; a level-triggered loop would
 * spin on a half-received head, so the low-water mark is raised to one byte more than is known.
 */
#include "base/check.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/thread.h"
#include "http/address.h"
#include "http/http_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    ACCEPTS_PER_TURN = 64, /* Then deadlines and heads get their turn. */
    LINGERS_MAX = 256,
    FINISH_MS = 5,  /* Between two looks at what is left, while finishing. */
    GRACE_MS = 250, /* Then: for a new connection to say what it wants. */
    LAST_MS = 5,    /* By then a handshake that has begun can be seen. */
    LOOK_MS = 20,   /* Between two looks for such. */
    HANDSHAKE_MS =
        800, /* For them to end; shorter than the second after which clients knock again. */
    LATE_LOOKS_MAX = 4
};

/* A connection that is not the library's: its head is incomplete, or it was refused. */
struct pending {
    struct loop_watch watch;
    struct list node;
    struct http_accept *accept;
    struct sockaddr_storage address;
    uint64_t deadline_ms;
    size_t peeked;  /* Bytes seen when last looked. */
    bool lingering; /* Answered; waiting for the client to hang up. */
    bool counted;   /* In the caps. */
};

struct http_accept {
    struct http *http;
    struct loop loop;
    struct loop_watch listen;
    struct loop_watch wake;
    int spare_fd; /* Given up for a moment when descriptors run out. */
    struct list pending;
    uint32_t lingering;
    uint8_t *head; /* Scratch for peeking. */
    uint64_t scan_at_ms;
    uint32_t late_looks; /* One after the other. */
    struct thread thread;
    _Atomic bool close_listen;
    uint64_t last_ms;           /* Since when handshakes are kept out; 0: they are not. */
    uint64_t look_ms;           /* When to look again for those that have begun. */
    _Atomic uint64_t finish_ms; /* When finishing must have ended; 0: not finishing. */
    uint64_t grace_end_ms;
    _Atomic bool stop;
    pthread_mutex_t mutex; /* Of `listening` and `finished`. */
    pthread_cond_t changed;
    bool listening;
    bool finished;
};

static const struct sockaddr *address_of(const struct pending *pending)
{
    return (const struct sockaddr *)&pending->address;
}

static void pending_drop(struct pending *pending, bool close_fd)
{
    struct http_accept *accept = pending->accept;

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

/* Answers without the library; the socket is read empty for a while, because closing it with bytes
 * unread would reset the connection and take the answer away from the client. */
static void refuse(struct pending *pending, enum err err, uint32_t status, const char *detail)
{
    struct http_accept *accept = pending->accept;
    struct buf out;

    buf_init(&out, HTTP_KEEP_BYTES);
    http_raw_problem(accept->http, &out, err, status, detail);
    (void)loop_send(pending->watch.fd, out.data, out.len);
    buf_release(&out);
    loop_shutdown_write(pending->watch.fd);
    if (accept->lingering >= LINGERS_MAX) {
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
    /* On failure the library has closed the socket and will not tell us. */
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

/* The bytes stay in the socket: who takes it reads the head once more. */
static void hand_to_sockets(struct pending *pending, struct op_principal *who)
{
    struct http_accept *accept = pending->accept;
    struct http *http = accept->http;
    struct http_seat *seat = http_seat_new(http, http_address_key(address_of(pending)));

    http_address_text(address_of(pending), who->address, sizeof(who->address));
    loop_low_water(pending->watch.fd, 1);
    loop_remove(&accept->loop, &pending->watch);
    if (http->upgrade.take(http->upgrade.ctx, pending->watch.fd, who, seat)) {
        list_remove(&pending->node);
        mem_free(pending);
        return;
    }
    mem_free(seat);
    loop_add(&accept->loop, &pending->watch);
    refuse(pending, ERR_NOT_READY, MHD_HTTP_SERVICE_UNAVAILABLE,
           "all WebSockets of this replica are taken");
}

static void admit(struct pending *pending, struct slice head)
{
    struct http_upgrade_request request;

    if (!http_upgrade_read(pending->accept->http, head, &request)) {
        hand_over(pending, head);
    } else if (request.err != ERR_OK) {
        refuse(pending, request.err, (uint32_t)err_http_status(request.err), request.detail);
    } else {
        struct op_principal who = {.auth = request.auth};

        hand_to_sockets(pending, &who);
        principal_release(&who);
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
        /* Gone, or done sending before its head was whole. */
        pending_drop(pending, true);
        return;
    }

    struct slice bytes = slice_make(accept->head, (size_t)got);
    size_t end = http_head_end(bytes);
    const char *fault = http_head_lint(slice_make(bytes.data, end ? end : bytes.len));

    if (!fault && end > 0) {
        fault = http_head_check(slice_make(bytes.data, end));
    }
    if (fault) {
        refuse_head(pending, ERR_BAD_ARGUMENTS, MHD_HTTP_BAD_REQUEST, fault);
    } else if (end > 0 && end <= max) {
        admit(pending, slice_make(bytes.data, end));
    } else if (bytes.len > max) {
        refuse_head(pending, ERR_HEADER_TOO_LARGE, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE,
                    "the request head is larger than maxHeadBytes");
    } else {
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

static void take_connection(struct http_accept *accept, int fd,
                            const struct sockaddr_storage *address)
{
    struct http *http = accept->http;
    struct pending *pending = pending_new(accept, fd, address);
    enum http_cap cap = http_caps_take(&http->caps, http_address_key(address_of(pending)));

    metric_add(&http->metrics.connections_ever, 1);
    if (cap == HTTP_CAP_TOTAL) {
        metric_add(&http->metrics.refused_total, 1);
        refuse(pending, ERR_NOT_READY, MHD_HTTP_SERVICE_UNAVAILABLE,
               "all connections of this replica are taken");
        return;
    }
    if (cap == HTTP_CAP_ADDRESS) {
        metric_add(&http->metrics.refused_address, 1);
        refuse(pending, ERR_THROTTLED, MHD_HTTP_TOO_MANY_REQUESTS,
               "too many connections from this address");
        return;
    }
    pending->counted = true;
    look_at_head(pending);
}

/* Without a descriptor to spare an unaccepted connection would keep the loop spinning. */
static void shed_one(struct http_accept *accept)
{
    struct sockaddr_storage address;

    close(accept->spare_fd);

    int fd = loop_accept(accept->listen.fd, &address);

    if (fd >= 0) {
        struct buf out;

        buf_init(&out, HTTP_KEEP_BYTES);
        http_raw_problem(accept->http, &out, ERR_NOT_READY, MHD_HTTP_SERVICE_UNAVAILABLE,
                         "this replica is out of file descriptors");
        (void)loop_send(fd, out.data, out.len);
        buf_release(&out);
        close(fd);
    }
    accept->spare_fd = eventfd(0, EFD_CLOEXEC);
}

/* True when there may be more. */
static bool accept_one(struct http_accept *accept)
{
    struct sockaddr_storage address;
    int fd = loop_accept(accept->listen.fd, &address);

    if (fd >= 0) {
        take_connection(accept, fd, &address);
    } else if (fd == -EMFILE || fd == -ENFILE) {
        shed_one(accept);
        return false;
    }
    return fd >= 0 || fd == -ECONNABORTED || fd == -EINTR;
}

static void on_listen(struct loop_watch *watch, uint32_t ready)
{
    bool more = true;

    (void)ready;
    for (int i = 0; more && i < ACCEPTS_PER_TURN; i++) {
        more = accept_one(watch->ctx);
    }
}

static void on_wake(struct loop_watch *watch, uint32_t ready)
{
    uint64_t count = 0;

    (void)ready;
    (void)!read(watch->fd, &count, sizeof(count));
}

static void wake(struct http_accept *accept)
{
    uint64_t one = 1;

    (void)!write(accept->wake.fd, &one, sizeof(one));
}

static void scan_pending(struct http_accept *accept, uint64_t now_ms)
{
    struct list *next = NULL;

    for (struct list *at = accept->pending.next; at != &accept->pending; at = next) {
        struct pending *pending = list_entry(at, struct pending, node);

        next = at->next;
        if (now_ms < pending->deadline_ms) {
            continue;
        }
        if (pending->lingering || pending->peeked == 0) {
            /* A connection that never said anything is no request to answer. */
            pending_drop(pending, true);
        } else {
            refuse_head(pending, ERR_BAD_ARGUMENTS, MHD_HTTP_REQUEST_TIMEOUT,
                        "the request head took too long");
        }
    }
}

static void tell(struct http_accept *accept, bool *flag, bool value)
{
    pthread_mutex_lock(&accept->mutex);
    *flag = value;
    pthread_cond_signal(&accept->changed);
    pthread_mutex_unlock(&accept->mutex);
}

static void close_listen(struct http_accept *accept)
{
    if (accept->listening) {
        loop_remove(&accept->loop, &accept->listen);
        close(accept->listen.fd);
        tell(accept, &accept->listening, false);
    }
}

/* True when each handshake that has begun has ended, or will not. */
static bool is_last_in(struct http_accept *accept, uint64_t now_ms)
{
    if (now_ms >= accept->last_ms + HANDSHAKE_MS) {
        return true;
    }
    if (now_ms < accept->look_ms) {
        return false;
    }
    bool any = loop_has_handshakes(accept->listen.fd);

    accept->look_ms = os_now_ms() + LOOK_MS;
    return !any;
}

/* Who has been let in by the kernel, or is being let in, is served: closing would throw him out.
 * Whoever has ended his handshake is accepted behind the look at those that have not. */
static void end_listen(struct http_accept *accept, uint64_t now_ms)
{
    struct pollfd come = {.fd = accept->listen.fd, .events = POLLIN};

    if (accept->last_ms == 0) {
        loop_keep_out(accept->listen.fd);
        accept->last_ms = now_ms;
        accept->look_ms = now_ms + LAST_MS;
    }
    if (is_last_in(accept, now_ms)) {
        for (int i = 0; i < BACKLOG && poll(&come, 1, 0) > 0; i++) {
            (void)accept_one(accept);
        }
        close_listen(accept);
    }
}

/* One that says something after all finds the answer waiting. */
static void refuse_silent(struct http_accept *accept)
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

/* Nobody new comes in: each look closes what has become idle, until nothing is left. */
static void finish(struct http_accept *accept, uint64_t now_ms, uint64_t end_ms)
{
    if (accept->grace_end_ms == 0) {
        accept->grace_end_ms = now_ms + GRACE_MS;
    }
    if (now_ms >= accept->grace_end_ms) {
        refuse_silent(accept);
    }

    /* In this order: what was handed over is open, or counts. */
    bool none = list_empty(&accept->pending) && atomic_load(&accept->http->handed) == 0;

    none = http_conns_close_idle(accept->http) == 0 && none;
    if (none || now_ms >= end_ms) {
        atomic_store(&accept->finish_ms, 0);
        tell(accept, &accept->finished, true);
    }
}

static void drop_all(struct http_accept *accept)
{
    while (!list_empty(&accept->pending)) {
        pending_drop(list_first(&accept->pending, struct pending, node), true);
    }
}

/* After the process has stood still, what came meanwhile is read first: deadlines are looked at the
 * next time. One that stands still again and again looks at them all the same, now and then. */
static void scan(struct http_accept *accept, uint64_t now_ms)
{
    bool late = now_ms >= accept->scan_at_ms + HTTP_SCAN_LATE_MS;

    accept->scan_at_ms = now_ms + HTTP_SCAN_MS;
    accept->late_looks = late ? accept->late_looks + 1 : 0;
    if (accept->late_looks % LATE_LOOKS_MAX == 0) {
        scan_pending(accept, now_ms);
        http_conns_scan(accept->http, now_ms);
    }
}

static void run(void *arg)
{
    struct http_accept *accept = arg;

    while (!atomic_load(&accept->stop)) {
        uint64_t finish_ms = atomic_load(&accept->finish_ms);
        bool ending = finish_ms != 0 || accept->last_ms != 0;

        loop_run_once(&accept->loop, ending ? FINISH_MS : HTTP_SCAN_MS);

        uint64_t now_ms = os_now_ms();

        if (atomic_load(&accept->close_listen) && accept->listening) {
            end_listen(accept, now_ms);
        }
        if (now_ms >= accept->scan_at_ms) {
            scan(accept, now_ms);
        }
        if (finish_ms) {
            finish(accept, now_ms, finish_ms);
        }
    }
    close_listen(accept);
    drop_all(accept);
}

static int listen_on(const struct gate_limits *limits)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(limits->client_port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(limits->client_port)};

    if (inet_pton(AF_INET, limits->client_address, &v4.sin_addr) == 1) {
        return loop_listen((const struct sockaddr *)&v4, sizeof(v4), BACKLOG);
    }
    if (inet_pton(AF_INET6, limits->client_address, &v6.sin6_addr) == 1) {
        return loop_listen((const struct sockaddr *)&v6, sizeof(v6), BACKLOG);
    }
    return -EINVAL;
}

static enum err listen_error(int error)
{
    if (error == -EADDRINUSE) {
        return ERR_BUSY;
    }
    return error == -EINVAL || error == -EADDRNOTAVAIL || error == -EACCES ? ERR_CONFIG : ERR_IO;
}

static void watch_all(struct http_accept *accept, int listen_fd)
{
    accept->spare_fd = eventfd(0, EFD_CLOEXEC);
    accept->listen = (struct loop_watch){
        .fd = listen_fd, .interest = LOOP_READ, .on_ready = on_listen, .ctx = accept};
    accept->wake = (struct loop_watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                       .interest = LOOP_READ,
                                       .on_ready = on_wake,
                                       .ctx = accept};
    ASSERT(accept->wake.fd >= 0);
    loop_add(&accept->loop, &accept->listen);
    loop_add(&accept->loop, &accept->wake);
}

enum err http_accept_start(struct http *http, struct http_accept **ret_accept)
{
    int listen_fd = listen_on(http->limits);
    struct http_accept *accept = NULL;

    if (listen_fd < 0) {
        return listen_error(listen_fd);
    }
    accept = mem_zalloc(1, sizeof(*accept));
    accept->http = http;
    if (loop_init(&accept->loop) != ERR_OK) {
        close(listen_fd);
        mem_free(accept);
        return ERR_IO;
    }
    accept->head = mem_alloc(http->limits->head_bytes_max + (size_t)1);
    list_init(&accept->pending);
    pthread_mutex_init(&accept->mutex, NULL);
    pthread_cond_init(&accept->changed, NULL);
    accept->listening = true;
    http->port = loop_local_port(listen_fd);
    watch_all(accept, listen_fd);
    thread_start(&accept->thread, "accept", run, accept);
    *ret_accept = accept;
    return ERR_OK;
}

void http_accept_close(struct http_accept *accept)
{
    atomic_store(&accept->close_listen, true);
    wake(accept);
    pthread_mutex_lock(&accept->mutex);
    while (accept->listening) {
        pthread_cond_wait(&accept->changed, &accept->mutex);
    }
    pthread_mutex_unlock(&accept->mutex);
}

void http_accept_finish(struct http_accept *accept, uint64_t end_ms)
{
    ASSERT(end_ms > 0);

    atomic_store(&accept->finish_ms, end_ms);
    wake(accept);
    pthread_mutex_lock(&accept->mutex);
    while (!accept->finished) {
        pthread_cond_wait(&accept->changed, &accept->mutex);
    }
    pthread_mutex_unlock(&accept->mutex);
}

void http_accept_stop(struct http_accept *accept)
{
    atomic_store(&accept->stop, true);
    wake(accept);
    thread_join(&accept->thread);
    close(accept->wake.fd);
    close(accept->spare_fd);
    loop_release(&accept->loop);
    pthread_cond_destroy(&accept->changed);
    pthread_mutex_destroy(&accept->mutex);
    mem_free(accept->head);
    mem_free(accept);
}
