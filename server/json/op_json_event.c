/* Messages of the server. Replies have the order and the ids of the client's messages. Events have
 * no request: changes, heartbeats, and the end of a connection or stream. */
#include "server/json/op_json_int.h"

/* ---- Replies. ---- */

static void begin_reply(struct jsonw *json, const struct op_message_id *id, bool ok)
{
    jsonw_object(json);
    jsonw_key(json, "id");
    if (id->known) {
        jsonw_u64(json, id->number);
    } else {
        jsonw_null(json);
    }
    jsonw_kv_bool(json, "ok", ok);
}

void op_json_reply_begin(struct jsonw *json, uint64_t id, zxid_t zxid)
{
    begin_reply(json, &(struct op_message_id){.known = true, .number = id}, true);
    if (zxid != 0) {
        jsonw_kv_hex(json, "zxid", zxid);
    }
}

void op_json_reply_end(struct jsonw *json)
{
    jsonw_object_end(json);
}

enum err op_json_reply(struct jsonw *json, uint64_t id, const struct op_args *args,
                       const struct op_result *result, uint32_t watch_id)
{
    struct op_json_style style = {.message = true};
    enum err err = ERR_OK;

    ASSERT(op_json_is_answer(args->op, result->err));
    op_json_reply_begin(json, id, result->zxid);
    if (args->op == OP_MULTI) {
        err = op_json_results(json, args, result, true);
    } else {
        err = op_json_members(json, args, result, &style);
    }
    if (watch_id != 0) {
        jsonw_kv_u64(json, "watch", watch_id);
    }
    if (result->replayed) {
        jsonw_kv_bool(json, "replayed", true);
    }
    op_json_reply_end(json);
    return err;
}

void op_json_reply_watch(struct jsonw *json, uint64_t id, const struct subscribe_result *result)
{
    op_json_reply_begin(json, id, result->zxid);
    jsonw_kv_u64(json, "watch", result->id);
    if (result->resumed != SUBSCRIBE_FRESH) {
        jsonw_kv_cstr(json, "resumed", subscribe_resumed_name(result->resumed));
    }
    op_json_reply_end(json);
}

void op_json_reply_error(struct jsonw *json, const struct op_message_id *id,
                         const struct op_problem *problem)
{
    ASSERT(problem->message);

    begin_reply(json, id, false);
    jsonw_key(json, "error");
    op_json_problem(json, problem);
    jsonw_object_end(json);
}

/* ---- Events. ---- */

static void begin_event(struct jsonw *json, const char *name)
{
    jsonw_object(json);
    jsonw_kv_cstr(json, "event", name);
}

/* Writes a JSON value in one line, because an event is one line of text. Newlines between the
 * tokens become blanks; a JSON string has no newline inside. */
static void put_one_line(struct jsonw *json, struct slice text)
{
    struct buf line;

    buf_init(&line, text.len);
    buf_append_slice(&line, text);
    for (size_t i = 0; i < line.len; i++) {
        bool ends_line = line.data[i] == '\n' || line.data[i] == '\r';

        line.data[i] = ends_line ? ' ' : line.data[i];
    }
    jsonw_key(json, "dataJson");
    jsonw_raw(json, buf_slice(&line));
    buf_release(&line);
}

/* Writes the data of an event. An event cannot be refused, so data that does not fit the wanted
 * format is shown in one that does. */
static void put_data(struct jsonw *json, struct blob *data, enum op_dataformat format)
{
    if (data && format == OP_JSON && op_json_valid(blob_slice(data))) {
        put_one_line(json, blob_slice(data));
        return;
    }

    bool exact = format == OP_BASE64 || format == OP_NONE;
    enum err err = op_json_data(json, data, exact ? format : OP_AUTO);

    ASSERT(err == ERR_OK);
}

static void put_watches(struct jsonw *json, const uint32_t *watches, size_t count)
{
    if (!watches) {
        return;
    }
    jsonw_kv_array(json, "watches");
    for (size_t i = 0; i < count; i++) {
        jsonw_u64(json, watches[i]);
    }
    jsonw_array_end(json);
}

void op_json_event(struct jsonw *json, const struct watch_event *event, const struct watch *hits,
                   bool values, enum op_dataformat format)
{
    bool exists = event->type != WATCH_DELETED;

    begin_event(json, watch_event_name(event->type));
    if (hits) {
        jsonw_kv_array(json, "watches");
        for (const struct watch *hit = hits; hit; hit = hit->hit_next) {
            jsonw_u64(json, hit->id);
        }
        jsonw_array_end(json);
    }
    jsonw_kv_string(json, "path", event->path);
    jsonw_kv_hex(json, "zxid", event->zxid);
    jsonw_kv_bool(json, "end", event->last);
    if (event->diff) {
        jsonw_kv_bool(json, "diff", true);
    }
    if (values && exists && event->change) {
        op_json_stat_object(json, &event->change->stat, true);
        put_data(json, event->change->data, format);
    }
    jsonw_object_end(json);
}

void op_json_hello(struct jsonw *json, const struct op_hello *hello)
{
    begin_event(json, "hello");
    jsonw_kv_cstr(json, "protocol", OP_PROTOCOL);
    jsonw_kv_u64(json, "server", hello->server);
    jsonw_kv_cstr(json, "role", hello->role);
    op_json_history(json, hello->history);
    jsonw_kv_hex(json, "zxid", hello->zxid);
    jsonw_kv_u64(json, "heartbeat_ms", hello->heartbeat_ms);
    jsonw_key(json, "limits");
    jsonw_raw(json, hello->limits);
    if (hello->identity_required) {
        jsonw_kv_bool(json, "identity_required", true);
    }
    jsonw_object_end(json);
}

void op_json_heartbeat(struct jsonw *json, zxid_t zxid)
{
    begin_event(json, "heartbeat");
    jsonw_kv_hex(json, "zxid", zxid);
    jsonw_object_end(json);
}

void op_json_overrun(struct jsonw *json, const uint32_t *watches, size_t count, zxid_t from)
{
    begin_event(json, "overrun");
    put_watches(json, watches, count);
    jsonw_kv_hex(json, "from", from);
    jsonw_object_end(json);
}

void op_json_gap(struct jsonw *json, const uint32_t *watches, size_t count, zxid_t zxid)
{
    begin_event(json, "gap");
    put_watches(json, watches, count);
    jsonw_kv_hex(json, "zxid", zxid);
    jsonw_object_end(json);
}

void op_json_session_event(struct jsonw *json, const char *state, uint64_t session, zxid_t zxid)
{
    begin_event(json, "session");
    jsonw_kv_cstr(json, "state", state);
    jsonw_kv_hex(json, "session", session);
    jsonw_kv_hex(json, "zxid", zxid);
    jsonw_object_end(json);
}

void op_json_closing_begin(struct jsonw *json, const char *reason)
{
    begin_event(json, "closing");
    jsonw_kv_cstr(json, "reason", reason);
    jsonw_key(json, "servers");
}
