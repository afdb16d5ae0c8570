/*
 * revise.h - reads a znode or its ACL, and writes it back only if no other client wrote in between:
 * for changes that depend on the present data.
 */
#ifndef CLI_REVISE_H
#define CLI_REVISE_H

#include "cli/cli.h"

enum {
    REVISE_AGAIN = -2 /* Another client wrote first: read again. */
};

struct revise {
    struct cli *cli;
    const char *path;
    bool acl;        /* The ACL (as JSON) is read and written, not the data. */
    bool parents;    /* Also creates missing parents with the znode. */
    uint64_t end_ms; /* After this time there is no new attempt. */

    /* What was read last. */
    bool exists;
    bool null;
    struct buf data;
    char match[CLIENT_HEADER_MAX]; /* Header that makes a write conditional on this state. */
};

/* Calls `act`, which reads and may write, until it returns another code than REVISE_AGAIN. Returns
 * that code. The caller sets `cli`, `path`, and `acl` or `parents`. */
int revise_run(struct revise *revise, int (*act)(struct revise *revise, void *ctx), void *ctx);

/* Reads the znode. Returns CMD_OK, also when there is no znode, or the code of a reported error. */
int revise_read(struct revise *revise);

/* Writes the znode if it is unchanged. Returns CMD_OK, REVISE_AGAIN, CMD_SHOWN, or the code of a
 * reported error: CMD_CONFLICT when there is no time for another attempt. */
int revise_write(struct revise *revise, struct slice data, bool null);

#endif
