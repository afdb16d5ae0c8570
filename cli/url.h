/*
 * url.h - the replicas that a client knows, the parts of a request's target, and paths of znodes.
 * Pure.
 */
#ifndef CLI_URL_H
#define CLI_URL_H

#include "base/buf.h"

enum {
    URL_MAX = 128 << 10,
    URL_NUMBER_MAX = 24,
    ENDPOINTS_MAX = 32,
    ENDPOINT_MAX = 300 /* Bytes of an endpoint, with its "https://". */
};

/* The endpoints of a client, which stays with `current` as long as that endpoint answers. */
struct endpoints {
    char urls[ENDPOINTS_MAX][ENDPOINT_MAX]; /* "http://host:port" or https; no slash behind. */
    int count;
    int current;
};

/* Parses a list "host:port,host:port". Blanks around an item are dropped, a missing port is 9998,
 * and an item may have "http://", the default, or "https://". Returns false when the list is wrong:
 * `ret_fault` is the place of the error. */
bool endpoints_parse(struct endpoints *endpoints, const char *list, const char **ret_fault);

/* Whether a URL begins with "https://". */
bool url_is_secure(const char *url);

/* Whether two URLs differ in their scheme at most: a port may speak both. */
bool url_same_place(const char *url, const char *other);

/* Makes the next endpoint, in a ring, the current one. */
void endpoints_turn(struct endpoints *endpoints);

static inline const char *endpoints_url(const struct endpoints *endpoints)
{
    return endpoints->urls[endpoints->current];
}

/* Appends the path of a znode, escaped. */
void url_path(struct buf *url, const char *path);

/* Appends "?name=value" or "&name=value"; the value is escaped. */
void url_param(struct buf *url, const char *name, const char *value);

/* Values of parameters. URL_NUMBER() is a number as text, valid until the end of the block.
 * url_flag() is "true", or NULL when the flag is not given. */
#define URL_NUMBER(value) url_number((char[URL_NUMBER_MAX]){0}, value)

const char *url_number(char text[URL_NUMBER_MAX], int64_t value);

static inline const char *url_flag(bool given)
{
    return given ? "true" : NULL;
}

/* Resolves a path such as "a/../b" within `cwd`. A slash at the end is kept: it asks the ensemble
 * to name the new znode with a number ("queue/"). The parent of the root is the root. */
void url_resolve(const char *cwd, const char *text, struct buf *path);

/* Splits a path, which begins with a slash. Puts the parent into `parent`, and returns the part
 * after the last slash. */
const char *url_split(const char *path, struct buf *parent);

/* Returns why a text is not the path of a znode, or NULL. With `open` the last name may be missing
 * or incomplete ("/queue/" or "/queue/item-"), because the ensemble appends a number. */
const char *url_path_fault(const char *path, bool open);

#endif
