/*
 * current.h - the context of new connections, its reload, and what is counted.
 *
 * The files are read again by tls_current_reload. The new context takes the place of the old one
 * only when certificate, key, dates, CAs and revocation lists are all good; else the old one stays,
 * and the failure is counted. Any thread.
 */
#ifndef TLS_CURRENT_H
#define TLS_CURRENT_H

#include "tls/context.h"
#include "tls/failure.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/metric.h"
#include "base/os_changes.h"

struct tls_current;

struct tls_metrics {
    struct metric_counter full;    /* Handshakes that were completed without a ticket. */
    struct metric_counter resumed; /* ... with one. */
    struct metric_counter failed[TLS_FAILURE_COUNT]; /* Handshakes. */
    struct metric_counter broken[TLS_FAILURE_COUNT]; /* Connections, after their handshake. */
    struct metric_counter running;                   /* Handshakes in progress, now. */
    struct metric_counter reloads;
    struct metric_counter reload_errors;
    struct metric_counter reload_failed; /* 1 while the last reload has failed, else 0. */
    struct metric_histogram duration;    /* From the first byte to the end of the handshake. */
};

/* Loads all files. ERR_CONFIG, with a sentence: one is not usable. `setup` is copied, its texts
 * must outlive the result. */
enum err tls_current_open(const struct tls_setup *setup, struct tls_current **ret_current,
                          struct tls_fault *ret_fault);
void tls_current_close(struct tls_current *current); /* Accepts NULL. */

/* The context of a new connection; the caller gives it back by tls_context_unref. */
struct tls_context *tls_current_get(struct tls_current *current);

/* Reads the files again. False, with a sentence for the caller to report: the old context stays.
 * May wait for a file system. */
bool tls_current_reload(struct tls_current *current, struct tls_fault *ret_fault);

/* Looks whether the files are to be read again (base/os_changes.h). May wait for a file system. */
enum os_due tls_current_look(struct tls_current *current, uint64_t now_ms);

struct tls_metrics *tls_current_metrics(struct tls_current *current);

/* Writes the families of metrics; `current` NULL: TLS is off, all are 0. */
void tls_write_metrics(struct tls_current *current, struct buf *out);

#endif
