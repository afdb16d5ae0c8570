/*
 * http.h - REST on libmicrohttpd, behind an acceptor of our own.
 *
 * The acceptor looks at the head of each new connection before libmicrohttpd sees it: that is where
 * deadlines, caps and the checks that the library does not make have their place, and where
 * WebSockets will part from HTTP on the one client port. Answers are given on the library's
 * threads; only what needs the core is suspended.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/err.h"

#include <stdint.h>

struct gate;
struct http;

enum {
    HTTP_DRAIN_MS = 5000 /* http_drain gives requests in flight this long. */
};

/* Listens as gate_limits() says and starts the threads. `gate` must live, and keep answering, until
 * http_stop has returned. ERR_BUSY: the port is in use; ERR_CONFIG: the address cannot be used;
 * ERR_IO. */
enum err http_start(struct gate *gate, struct http **ret_http);

/* Stops listening, answers what was asked before that, each answer the last one of its connection,
 * and closes connections as they become idle. Bounded by HTTP_DRAIN_MS. One call, from the thread
 * that will call http_stop. */
void http_drain(struct http *http);

/* Ends the threads and frees all. Waits for requests that the gate still holds. Accepts NULL. */
void http_stop(struct http *http);

/* The port in use, also when the configured one is 0. */
uint16_t http_port(const struct http *http);

#endif
