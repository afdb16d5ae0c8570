/*
 * The messages of a socket in order. Writes go to the gate as they arrive, one after the other
 * without waiting: the replica keeps their order. Reads, and operations of the front end itself,
 * run when all messages before them are answered. No write starts before all messages ahead of it
 * have run. So each message takes effect in its place, and replies leave in order.
 */
#include "base/check.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

/* ---- Arrival ---- */

void ws_queue_message(struct ws_socket *socket, struct slice text)
{
    bool all_started = socket->queue.next == &socket->queue.messages;
    struct ws_message *message = ws_message_new(socket, text);

    if (all_started) {
        socket->queue.next = &message->node;
    }
}

/* ---- Starting ---- */

/* Earlier messages may have opened a session or added an identity. */
static void check_key(struct ws_message *message)
{
    const struct ws_socket *socket = message->socket;
    struct slice key = message->request->key;

    if (key.len > 0 && socket->session.attached.id == 0 &&
        principal_scope(&socket->principal).len == 0 && !op_is_uuid(key)) {
        ws_message_refuse(message, ERR_BAD_ARGUMENTS,
                          "without a session and credentials a key must be a UUID");
    }
}

static bool asks_first(const struct ws_message *message)
{
    const struct op_request *request = message->request;

    return op_args_kind(&request->args) == OP_KIND_READ &&
           (request->consistency == OP_LINEARIZABLE ||
            request->min_zxid > subscribe_at(message->ws->subscriber));
}

/* False when it cannot yet. */
static bool start(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;

    if (socket->session.lost != ERR_OK) {
        ws_message_refuse(message, socket->session.lost, err_text(socket->session.lost));
    }
    if (message->fault) {
        return true;
    }
    if (message->in_order) {
        ws_session_touch(message);
        /* The quorum round of a read may run while earlier messages run. */
        if (asks_first(message) && !ws_message_submit(message)) {
            return false;
        }
        message->asked = message->step != WS_NEW;
        message->unrun = true;
        socket->queue.unrun++;
        return true;
    }
    if (socket->queue.unrun > 0) {
        return false;
    }
    check_key(message);
    if (message->fault) {
        return true;
    }
    ws_message_sign(message);
    return ws_message_submit(message);
}

static void start_some(struct ws_socket *socket)
{
    while (list_empty(&socket->queue.held) && socket->queue.next != &socket->queue.messages &&
           start(list_entry(socket->queue.next, struct ws_message, node))) {
        socket->queue.next = socket->queue.next->next;
    }
}

/* ---- Answering ---- */

/* Runs it once more when the gate has refused its request at once. */
static bool run(struct ws_message *message)
{
    enum ws_step step = message->step;

    return ws_run(message) ||
           (message->step != step && message->step == WS_BACK && ws_run(message));
}

/* Answers the first message if it can be answered now. */
static bool answer_first(struct ws_socket *socket)
{
    struct ws_message *message = list_first(&socket->queue.messages, struct ws_message, node);

    if (list_empty(&socket->queue.messages) || socket->queue.next == &message->node ||
        message->step == WS_INSIDE) {
        return false;
    }
    if (!run(message)) {
        return false;
    }
    socket->queue.unrun -= message->unrun ? 1 : 0;
    ws_message_done(message);
    return true;
}

/* A client that does not read gets no more replies until it reads. */
static bool takes_more(struct ws_socket *socket)
{
    bool full = ws_out_is_full(socket);

    ws_intake_stop(socket, WS_STOP_UNREAD, full);
    return !full;
}

/* A message may take long: before the next one, the thread reads what has arrived meanwhile from
 * this client and from others. */
void ws_queue_run(struct ws_socket *socket)
{
    uint64_t end_us = os_now_us() + WS_WORK_US;
    bool more = true;

    socket->queue.ran_poll = socket->ws->polls;
    while (more && takes_more(socket)) {
        start_some(socket);
        more = answer_first(socket);
        if (more && os_now_us() >= end_us) {
            ws_turn_later(socket);
            more = false;
        }
    }
    ws_intake_stop(socket, WS_STOP_HELD, !list_empty(&socket->queue.held));
}

bool ws_queue_is_ready(const struct ws_socket *socket)
{
    if (list_empty(&socket->queue.messages) || !list_empty(&socket->queue.held) ||
        ws_out_is_full(socket)) {
        return false;
    }
    return socket->queue.next != &socket->queue.messages ||
           list_first(&socket->queue.messages, struct ws_message, node)->step != WS_INSIDE;
}

void ws_queue_eased(struct ws_socket *socket)
{
    if ((socket->intake.stops & WS_STOP_UNREAD) && !ws_out_is_full(socket)) {
        ws_turn_soon(socket);
    }
}

void ws_queue_back(struct ws *ws, struct op_request *take_request)
{
    struct ws_message *message = take_request->ctx;

    ASSERT(message->step == WS_INSIDE && ws->inside > 0);
    ws->inside--;
    message->step = WS_BACK;
    if (message->socket) {
        ws_session_back(message);
        ws_turn_soon(message->socket);
    } else {
        ws_message_free(message);
    }
}
