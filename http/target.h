/*
 * target.h - the request target, decoded once, by strict rules.
 *
 * libmicrohttpd cuts a path at an encoded NUL and accepts bad escapes, so the raw text is decoded
 * here instead. In the path `+` is itself and `%2F` is a slash; in the query `+` is a blank.
 *
 * For the access log and problem objects, targets are redacted: the secret of a session may be the
 * last segment at /sessions/v1, or the value of session=, or stand anywhere else by a client's
 * mistake.
 */
#ifndef HTTP_TARGET_H
#define HTTP_TARGET_H

#include "base/buf.h"
#include "base/err.h"
#include "http/route.h"

enum {
    HTTP_PARAMS_MAX = 16
};

struct http_param {
    struct slice name;
    struct slice value;
};

struct http_target {
    struct slice path;         /* Decoded, from the first slash on. */
    struct slice authority;    /* The authority of a target in absolute form; else empty. */
    struct http_param *params; /* In the buffer of the decoded text, so that only a connection whose
                                  target has parameters needs memory for them. */
    uint32_t param_count;
    bool is_asterisk; /* The target is "*", for OPTIONS. */
};

/* Parses a target. Slices of `*ret_target` point into `raw` and `decoded`. `decoded` is
 * overwritten; afterwards only http_target_join may change it. ERR_BAD_ARGUMENTS: `*ret_why` is a
 * constant sentence. */
enum err http_target_parse(struct slice raw, struct buf *decoded, struct http_target *ret_target,
                           const char **ret_why);

/* Returns parent + "/" + name, written into the room that http_target_parse left in `decoded`. */
struct slice http_target_join(struct buf *decoded, struct slice parent, struct slice name);

/* Appends `path`; escapes all but unreserved characters, sub-delimiters, `:`, `@` and `/`. */
void http_target_encode(struct buf *out, struct slice path);

/* Appends the target as sent, or its path alone, without secrets. `route` may be NULL. */
void http_redact_target(const struct http_route *route, struct slice raw, struct buf *out);
void http_redact_path(const struct http_route *route, struct slice path, struct buf *out);

#endif
