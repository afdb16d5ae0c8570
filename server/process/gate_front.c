/* What the front ends have: asked for figures under the lock, and for watches by their mailboxes.
 */
#include "server/process/census.h"
#include "server/process/gate.h"
#include "server/process/server_int.h"

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

void gate_set_front_census(struct gate *gate, enum gate_front front,
                           void (*ask)(void *ctx, struct census *census), void *ctx)
{
    (void)pthread_mutex_lock(&gate->mutex);
    gate->front_census[front].ask = ask;
    gate->front_census[front].ctx = ctx;
    (void)pthread_mutex_unlock(&gate->mutex);
}

/* From the post on the census may be anywhere, so all that is to be known of it is read before. */
void census_pass(struct census *census)
{
    struct gate *gate = census->gate;
    bool asked = false;

    (void)pthread_mutex_lock(&gate->mutex);
    while (!asked && census->next < GATE_FRONTS) {
        uint32_t front = census->next++;

        asked = gate->front_census[front].ask != NULL;
        if (asked) {
            gate->front_census[front].ask(gate->front_census[front].ctx, census);
        }
    }
    (void)pthread_mutex_unlock(&gate->mutex);
    if (!asked) {
        census->on_done(census);
    }
}
