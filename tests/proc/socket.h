/*
 * socket.h - a WebSocket client for tests: RFC 6455 over a plain socket.
 *
 * It shares no code with the server's library, so that errors of either one show. It blocks only in
 * calls with a timeout, and never fails the test by itself: a closed socket is a valid result.
 * Messages are kept in order of arrival; a reply may be taken out from between events. One thread
 * uses a socket.
 */
#ifndef TESTS_PROC_SOCKET_H
#define TESTS_PROC_SOCKET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SOCKET_TIMEOUT_MS = 60000,
    SOCKET_BYTES_MAX = 64 << 20, /* Of one message, and of unsent bytes. */
    SOCKET_NO_CODE = 1005,       /* Closed without a code. */
    SOCKET_LOST = 1006           /* Ended without a closing frame. */
};

struct socket;

struct socket_options {
    const char *path;     /* NULL: /ws/v1. */
    const char *protocol; /* NULL: zabra.v1.json; "": no subprotocol. */
    const char *headers;  /* Additional ones, each ends with CR LF; NULL: none. */
    uint32_t timeout_ms;  /* 0: SOCKET_TIMEOUT_MS. */
    int receive_bytes;    /* SO_RCVBUF, for clients that never read; 0: the default. */
    size_t piece_bytes;   /* Reads at most so much at a time, and only when all messages are taken:
                           * for slow clients. 0: the default. */
};

/* Connects to loopback and does the handshake. Never NULL: socket_status shows the result.
 * `options` may be NULL. */
struct socket *socket_open(uint16_t port, const struct socket_options *options);

/* Ends it without a closing frame, and frees it. Accepts NULL. */
void socket_close(struct socket *socket);

/* The answer to the handshake: 101 (the socket is open until it ends), another status, or 0 for
 * none. */
long socket_status(const struct socket *socket);
bool socket_is_open(const struct socket *socket);

/* After the end of the socket: the code of the server's closing frame, SOCKET_NO_CODE or
 * SOCKET_LOST. Before: 0. */
uint32_t socket_close_code(const struct socket *socket);
const char *socket_close_reason(const struct socket *socket);

/* Sends a closing frame; the socket ends when the server answers. */
void socket_say_close(struct socket *socket, uint32_t code);

/* Sends one operation: `members` are those after the id, as in "\"op\":\"get\",...". Returns the
 * id. */
uint64_t socket_request(struct socket *socket, const char *members, ...)
    __attribute__((format(printf, 2, 3)));

/* Sends a text message unchanged. */
void socket_send_text(struct socket *socket, const char *text, size_t len);

/* While it holds, what is sent waits; then it leaves in one piece. */
void socket_hold(struct socket *socket, bool hold);

/* Sends a frame with that first byte unchanged, masked or not: for frames that must be refused. */
void socket_send_frame(struct socket *socket, uint8_t first, const void *data, size_t len,
                       bool masked);

/* Reads and writes what is possible without blocking. False after the end of the socket. */
bool socket_pump(struct socket *socket);

/* Waits until bytes can be read, at most for the timeout; then pumps. False after the end of the
 * socket. */
bool socket_wait(struct socket *socket, uint32_t timeout_ms);

/* True when all that was sent has left this process. */
bool socket_all_sent(const struct socket *socket);

/* For poll: the descriptor, -1 after the end of the socket. */
int socket_fd(const struct socket *socket);

/* The number of messages that wait here, and of all received ones. */
size_t socket_waiting(const struct socket *socket);
uint64_t socket_received(const struct socket *socket);

/* Each takes a message out (the caller drops it with json_decref): the next one; the reply to a
 * request; the next event of that name (NULL: any). NULL when none arrived in time or before the
 * end. With a timeout of 0 they take only messages that have arrived. */
json_t *socket_next(struct socket *socket, uint32_t timeout_ms);
json_t *socket_reply(struct socket *socket, uint64_t id, uint32_t timeout_ms);
json_t *socket_event(struct socket *socket, const char *name, uint32_t timeout_ms);

/* Sends a request and waits SOCKET_TIMEOUT_MS for its reply. */
json_t *socket_call(struct socket *socket, const char *members, ...)
    __attribute__((format(printf, 2, 3)));

/* Waits until the server has closed; false after the timeout. */
bool socket_wait_end(struct socket *socket, uint32_t timeout_ms);

#endif
