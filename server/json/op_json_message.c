/* Messages of a WebSocket: one operation and its envelope. */
#include "base/check.h"
#include "server/json/op_json_int.h"

#include <jansson.h>

static void take_id(const json_t *root, struct op_message_id *ret_id)
{
    const json_t *value = json_object_get(root, "id");
    json_int_t number = json_integer_value(value);

    if (json_is_integer(value) && number >= 0 && number <= OP_JSON_NUMBER_MAX) {
        *ret_id = (struct op_message_id){.known = true, .number = (uint64_t)number};
    }
}

static enum err take_consistency(struct op_json_parse *parse, const json_t *value,
                                 struct op_request *request)
{
    struct slice text = op_json_string(value);

    if (value && slice_eq(text, slice_str("linearizable"))) {
        request->consistency = OP_LINEARIZABLE;
    } else if (value && !slice_eq(text, slice_str("local"))) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "consistency",
                            "must be local or linearizable");
    }
    return ERR_OK;
}

static enum err take_key(struct op_json_parse *parse, const json_t *value,
                         struct op_request *request)
{
    if (!value) {
        return ERR_OK;
    }
    if (json_string_length(value) == 0 || json_string_length(value) > TXN_KEY_MAX) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "key", "must be text of 1 to 256 bytes");
    }
    request->key = op_json_keep(parse, op_json_string(value));
    return ERR_OK;
}

static enum err take_min_zxid(struct op_json_parse *parse, const json_t *value,
                              struct op_request *request)
{
    json_int_t number = json_integer_value(value);

    if (!value ||
        (json_is_string(value) && op_zxid_parse(op_json_string(value), &request->min_zxid))) {
        return ERR_OK;
    }
    if (!json_is_integer(value) || number < 0) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "min_zxid", "must be a zxid");
    }
    request->min_zxid = (zxid_t)number;
    return ERR_OK;
}

/* The envelope. */
static enum err take_frame(struct op_json_parse *parse, const json_t *root,
                           struct op_request *request)
{
    enum err err = take_consistency(parse, json_object_get(root, "consistency"), request);

    if (err == ERR_OK) {
        err = take_key(parse, json_object_get(root, "key"), request);
    }
    if (err == ERR_OK) {
        err = take_min_zxid(parse, json_object_get(root, "min_zxid"), request);
    }
    return err;
}

/* The operation's own members. */
static enum err take_operation(struct op_json_parse *parse, json_t *root,
                               struct op_request *request)
{
    struct op_args *args = &request->args;
    const char *why = NULL;
    enum err err = ERR_OK;

    op_args_init(args, request->def->id);
    args->dataformat = OP_AUTO;
    if (request->def->id == OP_MULTI) {
        return op_json_parse_multi(parse, root, args, &request->multi);
    }
    err = op_json_parse_object(parse, request->def, root, args);
    if (err == ERR_OK && op_args_check(args, &why) != ERR_OK) {
        err = op_json_fail(parse, ERR_BAD_ARGUMENTS, "not possible:", why);
    }
    return err;
}

static enum err take_root(struct op_json_parse *parse, json_t *root, struct op_request *request,
                          struct op_message_id *ret_id)
{
    const json_t *name = json_object_get(root, "op");

    take_id(root, ret_id);
    if (!ret_id->known) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "id",
                            "must be given as a whole number from 0 to 2^53");
    }
    if (!json_is_string(name)) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "op", "must be given as a string");
    }
    request->def = ops_by_name(op_json_string(name));
    if (request->def && op_is_http_only(request->def->id)) {
        request->def = NULL;
        return op_json_fail(parse, ERR_UNIMPLEMENTED, json_string_value(name),
                            "is available over HTTP only, not over a WebSocket");
    }
    if (!request->def || op_is_internal(request->def->id)) {
        request->def = NULL;
        return op_json_fail(parse, ERR_UNIMPLEMENTED, json_string_value(name),
                            "is not an operation");
    }

    enum err err = take_frame(parse, root, request);

    return err == ERR_OK ? take_operation(parse, root, request) : err;
}

enum err op_json_parse_message(struct slice text, struct op_request *request,
                               struct op_message_id *ret_id, struct op_fault *ret_fault)
{
    struct op_json_parse parse = {
        .memory = &request->memory, .what = "the message", .message = true, .fault = ret_fault};

    ASSERT(!request->multi && !request->def);
    *ret_id = (struct op_message_id){.known = false};

    json_t *root = op_json_begin(&parse, text);
    enum err err = root ? take_root(&parse, root, request, ret_id) : ret_fault->err;

    op_json_end(&parse, root);
    return err;
}
