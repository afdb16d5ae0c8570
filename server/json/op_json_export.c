/* Lines of an export, and the answer of an import. */
#include "base/check.h"
#include "server/json/op_json_int.h"

#include <stdio.h>

enum {
    HISTORY_LEN = 17
};

void op_json_export_head(struct jsonw *json, struct slice path, zxid_t zxid, uint64_t history)
{
    char text[HISTORY_LEN];

    (void)snprintf(text, sizeof(text), "%016llx", (unsigned long long)history);
    jsonw_object(json);
    jsonw_kv_u64(json, "export", OP_JSON_EXPORT);
    jsonw_kv_string(json, "path", path);
    jsonw_kv_hex(json, "zxid", zxid);
    jsonw_kv_cstr(json, "history", text);
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
