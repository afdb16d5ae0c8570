/*
 * migrate_walk.h - reads znodes from a ZooKeeper, parents first, with many requests in flight.
 *
 * In memory are the paths that wait: at most the children of each znode on the way from the top to
 * the present one, and one reply. One thread.
 */
#ifndef CLI_MIGRATE_WALK_H
#define CLI_MIGRATE_WALK_H

#include "cli/zk_client.h"

/* A znode that was read. Slices are valid during the call. */
struct migrate_znode {
    struct slice path; /* Relative to the top; empty: the top itself. */
    struct slice data;
    bool is_null;
    struct slice acl; /* A JSON array, as a line of an import has it. */
    uint64_t acl_sum; /* migrate_acl_done() */
    bool masked;      /* The ACL has identities without the hash of the password. */
    struct zk_client_stat stat;
    uint32_t creates; /* Children ever created. */
    bool pruned;      /* Set by the visitor: its children are not read. */
};

/* What a walk calls. */
struct migrate_visitor {
    void *ctx;
    bool (*znode)(void *ctx, struct migrate_znode *znode); /* False ends the walk. */
    bool (*missing)(void *ctx, struct slice path);         /* It does not exist any more. */
    void (*refused)(void *ctx, struct slice path, const char *why);
    bool (*wants)(void *ctx, struct slice path);   /* Whether to read this child, too. */
    void (*changed)(void *ctx, struct slice path); /* An event about a znode, or its children. */
};

struct migrate_walk {
    struct zk_client *client;
    struct slice top; /* Path of the top; "" is the root. */
    bool watch;       /* Set one-shot watches. */
    bool runs;        /* migrate_walk_run() takes what arrives. */
    const struct migrate_visitor *visitor;
    char **unsent; /* Paths, relative to the top. The last one is the next. */
    size_t unsent_count;
    size_t unsent_cap;
    /* Requests in flight: their paths, in order. */
    char *sent[ZK_CLIENT_DUE_MAX];
    uint32_t sent_first;
    uint32_t sent_count;
    /* The znode whose replies arrive. */
    uint32_t replies;
    int32_t err;
    struct migrate_znode znode;
    struct buf data;
    struct buf acl;
    bool bad_acl; /* The ACL cannot be written as JSON. */
};

enum migrate_step {
    MIGRATE_DONE,    /* All was read. */
    MIGRATE_LOST,    /* The connection is lost: client->error. */
    MIGRATE_STOPPED, /* stop_fd is readable, while a function of the visitor said no, or waited. */
    MIGRATE_ENDED    /* A function of the visitor has returned false. */
};

void migrate_walk_init(struct migrate_walk *walk, struct zk_client *client, struct slice top,
                       const struct migrate_visitor *visitor);
void migrate_walk_release(struct migrate_walk *walk);

/* Adds a path to read; the one that was added last is read first. */
void migrate_walk_add(struct migrate_walk *walk, struct slice path);

/* Reads all that was added, and the children that the visitor wants. `walk` is then empty, unless
 * the step is another than MIGRATE_DONE. */
enum migrate_step migrate_walk_run(struct migrate_walk *walk);

/* Calls visitor->changed for an event below the top. */
void migrate_walk_event(const struct migrate_walk *walk, const struct zk_client_news *news);

#endif
