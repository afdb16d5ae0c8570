#include "server/op/ops.h"

#include "base/check.h"
#include "server/op/trend_request.h"

#define AT(member) offsetof(struct op_args, member)
#define PATH_FIELD                                             \
    {                                                          \
        "path", OP_FIELD_PATH, OP_FROM_PATH, AT(path), 0, 0, 0 \
    }
#define FORMAT_FIELD                                                              \
    {                                                                             \
        "dataformat", OP_FIELD_DATAFORMAT, OP_FROM_QUERY, AT(dataformat), 0, 0, 0 \
    }
#define WITH_FIELD                                              \
    {                                                           \
        "with", OP_FIELD_WITH, OP_FROM_QUERY, AT(with), 0, 0, 0 \
    }
#define VERSION_FIELD                                                                              \
    {                                                                                              \
        "version", OP_FIELD_I32, OP_FROM_QUERY, AT(version), AT(has_version), INT32_MIN, INT32_MAX \
    }
/* Conditions that a client takes from a stat: the same znode, the same ACL. */
#define CZXID_FIELD                                                                   \
    {                                                                                 \
        "czxid", OP_FIELD_U64, OP_FROM_MEMBER, AT(czxid), AT(has_czxid), 0, INT64_MAX \
    }
#define AVERSION_FIELD(source)                                                                 \
    {                                                                                          \
        "aversion", OP_FIELD_I32, source, AT(aversion), AT(has_aversion), INT32_MIN, INT32_MAX \
    }
#define MATCH_FIELD                                                       \
    {                                                                     \
        "If-Match", OP_FIELD_MATCH, OP_FROM_HEADER, AT(has_etag), 0, 0, 0 \
    }
#define DATA_FIELD                                                               \
    {                                                                            \
        "data", OP_FIELD_BYTES, OP_FROM_BODY, AT(data), 0, 0, OPS_DATA_BYTES_MAX \
    }
#define BOOL_FIELD(name, member)                                \
    {                                                           \
        name, OP_FIELD_BOOL, OP_FROM_QUERY, AT(member), 0, 0, 1 \
    }
#define U32_FIELD(name, member, min)                                      \
    {                                                                     \
        name, OP_FIELD_U32, OP_FROM_QUERY, AT(member), 0, min, UINT32_MAX \
    }
#define SECRET_FIELD(source)                                    \
    {                                                           \
        "session", OP_FIELD_SECRET, source, AT(secret), 0, 0, 0 \
    }
#define HASH_FIELD                                                       \
    {                                                                    \
        "hash", OP_FIELD_HASH, OP_FROM_NOWHERE, AT(secret_hash), 0, 0, 0 \
    }
#define WATCH_FIELD                                                 \
    {                                                               \
        "watch", OP_FIELD_BOOL, OP_FROM_MESSAGE, AT(watch), 0, 0, 1 \
    }
#define ACL_FIELD                                                     \
    {                                                                 \
        "acl", OP_FIELD_ACL, OP_FROM_BODY, AT(acl), AT(has_acl), 0, 0 \
    }
#define END_FIELD                                      \
    {                                                  \
        NULL, OP_FIELD_BOOL, OP_FROM_QUERY, 0, 0, 0, 0 \
    }

#define PERMS_FIELD                                               \
    {                                                             \
        "perms", OP_FIELD_BOOL, OP_FROM_QUERY, AT(perms), 0, 0, 1 \
    }

static const struct op_field path_fields[] = {PATH_FIELD, END_FIELD};
static const struct op_field stat_fields[] = {PATH_FIELD, PERMS_FIELD, WATCH_FIELD, END_FIELD};
static const struct op_field get_fields[] = {PATH_FIELD, FORMAT_FIELD, PERMS_FIELD, WATCH_FIELD,
                                             END_FIELD};
static const struct op_field getacl_fields[] = {
    PATH_FIELD,
    PERMS_FIELD,
    {"as", OP_FIELD_TEXT, OP_FROM_QUERY, AT(as), 0, 0, 0},
    END_FIELD,
};
static const struct op_field none_fields[] = {END_FIELD};
static const struct op_field children_fields[] = {
    PATH_FIELD,
    U32_FIELD("limit", limit, 1),
    {"after", OP_FIELD_TEXT, OP_FROM_QUERY, AT(after), 0, 0, 0},
    WITH_FIELD,
    FORMAT_FIELD,
    PERMS_FIELD,
    WATCH_FIELD,
    END_FIELD,
};
static const struct op_field tree_fields[] = {
    PATH_FIELD, U32_FIELD("depth", depth, 1), WITH_FIELD, FORMAT_FIELD, END_FIELD,
};
static const struct op_field search_fields[] = {
    PATH_FIELD,
    {"name", OP_FIELD_TEXT, OP_FROM_QUERY, AT(pattern), 0, 0, 0},
    BOOL_FIELD("ignoreCase", any_case),
    {"data", OP_FIELD_TEXT, OP_FROM_QUERY, AT(data), 0, 0, 0},
    U32_FIELD("depth", depth, 1),
    U32_FIELD("limit", limit, 1),
    {"after", OP_FIELD_TEXT, OP_FROM_QUERY, AT(after), 0, 0, 0},
    WITH_FIELD,
    FORMAT_FIELD,
    END_FIELD,
};
static const struct op_field export_fields[] = {PATH_FIELD, FORMAT_FIELD, END_FIELD};
static const struct op_field import_fields[] = {
    PATH_FIELD,
    BOOL_FIELD("dryRun", dry_run),
    {"conflict", OP_FIELD_CONFLICT, OP_FROM_QUERY, AT(conflict), 0, 0, 0},
    BOOL_FIELD("parents", parents),
    END_FIELD,
};
static const struct op_field set_fields[] = {
    PATH_FIELD,
    DATA_FIELD,
    BOOL_FIELD("null", data_null),
    VERSION_FIELD,
    CZXID_FIELD,
    AVERSION_FIELD(OP_FROM_MEMBER),
    MATCH_FIELD,
    {"If-None-Match", OP_FIELD_NONE_MATCH, OP_FROM_HEADER, AT(must_be_new), 0, 0, 0},
    BOOL_FIELD("upsert", upsert),
    BOOL_FIELD("parents", parents),
    BOOL_FIELD("ephemeral", ephemeral),
    ACL_FIELD,
    END_FIELD,
};
static const struct op_field create_fields[] = {
    PATH_FIELD,
    DATA_FIELD,
    ACL_FIELD,
    BOOL_FIELD("null", data_null),
    {"name", OP_FIELD_NAME, OP_FROM_QUERY, AT(path), 0, 0, 0},
    BOOL_FIELD("sequence", sequence),
    BOOL_FIELD("ephemeral", ephemeral),
    BOOL_FIELD("container", container),
    {"ttl", OP_FIELD_I64, OP_FROM_QUERY, AT(ttl_ms), 0, 1, (INT64_C(1) << OPS_TTL_MS_MAX_BITS) - 1},
    BOOL_FIELD("parents", parents),
    END_FIELD,
};
static const struct op_field delete_fields[] = {
    PATH_FIELD,
    VERSION_FIELD,
    CZXID_FIELD,
    AVERSION_FIELD(OP_FROM_MEMBER),
    MATCH_FIELD,
    BOOL_FIELD("recursive", recursive),
    U32_FIELD("max", max, 1),
    END_FIELD,
};
static const struct op_field check_fields[] = {PATH_FIELD, VERSION_FIELD, CZXID_FIELD,
                                               AVERSION_FIELD(OP_FROM_MEMBER), END_FIELD};
static const struct op_field multi_fields[] = {
    {"ops", OP_FIELD_OPS, OP_FROM_BODY, AT(ops), 0, 1, OPS_MULTI_MAX},
    END_FIELD,
};

static const struct op_field session_fields[] = {
    {"expire", OP_FIELD_U32, OP_FROM_QUERY, AT(expire_s), 0, 1, UINT32_MAX / 1000},
    {"timeout_ms", OP_FIELD_U32, OP_FROM_QUERY, AT(timeout_ms), 0, 1, UINT32_MAX},
    HASH_FIELD,
    END_FIELD,
};
/* A session that exists, named by its secret. */
static const struct op_field secret_fields[] = {SECRET_FIELD(OP_FROM_PATH), HASH_FIELD, END_FIELD};
static const struct op_field expire_fields[] = {
    {"session", OP_FIELD_U64, OP_FROM_NOWHERE, AT(session), 0, 0, INT64_MAX},
    END_FIELD,
};
#define PUBLIC_FIELD                                                        \
    {                                                                       \
        "public", OP_FIELD_U64, OP_FROM_QUERY, AT(session), 0, 1, INT64_MAX \
    }
static const struct op_field sessions_fields[] = {
    U32_FIELD("limit", limit, 1),
    {"after", OP_FIELD_U64, OP_FROM_QUERY, AT(after_id), 0, 0, INT64_MAX},
    END_FIELD,
};
static const struct op_field ephemerals_fields[] = {
    PUBLIC_FIELD,
    U32_FIELD("limit", limit, 1),
    {"after", OP_FIELD_TEXT, OP_FROM_QUERY, AT(after), 0, 0, 0},
    WITH_FIELD,
    END_FIELD,
};
static const struct op_field kill_fields[] = {PUBLIC_FIELD, END_FIELD};
static const struct op_field watches_fields[] = {
    {"path", OP_FIELD_TEXT, OP_FROM_QUERY, AT(after), 0, 0, 0},
    PUBLIC_FIELD,
    BOOL_FIELD("clients", clients),
    U32_FIELD("limit", limit, 1),
    END_FIELD,
};
static const struct op_field trend_fields[] = {
    {"step", OP_FIELD_U32, OP_FROM_QUERY, AT(step_s), 0, 1, UINT32_MAX},
    {"since", OP_FIELD_I64, OP_FROM_QUERY, AT(since_s), 0, 0, INT64_MAX},
    {"series", OP_FIELD_TEXT, OP_FROM_QUERY, AT(series), 0, 0, 0},
    END_FIELD,
};
static const struct op_field setacl_fields[] = {
    PATH_FIELD,
    ACL_FIELD,
    AVERSION_FIELD(OP_FROM_BODY),
    {"If-Match", OP_FIELD_ACL_MATCH, OP_FROM_HEADER, AT(has_etag), 0, 0, 0},
    END_FIELD,
};
static const struct op_field watch_fields[] = {
    PATH_FIELD,
    {"mode", OP_FIELD_KIND, OP_FROM_QUERY, AT(kind), 0, 0, 0}, /* The name in ZooKeeper. */
    {"kind", OP_FIELD_KIND, OP_FROM_QUERY, AT(kind), 0, 0, 0},
    {"since", OP_FIELD_SINCE, OP_FROM_QUERY, AT(since), AT(has_since), 0, 0},
    BOOL_FIELD("values", values),
    FORMAT_FIELD,
    END_FIELD,
};
static const struct op_field unwatch_fields[] = {
    {"watch", OP_FIELD_U32, OP_FROM_QUERY, AT(watch_id), 0, 1, UINT32_MAX},
    END_FIELD,
};
static const struct op_field auth_fields[] = {
    {"scheme", OP_FIELD_TEXT, OP_FROM_BODY, AT(scheme), 0, 0, 0},
    {"credential", OP_FIELD_TEXT, OP_FROM_BODY, AT(credential), 0, 0, 0},
    END_FIELD,
};

#define ZNODES   "/znodes/v1/{path}"
#define SESSIONS "/sessions/v1/{id}"

/* One row each; the first row of a method and route is what a request without `select` means. */
static const struct op_def table[] = {
    {OP_GET, "get", "GET", ZNODES, "view=data", OP_KIND_READ, OP_SHAPE_DATA, 200, 200, get_fields},
    {OP_EXISTS, "exists", "", "", "", OP_KIND_READ, OP_SHAPE_EXISTS, 200, 0, stat_fields},
    {OP_STAT, "stat", "GET", ZNODES, "view=stat", OP_KIND_READ, OP_SHAPE_STAT, 200, 0, stat_fields},
    {OP_CHILDREN, "children", "GET", ZNODES, "view=children", OP_KIND_READ, OP_SHAPE_CHILDREN, 200,
     0, children_fields},
    {OP_TREE, "tree", "GET", ZNODES, "view=tree", OP_KIND_READ, OP_SHAPE_TREE, 200, 0, tree_fields},
    {OP_SET, "set", "PUT", ZNODES, "", OP_KIND_WRITE, OP_SHAPE_STAT, 200, 204, set_fields},
    {OP_CREATE, "create", "POST", ZNODES, "op=create", OP_KIND_WRITE, OP_SHAPE_CREATED, 201, 201,
     create_fields},
    {OP_DELETE, "delete", "DELETE", ZNODES, "", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 204,
     delete_fields},
    {OP_CHECK, "check", "", "", "", OP_KIND_WRITE, OP_SHAPE_STAT, 200, 0, check_fields},
    {OP_MULTI, "multi", "POST", "/multi/v1", "", OP_KIND_WRITE, OP_SHAPE_MULTI, 200, 0,
     multi_fields},
    {OP_SYNC, "sync", "POST", "/sync/v1", "", OP_KIND_SYNC, OP_SHAPE_ZXID, 200, 0, none_fields},
    {OP_STATUS, "status", "GET", "/status/v1", "", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0,
     none_fields},
    {OP_ENSEMBLE, "ensemble", "GET", "/ensemble/v1", "", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0,
     none_fields},
    {OP_LIMITS, "limits", "GET", "/limits/v1", "", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0,
     none_fields},
    {OP_WHOAMI, "whoami", "GET", "/whoami/v1", "", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0,
     none_fields},
    {OP_REAP, "reap", "", "", "", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 0, path_fields},
    {OP_SESSION, "session", "POST", "/sessions/v1", "op=create", OP_KIND_WRITE, OP_SHAPE_SESSION,
     201, 0, session_fields},
    {OP_ATTACH, "attach", "", "", "", OP_KIND_WRITE, OP_SHAPE_SESSION, 200, 0, secret_fields},
    {OP_TOUCH, "touch", "PUT", SESSIONS, "", OP_KIND_READ, OP_SHAPE_SESSION, 200, 0, secret_fields},
    {OP_GETSESSION, "getsession", "GET", SESSIONS, "view=session", OP_KIND_READ, OP_SHAPE_SESSION,
     200, 0, secret_fields},
    {OP_CLOSE, "close", "DELETE", SESSIONS, "", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 204,
     secret_fields},
    {OP_EXPIRE, "expire", "", "", "", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 0, expire_fields},
    {OP_GETACL, "getacl", "GET", ZNODES, "view=acl", OP_KIND_READ, OP_SHAPE_ACL, 200, 0,
     getacl_fields},
    {OP_SETACL, "setacl", "PATCH", ZNODES, "", OP_KIND_WRITE, OP_SHAPE_STAT, 200, 0, setacl_fields},
    {OP_WATCH, "watch", "GET", "/watch/v1/{path}", "", OP_KIND_FRONT, OP_SHAPE_FRONT, 200, 0,
     watch_fields},
    {OP_UNWATCH, "unwatch", "", "", "", OP_KIND_FRONT, OP_SHAPE_FRONT, 200, 0, unwatch_fields},
    {OP_AUTH, "auth", "", "", "", OP_KIND_FRONT, OP_SHAPE_FRONT, 200, 0, auth_fields},
    {OP_DETACH, "detach", "", "", "", OP_KIND_FRONT, OP_SHAPE_FRONT, 200, 0, none_fields},
    {OP_PING, "ping", "", "", "", OP_KIND_FRONT, OP_SHAPE_FRONT, 200, 0, none_fields},
    {OP_SEARCH, "search", "GET", "/search/v1/{path}", "", OP_KIND_READ, OP_SHAPE_SEARCH, 200, 0,
     search_fields},
    {OP_EXPORT, "export", "GET", "/export/v1/{path}", "", OP_KIND_FRONT, OP_SHAPE_LINES, 200, 0,
     export_fields},
    {OP_IMPORT, "import", "POST", "/import/v1/{path}", "", OP_KIND_FRONT, OP_SHAPE_IMPORT, 200, 0,
     import_fields},
    {OP_SESSIONS, "sessions", "GET", "/sessions/v1", "view=list", OP_KIND_READ, OP_SHAPE_SESSIONS,
     200, 0, sessions_fields},
    {OP_EPHEMERALS, "ephemerals", "GET", "/sessions/v1", "view=ephemerals", OP_KIND_READ,
     OP_SHAPE_EPHEMERALS, 200, 0, ephemerals_fields},
    {OP_KILL, "kill", "POST", "/sessions/v1", "op=kill", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 204,
     kill_fields},
    {OP_WATCHES, "watches", "GET", "/watches/v1", "", OP_KIND_FRONT, OP_SHAPE_WATCHES, 200, 0,
     watches_fields},
    {OP_TREND, "trend", "GET", "/metrics/history/v1", "", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0,
     trend_fields},
    {.name = NULL},
};

enum {
    ROWS = sizeof(table) / sizeof(table[0]) - 1
};

const struct op_def *ops_table(void)
{
    return table;
}

_Static_assert(ROWS == OP_IDS - 1, "each operation has a row");

const struct op_def *ops_by_id(enum op_id id)
{
    size_t row = (size_t)id - 1;

    if (id < OP_GET || row >= ROWS) {
        return NULL;
    }
    ASSERT(table[row].id == id); /* Rows are in the order of their numbers. */
    return &table[row];
}

const struct op_def *ops_by_name(struct slice name)
{
    for (const struct op_def *def = table; def->name; def++) {
        if (slice_eq(slice_str(def->name), name)) {
            return def;
        }
    }
    return NULL;
}

bool op_is_internal(enum op_id op)
{
    return op == OP_REAP || op == OP_EXPIRE;
}

bool op_is_http_only(enum op_id op)
{
    return op == OP_EXPORT || op == OP_IMPORT || op == OP_WATCHES || op == OP_TREND;
}

const struct op_field *op_field_find(const struct op_def *def, struct slice name)
{
    for (const struct op_field *field = def->fields; field->name; field++) {
        if (slice_eq(slice_str(field->name), name)) {
            return field;
        }
    }
    return NULL;
}

void op_args_init(struct op_args *args, enum op_id op)
{
    ASSERT(ops_by_id(op));

    *args = (struct op_args){.op = op, .version = -1, .aversion = -1, .kind = WATCH_PERSISTENT};
    if (op == OP_WATCH) {
        args->dataformat = OP_AUTO; /* For events, which people read as they arrive. */
    }
    if (op == OP_TREND) {
        args->step_s = TREND_FINE_S;
    }
}

static bool multi_is_read(const struct op_args *args)
{
    return args->op_count > 0 && ops_by_id(args->ops[0].op)->kind == OP_KIND_READ;
}

enum op_kind op_args_kind(const struct op_args *args)
{
    if (args->op == OP_MULTI && multi_is_read(args)) {
        return OP_KIND_READ;
    }
    return ops_by_id(args->op)->kind;
}
