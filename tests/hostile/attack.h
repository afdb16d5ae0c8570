/*
 * attack.h - common parts of the attacks: raw connections, and an honest client that measures
 * latency.
 *
 * An attack is a program of this folder against real replicas (tests/proc/ensemble.h). It does to a
 * replica what a hostile client would do. It asserts that the replica survives, its memory is
 * bounded, and probes and other clients are answered in time.
 */
#ifndef TESTS_HOSTILE_ATTACK_H
#define TESTS_HOSTILE_ATTACK_H

#include "base/thread.h"
#include "tests/proc/ensemble.h"

#include <stdatomic.h>

enum {
    ATTACK_TIMES_MAX = 200000,
    ATTACK_ANSWER_MAX = 1 << 20
};

/* Raises this program's own soft limit of descriptors; fails the test when the limit cannot reach
 * `needed`. */
void attack_raise_descriptors(uint32_t needed);

/* A blocking connection to loopback with SO_RCVBUF of `receive_bytes` (0: the default). `from` is
 * the last number of the client's address 127.0.0.x (0: the kernel chooses), so that an attack may
 * come from many addresses. Returns -1 on failure. */
int attack_connect(uint16_t port, int receive_bytes, uint8_t from);

/* The same without waiting for the connection: the descriptor does not block. */
int attack_connect_begin(uint16_t port, uint8_t from);

/* Sends bytes unchanged; false when the server has closed the connection. */
bool attack_send(int fd, const void *bytes, size_t len);

/*
 * Sends `bytes` on a separate connection and reads until the server closes it, or until nothing
 * arrives for `quiet_ms`. The answer is appended to `out`; true when the server has closed the
 * connection.
 */
bool attack_exchange(uint16_t port, const void *bytes, size_t len, uint32_t quiet_ms,
                     struct buf *out);

/* The number of answers ("HTTP/1.") in the bytes, and the status of the first; 0: none. */
uint32_t attack_answers(struct buf *bytes);
long attack_status(struct buf *bytes);

/*
 * An honest client: a thread that sends one call after another on a kept connection and records the
 * latency of each. Failed calls count, too.
 */
struct attack_client {
    const char *method;
    const char *path;
    const char *body; /* NULL: none. */
    uint16_t port;
    uint32_t pause_ms; /* Between two calls. */
    bool fresh;        /* Each call opens its own connection. */

    /* Filled by the thread; read after attack_client_stop. */
    uint32_t *times_us;
    uint32_t count;
    uint32_t failed; /* No answer, or a status of 400 and above. */
    long last_failure;
    struct thread thread;
    _Atomic bool stopping;
    _Atomic uint32_t done;
};

void attack_client_start(struct attack_client *client);
void attack_client_stop(struct attack_client *client);

/* Quantile of the latencies in us; per mille, for example 990. 0 without any. Sorts them. */
uint32_t attack_client_quantile(struct attack_client *client, uint32_t per_mille);
void attack_client_release(struct attack_client *client);

#endif
