/*
 * wait.h - waiting for the turn: until a znode has changed, the time to wait is over, or a signal
 * ends it all.
 *
 * Nothing can be missed: after each begin of a watch, and after each event, the caller reads again.
 * A wait outlives replicas; it does not outlive the session that it is for.
 */
#ifndef CLI_WAIT_H
#define CLI_WAIT_H

#include "cli/live.h"

struct wait {
    struct cli *cli;
    struct live *live;
    struct stream *stream;
    int64_t wait_ms;   /* As --wait says; 0: --try; -1: for ever. */
    uint64_t until_ms; /* Monotonic; UINT64_MAX: for ever. */
    bool answered; /* A replica has answered: from then on a read survives the loss of replicas. */
};

/* The rows of options that wait_open() reads. */
#define WAIT_OPTIONS                                                                 \
    {"try", 0, NULL, "do not wait at all", NULL},                                    \
    {                                                                                \
        "wait", 0, "TIME", "wait at most this time: 500ms, 15s, 2m (no limit)", NULL \
    }

/* Takes over the signals. CMD_OK, or reported; close in both cases. */
int wait_open(struct wait *wait, struct cli *cli);
void wait_close(struct wait *wait);

/* The waiting time begins again: for the next thing to wait for. */
void wait_again(struct wait *wait);

/* Opens a session (live_session). CMD_OK, CMD_SHOWN, reported, or a signal. */
int wait_session(struct wait *wait, int64_t timeout_ms);

/* Asks. CMD_OK, CMD_SHOWN, or an exit code; all but CMD_NO_NODE and CMD_CONFLICT are reported. A
 * read that no replica answers is repeated, for as long as there may be an answer. With --wait a
 * request takes what is left of that time, but at least a second. */
int wait_ask(struct wait *wait, struct client_request *request);

/* CMD_OK: no signal has come, and the session cannot be over. Else reported, or the signal's code.
 */
int wait_still(struct wait *wait);

/* CMD_OK: asked, and `ret_there` says whether there is such a znode. Else reported. */
int wait_look(struct wait *wait, const char *path, bool linearizable, bool *ret_there);

/* Begins to watch a znode, and the list of its children; ends the watch before. */
void wait_watch(struct wait *wait, const char *path);
void wait_unwatch(struct wait *wait);

/* CMD_OK: something may have changed, so look. Else the wait is over: reported, or a signal. */
int wait_next(struct wait *wait);

/* Both: until there is such a znode, or no more. */
int wait_until(struct wait *wait, const char *path, bool there);

#endif
