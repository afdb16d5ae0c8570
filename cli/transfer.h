/*
 * transfer.h - one long request whose body streams in one direction: an export, or an import.
 *
 * It has no deadline as a whole: it is given up when nothing moves for as long as a request may
 * take. Another replica is asked only as long as nothing has moved at all; then that time is for
 * all of them together. A command of several requests gives what the others have left of that
 * time. One thread.
 */
#ifndef CLI_TRANSFER_H
#define CLI_TRANSFER_H

#include "cli/cli.h"

enum {
    TRANSFER_LINE_MAX = 16 << 20, /* Of an export. */
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
    int input; /* What is sent: a descriptor; -1: nothing. */
    /* Takes what comes, as it comes; false gives up. NULL: the answer is short, and collected. */
    bool (*take)(void *ctx, struct slice bytes);
    void *ctx;
    /* How long the transfer may stall; 0: as in the settings. At its end: what is left of that time
     * after the waits for the first byte and for the answer; at least 1. */
    int64_t patience_ms;
    struct transfer_progress progress;
    struct buf answer; /* Of a refusal, or the whole answer when there is no callback. */
    bool input_failed; /* errno says why, in input_errno. */
    int input_errno;
};

/* CMD_OK: the answer has status 200 and was complete. Else an exit code, and client->error says
 * why. `answer` is made, and the caller's to release. */
int transfer_run(struct cli *cli, struct transfer *transfer);

#endif
