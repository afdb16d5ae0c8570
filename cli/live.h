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
    LIVE_OVER,   /* The watch has ended; client->error says why, if it was refused. */
    LIVE_SIGNAL, /* A signal has come while there was no child. */
    LIVE_CHILD,  /* The child has ended. */
    LIVE_LOST,   /* The session is over, or may be: no replica confirmed it for two thirds of its
                    timeout. Reported once. */
};

struct live_news {
    enum live_kind kind;
    json_t *event;     /* LIVE_EVENT; the caller drops it. */
    int signal_number; /* LIVE_SIGNAL. */
    int status;        /* LIVE_CHILD: as waitpid gives it. */
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
    int child_fd;    /* Its pidfd, -1: none. */
    bool outlived;   /* A process of the command could not be ended. */
    int last_signal; /* The last signal while there was a child, from any sender; 0: none. */
    char *env[LIVE_ENV_MAX]; /* Variables for the next child; ends with NULL. */
    int env_count;
};

/* Begins to read the signals INT, TERM, HUP, QUIT, USR1 and USR2. A signal also interrupts a
 * request of the client. cli_ask does not report that error; the next live_wait returns the
 * signal. */
struct live *live_open(struct cli *cli);

/* Ends what is left: the child and the processes that it has started (SIGKILL), the watch, and the
 * session. The session expires when its close is not answered in time. A lost session is closed as
 * well, unless a process of the child still runs. */
void live_close(struct live *live);

/* Opens a session. All later requests belong to it, and live_wait keeps it alive. `patience_ms` is
 * the timeout of the request that opens it (0: that of the settings). Returns CMD_OK, CMD_SHOWN, or
 * an exit code with the reason in client->error. */
int live_session(struct live *live, int64_t timeout_ms, int64_t patience_ms);

/* Returns for how many ms no other client can get what the session holds; 0: it may be over. */
int64_t live_session_left_ms(const struct live *live);

/* Begins a watch, in place of the one before. live_unwatch ends it, or else live_close. */
struct stream *live_watch(struct live *live, const struct stream_request *request);
void live_unwatch(struct live *live);

/* Reports that no replica serves a watch. Returns CMD_NO_ENSEMBLE. */
int live_report_down(const struct live *live);

/* Adds a variable to the environment of the next command, which is otherwise that of zabra.
 * live_drop_env() forgets these variables, as live_run() and live_close() do. */
void live_env(struct live *live, const char *name, const char *value);
void live_drop_env(struct live *live);

/* Starts a command without a shell. `args` ends with NULL. `input` is the command's standard input
 * (-1: that of zabra). The command dies with zabra. Returns CMD_OK, or after a report
 * CMD_CHILD_NOT_FOUND or CMD_CHILD_NOT_RUN. */
int live_run(struct live *live, char **args, int input);

/* Whether the child has ended; if so, it is forgotten. Also reaps ended processes that it has
 * started. */
bool live_take_child(struct live *live, int *ret_status);

/* Sends SIGKILL to the child and the processes that it has started, and waits for their end. Does
 * nothing when the child has ended by itself. */
void live_kill_child(struct live *live);

/* Sends SIGTERM to the command and, once it has ended, to the processes that it has left behind.
 * After `grace_ms` all that still run get SIGKILL. Returns the command's status. */
int live_end_child(struct live *live, int64_t grace_ms);

/* Returns the exit code for a status of waitpid. */
int live_exit_code(int status);

/* Waits for the next thing that happens, until `until_ms` (monotonic; UINT64_MAX: no limit). */
void live_wait(struct live *live, uint64_t until_ms, struct live_news *news);

#endif
