/*
 * When what waits for all clients, here and over HTTP, takes the room there is: sockets lose what
 * waits for them, those first that have taken nothing for the longest time. Events are thrown away
 * and told later; a socket whose replies take the room is closed.
 */
#include "base/check.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

/* More than is necessary, so that this is not done for each event. */
static bool is_enough(const struct budget *budget)
{
    return budget_used(budget) <= budget->max / 2;
}

/* A value that does not fit is refused while some room is left: for a moment that counts as none,
 * so that those who keep the room give way, and the client finds it when it asks again. */
static bool is_full(struct ws *ws)
{
    const struct budget *budget = gate_unsent(ws->gate);
    enum budget_level level = budget_level(budget);
    uint64_t refusals = budget_refusals(budget);
    uint64_t now_ms = os_now_ms();

    if (refusals != ws->refusals) {
        ws->refusals = refusals;
        ws->refused_ms = now_ms + WS_RELIEF_LAST_MS;
    }
    return level == BUDGET_FULL || (level == BUDGET_SHORT && now_ms < ws->refused_ms);
}

static void cut_slowest(struct ws *ws, uint64_t now_ms, uint64_t grace_ms)
{
    const struct budget *budget = gate_unsent(ws->gate);

    list_for_each_safe (it, tmp, &ws->stalled) {
        struct ws_socket *socket = list_entry(it, struct ws_socket, stalled);

        if (is_enough(budget) || now_ms < socket->stall_ms + grace_ms) {
            return;
        }
        if (!socket->dry && !socket->mute && !socket->farewell) {
            ws_lags_cut(socket);
            socket->dry = true;
        }
    }
}

/* Some are slower than others: they give way before it hurts anybody else. */
static void relieve_early(struct ws *ws)
{
    uint64_t now_ms = os_now_ms();

    if (now_ms >= ws->early_ms) {
        ws->early_ms = now_ms + WS_RELIEF_MS;
        cut_slowest(ws, now_ms, WS_RELIEF_GRACE_MS);
    }
}

static void relieve(struct ws *ws)
{
    const struct budget *budget = gate_unsent(ws->gate);
    uint64_t used = budget_used(budget);
    uint64_t now_ms = os_now_ms();

    if (now_ms >= ws->relief_ms) {
        cut_slowest(ws, now_ms, 0);
        ws->relief_ms = budget_used(budget) < used ? now_ms : now_ms + WS_RELIEF_MS;
    }
}

bool ws_relief_finds_room(struct ws *ws)
{
    const struct budget *budget = gate_unsent(ws->gate);

    if (budget_level(budget) != BUDGET_FULL) {
        return true;
    }
    relieve(ws);
    return budget_level(budget) != BUDGET_FULL;
}

static void close_one(struct ws_socket *socket)
{
    ws_close_slow(socket);
    if (ws_out_unsent(socket) >= WS_RELIEF_BYTES) {
        ws_close_cut(socket); /* The rest of a large frame is in front of its last words. */
    }
}

/* Those that still hold much when nothing is left to throw away. */
static void close_slowest(struct ws *ws)
{
    uint64_t now_ms = os_now_ms();

    list_for_each_safe (it, tmp, &ws->stalled) {
        struct ws_socket *socket = list_entry(it, struct ws_socket, stalled);

        if (!is_full(ws) || now_ms < socket->stall_ms + WS_RELIEF_CLOSE_MS) {
            return;
        }
        if (!socket->mute && !socket->farewell && socket->open &&
            ws_out_unsent(socket) >= WS_RELIEF_BYTES) {
            close_one(socket);
        }
    }
}

void ws_relief_end(struct ws *ws)
{
    if (is_full(ws)) {
        relieve(ws);
        close_slowest(ws);
    } else if (budget_level(gate_unsent(ws->gate)) == BUDGET_SHORT) {
        relieve_early(ws);
    }
}
