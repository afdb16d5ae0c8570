/*
 * clients.h - many clients of ZooKeeper's protocol in one thread, as a load for any server that
 * speaks it.
 *
 * Requests are frames that the caller has built; callbacks get the replies. The clients spend
 * as little processor time as they can, because they share the processors with the servers: replies
 * are read where they arrive, and only a part of a frame is kept. What must not happen ends the
 * program with a message, as in line.h.
 */
#ifndef TESTS_BENCH_CLIENTS_H
#define TESTS_BENCH_CLIENTS_H

#include "zk/decode.h"

#include "base/buf.h"
#include "base/rng.h"

enum {
    CLIENTS_SERVERS_MAX = 8,
    CLIENTS_HEAD_BYTES = 20,   /* Of a reply: length, xid, zxid, err. */
    CLIENTS_REQUEST_BYTES = 12 /* Of a request: length, xid, type. */
};

enum client_state {
    CLIENT_DOWN,       /* No connection; `retry_ms` says when it tries the next server. */
    CLIENT_CONNECTING, /* The connection, or the session, is not there yet. */
    CLIENT_OPEN
};

struct client {
    int fd;
    uint8_t state;   /* enum client_state */
    uint32_t server; /* Index of its port. */
    bool full;       /* The kernel took no more bytes: `out` has the rest. */
    bool known;      /* Its session has been open. */
    bool ending;     /* It has sent closeSession: the end of its connection is no loss. */
    uint64_t session;
    uint8_t passwd[ZK_PASSWD_BYTES];
    int32_t timeout_ms; /* As granted. */
    int32_t xid;        /* Of the last request. */
    int64_t zxid;       /* The newest state that it has seen. */
    struct buf in;      /* A part of a frame. */
    struct buf out;
    uint64_t sent_ms; /* When it sent its last request. */
    uint64_t retry_ms;
    void *own; /* The caller's. */
};

struct clients {
    uint16_t ports[CLIENTS_SERVERS_MAX];
    uint32_t servers;
    uint32_t count;
    struct client *all;
    int32_t ask_timeout_ms;   /* The timeout that sessions ask for. */
    bool stays;               /* A client whose connection ends tries the next servers. */
    uint32_t open;            /* Clients with a session and a connection. */
    uint32_t opening_at_once; /* Most connections without a session yet. */
    uint64_t expired; /* Sessions that a server did not know any more; their clients open others. */
    uint64_t refusals; /* Attempts that a server turned down before the session stood. */
    bool stop;         /* Set by a callback: clients_run returns. */

    /* Each may be NULL. `frame` is a reply or an event, from its length on. */
    void (*on_open)(struct clients *clients, struct client *client);
    void (*on_lost)(struct clients *clients, struct client *client);
    void (*on_frame)(struct clients *clients, struct client *client, const uint8_t *frame,
                     size_t len);
    void (*on_batch)(struct clients *clients, struct client *client); /* After what was read. */
    void *own;                                                        /* The caller's. */

    /* For clients.c. */
    int epoll;
    uint32_t opening;
    uint64_t sweep_ms;
    uint8_t *scratch;
    struct rng rng;
};

/* Makes clients without connections, spread over the servers. The caller sets the callbacks. */
void clients_init(struct clients *clients, const uint16_t *ports, uint32_t servers, uint32_t count);
void clients_release(struct clients *clients); /* Closes the connections, not the sessions. */

/* Opens the sessions of all clients, and returns when they stand; ends the program after
 * `limit_ms`. */
void clients_open(struct clients *clients, uint64_t limit_ms);

/* Closes all sessions, and waits for the replies. */
void clients_close(struct clients *clients, uint64_t limit_ms);

/* Serves all clients until the time, or until `stop`, which it clears. False: the time is over. */
bool clients_run(struct clients *clients, uint64_t until_ms);

/* Sends whole frames of requests. */
void clients_send(struct clients *clients, struct client *client, const void *bytes, size_t len);

/* Asks for a znode: ZK_GET_DATA or ZK_EXISTS. */
void clients_read(struct clients *clients, struct client *client, int32_t type, const char *path,
                  bool watch);

/* Sets the data of a znode to `len` equal bytes, or creates the znode. */
void clients_write(struct clients *clients, struct client *client, int32_t type, const char *path,
                   size_t len);

static inline int32_t clients_xid(const uint8_t *frame)
{
    return zk_load_int(frame + ZK_INT_BYTES);
}

static inline int32_t clients_err(const uint8_t *frame)
{
    return zk_load_int(frame + CLIENTS_HEAD_BYTES - ZK_INT_BYTES);
}

#endif
