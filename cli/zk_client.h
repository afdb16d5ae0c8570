/*
 * zk_client.h - a small client of ZooKeeper's own protocol, which only reads. Only `zabra migrate`
 * uses it: all other commands speak HTTP.
 *
 * Requests are pipelined: the caller sends several, and takes the replies in the same order. A
 * connection has its own session, which is given up when the connection is lost, because nothing
 * that matters belongs to it. The next one is made to the next server, and one that is behind what
 * was read before refuses it, as for all clients. All waits have a deadline: a server that is
 * silent for the timeout while replies are due counts as lost. A hostile server can make the client
 * use at most ZK_CLIENT_FRAME_MAX bytes and a little more, and those only as bytes arrive. One
 * thread.
 */
#ifndef CLI_ZK_CLIENT_H
#define CLI_ZK_CLIENT_H

#include "base/buf.h"

#include <stdbool.h>

struct tls_dial;

enum {
    ZK_CLIENT_FRAME_MAX = 64 << 20, /* Bytes of a reply: a list of a million children fits. */
    ZK_CLIENT_DUE_MAX = 1024,       /* Requests without a reply. */
    ZK_CLIENT_HOSTS_MAX = 64,
    ZK_CLIENT_HOST_MAX = 254,
    ZK_CLIENT_AUTHS_MAX = 16,
    ZK_CLIENT_PORT = 2181,
    ZK_CLIENT_ERROR_MAX = 512
};

/* Operations; the numbers are those of the protocol. */
enum zk_client_op {
    ZK_CLIENT_EXISTS = 3,
    ZK_CLIENT_GET_DATA = 4,
    ZK_CLIENT_GET_ACL = 6,
    ZK_CLIENT_SYNC = 9,
    ZK_CLIENT_GET_CHILDREN = 12, /* With the stat. */
    ZK_CLIENT_ADD_WATCH = 106    /* Persistent, recursive; from ZooKeeper 3.6 on. */
};

/* Codes of errors that callers look at; 0: none. */
enum {
    ZK_CLIENT_UNIMPLEMENTED = -6,
    ZK_CLIENT_NO_NODE = -101,
    ZK_CLIENT_NO_AUTH = -102,
    ZK_CLIENT_AUTH_FAILED = -115
};

enum zk_client_event {
    ZK_CLIENT_CREATED = 1,
    ZK_CLIENT_DELETED = 2,
    ZK_CLIENT_CHANGED = 3,
    ZK_CLIENT_CHILDREN_CHANGED = 4
};

/* The members of a stat that are used. */
struct zk_client_stat {
    int64_t mzxid;
    int32_t cversion;
    int64_t ephemeral_owner; /* 0: no ephemeral. Containers and TTLs have 0, too. */
    int32_t num_children;
};

/* What has arrived. Slices point into the client and are valid until its next call. */
struct zk_client_news {
    enum {
        ZK_CLIENT_NOTHING, /* The wait is over. */
        ZK_CLIENT_REPLY,
        ZK_CLIENT_EVENT,
        ZK_CLIENT_STOP, /* The descriptor `stop_fd` is readable. */
        ZK_CLIENT_LOST  /* The connection is lost: `error` says why. */
    } kind;

    enum zk_client_op op;       /* Of a reply. */
    int32_t err;                /* Of a reply; not 0: it has nothing else. */
    struct zk_client_stat stat; /* Not of ZK_CLIENT_SYNC and ZK_CLIENT_ADD_WATCH. */
    struct slice data;          /* GET_DATA; without `data` it is null. */
    uint32_t count;             /* Of entries of an ACL or of children. */
    struct slice list;          /* Their bytes, for zk_client_acl_next and zk_client_name_next. */
    enum zk_client_event event; /* Of an event. */
    struct slice path;          /* Of an event. */
};

struct zk_client_acl {
    uint32_t perms;
    struct slice scheme;
    struct slice id;
};

struct zk_client_host {
    char name[ZK_CLIENT_HOST_MAX];
    char port[8];
};

struct zk_client {
    struct zk_client_host hosts[ZK_CLIENT_HOSTS_MAX];
    int host_count;
    int host;          /* The one that is used, or tried next. */
    char chroot[1024]; /* What follows the addresses, without a slash at the end; "": none. */
    struct buf auths[ZK_CLIENT_AUTHS_MAX]; /* "scheme:credential". */
    int auth_count;
    int64_t timeout_ms;   /* Of a connection attempt, and of silence. */
    int stop_fd;          /* -1: none. */
    struct tls_dial *tls; /* Owned; NULL: connections are plain. */

    int fd;             /* -1: not connected. */
    int64_t session_ms; /* The timeout; 0: no session yet. */
    uint64_t heard_ms;  /* Monotonic, when a byte last came. */
    uint64_t sent_ms;   /* When one was last sent, pings included. */
    uint64_t asked_ms;  /* When one was first sent after that which came last; 0: not yet. */
    struct buf in;
    struct buf out;
    size_t taken; /* Bytes of `in` that the next call drops. */
    int32_t xid;
    int64_t zxid; /* The newest that a reply had, also of earlier connections; 0: none. */

    struct {
        int32_t xid;
        enum zk_client_op op;
    } due[ZK_CLIENT_DUE_MAX]; /* A ring. */

    uint32_t due_first;
    uint32_t due_count;
    char error[ZK_CLIENT_ERROR_MAX];
};

/* Prepares a client for "host:port,host:port/chroot"; the port may be left out. Returns false with
 * the reason in `error`. The caller calls zk_client_close() in both cases. */
bool zk_client_init(struct zk_client *client, const char *hosts, int64_t timeout_ms);
void zk_client_close(struct zk_client *client);

/* Adds an identity, "digest:user:password"; false: it has another form, or there are too many. */
bool zk_client_auth(struct zk_client *client, struct slice identity);

/* Opens a connection with a new session to the first server that serves, trying each once. The
 * identities are accepted before it returns. Returns false with the reason in `error`. */
bool zk_client_connect(struct zk_client *client);

/* Gives up the connection; the next one is made to the next server. */
void zk_client_lose(struct zk_client *client);

/* Sends a request; errors are found by zk_client_next(). The caller has fewer than
 * ZK_CLIENT_DUE_MAX replies due. `watch`: also set a one-shot watch. */
void zk_client_send(struct zk_client *client, enum zk_client_op op, struct slice path, bool watch);

/* Waits for the next reply or event, at most `wait_ms`; -1: while replies are due, without another
 * limit than the timeout. Sends the pings that keep the session. */
void zk_client_next(struct zk_client *client, int64_t wait_ms, struct zk_client_news *ret_news);

/* Sends the ping that keeps the session, if one is due, and takes nothing that has arrived: what
 * zk_client_next() has returned stays valid. */
void zk_client_keep(struct zk_client *client);

/* Take the next of `count` entries from a list of a reply. */
struct zk_client_acl zk_client_acl_next(struct slice *list);
struct slice zk_client_name_next(struct slice *list);

/* What may help when a connection with TLS has failed; "": nothing. */
const char *zk_client_hint(const struct zk_client *client);

/* Makes the handshake of TLS with the connected server, until the time. False: it failed. */
bool zk_client_secure(struct zk_client *client, uint64_t end_ms);

/* Sets `error`; returns false. For the files of the client. */
bool zk_client_fail(struct zk_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns the text of an error code, "no permission". */
const char *zk_client_err_text(int32_t err);

#endif
