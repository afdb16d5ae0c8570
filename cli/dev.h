/*
 * dev.h - an ensemble on this machine for trying out: real `serve` processes as children.
 *
 * cmd_dev.c decides, dev.c runs one process and its output, and knows the keys of replicas.
 * Children have process groups of their own, so that Ctrl-C reaches only us and we end them in
 * order; they end by themselves if we die.
 */
#ifndef CLI_DEV_H
#define CLI_DEV_H

#include "base/buf.h"
#include "base/loop.h"

#include <limits.h>
#include <sys/types.h>

enum {
    DEV_PATH_MAX = PATH_MAX,
    DEV_LINE_MAX = 8192, /* Of a child's log; longer ones are cut when shown. */
    DEV_WORDS_MAX = 1024
};

/* One replica. */
struct child {
    uint32_t id;
    uint16_t client_port;
    char config_path[DEV_PATH_MAX + 32];
    char log_path[DEV_PATH_MAX + 32];
    pid_t pid;              /* 0: not running. */
    int status;             /* As waitpid gave it last. */
    bool ready;             /* Has served. */
    bool foreign;           /* At its start another process answered at its port. */
    uint64_t started_ms;    /* Monotonic. */
    uint64_t restart_at_ms; /* 0: no restart planned. */
    uint32_t backoff_ms;    /* Before the next restart; grows while it ends soon after the start. */
    char words[DEV_WORDS_MAX]; /* Its last line that was no plain information. */
    int log_fd;                /* The file. */
    struct loop *loop;         /* Watches the pipe. */
    struct loop_watch watch;   /* The pipe from its stderr; fd -1 when closed. */
    struct buf line;           /* Begun and not ended. */
};

/* Starts `zabra serve --config` with its own process group. False, and reported on stderr, when the
 * machine refuses. `log_path`, `config_path`, `id` and `loop` are set. */
bool child_start(struct child *child);

/* Reads what is left of the output, and closes the pipe. */
void child_drain(struct child *child);

/* Says on stderr how it ended: its exit code or signal, its last words, what the operator may do.
 */
void child_report_end(const struct child *child);

/* Whether `--name` or `--name=value` names a key of the configuration; if not, `ret_meant` is the
 * option of dev or the key that it is a slip of, or NULL. True for what is no option at all. */
bool dev_key_known(const char *arg, const char **ret_meant);

#endif
