/*
 * reload.h - what a running replica reads again: by SIGHUP, and by the operation `reload`.
 *
 * Each file or group of files is a part. A thread runs the parts, one request after the other, so
 * that neither the signals nor a front end wait for a slow disk. A part that fails keeps its old
 * files; the other parts are read again all the same.
 */
#ifndef SERVER_RELOAD_H
#define SERVER_RELOAD_H

#include "base/err.h"
#include "base/jsonw.h"
#include "base/mailbox.h"
#include "base/thread.h"

enum {
    RELOAD_PARTS_MAX = 4,
    RELOAD_WAITING_MAX = 8, /* Requests that wait for the thread. */
    RELOAD_WHY_MAX = 2048,  /* A sentence about a failure. */
    RELOAD_TEXT_MAX = RELOAD_PARTS_MAX * (RELOAD_WHY_MAX + 128),
    RELOAD_NAMES_MAX = 128,
    RELOAD_BY_MAX = 96
};

struct reload_part {
    const char *name; /* In answers and in the log; constant. */
    /* Reads the files again. False, with a sentence: they cannot be used, the old ones stay. Called
     * on the thread of the reloads. */
    bool (*run)(void *ctx, char why[RELOAD_WHY_MAX]);
    void *ctx;
};

/* One request. */
struct reload {
    struct list node;
    /* Called once, on the thread of the reloads, when the result is complete; from then on the
     * request is the caller's again. NULL: no thread waits, and that of the reloads frees it. */
    void (*on_done)(struct reload *reload);
    void *ctx;
    char by[RELOAD_BY_MAX]; /* The origin of the request, for the log. */

    /* The result. */
    enum err err;                        /* ERR_CONFIG: a part has failed. */
    const char *names[RELOAD_PARTS_MAX]; /* Parts that were read again. */
    uint32_t count;
    char failure[RELOAD_TEXT_MAX]; /* Sentences about the parts that have failed; "": none. */
};

struct reloads {
    pthread_mutex_t mutex; /* Guards the parts; held while they run. */
    struct reload_part parts[RELOAD_PARTS_MAX];
    uint32_t part_count;
    struct mailbox inbox;
    struct thread thread;
    bool has_thread;
};

/* The thread runs from reloads_start to reloads_stop, which accepts that it was not started. */
void reloads_init(struct reloads *reloads);
void reloads_start(struct reloads *reloads);
void reloads_stop(struct reloads *reloads);
void reloads_release(struct reloads *reloads);

/* Adds a part. Any thread. */
void reloads_add(struct reloads *reloads, struct reload_part part);

/* Removes the part with this name, if there is one; after the return it does not run. Any thread
 * but that of the reloads. */
void reloads_remove(struct reloads *reloads, const char *name);

/* Takes the request, unless the result is ERR_THROTTLED (too many wait) or ERR_CLOSED. Any thread.
 */
enum err reloads_ask(struct reloads *reloads, struct reload *take_reload);

/* Writes one JSON object: the names of what was read again. */
void reload_write(const struct reload *reload, struct jsonw *json);

#endif
