/*
 * ws.h - the WebSocket front end: libwebsockets on a libev loop of its own, in one thread.
 *
 * It takes over connections whose handshake has been checked and is still unread in the socket. One
 * thread owns all sockets, their watches and their place in the window of changes, so that the
 * order of events and replies on a socket follows from the order of its code.
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
    WS_DRAIN_MS = 5000 /* ws_drain gives sockets this long. */
};

/* `give_seat` is called, on the thread of the sockets, once a connection that ws_adopt has taken is
 * closed. `gate` must live, and keep answering, until ws_stop has returned. ERR_IO: the library or
 * its libev plugin does not start. */
enum err ws_start(struct gate *gate, void (*give_seat)(void *seat), struct ws **ret_ws);

/*
 * Takes over a connection: a sound request for a WebSocket, whose `head_len` bytes are still unread
 * in `fd`, which does not block; `key` is its Sec-WebSocket-Key. The answer to it is ours. `ws` is
 * a struct ws, untyped, because an acceptor gets this as a plain function. `key` and `principal`
 * are borrowed. False, and nothing is taken, when there is no room or the sockets are being closed.
 * Any thread; does not wait.
 */
bool ws_adopt(void *ws, int fd, size_t head_len, const char *key,
              const struct op_principal *principal, void *take_seat);

/* Takes no more connections, answers pending messages, names the other replicas to all clients and
 * closes their sockets. Bounded by WS_DRAIN_MS. From the thread that will call ws_stop. */
void ws_drain(struct ws *ws);

/* Ends the thread and frees all. Waits for requests that the gate still holds. No thread may call
 * ws_adopt from now on. Accepts NULL. */
void ws_stop(struct ws *ws);

#endif
