/*
 * One message runs: reads here and now, what the gate has answered, and the rows that a front end
 * does itself. Before any reply leaves, all that its state includes is told.
 */
#include "base/check.h"
#include "base/os_clock.h"
#include "ws/ws_int.h"

enum {
    RETRY_AFTER_MS = 1000,
    STATUS_UNAUTHORIZED = 401
};

static const char too_many_watches[] = "this socket has as many watches as it may";
static const char taking_over[] = "this replica is taking over another state";

static void count(const struct ws_message *message, bool failed)
{
    const struct op_def *def = message->request->def;

    gate_count_op(message->ws->gate, def ? def->id : 0, failed, os_now_us() - message->start_us);
    gate_credentials_seen(message->ws->gate, &message->socket->who);
}

/* The secret of a session is shown, and there is no such session. */
static void count_secret(const struct ws_message *message, enum err err)
{
    bool gone = err == ERR_UNKNOWN_SESSION || err == ERR_SESSION_EXPIRED;

    if (gone && message->about_session && message->request->args.secret.len > 0) {
        gate_credentials_failed(message->ws->gate, &message->socket->who, GATE_FAILED_SESSION);
    }
}

/* ---- Replies ---- */

static void saw(struct ws_socket *socket, zxid_t zxid)
{
    socket->seen = zxid > socket->seen ? zxid : socket->seen;
}

static bool may_retry(enum err err)
{
    return err == ERR_THROTTLED || err == ERR_NOT_READY || err == ERR_REPLICA_BEHIND ||
           err == ERR_IN_FLIGHT;
}

static enum op_kind kind_of(const struct ws_message *message)
{
    const struct op_request *request = message->request;
    bool is_whole = !message->fault || message->step == WS_BACK; /* It may have been done. */

    return request->def && is_whole ? op_args_kind(&request->args) : OP_KIND_INFO;
}

/* All up to there, and no more, may be claimed at any time. */
static zxid_t told(const struct ws_socket *socket)
{
    return ws_lag_bound(socket, subscribe_at(socket->ws->subscriber));
}

static void reply_problem(struct ws_message *message, struct op_problem *problem)
{
    struct ws_socket *socket = message->socket;
    const struct op_request *request = message->request;
    struct jsonw json;

    problem->message = true;
    problem->path = request->def ? request->args.path : slice_make(NULL, 0);
    problem->zxid = problem->zxid ? problem->zxid : told(socket);
    if (may_retry(problem->err) && problem->retry_after_ms == 0) {
        problem->retry_after_ms = RETRY_AFTER_MS;
    }
    count_secret(message, problem->err);
    if (problem->err == ERR_NO_AUTH && !socket->who.auth) {
        problem->status = STATUS_UNAUTHORIZED;
    }
    json = ws_out_begin(socket->ws);
    op_json_reply_error(&json, &message->id, problem);
    (void)ws_out_reply(socket); /* A problem is never that large. */
    count(message, true);
}

void ws_reply_error(struct ws_message *message, enum err err, const char *detail)
{
    struct op_problem problem = op_problem_make(kind_of(message), err);

    problem.detail = detail;
    reply_problem(message, &problem);
}

static void reply_fault(struct ws_message *message)
{
    const struct op_fault *fault = message->fault;
    struct op_problem problem = op_problem_make(kind_of(message), fault->err);

    problem.detail = fault->detail[0] != '\0' ? fault->detail : NULL;
    problem.has_index = fault->has_index;
    problem.index = fault->index;
    reply_problem(message, &problem);
}

void ws_reply_failure(struct ws_message *message, const struct op_result *result)
{
    const struct op_args *args = &message->request->args;
    struct op_problem problem = op_problem_make(kind_of(message), result->err);
    zxid_t most = told(message->socket);

    gate_credentials_refused(message->ws->gate, message->request);
    problem.detail = result->detail;
    problem.retry_after_ms = result->retry_after_ms;
    problem.zxid = result->zxid < most ? result->zxid : most;
    saw(message->socket, problem.zxid);
    problem.has_index = args->op_count > 0 && result->failed_index < args->op_count;
    problem.index = result->failed_index;
    problem.result = result;
    problem.args = args;
    reply_problem(message, &problem);
}

/* What was read may be asked for again, and has large values; the reply to a write has none, and
 * must be given. */
static struct jsonw begin_result(struct ws *ws, bool is_read)
{
    struct jsonw json;

    text_clear(&ws->answer, TEXT_FREE_BYTES);
    if (is_read) {
        jsonw_init_text(&json, &ws->answer);
    } else {
        jsonw_init(&json, &ws->answer.own);
    }
    return json;
}

bool ws_reply_result(struct ws_message *message, const struct op_result *result, uint32_t watch)
{
    const struct op_args *args = &message->request->args;
    bool is_read = op_args_kind(args) == OP_KIND_READ;
    struct jsonw json = begin_result(message->ws, is_read);
    enum err err = ERR_OK;

    if (op_json_reply(&json, message->id.number, args, result, watch) != ERR_OK) {
        text_clear(&message->ws->answer, TEXT_FREE_BYTES);
        ws_reply_error(message, ERR_NOT_ACCEPTABLE, "the data is not what dataformat asks for");
        return false;
    }
    err = ws_out_answer(message->socket, is_read);
    if (err != ERR_OK) {
        ws_reply_error(message, err,
                       err == ERR_THROTTLED
                           ? "too much waits for clients that do not read (maxUnsentBytes)"
                           : "the answer would be too large; ask for less");
        return false;
    }
    saw(message->socket, result->zxid);
    count(message, false);
    return true;
}

void ws_reply(struct ws_message *message, const struct op_result *result)
{
    (void)ws_reply_result(message, result, 0);
}

void ws_reply_watch(struct ws_message *message, const struct subscribe_result *result)
{
    struct jsonw json = ws_out_begin(message->ws);

    op_json_reply_watch(&json, message->id.number, result);
    (void)ws_out_reply(message->socket);
    saw(message->socket, result->zxid);
    count(message, false);
}

/* ---- What the reply shows is told first ---- */

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
        ws_refuse(message, ERR_REPLICA_BEHIND, taking_over);
    } else if (request->result.err == ERR_OK) {
        ws_refuse(message, ERR_OUTCOME_UNKNOWN, taking_over);
    } else {
        ws_refuse(message, request->result.err, err_text(request->result.err));
    }
}

bool ws_is_told(struct ws_message *message, zxid_t until)
{
    if (ws_tell_before(message->socket, until)) {
        return true;
    }
    if (!list_empty(&message->socket->untold)) {
        refuse_late(message);
    }
    return false;
}

/* ---- Reads ---- */

/* What the client has seen or demands, and what the gate has waited for. The state may have been
 * put back by a snapshot since. */
static zxid_t least_zxid(const struct ws_message *message)
{
    const struct op_request *request = message->request;
    zxid_t least = message->socket->seen;

    least = request->min_zxid > least ? request->min_zxid : least;
    return message->asked && request->wait_zxid > least ? request->wait_zxid : least;
}

/* The one-shot kind that goes with a read. */
static enum watch_kind kind_by_shape(enum op_shape shape)
{
    if (shape == OP_SHAPE_CHILDREN) {
        return WATCH_CHILDREN;
    }
    return shape == OP_SHAPE_EXISTS ? WATCH_EXISTS : WATCH_DATA;
}

/* Begins right behind the state that was read. */
static void reply_and_watch(struct ws_message *message, const struct op_result *result)
{
    const struct op_request *request = message->request;
    const struct subscribe_request watch = {.kind = kind_by_shape(request->def->shape),
                                            .path = request->args.path,
                                            .since = result->zxid};
    enum err err = ws_tell_watch(message, result, &watch);

    if (err != ERR_OK) {
        ws_reply_error(message, err, err == ERR_THROTTLED ? too_many_watches : NULL);
    }
}

/* False: there is something to be told first, and then it is read again. */
static bool reply_read(struct ws_message *message, const struct op_result *result)
{
    const struct op_request *request = message->request;
    zxid_t upto = result->upto > result->zxid ? result->upto : result->zxid;

    if (result->has_session) {
        gate_touch(message->ws->gate, result->session.id);
    }
    if (!ws_is_told(message, upto)) {
        return false;
    }
    saw(message->socket, upto);
    if (!op_json_is_answer(request->args.op, result->err)) {
        ws_reply_failure(message, result);
    } else if (request->args.watch) {
        reply_and_watch(message, result);
    } else {
        ws_reply(message, result);
    }
    return true;
}

/* Has the gate wait until this replica is far enough; the message runs again after that. */
static bool ask(struct ws_message *message)
{
    message->asked = true;
    (void)ws_queue_submit(message);
    return false;
}

/* A session that this replica has not heard of may be known behind a round. */
static bool may_ask_again(struct ws_message *message, const struct op_result *result)
{
    if (result->err != ERR_UNKNOWN_SESSION || message->asked) {
        return false;
    }
    message->request->consistency = OP_LINEARIZABLE;
    return true;
}

static bool read_now(struct ws_message *message)
{
    struct op_request *request = message->request;
    struct op_result result;
    bool done = true;

    op_result_init(&result);
    request->def->read(gate_view(message->ws->gate), &message->socket->who, &request->args,
                       &result);
    if (may_ask_again(message, &result)) {
        done = ask(message);
    } else if (result.zxid != 0 && result.zxid < least_zxid(message)) {
        ws_reply_error(message, ERR_REPLICA_BEHIND, taking_over);
    } else {
        done = reply_read(message, &result);
    }
    op_result_release(&result);
    return done;
}

/* False, with the reply: this replica may not answer by itself, and the gate was not asked. */
static bool may_answer(struct ws_message *message)
{
    const char *why = NULL;
    enum err err = message->asked ? ERR_OK : gate_check_local(message->ws->gate, &why);

    if (err != ERR_OK) {
        ws_reply_error(message, err, why);
    }
    return err == ERR_OK;
}

static bool run_read(struct ws_message *message)
{
    return !may_answer(message) || read_now(message);
}

/* ---- What the front end does itself ---- */

static bool run_info(struct ws_message *message)
{
    struct ws *ws = message->ws;
    const struct op_def *def = message->request->def;
    struct jsonw json = ws_out_begin(ws);

    op_json_reply_begin(&json, message->id.number, 0);
    jsonw_key(&json, def->name);
    ops_write_info(ws->gate, &message->request->args, &message->socket->who,
                   message->socket->session.id, &json);
    op_json_reply_end(&json);
    (void)ws_out_reply(message->socket);
    count(message, false);
    return true;
}

static void reply_plain(struct ws_message *message)
{
    struct ws *ws = message->ws;
    struct jsonw json;

    ws_tell_changes(ws, ZXID_MAX);
    json = ws_out_begin(ws);
    op_json_reply_begin(&json, message->id.number, told(message->socket));
    op_json_reply_end(&json);
    (void)ws_out_reply(message->socket);
    count(message, false);
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

    /* What is missed since then is a statement about the state, as a read is. */
    if (watch.has_since && !may_answer(message)) {
        return true;
    }
    if (watch.has_since && ws_socket_waits_to_resume(message->socket)) {
        return false;
    }

    enum err err = ws_tell_watch(message, NULL, &watch);

    if (err == ERR_REPLICA_BEHIND && !message->asked) {
        message->request->min_zxid = args->since;
        return ask(message);
    }
    if (err != ERR_OK) {
        ws_reply_error(message, err, err == ERR_THROTTLED ? too_many_watches : NULL);
    }
    return true;
}

static bool run_unwatch(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    struct watch_table *table = subscribe_table(socket->ws->subscriber);
    struct watch *watch = watch_by_id(table, &socket->owner, message->request->args.watch_id);

    if (!watch) {
        ws_reply_error(message, ERR_NOT_FOUND, "this socket has no such watch");
        return true;
    }
    watch_remove(table, watch);
    reply_plain(message);
    return true;
}

/* False, with the reply: this user has to wait at this address. */
static bool may_show(struct ws_message *message, struct auth *auth)
{
    const struct ws_socket *socket = message->socket;
    uint32_t known = socket->who.auth ? socket->who.auth->count : 0;
    struct op_principal who = socket->who;
    struct op_problem problem = op_problem_make(kind_of(message), ERR_THROTTLED);

    who.auth = auth;
    problem.detail = gate_credentials_slowed;
    problem.retry_after_ms = gate_credentials_wait(message->ws->gate, &who, known);
    if (problem.retry_after_ms > 0) {
        reply_problem(message, &problem);
    }
    return problem.retry_after_ms == 0;
}

static void refuse_auth(struct ws_message *message, enum err err)
{
    if (err == ERR_AUTH_FAILED) {
        gate_credentials_failed(message->ws->gate, &message->socket->who, GATE_FAILED_MALFORMED);
    }
    /* A full list stays full for as long as the socket lives: trying again is of no use. */
    ws_reply_error(message, err == ERR_FULL ? ERR_BAD_ARGUMENTS : err,
                   err == ERR_FULL ? "this socket has shown too many identities"
                                   : "the scheme must be digest, the credential user:password");
}

static bool run_auth(struct ws_message *message)
{
    struct ws_socket *socket = message->socket;
    const struct op_args *args = &message->request->args;
    struct auth *auth = NULL;
    enum err err = auth_add(socket->who.auth, args->scheme, args->credential,
                            socket->ws->limits->super_digest, &auth);

    if (err != ERR_OK) {
        refuse_auth(message, err);
        return true;
    }
    if (!may_show(message, auth)) {
        auth_unref(auth);
        return true;
    }
    auth_unref(socket->who.auth);
    socket->who.auth = auth;
    reply_plain(message);
    return true;
}

static bool run_detach(struct ws_message *message)
{
    ws_session_detach(message->socket);
    reply_plain(message);
    return true;
}

static bool run_ping(struct ws_message *message)
{
    reply_plain(message);
    return true;
}

/* The rows that a front end does itself: the only ones known here. */
static const struct {
    enum op_id id;
    bool (*run)(struct ws_message *message);
} front[] = {
    {OP_WATCH, run_watch},   {OP_UNWATCH, run_unwatch}, {OP_AUTH, run_auth},
    {OP_DETACH, run_detach}, {OP_PING, run_ping},
};

static bool run_front(struct ws_message *message)
{
    for (size_t i = 0; i < sizeof(front) / sizeof(front[0]); i++) {
        if (front[i].id == message->request->def->id) {
            return front[i].run(message);
        }
    }
    UNREACHABLE();
}

/* ---- All ---- */

/* A sync names all that was told here: a fence that is taken from it must not miss any of that.
 * When the state was put back since the answer of the gate, no less may be shown. */
static void name_fence(const struct ws_message *message, struct op_result *result)
{
    zxid_t fence = told(message->socket);

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
        ws_reply(message, result);
    }
    return true;
}

/* The state that the answer of the gate shows; a sync is no older than what was told before it. */
static zxid_t state_of(const struct ws_message *message)
{
    const struct op_request *request = message->request;
    bool sync = op_args_kind(&request->args) == OP_KIND_SYNC;
    zxid_t seen = message->socket->seen;

    return sync && seen > request->result.zxid ? seen : request->result.zxid;
}

/* Has everything been told that the reply shows? The state of what comes from the gate is known,
 * what shows the present waits for all that is missing. */
static bool is_time(struct ws_message *message)
{
    const struct op_request *request = message->request;

    bool read = op_args_kind(&request->args) == OP_KIND_READ;
    bool watch = request->def->id == OP_WATCH;

    if (watch) {
        ws_tell_changes(message->ws, ZXID_MAX); /* It begins here. */
    }
    if ((read || watch) && ws_lag_waits(message)) {
        return false;
    }
    return message->step != WS_BACK || message->about_session ||
           ws_is_told(message, state_of(message));
}

/* Those that are about a session have its secret then. False: there is none. */
static bool prepare(struct ws_message *message)
{
    bool done = message->prepared || !message->about_session;

    message->prepared = true;
    return done || ws_session_prepare(message);
}

/* True when it was, and that is answered. */
static bool was_refused(struct ws_message *message)
{
    if (message->fault) {
        reply_fault(message);
    }
    return message->fault != NULL;
}

static bool run_kind(struct ws_message *message)
{
    switch (op_args_kind(&message->request->args)) {
    case OP_KIND_READ:
        return run_read(message);
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

bool ws_run(struct ws_message *message)
{
    if (was_refused(message)) {
        return true;
    }
    if (message->asked && message->step == WS_NEW) {
        return ask(message); /* The gate had no room. */
    }
    if (!prepare(message)) {
        ws_reply_error(message, ERR_UNKNOWN_SESSION, "no session is attached to this socket");
        return true;
    }
    if (message->asked && message->request->result.err != ERR_OK) {
        ws_tell_changes(message->ws, message->request->result.zxid);
        ws_reply_failure(message, &message->request->result);
        return true;
    }
    return (is_time(message) && run_kind(message)) || was_refused(message);
}
