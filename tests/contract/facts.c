/*
 * Prints the server's own tables as JSON: the operations, the other routes, and the errors. rows.js
 * compares them with the documents.
 */
#include "base/jsonw.h"
#include "http/route.h"
#include "server/read/view.h"

#include <stdio.h>

enum {
    TEXT_MAX = 1 << 20
};

static const char *const kinds[] = {
    [OP_KIND_READ] = "read", [OP_KIND_WRITE] = "write", [OP_KIND_SYNC] = "sync",
    [OP_KIND_INFO] = "info", [OP_KIND_FRONT] = "front",
};

static const char *const sources[] = {
    [OP_FROM_PATH] = "path",       [OP_FROM_QUERY] = "query",   [OP_FROM_HEADER] = "header",
    [OP_FROM_BODY] = "body",       [OP_FROM_MEMBER] = "member", [OP_FROM_MESSAGE] = "message",
    [OP_FROM_NOWHERE] = "nowhere",
};

static void put_fields(struct jsonw *json, const struct op_def *def)
{
    jsonw_key(json, "fields");
    jsonw_array(json);
    for (const struct op_field *field = def->fields; field->name; field++) {
        jsonw_object(json);
        jsonw_kv_cstr(json, "name", field->name);
        jsonw_kv_cstr(json, "source", sources[field->source]);
        jsonw_kv_bool(json, "name_of_child", field->type == OP_FIELD_NAME);
        jsonw_kv_bool(json, "data", field->type == OP_FIELD_BYTES);
        jsonw_kv_i64(json, "min", field->min);
        jsonw_kv_i64(json, "max", field->max);
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

static void put_rows(struct jsonw *json)
{
    jsonw_key(json, "rows");
    jsonw_array(json);
    for (const struct op_def *def = ops_table(); def->name; def++) {
        jsonw_object(json);
        jsonw_kv_cstr(json, "name", def->name);
        jsonw_kv_cstr(json, "method", def->method);
        jsonw_kv_cstr(json, "route", def->route);
        jsonw_kv_cstr(json, "select", def->select);
        jsonw_kv_cstr(json, "kind", kinds[def->kind]);
        jsonw_kv_bool(json, "internal", op_is_internal(def->id));
        jsonw_kv_bool(json, "in_multi", op_may_be_in_multi(def->id));
        jsonw_kv_bool(json, "http_only", op_is_http_only(def->id));
        jsonw_kv_bool(json, "reads_tree", view_reads(def->id) || def->shape == OP_SHAPE_LINES);
        jsonw_kv_u64(json, "status", def->status);
        jsonw_kv_u64(json, "status_raw", def->status_raw);
        put_fields(json, def);
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

static void put_routes(struct jsonw *json)
{
    struct http_routes routes;

    http_routes_init(&routes);
    jsonw_key(json, "routes");
    jsonw_array(json);
    for (uint32_t i = 0; i < routes.count; i++) {
        jsonw_object(json);
        jsonw_kv_cstr(json, "name", routes.items[i].name);
        jsonw_kv_bool(json, "operations", routes.items[i].kind == HTTP_ROUTE_OPS);
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

static void put_errors(struct jsonw *json)
{
    jsonw_key(json, "errors");
    jsonw_array(json);
    for (int err = 1; err < ERR_COUNT; err++) {
        jsonw_object(json);
        jsonw_kv_cstr(json, "name", err_name((enum err)err));
        jsonw_kv_i64(json, "zk_code", err_number((enum err)err));
        jsonw_kv_i64(json, "status", err_http_status((enum err)err));
        jsonw_kv_cstr(json, "title", err_text((enum err)err));
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

int main(void)
{
    struct buf text;
    struct jsonw json;

    buf_init(&text, TEXT_MAX);
    jsonw_init(&json, &text);
    jsonw_object(&json);
    put_rows(&json);
    put_routes(&json);
    put_errors(&json);
    jsonw_object_end(&json);
    (void)printf("%s\n", buf_cstr(&text));
    buf_release(&text);
    return 0;
}
