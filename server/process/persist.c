#include "server/process/persist.h"

#include "base/check.h"
#include "base/mem.h"

enum {
    OPS_PER_RUN = 1024 /* Operations given to the store at a time. */
};

static const enum store_op_type op_types[] = {
    [ZAB_PERSIST_APPEND] = STORE_APPEND,         [ZAB_PERSIST_TRUNCATE] = STORE_TRUNCATE,
    [ZAB_PERSIST_PROMISE] = STORE_PROMISE,       [ZAB_PERSIST_JOIN] = STORE_IDENTITY,
    [ZAB_PERSIST_QUARANTINE] = STORE_QUARANTINE, [ZAB_PERSIST_RELEASE] = STORE_RELEASE,
    [ZAB_PERSIST_RESET] = STORE_RESET,           [ZAB_PERSIST_SNAP_BEGIN] = STORE_SNAP_BEGIN,
    [ZAB_PERSIST_SNAP_CHUNK] = STORE_SNAP_CHUNK, [ZAB_PERSIST_SNAP_INSTALL] = STORE_SNAP_INSTALL,
    [ZAB_PERSIST_SNAP_ABORT] = STORE_SNAP_ABORT,
};

void persist_batch_init(struct persist_batch *batch)
{
    *batch = (struct persist_batch){0};
    list_init(&batch->node);
}

static void item_release(struct persist_item *item)
{
    if (item->rec) {
        logrec_unref(item->rec);
    }
    mem_free(item->identity);
    mem_free(item->reason);
    mem_free(item->bytes);
}

void persist_batch_release(struct persist_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        item_release(&batch->items[i]);
    }
    mem_free(batch->items);
    persist_batch_init(batch);
}

void persist_genesis(struct store_identity *identity, const struct zab_config *config)
{
    struct zab_config first = *config;
    struct buf bytes;

    /* The slot has no room for texts, nor for the list of removed disks. */
    first.removed_count = 0;
    buf_init(&bytes, STORE_GENESIS_MAX);
    zab_config_encode(&first, &bytes);
    ASSERT(!bytes.overflow);
    identity->genesis_len = (uint32_t)bytes.len;
    memcpy(identity->genesis, bytes.data, bytes.len);
    buf_release(&bytes);
}

/* Makes a new disk a member: from now on its identity names the cluster. */
static void join(struct persist_item *item, const struct zab_config *config,
                 struct store_identity *identity)
{
    memcpy(identity->cluster, config->cluster, STORE_CLUSTER_LEN);
    identity->bootstrapping = false;
    persist_genesis(identity, config);
    item->identity = mem_dup(identity, sizeof(*identity));
}

static void translate(struct persist_item *item, const struct zab_persist *change,
                      struct store_identity *identity)
{
    item->op.type = op_types[change->type];
    switch (change->type) {
    case ZAB_PERSIST_APPEND:
        item->op.committed = change->append.committed;
        item->rec = change->append.rec;
        break;
    case ZAB_PERSIST_TRUNCATE:
        item->op.zxid = change->truncate.zxid;
        break;
    case ZAB_PERSIST_PROMISE:
        item->op.epoch = change->promise.epoch;
        item->op.leader = change->promise.leader;
        break;
    case ZAB_PERSIST_JOIN:
        join(item, change->join.config, identity);
        break;
    case ZAB_PERSIST_QUARANTINE:
        item->reason = mem_strdup(change->quarantine.reason);
        break;
    case ZAB_PERSIST_SNAP_CHUNK:
        item->op.snap_offset = change->snap_chunk.offset;
        item->bytes = mem_dup(change->snap_chunk.bytes.data, change->snap_chunk.bytes.len);
        item->op.snap_bytes = slice_make(item->bytes, change->snap_chunk.bytes.len);
        break;
    case ZAB_PERSIST_RELEASE:
    case ZAB_PERSIST_RESET:
    case ZAB_PERSIST_SNAP_BEGIN:
    case ZAB_PERSIST_SNAP_INSTALL:
    case ZAB_PERSIST_SNAP_ABORT:
        break;
    }
}

void persist_add(struct persist_batch *batch, const struct zab_persist *change,
                 struct store_identity *identity)
{
    ASSERT(batch->count == 0 || batch->items[batch->count - 1].token < change->token);

    MEM_GROW(batch->items, batch->count, batch->cap, MEM_ITEMS_MAX);

    struct persist_item *item = &batch->items[batch->count++];

    *item = (struct persist_item){.token = change->token};
    translate(item, change, identity);
}

void persist_merge(struct persist_batch *into, struct persist_batch *from)
{
    for (size_t i = 0; i < from->count; i++) {
        MEM_GROW(into->items, into->count, into->cap, MEM_ITEMS_MAX);
        into->items[into->count++] = from->items[i];
    }
    from->count = 0;
}

static void push_done(struct persist_dones *dones, const struct persist_item *item)
{
    MEM_GROW(dones->items, dones->count, dones->cap, MEM_ITEMS_MAX);
    dones->items[dones->count++] = (struct zab_ev_persisted){.token = item->token,
                                                             .err = item->op.ret_err,
                                                             .last = item->op.ret_last,
                                                             .last_chain = item->op.ret_chain};
}

/* Adds the completions of the first `done` items and drops these items. */
static void finish(struct persist_batch *batch, size_t done, struct persist_dones *dones)
{
    ASSERT(done <= batch->count);

    for (size_t i = 0; i < done; i++) {
        struct persist_item *item = &batch->items[i];
        enum store_op_type type = item->op.type;

        if (i + 1 == done || type == STORE_TRUNCATE || type == STORE_RESET ||
            type == STORE_SNAP_INSTALL) {
            push_done(dones, item);
        }
        item_release(item);
    }
    batch->count -= done;
    memmove(batch->items, batch->items + done, batch->count * sizeof(*batch->items));
}

/* Points the operation at the memory of its item, which may have moved since it was added. */
static struct store_op *prepare(struct persist_item *item)
{
    item->op.recs = item->rec ? &item->rec : NULL;
    item->op.rec_count = item->rec ? 1 : 0;
    item->op.identity = item->identity;
    item->op.reason = item->reason;
    return &item->op;
}

enum err persist_run(struct persist_batch *batch, struct store *store, struct persist_dones *dones)
{
    enum err err = ERR_OK;

    while (batch->count > 0 && err == ERR_OK) {
        struct store_op *ops[OPS_PER_RUN];
        size_t count = min_size(batch->count, OPS_PER_RUN);
        size_t done = 0;

        for (size_t i = 0; i < count; i++) {
            ops[i] = prepare(&batch->items[i]);
        }
        err = store_run(store, ops, count, &done);
        finish(batch, done, dones);
        ASSERT(err != ERR_OK || done == count);
    }
    return err;
}

void persist_dones_release(struct persist_dones *dones)
{
    mem_free(dones->items);
    *dones = (struct persist_dones){0};
}
