/*
 * live.h - what happens while a command waits: one thread, one place to wait in.
 *
 * A session is kept alive, a watch is read, a child runs and signals come in; live_wait() returns
 * with the next thing that has happened, so that a command is read from top to bottom. While a
 * child runs signals are passed on to it; else the command gets them as news. The child has the
 * process group of zabra: what the terminal sends (Ctrl-C) it has got already, and is not passed on
 * twice.
 */
#ifndef CLI_LIVE_H
#define CLI_LIVE_H

#include "cli/cli.h"
#include "cli/stream.h"

#include <signal.h>
#include <sys/types.h>

enum {
    LIVE_ENV_MAX = 16 /* More variables for a child. */
};

enum live_kind {
    LIVE_TIME,   /* The time to wait is over. */
    LIVE_EVENT,  /* The watch has an event. */
    LIVE_OVER,   /* The watch has ended; client->error says why, if it was refused. */
    LIVE_SIGNAL, /* One has come, and there is no child. */
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
    char session[CLIENT_SESSION_MAX]; /* Its secret, for a child's environment; "": none. */
    int64_t timeout_ms;               /* That the replica has granted; 0 without a session. */
    CURL *touch;
    struct curl_slist *touch_headers;
    bool touching;
    bool expired; /* A replica has said so. */
    bool lost;    /* The loss was reported. */
    int endpoint;
    uint64_t touch_ms; /* When the next heartbeat is due. */
    uint64_t sent_ms;  /* When the one under way was sent, */
    uint64_t heard_ms; /* and the last one that was answered. */

    struct stream *stream; /* The watch, or NULL. */
    bool told_over;
    bool held; /* Events are kept and not delivered: the command cannot use them yet. */

    pid_t child;     /* 0: none. */
    int child_fd;    /* Its pidfd, -1: none. */
    bool outlived;   /* Something of it could not be ended. */
    int last_signal; /* That came while there was one, from any sender; 0: none. */
};

/* Takes over the signals: from here on INT, TERM, HUP, QUIT, USR1 and USR2 arrive here, and they
 * interrupt a request of the client, which cli_ask does not report: live_wait returns the signal
 * next. */
struct live *live_open(struct cli *cli);

/* Ends what is left: child and what that has started (SIGKILL), watch, session (it is closed, if
 * there is an answer in time; a lost one as well, unless something of the child still runs). */
void live_close(struct live *live);

/* Opens a session, in which all requests are from now on, and which is kept alive in live_wait.
 * `patience_ms` is for the request (0: as the settings say). CMD_OK, CMD_SHOWN, or an exit code:
 * client->error says why. */
int live_session(struct live *live, int64_t timeout_ms, int64_t patience_ms);

/* How long no other client can get what the session holds; 0: it may be over. */
int64_t live_session_left_ms(const struct live *live);

/* Begins a watch, in place of the one before; live_unwatch ends it, else live_close. */
struct stream *live_watch(struct live *live, const struct stream_request *request);
void live_unwatch(struct live *live);

/* Reports that no replica serves a watch. CMD_NO_ENSEMBLE. */
int live_report_down(const struct live *live);

/* Starts a command, without a shell: `args` ends with NULL, `env` has "NAME=value" (ends with NULL)
 * beside our own environment, `input` is its standard input (-1: ours). It dies with us. CMD_OK,
 * CMD_CHILD_NOT_FOUND or CMD_CHILD_NOT_RUN, which has been reported. */
int live_run(struct live *live, char **args, char *const *env, int input);

/* True when the child has ended: it is forgotten. Waits for what it has left behind as well. */
bool live_take_child(struct live *live, int *ret_status);

/* SIGKILL for the child and what it has started, and waits. Nothing when it has ended by itself. */
void live_kill_child(struct live *live);

/* SIGTERM to the command and, when it has ended, to what it has left behind; SIGKILL to all that
 * still runs after `grace_ms`. Returns the command's status. */
int live_end_child(struct live *live, int64_t grace_ms);

/* The exit code that stands for a status of waitpid. */
int live_exit_code(int status);

/* Waits for the next thing until `until_ms` (monotonic; UINT64_MAX: for ever). */
void live_wait(struct live *live, uint64_t until_ms, struct live_news *news);

#endif
