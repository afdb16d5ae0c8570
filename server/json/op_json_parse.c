/* Request bodies: one operation, or the elements of a multi. */
#include "base/check.h"
#include "base/mem.h"
#include "server/json/op_json_int.h"

#include <jansson.h>

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

enum err op_json_parse_multi(struct op_json_parse *parse, json_t *root, struct op_args *args,
                             struct op_args **ret_multi)
{
    json_t *list = json_object_get(root, "ops");
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "ops") != 0 && !parse->message) {
            return op_json_fail(parse, ERR_BAD_ARGUMENTS, key, "is not a member of this operation");
        }
    }
    if (!json_is_array(list) || json_array_size(list) == 0) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "ops", "must be a list that is not empty");
    }
    if (json_array_size(list) > OPS_MULTI_MAX) {
        return op_json_fail(parse, ERR_TOO_LARGE, "ops", "has too many elements");
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

static enum err parse_single(struct op_json_parse *parse, const struct op_def *def, json_t *root,
                             struct op_args *args)
{
    const json_t *name = json_object_get(root, "op");

    if (name && (!json_is_string(name) || strcmp(json_string_value(name), def->name) != 0)) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "op", "does not fit the URL");
    }
    return op_json_parse_object(parse, def, root, args);
}

static enum err parse_body(struct op_json_parse *parse, const struct op_def *def, struct slice text,
                           struct op_args *args, struct op_args **ret_multi)
{
    enum err err = ERR_OK;

    if (parse->scan->too_deep) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "the body", "is nested too deeply");
    }
    if (!buf_reserve(parse->memory, text.len)) {
        return op_json_fail(parse, ERR_TOO_LARGE, "the body", "is too large");
    }

    json_t *root = op_json_load(parse, text);

    if (!root) {
        return parse->fault->err;
    }
    if (def->id == OP_MULTI) {
        err = op_json_parse_multi(parse, root, args, ret_multi);
    } else {
        err = parse_single(parse, def, root, args);
    }
    json_decref(root);
    return err;
}

enum err op_json_parse(const struct op_def *def, struct slice text, struct op_args *args,
                       struct buf *memory, struct op_args **ret_multi, struct op_fault *ret_fault)
{
    struct op_json_scan scan;
    struct op_json_parse parse = {.memory = memory, .scan = &scan, .fault = ret_fault};

    ASSERT(memory->len == 0);
    *ret_multi = NULL;
    *ret_fault = (struct op_fault){.err = ERR_OK};
    op_json_scan(text, &scan);

    enum err err = parse_body(&parse, def, text, args, ret_multi);

    op_json_scan_release(&scan);
    return err;
}
