/* Request bodies; the one file of the server that knows jansson. */
#include "base/base64.h"
#include "base/check.h"
#include "base/mem.h"
#include "server/op_json.h"

#include <jansson.h>
#include <stdio.h>

enum {
    LOAD_FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
    ELEMENT_DEPTH = 3, /* Of the members of {"ops":[{...}]}. */
    NUMBER_MAX = 32
};

/* ---- The scan: nesting, and where dataJson values stand. ---- */

struct scan {
    struct slice text;
    size_t pos;
    uint32_t depth;
    uint32_t depth_max;  /* Seen. */
    uint32_t want_depth; /* Depth at which dataJson members are noted. */
    struct slice *found; /* Their values in document order. */
    uint32_t found_count;
    uint32_t found_max;
};

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static void skip_blanks(struct scan *scan)
{
    while (scan->pos < scan->text.len && is_blank(scan->text.data[scan->pos])) {
        scan->pos++;
    }
}

/* At an opening quote; moves behind the closing one and returns what is between, as written. */
static struct slice skip_string(struct scan *scan)
{
    size_t start = ++scan->pos;

    while (scan->pos < scan->text.len && scan->text.data[scan->pos] != '"') {
        scan->pos += scan->text.data[scan->pos] == '\\' ? 2 : 1;
    }

    size_t end = scan->pos < scan->text.len ? scan->pos : scan->text.len;

    scan->pos = end + 1;
    return slice_make(scan->text.data + start, end - start);
}

static void count_bracket(struct scan *scan, uint8_t byte)
{
    if (byte == '{' || byte == '[') {
        scan->depth++;
        scan->depth_max = scan->depth > scan->depth_max ? scan->depth : scan->depth_max;
    } else if ((byte == '}' || byte == ']') && scan->depth > 0) {
        scan->depth--;
    }
}

/* Moves behind one value. */
static void skip_value(struct scan *scan)
{
    uint32_t depth = scan->depth;

    while (scan->pos < scan->text.len) {
        uint8_t byte = scan->text.data[scan->pos];

        if (byte == '"') {
            skip_string(scan);
        } else if (scan->depth == depth && (byte == ',' || byte == '}' || byte == ']')) {
            return;
        } else {
            count_bracket(scan, byte);
            scan->pos++;
        }
    }
}

/* Behind the key of a member: notes the value when it is a dataJson. */
static void scan_member(struct scan *scan, struct slice key)
{
    skip_blanks(scan);
    if (scan->pos >= scan->text.len || scan->text.data[scan->pos] != ':') {
        return;
    }
    scan->pos++;
    if (scan->depth != scan->want_depth || !slice_eq(key, slice_str("dataJson"))) {
        return;
    }
    skip_blanks(scan);

    size_t start = scan->pos;

    skip_value(scan);

    size_t end = scan->pos < scan->text.len ? scan->pos : scan->text.len;

    while (end > start && is_blank(scan->text.data[end - 1])) {
        end--;
    }
    if (scan->found_count < scan->found_max) {
        scan->found[scan->found_count++] = slice_make(scan->text.data + start, end - start);
    }
}

/* Not a validation, jansson does that; it only must not be fooled about depth and places. */
static void scan_run(struct scan *scan)
{
    while (scan->pos < scan->text.len) {
        uint8_t byte = scan->text.data[scan->pos];

        if (byte == '"') {
            scan_member(scan, skip_string(scan));
            continue;
        }
        count_bracket(scan, byte);
        scan->pos++;
    }
}

bool op_json_valid(struct slice text)
{
    struct scan scan = {.text = text};

    scan_run(&scan);
    if (scan.depth_max > OP_JSON_DEPTH_MAX) {
        return false;
    }

    json_t *value =
        json_loadb((const char *)text.data, text.len, LOAD_FLAGS | JSON_DECODE_ANY, NULL);

    json_decref(value);
    return value != NULL;
}

/* ---- The tree of values into arguments, by the descriptors of the row. ---- */

struct parse {
    struct buf *memory;
    struct slice *raw; /* dataJson values, in order. */
    uint32_t raw_count;
    uint32_t raw_next;
    struct op_fault *fault;
};

static enum err fail(struct parse *parse, enum err err, const char *key, const char *why)
{
    parse->fault->err = err;
    (void)snprintf(parse->fault->detail, sizeof(parse->fault->detail), "%.100s %s", key, why);
    return err;
}

/* Copies into memory that was reserved for all strings together, so that slices stay valid. */
static struct slice keep(struct parse *parse, struct slice text)
{
    uint8_t *to = buf_reserve(parse->memory, text.len);

    ASSERT(to);
    if (text.len > 0) {
        memcpy(to, text.data, text.len);
    }
    parse->memory->len += text.len;
    return slice_make(to, text.len);
}

static struct slice string_of(const json_t *value)
{
    return slice_make(json_string_value(value), json_string_length(value));
}

/* Scalars become the text that a query parameter would have, so that one parser has the limits. */
static bool scalar_text(const struct op_field *field, const json_t *value, char number[NUMBER_MAX],
                        struct slice *ret_text)
{
    bool wants_text = field->type == OP_FIELD_PATH || field->type == OP_FIELD_TEXT ||
                      field->type == OP_FIELD_WITH || field->type == OP_FIELD_DATAFORMAT;

    if (field->type == OP_FIELD_BOOL) {
        *ret_text = slice_str(json_is_true(value) ? "true" : "false");
        return json_is_boolean(value);
    }
    if (wants_text) {
        *ret_text = string_of(value);
        return json_is_string(value);
    }
    (void)snprintf(number, NUMBER_MAX, "%lld", (long long)json_integer_value(value));
    *ret_text = slice_str(number);
    return json_is_integer(value);
}

static enum err parse_scalar(struct parse *parse, const struct op_field *field, const json_t *value,
                             struct op_args *args)
{
    char number[NUMBER_MAX];
    struct slice text;
    const char *why = NULL;

    if (!scalar_text(field, value, number, &text)) {
        return fail(parse, ERR_BAD_ARGUMENTS, field->name, "has the wrong type");
    }
    if (field->type == OP_FIELD_PATH || field->type == OP_FIELD_TEXT) {
        text = keep(parse, text);
    }

    enum err err = op_field_parse(field, text, args, &why);

    return err == ERR_OK ? ERR_OK : fail(parse, err, field->name, why);
}

static enum err parse_base64(struct parse *parse, const json_t *value, struct slice *ret_data)
{
    size_t start = parse->memory->len;

    if (base64_decode(parse->memory, string_of(value)) != ERR_OK) {
        return fail(parse, ERR_BAD_ARGUMENTS, "data64", "is not base64");
    }
    *ret_data = slice_make(parse->memory->data + start, parse->memory->len - start);
    return ERR_OK;
}

static enum err parse_data(struct parse *parse, const char *key, const json_t *value,
                           struct slice *ret_data)
{
    if (strcmp(key, "dataJson") == 0) {
        /* A key written with escapes was not found by the scan. */
        if (parse->raw_next >= parse->raw_count) {
            return fail(parse, ERR_BAD_ARGUMENTS, key, "must be written without escapes");
        }
        *ret_data = parse->raw[parse->raw_next++];
        return ERR_OK;
    }
    if (!json_is_string(value)) {
        return fail(parse, ERR_BAD_ARGUMENTS, key, "must be a string");
    }
    if (strcmp(key, "data64") == 0) {
        return parse_base64(parse, value, ret_data);
    }
    *ret_data = keep(parse, string_of(value));
    return ERR_OK;
}

static bool is_data_key(const char *key)
{
    return strcmp(key, "data64") == 0 || strcmp(key, "dataUtf8") == 0 ||
           strcmp(key, "dataJson") == 0;
}

/* The field behind a member's name: neither headers nor what only a URL has. */
static const struct op_field *member_field(const struct op_def *def, const char *key)
{
    const struct op_field *field = op_field_find(def, slice_str(key));
    bool outside = field && (field->source == OP_FROM_HEADER || field->type == OP_FIELD_NAME ||
                             field->type == OP_FIELD_BYTES || field->type == OP_FIELD_OPS ||
                             field->type == OP_FIELD_ACL || field->source == OP_FROM_NOWHERE);

    return outside ? NULL : field;
}

static enum err parse_member(struct parse *parse, const struct op_def *def, const char *key,
                             const json_t *value, struct op_args *args)
{
    const struct op_field *field = member_field(def, key);
    bool takes_data = op_field_find(def, slice_str("data")) != NULL;

    if (strcmp(key, "op") == 0) {
        return ERR_OK;
    }
    if (takes_data && is_data_key(key)) {
        return parse_data(parse, key, value, &args->data);
    }
    if (field) {
        return parse_scalar(parse, field, value, args);
    }
    if (strcmp(key, "acl") == 0) {
        return fail(parse, ERR_UNIMPLEMENTED, key, "is not supported by this version");
    }
    return fail(parse, ERR_BAD_ARGUMENTS, key, "is not a member of this operation");
}

static enum err parse_object(struct parse *parse, const struct op_def *def, json_t *object,
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
        return fail(parse, ERR_BAD_ARGUMENTS, "data64, dataUtf8 and dataJson",
                    "exclude each other");
    }
    /* A create without data makes a znode with empty data, as a POST without a body does. */
    if (data_members == 0 && def->id == OP_SET && !args->data_null) {
        return fail(parse, ERR_BAD_ARGUMENTS, "data64, dataUtf8, dataJson or null=true",
                    "must be given");
    }
    return ERR_OK;
}

static enum err check_element(struct parse *parse, struct op_args *item)
{
    struct op_args alone = {.op = OP_MULTI, .ops = item, .op_count = 1};
    const char *why = NULL;
    enum err err = ERR_OK;

    if (item->path.len == 0) {
        return fail(parse, ERR_BAD_ARGUMENTS, "path", "must be given");
    }
    err = op_args_check(&alone, &why);
    return err == ERR_OK ? ERR_OK : fail(parse, err, "not possible:", why);
}

static enum err parse_element(struct parse *parse, json_t *value, struct op_args *item)
{
    const json_t *name = json_object_get(value, "op");
    const struct op_def *def = NULL;

    if (!json_is_object(value) || !json_is_string(name)) {
        return fail(parse, ERR_BAD_ARGUMENTS, "op", "must be given as a string");
    }
    def = ops_by_name(string_of(name));
    if (!def || def->id == OP_MULTI) {
        return fail(parse, ERR_BAD_ARGUMENTS, json_string_value(name),
                    "is not an operation of a multi");
    }
    op_args_init(item, def->id);

    enum err err = parse_object(parse, def, value, item);

    return err == ERR_OK ? check_element(parse, item) : err;
}

static enum err parse_elements(struct parse *parse, json_t *list, struct op_args *items)
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
        return fail(parse, ERR_BAD_ARGUMENTS, "not possible:", why);
    }
    return ERR_OK;
}

static enum err parse_multi(struct parse *parse, json_t *root, struct op_args *args,
                            struct op_args **ret_multi)
{
    json_t *list = json_object_get(root, "ops");
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "ops") != 0) {
            return fail(parse, ERR_BAD_ARGUMENTS, key, "is not a member of this operation");
        }
    }
    if (!json_is_array(list) || json_array_size(list) == 0) {
        return fail(parse, ERR_BAD_ARGUMENTS, "ops", "must be a list that is not empty");
    }
    if (json_array_size(list) > OPS_MULTI_MAX) {
        return fail(parse, ERR_TOO_LARGE, "ops", "has too many elements");
    }

    struct op_args *items = mem_zalloc(json_array_size(list), sizeof(*items));
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

static enum err parse_single(struct parse *parse, const struct op_def *def, json_t *root,
                             struct op_args *args)
{
    const json_t *name = json_object_get(root, "op");

    if (name && (!json_is_string(name) || strcmp(json_string_value(name), def->name) != 0)) {
        return fail(parse, ERR_BAD_ARGUMENTS, "op", "does not fit the URL");
    }
    return parse_object(parse, def, root, args);
}

static enum err parse_root(struct parse *parse, const struct op_def *def, struct slice text,
                           struct op_args *args, struct op_args **ret_multi)
{
    json_error_t error;
    enum err err = ERR_OK;

    if (text.len == 0) {
        return fail(parse, ERR_BAD_ARGUMENTS, "the body", "is empty");
    }

    json_t *root = json_loadb((const char *)text.data, text.len, LOAD_FLAGS, &error);

    if (!root) {
        (void)snprintf(parse->fault->detail, sizeof(parse->fault->detail),
                       "the body is not valid JSON: %.100s (line %d, column %d)", error.text,
                       error.line, error.column);
        parse->fault->err = ERR_BAD_ARGUMENTS;
        return ERR_BAD_ARGUMENTS;
    }
    if (!json_is_object(root)) {
        err = fail(parse, ERR_BAD_ARGUMENTS, "the body", "must be a JSON object");
    } else if (def->id == OP_MULTI) {
        err = parse_multi(parse, root, args, ret_multi);
    } else {
        err = parse_single(parse, def, root, args);
    }
    json_decref(root);
    return err;
}

/* Each one takes at least its key in the text. */
static uint32_t found_max(const struct op_def *def, struct slice text)
{
    size_t most = text.len / sizeof("\"dataJson\":");

    if (def->id != OP_MULTI) {
        return 1;
    }
    return most < OPS_MULTI_MAX ? (uint32_t)most : OPS_MULTI_MAX;
}

enum err op_json_parse(const struct op_def *def, struct slice text, struct op_args *args,
                       struct buf *memory, struct op_args **ret_multi, struct op_fault *ret_fault)
{
    struct scan scan = {
        .text = text,
        .want_depth = def->id == OP_MULTI ? ELEMENT_DEPTH : 1,
        .found_max = found_max(def, text),
    };
    struct parse parse = {.memory = memory, .fault = ret_fault};
    enum err err = ERR_OK;

    ASSERT(memory->len == 0);
    *ret_multi = NULL;
    *ret_fault = (struct op_fault){.err = ERR_OK};
    scan.found = mem_zalloc(scan.found_max, sizeof(*scan.found));
    scan_run(&scan);
    parse.raw = scan.found;
    parse.raw_count = scan.found_count;
    if (scan.depth_max > OP_JSON_DEPTH_MAX) {
        err = fail(&parse, ERR_BAD_ARGUMENTS, "the body", "is nested too deeply");
    } else if (!buf_reserve(memory, text.len)) {
        err = fail(&parse, ERR_TOO_LARGE, "the body", "is too large");
    } else {
        err = parse_root(&parse, def, text, args, ret_multi);
    }
    mem_free(scan.found);
    return err;
}
