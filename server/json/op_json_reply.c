/* Replies to messages, in the order and with the ids of their messages. */
#include "base/check.h"
#include "server/json/op_json_int.h"

static void begin(struct jsonw *json, const struct op_message_id *id, bool ok)
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
    begin(json, &(struct op_message_id){.known = true, .number = id}, true);
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

    begin(json, id, false);
    jsonw_key(json, "error");
    op_json_problem(json, problem);
    jsonw_object_end(json);
}
