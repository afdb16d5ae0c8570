/*
 * The order of events and replies: before a reply leaves, the subscriber is pumped up to the state
 * of that reply, for all sockets; so on each socket an event precedes whatever shows its effect.
 */
#include "base/os_clock.h"
#include "ws/ws_int.h"

const char ws_order_taking_over[] = "this replica is taking over another state";

void ws_order_saw(struct ws_socket *socket, zxid_t zxid)
{
    socket->seen = zxid > socket->seen ? zxid : socket->seen;
}

/* All up to there, and no more, may be claimed at any time. */
zxid_t ws_order_told(const struct ws_socket *socket)
{
    return ws_lags_bound(socket, subscribe_at(socket->ws->subscriber));
}

void ws_order_pump(struct ws *ws, zxid_t until)
{
    if (until > subscribe_at(ws->subscriber)) {
        (void)subscribe_pump(ws->subscriber, until, SIZE_MAX);
    }
}

void ws_order_pump_some(struct ws *ws)
{
    zxid_t before = subscribe_at(ws->subscriber);

    if (subscribe_pump(ws->subscriber, ZXID_MAX, WS_PUMP_SETS) != before) {
        ev_async_send(ws->loop, &ws->changed);
    }
}

static bool comes_after(struct ws_socket *socket, zxid_t until)
{
    struct ws *ws = socket->ws;

    list_remove(&socket->untold);
    ws_order_pump(ws, until);
    if (subscribe_at(ws->subscriber) < until) {
        list_push_back(&ws->untold, &socket->untold);
        return false;
    }
    return ws_lags_none_until(socket, until);
}

void ws_order_retry(struct ws *ws)
{
    while (!list_empty(&ws->untold)) {
        struct ws_socket *socket = list_first(&ws->untold, struct ws_socket, untold);

        list_remove(&socket->untold);
        ws_turn_soon(socket);
    }
}

/* While another state is put in place nothing is told, and that state may be an older one: the
 * changes may not come, or not be the same. A write that was done may then not be what it was. */
static void refuse_late(struct ws_message *message)
{
    const struct op_request *request = message->request;
    uint64_t patience_us = (uint64_t)message->ws->limits->request_timeout_ms * 1000;
    uint64_t now_us = os_now_us();
    bool write = op_args_kind(&request->args) == OP_KIND_WRITE;

    if (message->untold_us == 0) {
        message->untold_us = now_us;
    }
    if (now_us - message->untold_us < patience_us) {
        return;
    }
    if (!write) {
        ws_message_refuse(message, ERR_REPLICA_BEHIND, ws_order_taking_over);
    } else if (request->result.err == ERR_OK) {
        ws_message_refuse(message, ERR_OUTCOME_UNKNOWN, ws_order_taking_over);
    } else {
        ws_message_refuse(message, request->result.err, err_text(request->result.err));
    }
}

bool ws_order_allows(struct ws_message *message, zxid_t until)
{
    if (comes_after(message->socket, until)) {
        return true;
    }
    if (!list_empty(&message->socket->untold)) {
        refuse_late(message);
    }
    return false;
}
