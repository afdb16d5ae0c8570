/*
 * tail.h - a watcher that does not give up: it reads the events of a path as a stream of
 * server-sent events, and when a replica goes away it goes on at the next one from what it has.
 *
 * All events are kept in their order, so that a test can compare them with what was done. The place
 * to resume from is the `id` of the last event that had one, as for any such client; events behind
 * it are forgotten on resuming, because they will be told again.
 */
#ifndef TESTS_PROC_TAIL_H
#define TESTS_PROC_TAIL_H

#include "base/buf.h"
#include "base/thread.h"
#include "tests/proc/ensemble.h"

#include <stdatomic.h>

enum {
    TAIL_PATH_MAX = 128,
    TAIL_ID_MAX = 64,
    TAIL_EVENTS_MAX = 200000
};

struct tail_event {
    char type[24]; /* "NodeCreated" and so on. */
    char path[TAIL_PATH_MAX];
    uint64_t zxid;
    bool diff; /* Part of a difference. */
};

struct tail {
    struct thread thread;
    uint16_t ports[ENSEMBLE_MAX];
    uint32_t port_count;
    uint32_t at; /* Index of the port in use. */
    char url_path[256];
    char id[TAIL_ID_MAX]; /* To resume from; "": begin. */
    size_t safe;          /* Events up to here are behind `id`. */
    struct buf line;      /* Not yet complete. */
    struct buf data;      /* Of the event being read. */
    char type[32];
    char next_id[TAIL_ID_MAX];
    pthread_mutex_t mutex; /* Of events and count. */
    struct tail_event *events;
    size_t count;
    _Atomic bool stopping;
    _Atomic uint32_t resumed; /* Times that a stream was opened behind an id. */
    _Atomic uint32_t diffed;  /* And that the server told a difference. */
    _Atomic uint32_t gaps;
    _Atomic uint32_t opened; /* Streams that have begun. */
};

/* `path` is that of the stream with its query. It begins at replica `first`, and has begun when
 * this returns. */
void tail_start(struct tail *tail, struct ensemble *ensemble, uint32_t first, const char *path);
void tail_stop(struct tail *tail);
void tail_release(struct tail *tail);

/* Events so far whose type and path begin so. */
size_t tail_count(struct tail *tail, const char *type, const char *prefix);

#endif
