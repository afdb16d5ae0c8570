/* socket_int.h - state of the WebSocket client, shared by its files. */
#ifndef TESTS_PROC_SOCKET_INT_H
#define TESTS_PROC_SOCKET_INT_H

#include "base/buf.h"
#include "base/list.h"
#include "base/rng.h"
#include "tests/lib/exchange.h"
#include "tests/proc/socket.h"

enum {
    SOCKET_PIECE = 64 << 10, /* Bytes of one read. */
    SOCKET_KEY_MAX = 64,
    SOCKET_REASON_MAX = 128
};

struct message {
    struct list node;
    json_t *json;
};

struct socket {
    int fd; /* -1: ended, or never connected. */
    long status;
    uint32_t code;
    char reason[SOCKET_REASON_MAX];
    char key[SOCKET_KEY_MAX];
    struct rng rng;
    size_t piece_bytes;
    struct buf in;
    size_t in_pos; /* Parsed up to here. */
    struct buf out;
    struct buf text; /* Text of a message in several frames. */
    bool in_message;
    bool held;            /* What is sent waits in `out`. */
    struct list messages; /* struct message. */
    size_t waiting;
    uint64_t received;
    uint64_t next_id;
    struct exchange_socket noted;
};

/* Closes the descriptor, if it is not closed yet. */
void socket_end(struct socket *socket, uint32_t code);

/* Parses the received frames. */
void socket_take_frames(struct socket *socket);

/* Writes as much as the kernel accepts. */
void socket_flush(struct socket *socket);

#endif
