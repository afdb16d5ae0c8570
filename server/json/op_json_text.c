/* Shared by the parsers: the tree of values, its strings, and faults. */
#include "base/check.h"
#include "server/json/op_json_int.h"

#include <jansson.h>
#include <stdio.h>

enum err op_json_fail(struct op_json_parse *parse, enum err err, const char *key, const char *why)
{
    parse->fault->err = err;
    (void)snprintf(parse->fault->detail, sizeof(parse->fault->detail), "%.100s %s", key, why);
    return err;
}

/* There is room for all strings of the text together, so slices stay valid. */
struct slice op_json_keep(struct op_json_parse *parse, struct slice text)
{
    struct buf *memory = parse->memory;
    uint8_t *to = memory->data + memory->len;

    ASSERT(text.len <= memory->cap - memory->len);
    if (text.len > 0) {
        memcpy(to, text.data, text.len);
    }
    memory->len += text.len;
    return slice_make(to, text.len);
}

struct slice op_json_string(const json_t *value)
{
    return slice_make(json_string_value(value), json_string_length(value));
}

static json_t *load(struct slice text, json_error_t *ret_error)
{
    return json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                      ret_error);
}

json_t *op_json_load(struct op_json_parse *parse, struct slice text)
{
    const char *what = parse->message ? "the message" : "the body";
    json_error_t error;

    if (text.len == 0) {
        op_json_fail(parse, ERR_BAD_ARGUMENTS, what, "is empty");
        return NULL;
    }

    json_t *root = load(parse->scan->lean, &error);

    if (!root) {
        /* Parses the whole text again, for the line and column that the client counts. */
        json_decref(load(text, &error));
        (void)snprintf(parse->fault->detail, sizeof(parse->fault->detail),
                       "%s is not valid JSON: %.100s (line %d, column %d)", what, error.text,
                       error.line, error.column);
        parse->fault->err = ERR_BAD_ARGUMENTS;
        return NULL;
    }
    if (!json_is_object(root)) {
        op_json_fail(parse, ERR_BAD_ARGUMENTS, what, "must be a JSON object");
        json_decref(root);
        return NULL;
    }
    return root;
}
