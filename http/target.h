/*
 * target.h - the request target, decoded by our own strict rules, once.
 *
 * The library cuts a path at an encoded NUL and lets bad escapes pass; so the raw text is taken
 * before it sees it. In the path `+` is itself and `%2F` is a slash; in the query `+` is a blank.
 */
#ifndef HTTP_TARGET_H
#define HTTP_TARGET_H

#include "base/buf.h"
#include "base/err.h"

enum {
    HTTP_PARAMS_MAX = 16
};

struct http_param {
    struct slice name;
    struct slice value;
};

struct http_target {
    struct slice path;      /* Decoded, from the first slash on. */
    struct slice authority; /* Of an absolute-form target, else empty. */
    struct http_param params[HTTP_PARAMS_MAX];
    uint32_t param_count;
    bool is_asterisk; /* "*", for OPTIONS. */
};

/* Slices point into `raw` and `decoded`, which is filled anew and must not change afterwards except
 * by http_target_join. ERR_BAD_ARGUMENTS with a constant sentence. */
enum err http_target_parse(struct slice raw, struct buf *decoded, struct http_target *ret_target,
                           const char **ret_why);

/* parent + "/" + name, in the room that http_target_parse has left in `decoded`. */
struct slice http_target_join(struct buf *decoded, struct slice parent, struct slice name);

/* Appends `path` with everything escaped that is not unreserved, a sub-delimiter, `:`, `@`, `/`. */
void http_target_encode(struct buf *out, struct slice path);

#endif
