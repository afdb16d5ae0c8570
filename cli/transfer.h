/*
 * transfer.h - one long request whose body streams in one direction: an export, or an import.
 *
 * A transfer as a whole has no deadline: it fails when no data moves within the timeout of a
 * request, to which the time that the caller takes to store data does not count. Another replica is
 * tried only while no data has moved; all these attempts share one timeout. A command of several
 * requests passes the rest of the timeout on (`patience_ms`). One thread.
 */
#ifndef CLI_TRANSFER_H
#define CLI_TRANSFER_H

#include "cli/cli.h"
#include "cli/progress.h"

enum {
    TRANSFER_LINE_MAX = 16 << 20, /* Bytes of a line of an export. */
    TRANSFER_PROBLEM_MAX = 1 << 20
};

struct transfer {
    struct client_request request;
    int input; /* Descriptor to read the body from; -1: no body. */
    /* Takes data as it arrives; false ends the transfer. NULL: the answer is short, and goes to
     * `answer`. */
    bool (*take)(void *ctx, struct slice bytes);
    void *ctx;
    /* How long the transfer may stall, in ms; 0: the timeout of the settings. transfer_run()
     * subtracts its waits for the first byte and for the answer, so that the next transfer gets the
     * rest. It leaves at least 1, because 0 would mean the whole timeout again. */
    int64_t patience_ms;
    struct progress progress;
    bool has_lines;    /* For the progress. */
    struct buf answer; /* The body of a refusal, or the whole answer without `take`. */
    int input_errno;   /* Why reading the input failed; 0: it did not. */
    /* The header Age of the answer, in seconds; -1: it has none. */
    int64_t age_s;
};

/* Runs the transfer. Returns CMD_OK when the answer has status 200 and is complete, else an exit
 * code with the reason in client->error. Initialises `answer`, which the caller releases. */
int transfer_run(struct cli *cli, struct transfer *transfer);

/* Checks the line that ended an export, or reported what failed; NULL: neither came. Returns
 * CMD_OK, or the code of a reported error. */
int transfer_judge_end(const struct cli *cli, const json_t *last);

#endif
