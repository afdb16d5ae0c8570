/*
 * hold.h - a command that runs for as long as something is held: a session, and mostly an ephemeral
 * znode of it.
 *
 * When the session is lost, or may be, or another client has deleted the znode, the command is
 * ended before another process can hold it: that takes the last third of the time-out.
 */
#ifndef CLI_HOLD_H
#define CLI_HOLD_H

#include "cli/wait.h"

struct hold {
    struct cli *cli;
    struct wait wait;
    int64_t grace_ms; /* From SIGTERM to SIGKILL. */
    const char *path; /* Of the znode; NULL: there is none. */
    uint64_t look_ms; /* When to check that it exists; UINT64_MAX: a watch would report its end. */
    int env_count;
    char *env[LIVE_ENV_MAX];
};

/* The rows of options that hold_open() reads. */
#define HOLD_OPTIONS                                                                            \
    {"ttl", 0, "TIME", "session timeout: after a crash it is free again in this time (10s)",    \
     NULL},                                                                                     \
    {                                                                                           \
        "grace", 0, "TIME",                                                                     \
            "after a loss: time from SIGTERM to SIGKILL (a sixth of --ttl; at most a quarter)", \
            NULL                                                                                \
    }

/* Said in the help of each command that runs another one. */
#define HOLD_HELP                                                                            \
    "The command runs without a shell. zabra passes signals on to it; before it runs, a\n"   \
    "signal ends the wait. The exit code is the command's, or 128 plus the number of the\n"  \
    "signal that ended it; 122 when the command was ended because the lock, place in the\n"  \
    "queue or session was lost; 124 when the waiting time was over; 125 when zabra itself\n" \
    "failed; 126 and 127 when the command could not be run. A frozen zabra loses its\n"      \
    "session after --ttl; when it wakes up it ends the command and closes the session.\n"

/* Opens a session, for a command that must be given. `page` (or NULL) is where the documentation
 * shows all requests that --curl cannot print in one line. CMD_OK, CMD_SHOWN, or reported; close in
 * all cases. */
int hold_open(struct hold *hold, struct cli *cli, const char *page);
void hold_close(struct hold *hold);

/* One more variable for the command. */
void hold_env(struct hold *hold, const char *name, const char *value);

/* Runs the command while the znode at `path` (NULL: the session) exists. The exit code. */
int hold_run(struct hold *hold, const char *path);

#endif
