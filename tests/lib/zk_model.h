/*
 * zk_model.h - ZooKeeper's two tables of watches and a small tree, done naively: which events a
 * client receives for a change, and after a reconnect.
 */
#ifndef TESTS_LIB_ZK_MODEL_H
#define TESTS_LIB_ZK_MODEL_H

#include "zk/decode.h"

#include "server/watch/watch.h"

enum {
    ZK_MODEL_PATHS = 7 /* The first one is the root, which is always there. */
};

extern const char *const zk_model_paths[ZK_MODEL_PATHS];

uint8_t zk_model_path(struct slice path); /* The index of one of these paths. */

struct zk_model_node {
    bool exists;
    zxid_t mzxid;
    zxid_t pzxid;
    uint32_t children;
};

enum zk_model_change {
    ZK_MODEL_CREATE,
    ZK_MODEL_SET,
    ZK_MODEL_DELETE,
    ZK_MODEL_CHANGES
};

/* The watches of one connection. */
struct zk_model_tables {
    uint8_t data[ZK_MODEL_PATHS];
    uint8_t child[ZK_MODEL_PATHS];
    void (*on_event)(void *ctx, enum watch_event_type type, uint8_t path, zxid_t zxid);
    void *ctx;
};

void zk_model_init(struct zk_model_node nodes[ZK_MODEL_PATHS]);

/* Returns what ZooKeeper answers to this change now. */
int32_t zk_model_judge(const struct zk_model_node *nodes, enum zk_model_change change,
                       uint8_t path);
void zk_model_apply(struct zk_model_node *nodes, enum zk_model_change change, uint8_t path,
                    zxid_t zxid);

/* The events of a change that was applied. */
void zk_model_fire(struct zk_model_tables *tables, enum zk_model_change change, uint8_t path,
                   zxid_t zxid);

/* Return the code of the reply, and add or remove watches. `type` is that of a read. */
int32_t zk_model_read(struct zk_model_tables *tables, const struct zk_model_node *nodes,
                      int32_t type, uint8_t path, bool watch);
int32_t zk_model_add(struct zk_model_tables *tables, uint8_t path, int mode);
int32_t zk_model_find(struct zk_model_tables *tables, uint8_t path, int mode, bool removes);

/* A path of setWatches: registers the watch, or sends the event that the client has missed. */
void zk_model_set(struct zk_model_tables *tables, const struct zk_model_node *nodes, uint32_t list,
                  uint8_t path, zxid_t since);

/* What a client library remembers, for setWatches: a bit of each list for each path. */
struct zk_model_asked {
    int32_t type;
    uint8_t path;
    int mode; /* Of addWatch and removeWatches; of a read: whether it has a watch. */
};

bool zk_model_is_write(const struct zk_model_asked *asked);
bool zk_model_is_read(const struct zk_model_asked *asked);
void zk_model_remember(uint8_t lists[ZK_LISTS], const struct zk_model_asked *asked, int32_t code);
void zk_model_use_up(uint8_t lists[ZK_LISTS], int32_t type, uint8_t path); /* By an event. */

/* Appends setWatches or setWatches2 with these lists. */
void zk_model_ask(struct buf *out, int32_t xid, zxid_t since, const uint8_t lists[ZK_LISTS]);

void zk_model_forget(struct zk_model_tables *tables); /* The connection has ended. */

#endif
