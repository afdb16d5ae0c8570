/* copy.h - a line of an export as the operation that makes the znode elsewhere. */
#ifndef CLI_COPY_H
#define CLI_COPY_H

#include "cli/jsonr.h"

/* An element of a multi that makes `path` out of a line of an export. Pure. */
json_t *copy_create_op(const json_t *line, const char *path, bool with_acl);

#endif
