/* live_int.h - what live.c and live_child.c share. */
#ifndef CLI_LIVE_INT_H
#define CLI_LIVE_INT_H

#include "cli/live.h"

#include <curl/curl.h>
#include <signal.h>
#include <sys/types.h>

enum {
    LIVE_SECRET_MAX = 64
};

struct live {
    struct cli *cli;
    CURLM *multi;
    int signal_fd;
    sigset_t old_mask;

    /* The session. Times are monotonic, in ms. */
    char session[LIVE_SECRET_MAX]; /* "": none. */
    int64_t timeout_ms;
    CURL *touch;
    struct curl_slist *touch_headers;
    bool touching;
    bool expired; /* A replica has said so. */
    bool lost;    /* The loss was reported. */
    int endpoint;
    uint64_t touch_ms; /* When the next sign of life is due. */
    uint64_t sent_ms;  /* When the one under way was sent, */
    uint64_t heard_ms; /* and the last one that was answered. */

    struct stream *streams[LIVE_STREAMS_MAX];
    bool told_over[LIVE_STREAMS_MAX];

    bool held; /* Events are kept back. */

    pid_t child;     /* 0: none. */
    int child_fd;    /* Its pidfd, -1: none. */
    bool outlived;   /* Something of it could not be ended. */
    int last_signal; /* That came while there was one. */
};

/* True when the child has ended: it is forgotten. Waits for what it has left behind as well. */
bool live_take_child(struct live *live, int *ret_status);

/* SIGKILL for the child and what it has started, and waits. Nothing when it has ended by itself. */
void live_kill_child(struct live *live);

#endif
