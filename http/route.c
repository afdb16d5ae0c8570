#include "http/route.h"

#include "base/check.h"
#include "openapi/documents.h"

static const char path_suffix[] = "/{path}";
static const char id_suffix[] = "/{id}";
static const char member_field[] = "id"; /* That of a session is called `session`. */

static const struct http_route fixed_routes[] = {
    {.kind = HTTP_ROUTE_INDEX, .name = "/"},
    {.kind = HTTP_ROUTE_PROBE, .name = "/livez"},
    {.kind = HTTP_ROUTE_PROBE, .name = "/readyz"},
    {.kind = HTTP_ROUTE_METRICS, .name = "/metrics"},
    {.kind = HTTP_ROUTE_SOCKET, .name = "/ws/v1"},
    {.kind = HTTP_ROUTE_DOCUMENT, .name = DOCUMENT_OPENAPI},
    {.kind = HTTP_ROUTE_DOCUMENT, .name = DOCUMENT_ASYNCAPI},
    {.kind = HTTP_ROUTE_UI, .name = "/ui/{path}"},
};

static bool ends_with(const char *name, const char *suffix, size_t *ret_rest)
{
    size_t len = strlen(name);
    size_t suffix_len = strlen(suffix);
    bool ends = len > suffix_len && strcmp(name + len - suffix_len, suffix) == 0;

    *ret_rest = ends ? len - suffix_len : len;
    return ends;
}

static struct http_route *find_fixed(struct http_routes *routes, struct slice fixed)
{
    for (uint32_t i = 0; i < routes->count; i++) {
        struct http_route *route = &routes->items[i];

        if (slice_eq(slice_make(route->name, route->fixed_len), fixed)) {
            return route;
        }
    }
    return NULL;
}

/* Returns the route of a name; adds the route if the name is new. A collection and its elements
 * share one route, which has the name of the elements' route. */
static struct http_route *route_of(struct http_routes *routes, const char *name)
{
    size_t fixed_len = 0;
    bool has_path = ends_with(name, path_suffix, &fixed_len);
    bool has_id = !has_path && ends_with(name, id_suffix, &fixed_len);
    struct http_route *route = find_fixed(routes, slice_make(name, fixed_len));

    if (!route) {
        ASSERT(routes->count < HTTP_ROUTES_MAX);
        route = &routes->items[routes->count++];
        *route = (struct http_route){
            .kind = HTTP_ROUTE_OPS, .name = name, .fixed_len = fixed_len, .has_path = has_path};
    }
    if (has_id) {
        route->name = name;
        route->has_id = true;
    }
    return route;
}

/* Whether the row is about the member of the ensemble that the URL names. */
static bool is_of_member(const struct op_def *def)
{
    const struct op_field *field = op_field_find(def, slice_str(member_field));

    return field && field->source == OP_FROM_PATH;
}

void http_routes_init(struct http_routes *routes)
{
    routes->count = 0;
    for (const struct op_def *def = ops_table(); def->name; def++) {
        if (def->route[0] == '\0') {
            continue;
        }

        struct http_route *route = route_of(routes, def->route);

        ASSERT(route->row_count < HTTP_ROWS_MAX);
        route->rows[route->row_count++] = def;
        route->has_member = route->has_member || is_of_member(def);
    }
    for (size_t i = 0; i < sizeof(fixed_routes) / sizeof(fixed_routes[0]); i++) {
        route_of(routes, fixed_routes[i].name)->kind = fixed_routes[i].kind;
    }
}

const struct http_route *http_route_find(const struct http_routes *routes, struct slice path,
                                         struct slice *ret_path)
{
    *ret_path = slice_make(NULL, 0);
    for (uint32_t i = 0; i < routes->count; i++) {
        const struct http_route *route = &routes->items[i];

        if (!slice_starts_with(path, slice_make(route->name, route->fixed_len))) {
            continue;
        }
        if (path.len == route->fixed_len) {
            return route;
        }
        if ((route->has_path || route->has_id) && path.data[route->fixed_len] == '/') {
            *ret_path = slice_from(path, route->fixed_len);
            return route;
        }
    }
    return NULL;
}

const struct op_def *http_route_method(const struct http_route *route, struct slice method)
{
    for (uint32_t i = 0; i < route->row_count; i++) {
        if (slice_eq(slice_str(route->rows[i]->method), method)) {
            return route->rows[i];
        }
    }
    return NULL;
}

const struct op_def *http_route_collection(const struct http_route *route, struct slice method)
{
    for (uint32_t i = 0; route->has_id && i < route->row_count; i++) {
        const struct op_def *def = route->rows[i];

        if (slice_eq(slice_str(def->method), method) && !http_route_is_of(def, true)) {
            return def;
        }
    }
    return NULL;
}

struct slice http_route_key(const struct http_route *route, struct slice method)
{
    const struct op_def *def = http_route_method(route, method);
    const char *equals = def ? strchr(def->select, '=') : NULL;

    return equals ? slice_make(def->select, (size_t)(equals - def->select)) : slice_make(NULL, 0);
}

const struct op_def *http_route_select(const struct http_route *route, struct slice method,
                                       struct slice value)
{
    for (uint32_t i = 0; i < route->row_count; i++) {
        const struct op_def *def = route->rows[i];
        const char *equals = strchr(def->select, '=');

        if (equals && slice_eq(slice_str(def->method), method) &&
            slice_eq(slice_str(equals + 1), value)) {
            return def;
        }
    }
    return NULL;
}

bool http_route_is_of(const struct op_def *def, bool element)
{
    size_t rest = 0;

    return element ? ends_with(def->route, id_suffix, &rest) : !is_of_member(def);
}

void http_route_allow(const struct http_route *route, bool element, struct buf *out)
{
    bool get = route->kind != HTTP_ROUTE_OPS;

    for (uint32_t i = 0; i < route->row_count; i++) {
        const struct op_def *def = route->rows[i];

        if (http_route_method(route, slice_str(def->method)) == def &&
            http_route_is_of(def, element)) {
            get = get || strcmp(def->method, "GET") == 0;
            buf_append_str(out, def->method);
            buf_append_str(out, ", ");
        }
    }
    if (route->kind != HTTP_ROUTE_OPS) {
        buf_append_str(out, "GET, ");
    }
    buf_append_str(out, get ? "HEAD, OPTIONS" : "OPTIONS");
}
