/*
 * loop.h - one thread's epoll loop: file descriptors and one wake time. Level triggered.
 *
 * Besides zab/tcp the only place that knows sockets; it opens, accepts and connects them, so that
 * every descriptor is CLOEXEC, non-blocking and has TCP_NODELAY.
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
    LOOP_PEER_END = 1U << 3 /* Interest only: the peer sends no more; reported as LOOP_HANGUP, also
                               behind bytes that nobody has read. */
};

enum {
    LOOP_PARTS_MAX = 256, /* Of one write. */
    LOOP_BUSY_AFTER = 8   /* Short waits in a row, and the next is likely to be one: see
                             loop_run_once. A write that is alone makes four at most. */
};

struct loop_watch {
    int fd;            /* Not owned. */
    uint32_t interest; /* LOOP_READ, LOOP_WRITE, LOOP_PEER_END. */
    void (*on_ready)(struct loop_watch *watch, uint32_t ready); /* May remove its own watch. */
    void *ctx;
};

/* When to look for events before sleeping. */
struct loop_busy {
    uint32_t short_waits; /* In a row, up to `after`. */
    uint32_t after;       /* So many, and it looks. */
    uint32_t in_vain;     /* Looks in a row. */
};

struct loop {
    int epoll_fd;
    void *batch; /* Events being dispatched; those of removed watches are blanked. */
    int batch_len;
    int batch_pos;
    uint32_t busy_us; /* Set by the owner: see loop_run_once. */
    struct loop_busy busy;
};

/* Both end the process when no descriptor is left (base/lack.h). The second opens one by which
 * other threads wake a loop: an eventfd, the caller's to close. */
void loop_init(struct loop *loop);
int loop_wake_open(void);
void loop_release(struct loop *loop);
void loop_add(struct loop *loop, struct loop_watch *watch);
void loop_modify(struct loop *loop, struct loop_watch *watch, uint32_t interest);
void loop_remove(struct loop *loop, struct loop_watch *watch);

/* Waits up to `timeout_ms` (-1 for ever) and dispatches what is ready; returns the number.
 *
 * Busy polling: while events follow each other closely, it looks for the next one for `busy_us`
 * before it waits (0: never), unless that has been in vain. Whoever sleeps on a processor that has
 * gone idle is woken some 3 us late, in many virtual machines 30 us: there an idle processor goes
 * back to the host. */
int loop_run_once(struct loop *loop, int timeout_ms);

/* Sockets. All return a descriptor >= 0 or a negative errno. */
int loop_listen(const struct sockaddr *addr, socklen_t len, int backlog);

/* Tries whether loop_listen would succeed. The descriptor holds the address and lets no client in:
 * a socket that listens, if only for a moment, completes handshakes and resets them when it closes.
 */
int loop_try_listen(const struct sockaddr *addr, socklen_t len);
/* On a socket that listens, for all that it accepts: the kernel takes no more than about `bytes`
 * beyond what it may send now. Without it, up to 4 MB wait there for each client that reads
 * nothing. A client that reads is not slowed down. */
void loop_limit_unsent(int listen_fd, int bytes);
int loop_accept(int listen_fd, struct sockaddr_storage *ret_addr);

/* Before a listening socket is closed. Closing resets each connection that the kernel has completed
 * and the process has not accepted. From now on no handshake begins; those that have begun may end.
 * A client that connects meanwhile sends its first segment again after a second, and is refused if
 * the socket is closed by then. */
void loop_keep_out(int fd);

int loop_connect(const struct sockaddr *addr, socklen_t len); /* In progress when returned. */
int loop_connect_result(int fd); /* 0 once connected, -EINPROGRESS, or why it failed. */

/* For the acceptor of clients: bytes that stay readable (0: the peer is done), or a negative errno;
 * the number of waiting bytes from which on the socket counts as readable; the port of its own end.
 */
ssize_t loop_peek(int fd, void *to, size_t len);
void loop_low_water(int fd, int bytes);
uint16_t loop_local_port(int fd);

/* The kernel sends no more than `bytes_per_s`, and takes about `ahead` bytes before it has; for the
 * rest of the socket's life. */
void loop_pace(int fd, uint32_t bytes_per_s, int ahead);

/* Another descriptor of the same socket, of the caller's own: for a watch on a socket that somebody
 * else reads, writes and closes. */
int loop_dup(int fd);

/* True when the peer's kernel has acknowledged all that was sent, or more than at the last call,
 * which `*acked` remembers (0 at first). */
bool loop_is_read(int fd, uint64_t *acked);

/* True when the peer's kernel has acknowledged all that was sent, or that is not known. */
bool loop_is_all_read(int fd);

/* Sends at once what the socket takes; bytes, or a negative errno. */
ssize_t loop_send(int fd, const void *data, size_t len);

/* The same of up to LOOP_PARTS_MAX parts, one behind the other. */
ssize_t loop_send_parts(int fd, const struct slice *parts, size_t count);

/* Reads and drops so many bytes, which lie there; false when they do not. */
bool loop_skip(int fd, size_t len);

/* Reads and drops what is there, a bounded part of it: a peer that sends without end must not keep
 * the thread. False once the peer is done or gone. */
bool loop_swallow(int fd);

/* Ends both directions (or only ours); the descriptor stays with its owner. */
void loop_shutdown(int fd);
void loop_shutdown_write(int fd);

/* Ends both directions. When the peer has not taken all, the rest is thrown away and closing the
 * descriptor resets the connection: the kernel would keep the rest for a minute or more
 * without a deadline. */
void loop_cut(int fd);

#endif
