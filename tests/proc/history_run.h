/*
 * history_run.h - clients that do random operations on a few keys below /h, over every interface,
 * and watchers of these keys; each records its requests and answers (tests/lib/history.h).
 *
 * A client is a thread with its own seed, connections and log. The seed decides its next operation;
 * the answers depend on the ensemble, which the test disturbs meanwhile. Clients by HTTP in JSON
 * and by ZooKeeper's protocol have sessions, which they close now and then; their ephemerals end
 * with them. Some writes have a key, and are retried with it. An answer that no client may get is
 * kept in `wrong`.
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
    HISTORY_CALL_MS = 3000 * ENSEMBLE_FACTOR, /* Without an answer by then: unknown. */
    HISTORY_LAST_MS = 30000 * ENSEMBLE_FACTOR /* Watchers must have the last write by then. */
};

enum history_kind {
    HISTORY_HTTP,   /* JSON; changes replicas and requires at least the state that it has seen. */
    HISTORY_RAW,    /* Raw bytes; keeps its connection while that lasts. */
    HISTORY_SOCKET, /* A WebSocket with a window of operations, and a watch. */
    HISTORY_SSE,    /* Streams, resumed by the id of the last event, */
    HISTORY_NDJSON, /* or by its zxid. */
    HISTORY_NATIVE, /* ZooKeeper's protocol, with a window; takes its session to other replicas. */
    HISTORY_NATIVE_WATCH /* The same with a recursive watch, and only reads. */
};

struct history_run;

struct history_client {
    struct history_run *run;
    struct thread thread;
    enum history_kind kind;
    uint32_t number;
    struct history_log log;
    struct rng rng;
    uint32_t values;                /* Number of written values. */
    uint32_t retried;               /* Executed writes whose key was sent again. */
    uint32_t connections;           /* Opened so far. */
    uint32_t server;                /* Index of its replica. */
    int32_t versions[HISTORY_KEYS]; /* Last seen versions; -1: none. */
    zxid_t seen;                    /* Highest zxid in an answer. */
    zxid_t session;                 /* Public id; 0: no session. */
    char secret[WEB_KEY_LEN + 1];   /* Of the session. */
    bool watching;                  /* It has received every event up to */
    zxid_t at;                      /* this zxid, from which it may resume. */
    char wrong[HISTORY_WRONG_MAX];
};

struct history_run {
    uint16_t ports[ENSEMBLE_MAX];
    uint32_t port_count;
    uint64_t seed;
    uint32_t count;
    struct history_client clients[HISTORY_CLIENTS_MAX];
    uint32_t rest_ms;          /* Pause of a client after each operation, for long runs. */
    bool disks_fill;           /* DiskFull counts as NotReady. */
    _Atomic uint64_t answers;  /* To all clients. */
    _Atomic bool stopping;     /* No new operations. */
    _Atomic uint64_t end_zxid; /* Watchers may end when they have received it; 0: unknown. */
    _Atomic uint64_t end_ms;   /* They must end by then. */
};

/* Makes a client without starting it. */
struct history_client *history_client_add(struct history_run *run, enum history_kind kind,
                                          const char *name);
void history_client_start(struct history_client *client);
void history_run_release(struct history_run *run);

/* One operation by HTTP in JSON, on a separate connection, recorded as any other. Returns its
 * outcome. Only for the thread that owns the client. */
enum history_outcome history_http_one(struct history_client *client, uint32_t server,
                                      struct history_op *op);

/* ---- The end of a run (history_end.c) ---- */

/* Call it when no fault is active. Stops the clients, waits until all replicas serve, does a last
 * write that each watcher must receive, and reads each replica. */
void history_finish(struct history_run *run, struct ensemble *ensemble);

/* Prints the logs and fails the test unless the recorded history is possible. The history is
 * printed to `print_path`; NULL: nowhere. */
void history_judge(struct history_run *run, struct ensemble *ensemble, const char *print_path,
                   struct history_report *ret_report);

/* Prints the recorded history, log by log; each line begins with its time. */
void history_print(const struct history_log *const *logs, size_t count, const char *path);

/* ---- Between the files of the clients ---- */

void history_run_http(struct history_client *client);
void history_run_socket(struct history_client *client);
void history_run_stream(struct history_client *client);
void history_run_native(struct history_client *client);

/* Draws the next operation. */
void history_plan(struct history_client *client, struct history_op *op);

/* The run's pause after an operation. */
void history_rest(const struct history_client *client);

/* Call for each new connection. */
void history_new_connection(struct history_client *client);
uint32_t history_connection(const struct history_client *client);

/* Records the answer, and the state that it shows. */
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

/* Records an event of a watch, a heartbeat, an overrun or a gap, and advances `at`. */
void history_take_event(struct history_client *client, const json_t *event);

/* Records the answer to a watch: it began, or resumed as `resumed` says. */
void history_take_watch(struct history_client *client, const char *resumed, zxid_t since,
                        zxid_t zxid);

/* The connection is lost. */
void history_take_loss(struct history_client *client);

/* True when the watcher has received the last write, or has missed its deadline (which is
 * wrong). */
bool history_watcher_done(struct history_client *client);

#endif
