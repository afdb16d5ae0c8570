/*
 * live.h - waits for everything that can happen while a command runs: one thread, one place.
 *
 * A session is kept alive, a watch is read, a child runs and signals arrive. live_wait() returns
 * the next thing that has happened, so the code of a command reads from top to bottom. While a
 * child runs, signals are passed on to it; without a child the command gets them as news. The child
 * is in the process group of zabra: a signal of the terminal (Ctrl-C) reaches it directly, and is
 * not passed on again.
 */
#ifndef CLI_LIVE_H
#define CLI_LIVE_H

#include "cli/cli.h"
#include "cli/stream.h"

#include <signal.h>
#include <sys/types.h>

enum {
    LIVE_ENV_MAX = 16 /* Additional environment variables of a child. */
};

enum live_kind {
    LIVE_TIME,   /* The time to wait is over. */
    LIVE_EVENT,  /* The watch has an event. */
    LIVE_OVER,   /* The watch has ended. If a replica refused it, client->error says why. */
    LIVE_SIGNAL, /* A signal has come while there was no child. */
    LIVE_CHILD,  /* The child has ended. */
    LIVE_LOST,   /* The session is over, or counts as lost: no replica confirmed it for two thirds
                    of its timeout. Reported once. */
};

struct live_news {
    enum live_kind kind;
    json_t *event;     /* LIVE_EVENT; the caller drops it. */
    int signal_number; /* LIVE_SIGNAL. */
    int status;        /* LIVE_CHILD: the status that waitpid has given. */
};

struct live {
    struct cli *cli;
    CURLM *multi;
    int signal_fd;
    sigset_t old_mask;

    /* The session. Times are monotonic, in ms. */
    char session[CLIENT_SESSION_MAX]; /* The secret, for a child's environment; "": no session. */
    int64_t timeout_ms;               /* The timeout that the replica has granted; 0: no session. */
    CURL *touch;
    struct curl_slist *touch_headers;
    bool touching;
    bool expired; /* A replica has reported that the session is over. */
    bool lost;    /* The loss was reported. */
    int endpoint;
    uint64_t touch_ms; /* When the next heartbeat is due. */
    uint64_t sent_ms;  /* When the heartbeat in flight was sent. */
    uint64_t heard_ms; /* When the last answered heartbeat was sent. */

    struct stream *stream; /* The watch, or NULL. */
    bool told_over;
    bool held; /* Events are kept and not delivered: the command cannot use them yet. */

    pid_t child;     /* 0: none. */
    int child_fd;    /* The child's pidfd; -1: none. */
    bool outlived;   /* A process of the command could not be ended. */
    int last_signal; /* The last signal while there was a child, from any sender; 0: none. */
    char *env[LIVE_ENV_MAX]; /* Variables for the next child; ends with NULL. */
    int env_count;
};

/* Begins to read the signals INT, TERM, HUP, QUIT, USR1 and USR2. A signal also interrupts a
 * request of the client. cli_ask does not report the interruption as an error; the next live_wait
 * returns the signal. */
struct live *live_open(struct cli *cli);

/* Ends what is left: the child and the processes that it has started (SIGKILL), the watch, and the
 * session. If no replica answers the close of the session within 2 s, it expires later. A lost
 * session is closed as well. While a process of the child still runs, no session is closed. */
void live_close(struct live *live);

/* Opens a session. All later requests belong to it, and live_wait keeps it alive. `patience_ms` is
 * the timeout of the request that opens it (0: the timeout of the settings). Returns CMD_OK,
 * CMD_SHOWN, or an exit code with the reason in client->error. */
int live_session(struct live *live, int64_t timeout_ms, int64_t patience_ms);

/* Returns for how many ms the session surely lasts, so that no other client can get what it holds;
 * 0: the session may be over. */
int64_t live_session_left_ms(const struct live *live);

/* Ends the previous watch, if any, and begins a new one. live_unwatch() or live_close() ends it. */
struct stream *live_watch(struct live *live, const struct stream_request *request);
void live_unwatch(struct live *live);

/* Reports that no replica serves a watch. Returns CMD_NO_ENSEMBLE. */
int live_report_down(const struct live *live);

/* Adds a variable for the next command, which otherwise gets the environment of zabra.
 * live_drop_env() forgets these variables, as live_run() and live_close() do. */
void live_env(struct live *live, const char *name, const char *value);

/* Adds the variables by which a zabra that the command runs finds the same replicas: endpoints, and
 * the files of https. */
void live_env_replicas(struct live *live);
void live_drop_env(struct live *live);

/* Starts a command without a shell. `args` ends with NULL. `input` is the command's standard input
 * (-1: zabra's own). When zabra dies, the command is killed. Returns CMD_OK, or after a report
 * CMD_CHILD_NOT_FOUND or CMD_CHILD_NOT_RUN. */
int live_run(struct live *live, char **args, int input);

/* Whether the child has ended; if so, `live` has no child any more. Also reaps processes that the
 * child has started and that have ended. */
bool live_take_child(struct live *live, int *ret_status);

/* Sends SIGKILL to the child and the processes that it has started, and waits up to 2 s for their
 * end. Does nothing when the child has ended by itself. */
void live_kill_child(struct live *live);

/* Sends SIGTERM to the command and, once it has ended, to the processes that it has left behind.
 * Those that still run after `grace_ms` get SIGKILL. Returns the command's status. */
int live_end_child(struct live *live, int64_t grace_ms);

/* Returns the exit code for a status of waitpid. */
int live_exit_code(int status);

/* Waits for the next thing that happens, until `until_ms` (monotonic; UINT64_MAX: no limit). */
void live_wait(struct live *live, uint64_t until_ms, struct live_news *news);

#endif
