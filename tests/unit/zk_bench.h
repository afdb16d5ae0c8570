/*
 * zk_bench.h - the front end for native clients in the thread of the test, over a gate without a
 * thread: the test decides when the loop has a round, when a request inside the gate runs and when
 * it is answered, and what the clients send and read. Nothing happens by itself, so the same calls
 * give the same run.
 */
#ifndef TESTS_UNIT_ZK_BENCH_H
#define TESTS_UNIT_ZK_BENCH_H

#include "zk/zk_int.h"

#include "tests/unit/http_gate.h"

struct zk_bench {
    struct gate *gate;
    struct zk *zk;
    struct list inside; /* By op_request.node: requests that wait to run, in their order. */
    struct list ran;    /* By op_request.node: requests that wait to be answered. */
    size_t inside_count;
    size_t ran_count;
    bool suspended; /* Another state is being installed: nothing runs. */
    bool prompt;    /* The window wakes the front end at once. */
    bool unwoken;   /* The window has not woken the front end after its newest changes. */
    size_t seats;   /* Connections that the front end has not closed. */
};

void zk_bench_open(struct zk_bench *bench);
void zk_bench_open_with(struct zk_bench *bench, void (*adjust)(struct config_clients *limits));

/* Runs and answers what is inside the gate. The clients' ends stay the caller's. */
void zk_bench_close(struct zk_bench *bench);

/* Connects a client; returns its end, which does not block. `room`: bytes that the kernel keeps for
 * the client, roughly; 0: as many as it likes. */
int zk_bench_dial(struct zk_bench *bench, int room);

/* One round of the loop: the connections have their turns, and their bytes are read. Unless
 * `prompt`, the window wakes the front end only behind it, as when the core is slow. */
void zk_bench_round(struct zk_bench *bench);

/* Runs a request inside the gate: the first one of some connection, by `pick`. Returns the request;
 * NULL: there is none. */
const struct op_request *zk_bench_run(struct zk_bench *bench, size_t pick);

/* Answers one of the requests that have run, and returns it. The front end may free it in the next
 * round. NULL: there is none. */
const struct op_request *zk_bench_answer(struct zk_bench *bench, size_t pick);

/* Lets the front end try the gate again after it had no room, without its short wait. */
void zk_bench_retry(struct zk_bench *bench);

/* Lets time pass for all connections, and checks their deadlines. */
void zk_bench_pass(struct zk_bench *bench, uint64_t ms);

/* From the next write on another state is being installed, until zk_bench_replace: the changes up
 * to then are lost. zk_bench_replace alone loses them as well. */
void zk_bench_suspend(struct zk_bench *bench);
void zk_bench_replace(struct zk_bench *bench);

/* Runs an operation of another front end, with the rights of the super user. */
enum err zk_bench_write(struct zk_bench *bench, const struct op_args *args);

/* Asserts what always holds between two rounds: the bounds of memory, and that its counts are
 * right. */
void zk_bench_check(struct zk_bench *bench);

#endif
