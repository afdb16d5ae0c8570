/*
 * The order of events and replies. Before a reply leaves, the subscriber is pumped up to the state
 * of that reply, for all sockets: so on each socket an event precedes every reply that shows its
 * effect.
 */
#include "base/minmax.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

const char ws_order_taking_over[] = "this replica is taking over another state";

void ws_order_saw(struct ws_socket *socket, zxid_t zxid)
{
    socket->order.seen = max_u64(zxid, socket->order.seen);
}

zxid_t ws_order_complete(const struct ws_socket *socket)
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

/* Has the client received all events up to this zxid? */
static bool has_all(struct ws_socket *socket, zxid_t until)
{
    struct ws *ws = socket->ws;

    list_remove(&socket->order.waiting);
    ws_order_pump(ws, until);
    if (subscribe_at(ws->subscriber) < until) {
        list_push_back(&ws->waiting, &socket->order.waiting);
        return false;
    }
    return ws_lags_none_until(socket, until);
}

void ws_order_retry(struct ws *ws)
{
    while (!list_empty(&ws->waiting)) {
        struct ws_socket *socket = list_first(&ws->waiting, struct ws_socket, order.waiting);

        list_remove(&socket->order.waiting);
        ws_turn_soon(socket);
    }
}

/* While this replica takes over another state there are no events, and that state may be an older
 * one: the changes may never come, or be others. Then also a write that was done may be undone. */
static void refuse_late(struct ws_message *message)
{
    const struct op_request *request = message->request;
    uint64_t patience_us = (uint64_t)message->ws->limits->request_timeout_ms * 1000;
    uint64_t now_us = os_now_us();
    bool write = op_args_kind(&request->args) == OP_KIND_WRITE;

    if (message->waits_since_us == 0) {
        message->waits_since_us = now_us;
    }
    if (now_us - message->waits_since_us < patience_us) {
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
    if (has_all(message->socket, until)) {
        return true;
    }
    if (!list_empty(&message->socket->order.waiting)) {
        refuse_late(message);
    }
    return false;
}
