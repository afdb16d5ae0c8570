/*
 * crowd.h - many clients at once, each with a session, an ephemeral znode and a stream of events
 * that keeps the session alive. A client whose replica ends resumes at the next one.
 *
 * All watch one znode, CROWD_PATH, which the test writes. A session that ends, an event that is
 * lost or received twice, and any answer but those that permit a retry, are wrong.
 */
#ifndef TESTS_PROC_CROWD_H
#define TESTS_PROC_CROWD_H

#include "base/thread.h"
#include "tests/proc/ensemble.h"

#include <curl/curl.h>
#include <stdatomic.h>

enum {
    CROWD_MAX = 1000,
    CROWD_SECRET_LEN = 36,
    CROWD_LINE_MAX = 64 << 10
};

#define CROWD_PATH "/crowd"

struct crowd;

struct crowd_client {
    struct crowd *crowd;
    CURL *easy; /* NULL: no request is under way. */
    struct curl_slist *headers;
    char secret[CROWD_SECRET_LEN + 1];
    uint32_t at;       /* Index of its port. */
    uint64_t since;    /* Zxid that it has seen everything up to; 0: none. */
    uint64_t retry_ms; /* Not before, monotonic. */
    struct buf line;   /* An incomplete line. */
    bool refused;      /* The answer permits a retry. */
};

struct crowd {
    uint16_t ports[ENSEMBLE_MAX];
    uint32_t port_count;
    uint32_t count;
    struct crowd_client clients[CROWD_MAX];
    struct thread thread;
    _Atomic bool stopping;
    _Atomic uint64_t events;
    _Atomic uint64_t resumes;
    _Atomic uint64_t diffs;   /* Resumed with a difference. */
    _Atomic uint64_t reached; /* The lowest zxid that a client has seen everything up to. */
    _Atomic uint32_t wrong;
    char wrong_text[512];
};

/* Creates CROWD_PATH and its parent of ephemerals, opens the sessions at running replicas (ports of
 * replicas that do not run may be given) and starts the streams. Returns when all have begun. */
void crowd_start(struct crowd *crowd, struct ensemble *ensemble, uint32_t count);

/* Writes CROWD_PATH `count` times and waits until each client has received each write. */
void crowd_write(struct crowd *crowd, struct ensemble *ensemble, uint32_t count);

/* Fails the test if something was wrong, or a session has ended. */
void crowd_check(struct crowd *crowd, struct ensemble *ensemble);

void crowd_stop(struct crowd *crowd);

#endif
