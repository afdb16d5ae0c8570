/*
 * server.h - the process around a replica: threads, sockets, disk, clock.
 *
 * The server knows no front end: the caller starts the front ends with the server's gate. Before
 * server_start writes anything, it checks ports, names and directory.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "base/err.h"
#include "server/config/config.h"

struct gate;
struct server;

enum {
    SERVER_ERROR_MAX = 2048
};

/* Exit codes of the process, besides 0. */
enum {
    EXIT_CONFIG = 2, /* The start was refused, and nothing was written; or the ensemble has begun to
                        use what this release does not know. */
    EXIT_HALT = 3,   /* An invariant was violated. */
    EXIT_DISK = 4,   /* The disk failed; never retried in the same process. */
    EXIT_LACK = 5,   /* Too little memory, or too few descriptors or threads. */
    EXIT_REMOVED = 6 /* A change of the members has removed this replica. */
};

/* Opens the directory, recovers, and starts the threads. ERR_REMOVED: a change of the members has
 * removed this replica. On error `error` is one line with the key
 * and the remedy. `config` must outlive the server. Calls server_block_signals. */
enum err server_start(const struct config *config, struct server **ret_server,
                      char error[SERVER_ERROR_MAX]);

struct gate *server_gate(struct server *server);

/* Blocks SIGTERM, SIGINT and SIGHUP until server_wait, and SIGPIPE for ever. Called before anything
 * else, so that no SIGHUP ends a replica while it starts. */
void server_block_signals(void);

/* Tells the service manager that the listeners for clients work. Main thread. */
void server_tell_ready(struct server *server);

/* Waits for SIGTERM, SIGINT or SIGHUP; returns the signal. SIGHUP must not end a replica: it means
 * that a terminal has closed, or asks for a reload. Main thread. */
int server_wait(struct server *server);

/* Handles SIGHUP: has read again what the operation `reload` reads again; see reload.h. The log has
 * the result. Main thread. */
void server_reload(struct server *server);

/* Whether a change of the members has removed this replica; then a SIGTERM of its own has ended
 * server_wait, or does so soon. */
bool server_is_removed(const struct server *server);

/* Makes readiness fail from now on. Requests are still served until this function returns: after
 * drainDelay, or at another SIGTERM or SIGINT. Main thread. */
void server_announce_end(struct server *server);

/* Hands leadership over and answers requests in flight; takes drainTimeout at most. */
void server_drain(struct server *server);

/* Ends the threads, leaves the clean-shutdown mark, frees all. False: a file system hung, and a
 * thread that waits for it may still use `server` and its configuration. Neither may be freed then,
 * and the process should end by _exit(). All that was acknowledged is durable. */
bool server_stop(struct server *server);

#endif
