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
    ENDPOINT_MAX = 300 /* Bytes of one, with its "http://". */
};

/* A client stays with one of them as long as that answers. */
struct endpoints {
    char urls[ENDPOINTS_MAX][ENDPOINT_MAX]; /* "http://host:port", no slash behind it. */
    int count;
    int current;
};

/* A list "host:port,host:port": blanks around are dropped, a port that is missing is 9998,
 * "http://" may be there. False: `ret_fault` is the place in the list that is wrong. */
bool endpoints_parse(struct endpoints *endpoints, const char *list, const char **ret_fault);

/* The next one, in a ring. */
void endpoints_turn(struct endpoints *endpoints);

static inline const char *endpoints_url(const struct endpoints *endpoints)
{
    return endpoints->urls[endpoints->current];
}

/* Appends the path of a znode, escaped. */
void url_path(struct buf *url, const char *path);

/* Appends "?name=value" or "&name=value"; the value is escaped. */
void url_param(struct buf *url, const char *name, const char *value);

/* The value of a parameter: a number (the text is valid until the end of the block); "true", or
 * NULL when the flag is not given. */
#define URL_NUMBER(value) url_number((char[URL_NUMBER_MAX]){0}, value)

const char *url_number(char text[URL_NUMBER_MAX], int64_t value);

static inline const char *url_flag(bool given)
{
    return given ? "true" : NULL;
}

/* Makes a whole path of "a/../b" within `cwd`. One that ends with a slash does so: "queue/" is what
 * the ensemble numbers. Above the root is the root. */
void url_resolve(const char *cwd, const char *text, struct buf *path);

/* What `path` names: its parent, which is put into `parent`, and the part behind the last slash.
 * The path begins with a slash. */
const char *url_split(const char *path, struct buf *parent);

/* The reason why a text is no path of a znode, or NULL. With `open` the last name may be missing or
 * not whole: "/queue/" or "/queue/item-" for what the ensemble numbers. */
const char *url_path_fault(const char *path, bool open);

#endif
