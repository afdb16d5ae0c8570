/*
 * wait.h - waits until a znode has changed, the waiting time is over, or a signal ends the wait;
 * and runs a command while zabra holds a session or a znode for it.
 *
 * No change can be missed: the caller reads again after each start of a watch, and after each
 * event. A wait survives the loss of replicas, but not the loss of its session.
 */
#ifndef CLI_WAIT_H
#define CLI_WAIT_H

#include "cli/live.h"

#define WAIT_MAX_MS (INT64_C(1) << 40)

enum {
    TTL_DEFAULT_MS = 10000,
    TTL_MIN_MS = 100,
    TTL_MAX_MS = 3600000
};

struct wait {
    struct cli *cli;
    struct live *live;
    int64_t wait_ms;   /* The value of --wait, in ms; 0: --try; -1: no limit. */
    uint64_t until_ms; /* The end of the wait, monotonic; UINT64_MAX: no limit. */
    bool answered; /* A replica has answered: from then on reads survive the loss of replicas. */
};

/* The rows of options that wait_open() reads. */
#define WAIT_OPTIONS                                                                             \
    CMD_FLAG("try", 0, "do not wait at all"),                                                    \
        CMD_TIME("wait", 0, "wait at most this time: 500ms, 15s, 2m (no limit)", 0, WAIT_MAX_MS, \
                 -1)

/* Opens a wait and takes over the signals. Returns CMD_OK, or the code of a reported error. The
 * caller calls wait_close() in both cases. */
int wait_open(struct wait *wait, struct cli *cli);
void wait_close(struct wait *wait);

/* Starts the waiting time again, for the next thing to wait for. */
void wait_again(struct wait *wait);

/* Sends a request. Returns CMD_OK, CMD_SHOWN, or an exit code; all errors but CMD_NO_NODE and
 * CMD_CONFLICT are reported. A read that no replica answers is repeated until the timeout, if any
 * replica has answered earlier. With --wait a request may take the rest of the waiting time, or a
 * second if less is left. */
int wait_ask(struct wait *wait, struct client_request *request);

/* Sends a request as wait_ask() does, and reports all errors. The exit code `fine` counts as
 * success: CMD_OK is returned for it, and nothing is reported. */
int wait_do(struct wait *wait, struct client_request *request, int fine);

/* Reads whether a znode exists into `ret_there`. Returns CMD_OK, or a reported error's code. */
int wait_look(struct wait *wait, const char *path, bool linearizable, bool *ret_there);

/* Begins to watch a znode and the list of its children, in place of the watch before. */
void wait_watch(struct wait *wait, const char *path);

/* Waits for an event. CMD_OK: something may have changed, so the caller reads again. Any other code
 * ends the wait: a reported error, or a signal. */
int wait_next(struct wait *wait);

/* Watches the znode and waits until it exists, or with `there` false until it does not exist. */
int wait_until(struct wait *wait, const char *path, bool there);

/* ---- Holding ---- */

/*
 * A command that runs while something is held: a session, and mostly an ephemeral znode of that
 * session.
 *
 * The command is ended when the session is lost or may be lost, or when another client has deleted
 * the znode. The last third of the session timeout is kept for ending the command, so that it has
 * ended before another process can hold the same lock.
 */
struct hold {
    struct cli *cli;
    struct wait wait;
    int64_t grace_ms; /* The time from SIGTERM to SIGKILL. */
    const char *path; /* The path of the znode; NULL: there is none. */
    uint64_t look_ms; /* When to check the znode; UINT64_MAX: a watch reports its deletion. */
};

/* The rows of options that hold_around() reads. */
#define HOLD_OPTIONS                                                                               \
    CMD_TIME("ttl", 0, "session timeout: after a crash it is free again in this time (10s)",       \
             TTL_MIN_MS, TTL_MAX_MS, TTL_DEFAULT_MS),                                              \
        CMD_TIME(                                                                                  \
            "grace", 0,                                                                            \
            "after a loss: time from SIGTERM to SIGKILL (a sixth of --ttl; at most a quarter)", 0, \
            TTL_MAX_MS, -1)

/* Help text for each command that runs a child. */
#define HOLD_HELP                                                                            \
    "The command runs without a shell. zabra passes signals on to it; before it runs, a\n"   \
    "signal ends the wait. The exit code is the command's, or 128 plus the number of the\n"  \
    "signal that ended it; 122 when the command was ended because the lock, place in the\n"  \
    "queue or session was lost; 124 when the waiting time was over; 125 when zabra itself\n" \
    "failed; 126 and 127 when the command could not be run. A frozen zabra loses its\n"      \
    "session after --ttl; when it wakes up it ends the command and closes the session.\n"

/* Opens a session for the command that must follow "--", and calls `act`, which takes the lock (or
 * another znode to hold) and ends with hold_run(). With a NULL `act` only the session is held.
 * `page` (or NULL) is the page of the documentation that shows all requests, which --curl cannot
 * print as one line. Returns the exit code. */
int hold_around(struct cli *cli, const char *page, int (*act)(struct hold *hold, void *ctx),
                void *ctx);

/* Runs the command while the znode at `path` exists (NULL: while the session exists). Returns the
 * exit code. */
int hold_run(struct hold *hold, const char *path);

#endif
