#include "server/op/ops.h"

#include "base/check.h"
#include "server/op/acl.h"
#include "server/op/change.h"
#include "server/op/trend_request.h"

#define AT(member) offsetof(struct op_args, member)
#define FULL(name, type, source, member, has, min, max)                                          \
    {                                                                                            \
        name, OP_FIELD_##type, OP_FROM_##source, AT(member), has, (int64_t)(min), (int64_t)(max) \
    }
#define FIELD(name, type, source, member)             FULL(name, type, source, member, 0, 0, 0)
#define BOUNDED(name, type, source, member, min, max) FULL(name, type, source, member, 0, min, max)

#define BOOL_FIELD(name, member)         BOUNDED(name, BOOL, QUERY, member, 0, 1)
#define U32_FIELD(name, member)          BOUNDED(name, U32, QUERY, member, 1, UINT32_MAX)
#define TEXT_FIELD(name, source, member) BOUNDED(name, TEXT, source, member, 0, OPS_TEXT_MAX)

/* Fields of several operations. */
#define PATH_FIELD        BOUNDED("path", PATH, PATH, path, 0, OPS_TEXT_MAX)
#define DATA_FIELD        BOUNDED("data", BYTES, BODY, data, 0, OPS_DATA_BYTES_MAX)
#define FORMAT_FIELD      BOUNDED("dataformat", DATAFORMAT, QUERY, dataformat, 0, OP_NONE)
#define WITH_FIELD        BOUNDED("with", WITH, QUERY, with, 0, OP_WITH_DATA)
#define PERMS_FIELD       BOOL_FIELD("perms", perms)
#define WATCH_FIELD       BOUNDED("watch", BOOL, MESSAGE, watch, 0, 1)
#define ACL_FIELD         FULL("acl", ACL, BODY, acl, AT(has_acl), 0, ACL_BYTES_MAX)
#define MATCH_FIELD(type) FIELD("If-Match", type, HEADER, has_etag)
#define LIMIT_FIELD       U32_FIELD("limit", limit)
#define DEPTH_FIELD       U32_FIELD("depth", depth)
#define AFTER_FIELD       TEXT_FIELD("after", QUERY, after)
#define PARENTS_FIELD     BOOL_FIELD("parents", parents)
#define PUBLIC_FIELD      BOUNDED("public", U64, QUERY, session, 1, INT64_MAX)
#define HASH_FIELD \
    BOUNDED("hash", HASH, NOWHERE, secret_hash, TXN_SECRET_HASH_LEN, TXN_SECRET_HASH_LEN)
#define VERSION_FIELD FULL("version", I32, QUERY, version, AT(has_version), INT32_MIN, INT32_MAX)
#define AVERSION_FIELD(source) \
    FULL("aversion", I32, source, aversion, AT(has_aversion), INT32_MIN, INT32_MAX)
/* Condition: fails if the znode was deleted and created again since the client read the stat. */
#define CZXID_FIELD FULL("czxid", U64, MEMBER, czxid, AT(has_czxid), 0, INT64_MAX)

#define FIELDS(...)           \
    (const struct op_field[]) \
    {                         \
        __VA_ARGS__,          \
        {                     \
            .name = NULL      \
        }                     \
    }

static const struct op_field none[] = {{.name = NULL}};
/* A session that exists, named by its secret. */
static const struct op_field by_secret[] = {
    FIELD("session", SECRET, PATH, secret), HASH_FIELD, {.name = NULL}};

/* Fields of changes of the members. */
#define MEMBER_FIELD(source) BOUNDED("id", MEMBER, source, member, 1, OP_MEMBER_ID_MAX)
#define MEMBER_TEXTS                                                         \
    FULL("peer", TEXT, BODY, peer, AT(has_peer), 0, OPS_TEXT_MAX),           \
        FULL("client", TEXT, BODY, client, AT(has_client), 0, OPS_TEXT_MAX), \
        FULL("zone", TEXT, BODY, zone, AT(has_zone), 0, OPS_TEXT_MAX)
#define CHANGE_FIELDS(source)                                                               \
    FULL("minTolerance", I32, source, min_tolerance, AT(has_tolerance), 0, OP_MEMBERS_MAX), \
        BOUNDED("force", BOOL, source, force, 0, 1), DRY_RUN_FIELD(source), CONFIG_MATCH_FIELD
#define DRY_RUN_FIELD(source)   BOUNDED("dryRun", BOOL, source, dry_run, 0, 1)
#define CONFIG_MATCH_FIELD      FIELD("If-Match", CONFIG_MATCH, HEADER, has_etag)
#define IDS_FIELD(name, member) BOUNDED(name, IDS, BODY, member, 0, OP_MEMBERS_MAX *OP_ID_BYTES)

#define ZNODES      "/znodes/v1/{path}"
#define SESSION     "/sessions/v1/{id}"
#define SESSIONS    "/sessions/v1"
#define ALL_MEMBERS "/ensemble/v1/members"
#define ONE_MEMBER  "/ensemble/v1/members/{id}"

/* One row for each operation. A request without `select` means the first row of its method and
 * route. */
static const struct op_def table[] = {
    {OP_GET, "get", "GET", ZNODES, "view=data", OP_KIND_READ, OP_SHAPE_DATA, 200, 200,
     FIELDS(PATH_FIELD, FORMAT_FIELD, PERMS_FIELD, WATCH_FIELD)},
    {OP_EXISTS, "exists", "", "", "", OP_KIND_READ, OP_SHAPE_EXISTS, 200, 0,
     FIELDS(PATH_FIELD, PERMS_FIELD, WATCH_FIELD)},
    {OP_STAT, "stat", "GET", ZNODES, "view=stat", OP_KIND_READ, OP_SHAPE_STAT, 200, 0,
     FIELDS(PATH_FIELD, PERMS_FIELD, WATCH_FIELD)},
    {OP_CHILDREN, "children", "GET", ZNODES, "view=children", OP_KIND_READ, OP_SHAPE_CHILDREN, 200,
     0,
     FIELDS(PATH_FIELD, LIMIT_FIELD, AFTER_FIELD, WITH_FIELD, FORMAT_FIELD, PERMS_FIELD,
            WATCH_FIELD)},
    {OP_TREE, "tree", "GET", ZNODES, "view=tree", OP_KIND_READ, OP_SHAPE_TREE, 200, 0,
     FIELDS(PATH_FIELD, DEPTH_FIELD, WITH_FIELD, FORMAT_FIELD)},
    {OP_SET, "set", "PUT", ZNODES, "", OP_KIND_WRITE, OP_SHAPE_STAT, 200, 204,
     FIELDS(PATH_FIELD, DATA_FIELD, BOOL_FIELD("null", data_null), VERSION_FIELD, CZXID_FIELD,
            AVERSION_FIELD(MEMBER), MATCH_FIELD(MATCH),
            BOUNDED("If-None-Match", NONE_MATCH, HEADER, must_be_new, 0, 1),
            BOOL_FIELD("upsert", upsert), PARENTS_FIELD, BOOL_FIELD("ephemeral", ephemeral),
            ACL_FIELD)},
    {OP_CREATE, "create", "POST", ZNODES, "op=create", OP_KIND_WRITE, OP_SHAPE_CREATED, 201, 201,
     FIELDS(PATH_FIELD, DATA_FIELD, ACL_FIELD, BOOL_FIELD("null", data_null),
            FIELD("name", NAME, QUERY, path), BOOL_FIELD("sequence", sequence),
            BOOL_FIELD("ephemeral", ephemeral), BOOL_FIELD("container", container),
            BOUNDED("ttl", I64, QUERY, ttl_ms, 1, (INT64_C(1) << OPS_TTL_MS_MAX_BITS) - 1),
            PARENTS_FIELD)},
    {OP_DELETE, "delete", "DELETE", ZNODES, "", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 204,
     FIELDS(PATH_FIELD, VERSION_FIELD, CZXID_FIELD, AVERSION_FIELD(MEMBER), MATCH_FIELD(MATCH),
            BOOL_FIELD("recursive", recursive), U32_FIELD("max", max))},
    {OP_CHECK, "check", "", "", "", OP_KIND_WRITE, OP_SHAPE_STAT, 200, 0,
     FIELDS(PATH_FIELD, VERSION_FIELD, CZXID_FIELD, AVERSION_FIELD(MEMBER))},
    {OP_MULTI, "multi", "POST", "/multi/v1", "", OP_KIND_WRITE, OP_SHAPE_MULTI, 200, 0,
     FIELDS(BOUNDED("ops", OPS, BODY, ops, 1, OPS_MULTI_MAX))},
    {OP_SYNC, "sync", "POST", "/sync/v1", "", OP_KIND_SYNC, OP_SHAPE_ZXID, 200, 0, none},
    {OP_STATUS, "status", "GET", "/status/v1", "", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0, none},
    {OP_ENSEMBLE, "ensemble", "GET", "/ensemble/v1", "", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0, none},
    {OP_LIMITS, "limits", "GET", "/limits/v1", "", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0, none},
    {OP_WHOAMI, "whoami", "GET", "/whoami/v1", "", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0, none},
    {OP_REAP, "reap", "", "", "", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 0, FIELDS(PATH_FIELD)},
    {OP_SESSION, "session", "POST", SESSIONS, "op=create", OP_KIND_WRITE, OP_SHAPE_SESSION, 201, 0,
     FIELDS(BOUNDED("expire", U32, QUERY, expire_s, 1, UINT32_MAX / 1000),
            U32_FIELD("timeout_ms", timeout_ms), HASH_FIELD)},
    {OP_ATTACH, "attach", "", "", "", OP_KIND_WRITE, OP_SHAPE_SESSION, 200, 0, by_secret},
    {OP_TOUCH, "touch", "PUT", SESSION, "", OP_KIND_READ, OP_SHAPE_SESSION, 200, 0, by_secret},
    {OP_GETSESSION, "getsession", "GET", SESSION, "view=session", OP_KIND_READ, OP_SHAPE_SESSION,
     200, 0, by_secret},
    {OP_CLOSE, "close", "DELETE", SESSION, "", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 204, by_secret},
    {OP_EXPIRE, "expire", "", "", "", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 0,
     FIELDS(BOUNDED("session", U64, NOWHERE, session, 0, INT64_MAX))},
    {OP_GETACL, "getacl", "GET", ZNODES, "view=acl", OP_KIND_READ, OP_SHAPE_ACL, 200, 0,
     FIELDS(PATH_FIELD, PERMS_FIELD, TEXT_FIELD("as", QUERY, as))},
    {OP_SETACL, "setacl", "PATCH", ZNODES, "", OP_KIND_WRITE, OP_SHAPE_STAT, 200, 0,
     FIELDS(PATH_FIELD, ACL_FIELD, AVERSION_FIELD(BODY), MATCH_FIELD(ACL_MATCH))},
    {OP_WATCH, "watch", "GET", "/watch/v1/{path}", "", OP_KIND_FRONT, OP_SHAPE_FRONT, 200, 0,
     FIELDS(PATH_FIELD, FIELD("mode", KIND, QUERY, kind), /* ZooKeeper's name of `kind`. */
            FIELD("kind", KIND, QUERY, kind),
            FULL("since", SINCE, QUERY, since, AT(has_since), 0, 0), BOOL_FIELD("values", values),
            FORMAT_FIELD)},
    {OP_UNWATCH, "unwatch", "", "", "", OP_KIND_FRONT, OP_SHAPE_FRONT, 200, 0,
     FIELDS(U32_FIELD("watch", watch_id))},
    {OP_AUTH, "auth", "", "", "", OP_KIND_FRONT, OP_SHAPE_FRONT, 200, 0,
     FIELDS(TEXT_FIELD("scheme", BODY, scheme), TEXT_FIELD("credential", BODY, credential))},
    {OP_DETACH, "detach", "", "", "", OP_KIND_FRONT, OP_SHAPE_FRONT, 200, 0, none},
    {OP_PING, "ping", "", "", "", OP_KIND_FRONT, OP_SHAPE_FRONT, 200, 0, none},
    {OP_SEARCH, "search", "GET", "/search/v1/{path}", "", OP_KIND_READ, OP_SHAPE_SEARCH, 200, 0,
     FIELDS(PATH_FIELD, TEXT_FIELD("name", QUERY, pattern), BOOL_FIELD("ignoreCase", any_case),
            TEXT_FIELD("data", QUERY, data), DEPTH_FIELD, LIMIT_FIELD, AFTER_FIELD, WITH_FIELD,
            FORMAT_FIELD)},
    {OP_EXPORT, "export", "GET", "/export/v1/{path}", "", OP_KIND_FRONT, OP_SHAPE_LINES, 200, 0,
     FIELDS(PATH_FIELD, FORMAT_FIELD)},
    {OP_IMPORT, "import", "POST", "/import/v1/{path}", "", OP_KIND_FRONT, OP_SHAPE_IMPORT, 200, 0,
     FIELDS(PATH_FIELD, BOOL_FIELD("dryRun", dry_run), FIELD("conflict", CONFLICT, QUERY, conflict),
            PARENTS_FIELD)},
    {OP_SESSIONS, "sessions", "GET", SESSIONS, "view=list", OP_KIND_READ, OP_SHAPE_SESSIONS, 200, 0,
     FIELDS(LIMIT_FIELD, BOUNDED("after", U64, QUERY, after_id, 0, INT64_MAX))},
    {OP_EPHEMERALS, "ephemerals", "GET", SESSIONS, "view=ephemerals", OP_KIND_READ,
     OP_SHAPE_EPHEMERALS, 200, 0, FIELDS(PUBLIC_FIELD, LIMIT_FIELD, AFTER_FIELD, WITH_FIELD)},
    {OP_KILL, "kill", "POST", SESSIONS, "op=kill", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 204,
     FIELDS(PUBLIC_FIELD)},
    {OP_WATCHES, "watches", "GET", "/watches/v1", "", OP_KIND_FRONT, OP_SHAPE_WATCHES, 200, 0,
     FIELDS(TEXT_FIELD("path", QUERY, after), PUBLIC_FIELD, BOOL_FIELD("clients", clients),
            LIMIT_FIELD)},
    {OP_TREND, "trend", "GET", "/metrics/history/v1", "", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0,
     FIELDS(U32_FIELD("step", step_s), BOUNDED("since", I64, QUERY, since_s, 0, INT64_MAX),
            TEXT_FIELD("series", QUERY, series))},
    {OP_RELOAD, "reload", "POST", "/status/v1", "op=reload", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0,
     none},
    {OP_LEVEL, "level", "POST", "/ensemble/v1/level", "", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 204,
     FIELDS(FULL("hold", BOUND, BODY, hold, AT(has_hold), 1, UINT16_MAX),
            BOUNDED("raise", U32, BODY, raise, 1, UINT16_MAX),
            BOUNDED("force", BOOL, BODY, force, 0, 1))},
    {OP_MEMBER_ADD, "member-add", "POST", ALL_MEMBERS, "", OP_KIND_WRITE, OP_SHAPE_CHANGE, 201, 0,
     FIELDS(MEMBER_FIELD(BODY), MEMBER_TEXTS,
            BOUNDED("autoPromote", BOOL, BODY, auto_promote, 0, 1), DRY_RUN_FIELD(BODY),
            CONFIG_MATCH_FIELD)},
    {OP_MEMBER_SET, "member-set", "PUT", ONE_MEMBER, "", OP_KIND_WRITE, OP_SHAPE_CHANGE, 200, 0,
     FIELDS(MEMBER_FIELD(PATH), BOUNDED("role", ROLE, BODY, role, 0, OP_ROLE_VOTER), MEMBER_TEXTS,
            CHANGE_FIELDS(BODY))},
    {OP_MEMBER_REMOVE, "member-remove", "DELETE", ONE_MEMBER, "", OP_KIND_WRITE, OP_SHAPE_CHANGE,
     200, 0, FIELDS(MEMBER_FIELD(PATH), CHANGE_FIELDS(QUERY))},
    {OP_MEMBERS_CHANGE, "members-change", "PATCH", ALL_MEMBERS, "", OP_KIND_WRITE, OP_SHAPE_CHANGE,
     200, 0,
     FIELDS(IDS_FIELD("remove", remove), IDS_FIELD("promote", promote), IDS_FIELD("demote", demote),
            CHANGE_FIELDS(BODY))},
    {OP_BACKUP, "backup", "GET", "/backup/v1", "", OP_KIND_FRONT, OP_SHAPE_BACKUP, 200, 0,
     FIELDS(FULL("since", SINCE, QUERY, since, AT(has_since), 0, 0), BOOL_FIELD("stale", stale))},
    {OP_TOP, "top", "GET", "/top/v1", "", OP_KIND_INFO, OP_SHAPE_INFO, 200, 0, none},
    {OP_RAISE, "raise", "", "", "", OP_KIND_WRITE, OP_SHAPE_NONE, 204, 0,
     FIELDS(PATH_FIELD, BOUNDED("creates", U32, MEMBER, creates, 1, STATE_CREATES_MAX))},
    {OP_OPEN, "open", "", "", "", OP_KIND_WRITE, OP_SHAPE_SESSION, 201, 0,
     FIELDS(U32_FIELD("timeout_ms", timeout_ms), HASH_FIELD)},
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
    return op == OP_REAP || op == OP_EXPIRE || op == OP_RAISE || op == OP_OPEN;
}

bool op_is_http_only(enum op_id op)
{
    return op == OP_EXPORT || op == OP_IMPORT || op == OP_WATCHES || op == OP_TREND ||
           op == OP_RELOAD || op == OP_LEVEL || op == OP_TOP || op == OP_BACKUP ||
           op_changes_members(op);
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
        args->dataformat = OP_AUTO; /* Shows text as text, because people read event streams. */
    }
    if (op == OP_TREND) {
        args->step_s = TREND_FINE_S;
    }
}

enum op_kind op_args_kind(const struct op_args *args)
{
    bool reads = args->op == OP_MULTI && args->op_count > 0 &&
                 ops_by_id(args->ops[0].op)->kind == OP_KIND_READ;

    return reads ? OP_KIND_READ : ops_by_id(args->op)->kind;
}
