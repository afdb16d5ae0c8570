/*
 * Relief when unsent bytes of all clients, here and over HTTP, reach maxUnsentBytes: sockets lose
 * their queues, those first that have taken nothing for the longest time. Events are discarded and
 * sent later; a socket whose replies use the memory is closed.
 */
#include "base/check.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

/* Half is free: more than necessary, so that not every event needs relief. */
static bool is_enough(const struct budget *budget)
{
    return budget_used(budget) <= budget->max / 2;
}

/* A value that does not fit is refused while some memory is left. For a moment that counts as full:
 * so slow sockets free memory, and the client's retry succeeds. */
static bool is_full(struct ws *ws)
{
    const struct budget *budget = gate_unsent(ws->gate);
    enum budget_level level = budget_level(budget);
    uint64_t refusals = budget_refusals(budget);
    uint64_t now_ms = os_now_ms();

    if (refusals != ws->relief.refusals) {
        ws->relief.refusals = refusals;
        ws->relief.refused_until = now_ms + WS_RELIEF_LAST_MS;
    }
    return level == BUDGET_FULL || (level == BUDGET_SHORT && now_ms < ws->relief.refused_until);
}

static void cut_slowest(struct ws *ws, uint64_t now_ms, uint64_t grace_ms)
{
    const struct budget *budget = gate_unsent(ws->gate);

    list_for_each_safe (it, tmp, &ws->stalled) {
        struct ws_socket *socket = list_entry(it, struct ws_socket, out.stalled);

        if (is_enough(budget) || now_ms < socket->out.stall_ms + grace_ms) {
            return;
        }
        if (!socket->out.dry && !socket->closing.mute && !socket->closing.farewell) {
            ws_lags_cut(socket);
            socket->out.dry = true;
        }
    }
}

/* Memory is short: sockets that are slow lose events before others are affected. */
static void relieve_early(struct ws *ws)
{
    uint64_t now_ms = os_now_ms();

    if (now_ms >= ws->relief.early_ms) {
        ws->relief.early_ms = now_ms + WS_RELIEF_MS;
        cut_slowest(ws, now_ms, WS_RELIEF_GRACE_MS);
    }
}

static void relieve(struct ws *ws)
{
    const struct budget *budget = gate_unsent(ws->gate);
    uint64_t used = budget_used(budget);
    uint64_t now_ms = os_now_ms();

    if (now_ms >= ws->relief.next_ms) {
        cut_slowest(ws, now_ms, 0);
        ws->relief.next_ms = budget_used(budget) < used ? now_ms : now_ms + WS_RELIEF_MS;
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
        ws_close_cut(socket); /* The rest of a large frame is in front of the farewell. */
    }
}

/* Closes slow sockets with many unsent bytes when no events are left to discard. */
static void close_slowest(struct ws *ws)
{
    uint64_t now_ms = os_now_ms();

    list_for_each_safe (it, tmp, &ws->stalled) {
        struct ws_socket *socket = list_entry(it, struct ws_socket, out.stalled);

        if (!is_full(ws) || now_ms < socket->out.stall_ms + WS_RELIEF_CLOSE_MS) {
            return;
        }
        if (!socket->closing.mute && !socket->closing.farewell && socket->open &&
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
