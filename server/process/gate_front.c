/* What front ends have open: figures are read under the lock, watches come through mailboxes. */
#include "server/process/gate.h"
#include "server/process/server_int.h"
#include "server/process/watch_listing.h"

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
