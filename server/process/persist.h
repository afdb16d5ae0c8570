/*
 * persist.h - the protocol's disk operations on their way to the store and back.
 *
 * The core turns PERSIST effects into operations of the store and collects them in a batch;
 * the log thread runs the batch and returns completions, which the core passes to the protocol as
 * PERSISTED events. A batch owns all that it points to, so it can move between threads. The server
 * and the simulator share this code, because the order on disk is part of the protocol.
 */
#ifndef SERVER_PERSIST_H
#define SERVER_PERSIST_H

#include "base/list.h"
#include "storage/store.h"
#include "zab/zab.h"

/* One operation with the memory it points to. */
struct persist_item {
    struct store_op op;
    uint64_t token;
    struct logrec *rec;              /* APPEND: a reference. */
    struct store_identity *identity; /* IDENTITY: heap. */
    char *reason;                    /* QUARANTINE: heap. */
    uint8_t *bytes;                  /* SNAP_CHUNK: heap. */
};

/* A FIFO of operations, owned by the thread that holds it. */
struct persist_batch {
    struct list node; /* Links the batch in a mailbox. */
    struct persist_item *items;
    size_t count;
    size_t cap;
};

/* Completions of durable operations. A completion also covers all earlier operations. So there is
 * one completion for each operation that has a result, and one for the last durable operation. */
struct persist_dones {
    struct zab_ev_persisted *items;
    size_t count;
    size_t cap;
};

/* Sets the configuration that the identity carries. */
void persist_genesis(struct store_identity *identity, const struct zab_config *config);

void persist_batch_init(struct persist_batch *batch);
void persist_batch_release(struct persist_batch *batch);

/* Adds the operation for a change of the disk; takes the record's reference. `identity` is the
 * store's identity after all earlier operations; JOIN changes it. */
void persist_add(struct persist_batch *batch, const struct zab_persist *change,
                 struct store_identity *identity);

/* Moves all of `from` to the end of `into`. */
void persist_merge(struct persist_batch *into, struct persist_batch *from);

/* Runs the batch; durable operations leave it, and their completions are appended to `dones`.
 * ERR_NO_SPACE, ERR_NO_FILES: the other operations stay in the batch; run the batch again later.
 * Any other error: end the process at once. */
enum err persist_run(struct persist_batch *batch, struct store *store, struct persist_dones *dones);

void persist_dones_release(struct persist_dones *dones);

#endif
