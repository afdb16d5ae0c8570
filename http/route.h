/*
 * route.h - which row of the table of operations a method and a path mean.
 *
 * Built from the table at the start: routes are not written down here. Only what is no operation
 * (probes, metrics, the index, the contract, the dashboard, the place of WebSockets) is named by
 * this folder.
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
    HTTP_ROUTE_SOCKET /* For WebSockets: a request that gets this far is none. */
};

struct http_route {
    enum http_route_kind kind;
    const char *name; /* As in the table, for the log: "/znodes/v1/{path}". */
    size_t fixed_len; /* Of `name` without "/{path}" or "/{id}". */
    bool has_path;    /* What follows the fixed part is the path of a znode, or of a file. */
    bool has_id;      /* It is a slash, and the id of a session or nothing. */
    const struct op_def *rows[HTTP_ROWS_MAX];
    uint32_t row_count;
};

struct http_routes {
    struct http_route items[HTTP_ROUTES_MAX];
    uint32_t count;
};

void http_routes_init(struct http_routes *routes);

/* The route of a decoded path, or NULL. `*ret_path` is what follows the fixed part, from its slash
 * on: empty when there is nothing. */
const struct http_route *http_route_find(const struct http_routes *routes, struct slice path,
                                         struct slice *ret_path);

/* First row of that method, or NULL. */
const struct op_def *http_route_method(const struct http_route *route, struct slice method);

/* First row of that method that is of the collection alone, not of its elements; or NULL. */
const struct op_def *http_route_collection(const struct http_route *route, struct slice method);

/* The query parameter that chooses among the rows of a method ("view"), or empty. */
struct slice http_route_key(const struct http_route *route, struct slice method);

/* The row of that method and value of the key, or NULL. */
const struct op_def *http_route_select(const struct http_route *route, struct slice method,
                                       struct slice value);

/* Whether a row of a collection and its elements is there for an element, too: a session is opened
 * at the collection alone. */
bool http_route_is_of(const struct op_def *def, bool element);

/* Appends "GET, HEAD, OPTIONS". */
void http_route_allow(const struct http_route *route, bool element, struct buf *out);

#endif
