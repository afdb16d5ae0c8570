/*
 * The messages of a socket, in order, by rules 1 and 2 of README.md. Writes go to the gate as they
 * arrive, without waiting for each other: the replica keeps their order.
 */
#include "ws/ws_int.h"

static const char too_many_watches[] =
    "the limit of watches of this socket (maxWatches, maxWatchBytes) is reached";

/* ---- Reads ---- */

/* Returns the lowest zxid that a reply may show: the highest of the zxids that the client has
 * seen, that the request demands, and that the gate has waited for. This replica's state may be
 * older than that, if a snapshot has replaced it by an older state meanwhile. */
static zxid_t least_zxid(const struct ws_message *message)
{
    const struct op_request *request = message->request;
    zxid_t least = max_u64(message->socket->order.seen, request->min_zxid);

    return message->asked ? max_u64(request->wait_zxid, least) : least;
}

/* Returns the kind of the one-shot watch that a read of this shape adds. */
static enum watch_kind kind_by_shape(enum op_shape shape)
{
    if (shape == OP_SHAPE_CHILDREN) {
        return WATCH_CHILDREN;
    }
    return shape == OP_SHAPE_EXISTS ? WATCH_EXISTS : WATCH_DATA;
}

/* Replies to a read and adds its watch, which begins right after the state that was read. */
static void reply_and_watch(struct ws_message *message, const struct op_result *result)
{
    const struct op_request *request = message->request;
    const struct subscribe_request watch = {.kind = kind_by_shape(request->def->shape),
                                            .path = request->args.path,
                                            .since = result->zxid};
    enum err err = ws_events_watch(message, result, &watch);

    if (err != ERR_OK) {
        ws_reply_error(message, err, err == ERR_THROTTLED ? too_many_watches : NULL);
    }
}

/* Replies to a read. False when events must leave first; then the read runs again. */
static bool reply_read(struct ws_message *message, const struct op_result *result)
{
    const struct op_request *request = message->request;
    zxid_t upto = max_u64(result->upto, result->zxid);

    if (result->has_session) {
        gate_touch(message->ws->gate, result->session.id);
    }
    if (!ws_order_allows(message, upto)) {
        return false;
    }
    ws_order_saw(message->socket, upto);
    if (!op_json_is_answer(request->args.op, result->err)) {
        ws_reply_failure(message, result);
    } else if (request->args.watch) {
        reply_and_watch(message, result);
    } else {
        (void)ws_reply_result(message, result, 0);
    }
    return true;
}

/* Hands the message's request to the gate, which waits until this replica has applied the required
 * zxid. Then the message runs again. Always false: the message is not answered. */
static bool ask(struct ws_message *message)
{
    message->asked = true;
    (void)ws_message_submit(message);
    return false;
}

static bool read_now(struct ws_message *message)
{
    struct op_request *request = message->request;
    struct op_result result;
    bool done = true;

    op_result_init(&result);
    view_run(gate_view(message->ws->gate), &message->socket->principal, &request->args, &result);
    if (result.err == ERR_UNKNOWN_SESSION && !message->asked) {
        request->consistency = OP_LINEARIZABLE; /* A quorum round may make the session known. */
        done = ask(message);
    } else if (result.zxid != 0 && result.zxid < least_zxid(message)) {
        ws_reply_error(message, ERR_REPLICA_BEHIND, ws_order_taking_over);
    } else {
        done = reply_read(message, &result);
    }
    op_result_release(&result);
    return done;
}

/* Whether the message may be answered: the gate was asked, or this replica may answer by itself.
 * False: an error was replied. */
static bool may_answer(struct ws_message *message)
{
    const char *why = NULL;
    enum err err = message->asked ? ERR_OK : gate_check_local(message->ws->gate, &why);

    if (err != ERR_OK) {
        ws_reply_error(message, err, why);
    }
    return err == ERR_OK;
}

/* ---- Operations of the front end ---- */

static bool run_info(struct ws_message *message)
{
    struct jsonw json = ws_reply_begin(message, 0);

    jsonw_key(&json, message->request->def->name);
    (void)gate_write_info(message->ws->gate, &message->request->args, &message->socket->principal,
                          message->socket->session.attached.id, &json);
    ws_reply_end(message, &json);
    return true;
}

static bool run_watch(struct ws_message *message)
{
    const struct op_args *args = &message->request->args;
    const struct subscribe_request watch = {
        .kind = args->kind,
        .path = args->path,
        .values = args->values,
        .format = args->dataformat,
        .has_since = args->has_since,
        .since = args->has_since ? args->since : subscribe_at(message->ws->subscriber),
        .has_history = args->has_since_history,
        .since_history = args->since_history,
    };

    /* Missed events show this replica's state, so the same check applies as for a read. */
    if (watch.has_since && !may_answer(message)) {
        return true;
    }
    if (watch.has_since && ws_turn_waits_to_resume(message->socket)) {
        return false;
    }

    enum err err = ws_events_watch(message, NULL, &watch);

    if (err == ERR_REPLICA_BEHIND && !message->asked) {
        message->request->min_zxid = args->since;
        return ask(message);
    }
    if (err != ERR_OK) {
        ws_reply_error(message, err, err == ERR_THROTTLED ? too_many_watches : NULL);
    }
    return true;
}

static void run_unwatch(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    struct watch_table *table = subscribe_table(socket->ws->subscriber);
    struct watch *watch = watch_by_id(table, &socket->owner, message->request->args.watch_id);

    if (!watch) {
        ws_reply_error(message, ERR_NOT_FOUND, "this WebSocket has no watch with this number");
        return;
    }
    watch_remove(table, watch);
    ws_reply_plain(message);
}

/* Whether the credentials may be used. False, after an error reply, when passwords of this user
 * have failed too often from this address. */
static bool may_show(struct ws_message *message, struct auth *auth)
{
    struct op_principal shown = message->socket->principal;
    uint32_t known = shown.auth ? shown.auth->count : 0;

    shown.auth = auth;

    uint32_t wait_ms = gate_credentials_wait(message->ws->gate, &shown, known);

    if (wait_ms > 0) {
        ws_message_refuse(message, ERR_THROTTLED, gate_credentials_slowed);
        message->fault->retry_after_ms = wait_ms;
        ws_reply_fault(message);
    }
    return wait_ms == 0;
}

static void refuse_auth(struct ws_message *message, enum err err)
{
    if (err == ERR_AUTH_FAILED) {
        gate_credentials_failed(message->ws->gate, &message->socket->principal,
                                GATE_FAILED_MALFORMED);
    }
    /* The list of identities stays full while the socket lives: a retry cannot succeed. */
    ws_reply_error(message, err == ERR_FULL ? ERR_BAD_ARGUMENTS : err,
                   err == ERR_FULL
                       ? "this WebSocket would have more than 16 identities: use another WebSocket"
                       : "the scheme must be digest, the credential user:password");
}

static void run_auth(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    const struct op_args *args = &message->request->args;
    struct auth *auth = NULL;
    enum err err = auth_add(socket->principal.auth, args->scheme, args->credential,
                            socket->ws->limits->super_digest, &auth);

    if (err != ERR_OK) {
        refuse_auth(message, err);
    } else if (may_show(message, auth)) {
        auth_unref(socket->principal.auth);
        socket->principal.auth = auth;
        ws_reply_plain(message);
    } else {
        auth_unref(auth);
    }
}

/* Runs an operation that the front end does itself. This file names no other operations. */
static bool run_front(struct ws_message *message)
{
    enum op_id op = message->request->def->id;

    if (op == OP_WATCH) {
        return run_watch(message);
    }
    if (op == OP_UNWATCH) {
        run_unwatch(message);
    } else if (op == OP_AUTH) {
        run_auth(message);
    } else {
        ASSERT(op == OP_DETACH || op == OP_PING);
        if (op == OP_DETACH) {
            ws_session_detach(message->socket);
        }
        ws_reply_plain(message);
    }
    return true;
}

/* ---- Any message ---- */

/* Puts into the reply to a sync the newest zxid up to which all events are queued. The client may
 * use this zxid as a fence, so it is at least as high as each zxid sent on this socket. If the
 * state was replaced by an older one since the gate answered, this zxid is below the zxid of the
 * answer, and the reply is an error. */
static void name_fence(const struct ws_message *message, struct op_result *result)
{
    zxid_t fence = ws_order_complete(message->socket);

    if (fence < result->zxid) {
        result->err = ERR_REPLICA_BEHIND;
    } else {
        result->zxid = fence;
    }
}

static bool run_back(struct ws_message *message)
{
    struct op_result *result = &message->request->result;

    if (result->err == ERR_OK && op_args_kind(&message->request->args) == OP_KIND_SYNC) {
        name_fence(message, result);
    }
    if (result->err != ERR_OK) {
        ws_reply_failure(message, result);
    } else {
        (void)ws_reply_result(message, result, 0);
    }
    return true;
}

/* Returns the zxid of the state that the gate's answer shows; for a sync, at least the zxid that
 * the client has seen. */
static zxid_t state_of(const struct ws_message *message)
{
    const struct op_request *request = message->request;
    bool sync = op_args_kind(&request->args) == OP_KIND_SYNC;

    return max_u64(request->result.zxid, sync ? message->socket->order.seen : 0);
}

/* Whether all events that the reply shows are queued for the client. A message that shows the
 * current state waits for everything that its client has missed; a message that the gate has
 * answered waits for the events up to the state of that answer. */
static bool is_time(struct ws_message *message)
{
    const struct op_request *request = message->request;

    bool read = op_args_kind(&request->args) == OP_KIND_READ;
    bool watch = request->def->id == OP_WATCH;

    if (watch) {
        ws_order_pump(message->ws, ZXID_MAX); /* The watch begins at the newest change. */
    }
    if ((read || watch) && ws_overrun_waits(message)) {
        return false;
    }
    return message->step != WS_BACK || message->about_session ||
           ws_order_allows(message, state_of(message));
}

/* True when the message was refused; then the refusal was sent as its reply. */
static bool was_refused(struct ws_message *message)
{
    if (message->fault) {
        ws_reply_fault(message);
    }
    return message->fault != NULL;
}

static bool run_kind(struct ws_message *message)
{
    switch (op_args_kind(&message->request->args)) {
    case OP_KIND_READ:
        return !may_answer(message) || read_now(message);
    case OP_KIND_INFO:
        return run_info(message);
    case OP_KIND_FRONT:
        return run_front(message);
    case OP_KIND_WRITE:
    case OP_KIND_SYNC:
        return message->in_order ? ws_session_run(message) : run_back(message);
    }
    UNREACHABLE();
}

/* Runs the first unanswered message. True when the message is now answered. False when its request
 * is in the gate, or events must leave before its reply; then the message runs again. */
static bool run_now(struct ws_message *message)
{
    if (was_refused(message)) {
        return true;
    }
    if (message->asked && message->step == WS_NEW) {
        return ask(message); /* The gate had no room. */
    }
    if (message->about_session && !message->prepared && !ws_session_prepare(message)) {
        ws_reply_error(message, ERR_UNKNOWN_SESSION, "no session is attached to this socket");
        return true;
    }
    if (message->asked && message->request->result.err != ERR_OK) {
        ws_order_pump(message->ws, message->request->result.zxid);
        ws_reply_failure(message, &message->request->result);
        return true;
    }
    return (is_time(message) && run_kind(message)) || was_refused(message);
}

/* ---- In order ---- */

void ws_queue_message(struct ws_socket *socket, struct slice text)
{
    bool all_started = socket->queue.next == &socket->queue.messages;
    struct ws_message *message = ws_message_new(socket, text);

    if (all_started) {
        socket->queue.next = &message->node;
    }
}

/* ---- Starting ---- */

/* Refuses an idempotency key that is no UUID when the socket has neither session nor credentials.
 * The check is made when the message starts, because earlier messages may have opened a session or
 * added an identity. */
static void check_key(struct ws_message *message)
{
    const struct ws_socket *socket = message->socket;
    struct slice key = message->request->key;

    if (key.len > 0 && socket->session.attached.id == 0 &&
        principal_scope(&socket->principal).len == 0 && !op_is_uuid(key)) {
        ws_message_refuse(
            message, ERR_BAD_ARGUMENTS,
            "without a session or credentials the member key must be a UUID, so that no other "
            "client has the same key");
    }
}

static const char not_identified[] =
    "this replica answers only clients with an identity (requireIdentity): send auth first";

/* Whether the socket must send `auth` before any other message. */
static bool lacks_identity(const struct ws_socket *socket)
{
    return socket->ws->limits->require_identity && !principal_has_identity(&socket->principal);
}

/* Refuses a message of a client without an identity, whatever else is wrong with the message, and
 * closes the socket. */
static void refuse_anonymous(struct ws_message *message)
{
    mem_free(message->fault);
    message->fault = NULL;
    ws_message_refuse(message, ERR_NO_AUTH, not_identified);
    ws_close_begin(message->socket, WS_CODE_POLICY, ws_anonymous);
}

/* Whether the message may start. False: an earlier message, which may be `auth`, has not run yet.
 */
static bool check_identity(struct ws_message *message)
{
    const struct ws_socket *socket = message->socket;
    const struct op_def *def = message->request->def;
    bool is_auth = def && def->id == OP_AUTH && !message->fault;

    if (!lacks_identity(socket) || is_auth) {
        return true;
    }
    if (socket->queue.unrun > 0) {
        return false;
    }
    refuse_anonymous(message);
    return true;
}

static bool asks_first(const struct ws_message *message)
{
    const struct op_request *request = message->request;

    return op_args_kind(&request->args) == OP_KIND_READ &&
           (request->consistency == OP_LINEARIZABLE ||
            request->min_zxid > subscribe_at(message->ws->subscriber));
}

/* Starts a message; false when it cannot start yet. */
static bool start(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;

    if (!check_identity(message)) {
        return false;
    }
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
    ws_message_identify(message);
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

/* Answers the first message; false when it cannot be answered now. When the gate returns the
 * request at once, refused, the message runs a second time. */
static bool answer_first(struct ws_socket *socket)
{
    struct ws_message *message = list_first(&socket->queue.messages, struct ws_message, node);

    if (list_empty(&socket->queue.messages) || socket->queue.next == &message->node ||
        message->step == WS_INSIDE) {
        return false;
    }

    enum ws_step step = message->step;

    if (!run_now(message) &&
        (message->step == step || message->step != WS_BACK || !run_now(message))) {
        return false;
    }
    socket->queue.unrun -= message->unrun ? 1 : 0;
    ws_message_done(message);
    return true;
}

/* Whether the socket takes more replies. A client that does not read gets no more replies until it
 * reads. */
static bool takes_more(struct ws_socket *socket)
{
    bool full = ws_out_is_full(socket);

    ws_intake_stop(socket, WS_STOP_UNREAD, full);
    return !full;
}

/* Runs messages until WS_WORK_US have passed, because a message may take long. The remaining
 * messages run after the next poll, in which the thread reads what has arrived from this client and
 * from others. */
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
