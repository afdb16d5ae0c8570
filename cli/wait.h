/*
 * wait.h - waiting for the turn, until a znode has changed, the time to wait is over, or a signal
 * ends it all; and holding, while a command runs.
 *
 * Nothing can be missed: after each begin of a watch, and after each event, the caller reads again.
 * A wait survives the loss of replicas, but not of its session.
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
    int64_t wait_ms;   /* As --wait says; 0: --try; -1: for ever. */
    uint64_t until_ms; /* Monotonic; UINT64_MAX: for ever. */
    bool answered; /* A replica has answered: from then on a read survives the loss of replicas. */
};

/* The rows of options that wait_open() reads. */
#define WAIT_OPTIONS                                                                             \
    CMD_FLAG("try", 0, "do not wait at all"),                                                    \
        CMD_TIME("wait", 0, "wait at most this time: 500ms, 15s, 2m (no limit)", 0, WAIT_MAX_MS, \
                 -1)

/* Takes over the signals. CMD_OK, or reported; close in both cases. */
int wait_open(struct wait *wait, struct cli *cli);
void wait_close(struct wait *wait);

/* The waiting time begins again: for the next thing to wait for. */
void wait_again(struct wait *wait);

/* Asks. CMD_OK, CMD_SHOWN, or an exit code; all but CMD_NO_NODE and CMD_CONFLICT are reported. A
 * read that no replica answers is repeated, for as long as there may be an answer. With --wait a
 * request takes what is left of that time, but at least a second. */
int wait_ask(struct wait *wait, struct client_request *request);

/* The same; all are reported, but `fine`, an exit code that is as good as CMD_OK and becomes it. */
int wait_do(struct wait *wait, struct client_request *request, int fine);

/* CMD_OK: asked, and `ret_there` says whether there is such a znode. Else reported. */
int wait_look(struct wait *wait, const char *path, bool linearizable, bool *ret_there);

/* Begins to watch a znode, and the list of its children; ends the watch before. */
void wait_watch(struct wait *wait, const char *path);

/* CMD_OK: something may have changed, so look. Else the wait is over: reported, or a signal. */
int wait_next(struct wait *wait);

/* Both: until there is such a znode, or no more. */
int wait_until(struct wait *wait, const char *path, bool there);

/* ---- Holding ---- */

/*
 * A command that runs for as long as something is held: a session, and mostly an ephemeral
 * znode of it.
 *
 * When the session is lost, or may be, or another client has deleted the znode, the command is
 * ended before another process can hold it: that takes the last third of the time-out.
 */
struct hold {
    struct cli *cli;
    struct wait wait;
    int64_t grace_ms; /* From SIGTERM to SIGKILL. */
    const char *path; /* Of the znode; NULL: there is none. */
    uint64_t look_ms; /* When to check that it exists; UINT64_MAX: a watch would report its end. */
    int env_count;
    char *env[LIVE_ENV_MAX];
};

/* The rows of options that hold_around() reads. */
#define HOLD_OPTIONS                                                                               \
    CMD_TIME("ttl", 0, "session timeout: after a crash it is free again in this time (10s)",       \
             TTL_MIN_MS, TTL_MAX_MS, TTL_DEFAULT_MS),                                              \
        CMD_TIME(                                                                                  \
            "grace", 0,                                                                            \
            "after a loss: time from SIGTERM to SIGKILL (a sixth of --ttl; at most a quarter)", 0, \
            TTL_MAX_MS, -1)

/* For the help of each command that runs another one. */
#define HOLD_HELP                                                                            \
    "The command runs without a shell. zabra passes signals on to it; before it runs, a\n"   \
    "signal ends the wait. The exit code is the command's, or 128 plus the number of the\n"  \
    "signal that ended it; 122 when the command was ended because the lock, place in the\n"  \
    "queue or session was lost; 124 when the waiting time was over; 125 when zabra itself\n" \
    "failed; 126 and 127 when the command could not be run. A frozen zabra loses its\n"      \
    "session after --ttl; when it wakes up it ends the command and closes the session.\n"

/* Opens a session for the command that must follow "--", and calls `act`, which takes what is to be
 * held and ends with hold_run(); NULL: only the session is held. `page` (or NULL) is where the
 * documentation shows all requests that --curl cannot print in one line. The exit code. */
int hold_around(struct cli *cli, const char *page, int (*act)(struct hold *hold, void *ctx),
                void *ctx);

/* One more variable for the command. */
void hold_env(struct hold *hold, const char *name, const char *value);

/* Runs the command while the znode at `path` (NULL: the session) exists. The exit code. */
int hold_run(struct hold *hold, const char *path);

#endif
