/*
 * tail.h - a watcher that resumes: it reads the events of a path as a stream of server-sent events,
 * and when a replica is lost it resumes at the next one from its last id.
 *
 * All events are kept in order, so that a test can compare them with the writes. It resumes from
 * the `id` of the last event that had one, as any such client does; it drops later events on
 * resuming, because the server sends them again.
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
    uint32_t at; /* Index of the current port. */
    char url_path[256];
    char id[TAIL_ID_MAX]; /* Where to resume; "": at the beginning. */
    size_t safe;          /* Number of events that `id` covers. */
    struct buf line;      /* An incomplete line. */
    struct buf data;      /* Data of the event being read. */
    char type[32];
    char next_id[TAIL_ID_MAX];
    pthread_mutex_t mutex; /* Protects events and count. */
    struct tail_event *events;
    size_t count;
    _Atomic bool stopping;
    _Atomic uint32_t resumed; /* How often a stream was resumed from an id. */
    _Atomic uint32_t diffed;  /* How often the server sent a difference. */
    _Atomic uint32_t gaps;
    _Atomic uint32_t opened; /* How many streams have begun. */
};

/* `path` is that of the stream with its query. Starts at replica `first` and returns when the
 * stream has begun. */
void tail_start(struct tail *tail, struct ensemble *ensemble, uint32_t first, const char *path);
void tail_stop(struct tail *tail);
void tail_release(struct tail *tail);

/* The number of events whose type and path begin with these. */
size_t tail_count(struct tail *tail, const char *type, const char *prefix);

#endif
