/* accept_int.h - the acceptor, and the connections that it has not given away: accept.c, pending.c.
 */
#ifndef HTTP_ACCEPT_INT_H
#define HTTP_ACCEPT_INT_H

#include "base/list.h"
#include "base/loop.h"
#include "base/thread.h"
#include "http/http_int.h"
#include "http/seats.h"

/* A connection that is not the library's: its head is incomplete, or it was refused. */
struct pending {
    struct loop_watch watch;
    struct list node;
    struct http_accept *accept;
    struct sockaddr_storage address;
    uint64_t deadline_ms;
    size_t peeked;     /* Bytes seen when last looked. */
    bool lingering;    /* Answered; waiting for the client to hang up. */
    bool counted;      /* In the caps. */
    enum http_cap cap; /* That is reached: it has a seat, and only a probe is answered. */
    struct seats_entry seat;
};

struct http_accept {
    struct http *http;
    struct loop loop;
    struct loop_watch listen;
    struct loop_watch wake;
    int spare_fd;       /* Given up for a moment when descriptors run out; -1: there is none. */
    uint64_t paused_ms; /* No descriptor is left: accepts nothing until then; 0: accepts. */
    struct list pending;
    uint32_t lingering;
    struct seats seats; /* Of struct pending.seat. */
    uint8_t *head;      /* Scratch for peeking. */
    uint64_t scan_at_ms;
    uint32_t late_looks; /* One after the other. */
    struct thread thread;
    _Atomic bool close_listen;
    uint64_t close_ms;          /* When the port closes, no handshake begins till then; 0: open. */
    _Atomic uint64_t finish_ms; /* When finishing must have ended; 0: not finishing. */
    uint64_t grace_end_ms;
    _Atomic bool stop;
    pthread_mutex_t mutex; /* Of `listening` and `finished`. */
    pthread_cond_t changed;
    bool listening;
    bool finished;
};

/* Takes a socket that was accepted: a place of the caps, or a seat. */
void http_pending_take(struct http_accept *accept, int fd, const struct sockaddr_storage *address);

/* Ends those whose deadline has passed. */
void http_pending_scan(struct http_accept *accept, uint64_t now_ms);

/* The replica ends: connections that have sent no byte are answered 503. */
void http_pending_refuse_silent(struct http_accept *accept);
void http_pending_drop_all(struct http_accept *accept);

#endif
