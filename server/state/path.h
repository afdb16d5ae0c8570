/* path.h - which paths are legal: ZooKeeper's rules, on UTF-8 (astral characters are allowed). */
#ifndef SERVER_STATE_PATH_H
#define SERVER_STATE_PATH_H

#include "base/err.h"
#include "base/slice.h"

/* OK, or ERR_BAD_ARGUMENTS with the reason as a constant sentence in `ret_why` (may be NULL). */
enum err path_check(struct slice path, const char **ret_why);

/* Parent of a valid path other than "/". */
struct slice path_parent(struct slice path);

/* Last component; empty for "/". */
struct slice path_name(struct slice path);

/* Built-in znodes: "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config". */
bool path_is_builtin(struct slice path);

/* Whether `path` is `ancestor` or below it. */
bool path_is_within(struct slice path, struct slice ancestor);

/* The order of a walk, by components: "/a", "/a/x", "/a-". As slice_cmp. */
int path_order(struct slice a, struct slice b);

/* Next component of a path, starting at *pos = 0; empty slice at the end. */
struct slice path_component(struct slice path, size_t *pos);

#endif
