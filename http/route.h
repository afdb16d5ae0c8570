/*
 * route.h - finds the row of the table of operations for a method and a path.
 *
 * The routes are built from the table at the start. Only resources that are no operation are named
 * here: probes, metrics, the index, the API description, the dashboard and the path of WebSockets.
 */
#ifndef HTTP_ROUTE_H
#define HTTP_ROUTE_H

#include "server/op/ops.h"

enum {
    HTTP_ROUTES_MAX = 32,
    HTTP_ROWS_MAX = 12 /* Rows of one route. */
};

enum http_route_kind {
    HTTP_ROUTE_OPS,
    HTTP_ROUTE_INDEX,
    HTTP_ROUTE_PROBE,
    HTTP_ROUTE_METRICS,
    HTTP_ROUTE_DOCUMENT,
    HTTP_ROUTE_UI,
    HTTP_ROUTE_SOCKET /* The path of WebSockets; the acceptor takes a valid first request. */
};

struct http_route {
    enum http_route_kind kind;
    const char *name; /* The name in the table: "/znodes/v1/{path}". */
    size_t fixed_len; /* Length of `name` without "/{path}" or "/{id}". */
    bool has_path;    /* The fixed part is followed by the path of a znode or a file. */
    bool has_id;      /* The fixed part may be followed by a slash and an id: that of a session, */
    bool has_member;  /* or of a member of the ensemble. */
    const struct op_def *rows[HTTP_ROWS_MAX];
    uint32_t row_count;
};

struct http_routes {
    struct http_route items[HTTP_ROUTES_MAX];
    uint32_t count;
};

void http_routes_init(struct http_routes *routes);

/* Returns the route of a decoded path, or NULL. `*ret_path` is the rest after the fixed part, with
 * its slash, or empty. */
const struct http_route *http_route_find(const struct http_routes *routes, struct slice path,
                                         struct slice *ret_path);

/* Returns the first row of the method, or NULL. */
const struct op_def *http_route_method(const struct http_route *route, struct slice method);

/* Returns the first row of the method that applies to the collection but not to its elements, or
 * NULL. */
const struct op_def *http_route_collection(const struct http_route *route, struct slice method);

/* Returns the name of the query parameter that selects a row of the method ("view"), or empty. */
struct slice http_route_key(const struct http_route *route, struct slice method);

/* Returns the row of the method that this value of the parameter selects, or NULL. */
const struct op_def *http_route_select(const struct http_route *route, struct slice method,
                                       struct slice value);

/* Whether the row applies to the resource in the URL. With `element` this resource is an element of
 * the collection, to which only some rows apply: a session cannot be opened there. Without
 * `element` it is the collection, to which each row applies, since a header may name a session;
 * but a row about a member of the ensemble needs its id in the URL. */
bool http_route_is_of(const struct op_def *def, bool element);

/* Appends the methods of the route: "GET, HEAD, OPTIONS". */
void http_route_allow(const struct http_route *route, bool element, struct buf *out);

#endif
