/* Results into JSON. */
#include "base/utf8.h"
#include "server/json/op_json_int.h"
#include "server/state/path.h"

#include <stdio.h>

enum {
    HISTORY_LEN = 16
};

void op_json_wide(struct jsonw *json, const char *key, const char *hex_key, uint64_t value,
                  bool message)
{
    if (message) {
        jsonw_kv_hex(json, key, value);
        return;
    }
    jsonw_kv_u64(json, key, value);
    jsonw_kv_hex(json, hex_key, value);
}

void op_json_history(struct jsonw *json, uint64_t history)
{
    char text[HISTORY_LEN + 1];

    (void)snprintf(text, sizeof(text), "%016llx", (unsigned long long)history);
    jsonw_kv_cstr(json, "history", text);
}

static void put_stat_members(struct jsonw *json, const struct stat_view *stat, bool message)
{
    op_json_wide(json, "czxid", "czxidHex", stat->czxid, message);
    op_json_wide(json, "mzxid", "mzxidHex", stat->mzxid, message);
    jsonw_kv_i64(json, "ctime", stat->ctime);
    jsonw_kv_i64(json, "mtime", stat->mtime);
    jsonw_kv_i64(json, "version", stat->version);
    jsonw_kv_i64(json, "cversion", stat->cversion);
    jsonw_kv_i64(json, "aversion", stat->aversion);
    op_json_wide(json, "ephemeralOwner", "ephemeralOwnerHex", stat->ephemeral_owner, message);
    jsonw_kv_u64(json, "dataLength", stat->data_length);
    jsonw_kv_u64(json, "numChildren", stat->num_children);
    op_json_wide(json, "pzxid", "pzxidHex", stat->pzxid, message);
    if (stat->container) {
        jsonw_kv_bool(json, "container", true);
    }
    if (stat->ttl_ms != 0) {
        jsonw_kv_i64(json, "ttl", stat->ttl_ms);
    }
}

void op_json_stat_object(struct jsonw *json, const struct stat_view *stat, bool message)
{
    jsonw_kv_object(json, "stat");
    put_stat_members(json, stat, message);
    jsonw_object_end(json);
}

/* Writes the data; null data has no member, unlike empty data. */
enum err op_json_data(struct jsonw *json, struct blob *data, enum op_dataformat format)
{
    struct slice bytes = blob_slice(data);

    if (!data || format == OP_NONE) {
        return ERR_OK;
    }
    if (format == OP_JSON) {
        if (!op_json_valid(bytes)) {
            return ERR_NOT_ACCEPTABLE;
        }
        jsonw_key(json, "dataJson");
        jsonw_blob_raw(json, data);
        return ERR_OK;
    }
    if (format == OP_UTF8 || format == OP_AUTO) {
        if (utf8_valid(bytes)) {
            jsonw_key(json, "dataUtf8");
            jsonw_blob_string(json, data);
            return ERR_OK;
        }
        if (format == OP_UTF8) {
            return ERR_NOT_ACCEPTABLE;
        }
    }
    jsonw_key(json, "data64");
    jsonw_blob_base64(json, data);
    return ERR_OK;
}

/* Writes the stat beside the data; in messages as an object. */
static void put_stat(struct jsonw *json, const struct stat_view *stat, bool message)
{
    if (message) {
        op_json_stat_object(json, stat, true);
    } else {
        put_stat_members(json, stat, false);
    }
}

static void put_place(struct jsonw *json, struct slice path, const struct op_json_style *style)
{
    if (path.len > 0) {
        jsonw_kv_string(json, "path", path);
    }
    if (style->uri.len > 0) {
        jsonw_kv_string(json, "uri", style->uri);
    }
}

/* Writes what the caller may do at the znode, when the request asks for it. */
static void put_perms(struct jsonw *json, const struct op_result *result)
{
    if (result->has_perms) {
        jsonw_key(json, "perms");
        op_json_perms(json, result->perms);
    }
}

/* Returns the path to show. The path of a created znode is in the result; other answers show the
 * path of the request. */
static struct slice path_of(const struct op_args *args, const struct op_result *result)
{
    return result->path.len > 0 ? result->path : args->path;
}

static enum err put_entry(struct jsonw *json, const char *key, struct slice name,
                          const struct op_args *args, const struct op_entry *entry,
                          const struct op_json_style *style)
{
    enum err err = ERR_OK;

    if (args->with == OP_WITH_NAMES) {
        jsonw_string(json, name);
        return ERR_OK;
    }
    jsonw_object(json);
    jsonw_kv_string(json, key, name);
    if (entry->hidden) {
        jsonw_kv_bool(json, "hidden", true);
        jsonw_object_end(json);
        return ERR_OK;
    }
    if (args->with == OP_WITH_DATA) {
        err = op_json_data(json, entry->data, args->dataformat);
    }
    op_json_stat_object(json, &entry->stat, style->message);
    jsonw_object_end(json);
    return err;
}

/* Writes a page of entries, and where the list continues. */
static enum err put_page(struct jsonw *json, const char *key, const char *name_key,
                         const struct op_args *args, const struct op_result *result,
                         const struct op_json_style *style)
{
    enum err err = ERR_OK;

    jsonw_kv_array(json, key);
    for (uint32_t i = 0; i < result->entry_count && err == ERR_OK; i++) {
        err = put_entry(json, name_key, result->entries[i].path, args, &result->entries[i], style);
    }
    jsonw_array_end(json);
    jsonw_kv_bool(json, "more", result->more);
    if (result->more && result->entry_count > 0) {
        jsonw_kv_string(json, "after", result->entries[result->entry_count - 1].path);
    }
    return err;
}

static void put_child_template(struct jsonw *json, struct slice uri)
{
    struct buf template;
    bool slash = uri.len > 0 && uri.data[uri.len - 1] == '/';

    if (uri.len == 0) {
        return;
    }
    buf_init(&template, uri.len + sizeof("/{child}"));
    buf_append_slice(&template, uri);
    buf_append_str(&template, slash ? "{child}" : "/{child}");
    jsonw_kv_string(json, "child_uri_template", buf_slice(&template));
    buf_release(&template);
}

static enum err put_children(struct jsonw *json, const struct op_args *args,
                             const struct op_result *result, const struct op_json_style *style)
{
    put_place(json, path_of(args, result), style);
    put_child_template(json, style->uri);
    enum err err = put_page(json, "children", "name", args, result, style);

    op_json_stat_object(json, &result->stat, style->message);
    put_perms(json, result);
    return err;
}

/* Writes the znodes of a tree or a search. */
static enum err put_nodes(struct jsonw *json, const struct op_args *args,
                          const struct op_result *result, const struct op_json_style *style)
{
    enum err err = ERR_OK;
    struct slice root = path_of(args, result);
    struct buf full;

    buf_init(&full, SIZE_MAX / 2);
    put_place(json, root, style);
    jsonw_kv_array(json, "nodes");
    for (uint32_t i = 0; i < result->entry_count && err == ERR_OK; i++) {
        buf_clear(&full);
        path_join(&full, root, result->entries[i].path);
        err = put_entry(json, "path", buf_slice(&full), args, &result->entries[i], style);
    }
    jsonw_array_end(json);
    jsonw_kv_bool(json, "more", result->more);
    buf_release(&full);
    return err;
}

static enum err put_found(struct jsonw *json, const struct op_args *args,
                          const struct op_result *result, const struct op_json_style *style)
{
    enum err err = put_nodes(json, args, result, style);

    if (result->more) {
        jsonw_kv_string(json, "after", result->after);
    }
    jsonw_kv_u64(json, "looked", result->looked);
    return err;
}

static enum err put_exists(struct jsonw *json, const struct op_args *args,
                           const struct op_result *result, const struct op_json_style *style)
{
    put_place(json, path_of(args, result), style);
    jsonw_kv_bool(json, "exists", result->err == ERR_OK);
    if (result->err == ERR_OK) {
        put_stat(json, &result->stat, style->message);
        put_perms(json, result);
    }
    return ERR_OK;
}

static enum err put_znode(struct jsonw *json, const struct op_args *args,
                          const struct op_result *result, const struct op_json_style *style)
{
    enum err err = ERR_OK;

    put_place(json, path_of(args, result), style);
    if (ops_by_id(args->op)->shape == OP_SHAPE_DATA) {
        err = op_json_data(json, result->data, args->dataformat);
    }
    if (result->has_stat) {
        put_stat(json, &result->stat, style->message);
    }
    put_perms(json, result);
    return err;
}

static enum err put_acl(struct jsonw *json, const struct op_args *args,
                        const struct op_result *result, const struct op_json_style *style)
{
    put_place(json, path_of(args, result), style);
    jsonw_key(json, "acl");
    op_json_acl(json, blob_slice(result->acl));
    jsonw_kv_i64(json, "aversion", result->stat.aversion);
    if (args->as.len > 0) {
        jsonw_kv_string(json, "as", args->as);
    }
    put_perms(json, result);
    op_json_stat_object(json, &result->stat, style->message);
    return ERR_OK;
}

static void put_session_facts(struct jsonw *json, const struct op_session_info *info)
{
    jsonw_kv_u64(json, "timeout_ms", info->timeout_ms);
    jsonw_kv_i64(json, "opened_ms", info->opened_ms);
    jsonw_kv_u64(json, "ephemerals", info->ephemeral_count);
    jsonw_kv_u64(json, "ephemeral_bytes", info->ephemeral_bytes);
}

/* Writes a session. The member `id` is the secret of the session, so only the client that opens the
 * session or has sent the secret gets it. */
static enum err put_session(struct jsonw *json, const struct op_args *args,
                            const struct op_result *result, const struct op_json_style *style)
{
    if (style->message) {
        jsonw_kv_object(json, "session");
    }
    if (args->secret.len > 0) {
        jsonw_kv_string(json, "id", args->secret);
    }
    if (style->uri.len > 0) {
        jsonw_kv_string(json, "uri", style->uri);
    }
    jsonw_kv_hex(json, style->message ? "public" : "session", result->session.id);
    put_session_facts(json, &result->session);
    if (style->message) {
        jsonw_object_end(json);
    }
    return ERR_OK;
}

static void put_listed(struct jsonw *json, const struct op_session_entry *entry)
{
    struct slice from = slice_make(entry->from, entry->from_len);
    struct slice identity = principal_from_identity(from);

    jsonw_object(json);
    jsonw_kv_hex(json, "session", entry->info.id);
    put_session_facts(json, &entry->info);
    jsonw_kv_string(json, "address", principal_from_address(from));
    if (identity.len > 0) {
        jsonw_kv_string(json, "identity", identity);
    }
    if (entry->info.member != 0) {
        jsonw_kv_u64(json, "attached_at", entry->info.member);
    }
    if (entry->heard_at != 0) {
        jsonw_kv_u64(json, "heard_at", entry->heard_at);
        jsonw_kv_u64(json, "heard_ms", entry->heard_ms);
    }
    jsonw_object_end(json);
}

static enum err put_sessions(struct jsonw *json, const struct op_args *args,
                             const struct op_result *result, const struct op_json_style *style)
{
    (void)args;
    (void)style;
    jsonw_kv_array(json, "sessions");
    for (uint32_t i = 0; i < result->session_count; i++) {
        put_listed(json, &result->sessions[i]);
    }
    jsonw_array_end(json);
    jsonw_kv_bool(json, "more", result->more);
    if (result->more) {
        jsonw_kv_hex(json, "after", result->after_id);
    }
    jsonw_kv_u64(json, "looked", result->looked);
    jsonw_kv_bool(json, "hears_all", result->hears_all);
    return ERR_OK;
}

static enum err put_ephemerals(struct jsonw *json, const struct op_args *args,
                               const struct op_result *result, const struct op_json_style *style)
{
    jsonw_kv_hex(json, "session", args->session);
    return put_page(json, "ephemerals", "path", args, result, style);
}

/* Writes the zxid; in a message the envelope has it. */
static enum err put_zxid(struct jsonw *json, const struct op_args *args,
                         const struct op_result *result, const struct op_json_style *style)
{
    (void)args;
    if (!style->message) {
        op_json_wide(json, "zxid", "zxidHex", result->zxid, false);
    }
    return ERR_OK;
}

static enum err put_change(struct jsonw *json, const struct op_args *args,
                           const struct op_result *result, const struct op_json_style *style)
{
    (void)args;
    (void)style;
    op_json_change(json, result);
    return ERR_OK;
}

/* For each shape, the function that writes the JSON members of a result. Shapes without a function:
 * op_json_results writes OP_SHAPE_MULTI, and ops.h names the writers of the others. Results of
 * OP_SHAPE_NONE have neither stat nor permissions, so put_znode writes their path only. */
static enum err (*const writers[])(struct jsonw *json, const struct op_args *args,
                                   const struct op_result *result,
                                   const struct op_json_style *style) = {
    [OP_SHAPE_NONE] = put_znode,        [OP_SHAPE_DATA] = put_znode,
    [OP_SHAPE_STAT] = put_znode,        [OP_SHAPE_EXISTS] = put_exists,
    [OP_SHAPE_CHILDREN] = put_children, [OP_SHAPE_TREE] = put_nodes,
    [OP_SHAPE_SEARCH] = put_found,      [OP_SHAPE_CREATED] = put_znode,
    [OP_SHAPE_ZXID] = put_zxid,         [OP_SHAPE_SESSION] = put_session,
    [OP_SHAPE_SESSIONS] = put_sessions, [OP_SHAPE_EPHEMERALS] = put_ephemerals,
    [OP_SHAPE_ACL] = put_acl,           [OP_SHAPE_CHANGE] = put_change,
};

enum err op_json_members(struct jsonw *json, const struct op_args *args,
                         const struct op_result *result, const struct op_json_style *style)
{
    enum op_shape shape = ops_by_id(args->op)->shape;

    ASSERT(shape < sizeof(writers) / sizeof(writers[0]) && writers[shape]);
    return writers[shape](json, args, result, style);
}

static void put_error(struct jsonw *json, const struct op_result *result, bool message)
{
    jsonw_kv_object(json, "error");
    jsonw_kv_cstr(json, "title", err_text(result->err));
    jsonw_kv_u64(json, "status", (uint64_t)err_http_status(result->err));
    jsonw_kv_cstr(json, "code", err_name(result->err));
    jsonw_kv_i64(json, "zk_code", err_number(result->err));
    if (result->detail) {
        jsonw_kv_cstr(json, "detail", result->detail);
    }
    if (result->has_stat) {
        op_json_stat_object(json, &result->stat, message);
    }
    jsonw_object_end(json);
}

bool op_json_is_answer(enum op_id op, enum err err)
{
    return err == ERR_OK || (op == OP_EXISTS && err == ERR_NO_NODE);
}

static enum err put_element(struct jsonw *json, const struct op_args *args,
                            const struct op_result *result, bool message)
{
    struct op_json_style style = {.message = message};
    bool ok = op_json_is_answer(args->op, result->err);
    enum err err = ERR_OK;

    jsonw_object(json);
    jsonw_kv_cstr(json, "op", ops_by_id(args->op)->name);
    jsonw_kv_bool(json, "ok", ok);
    if (ok) {
        err = op_json_members(json, args, result, &style);
    } else {
        jsonw_kv_string(json, "path", args->path);
        put_error(json, result, message);
    }
    jsonw_object_end(json);
    return err;
}

enum err op_json_results(struct jsonw *json, const struct op_args *args,
                         const struct op_result *result, bool message)
{
    enum err err = ERR_OK;

    ASSERT(result->result_count <= args->op_count);
    jsonw_kv_array(json, "results");
    for (uint32_t i = 0; i < result->result_count && err == ERR_OK; i++) {
        err = put_element(json, &args->ops[i], &result->results[i], message);
    }
    jsonw_array_end(json);
    return err;
}

enum err op_json_result(struct jsonw *json, const struct op_args *args,
                        const struct op_result *result, const struct op_json_style *style)
{
    enum err err = ERR_OK;

    jsonw_object(json);
    if (args->op == OP_MULTI) {
        op_json_wide(json, "zxid", "zxidHex", result->zxid, style->message);
        err = op_json_results(json, args, result, style->message);
    } else {
        err = op_json_members(json, args, result, style);
    }
    jsonw_object_end(json);
    return err;
}
