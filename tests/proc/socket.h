/*
 * socket.h - a WebSocket client for tests: RFC 6455 over a plain socket of its own.
 *
 * It shares nothing with the library that the server uses, so that a misunderstanding shows. Never
 * blocks except where a time-out is given, and never fails the test by itself: a socket that ended
 * is a result like another. Messages are kept in the order in which they came; a reply may be taken
 * out from among events. One thread uses a socket.
 */
#ifndef TESTS_PROC_SOCKET_H
#define TESTS_PROC_SOCKET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SOCKET_TIMEOUT_MS = 60000,
    SOCKET_BYTES_MAX = 64 << 20, /* Of one message, and of what waits to be sent. */
    SOCKET_NO_CODE = 1005,       /* Closed without a code. */
    SOCKET_LOST = 1006           /* Ended without a closing frame. */
};

struct socket;

struct socket_options {
    const char *path;     /* NULL: /ws/v1. */
    const char *protocol; /* NULL: zabra.v1.json; "": none is asked for. */
    const char *headers;  /* More of them, each ended by CR LF; NULL: none. */
    uint32_t timeout_ms;  /* 0: SOCKET_TIMEOUT_MS. */
    int receive_bytes;    /* SO_RCVBUF, for clients that never read; 0: as usual. */
    size_t piece_bytes;   /* Reads no more than that at a time, and only when it has taken all that
                             it has: for clients that do not keep up. 0: as usual. */
};

/* Connects to loopback and shakes hands. Never NULL: socket_status tells how it went. `options` may
 * be NULL. */
struct socket *socket_open(uint16_t port, const struct socket_options *options);

/* Ends it without a word, and frees it. Accepts NULL. */
void socket_close(struct socket *socket);

/* The answer to the handshake: 101 (then the socket is open until it ends), another status, or 0
 * when there was none. */
long socket_status(const struct socket *socket);
bool socket_is_open(const struct socket *socket);

/* Once it has ended: the code of the server's closing frame, SOCKET_NO_CODE or SOCKET_LOST. 0
 * before. */
uint32_t socket_close_code(const struct socket *socket);
const char *socket_close_reason(const struct socket *socket);

/* Says goodbye; the socket ends when the server answers. */
void socket_say_close(struct socket *socket, uint32_t code);

/* Sends one operation: `members` are those behind the id, as in "\"op\":\"get\",...". Returns the
 * id. */
uint64_t socket_request(struct socket *socket, const char *members, ...)
    __attribute__((format(printf, 2, 3)));

/* Sends a text message as it is. */
void socket_send_text(struct socket *socket, const char *text, size_t len);

/* Sends a frame of that first byte as it is, masked or not: for what must be refused. */
void socket_send_frame(struct socket *socket, uint8_t first, const void *data, size_t len,
                       bool masked);

/* Reads and writes what is possible now. False once it has ended. */
bool socket_pump(struct socket *socket);

/* Waits until something can be read, or as long. Then pumps. False once it has ended. */
bool socket_wait(struct socket *socket, uint32_t timeout_ms);

/* True when all that was sent has left this process. */
bool socket_all_sent(const struct socket *socket);

/* For poll: the descriptor, -1 once ended. */
int socket_fd(const struct socket *socket);

/* How many messages wait here, and how many have come in all. */
size_t socket_waiting(const struct socket *socket);
uint64_t socket_received(const struct socket *socket);

/* Each takes a message out (the caller drops it with json_decref); NULL when none came in time or
 * before the end. The next one of all; the reply to a request; the next event of that name (NULL:
 * of any). With a time-out of 0 they look at what is here already. */
json_t *socket_next(struct socket *socket, uint32_t timeout_ms);
json_t *socket_reply(struct socket *socket, uint64_t id, uint32_t timeout_ms);
json_t *socket_event(struct socket *socket, const char *name, uint32_t timeout_ms);

/* Request and reply; SOCKET_TIMEOUT_MS. */
json_t *socket_call(struct socket *socket, const char *members, ...)
    __attribute__((format(printf, 2, 3)));

/* Waits until the server has closed; false when it has not in time. */
bool socket_wait_end(struct socket *socket, uint32_t timeout_ms);

#endif
