/*
 * ws.h - the WebSocket front end: libwebsockets on a libev loop of its own, in one thread.
 *
 * One thread owns all sockets, their watches and their position in the window of changes,
 * so the order of events and replies on a socket is the order in which this thread queues them.
 */
#ifndef WS_WS_H
#define WS_WS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct gate;
struct op_principal;
struct ws;

enum {
    WS_DRAIN_MS = 5000, /* The longest time that ws_drain takes. */
    WS_LACK_MAX = 256
};

/* Whether the machine has what libwebsockets opens, which itself says only that it does not start;
 * otherwise `lack` is a sentence about it. Call it before anything is started. */
bool ws_check(char lack[WS_LACK_MAX]);

/* A seat is a connection's slot in maxConnections. When a connection that ws_adopt has taken is
 * closed, the sockets' thread or ws_stop calls `give_seat`. `gate` must live, and keep answering,
 * until ws_stop has returned. ERR_IO: libwebsockets or its libev plugin does not start. */
enum err ws_start(struct gate *gate, void (*give_seat)(void *seat), struct ws **ret_ws);

/*
 * Takes over a connection and answers its handshake. `fd` does not block; the `head_len` bytes of a
 * valid WebSocket request are still unread in it, and `key` is the request's Sec-WebSocket-Key.
 * `ws` is a struct ws, untyped because the acceptor takes this function as a plain callback. `key`
 * and `principal` are borrowed. Returns false, and takes nothing, when there is no room or the
 * sockets are being closed. Any thread; does not wait.
 */
bool ws_adopt(void *ws, int fd, size_t head_len, const char *key,
              const struct op_principal *principal, void *take_seat);

/* Takes no more connections, answers pending messages, names the other replicas to all clients and
 * closes their sockets. Returns within WS_DRAIN_MS. Call it from the thread that will call
 * ws_stop. */
void ws_drain(struct ws *ws);

/* Ends the thread and frees all. Waits for requests that the gate still holds. No thread may call
 * ws_adopt from now on. Accepts NULL. */
void ws_stop(struct ws *ws);

#endif
