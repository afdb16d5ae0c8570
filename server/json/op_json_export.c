/* Lines of an export, written and read, and the answer of an import. */
#include "server/json/op_json_int.h"

#include <jansson.h>

void op_json_export_head(struct jsonw *json, struct slice path, zxid_t zxid, uint64_t history)
{
    jsonw_object(json);
    jsonw_kv_u64(json, "export", OP_JSON_EXPORT);
    jsonw_kv_string(json, "path", path);
    jsonw_kv_hex(json, "zxid", zxid);
    op_json_history(json, history);
    jsonw_object_end(json);
}

void op_json_export_znode(struct jsonw *json, const struct op_export_znode *znode,
                          enum op_dataformat format)
{
    enum err err = ERR_OK;

    ASSERT(format == OP_BASE64 || format == OP_AUTO);
    jsonw_object(json);
    jsonw_kv_string(json, "path", znode->path);
    if (znode->data) {
        err = op_json_data(json, znode->data, format);
    } else {
        jsonw_kv_bool(json, "null", true);
    }
    ASSERT(err == ERR_OK); /* These formats can show any bytes. */
    if (znode->acl.len > 0) {
        jsonw_key(json, "acl");
        op_json_acl(json, znode->acl);
    }
    if (znode->container) {
        jsonw_kv_bool(json, "container", true);
    }
    if (znode->ttl_ms > 0) {
        jsonw_kv_i64(json, "ttl", znode->ttl_ms);
    }
    op_json_stat_object(json, &znode->stat, true);
    jsonw_object_end(json);
}

void op_json_export_end(struct jsonw *json, const struct op_export_figures *figures)
{
    jsonw_object(json);
    jsonw_kv_bool(json, "end", true);
    jsonw_kv_u64(json, "znodes", figures->znodes);
    jsonw_kv_u64(json, "skippedEphemerals", figures->ephemerals);
    jsonw_kv_u64(json, "skippedUnreadable", figures->unreadable);
    jsonw_kv_u64(json, "maskedAcls", figures->masked);
    jsonw_object_end(json);
}

void op_json_import(struct jsonw *json, const struct op_import_figures *figures)
{
    jsonw_object(json);
    jsonw_kv_bool(json, "dryRun", figures->dry_run);
    jsonw_kv_u64(json, "lines", figures->lines);
    jsonw_kv_u64(json, "created", figures->created);
    jsonw_kv_u64(json, "overwritten", figures->overwritten);
    jsonw_kv_u64(json, "skipped", figures->skipped);
    jsonw_kv_u64(json, "multis", figures->multis);
    if (figures->zxid != 0) {
        op_json_wide(json, "zxid", "zxidHex", figures->zxid, false);
    }
    if (figures->line != 0) {
        jsonw_kv_u64(json, "line", figures->line);
    }
    jsonw_object_end(json);
}

/* ---- Lines of an import. ---- */

/* Checks the version in the first line: the format of a later version may differ. */
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
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "znodes",
                            "must be a whole number, 0 or more");
    }
    ret_line->znodes = (uint64_t)json_integer_value(znodes);
    return ERR_OK;
}

static enum err take_znode(struct op_json_parse *parse, json_t *root, struct slice text,
                           struct op_line *ret_line)
{
    struct op_args *args = &ret_line->args;
    enum err err = ERR_OK;

    /* A line with the count of creates has no other member, because the count is that after all
     * children were created: the line comes after theirs. */
    enum op_id op = json_object_get(root, "creates") ? OP_RAISE : OP_CREATE;

    ret_line->kind = OP_LINE_ZNODE;
    op_args_init(args, op);
    if (!json_is_string(json_object_get(root, "path"))) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "path",
                            "must be given: the path of the znode relative to that of the URL");
    }
    (void)json_object_del(root, "stat");
    err = op_json_parse_object(parse, ops_by_id(op), root, args);
    if (err != ERR_OK) {
        return err;
    }
    if (args->sequence || args->ephemeral || args->parents) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, "sequence, ephemeral and parents",
                            "must not be in a line of an import");
    }
    /* Data that needed no decoding points into the text of the line, so it is copied. */
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

enum err op_json_parse_line(struct slice text, struct op_line *ret_line, struct buf *memory,
                            struct op_fault *ret_fault)
{
    struct op_json_parse parse = {.memory = memory, .what = "the line", .fault = ret_fault};
    json_t *root = op_json_begin(&parse, text);
    enum err err = ret_fault->err;

    *ret_line = (struct op_line){.kind = OP_LINE_ZNODE};
    if (root) {
        err = take_root(&parse, root, text, ret_line);
    }
    op_json_end(&parse, root);
    return err;
}
