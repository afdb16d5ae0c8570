/* Lines of an import. */
#include "base/check.h"
#include "server/json/op_json_int.h"

#include <jansson.h>

/* The version in the first line: a later one may mean something else. */
static enum err take_head(struct op_json_parse *parse, const json_t *version,
                          struct op_line *ret_line)
{
    ret_line->kind = OP_LINE_HEAD;
    if (!json_is_integer(version) || json_integer_value(version) != OP_JSON_EXPORT) {
        return op_json_fail(
            parse, ERR_BAD_ARGUMENTS, "export",
            "must be 1: this version of zabra does not know other versions of the format");
    }
    return ERR_OK;
}

static enum err take_end(struct op_json_parse *parse, const json_t *root, struct op_line *ret_line)
{
    const json_t *znodes = json_object_get(root, "znodes");

    ret_line->kind = OP_LINE_END;
    if (!json_is_integer(znodes) || json_integer_value(znodes) < 0) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "znodes", "must be the number of znodes");
    }
    ret_line->znodes = (uint64_t)json_integer_value(znodes);
    return ERR_OK;
}

static enum err take_znode(struct op_json_parse *parse, json_t *root, struct slice text,
                           struct op_line *ret_line)
{
    struct op_args *args = &ret_line->args;
    enum err err = ERR_OK;

    ret_line->kind = OP_LINE_ZNODE;
    op_args_init(args, OP_CREATE);
    if (!json_is_string(json_object_get(root, "path"))) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "path",
                            "must be given: the path of the znode relative to that of the URL");
    }
    (void)json_object_del(root, "stat");
    err = op_json_parse_object(parse, ops_by_id(OP_CREATE), root, args);
    if (err != ERR_OK) {
        return err;
    }
    if (args->sequence || args->ephemeral || args->parents) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "sequence, ephemeral and parents",
                            "have no meaning in an import");
    }
    /* A raw value still refers to the line. */
    if (args->data.data >= text.data && args->data.data < text.data + text.len) {
        args->data = op_json_keep(parse, args->data);
    }
    return ERR_OK;
}

static enum err take_root(struct op_json_parse *parse, json_t *root, struct slice text,
                          struct op_line *ret_line)
{
    const json_t *version = json_object_get(root, "export");

    if (version) {
        return take_head(parse, version, ret_line);
    }
    if (json_is_true(json_object_get(root, "end"))) {
        return take_end(parse, root, ret_line);
    }
    if (json_is_object(json_object_get(root, "error"))) {
        ret_line->kind = OP_LINE_ERROR;
        return ERR_OK;
    }
    return take_znode(parse, root, text, ret_line);
}

static enum err parse_line(struct op_json_parse *parse, struct slice text, struct op_line *ret_line)
{
    if (parse->scan->too_deep) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "the line", "is nested too deeply");
    }
    if (!buf_reserve(parse->memory, text.len)) {
        return op_json_fail(parse, ERR_TOO_LARGE, "the line", "is too long");
    }

    json_t *root = op_json_load(parse, text);

    if (!root) {
        return parse->fault->err;
    }

    enum err err = take_root(parse, root, text, ret_line);

    json_decref(root);
    return err;
}

enum err op_json_parse_line(struct slice text, struct op_line *ret_line, struct buf *memory,
                            struct op_fault *ret_fault)
{
    struct op_json_scan scan;
    struct op_json_parse parse = {.memory = memory, .scan = &scan, .fault = ret_fault};

    ASSERT(memory->len == 0);
    *ret_line = (struct op_line){.kind = OP_LINE_ZNODE};
    *ret_fault = (struct op_fault){.err = ERR_OK};
    op_json_scan(text, &scan);

    enum err err = parse_line(&parse, text, ret_line);

    op_json_scan_release(&scan);
    return err;
}
