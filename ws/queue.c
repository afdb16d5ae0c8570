/*
 * The messages of a socket in order. Writes are handed to the gate as they come, one behind the
 * other without waiting: the replica keeps their order. What reads, or is done by the front end
 * itself, runs when all before it are answered; and no write starts before what was asked ahead of
 * it has run, so that each message takes effect in its place. Replies leave in order.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

#include <stdio.h>

static void message_free(struct ws_message *message)
{
    op_request_free(message->request);
    mem_free(message->fault);
    if (message->secret) {
        explicit_bzero(message->secret, WS_SECRET_LEN);
    }
    mem_free(message->secret);
    mem_free(message);
}

/* ---- Arrival ---- */

static bool runs_in_order(const struct ws_message *message)
{
    const struct op_request *request = message->request;
    enum op_kind kind = op_args_kind(&request->args);

    return (kind != OP_KIND_WRITE && kind != OP_KIND_SYNC) || message->about_session;
}

static void on_reply(struct op_request *request)
{
    struct ws_message *message = request->ctx;
    struct ws *ws = message->ws;
    enum err err = mailbox_post_always(&ws->replies, &request->node);

    ASSERT(err == ERR_OK);
}

static void fill(struct ws_message *message)
{
    struct op_request *request = message->request;

    request->on_reply = on_reply;
    request->ctx = message;
    message->about_session = ws_is_about_session(request->def);
    message->in_order = runs_in_order(message);
    if (request->key.len > 0 && message->in_order) {
        ws_refuse(message, ERR_BAD_ARGUMENTS, "this operation takes no key");
    }
}

/* What a client may have in flight; half of it when it has been stopped. */
static bool is_full(const struct ws_socket *socket, uint32_t part)
{
    return socket->count >= socket->ws->limits->socket_in_flight_max / part ||
           socket->bytes >= WS_FLIGHT_BYTES / part || socket->ws->bytes >= WS_ALL_BYTES;
}

static void count_in(struct ws_message *message, size_t bytes)
{
    struct ws_socket *socket = message->socket;

    message->bytes = bytes;
    socket->count++;
    socket->bytes += bytes;
    socket->ws->bytes += bytes;
    if (is_full(socket, 1)) {
        ws_socket_stop(socket, WS_STOP_FULL, true);
    }
}

static void count_out(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;

    ASSERT(socket->count > 0 && socket->bytes >= message->bytes);
    socket->count--;
    socket->bytes -= message->bytes;
    socket->ws->bytes -= message->bytes;
    if ((socket->stops & WS_STOP_FULL) && (socket->count == 0 || !is_full(socket, 2))) {
        ws_socket_stop(socket, WS_STOP_FULL, false);
    }
}

void ws_queue_message(struct ws_socket *socket, struct slice text)
{
    struct ws_message *message = mem_zalloc(1, sizeof(*message));
    struct op_fault fault;

    message->ws = socket->ws;
    message->socket = socket;
    message->start_us = os_now_us();
    message->request = op_request_new();
    buf_init(&message->request->memory, SIZE_MAX / 2); /* Bounded by the message. */
    if (op_json_parse_message(text, message->request, &message->id, &fault) != ERR_OK) {
        message->fault = mem_dup(&fault, sizeof(fault));
    } else {
        fill(message);
    }
    list_push_back(&socket->messages, &message->node);
    if (socket->next == &socket->messages) {
        socket->next = &message->node;
    }
    count_in(message, text.len);
}

void ws_refuse(struct ws_message *message, enum err err, const char *detail)
{
    if (message->fault) {
        return;
    }
    message->fault = mem_zalloc(1, sizeof(*message->fault));
    message->fault->err = err;
    (void)snprintf(message->fault->detail, sizeof(message->fault->detail), "%s", detail);
}

/* ---- Starting ---- */

static void hold(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;

    ws_socket_stop(socket, WS_STOP_HELD, true);
    if (list_empty(&socket->held)) {
        list_push_back(&ws->held, &socket->held);
    }
    if (!ev_is_active(&ws->retry)) {
        ev_timer_set(&ws->retry, WS_RETRY_MS / 1000.0, 0.);
        ev_timer_start(ws->loop, &ws->retry);
    }
}

bool ws_queue_submit(struct ws_message *message)
{
    struct ws *ws = message->ws;
    enum err err = ERR_OK;

    ASSERT(message->step != WS_INSIDE);
    if (ws->inside >= ws->inside_max) {
        hold(message->socket);
        return false;
    }
    message->request->lane = message->socket->lane;
    message->request->deadline_ms = os_now_ms() + ws->limits->request_timeout_ms;
    message->step = WS_INSIDE;
    ws->inside++;
    err = gate_submit(ws->gate, message->request);
    if (err == ERR_OK) {
        return true;
    }
    ws->inside--;
    message->step = WS_NEW;
    if (err == ERR_THROTTLED) {
        hold(message->socket);
        return false;
    }
    message->step = WS_BACK;
    message->request->result.err = err;
    return true;
}

/* In whose name, as of now: what came before may have changed that. */
void ws_queue_sign(struct ws_message *message)
{
    const struct ws_socket *socket = message->socket;
    struct op_request *request = message->request;

    principal_release(&request->principal);
    request->principal = socket->who;
    request->principal.auth = auth_ref(socket->who.auth);
    if (socket->session.id != 0 && !message->about_session) {
        request->session = (struct op_session){
            .shown = true, .id = socket->session.id, .attach = socket->session.number};
    }
}

/* What came before may have opened a session, or shown who asks. */
static void check_key(struct ws_message *message)
{
    const struct ws_socket *socket = message->socket;
    struct slice key = message->request->key;

    if (key.len > 0 && socket->session.id == 0 && principal_scope(&socket->who).len == 0 &&
        !op_is_uuid(key)) {
        ws_refuse(message, ERR_BAD_ARGUMENTS,
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
        ws_refuse(message, socket->lost, err_text(socket->lost));
    }
    if (message->fault) {
        return true;
    }
    if (message->in_order) {
        ws_session_touch(message);
        /* The round that a read needs may run while what is before it does. */
        if (asks_first(message) && !ws_queue_submit(message)) {
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
    ws_queue_sign(message);
    return ws_queue_submit(message);
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
    list_remove(&message->node);
    count_out(message);
    message_free(message);
    return true;
}

/* A client that does not read gets no more replies until it does. */
static bool takes_more(struct ws_socket *socket)
{
    bool full = ws_out_is_full(socket);

    ws_socket_stop(socket, WS_STOP_UNREAD, full);
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
            ws_socket_later(socket);
            more = false;
        }
    }
    ws_socket_stop(socket, WS_STOP_HELD, !list_empty(&socket->held));
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
        ws_socket_turn(socket);
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
        ws_socket_turn(message->socket);
    } else {
        message_free(message);
    }
}

/* Those that the gate holds are freed when they come back. */
void ws_queue_release(struct ws_socket *socket)
{
    list_for_each_safe (it, tmp, &socket->messages) {
        struct ws_message *message = list_entry(it, struct ws_message, node);

        list_remove(&message->node);
        count_out(message);
        message->socket = NULL;
        if (message->step != WS_INSIDE) {
            message_free(message);
        }
    }
    socket->next = &socket->messages;
}
