/* copy.h - a subtree as the operations of one multi that make it elsewhere. */
#ifndef CLI_COPY_H
#define CLI_COPY_H

#include "cli/cli.h"

struct copy {
    const char *from;
    const char *to;
    bool move;      /* And delete the source. */
    bool recursive; /* With all that is below it. */
    bool parents;   /* Make missing parents of the target. */
    bool with_acl;

    json_t *ops;        /* What is to be done: creates, and then deletes. The caller drops it. */
    size_t count;       /* Znodes. */
    int64_t ephemerals; /* Left out. */
    bool told;          /* What went wrong has been said. */
};

/* Reads the source as it is at one moment, and fills in the operations. CMD_OK, CMD_SHOWN, or an
 * exit code: then `told` says whether client_error() is still to be reported. */
int copy_read(struct cli *cli, struct copy *copy);

/* An element of a multi that makes `path` out of a line of an export. Pure. */
json_t *copy_create_op(const json_t *line, const char *path, bool with_acl);

#endif
