/* path.h - which paths are legal: ZooKeeper's rules, on UTF-8 (astral characters are allowed). */
#ifndef SERVER_STATE_PATH_H
#define SERVER_STATE_PATH_H

#include "base/buf.h"
#include "base/err.h"

/* Returns ERR_OK, or ERR_BAD_ARGUMENTS with the reason as a constant sentence in `ret_why` (may be
 * NULL). */
enum err path_check(struct slice path, const char **ret_why);

/* Returns the parent of a valid path other than "/". */
struct slice path_parent(struct slice path);

/* Returns the last component; empty for "/". */
struct slice path_name(struct slice path);

/* Whether the path is that of a built-in znode: "/", "/zookeeper", "/zookeeper/quota" or
 * "/zookeeper/config". */
bool path_is_builtin(struct slice path);

/* Whether `path` is `ancestor` or below it. */
bool path_is_within(struct slice path, struct slice ancestor);

/* Returns `path`, which is `top` or below it, relative to `top`; empty for the top itself. */
struct slice path_below(struct slice path, struct slice top);

/* Appends the full path of `below`, which is relative to `top`; an empty `below` is `top` itself.
 */
void path_join(struct buf *out, struct slice top, struct slice below);

/* Compares two paths in the order of a walk, by components: "/a", "/a/x", "/a-". The sign of the
 * result is as for slice_cmp. */
int path_order(struct slice a, struct slice b);

/* Returns the next component of a path and moves *pos, which starts at 0; an empty slice at the
 * end. */
struct slice path_component(struct slice path, size_t *pos);

#endif
