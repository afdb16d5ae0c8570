#include "tls/current.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/thread.h"

#include <stdio.h>
#include <string.h>

enum {
    LISTED_MAX = 2 * TLS_CHAINS_MAX, /* Certificates and keys. */
    SECOND_MS = 1000
};

struct tls_current {
    pthread_mutex_t mutex; /* Guards `context`. */
    struct tls_context *context;
    pthread_mutex_t reload_mutex; /* Guards `changes`; one reload at a time. */
    struct tls_setup setup;
    char paths[LISTED_MAX][TLS_PATH_MAX];
    uint32_t path_count;
    struct os_changes changes;
    struct tls_tickets tickets;
    struct tls_metrics metrics;
};

/* ---- Files ---- */

static void add_list(struct tls_current *current, const char *list)
{
    char(*paths)[TLS_PATH_MAX] = &current->paths[current->path_count];
    uint32_t count = tls_split_paths(list, paths);

    if (count > TLS_CHAINS_MAX) {
        return; /* Loading fails. */
    }
    for (uint32_t i = 0; i < count; i++) {
        os_changes_add(&current->changes, paths[i]);
    }
    current->path_count += count;
}

static void list_files(struct tls_current *current)
{
    const struct tls_setup *setup = &current->setup;

    _Static_assert(LISTED_MAX + 2 <= OS_CHANGES_MAX, "room for the CAs and the revocation lists");
    add_list(current, setup->cert_files);
    add_list(current, setup->key_files);
    if (setup->clients != TLS_CLIENTS_OFF) {
        os_changes_add(&current->changes, setup->ca_file);
        os_changes_add(&current->changes, setup->crl_file);
    }
}

/* ---- Life ---- */

enum err tls_current_open(const struct tls_setup *setup, struct tls_current **ret_current,
                          struct tls_fault *ret_fault)
{
    struct tls_current *current = mem_zalloc(1, sizeof(*current));

    current->setup = *setup;
    mutex_init(&current->mutex);
    mutex_init(&current->reload_mutex);
    tls_tickets_init(&current->tickets, os_now_ms());
    list_files(current);
    os_changes_begin(&current->changes);
    current->context = tls_context_new(setup, &current->tickets, ret_fault);
    if (!current->context) {
        tls_current_close(current);
        return ERR_CONFIG;
    }
    *ret_current = current;
    return ERR_OK;
}

void tls_current_close(struct tls_current *current)
{
    if (!current) {
        return;
    }
    tls_context_unref(current->context);
    tls_tickets_release(&current->tickets);
    mutex_destroy(&current->mutex);
    mutex_destroy(&current->reload_mutex);
    mem_free(current);
}

struct tls_context *tls_current_get(struct tls_current *current)
{
    MUTEX_HOLD(&current->mutex);
    return tls_context_ref(current->context);
}

/* ---- Reload ---- */

bool tls_current_reload(struct tls_current *current, struct tls_fault *ret_fault)
{
    MUTEX_HOLD(&current->reload_mutex);
    struct tls_metrics *metrics = &current->metrics;
    struct tls_context *fresh = NULL;
    struct tls_context *old = NULL;

    os_changes_begin(&current->changes);
    fresh = tls_context_new(&current->setup, &current->tickets, ret_fault);
    os_changes_end(&current->changes, fresh != NULL, os_now_ms());
    metric_add(&metrics->reloads, 1);
    metric_add(&metrics->reload_errors, fresh ? 0 : 1);
    metric_set(&metrics->reload_failed, fresh ? 0 : 1);
    if (!fresh) {
        return false;
    }
    mutex_lock(&current->mutex);
    old = current->context;
    current->context = fresh;
    mutex_unlock(&current->mutex);
    tls_context_unref(old);
    log_info("tls", "certificates reloaded; new connections use them");
    return true;
}

enum os_due tls_current_look(struct tls_current *current, uint64_t now_ms)
{
    MUTEX_HOLD(&current->reload_mutex);
    return os_changes_look(&current->changes, now_ms);
}

/* ---- Metrics ---- */

struct tls_metrics *tls_current_metrics(struct tls_current *current)
{
    return &current->metrics;
}

static void put_handshakes(const struct tls_metrics *metrics, struct buf *out)
{
    metric_head(out, "zabra_tls_handshakes_total", "counter",
                "TLS handshakes with clients, by result.");
    metric_put(out, "zabra_tls_handshakes_total", "result=\"full\"", metric_get(&metrics->full));
    metric_put(out, "zabra_tls_handshakes_total", "result=\"resumed\"",
               metric_get(&metrics->resumed));
    for (enum tls_failure failure = TLS_NONE + 1; failure < TLS_FAILURE_COUNT; failure++) {
        char label[64];

        (void)snprintf(label, sizeof(label), "result=\"%s\"", tls_failure_label(failure));
        if (failure != TLS_RENEGOTIATION) {
            metric_put(out, "zabra_tls_handshakes_total", label,
                       metric_get(&metrics->failed[failure]));
        }
    }
}

static void put_broken(const struct tls_metrics *metrics, struct buf *out)
{
    static const enum tls_failure breaks[] = {

#define Y(symbol) TLS_##symbol,
        TLS_BREAKS(Y)
#undef Y
    };

    metric_head(out, "zabra_tls_broken_total", "counter",
                "Connections that were ended because of a fault of TLS after the handshake.");
    for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++) {
        char label[64];

        (void)snprintf(label, sizeof(label), "reason=\"%s\"", tls_failure_label(breaks[i]));
        metric_put(out, "zabra_tls_broken_total", label, metric_get(&metrics->broken[breaks[i]]));
    }
}

/* Writes the time until the end: negative after it, so that an alert on a low value stays on. */
static void put_end(struct buf *out, const char *name, const char *help, int64_t end_ms,
                    int64_t now_ms)
{
    metric_head(out, name, "gauge", help);
    metric_put_double(out, name, NULL,
                      end_ms == INT64_MAX ? 0 : (double)(end_ms - now_ms) / SECOND_MS);
}

static void put_ends(struct tls_current *current, struct buf *out)
{
    struct tls_ends ends = {INT64_MAX, INT64_MAX, INT64_MAX};
    int64_t now_ms = os_wall_ms();

    if (current) {
        struct tls_context *context = tls_current_get(current);

        ends = tls_context_ends(context);
        tls_context_unref(context);
    }
    put_end(out, "zabra_tls_certificate_expires_seconds",
            "Time until the first certificate of this replica expires; below 0: it has expired; "
            "0: TLS is off.",
            ends.certificate_ms, now_ms);
    put_end(out, "zabra_tls_client_ca_expires_seconds",
            "Time until the first CA of clientCaFile expires; 0: there is none.", ends.ca_ms,
            now_ms);
    put_end(out, "zabra_tls_client_crl_expires_seconds",
            "Time until the first list of clientCrlFile expires; 0: there is none that expires.",
            ends.crl_ms, now_ms);
}

void tls_write_metrics(struct tls_current *current, struct buf *out)
{
    static const struct tls_metrics none;
    const struct tls_metrics *metrics = current ? &current->metrics : &none;

    put_handshakes(metrics, out);
    put_broken(metrics, out);
    metric_put_gauge(out, "zabra_tls_handshakes", "TLS handshakes in progress.",
                     metric_get(&metrics->running));
    metric_head(out, "zabra_tls_handshake_seconds", "histogram",
                "Time from a client's first byte to the end of its TLS handshake.");
    metric_put_histogram(out, "zabra_tls_handshake_seconds", NULL, &metrics->duration);
    metric_put_counter(out, "zabra_tls_reloads_total",
                       "Attempts to read certificates and keys again.",
                       metric_get(&metrics->reloads));
    metric_put_counter(out, "zabra_tls_reload_errors_total",
                       "Attempts that failed: the old certificates stayed in use.",
                       metric_get(&metrics->reload_errors));
    metric_put_gauge(out, "zabra_tls_reload_failed",
                     "1 while the last reload has failed: the replica would not start with these "
                     "files.",
                     metric_get(&metrics->reload_failed));
    put_ends(current, out);
}
