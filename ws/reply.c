/* Replies: results and problems, each counted in the metrics. */
#include "ws/ws_int.h"

#include <stdio.h>

enum {
    RETRY_AFTER_MS = 1000,
    STATUS_UNAUTHORIZED = 401
};

/* A read that had to wait until its client had received earlier changes waited for the client. The
 * operations of the front end itself are no work of the replica. */
static bool is_slow(const struct ws_message *message, uint64_t now_us)
{
    uint64_t slow_us = (uint64_t)message->ws->limits->slow_request_ms * 1000;
    const struct op_request *request = message->request;

    if (slow_us == 0 || now_us < message->start_us + slow_us || !request->def) {
        return false;
    }
    enum op_kind kind = op_args_kind(&request->args);

    return kind == OP_KIND_WRITE || kind == OP_KIND_SYNC ||
           (kind == OP_KIND_READ && message->waits_since_us == 0);
}

static void note_slow(const struct ws_message *message, enum err err)
{
    const struct op_request *request = message->request;
    const struct ws_socket *socket = message->socket;
    uint64_t now_ms = os_now_ms();
    char number[24];
    const struct gate_slow slow = {
        .front = "ws",
        .def = request->def,
        .is_write = op_args_kind(&request->args) == OP_KIND_WRITE,
        .path = request->args.path,
        .address = socket->principal.address,
        .request = number,
        .session = socket->session.attached.id,
        .trace = slice_str(message->id.trace),
        .err = err,
        .zxid = request->result.zxid,
        .begin_ms = message->start_us / 1000,
        .served_ms = now_ms,
        .end_ms = now_ms,
        .times = request->times,
    };

    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)message->id.number);
    gate_slow(message->ws->gate, &slow);
}

static void count(const struct ws_message *message, enum err err)
{
    const struct op_def *def = message->request->def;

    uint64_t now_us = os_now_us();

    gate_count_op(message->ws->gate, def ? def->id : 0, err != ERR_OK, now_us - message->start_us);
    gate_credentials_seen(message->ws->gate, &message->socket->principal);
    if (is_slow(message, now_us)) {
        note_slow(message, err);
    }
}

/* Counts a failed credential when the message named a session by its secret and there is no such
 * session. */
static void count_secret(const struct ws_message *message, enum err err)
{
    bool gone = err == ERR_UNKNOWN_SESSION || err == ERR_SESSION_EXPIRED;

    if (gone && message->about_session && message->request->args.secret.len > 0) {
        gate_credentials_failed(message->ws->gate, &message->socket->principal,
                                GATE_FAILED_SESSION);
    }
}

static enum op_kind kind_of(const struct ws_message *message)
{
    const struct op_request *request = message->request;
    /* WS_BACK: a write was in the gate before it was refused, so it may have been applied. */
    bool is_whole = !message->fault || message->step == WS_BACK;

    return request->def && is_whole ? op_args_kind(&request->args) : OP_KIND_INFO;
}

/* The path that an answer repeats; none that is too long for a path. */
static struct slice shown_path(const struct op_request *request)
{
    bool is_shown = request->def && request->args.path.len <= STATE_PATH_MAX;

    return is_shown ? request->args.path : slice_make(NULL, 0);
}

static void reply_problem(struct ws_message *message, struct op_problem *problem)
{
    struct ws_socket *socket = message->socket;
    const struct op_request *request = message->request;
    enum err err = problem->err;
    bool may_retry = err == ERR_THROTTLED || err == ERR_NOT_READY || err == ERR_REPLICA_BEHIND ||
                     err == ERR_IN_FLIGHT;
    struct jsonw json;

    problem->message = true;
    problem->path = shown_path(request);
    problem->zxid = problem->zxid ? problem->zxid : ws_order_complete(socket);
    if (may_retry && problem->retry_after_ms == 0) {
        problem->retry_after_ms = RETRY_AFTER_MS;
    }
    if (err == ERR_NO_AUTH && !socket->principal.auth) {
        problem->status = STATUS_UNAUTHORIZED;
    }
    count_secret(message, err);
    gate_refused(socket->ws->gate, &(struct gate_refusal){
                                       .op = request->def ? request->def->name : NULL,
                                       .args = request->def ? &request->args : NULL,
                                       .client = &socket->principal,
                                       .session = socket->session.attached.id,
                                       .has_index = problem->has_index,
                                       .index = problem->index,
                                       .err = err,
                                       .status = problem->status,
                                       .why = problem->detail,
                                   });
    json = ws_out_begin(socket->ws);
    op_json_reply_error(&json, &message->id, problem);
    (void)ws_out_reply(socket); /* A problem is never too large. */
    count(message, err);
}

void ws_reply_error(struct ws_message *message, enum err err, const char *detail)
{
    struct op_problem problem = op_problem_make(kind_of(message), err);

    problem.detail = detail;
    reply_problem(message, &problem);
}

void ws_reply_fault(struct ws_message *message)
{
    struct op_problem problem = op_problem_of_fault(kind_of(message), message->fault);

    reply_problem(message, &problem);
}

void ws_reply_failure(struct ws_message *message, const struct op_result *result)
{
    struct op_problem problem =
        op_problem_of_result(kind_of(message), &message->request->args, result);

    gate_credentials_refused(message->ws->gate, message->request);
    problem.zxid = min_u64(result->zxid, ws_order_complete(message->socket));
    ws_order_saw(message->socket, problem.zxid);
    reply_problem(message, &problem);
}

/* Returns the writer for a result. The reply to a read may refer to large values, and may be
 * refused because its client can repeat the read. The reply to a write has no large values and is
 * never refused. */
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
        ws_reply_error(message, ERR_NOT_ACCEPTABLE,
                       "the data does not fit the requested dataformat; base64 fits any data");
        return false;
    }
    err = ws_out_answer(message->socket, is_read);
    if (err != ERR_OK) {
        ws_reply_error(
            message, err,
            err == ERR_THROTTLED
                ? "memory for unsent replies and events is used up (maxUnsentBytes); try again"
                : "the answer would be larger than 64 MiB: request less at a time");
        return false;
    }
    ws_order_saw(message->socket, result->zxid);
    count(message, ERR_OK);
    return true;
}

void ws_reply_watch(struct ws_message *message, const struct subscribe_result *result)
{
    struct jsonw json = ws_out_begin(message->ws);

    op_json_reply_watch(&json, message->id.number, result);
    (void)ws_out_reply(message->socket);
    ws_order_saw(message->socket, result->zxid);
    count(message, ERR_OK);
}

struct jsonw ws_reply_begin(struct ws_message *message, zxid_t zxid)
{
    struct jsonw json = ws_out_begin(message->ws);

    op_json_reply_begin(&json, message->id.number, zxid);
    return json;
}

void ws_reply_end(struct ws_message *message, struct jsonw *json)
{
    op_json_reply_end(json);
    (void)ws_out_reply(message->socket);
    count(message, ERR_OK);
}

void ws_reply_plain(struct ws_message *message)
{
    struct jsonw json;

    ws_order_pump(message->ws, ZXID_MAX);
    json = ws_reply_begin(message, ws_order_complete(message->socket));
    ws_reply_end(message, &json);
}
