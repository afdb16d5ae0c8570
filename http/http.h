/*
 * http.h - REST on libmicrohttpd, behind an acceptor of our own.
 *
 * The acceptor looks at the head of each new connection before libmicrohttpd sees it: that is where
 * deadlines, caps and the checks that the library does not make have their place, and where
 * WebSockets part from HTTP on the one client port. Answers are given on the library's
 * threads; only what needs the core is suspended.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gate;
struct http;
struct op_principal;

enum {
    HTTP_DRAIN_MS = 5000 /* http_drain gives requests in flight this long. */
};

/*
 * Who takes over the connections that ask for a WebSocket. `take` is called on the acceptor's
 * thread and must not wait. The request is sound: GET /ws/v1 of HTTP/1.1 from a Host and Origin
 * that may, version 13, offering the subprotocol. All its bytes, `head_len` of them the head, are
 * still in the socket, which does not block. `key` is its Sec-WebSocket-Key. `who` is the address
 * and what the request's Authorization has shown. Both are borrowed: `auth` of `who` must be
 * referenced to be kept. True: the socket is the taker's, who closes it and then gives `seat` back
 * by http_seat_give. False: there is no room; the client is told so with 503. Never called after
 * http_drain has returned.
 */
struct http_upgrade {
    bool (*take)(void *ctx, int fd, size_t head_len, const char *key,
                 const struct op_principal *who, void *seat);
    void *ctx;
};

/* The place of a taken connection among those that maxConnections and maxConnectionsPerAddress
 * allow. Any thread; before http_stop. */
void http_seat_give(void *take_seat);

/* Listens as gate_limits() says and starts the threads. `gate`, and the context of `upgrade`
 * (NULL: no WebSockets), must live, and keep answering, until http_stop has returned. ERR_BUSY: the
 * port is in use; ERR_CONFIG: the address cannot be used; ERR_IO. */
enum err http_start(struct gate *gate, const struct http_upgrade *upgrade, struct http **ret_http);

/* Stops listening, answers what was asked before that, each answer the last one of its connection,
 * and closes connections as they become idle. Bounded by HTTP_DRAIN_MS. One call, from the thread
 * that will call http_stop. */
void http_drain(struct http *http);

/* Ends the threads and frees all. Waits for requests that the gate still holds; all seats must have
 * been given back. Accepts NULL. */
void http_stop(struct http *http);

/* The port in use, also when the configured one is 0. */
uint16_t http_port(const struct http *http);

#endif
