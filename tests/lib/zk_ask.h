/*
 * zk_ask.h - requests of ZooKeeper's protocol as bytes, as a client library writes them. Each
 * function appends one whole frame.
 */
#ifndef TESTS_LIB_ZK_ASK_H
#define TESTS_LIB_ZK_ASK_H

#include "zk/decode.h"

/* The first frame. `session` 0: a new one. */
void zk_ask_hello(struct buf *out, zxid_t last_zxid, int32_t timeout_ms, uint64_t session,
                  const uint8_t passwd[ZK_PASSWD_BYTES]);

/* Begins a request; the caller writes its record, and passes the result to zk_frame_end. */
size_t zk_ask_begin(struct buf *out, int32_t xid, int32_t type);

void zk_ask_plain(struct buf *out, int32_t xid, int32_t type); /* Without a record. */

/* A request with a path, and with a flag (reads), a number (requests about watches) or, when `flag`
 * is negative, nothing behind it. */
void zk_ask_path(struct buf *out, int32_t xid, int32_t type, const char *path, int flag);

/* A create, create2 or createTTL (with a second as its TTL), open to all. */
void zk_ask_create(struct buf *out, int32_t xid, int32_t type, const char *path, struct slice data,
                   int32_t flags);
void zk_ask_set(struct buf *out, int32_t xid, const char *path, struct slice data, int32_t version);
void zk_ask_delete(struct buf *out, int32_t xid, const char *path, int32_t version);

/* A multi of two elements: a check, and the deletion of another znode. */
void zk_ask_multi(struct buf *out, int32_t xid, const char *checked, int32_t version,
                  const char *deleted);

struct zk_ask_list {
    const char *const *paths;
    size_t count;
};

/* setWatches, or with a persistent or recursive one setWatches2. */
void zk_ask_watches(struct buf *out, int32_t xid, zxid_t since,
                    const struct zk_ask_list lists[ZK_LISTS]);

#endif
