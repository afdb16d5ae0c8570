/*
 * http.h - REST on libmicrohttpd, behind an acceptor of our own, which also separates WebSockets
 * from HTTP, because both share one client port. README.md has the picture.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct gate;
struct http;
struct config_clients;
struct op_principal;
struct tls_fault;

enum {
    HTTP_DRAIN_MS = 5000 /* http_drain gives requests in flight this long to end. */
};

/*
 * Takes over the connections that ask for a WebSocket. `take` is called on the acceptor's thread
 * and must not wait. The request is valid: GET /ws/v1 of HTTP/1.1 from an allowed Host and Origin,
 * WebSocket version 13, offering the subprotocol. All bytes of the request are still in the socket,
 * which does not block; the first `head_len` of them are the head. `key` is the Sec-WebSocket-Key.
 * `principal` holds the address of the client and its credentials from Authorization. `key` and
 * `principal` are borrowed: a taker that keeps `principal->auth` takes a reference. True: the taker
 * owns the socket, closes it, and then calls http_seat_give with `seat`. False: there is no room;
 * the client receives 503. `take` is never called after http_drain has returned.
 */
struct http_upgrade {
    bool (*take)(void *ctx, int fd, size_t head_len, const char *key,
                 const struct op_principal *principal, void *seat);
    void *ctx;

    /* The same for connections that begin with a frame of ZooKeeper's protocol or with one of its
     * command words; NULL: none are served. No byte has been read. False: the connection is closed
     * without an answer, because the protocol has none. */
    bool (*take_native)(void *native, int fd, const struct op_principal *principal, void *seat);
    void *native;
};

/* Gives back the slot of a connection that `take` has taken over. Until then the connection counts
 * against maxConnections and maxConnectionsPerAddress. Any thread; before http_stop. */
void http_seat_give(void *take_seat);

/* Starts the threads and listens on the address in gate_limits(). `gate` and the context of
 * `upgrade` (NULL: no WebSockets) must live and keep answering until http_stop has returned.
 * ERR_BUSY: the port is in use; ERR_CONFIG: the address cannot be used; ERR_IO. */
enum err http_start(struct gate *gate, const struct http_upgrade *upgrade, struct http **ret_http);

/* Checks what http_start will load for TLS: certificates, keys, CAs. False, with a sentence that
 * names the configuration key and the file. */
bool http_tls_check(const struct config_clients *limits, struct tls_fault *ret_fault);

/* Stops listening, answers the requests that have already arrived, and closes each connection after
 * its answer or when it is idle. Takes HTTP_DRAIN_MS at most. Call it once, from the thread that
 * will call http_stop. */
void http_drain(struct http *http);

/* Ends the threads and frees everything. Waits for requests that the gate still holds;
 * http_seat_give must have been called for all connections that `take` took. Accepts NULL. */
void http_stop(struct http *http);

#endif
