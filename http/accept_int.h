/* accept_int.h - the acceptor and the connections that it still owns: accept.c, pending.c. */
#ifndef HTTP_ACCEPT_INT_H
#define HTTP_ACCEPT_INT_H

#include "tls/shaker.h"

#include "http/http_int.h"

/* A connection that the acceptor owns: its head is incomplete, or it was refused. */
struct pending {
    struct loop_watch watch;
    struct list node;
    struct http_accept *accept;
    struct sockaddr_storage address;
    uint64_t deadline_ms;
    size_t peeked; /* Bytes that were in the socket when it was last peeked. */
    bool known;    /* The first byte has shown whether this is TLS. */
    bool shaking;  /* The thread of handshakes has the descriptor, and `watch` is not in the
                      loop. */
    bool sealed;   /* The descriptor is attached to TLS. */
    bool unseated; /* The seat was given to another while the handshake was running. */
    struct tls_shake shake;
    bool lingering;    /* The connection is answered; the client has to close it. */
    bool native_only;  /* It came to the port of native clients. */
    bool counted;      /* The connection counts in the caps. */
    bool is_proxy;     /* The peer is one of trustedProxies. */
    enum http_cap cap; /* HTTP_CAP_OK, or the cap that was reached: then the connection has a seat
                          (seats.h) until its head shows whether it asks for a probe. */
    struct seats_entry seat;
};

struct http_accept {
    struct http *http;
    struct loop loop;
    struct loop_watch listen;
    struct loop_watch native_listen; /* Of native clients alone; fd -1: there is no such port. */
    struct loop_watch wake;
    struct tls_shaker *shaker; /* NULL: TLS is off. */
    struct loop_watch shaken;  /* Connections that come back from their handshake. */
    int spare_fd;              /* Closed for a moment when descriptors run out; -1: none. */
    uint64_t paused_ms; /* When accepting resumes after a lack of descriptors; 0: no pause. */
    struct list pending;
    uint32_t lingering;
    struct seats seats; /* Entries are struct pending.seat. */
    uint8_t *head;      /* Scratch space for peeking. */
    uint64_t scan_at_ms;
    uint32_t late_looks; /* Consecutive late scans. */
    struct thread thread;
    _Atomic bool close_listen;
    uint64_t close_ms; /* When the port closes; new handshakes are already blocked. 0: open. */
    _Atomic uint64_t finish_ms; /* The deadline of the drain; 0: not draining. */
    uint64_t grace_end_ms;
    _Atomic bool stop;
    bool listening; /* `listening` and `finished` change with http.wait_mutex held. */
    bool finished;
};

/* ---- shake.c ---- */

/* Whether TLS is on and the first byte begins a handshake. */
bool http_shake_is_tls(const struct http_accept *accept, uint8_t first);

/* Gives a connection to the thread of handshakes; false: that thread has stopped. */
bool http_shake_begin(struct pending *pending);

/* Makes a running handshake fail soon, with this reason; the connection comes back as usual. */
void http_shake_cut(struct pending *pending, enum tls_failure why);

/* Takes a connection back. True: its descriptor is attached. False: the handshake has failed, which
 * is logged; the caller closes the connection. */
bool http_shake_end(struct pending *pending);

/* Writes the redirection of a plain request to https. False: the request must be refused. */
bool http_shake_redirect(struct http *http, const struct http_line *line,
                         const struct http_head *head, struct buf *out);

/* ---- native.c ---- */

/* The slot of a connection that another front end has taken. */
struct http_seat {
    struct http *http;
    uint64_t address_key;
};

struct http_seat *http_seat_new(struct http *http, uint64_t address_key);

/* Whether the first bytes of a connection (at least one) are those of a native client or a command
 * word, and the replica serves these. */
bool http_native_is(const struct http *http, struct slice bytes);

/* Gives the connection to the front end of native clients. False: the caller must close it; the
 * refusal is counted. */
bool http_native_give(struct pending *pending);

/* ---- pending.c ---- */

/* Takes the connections that come back from their handshake. */
void http_pending_take_shaken(struct http_accept *accept);

/* Takes an accepted socket, which counts in the caps or gets a seat. `native_only`: only native
 * clients may use it. */
void http_pending_take(struct http_accept *accept, int fd, const struct sockaddr_storage *address,
                       bool native_only);

/* Ends connections whose deadline has passed. */
void http_pending_scan(struct http_accept *accept, uint64_t now_ms);

/* Answers 503 to connections that have sent no byte, and ends handshakes, because the replica is
 * stopping. */
void http_pending_refuse_silent(struct http_accept *accept);
void http_pending_drop_all(struct http_accept *accept);

#endif
