/* Starts, drains and stops the front end. */
#include "base/log.h"
#include "base/os_rng.h"
#include "http/stream.h"
#include "server/process/reload.h"

#include <poll.h>
#include <stdarg.h>

enum {
    LOG_TEXT_MAX = 256,
    FILES_WAIT_MS = 2000 /* Longest time that the end waits for a thread that reads files. */
};

static const char tls_part[] = "clientTls";

/* Logs messages of libmicrohttpd ("the library"), at debug level only: closed connections are
 * normal. */
static void on_log(void *cls UNUSED, const char *format, va_list args)
{
    char text[LOG_TEXT_MAX];

    if (!log_enabled(LOG_DEBUG)) {
        return;
    }
    (void)vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\r\n")] = '\0';
    log_debug("http", "%s", text);
}

static struct MHD_Daemon *start_daemon(struct http *http, uint32_t threads)
{
    const struct config_clients *limits = http->limits;
    /* The acceptor enforces the caps; the library's own limit, per thread, must be higher. */
    unsigned int limit = (limits->connections_max + 64) * threads;
    unsigned int flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC |
                         MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                         MHD_USE_SUPPRESS_DATE_NO_CLOCK;

    /* The head of a new connection over TLS is decrypted already, so no event announces it: the
     * library must read at once. */
    flags |= http->tls ? (unsigned int)MHD_USE_TURBO : 0;

    struct MHD_OptionItem pool[] = {
        {MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

    return MHD_start_daemon(
        flags, 0, NULL, NULL, http_on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_ARRAY, threads > 1 ? pool : none, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        http_pool_bytes(limits->head_bytes_max), MHD_OPTION_CONNECTION_LIMIT, limit,
        MHD_OPTION_CONNECTION_TIMEOUT, 0U, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_URI_LOG_CALLBACK, http_on_target, http, MHD_OPTION_NOTIFY_COMPLETED,
        http_on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, http_conn_notify, http,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
}

static enum err start_daemons(struct http *http)
{
    http->daemon = start_daemon(http, http->limits->http_threads);
    http->waiting_daemon = http->daemon ? start_daemon(http, 1) : NULL;
    if (http->daemon && !http->waiting_daemon) {
        MHD_stop_daemon(http->daemon);
    }
    return http->waiting_daemon ? ERR_OK : ERR_IO;
}

static void http_free(struct http *http)
{
    ASSERT(list_empty(&http->conns) && budget_used(&http->bodies.budget) == 0);

    /* When the library stops, it does not report connections that it has got but not opened, so
     * their slots were never given back. */
    http_caps_release(&http->caps, atomic_load(&http->greet.handed));
    http_large_release(&http->large);
    budget_shares_release(&http->bodies);
    budget_shares_release(&http->transfers.places);
    if (!http->tls_files_hang) { /* Else a thread still uses it, and the process ends soon. */
        tls_current_close(http->tls);
    }
    http_greet_close(&http->greet);
    mutex_destroy(&http->tls_log.mutex);
    pthread_mutex_destroy(&http->conns_mutex);
    pthread_cond_destroy(&http->changed);
    pthread_mutex_destroy(&http->wait_mutex);
    mem_free(http);
}

/* Sets how much one address may use. An address gets the same share of the memory for bodies as of
 * the connections, and at least enough for the largest request. Its transfers leave one slot to
 * other addresses, unless the address may have all connections, as a proxy may. */
static void init_shares(struct http *http)
{
    const struct config_clients *limits = http->limits;
    uint64_t all = limits->connections_max;
    uint64_t address = min_u64(limits->connections_per_address_max, all);
    uint32_t transfers = limits->transfers_max;

    budget_shares_init(&http->bodies, limits->pool_bytes_max, limits->address_pool_max);
    budget_shares_init(&http->transfers.places, transfers,
                       transfers > 1 && address < all ? transfers - 1 : transfers);
}

/* The part of a reload. It has the files of TLS and nothing else of `http`, which is freed although
 * the part hangs. */
static bool reload_tls(void *ctx, char why[RELOAD_WHY_MAX])
{
    struct tls_fault fault;
    bool ok = tls_current_reload(ctx, &fault);

    if (!ok) {
        (void)snprintf(why, RELOAD_WHY_MAX, "%s", fault.text);
    }
    return ok;
}

static enum os_due look_at_tls(void *ctx, uint64_t now_ms)
{
    return tls_current_look(ctx, now_ms);
}

static enum err open_tls(struct http *http)
{
    struct tls_fault fault;
    enum err err = http_tls_open(http->limits, &http->tls, &fault);

    if (err != ERR_OK) {
        log_error("http", "TLS: {reason}%s", fault.text);
    }
    return err;
}

enum err http_start(struct gate *gate, const struct http_upgrade *upgrade, struct http **ret_http)
{
    struct http *http = mem_zalloc(1, sizeof(*http));

    http->gate = gate;
    http->limits = gate_limits(gate);
    http->upgrade = upgrade ? *upgrade : (struct http_upgrade){.take = NULL};
    http->next_request = os_random_u64() >> 16;
    http_routes_init(&http->routes);
    http_names_init(&http->names, http->limits);
    http_caps_init(&http->caps, http->limits);
    http_large_init(&http->large, http->limits->http_threads);
    init_shares(http);
    pthread_mutex_init(&http->conns_mutex, NULL);
    pthread_mutex_init(&http->wait_mutex, NULL);
    pthread_cond_init(&http->changed, NULL);
    mutex_init(&http->tls_log.mutex);
    list_init(&http->conns);
    http_greet_open(&http->greet);

    enum err err = open_tls(http);

    THEN(err, start_daemons(http));

    if (err != ERR_OK) {
        http_free(http);
        return err;
    }
    http->watcher = http_watcher_start(http, stream_relief);
    err = http_probe_start(http, &http->probe);
    if (err == ERR_OK) {
        err = http_accept_start(http, &http->accept);
    }
    if (err != ERR_OK) {
        http_stop(http);
        return err;
    }
    if (http->tls) {
        reloads_add(gate_reloads(gate), (struct reload_part){.name = tls_part,
                                                             .run = reload_tls,
                                                             .look = look_at_tls,
                                                             .ctx = http->tls});
    }
    *ret_http = http;
    return ERR_OK;
}

void http_drain(struct http *http)
{
    uint64_t end_ms = os_now_ms() + HTTP_DRAIN_MS;

    atomic_store(&http->draining, true); /* From now on each answer ends its connection. */
    http_accept_close(http->accept);
    http_watcher_drain(http->watcher);
    http_accept_finish(http->accept, end_ms);
}

/* Waits until no request is suspended, because with a suspended connection MHD_stop_daemon would
 * abort the process. The gate replies by the deadline of each request; http_stop has begun to end
 * all other waits, also those for a reload. */
static void wait_for_gate(struct http *http)
{
    MUTEX_HOLD(&http->wait_mutex);
    while (http->suspended > 0) {
        pthread_cond_wait(&http->changed, &http->wait_mutex);
    }
}

/* Waits for the last answers, because the library closes connections at its stop without sending
 * answers that are still queued. */
static void wait_for_answers(struct http *http)
{
    uint64_t end_ms = os_now_ms() + HTTP_ENDING_MS;

    while (atomic_load(&http->ending) > 0 && os_now_ms() < end_ms) {
        (void)poll(NULL, 0, 1);
    }
}

void http_stop(struct http *http)
{
    if (!http) {
        return;
    }
    reloads_close(gate_reloads(http->gate));
    if (!reloads_remove(gate_reloads(http->gate), tls_part, FILES_WAIT_MS)) {
        http->tls_files_hang = true;
    }
    atomic_store(&http->draining, true);
    http_accept_stop(http->accept);
    http_large_end(http); /* Ends all waits: the acceptor, which ended late ones, is gone. */
    http_probe_stop(http->probe);
    http_watcher_drain(http->watcher);
    wait_for_gate(http);
    wait_for_answers(http);
    MHD_stop_daemon(http->daemon);
    MHD_stop_daemon(http->waiting_daemon);
    http_watcher_stop(http->watcher);
    http_free(http);
}
