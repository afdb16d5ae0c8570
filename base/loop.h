/*
 * loop.h - one thread's epoll loop: file descriptors and one wake time. Level triggered.
 *
 * Only this file and zab/tcp know sockets. It opens, accepts and connects them, so that every
 * descriptor is CLOEXEC, non-blocking and has TCP_NODELAY.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include "base/err.h"
#include "base/slice.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

enum {
    LOOP_READ = 1U << 0,
    LOOP_WRITE = 1U << 1,
    LOOP_HANGUP = 1U << 2,  /* Error or peer gone; always reported. */
    LOOP_PEER_END = 1U << 3 /* Interest only: the peer sends no more. Reported as LOOP_HANGUP, also
                               before all bytes are read. */
};

enum {
    LOOP_PARTS_MAX = 256, /* Of one write. */
    LOOP_BUSY_AFTER = 8   /* After so many short waits in a row the next is likely to be short: see
                             loop_run_once. A client write causes four such waits at most. */
};

struct loop_watch {
    int fd;            /* Not owned. */
    uint32_t interest; /* LOOP_READ, LOOP_WRITE, LOOP_PEER_END. */
    void (*on_ready)(struct loop_watch *watch, uint32_t ready); /* May remove its own watch. */
    void *ctx;
};

/* When to poll for events before sleeping. */
struct loop_busy {
    uint32_t short_waits; /* In a row, up to `after`. */
    uint32_t after;       /* It polls after so many. */
    uint32_t in_vain;     /* Polls in a row without an event. */
};

struct loop {
    int epoll_fd;
    void *batch; /* Events being dispatched; those of removed watches are blanked. */
    int batch_len;
    int batch_pos;
    uint32_t busy_us; /* Set by the owner: see loop_run_once. */
    struct loop_busy busy;
};

/* Both end the process when no descriptor is left (base/lack.h). loop_wake_open opens an eventfd by
 * which other threads wake a loop (loop_wake); the caller closes it. The loop that it has woken
 * calls loop_wake_clear. */
void loop_init(struct loop *loop);
int loop_wake_open(void);
void loop_wake(int fd);
void loop_wake_clear(int fd);
void loop_release(struct loop *loop);
void loop_add(struct loop *loop, struct loop_watch *watch);

/* Fills in a watch for bytes of `fd`, and adds it. */
void loop_add_reader(struct loop *loop, struct loop_watch *watch, int fd,
                     void (*on_ready)(struct loop_watch *watch, uint32_t ready), void *ctx);
void loop_modify(struct loop *loop, struct loop_watch *watch, uint32_t interest);
void loop_remove(struct loop *loop, struct loop_watch *watch);

/* Waits up to `timeout_ms` (-1 for ever) and dispatches what is ready; returns the number.
 *
 * Busy polling: while events follow each other closely, it polls for the next one for `busy_us`
 * before it sleeps (0: never), unless that has found nothing lately. A thread that sleeps on an
 * idle processor is woken some 3 us late, in many virtual machines 30 us, because an idle processor
 * goes back to the host. */
int loop_run_once(struct loop *loop, int timeout_ms);

/* Sockets. All return a descriptor >= 0 or a negative errno. */
int loop_listen(const struct sockaddr *addr, socklen_t len, int backlog);

/* Tries whether loop_listen would succeed. The descriptor holds the address and lets no client in:
 * a socket that listens, if only for a moment, completes handshakes and resets them when it closes.
 */
int loop_try_listen(const struct sockaddr *addr, socklen_t len);
/* For all connections that this listening socket accepts: the kernel takes no more than about
 * `bytes` beyond what it may send now. Without it, up to 4 MB wait in the kernel for each client
 * that reads nothing. A client that reads is not slowed down. */
void loop_limit_unsent(int listen_fd, int bytes);
int loop_accept(int listen_fd, struct sockaddr_storage *ret_addr);

/* Before a listening socket is closed. Closing resets each connection that the kernel has completed
 * and the process has not accepted. From now on no handshake begins; those that have begun may end.
 * A client that connects meanwhile sends its first segment again after a second, and is refused if
 * the socket is closed by then. */
void loop_keep_out(int fd);

int loop_connect(const struct sockaddr *addr, socklen_t len); /* In progress when returned. */
int loop_connect_result(int fd); /* 0 once connected, -EINPROGRESS, or why it failed. */

/* For the acceptor of clients. loop_peek: bytes that stay readable (0: the peer has ended), or a
 * negative errno. loop_low_water: the socket is readable once `bytes` bytes wait.
 * loop_local_port: the port of its own end. */
ssize_t loop_peek(int fd, void *to, size_t len);
void loop_low_water(int fd, int bytes);
uint16_t loop_local_port(int fd);

/* The kernel sends at most `bytes_per_s` and buffers about `ahead` bytes; for the rest of the
 * socket's life. */
void loop_pace(int fd, uint32_t bytes_per_s, int ahead);

/* Another descriptor of the same socket, which the caller closes: for a watch on a socket that
 * another owner reads, writes and closes. */
int loop_dup(int fd);

/* True when the peer's kernel has acknowledged all that was sent, or more than at the last call;
 * `*acked` keeps the number for the next call (0 at first). */
bool loop_is_read(int fd, uint64_t *acked);

/* True when the peer's kernel has acknowledged all that was sent, or when that is unknown. */
bool loop_is_all_read(int fd);

/* Sends what the socket takes without waiting; bytes, or a negative errno. */
ssize_t loop_send(int fd, const void *data, size_t len);

/* Sends up to LOOP_PARTS_MAX parts in the same way. */
ssize_t loop_send_parts(int fd, const struct slice *parts, size_t count);

/* Reads and drops `len` waiting bytes; false when there are fewer. */
bool loop_skip(int fd, size_t len);

/* Reads and drops waiting bytes, up to a bound: a peer that sends without end must not keep the
 * thread. False once the peer has ended or is gone. */
bool loop_swallow(int fd);

/* Ends both directions (or only ours); the descriptor stays with its owner. */
void loop_shutdown(int fd);
void loop_shutdown_write(int fd);

/* Ends both directions. If the peer has not taken all, the rest is dropped and closing the
 * descriptor resets the connection: otherwise the kernel would keep the rest for a minute or more.
 */
void loop_cut(int fd);

#endif
