/*
 * What front ends report to the gate: their figures, read under the lock; watches for a listing,
 * which come through mailboxes; failed credentials.
 */
#include "base/log.h"
#include "base/os_clock.h"
#include "server/process/gate.h"
#include "server/process/server_int.h"
#include "server/process/watch_listing.h"
#include "server/read/view.h"

void gate_set_front_figures(struct gate *gate, enum gate_front front,
                            void (*add)(void *ctx, struct gate_front_figures *figures), void *ctx)
{
    (void)pthread_mutex_lock(&gate->mutex);
    gate->front_figures[front].add = add;
    gate->front_figures[front].ctx = ctx;
    (void)pthread_mutex_unlock(&gate->mutex);
}

void gate_front_figures(struct gate *gate, struct gate_front_figures *ret_figures)
{
    *ret_figures = (struct gate_front_figures){0};
    (void)pthread_mutex_lock(&gate->mutex);
    for (size_t i = 0; i < GATE_FRONTS; i++) {
        if (gate->front_figures[i].add) {
            gate->front_figures[i].add(gate->front_figures[i].ctx, ret_figures);
        }
    }
    (void)pthread_mutex_unlock(&gate->mutex);
}

void gate_set_front_listing(struct gate *gate, enum gate_front front,
                            void (*ask)(void *ctx, struct watch_listing *listing), void *ctx)
{
    (void)pthread_mutex_lock(&gate->mutex);
    gate->front_listing[front].ask = ask;
    gate->front_listing[front].ctx = ctx;
    (void)pthread_mutex_unlock(&gate->mutex);
}

/* Once posted, the listing belongs to another thread: all that is needed of it is read before. */
void watch_listing_pass(struct watch_listing *listing)
{
    struct gate *gate = listing->gate;
    bool asked = false;

    (void)pthread_mutex_lock(&gate->mutex);
    while (!asked && listing->next < GATE_FRONTS) {
        uint32_t front = listing->next++;

        asked = gate->front_listing[front].ask != NULL;
        if (asked) {
            gate->front_listing[front].ask(gate->front_listing[front].ctx, listing);
        }
    }
    (void)pthread_mutex_unlock(&gate->mutex);
    if (!asked) {
        listing->on_done(listing);
    }
}

/* ---- Failed credentials. ---- */

const char gate_credentials_slowed[] =
    "too many wrong passwords from this address; try again later";

uint32_t gate_credentials_wait(struct gate *gate, const struct op_principal *who, uint32_t first)
{
    return guard_wait(&gate->guard, who, first, os_now_ns());
}

void gate_credentials_seen(struct gate *gate, const struct op_principal *who)
{
    if (who->auth) {
        guard_seen(&gate->guard, who, os_now_ns());
    }
}

void gate_credentials_refused(struct gate *gate, const struct op_request *request)
{
    if (request->result.err == ERR_NO_AUTH && request->principal.auth) {
        view_note_refusal(gate->server->view, &request->principal, &request->args);
    }
}

void gate_credentials_failed(struct gate *gate, const struct op_principal *who,
                             enum gate_failure kind)
{
    guard_failed(&gate->guard, who, kind);
}

/* The sampler's thread, each second. */
void gate_guard_log(struct gate *gate, uint64_t now_ms)
{
    char line[GUARD_LINE_MAX];

    for (int i = 0; i <= GUARD_ADDRESSES_MAX && guard_line(&gate->guard, now_ms, line); i++) {
        log_warn("auth", "%s", line);
    }
}
