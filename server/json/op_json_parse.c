/* Parses request bodies and WebSocket messages into arguments. First jansson parses the text into a
 * tree of values. Then each member of an object is parsed as a field of the operation. */
#include "base/base64.h"
#include "base/mem.h"
#include "server/json/op_json_int.h"

#include <jansson.h>
#include <stdio.h>

static json_t *load(struct slice text, json_error_t *ret_error)
{
    return json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                      ret_error);
}

json_t *op_json_begin(struct op_json_parse *parse, struct slice text)
{
    json_error_t error;

    ASSERT(parse->memory->len == 0);
    *parse->fault = (struct op_fault){.err = ERR_OK};
    op_json_scan(text, &parse->scan);
    if (parse->scan.too_deep) {
        op_json_fail(parse, ERR_BAD_ARGUMENTS, parse->what, "is nested more than 64 levels deep");
        return NULL;
    }
    if (!buf_reserve(parse->memory, text.len)) {
        op_json_fail(parse, ERR_TOO_LARGE, parse->what, "is too large");
        return NULL;
    }
    if (text.len == 0) {
        op_json_fail(parse, ERR_BAD_ARGUMENTS, parse->what, "is empty");
        return NULL;
    }

    json_t *root = load(parse->scan.lean, &error);

    if (!root) {
        /* Parses the client's text again: the line and column must be those in this text, and the
         * lean text lacks the long strings. */
        json_decref(load(text, &error));
        (void)snprintf(parse->fault->detail, sizeof(parse->fault->detail),
                       "%s is not valid JSON: %.100s (line %d, column %d)", parse->what, error.text,
                       error.line, error.column);
        parse->fault->err = ERR_BAD_ARGUMENTS;
    } else if (!json_is_object(root)) {
        op_json_fail(parse, ERR_BAD_ARGUMENTS, parse->what, "must be a JSON object");
        json_decref(root);
        root = NULL;
    }
    return root;
}

void op_json_end(struct op_json_parse *parse, json_t *root)
{
    json_decref(root);
    op_json_scan_release(&parse->scan);
}

/* ---- One object. ---- */

enum {
    NUMBER_MAX = 32
};

/* The JSON form of a field. */
enum form {
    FORM_NONE, /* Not a scalar (an ACL, data, elements), or never in JSON. */
    FORM_BOOL,
    FORM_NUMBER,
    FORM_TEXT,
    FORM_EITHER, /* A number, or text for large values. */
    FORM_BOUND,  /* A number, or null. */
    FORM_IDS     /* An array of ids of members, which is no scalar. */
};

static const enum form forms[OP_FIELD_TYPES] = {
    [OP_FIELD_BOOL] = FORM_BOOL,     [OP_FIELD_I32] = FORM_NUMBER,
    [OP_FIELD_U32] = FORM_NUMBER,    [OP_FIELD_I64] = FORM_NUMBER,
    [OP_FIELD_PATH] = FORM_TEXT,     [OP_FIELD_TEXT] = FORM_TEXT,
    [OP_FIELD_WITH] = FORM_TEXT,     [OP_FIELD_DATAFORMAT] = FORM_TEXT,
    [OP_FIELD_SECRET] = FORM_TEXT,   [OP_FIELD_KIND] = FORM_TEXT,
    [OP_FIELD_CONFLICT] = FORM_TEXT, [OP_FIELD_SINCE] = FORM_EITHER,
    [OP_FIELD_U64] = FORM_EITHER,    [OP_FIELD_BOUND] = FORM_BOUND,
    [OP_FIELD_MEMBER] = FORM_NUMBER, [OP_FIELD_ROLE] = FORM_TEXT,
    [OP_FIELD_IDS] = FORM_IDS,
};

/* Turns a scalar into the text of a query parameter, which op_field_parse then checks. */
static bool scalar_text(enum form form, const json_t *value, char number[NUMBER_MAX],
                        struct slice *ret_text)
{
    if (form == FORM_BOOL) {
        *ret_text = slice_str(json_is_true(value) ? "true" : "false");
        return json_is_boolean(value);
    }
    if (form == FORM_TEXT || (form == FORM_EITHER && json_is_string(value))) {
        *ret_text = op_json_string(value);
        return json_is_string(value);
    }
    if (form == FORM_BOUND && json_is_null(value)) {
        *ret_text = slice_str("null");
        return true;
    }
    (void)snprintf(number, NUMBER_MAX, "%lld", (long long)json_integer_value(value));
    *ret_text = slice_str(number);
    return json_is_integer(value);
}

static enum err parse_scalar(struct op_json_parse *parse, const struct op_field *field,
                             const json_t *value, struct op_args *args)
{
    char number[NUMBER_MAX];
    struct slice text;
    const char *why = NULL;

    if (!scalar_text(forms[field->type], value, number, &text)) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, field->name,
                            "has a value of the wrong JSON type");
    }
    if (field->type == OP_FIELD_PATH || field->type == OP_FIELD_TEXT ||
        field->type == OP_FIELD_SECRET) {
        text = op_json_keep(parse, text);
    }

    enum err err = op_field_parse(field, text, args, &why);

    return err == ERR_OK ? ERR_OK : op_json_fail(parse, err, field->name, why);
}

static enum err parse_base64(struct op_json_parse *parse, struct slice text, struct slice *ret_data)
{
    struct buf *memory = parse->memory;
    size_t start = memory->len;

    ASSERT(text.len <= memory->cap - start);
    if (base64_decode(memory, text) != ERR_OK) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "data64", "is not base64");
    }
    *ret_data = slice_make(memory->data + start, memory->len - start);
    return ERR_OK;
}

/* Takes the next value that the scan has found; each data member takes one. Returns false when no
 * value is left, or when the value does not fit the key. */
static bool next_value(struct op_json_parse *parse, const char *key,
                       struct op_json_value *ret_value)
{
    const struct buf *found = parse->in_element ? &parse->scan.elements : &parse->scan.root;

    if (parse->next >= found->len / sizeof(*ret_value)) {
        return false;
    }
    memcpy(ret_value, found->data + parse->next * sizeof(*ret_value), sizeof(*ret_value));
    parse->next++;
    return (ret_value->form == OP_JSON_WRITTEN) == (strcmp(key, "dataJson") == 0);
}

/* Returns bytes of the text; for a message a copy, because the text is not kept. */
static struct slice refer(struct op_json_parse *parse, struct slice text)
{
    return parse->message ? op_json_keep(parse, text) : text;
}

static enum err parse_data(struct op_json_parse *parse, const char *key, const json_t *value,
                           struct op_json_value found, struct op_args *args)
{
    bool plain = found.form == OP_JSON_PLAIN;

    if (found.form == OP_JSON_WRITTEN) {
        args->data = refer(parse, found.text);
        return ERR_OK;
    }
    if (!json_is_string(value)) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, key, "must be a string");
    }
    if (strcmp(key, "data64") == 0) {
        return parse_base64(parse, plain ? found.text : op_json_string(value), &args->data);
    }
    args->data = plain ? refer(parse, found.text) : op_json_keep(parse, op_json_string(value));
    return ERR_OK;
}

static bool is_data_key(const char *key)
{
    return strcmp(key, "data64") == 0 || strcmp(key, "dataUtf8") == 0 ||
           strcmp(key, "dataJson") == 0;
}

/* Returns the field of a member. NULL: the operation has no such field, or its value cannot come
 * from this text (only from a header or a URL, or only from a message). */
static const struct op_field *member_field(const struct op_json_parse *parse,
                                           const struct op_def *def, const char *key)
{
    const struct op_field *field = op_field_find(def, slice_str(key));

    if (!field || field->source == OP_FROM_HEADER || field->source == OP_FROM_NOWHERE ||
        (field->source == OP_FROM_MESSAGE && !parse->message)) {
        return NULL;
    }
    return field->type == OP_FIELD_ACL || forms[field->type] != FORM_NONE ? field : NULL;
}

/* Handles a member that the operation does not have. */
static enum err unknown_member(struct op_json_parse *parse, const struct op_def *def,
                               const char *key)
{
    const struct op_field *field = op_field_find(def, slice_str(key));

    if (field && field->type == OP_FIELD_NAME) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, key,
                            "is only for URLs: give the path of the new znode as the member path");
    }
    return parse->message
               ? ERR_OK
               : op_json_fail(parse, ERR_BAD_ARGUMENTS, key, "is not a member of this operation");
}

static enum err parse_member(struct op_json_parse *parse, const struct op_def *def, const char *key,
                             const json_t *value, struct op_args *args)
{
    const struct op_field *field = member_field(parse, def, key);

    if (strcmp(key, "op") == 0) {
        return ERR_OK;
    }
    if (is_data_key(key)) {
        struct op_json_value found;

        if (!next_value(parse, key, &found)) {
            return op_json_fail(parse, ERR_BAD_ARGUMENTS, key, "is not a member of an operation");
        }
        if (op_field_find(def, slice_str("data"))) {
            return parse_data(parse, key, value, found, args);
        }
    }
    if (field && field->type == OP_FIELD_ACL) {
        args->has_acl = true;
        return op_json_take_acl(parse, value, &args->acl);
    }
    if (field && field->type == OP_FIELD_IDS) {
        return op_json_take_ids(parse, key, value, (void *)((uint8_t *)args + field->offset));
    }
    return field ? parse_scalar(parse, field, value, args) : unknown_member(parse, def, key);
}

enum err op_json_parse_object(struct op_json_parse *parse, const struct op_def *def, json_t *object,
                              struct op_args *args)
{
    uint32_t data_members = 0;
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach(object, key, value)
    {
        enum err err = parse_member(parse, def, key, value, args);

        if (err != ERR_OK) {
            return err;
        }
        data_members += is_data_key(key);
    }
    if (data_members > 1) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "data64, dataUtf8 and dataJson",
                            "exclude each other");
    }
    /* A create without data makes a znode with empty data, as a POST without a body does. */
    if (data_members == 0 && def->id == OP_SET && !args->data_null) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "data64, dataUtf8, dataJson or null=true",
                            "must be given");
    }
    return ERR_OK;
}

/* ---- Bodies: one operation, or the elements of a multi. ---- */

static enum err check_element(struct op_json_parse *parse, struct op_args *item)
{
    struct op_args alone = {.op = OP_MULTI, .ops = item, .op_count = 1};
    const char *why = NULL;
    enum err err = ERR_OK;

    if (item->path.len == 0) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "path", "must be given");
    }
    err = op_args_check(&alone, &why);
    return err == ERR_OK ? ERR_OK : op_json_fail(parse, err, "not possible:", why);
}

static enum err parse_element(struct op_json_parse *parse, json_t *value, struct op_args *item)
{
    const json_t *name = json_object_get(value, "op");
    const struct op_def *def = NULL;

    if (!json_is_object(value) || !json_is_string(name)) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "op", "must be given as a string");
    }
    def = ops_by_name(op_json_string(name));
    if (!def || !op_may_be_in_multi(def->id)) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, json_string_value(name),
                            "is not an operation of a multi");
    }
    op_args_init(item, def->id);
    if (parse->message) {
        item->dataformat = OP_AUTO;
    }

    enum err err = op_json_parse_object(parse, def, value, item);

    return err == ERR_OK ? check_element(parse, item) : err;
}

static enum err parse_elements(struct op_json_parse *parse, json_t *list, struct op_args *items)
{
    const char *why = NULL;
    struct op_args multi = {
        .op = OP_MULTI, .ops = items, .op_count = (uint32_t)json_array_size(list)};

    for (uint32_t i = 0; i < multi.op_count; i++) {
        enum err err = parse_element(parse, json_array_get(list, i), &items[i]);

        if (err != ERR_OK) {
            parse->fault->has_index = true;
            parse->fault->index = i;
            return err;
        }
    }
    if (op_args_check(&multi, &why) != ERR_OK) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "not possible:", why);
    }
    return ERR_OK;
}

static enum err parse_multi(struct op_json_parse *parse, json_t *root, struct op_args *args,
                            struct op_args **ret_multi)
{
    json_t *list = json_object_get(root, "ops");
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "ops") != 0 && !parse->message) {
            return op_json_fail(parse, ERR_BAD_ARGUMENTS, key,
                                "is not allowed in the body of a multi, which has only \"ops\"");
        }
    }
    if (!json_is_array(list) || json_array_size(list) == 0) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "ops", "must be a list that is not empty");
    }
    if (json_array_size(list) > OPS_MULTI_MAX) {
        return op_json_fail(parse, ERR_TOO_LARGE, "ops", "has more than 10000 elements");
    }

    struct op_args *items = mem_zalloc(json_array_size(list), sizeof(*items));

    parse->in_element = true;
    parse->next = 0;

    enum err err = parse_elements(parse, list, items);

    if (err != ERR_OK) {
        mem_free(items);
        return err;
    }
    args->ops = items;
    args->op_count = (uint32_t)json_array_size(list);
    *ret_multi = items;
    return ERR_OK;
}

enum err op_json_parse(const struct op_def *def, struct slice text, struct op_args *args,
                       struct buf *memory, struct op_args **ret_multi, struct op_fault *ret_fault)
{
    struct op_json_parse parse = {.memory = memory, .what = "the body", .fault = ret_fault};
    json_t *root = op_json_begin(&parse, text);
    const json_t *name = json_object_get(root, "op");
    enum err err = ret_fault->err;

    *ret_multi = NULL;
    if (root && def->id == OP_MULTI) {
        err = parse_multi(&parse, root, args, ret_multi);
    } else if (name && (!json_is_string(name) || strcmp(json_string_value(name), def->name) != 0)) {
        err = op_json_fail(&parse, ERR_BAD_ARGUMENTS, "op", "is not the operation of the URL");
    } else if (root) {
        err = op_json_parse_object(&parse, def, root, args);
    }
    op_json_end(&parse, root);
    return err;
}

/* ---- Messages: one operation and its envelope. ---- */

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
        return op_json_fail(
            parse, ERR_BAD_ARGUMENTS, "min_zxid",
            "must be a zxid: a whole number, or a string with 0x and hexadecimal digits");
    }
    request->min_zxid = (zxid_t)number;
    return ERR_OK;
}

/* Takes the members of the envelope. */
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

/* Takes the operation's own members. */
static enum err take_operation(struct op_json_parse *parse, json_t *root,
                               struct op_request *request)
{
    struct op_args *args = &request->args;
    const char *why = NULL;
    enum err err = ERR_OK;

    op_args_init(args, request->def->id);
    args->dataformat = OP_AUTO;
    if (request->def->id == OP_MULTI) {
        return parse_multi(parse, root, args, &request->multi);
    }
    err = op_json_parse_object(parse, request->def, root, args);
    if (err == ERR_OK && op_args_check(args, &why) != ERR_OK) {
        err = op_json_fail(parse, ERR_BAD_ARGUMENTS, "not possible:", why);
    }
    return err;
}

/* A malformed value is ignored, as that of the header. */
static void take_trace(const json_t *value, char trace[OP_TRACE_LEN + 1])
{
    struct slice id = json_is_string(value) ? op_trace_id(op_json_string(value)) : slice_str("");

    if (id.len > 0) {
        memcpy(trace, id.data, OP_TRACE_LEN);
        trace[OP_TRACE_LEN] = '\0';
    }
}

static enum err take_root(struct op_json_parse *parse, json_t *root, struct op_request *request,
                          struct op_message_id *ret_id)
{
    const json_t *name = json_object_get(root, "op");
    const json_t *id = json_object_get(root, "id");
    json_int_t number = json_integer_value(id);

    ret_id->known = json_is_integer(id) && number >= 0 && number <= OP_JSON_NUMBER_MAX;
    ret_id->number = ret_id->known ? (uint64_t)number : 0;
    take_trace(json_object_get(root, "traceparent"), ret_id->trace);
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
