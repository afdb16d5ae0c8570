/*
 * greet.h - connections on their way from the acceptor to libmicrohttpd ("the library").
 *
 * In one turn, a thread of the library opens all connections that it was given, and sends events of
 * open streams only before and after that. In a burst of new streams such a turn would last long.
 * So the thread for connections that wait is given a few at a time, and the others are held here.
 */
#ifndef HTTP_GREET_H
#define HTTP_GREET_H

#include "base/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct http;
struct MHD_Connection;

enum {
    HTTP_GREETS_MAX = 16, /* Connections given to the thread that it has not opened yet. */
    HTTP_GREETS_MS = 500  /* A connection that is held for so long no longer waits for others. */
};

struct http_greet {
    _Atomic uint32_t handed; /* Connections that the library has not opened yet, with those held. */
    _Atomic uint32_t given;  /* Those that the thread for connections that wait has not opened. */
    _Atomic bool holds;      /* Whether `held` may have entries. */
    struct list held;        /* The acceptor's: connections that wait, in order. */
    int wake_fd;             /* Wakes the acceptor. Valid until http_greet_close. */
};

void http_greet_open(struct http_greet *greet);
/* Once the acceptor and the library have stopped. */
void http_greet_close(struct http_greet *greet);

/* Hands a connection, which counts in the caps, to the library. `waits`: it belongs to the thread
 * for connections that wait, and may be held. Acceptor only. */
void http_greet_take(struct http *http, int fd, const struct sockaddr_storage *address, bool waits);

/* Hands over held connections for which there is room. Acceptor only. */
void http_greet_some(struct http *http);

/* The library has opened the connection. Any of its threads. */
void http_greet_opened(struct http *http, struct MHD_Connection *mhd);

/* Closes the held connections. Acceptor only. */
void http_greet_drop_all(struct http *http);

#endif
