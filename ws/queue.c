/*
 * The messages of a socket in order. Writes are handed to the gate as they come, one behind the
 * other without waiting: the replica keeps their order. What reads, or is done by the front end
 * itself, runs when all before it are answered; and no write starts before what was asked ahead of
 * it has run, so that each message takes effect in its place. Replies leave in order.
 */
#include "base/check.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

/* ---- Arrival ---- */

void ws_queue_message(struct ws_socket *socket, struct slice text)
{
    bool all_started = socket->next == &socket->messages;
    struct ws_message *message = ws_message_new(socket, text);

    if (all_started) {
        socket->next = &message->node;
    }
}

/* ---- Starting ---- */

/* What came before may have opened a session, or shown who asks. */
static void check_key(struct ws_message *message)
{
    const struct ws_socket *socket = message->socket;
    struct slice key = message->request->key;

    if (key.len > 0 && socket->session.id == 0 && principal_scope(&socket->who).len == 0 &&
        !op_is_uuid(key)) {
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

    if (socket->lost != ERR_OK) {
        ws_message_refuse(message, socket->lost, err_text(socket->lost));
    }
    if (message->fault) {
        return true;
    }
    if (message->in_order) {
        ws_session_touch(message);
        /* The round that a read needs may run while what is before it does. */
        if (asks_first(message) && !ws_message_submit(message)) {
            return false;
        }
        message->asked = message->step != WS_NEW;
        message->unrun = true;
        socket->unrun++;
        return true;
    }
    if (socket->unrun > 0) {
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
    while (list_empty(&socket->held) && socket->next != &socket->messages &&
           start(list_entry(socket->next, struct ws_message, node))) {
        socket->next = socket->next->next;
    }
}

/* ---- Answering ---- */

/* Once more when the gate has refused at once what it was asked. */
static bool run(struct ws_message *message)
{
    enum ws_step step = message->step;

    return ws_run(message) ||
           (message->step != step && message->step == WS_BACK && ws_run(message));
}

/* The first message, when it can be answered now. */
static bool answer_first(struct ws_socket *socket)
{
    struct ws_message *message = list_first(&socket->messages, struct ws_message, node);

    if (list_empty(&socket->messages) || socket->next == &message->node ||
        message->step == WS_INSIDE) {
        return false;
    }
    if (!run(message)) {
        return false;
    }
    socket->unrun -= message->unrun ? 1 : 0;
    ws_message_done(message);
    return true;
}

/* A client that does not read gets no more replies until it does. */
static bool takes_more(struct ws_socket *socket)
{
    bool full = ws_out_is_full(socket);

    ws_intake_stop(socket, WS_STOP_UNREAD, full);
    return !full;
}

/* A message may take long: what has arrived meanwhile, of this client and of others, is read before
 * the next one. */
void ws_queue_run(struct ws_socket *socket)
{
    uint64_t end_us = os_now_us() + WS_WORK_US;
    bool more = true;

    socket->ran = socket->ws->polls;
    while (more && takes_more(socket)) {
        start_some(socket);
        more = answer_first(socket);
        if (more && os_now_us() >= end_us) {
            ws_turn_later(socket);
            more = false;
        }
    }
    ws_intake_stop(socket, WS_STOP_HELD, !list_empty(&socket->held));
}

bool ws_queue_is_ready(const struct ws_socket *socket)
{
    if (list_empty(&socket->messages) || !list_empty(&socket->held) || ws_out_is_full(socket)) {
        return false;
    }
    return socket->next != &socket->messages ||
           list_first(&socket->messages, struct ws_message, node)->step != WS_INSIDE;
}

void ws_queue_eased(struct ws_socket *socket)
{
    if ((socket->stops & WS_STOP_UNREAD) && !ws_out_is_full(socket)) {
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
