/*
 * reload.h - what a running replica reads again: by SIGHUP, by the operation `reload`, and when it
 * sees that a file has changed.
 *
 * Each file or group of files is a part, and each part has a thread: a file system that hangs stops
 * neither the signals nor a front end, nor the other parts. A part that fails keeps its old files.
 * Another thread takes the requests, one after the other, and waits for the parts; a part that
 * takes longer than RELOAD_WAIT_MS is reported as a failure, and while it hangs the next requests
 * do not wait for it.
 */
#ifndef SERVER_RELOAD_H
#define SERVER_RELOAD_H

#include "base/err.h"
#include "base/jsonw.h"
#include "base/mailbox.h"
#include "base/os_changes.h"
#include "base/thread.h"

enum {
    RELOAD_PARTS_MAX = 4,
    RELOAD_WAITING_MAX = 8, /* Requests that wait for the thread. */
    RELOAD_LOOK_MS = 2000,  /* Time between two looks at the files of a part. */
    RELOAD_WAIT_MS = 10000, /* Longest time that a request waits for the parts. */
    RELOAD_WHY_MAX = 2048,  /* A sentence about a failure. */
    RELOAD_TEXT_MAX = RELOAD_PARTS_MAX * (RELOAD_WHY_MAX + 128),
    RELOAD_NAMES_MAX = 128,
    RELOAD_BY_MAX = 96
};

struct reload_part {
    const char *name; /* In answers and in the log; constant. */
    /* Reads the files again. False, with a sentence: they cannot be used, the old ones stay. Called
     * on the thread of the part, and may wait for a file system. */
    bool (*run)(void *ctx, char why[RELOAD_WHY_MAX]);
    void *ctx;
    /* Looks whether the files are to be read without a request; called every RELOAD_LOOK_MS, like
     * `run`. NULL: never. */
    enum os_due (*look)(void *ctx, uint64_t now_ms);
};

/* One request. */
struct reload {
    struct list node;
    /* Called once, on the thread of the requests, when the result is complete; from then on the
     * request is the caller's again. NULL: no thread waits, and that of the requests frees it. */
    void (*on_done)(struct reload *reload);
    void *ctx;
    char by[RELOAD_BY_MAX]; /* The origin of the request, for the log. */

    /* The result. ERR_CONFIG: a part has failed. ERR_CLOSED: the replica ends. */
    enum err err;
    const char *names[RELOAD_PARTS_MAX]; /* Parts that were read again. */
    uint32_t count;
    char failure[RELOAD_TEXT_MAX]; /* Sentences about the parts that have failed; "": none. */
};

struct reload_worker;

struct reloads {
    pthread_mutex_t mutex;  /* Guards all but `inbox`; not held while a part runs. */
    pthread_cond_t changed; /* A part is asked, has run or ends. */
    struct reload_worker *workers[RELOAD_PARTS_MAX]; /* NULL: a free place. */
    uint64_t next_number;
    uint32_t wait_ms;                             /* RELOAD_WAIT_MS; shorter in tests. */
    struct reload_worker *lost[RELOAD_PARTS_MAX]; /* Those that hung when they were removed. */
    uint32_t lost_count;
    struct mailbox inbox;
    struct thread thread;
    bool has_thread;
};

/* The thread of the requests runs from reloads_start to reloads_stop, which accepts that it was not
 * started. */
void reloads_init(struct reloads *reloads);
void reloads_start(struct reloads *reloads);

/* Answers requests that wait by ERR_CLOSED, and takes no more. Any thread; more than once. */
void reloads_close(struct reloads *reloads);

/* Closes and removes all parts, for which it waits `wait_ms` at most. */
void reloads_stop(struct reloads *reloads, uint32_t wait_ms);

/* Waits for parts that hung, without a bound: at the end of a process that must end, do not call it
 * if one is lost. */
void reloads_release(struct reloads *reloads);

/* Adds a part and starts its thread. Any thread. */
void reloads_add(struct reloads *reloads, struct reload_part part);

/* Removes the part with this name, if there is one. After the return it does not run, unless the
 * result is false: then it hung for `wait_ms`, and it may still use its `ctx` and `reloads`, so
 * both must live until the process ends. Any thread but that of a part. */
bool reloads_remove(struct reloads *reloads, const char *name, uint32_t wait_ms);

/* Whether a part hung when it was removed. Any thread. */
bool reloads_has_lost(struct reloads *reloads);

/* Number of parts that have been busy for RELOAD_WAIT_MS or longer. Any thread. */
uint32_t reloads_stuck(struct reloads *reloads);

/* Takes the request, unless the result is ERR_THROTTLED (too many wait) or ERR_CLOSED. Any thread.
 */
enum err reloads_ask(struct reloads *reloads, struct reload *take_reload);

/* Writes one JSON object: the names of what was read again. */
void reload_write(const struct reload *reload, struct jsonw *json);

#endif
