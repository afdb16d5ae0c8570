/*
 * zk.h - the front end for native clients of ZooKeeper: its protocol and its command words, on a
 * libev loop of its own, in one thread.
 *
 * One thread owns all connections, their watches and their position in the window of changes, so
 * the order of events and replies on a connection is the order in which this thread writes them.
 */
#ifndef ZK_ZK_H
#define ZK_ZK_H

#include <stdbool.h>

struct gate;
struct op_principal;
struct zk;

enum {
    ZK_DRAIN_MS = 5000 /* The longest time that zk_drain takes. */
};

/* A seat is a connection's slot in maxConnections. When a connection that zk_adopt has taken is
 * closed, the front end's thread or zk_stop calls `give_seat`. `gate` must live, and keep
 * answering, until zk_stop has returned. */
struct zk *zk_start(struct gate *gate, void (*give_seat)(void *seat));

/*
 * Takes over a connection whose first bytes are those of a native client or a command word; all of
 * them are still unread. `fd` does not block; if TLS is attached to it, its handshake is done. `zk`
 * is a struct zk, untyped because the acceptor takes this function as a plain callback. `principal`
 * is borrowed. Returns false, and takes nothing, when the connections are being closed. Any thread;
 * does not wait.
 */
bool zk_adopt(void *zk, int fd, const struct op_principal *principal, void *take_seat);

/* Takes no more connections and reads no more requests, answers those that have arrived, and closes
 * the connections, so that the clients go to other replicas with their sessions. Returns within
 * ZK_DRAIN_MS. Call it from the thread that will call zk_stop. */
void zk_drain(struct zk *zk);

/* Ends the thread and frees all. Waits for requests that the gate still holds. No thread may call
 * zk_adopt from now on. Accepts NULL. */
void zk_stop(struct zk *zk);

#endif
