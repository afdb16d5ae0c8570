/* One message of a client: parsed, counted, refused, handed to the gate, freed. */
#include "ws/ws_int.h"

#include <stdio.h>

void ws_message_free(struct ws_message *message)
{
    message->ws->bytes -= message->bytes;
    op_request_free(message->request);
    mem_free(message->fault);
    if (message->secret) {
        explicit_bzero(message->secret, WS_SECRET_LEN);
    }
    mem_free(message->secret);
    mem_free(message);
}

/* ---- Arrival ---- */

bool ws_message_has_field(const struct op_def *def, enum op_field_type type)
{
    for (const struct op_field *field = def->fields; field->name; field++) {
        if (field->type == type) {
            return true;
        }
    }
    return false;
}

static void on_reply(struct op_request *request)
{
    struct ws_message *message = request->ctx;
    struct ws *ws = message->ws;
    mailbox_must_post(&ws->replies.box, &request->node);
}

void ws_message_refuse(struct ws_message *message, enum err err, const char *detail)
{
    if (message->fault) {
        return;
    }
    message->fault = mem_zalloc(1, sizeof(*message->fault));
    message->fault->err = err;
    (void)snprintf(message->fault->detail, sizeof(message->fault->detail), "%s", detail);
}

static void fill(struct ws_message *message)
{
    struct op_request *request = message->request;
    enum op_kind kind = op_args_kind(&request->args);

    gate_note_request(message->ws->gate, &request->args, &message->socket->principal);
    request->on_reply = on_reply;
    request->ctx = message;
    message->about_session = ws_message_has_field(request->def, OP_FIELD_HASH);
    message->in_order = (kind != OP_KIND_WRITE && kind != OP_KIND_SYNC) || message->about_session;
    if (request->key.len > 0 && message->in_order) {
        ws_message_refuse(message, ERR_BAD_ARGUMENTS,
                          "this operation does not accept the member key");
    }
}

/* Whether the messages in flight have reached 1/`part` of their limit. The client is stopped at
 * the limit and continues below half of it. */
static bool is_full(const struct ws_socket *socket, uint32_t part)
{
    return socket->queue.count >= socket->ws->limits->socket_in_flight_max / part ||
           socket->queue.bytes >= WS_FLIGHT_BYTES / part ||
           socket->ws->bytes >= socket->ws->limits->pool_bytes_max;
}

static void count_out(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;

    ASSERT(socket->queue.count > 0 && socket->queue.bytes >= message->bytes);
    socket->queue.count--;
    socket->queue.bytes -= message->bytes;
    if ((socket->intake.stops & WS_STOP_FULL) &&
        (socket->queue.count == 0 || !is_full(socket, 2))) {
        ws_intake_stop(socket, WS_STOP_FULL, false);
    }
}

/* Returns the memory of a message; its operations may be much larger than its text. */
static size_t memory_of(const struct ws_message *message, size_t text_len)
{
    const struct op_request *request = message->request;

    return sizeof(*message) + sizeof(*request) + text_len + request->memory.cap +
           (request->multi ? request->args.op_count * sizeof(*request->multi) : 0);
}

struct ws_message *ws_message_new(struct ws_socket *socket, struct slice text)
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
    list_push_back(&socket->queue.messages, &message->node);
    message->bytes = memory_of(message, text.len);
    socket->queue.count++;
    socket->queue.bytes += message->bytes;
    socket->ws->bytes += message->bytes;
    if (is_full(socket, 1)) {
        ws_intake_stop(socket, WS_STOP_FULL, true);
    }
    return message;
}

/* ---- To the gate ---- */

static void hold(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;

    ws_intake_stop(socket, WS_STOP_HELD, true);
    if (list_empty(&socket->queue.held)) {
        list_push_back(&ws->held, &socket->queue.held);
    }
    if (!ev_is_active(&ws->retry)) {
        ev_timer_set(&ws->retry, WS_RETRY_MS / 1000.0, 0.);
        ev_timer_start(ws->loop, &ws->retry);
    }
}

bool ws_message_submit(struct ws_message *message)
{
    struct ws *ws = message->ws;
    enum err err = ERR_OK;

    ASSERT(message->step != WS_INSIDE);
    if (ws->inside >= ws->inside_max) {
        hold(message->socket);
        return false;
    }
    message->request->fifo = message->socket->queue.fifo;
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

/* Sets the principal and the session just before the request is submitted, because earlier messages
 * may have changed them. */
void ws_message_identify(struct ws_message *message)
{
    const struct ws_socket *socket = message->socket;
    struct op_request *request = message->request;

    principal_release(&request->principal);
    request->principal = principal_copy(&socket->principal);
    if (socket->session.attached.id != 0 && !message->about_session) {
        request->session = (struct op_session){.shown = true,
                                               .id = socket->session.attached.id,
                                               .attach = socket->session.attached.number};
    }
}

/* ---- Answered, or dropped ---- */

void ws_message_done(struct ws_message *message)
{
    list_remove(&message->node);
    count_out(message);
    ws_message_free(message);
}

/* Drops all messages of a socket. A message whose request is inside the gate is freed when the
 * request comes back. */
void ws_message_release_all(struct ws_socket *socket)
{
    list_for_each_entry_safe (struct ws_message, message, tmp, node, &socket->queue.messages) {
        list_remove(&message->node);
        count_out(message);
        message->socket = NULL;
        if (message->step != WS_INSIDE) {
            ws_message_free(message);
        }
    }
    socket->queue.next = &socket->queue.messages;
}
