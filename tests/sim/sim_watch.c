#include "tests/sim/sim_watch.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/state/state.h"

#include <inttypes.h>

/* The front end of one process: a window, a subscriber, and a pump that may run late. */

enum {
    WINDOW_BYTES_MAX = 1 << 20,
    PUMP_SETS_MAX = 40, /* Transactions at a time. */
};

struct sim_front {
    struct sim *sim;
    struct sim_node *node;
    struct window *window;
    struct window_listener listener;
    struct subscriber *subscriber;
    bool pump_due;
};

struct window *sim_front_window(struct sim_node *node)
{
    return node->front->window;
}

struct subscriber *sim_front_subscriber(struct sim_node *node)
{
    return node->front ? node->front->subscriber : NULL;
}

static struct sim_socket *socket_at(const struct sim_front *front, uint32_t client)
{
    struct sim_socket *socket = &front->sim->sockets->of[client];

    return socket->node == front->node ? socket : NULL;
}

/* ---- Events of the subscriber. ---- */

static void on_event(void *ctx, struct watch_owner *owner, struct watch *hits,
                     const struct watch_event *event)
{
    struct sim_front *front = ctx;
    struct sim *sim = front->sim;
    struct sim_socket *socket = (void *)((uint8_t *)owner - offsetof(struct sim_socket, owner));
    const struct state *state = view_read_whole(front->node->view);

    if (state) {
        if (state_applied(state) < event->zxid) {
            sim_fail(sim, "A20",
                     "node %u delivers %s of %.*s at %" PRIx64
                     " before its state contains it (%" PRIx64 ")",
                     front->node->id, watch_event_name(event->type), (int)event->path.len,
                     (const char *)event->path.data, event->zxid, state_applied(state));
        }
        view_read_done(front->node->view);
    }
    sim->totals.delivered++;
    sim_socket_event(socket, hits, event);
}

static void on_lost(void *ctx, zxid_t from)
{
    struct sim_front *front = ctx;

    front->sim->totals.lost++;
    SIM_TRACE(front->sim, "front %u has lost the changes after %" PRIx64, front->node->id, from);
    for (uint32_t i = 0; i < front->sim->knobs.clients; i++) {
        struct sim_socket *socket = socket_at(front, i);

        if (socket) {
            sim_socket_lost(socket, from);
        }
    }
}

/* ---- The pump. ---- */

static void pump_to(struct sim_front *front, zxid_t until)
{
    struct sim *sim = front->sim;
    zxid_t before;
    zxid_t at = subscribe_at(front->subscriber);

    do {
        before = at;
        at = subscribe_pump(front->subscriber, until,
                            (size_t)rng_range(&sim->rng, 1, PUMP_SETS_MAX));
    } while (at > before && at < until);
}

static void pump(struct sim *sim, struct sim_event *event)
{
    struct sim_front *front = sim->nodes[event->node].front;

    front->pump_due = false;
    pump_to(front, ZXID_MAX);
    for (uint32_t i = 0; i < sim->knobs.clients; i++) {
        struct sim_socket *socket = socket_at(front, i);

        if (socket) {
            sim_socket_beat(socket, subscribe_at(front->subscriber));
        }
    }
}

/* Only a signal: the front end looks when its own thread runs. */
static void wake(void *ctx)
{
    struct sim_front *front = ctx;
    struct sim *sim = front->sim;

    if (!front->pump_due && front->subscriber) {
        front->pump_due = true;
        sim_after(sim, rng_below(&sim->rng, sim->knobs.front_max_us), pump, "pump", front->node);
    }
}

bool sim_front_holds(struct sim_node *node, zxid_t zxid)
{
    struct subscriber *subscriber = sim_front_subscriber(node);

    if (!subscriber || node->paused) {
        return false;
    }
    if (view_read_whole(node->view)) {
        view_read_done(node->view);
        return false;
    }
    return subscribe_at(subscriber) < zxid;
}

void sim_front_answers(struct sim *sim, struct sim_node *node, zxid_t zxid)
{
    struct subscriber *subscriber = sim_front_subscriber(node);

    if (!subscriber || node->paused) {
        return;
    }
    pump_to(node->front, zxid);
    if (subscribe_at(subscriber) < zxid) {
        sim_fail(sim, "A20",
                 "node %u answers from %" PRIx64
                 ", but its watchers have only received changes up to %" PRIx64,
                 node->id, zxid, subscribe_at(subscriber));
    }
}

void sim_front_read(struct sim *sim, struct sim_node *node, const struct sim_op *op,
                    const struct op_result *result)
{
    bool there = result->err == ERR_OK;
    bool looked = there || (result->err == ERR_NO_NODE && op->watch == WATCH_EXISTS);
    struct sim_socket *socket = sim->sockets ? &sim->sockets->of[op->client] : NULL;

    if (!there && result->err != ERR_NO_NODE) {
        return;
    }
    sim_front_answers(sim, node, result->zxid);
    if (looked && op->watch && socket && socket->node == node) {
        sim_socket_watch(socket, op->watch, op->subs[0].path, &result->zxid);
    }
}

/* ---- Start and end with the process. ---- */

void sim_front_open(struct sim *sim, struct sim_node *node)
{
    struct sim_front *front = mem_zalloc(1, sizeof(*front));

    ASSERT(!node->front);
    front->sim = sim;
    front->node = node;
    front->window = window_new(WINDOW_BYTES_MAX, sim->knobs.window_sets, 0);
    front->listener = (struct window_listener){.wake = wake, .ctx = front};
    node->front = front;
}

void sim_front_start(struct sim *sim, struct sim_node *node)
{
    struct sim_front *front = node->front;
    struct subscribe_sink sink = {.ctx = front, .on_event = on_event, .on_lost = on_lost};

    if (sim->sockets) {
        front->subscriber = subscriber_new(node->view, front->window, &sink);
        window_listen(front->window, &front->listener);
    }
}

void sim_front_stop(struct sim *sim, struct sim_node *node)
{
    struct sim_front *front = node->front;

    if (!front->subscriber) {
        return;
    }
    for (uint32_t i = 0; i < sim->knobs.clients && sim->sockets; i++) {
        struct sim_socket *socket = socket_at(front, i);

        if (socket) {
            sim_socket_break(socket);
        }
    }
    window_unlisten(front->window, &front->listener);
    subscriber_free(front->subscriber);
    front->subscriber = NULL;
}

void sim_front_check_loading(struct sim *sim, struct sim_node *node)
{
    struct window *window = sim_front_window(node);
    struct window_mark end;
    struct change_set *set;
    size_t count = 0;
    zxid_t last;

    window_end(window, &end);
    if (window_read(window, &end, &set, 1, &count, &last) != ERR_NOT_READY) {
        sim_fail(sim, "A20", "node %u delivers changes while another state is loaded", node->id);
    }
    ASSERT(count == 0);
}

void sim_front_close(struct sim_node *node)
{
    window_free(node->front->window);
    mem_free(node->front);
    node->front = NULL;
}
