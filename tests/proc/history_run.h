/*
 * history_run.h - clients that do random operations on a few keys below /h, by every front end, and
 * watchers of all that; each records what it did and saw (tests/lib/history.h).
 *
 * A client is a thread with its own seed, connections and log. What it does next follows from the
 * seed; what it is told depends on the ensemble, on which somebody plays tricks meanwhile. Clients
 * by HTTP in JSON are in sessions, which they close now and then; their ephemerals go with them.
 * Some writes have a key, and are tried again with it. An answer that no client should ever get is
 * kept as `wrong`.
 */
#ifndef TESTS_PROC_HISTORY_RUN_H
#define TESTS_PROC_HISTORY_RUN_H

#include "base/thread.h"
#include "tests/lib/draw.h"
#include "tests/lib/history.h"
#include "tests/proc/ensemble.h"

#include <stdatomic.h>

enum {
    HISTORY_CLIENTS_MAX = 16,
    HISTORY_WRONG_MAX = 512,
    HISTORY_PATH_MAX = 256,
    HISTORY_CALL_MS = 3000 * ENSEMBLE_FACTOR, /* Without an answer for that long: unknown. */
    HISTORY_LAST_MS = 30000 * ENSEMBLE_FACTOR /* In which watchers have to be told of the end. */
};

enum history_kind {
    HISTORY_HTTP,   /* JSON; wanders among the replicas and demands to see what it has seen. */
    HISTORY_RAW,    /* Bytes; stays on a connection while that lasts. */
    HISTORY_SOCKET, /* A WebSocket with a window of operations, and a watch. */
    HISTORY_SSE,    /* Streams: resumed by the id of the last event, */
    HISTORY_NDJSON  /* and by its zxid. */
};

struct history_run;

struct history_client {
    struct history_run *run;
    struct thread thread;
    enum history_kind kind;
    uint32_t number;
    struct history_log log;
    struct rng rng;
    uint32_t values;                /* Written so far. */
    uint32_t retried;               /* Writes whose key was asked for again, and that are done. */
    uint32_t connections;           /* So far. */
    uint32_t server;                /* Index of its replica. */
    int32_t versions[HISTORY_KEYS]; /* As last seen; -1: never. */
    zxid_t seen;                    /* Highest zxid in an answer. */
    zxid_t session;                 /* Public id; 0: none is open. */
    char secret[WEB_KEY_LEN + 1];   /* Of the session. */
    bool watching;                  /* It was told of everything up to ... */
    zxid_t at;                      /* ... here; it may resume from here. */
    char wrong[HISTORY_WRONG_MAX];
};

struct history_run {
    uint16_t ports[ENSEMBLE_MAX];
    uint32_t port_count;
    uint64_t seed;
    uint32_t count;
    struct history_client clients[HISTORY_CLIENTS_MAX];
    uint32_t rest_ms;          /* Of a client behind each operation, for long runs. */
    bool disks_fill;           /* DiskFull is an answer like NotReady. */
    _Atomic uint64_t answers;  /* To all. */
    _Atomic bool stopping;     /* No new operations. */
    _Atomic uint64_t end_zxid; /* Watchers may go once they were told of it; 0: not known yet. */
    _Atomic uint64_t end_ms;   /* And must be by then. */
};

/* Makes a client; it does nothing yet. */
struct history_client *history_client_add(struct history_run *run, enum history_kind kind,
                                          const char *name);
void history_client_start(struct history_client *client);
void history_run_release(struct history_run *run);

/* One operation by HTTP in JSON, on a connection of its own, recorded as any other. Returns its
 * outcome. For the thread that owns the client. */
enum history_outcome history_http_one(struct history_client *client, uint32_t server,
                                      struct history_op *op);

/* ---- The end of a run (history_end.c) ---- */

/* The clients stop, all replicas serve, watchers are told of a last write, each replica is read.
 * Nothing disturbs the ensemble any more. */
void history_finish(struct history_run *run, struct ensemble *ensemble);

/* Fails the test, with the logs printed, unless all that clients saw is possible. `print_path`:
 * where the history is printed to; NULL: nowhere. */
void history_judge(struct history_run *run, struct ensemble *ensemble, const char *print_path,
                   struct history_report *ret_report);

/* All that was recorded, log by log; each line begins with its time. */
void history_print(const struct history_log *const *logs, size_t count, const char *path);

/* ---- Between the files of the clients ---- */

void history_run_http(struct history_client *client);
void history_run_socket(struct history_client *client);
void history_run_stream(struct history_client *client);

/* The next operation, by chance. */
void history_plan(struct history_client *client, struct history_op *op);

/* Behind an operation: the rest that the run asks for. */
void history_rest(const struct history_client *client);

/* For each new connection. */
void history_new_connection(struct history_client *client);
uint32_t history_connection(const struct history_client *client);

/* Keeps the answer, and what it teaches. */
void history_keep(struct history_client *client, const struct history_op *op);

void history_wrong(struct history_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The members of an operation in the form of an element of a multi, without braces. */
void history_put_step(struct buf *out, const struct history_step *step);

/* The member "ops" of a multi, without braces. */
void history_put_steps(struct buf *out, const struct history_op *op);

/* Zxids as number or as hex string. */
zxid_t history_zxid(const json_t *value);

/* What an answer to one operation shows: `object` has stat and data, flat or in "stat". */
void history_take_step(struct history_step *step, const json_t *object);

/* The answer of success: of one operation, a list, or a multi with "results". */
void history_take_answer(struct history_op *op, const json_t *answer);

/* What a problem object means; the failing element of a multi is noted. */
enum history_outcome history_take_problem(struct history_client *client, struct history_op *op,
                                          const json_t *problem);

/* An event of a watch, a heartbeat, an overrun, a gap: noted, and `at` moved. */
void history_take_event(struct history_client *client, const json_t *event);

/* A watch was answered: began, or went on as `resumed` says. */
void history_take_watch(struct history_client *client, const char *resumed, zxid_t since,
                        zxid_t zxid);

/* Its connection is gone. */
void history_take_loss(struct history_client *client);

/* True when a watcher has been told of everything, or its time is over (which is wrong). */
bool history_watcher_done(struct history_client *client);

#endif
