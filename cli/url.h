/* url.h - targets of requests, written piece by piece. Pure. */
#ifndef CLI_URL_H
#define CLI_URL_H

#include "base/buf.h"

enum {
    URL_MAX = 128 << 10
};

/* A target in a buffer of its own: begins with `resource`, as "/znodes/v1"; `path` (NULL: none) is
 * the path of a znode and follows it, escaped. Released by buf_release. */
void url_init(struct buf *url, const char *resource, const char *path);

/* Appends "?name=value" or "&name=value"; the value is escaped, NULL is "true". */
void url_param(struct buf *url, const char *name, const char *value);
void url_param_number(struct buf *url, const char *name, int64_t value);

/* What `path` names: its parent, which is put into `parent`, and the part behind the last slash.
 * The path begins with a slash. */
const char *url_split(const char *path, struct buf *parent);

/* The reason why a text is no path of a znode, or NULL. With `open` the last name may be missing or
 * not whole: "/queue/" or "/queue/item-" for what the ensemble numbers. */
const char *url_path_fault(const char *path, bool open);

#endif
