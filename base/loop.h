/*
 * loop.h - one thread's epoll loop: file descriptors and one timeout. Level triggered.
 *
 * This file opens, accepts and connects all sockets of a replica, so that each socket is CLOEXEC
 * and non-blocking, and a TCP socket has TCP_NODELAY.
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
    LOOP_HANGUP = 1U << 2,  /* An error, or the peer is gone; always reported. */
    LOOP_PEER_END = 1U << 3 /* For loop_watch.interest only: asks for LOOP_HANGUP as soon as the
                               peer ends its sending direction, even while its last bytes are
                               unread. */
};

enum {
    LOOP_PARTS_MAX = 256, /* Most parts of one write. */
    LOOP_BUSY_AFTER = 8   /* The loop polls once so many waits for events in a row were short
                             (SHORT_US in loop.c). A single write of a client causes at most four
                             short waits, so it starts no polling. */
};

struct loop_watch {
    int fd;            /* Not owned. */
    uint32_t interest; /* LOOP_READ, LOOP_WRITE, LOOP_PEER_END. */
    void (*on_ready)(struct loop_watch *watch, uint32_t ready); /* May remove its own watch. */
    void *ctx;
};

/* When to poll for events before sleeping. */
struct loop_busy {
    uint32_t short_waits; /* Short waits in a row, counted up to `after`. */
    uint32_t after;       /* The loop polls once `short_waits` has reached this. */
    uint32_t in_vain;     /* Polls in a row without an event. */
};

struct loop {
    int epoll_fd;
    void *batch; /* Events being dispatched; those of removed watches are blanked. */
    int batch_len;
    int batch_pos;
    uint32_t busy_us; /* Longest poll in us, set by the owner: see loop_run_once. */
    struct loop_busy busy;
};

/* loop_init and loop_wake_open end the process when no descriptor is left (base/lack.h).
 * loop_wake_open opens an eventfd by which other threads wake a loop (loop_wake); the caller closes
 * it. The loop must watch it (loop_add_reader); the watch's on_ready calls loop_wake_clear. */
void loop_init(struct loop *loop);
int loop_wake_open(void);
void loop_wake(int fd);
void loop_wake_clear(int fd);
void loop_release(struct loop *loop);
void loop_add(struct loop *loop, struct loop_watch *watch);

/* Fills in a watch that reports when `fd` has bytes to read, and adds the watch. */
void loop_add_reader(struct loop *loop, struct loop_watch *watch, int fd,
                     void (*on_ready)(struct loop_watch *watch, uint32_t ready), void *ctx);
void loop_modify(struct loop *loop, struct loop_watch *watch, uint32_t interest);
void loop_remove(struct loop *loop, struct loop_watch *watch);

/* Waits up to `timeout_ms` (-1 for ever) and dispatches the watches that are ready; returns their
 * number.
 *
 * Busy polling: while events follow each other closely, the loop polls for up to `busy_us` before
 * it sleeps (0: never), unless recent polls have found nothing. A thread that sleeps on an idle
 * processor wakes about 3 us late. In many virtual machines it wakes 30 us late, because the host
 * takes an idle processor away. */
int loop_run_once(struct loop *loop, int timeout_ms);

/* Sockets. loop_listen, loop_try_listen, loop_accept and loop_connect return a descriptor >= 0 or a
 * negative errno. */
int loop_listen(const struct sockaddr *addr, socklen_t len, int backlog);

/* Tests whether loop_listen would succeed. The returned socket occupies the address until it is
 * closed. It listens, but loop_keep_out makes the kernel drop every new handshake: a connection
 * that completed its handshake on this socket would be reset when the socket is closed. */
int loop_try_listen(const struct sockaddr *addr, socklen_t len);

/* Sets TCP_NOTSENT_LOWAT of a socket, or of the connections of a listening socket: while the kernel
 * holds about `bytes` unsent bytes of a connection, it takes no more from this process. Without the
 * limit, up to 4 MB wait in the kernel for each client that reads nothing. A client that reads
 * is not slowed down. */
void loop_limit_unsent(int fd, int bytes);
int loop_accept(int listen_fd, struct sockaddr_storage *ret_addr);

/* Makes the kernel drop new handshakes; those that have begun can still be completed and accepted.
 * Call this a while before a listening socket is closed, because closing resets each connection
 * that the kernel has completed and the process has not accepted. A client that connects meanwhile
 * sends its first segment again after a second, and is refused if the socket is closed by then. */
void loop_keep_out(int fd);

int loop_connect(const struct sockaddr *addr, socklen_t len); /* May still be in progress. */
int loop_connect_result(int fd); /* 0: connected; -EINPROGRESS: not yet; or another -errno. */

/* These functions serve the acceptor of clients. loop_peek copies waiting bytes, which stay
 * readable, and returns their number (0: the peer has ended) or a negative errno. loop_low_water
 * makes the socket count as readable only once `bytes` bytes wait. loop_local_port returns the port
 * of the socket's own end. */
ssize_t loop_peek(int fd, void *to, size_t len);
void loop_low_water(int fd, int bytes);
uint16_t loop_local_port(int fd);

/* Makes the kernel send at most `bytes_per_s` and hold about `unsent` unsent bytes, for the rest of
 * the socket's life. */
void loop_pace(int fd, uint32_t bytes_per_s, int unsent);

/* Returns another descriptor of the same socket, which the caller closes, or a negative errno. Used
 * for a watch on a socket that another owner reads, writes and closes. */
int loop_dup(int fd);

/* True when the peer's kernel has acknowledged all bytes that were sent, or some of them since the
 * last call; false when that cannot be found out. `*acked` keeps the number of acknowledged bytes
 * for the next call (0 at first). */
bool loop_is_read(int fd, uint64_t *acked);

/* True when the peer's kernel has acknowledged all bytes that were sent, or when that is
 * unknown. */
bool loop_is_all_read(int fd);

/* Sends what the socket takes without waiting; returns the bytes sent, or a negative errno. */
ssize_t loop_send(int fd, const void *data, size_t len);

/* Sends up to LOOP_PARTS_MAX parts in the same way. */
ssize_t loop_send_parts(int fd, const struct slice *parts, size_t count);

/* Reads and drops `len` waiting bytes; false when there are fewer. */
bool loop_skip(int fd, size_t len);

/* Reads and drops waiting bytes, up to a bound, so that a peer that sends without end does not
 * occupy the thread. False once the peer has ended or is gone. */
bool loop_swallow(int fd);

/* Ends both directions, or only the sending one; the owner still closes the descriptor. */
void loop_shutdown(int fd);
void loop_shutdown_write(int fd);

/* Ends both directions. If the peer has not taken all bytes, the rest is dropped and closing the
 * descriptor resets the connection: otherwise the kernel would keep the rest for a minute or
 * more. */
void loop_cut(int fd);

#endif
