/*
 * The acceptor: one thread that owns the listening socket and the connections whose first head is
 * incomplete. The thread only peeks at these heads, so that libmicrohttpd finds all bytes unread. A
 * level-triggered loop would spin on an incomplete head, so the low-water mark of the socket is set
 * to one byte more than was peeked.
 */
#include "base/os_files.h"
#include "http/accept_int.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    ACCEPTS_PER_TURN = 64, /* Connections accepted before deadlines and heads are checked. */
    FINISH_MS = 5,         /* Between two checks for open connections, while draining. */
    GRACE_MS = 250,    /* While draining, a new connection must send its request in this time. */
    HANDSHAKE_MS = 20, /* TCP handshakes in progress get this long before the port closes. */
    ACCEPT_PAUSE_MS = 100, /* Pause of accepting when no descriptor is left. */
    LATE_LOOKS_MAX = 4,
    KERNEL_BYTES = 512 << 10 /* Unsent bytes of a connection in the kernel. */
};

static bool has_native_port(const struct http_accept *accept)
{
    return accept->native_listen.fd >= 0;
}

/* Sets what the loop reports about the listening sockets. */
static void set_interest(struct http_accept *accept, uint32_t interest)
{
    loop_modify(&accept->loop, &accept->listen, interest);
    if (has_native_port(accept)) {
        loop_modify(&accept->loop, &accept->native_listen, interest);
    }
}

/* Handles a connection for which no descriptor is left. If it were not accepted, the loop would
 * spin. So it is accepted with the spare descriptor, answered 503 and closed; if that fails,
 * accepting pauses. */
static void shed_one(struct http_accept *accept, struct loop_watch *listen)
{
    struct sockaddr_storage address;

    (void)close(accept->spare_fd); /* close(-1) does no harm. */

    int fd = loop_accept(listen->fd, &address);

    if (fd >= 0) {
        http_raw_turn_away(accept->http, fd);
    } else if (accept->listening && os_files_is_lack(-fd)) {
        accept->paused_ms = os_now_ms() + ACCEPT_PAUSE_MS;
        set_interest(accept, 0);
    }
    accept->spare_fd = eventfd(0, EFD_CLOEXEC);
}

/* Accepts one connection; true when there may be more. */
static bool accept_one(struct loop_watch *listen)
{
    struct http_accept *accept = listen->ctx;
    struct sockaddr_storage address;
    int fd = loop_accept(listen->fd, &address);

    if (fd >= 0 && os_files_are_claimed()) {
        /* The connection took the descriptor that storage needs for a file. */
        http_raw_turn_away(accept->http, fd);
    } else if (fd >= 0) {
        http_pending_take(accept, fd, &address, listen == &accept->native_listen);
    } else if (os_files_is_lack(-fd)) {
        shed_one(accept, listen);
        return false;
    }
    return fd >= 0 || fd == -ECONNABORTED || fd == -EINTR;
}

static void on_listen(struct loop_watch *watch, uint32_t ready UNUSED)
{
    bool more = true;

    for (int i = 0; more && i < ACCEPTS_PER_TURN; i++) {
        more = accept_one(watch);
    }
}

static void on_wake(struct loop_watch *watch, uint32_t ready UNUSED)
{
    loop_wake_clear(watch->fd);
}

static void set_flag(struct http_accept *accept, bool *flag, bool value)
{
    MUTEX_HOLD(&accept->http->wait_mutex);
    *flag = value;
    pthread_cond_broadcast(&accept->http->changed);
}

static void close_listen(struct http_accept *accept)
{
    if (accept->listening) {
        loop_remove(&accept->loop, &accept->listen);
        close(accept->listen.fd);
        if (has_native_port(accept)) {
            loop_remove(&accept->loop, &accept->native_listen);
            close(accept->native_listen.fd);
        }
        set_flag(accept, &accept->listening, false);
    }
}

/* Accepts the connections that the kernel has completed. */
static void accept_rest(struct loop_watch *listen)
{
    struct pollfd come = {.fd = listen->fd, .events = POLLIN};

    for (int i = 0; i < HTTP_BACKLOG && poll(&come, 1, 0) > 0; i++) {
        (void)accept_one(listen);
    }
}

/* Closes the port in two steps, because closing resets connections that the kernel has completed
 * but that are not accepted yet. First, new handshakes are blocked, and handshakes in progress have
 * HANDSHAKE_MS to end, which is enough for near clients. Then all complete connections are accepted
 * and served. A client whose handshake takes longer is reset, and tries another replica. With
 * drainDelay this is rare: load balancers have stopped choosing this replica before the port
 * closes. */
static void end_listen(struct http_accept *accept, uint64_t now_ms)
{
    if (accept->close_ms == 0) {
        loop_keep_out(accept->listen.fd);
        if (has_native_port(accept)) {
            loop_keep_out(accept->native_listen.fd);
        }
        accept->close_ms = now_ms + HANDSHAKE_MS;
    }
    if (now_ms >= accept->close_ms) {
        accept_rest(&accept->listen);
        if (has_native_port(accept)) {
            accept_rest(&accept->native_listen);
        }
        close_listen(accept);
    }
}

/* Closes idle connections at each check, until no connection is left or `end_ms` has come. No new
 * connection arrives any more. */
static void finish(struct http_accept *accept, uint64_t now_ms, uint64_t end_ms)
{
    if (accept->grace_end_ms == 0) {
        accept->grace_end_ms = now_ms + GRACE_MS;
    }
    if (now_ms >= accept->grace_end_ms) {
        http_pending_refuse_silent(accept);
    }

    /* `handed` is read before http.conns is walked. A connection enters http.conns before it leaves
     * the count `handed` (conn_open), so these two reads cannot both miss it. */
    bool none = list_empty(&accept->pending) && atomic_load(&accept->http->greet.handed) == 0;

    none = http_conns_close_idle(accept->http) == 0 && none;
    if (none || now_ms >= end_ms) {
        atomic_store(&accept->finish_ms, 0);
        set_flag(accept, &accept->finished, true);
    }
}

/* Checks deadlines, except after a stall of the process: then bytes that arrived meanwhile are read
 * first, and the next scan checks deadlines. In a process that stalls again and again, each
 * LATE_LOOKS_MAX-th scan still checks deadlines. */
static void scan(struct http_accept *accept, uint64_t now_ms)
{
    bool late = now_ms >= accept->scan_at_ms + HTTP_SCAN_LATE_MS;

    accept->scan_at_ms = now_ms + HTTP_SCAN_MS;
    accept->late_looks = late ? accept->late_looks + 1 : 0;
    if (accept->late_looks % LATE_LOOKS_MAX == 0) {
        http_pending_scan(accept, now_ms);
        http_conns_scan(accept->http, now_ms);
        http_large_scan(accept->http, now_ms);
    }
}

static void run(void *arg)
{
    struct http_accept *accept = arg;

    while (!atomic_load(&accept->stop)) {
        uint64_t finish_ms = atomic_load(&accept->finish_ms);
        bool ending = finish_ms != 0 || accept->close_ms != 0;

        loop_run_once(&accept->loop, ending ? FINISH_MS : HTTP_SCAN_MS);

        http_greet_some(accept->http);

        uint64_t now_ms = os_now_ms();

        if (accept->paused_ms != 0 && now_ms >= accept->paused_ms && accept->listening) {
            accept->paused_ms = 0;
            set_interest(accept, LOOP_READ);
        }
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
    if (accept->shaker) {
        tls_shaker_stop(accept->shaker);
        http_pending_take_shaken(accept);
    }
    http_pending_drop_all(accept);
    http_greet_drop_all(accept->http);
}

static void on_shaken(struct loop_watch *watch, uint32_t ready UNUSED)
{
    http_pending_take_shaken(watch->ctx);
}

static void start_shaker(struct http_accept *accept)
{
    const struct http *http = accept->http;

    if (http->tls) {
        accept->shaker = tls_shaker_start(http->tls, http->limits->tls.handshakes_max);
        loop_add_reader(&accept->loop, &accept->shaken, tls_shaker_done(accept->shaker)->event_fd,
                        on_shaken, accept);
    }
}

enum err http_accept_start(struct http *http, struct http_accept **ret_accept)
{
    struct http_accept *accept = NULL;
    int listen_fd = -1;
    int native_fd = -1;
    enum err err = http_listen(http->limits->client_address, http->limits->client_port,
                               HTTP_BACKLOG, &listen_fd);

    if (err == ERR_OK && http->upgrade.take_native && http->limits->zk_port != 0) {
        err = http_listen(http->limits->client_address, http->limits->zk_port, HTTP_BACKLOG,
                          &native_fd);
    }
    if (err != ERR_OK) {
        (void)close(listen_fd); /* close(-1) does no harm. */
        return err;
    }
    accept = mem_zalloc(1, sizeof(*accept));
    accept->http = http;
    loop_limit_unsent(listen_fd, KERNEL_BYTES);
    loop_init(&accept->loop);
    accept->head = mem_alloc(http->limits->head_bytes_max + (size_t)1);
    list_init(&accept->pending);
    seats_init(&accept->seats);
    accept->listening = true;
    http->port = loop_local_port(listen_fd);
    accept->spare_fd = eventfd(0, EFD_CLOEXEC);
    loop_add_reader(&accept->loop, &accept->listen, listen_fd, on_listen, accept);
    accept->native_listen.fd = native_fd;
    if (native_fd >= 0) {
        loop_limit_unsent(native_fd, KERNEL_BYTES);
        loop_add_reader(&accept->loop, &accept->native_listen, native_fd, on_listen, accept);
    }
    loop_add_reader(&accept->loop, &accept->wake, http->greet.wake_fd, on_wake, accept);
    start_shaker(accept);
    thread_start(&accept->thread, "accept", run, accept);
    *ret_accept = accept;
    return ERR_OK;
}

static void await_flag(struct http_accept *accept, const bool *flag, bool value)
{
    loop_wake(accept->wake.fd);
    MUTEX_HOLD(&accept->http->wait_mutex);
    while (*flag != value) {
        pthread_cond_wait(&accept->http->changed, &accept->http->wait_mutex);
    }
}

void http_accept_close(struct http_accept *accept)
{
    atomic_store(&accept->close_listen, true);
    await_flag(accept, &accept->listening, false);
}

void http_accept_finish(struct http_accept *accept, uint64_t end_ms)
{
    atomic_store(&accept->finish_ms, end_ms);
    await_flag(accept, &accept->finished, true);
}

void http_accept_stop(struct http_accept *accept)
{
    if (!accept) {
        return;
    }
    atomic_store(&accept->stop, true);
    loop_wake(accept->wake.fd);
    thread_join(&accept->thread);
    tls_shaker_free(accept->shaker);
    (void)close(accept->spare_fd); /* close(-1) does no harm. */
    seats_release(&accept->seats);
    loop_release(&accept->loop);
    mem_free(accept->head);
    mem_free(accept);
}
