/*
 * transfer.h - one long request whose body streams in one direction: an export, or an import.
 *
 * A transfer has no deadline as a whole: it fails when no data moves for the timeout of a request.
 * Another replica is asked only while no data has moved; until then all replicas together have that
 * time. A command of several requests passes on the time that the others have left. One thread.
 */
#ifndef CLI_TRANSFER_H
#define CLI_TRANSFER_H

#include "cli/cli.h"

enum {
    TRANSFER_LINE_MAX = 16 << 20, /* Bytes of a line of an export. */
    TRANSFER_PROBLEM_MAX = 1 << 20
};

/* The progress, for display. */
struct transfer_progress {
    const char *verb; /* "exported". */
    uint64_t bytes;
    uint64_t lines;
    uint64_t bytes_total; /* 0: unknown. */
};

struct transfer {
    struct client_request request;
    int input; /* Descriptor to read the body from; -1: no body. */
    /* Takes data as it arrives; false ends the transfer. NULL: the answer is short, and is
     * collected. */
    bool (*take)(void *ctx, struct slice bytes);
    void *ctx;
    /* How long the transfer may stall; 0: the timeout of the settings. At the end of the transfer:
     * the rest of that time, without the waits for the first byte and for the answer; at least
     * 1. */
    int64_t patience_ms;
    struct transfer_progress progress;
    struct buf answer; /* The body of a refusal, or the whole answer without `take`. */
    int input_errno;   /* Why reading the input failed; 0: it did not. */
};

/* Runs the transfer. Returns CMD_OK when the answer has status 200 and is complete, else an exit
 * code with the reason in client->error. Initialises `answer`, which the caller releases. */
int transfer_run(struct cli *cli, struct transfer *transfer);

#endif
