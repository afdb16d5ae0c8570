/*
 * Targets of HTTP requests: the first byte chooses a method, the rest is the target as sent. An
 * accepted target is decoded once and completely, and its parameters pass through the fields of
 * their row, as in the front end.
 */
#include "base/utf8.h"
#include "http/etag.h"
#include "http/route.h"
#include "http/target.h"
#include "tests/fuzz/fuzz.h"

enum {
    DECODED_MAX = 3 * FUZZ_INPUT_MAX,
    ENCODED_MAX = 3 * FUZZ_INPUT_MAX
};

static const char *const methods[] = {"GET", "PUT", "POST", "DELETE", "PATCH"};

static bool has_control(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < 0x20 || text.data[i] == 0x7f) {
            return true;
        }
    }
    return false;
}

static void check_part(struct slice part)
{
    ASSERT(!has_control(part) && utf8_valid(part));
}

/* A path that is written as a URL means itself. */
static void check_round_trip(struct slice path)
{
    struct http_target again;
    struct buf url;
    struct buf decoded;
    const char *why = NULL;

    buf_init(&url, ENCODED_MAX);
    buf_init(&decoded, 2 * ENCODED_MAX + 2);
    http_target_encode(&url, path);
    ASSERT(!url.overflow);

    enum err err = http_target_parse(buf_slice(&url), &decoded, &again, &why);

    ASSERT(err == ERR_OK && slice_eq(again.path, path));
    ASSERT(again.param_count == 0 && again.authority.len == 0);
    buf_release(&url);
    buf_release(&decoded);
}

/* The server understands its own ETags. */
static void check_etag(struct op_args *args, struct slice seed)
{
    const struct op_field *field = op_field_find(ops_by_id(OP_SET), slice_str("If-Match"));
    struct wire_reader reader;
    struct stat_view stat;
    struct op_args back;
    char etag[HTTP_ETAG_MAX];
    const char *why = NULL;

    wire_reader_init(&reader, seed);
    stat = (struct stat_view){.version = (int32_t)wire_get_u32(&reader),
                              .czxid = wire_get_u64(&reader)};
    http_etag_changed(OP_SET, &stat, etag);
    op_args_init(&back, OP_SET);

    enum err err = op_field_parse(field, slice_str(etag), &back, &why);

    ASSERT(err == ERR_OK && back.has_etag);
    ASSERT(back.etag_czxid == stat.czxid && back.etag_version == stat.version);
    ASSERT(http_etag_matches(slice_str(etag), etag));
    ASSERT(args->op == OP_GET || args->path.len > 0 || args->path.data == NULL);
}

static void take_param(const struct op_def *def, const struct http_param *param,
                       struct op_args *args, struct buf *decoded)
{
    const struct op_field *field = op_field_find(def, param->name);
    const char *why = NULL;

    if (!field || field->source != OP_FROM_QUERY) {
        return;
    }
    if (field->type != OP_FIELD_NAME) {
        enum err err = op_field_parse(field, param->value, args, &why);

        ASSERT(err == ERR_OK || (err == ERR_BAD_ARGUMENTS && why));
    } else if (args->path.len > 0 && !args->sequence) {
        size_t len = args->path.len + param->value.len + (args->path.len > 1 ? 1 : 0);
        struct slice joined = http_target_join(decoded, args->path, param->value);

        ASSERT(joined.len == len && slice_starts_with(joined, args->path));
        args->sequence = true; /* There is room for one join. */
    }
}

static void take_route(const struct http_target *target, struct slice method, struct buf *decoded)
{
    static struct http_routes routes;
    struct op_args args;
    struct slice path;

    http_routes_init(&routes);

    const struct http_route *route = http_route_find(&routes, target->path, &path);
    const struct op_def *def = route ? http_route_method(route, method) : NULL;

    if (!def) {
        return;
    }
    for (uint32_t i = 0; i < target->param_count; i++) {
        if (slice_eq(target->params[i].name, http_route_key(route, method))) {
            def = http_route_select(route, method, target->params[i].value);
            if (!def) {
                return;
            }
            break;
        }
    }
    op_args_init(&args, def->id);
    args.path = path;
    ASSERT(path.len == 0 || path.data[0] == '/');
    for (uint32_t i = 0; i < target->param_count; i++) {
        take_param(def, &target->params[i], &args, decoded);
    }
    check_etag(&args, target->path);
}

static bool fuzz_one(struct slice input)
{
    struct wire_reader reader;
    struct http_target target;
    struct buf decoded;
    const char *why = NULL;

    wire_reader_init(&reader, input);

    const char *method = methods[wire_get_u8(&reader) % (sizeof(methods) / sizeof(methods[0]))];
    struct slice raw = fuzz_rest(&reader);

    buf_init(&decoded, DECODED_MAX + HTTP_PARAMS_MAX * sizeof(struct http_param));

    enum err err = http_target_parse(raw, &decoded, &target, &why);

    ASSERT(decoded.len <= raw.len + HTTP_PARAMS_MAX * sizeof(*target.params));
    if (err != ERR_OK) {
        ASSERT(err == ERR_BAD_ARGUMENTS && why);
    } else if (!target.is_asterisk) {
        ASSERT(target.path.len > 0 && target.path.data[0] == '/');
        ASSERT(target.param_count <= HTTP_PARAMS_MAX && target.authority.len < raw.len);
        check_part(target.path);
        for (uint32_t i = 0; i < target.param_count; i++) {
            check_part(target.params[i].name);
            check_part(target.params[i].value);
        }
        check_round_trip(target.path);
        take_route(&target, slice_str(method), &decoded);
    }
    buf_release(&decoded);
    return err == ERR_OK;
}

static void seed_target(struct fuzz_sink *sink, const char *name, uint8_t method, const char *text)
{
    struct buf bytes;

    buf_init(&bytes, FUZZ_INPUT_MAX);
    wire_put_u8(&bytes, method);
    wire_put_raw(&bytes, slice_str(text));
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    seed_target(sink, "index", 0, "/");
    seed_target(sink, "get", 0, "/znodes/v1/a%20b/z%C3%BCrich?view=data&dataformat=utf8");
    seed_target(sink, "children", 0, "/znodes/v1/?view=children&limit=5&after=x+y&with=stat");
    seed_target(sink, "tree", 0, "/znodes/v1/a?view=tree&depth=2&consistency=linearizable");
    seed_target(sink, "set", 1, "/znodes/v1/a?version=-1&upsert=true&parents=1");
    seed_target(sink, "create", 2, "/znodes/v1/q?name=n-&sequence=true&ttl=500");
    seed_target(sink, "create-name", 2, "/znodes/v1/q?op=create&name=n%20m&null=true");
    seed_target(sink, "delete", 3, "/znodes/v1/a?recursive=true&max=10");
    seed_target(sink, "absolute", 0, "http://localhost:9998/status/v1");
    seed_target(sink, "asterisk", 0, "*");
    seed_target(sink, "empties", 0, "/livez?&&verbose&=&a=b=c&");
}

FUZZ_TARGET(http_target)
