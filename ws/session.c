/*
 * The session that is attached to a socket: opened, attached, lost, closed. The number of an
 * attachment is the zxid of the transaction that made it. Every replica sees each attachment, and a
 * socket with an older attachment loses the session. Later messages of that socket are refused,
 * because the client's writes must not continue without the session.
 */
#include "base/crypto.h"
#include "ws/ws_int.h"

bool ws_session_prepare(struct ws_message *message)
{
    struct op_args *args = &message->request->args;
    const struct ws_attached *session = &message->socket->session.attached;

    message->prepared = true;
    if (!ws_message_has_field(message->request->def, OP_FIELD_SECRET)) {
        message->secret = mem_zalloc(1, WS_SECRET_LEN + 1);
        op_secret_make(message->secret);
        args->secret = slice_make(message->secret, WS_SECRET_LEN);
    }
    if (args->secret.len > 0) {
        op_args_hash_secret(args, message->hash);
        return true;
    }
    memcpy(message->hash, session->hash, sizeof(message->hash));
    args->secret_hash = slice_make(message->hash, sizeof(message->hash));
    return session->id != 0;
}

void ws_session_keep(struct ws_socket *socket)
{
    if (socket->session.attached.id != 0 &&
        socket->session.moved_to <= socket->session.attached.number) {
        gate_touch(socket->ws->gate, socket->session.attached.id);
    }
}

void ws_session_touch(struct ws_message *message)
{
    struct op_args *args = &message->request->args;
    struct op_session session = {.shown = true};
    struct op_session_info info;

    if (!message->about_session || op_args_kind(args) != OP_KIND_READ || args->secret.len == 0) {
        return;
    }
    op_args_hash_secret(args, message->hash);
    memcpy(session.hash, message->hash, sizeof(session.hash));
    if (view_find_session(gate_view(message->ws->gate), &session, &info) == ERR_OK) {
        gate_touch(message->ws->gate, info.id);
    }
}

/* ---- Out of a session ---- */

void ws_session_detach(struct ws_socket *socket)
{
    struct map *attached = &socket->ws->attached;

    if (socket->session.attached.id != 0 &&
        map_get_u64(attached, socket->session.attached.id) == socket) {
        (void)map_remove_u64(attached, socket->session.attached.id);
    }
    socket->session.attached = (struct ws_attached){0};
    ws_timer_session_changed(socket);
}

static void lose(struct ws_socket *socket, enum err err, const char *state, zxid_t zxid)
{
    struct jsonw json = ws_out_begin(socket->ws);

    op_json_session_event(&json, state, socket->session.attached.id, zxid);
    (void)ws_out_end(socket, PIECE_FIXED);
    ws_session_detach(socket);
    socket->session.lost = err;
    ws_close_begin(socket, err == ERR_SESSION_MOVED ? WS_CODE_SESSION_MOVED : WS_CODE_SESSION_ENDED,
                   state);
}

static void ended(struct ws_socket *socket, const char *state, zxid_t zxid)
{
    if (socket->session.ending) {
        ws_session_detach(socket); /* The client has closed the session. */
    } else {
        lose(socket, ERR_SESSION_EXPIRED, state, zxid);
    }
}

static void attached_again(struct ws_socket *socket, uint64_t number, zxid_t zxid)
{
    if (socket->session.attaching) {
        socket->session.moved_to = number; /* Perhaps our own attachment: finish() decides. */
    } else if (number > socket->session.attached.number) {
        lose(socket, ERR_SESSION_MOVED, "moved", zxid);
    }
}

void ws_session_look(struct ws_socket *socket)
{
    const struct op_session session = {.shown = true, .id = socket->session.attached.id};
    zxid_t zxid = subscribe_at(socket->ws->subscriber);
    struct op_session_info info;

    if (session.id == 0) {
        return;
    }
    enum err err = view_find_session(gate_view(socket->ws->gate), &session, &info);

    if (err == ERR_UNKNOWN_SESSION) {
        ended(socket, "expired", zxid); /* Perhaps closed: the change that shows it was missed. */
    } else if (err == ERR_OK) {
        attached_again(socket, info.attach, zxid);
    } else {
        socket->ws->sessions_unread = true;
    }
}

void ws_session_look_all(struct ws *ws)
{
    ws->sessions_unread = false;
    list_for_each_entry (struct ws_socket, socket, node, &ws->sockets) {
        ws_session_look(socket);
    }
}

void ws_session_changed(struct ws *ws, zxid_t zxid, const struct state_change *change)
{
    struct ws_socket *socket = map_get_u64(&ws->attached, change->session);

    if (socket && change->type == TXN_SESSION_CLOSE) {
        ended(socket, change->expired ? "expired" : "closed", zxid);
    } else if (socket) {
        attached_again(socket, change->attach, zxid);
    }
}

/* ---- Into a session ---- */

static bool is_attached(const struct ws_message *message)
{
    const struct ws_attached *session = &message->socket->session.attached;

    return session->id != 0 && crypto_equal(slice_make(session->hash, sizeof(session->hash)),
                                            slice_make(message->hash, sizeof(message->hash)));
}

static void attach(struct ws_message *message, const struct op_session_info *info)
{
    struct ws_socket *socket = message->socket;
    struct ws *ws = socket->ws;
    struct ws_socket *other = map_get_u64(&ws->attached, info->id);
    bool newest = !other || other == socket || other->session.attached.number < info->attach;

    ws_session_detach(socket);
    if (newest && other && other != socket) {
        lose(other, ERR_SESSION_MOVED, "moved", message->request->result.zxid);
    }
    socket->session.attached = (struct ws_attached){
        .id = info->id, .number = info->attach, .timeout_ms = info->timeout_ms};
    memcpy(socket->session.attached.hash, message->hash, sizeof(message->hash));
    if (newest) { /* Otherwise the session has already moved: ws_session_look notices the move. */
        map_put_u64(&ws->attached, info->id, socket);
    }
    gate_touch(ws->gate, info->id);
    ws_timer_session_changed(socket);
}

/* Prepares a second request, which attaches the session that the first request has opened. */
static void follow_with_attach(struct ws_message *message)
{
    struct op_request *request = op_request_new();

    request->def = ops_by_id(OP_ATTACH);
    request->on_reply = message->request->on_reply;
    request->ctx = message;
    op_args_init(&request->args, OP_ATTACH);
    request->args.secret = slice_make(message->secret, WS_SECRET_LEN);
    op_args_hash_secret(&request->args, message->hash);
    op_request_free(message->request);
    message->request = request;
    message->step = WS_NEW;
}

static bool submit(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    enum op_id op = message->request->def->id;

    socket->session.attaching = op == OP_ATTACH && is_attached(message);
    socket->session.ending = op == OP_CLOSE && is_attached(message);
    socket->session.moved_to = 0;
    ws_message_identify(message);
    return ws_message_submit(message) && message->step == WS_BACK;
}

/* Applies the result to the socket's session at once. The reply may have to wait for missed events,
 * but from now on the bytes of this socket keep the session alive. */
static void settle(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    const struct op_result *result = &message->request->result;

    ws_order_pump(socket->ws, result->zxid);
    if (result->err == ERR_OK && result->has_session) {
        attach(message, &result->session);
        socket->session.attaching = true; /* Stays set until finish(), which reports a move. */
    }
    if (result->err != ERR_OK) {
        socket->session.ending = false;
    }
    message->settled = true;
}

static void finish(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    const struct op_result *result = &message->request->result;

    socket->session.attaching = false;
    socket->session.ending = false;
    ws_session_look(socket); /* The session may have moved or ended since the gate answered. */
    if (result->err != ERR_OK) {
        ws_reply_failure(message, result);
    } else if (result->has_session && socket->session.attached.id != result->session.id) {
        ws_reply_error(message, socket->session.lost, err_text(socket->session.lost));
    } else {
        (void)ws_reply_result(message, result, 0);
    }
}

/* Takes the message's requests through the gate. False when the gate holds a request or has no room
 * for it. */
static bool advance(struct ws_message *message)
{
    if (message->step == WS_NEW && !submit(message)) {
        return false;
    }
    if (message->request->def->id == OP_SESSION && message->request->result.err == ERR_OK) {
        follow_with_attach(message);
        if (!submit(message)) {
            return false;
        }
    }
    if (!message->settled) {
        settle(message);
    }
    return true;
}

void ws_session_back(struct ws_message *message)
{
    if (message->about_session && op_args_kind(&message->request->args) == OP_KIND_WRITE) {
        (void)advance(message);
    }
}

/* Undoes an attachment whose reply is an error. No session may stay attached then, because the
 * client could not know to which session its ephemerals belong. */
static void take_back(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;

    if (socket->session.attaching) {
        ws_session_detach(socket);
    }
    socket->session.attaching = false;
    socket->session.ending = false;
    ws_session_look(socket);
}

bool ws_session_run(struct ws_message *message)
{
    if (!advance(message)) {
        return false;
    }
    if (!ws_order_allows(message, message->request->result.zxid)) {
        if (message->fault) {
            take_back(message);
        }
        return false;
    }
    finish(message);
    return true;
}
