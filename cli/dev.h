/*
 * dev.h - an ensemble on this machine for trials: real `serve` processes as children.
 *
 * cmd_dev.c decides what runs. dev.c runs one process and handles its output. Each child has its
 * own process group, so Ctrl-C reaches only the parent, which ends the children in order. If the
 * parent dies, the children end by themselves.
 */
#ifndef CLI_DEV_H
#define CLI_DEV_H

#include "tls/issue_files.h"

#include "base/buf.h"
#include "base/loop.h"

#include <limits.h>
#include <sys/types.h>

enum {
    DEV_PATH_MAX = PATH_MAX,
    DEV_LINE_MAX = 8192, /* Bytes of a line of a child's log; longer lines are cut when shown. */
    DEV_WORDS_MAX = 1024
};

/* One replica. */
struct child {
    uint32_t id;
    uint16_t client_port;
    char config_path[DEV_PATH_MAX + 32];
    char log_path[DEV_PATH_MAX + 32];
    pid_t pid;                 /* 0: not running. */
    int status;                /* The last status from waitpid. */
    bool ready;                /* The replica has served at least once since its last start. */
    bool foreign;              /* Another process answered on the port before the start. */
    uint64_t started_ms;       /* When the child was started (monotonic). */
    uint64_t restart_at_ms;    /* When to start the child again (monotonic); 0: at once. */
    uint32_t backoff_ms;       /* Delay of the next restart; grows after each short run. */
    char words[DEV_WORDS_MAX]; /* The last warning or error in the child's output. */
    int log_fd;                /* The log file. */
    struct loop *loop;         /* The event loop, which watches the pipe. */
    struct loop_watch watch;   /* The pipe from the child's stderr; fd -1: closed. */
    struct buf line;           /* A line of output that is not complete. */
};

/* Starts `zabra serve --config` in its own process group. The caller sets `log_path`,
 * `config_path`, `id` and `loop`. Returns false when the system refuses the start, after a message
 * on stderr. */
bool child_start(struct child *child);

/* Reads the rest of the output, and closes the pipe. */
void child_drain(struct child *child);

/* Reports on stderr how the child ended: its exit code or signal, its last warning or error, and
 * what the operator may do. */
void child_report_end(const struct child *child);

/* ---- The secret of the replicas (dev_secret.c) ---- */

/* Makes "`data_path`/secret", unless it is there. Returns false when it cannot be written; errno
 * says why. */
bool dev_secret_make(const char *data_path);

/* Appends TLS between the replicas to a configuration, and the file of the secret. */
void dev_secret_config(const char *data_path, bool tls, bool secret, struct buf *out);

/* ---- TLS (dev_tls.c) ---- */

/* The certificates of --tls. */
struct dev_tls {
    char dir[ISSUE_PATH_MAX]; /* "DIR/tls" */
    char ca[ISSUE_PATH_MAX];  /* The file of the authority. */
};

/* Makes what is missing of an authority, a certificate of the replicas and one of a client in
 * "`data_path`/tls", and checks what is there. Returns CMD_OK, or the code of a reported error. */
int dev_tls_prepare(const char *data_path, struct dev_tls *tls);

/* Appends the keys of a configuration. */
void dev_tls_config(const struct dev_tls *tls, struct buf *out);

/* Prints how to use the replicas at `endpoints` from the command line. */
void dev_tls_welcome(const struct dev_tls *tls, const char *endpoints);

#endif
