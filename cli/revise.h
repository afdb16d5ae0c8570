/*
 * revise.h - reads a znode, and writes it back only if no other client was quicker: for changes
 * that depend on the present data.
 */
#ifndef CLI_REVISE_H
#define CLI_REVISE_H

#include "cli/cli.h"

enum {
    REVISE_AGAIN = -2 /* Another client was quicker: read again. */
};

struct revise {
    struct cli *cli;
    const char *path;
    bool parents;    /* Makes missing parents when it makes the znode. */
    uint64_t end_ms; /* Until then it is worth trying. */

    /* What was read. */
    bool exists;
    bool null;
    struct buf data;
    char match[CLIENT_HEADER_MAX]; /* The header that asks for just that. */
};

/* Calls `act`, which reads and may write, until it returns another code than REVISE_AGAIN: the exit
 * code. */
int revise_run(struct cli *cli, const char *path, bool parents,
               int (*act)(struct revise *revise, void *ctx), void *ctx);

/* CMD_OK also when there is no such znode; else reported. */
int revise_read(struct revise *revise);

/* CMD_OK, REVISE_AGAIN, CMD_SHOWN, or an exit code that was reported: when there is no more time
 * for another try that is CMD_CONFLICT. */
int revise_write(struct revise *revise, struct slice data, bool null);

#endif
