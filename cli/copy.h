/* copy.h - turns a line of an export into the operation that creates the znode elsewhere. */
#ifndef CLI_COPY_H
#define CLI_COPY_H

#include "cli/jsonr.h"

/* Returns the element of a multi that creates `path` from a line of an export. Pure. */
json_t *copy_create_op(const json_t *line, const char *path, bool with_acl);

#endif
