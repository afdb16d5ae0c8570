#include "server/process/persist.h"

#include "base/check.h"
#include "base/mem.h"

enum {
    ITEMS_MIN = 16,
    OPS_PER_RUN = 1024, /* Operations given to the store at a time. */
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

static void grow(struct persist_batch *batch, size_t count)
{
    if (count <= batch->cap) {
        return;
    }
    while (batch->cap < count) {
        batch->cap = batch->cap ? batch->cap * 2 : ITEMS_MIN;
    }
    batch->items = mem_realloc(batch->items, batch->cap * sizeof(*batch->items));
}

/* A new disk becomes a member: from now on its identity names the cluster. */
static void join(struct persist_item *item, const struct zab_config *config,
                 struct store_identity *identity)
{
    struct buf bytes;

    buf_init(&bytes, STORE_GENESIS_MAX);
    zab_config_encode(config, &bytes);
    ASSERT(!bytes.overflow);
    memcpy(identity->cluster, config->cluster, STORE_CLUSTER_LEN);
    identity->founding = false;
    identity->genesis_len = (uint32_t)bytes.len;
    memcpy(identity->genesis, bytes.data, bytes.len);
    buf_release(&bytes);
    item->op.type = STORE_IDENTITY;
    item->identity = mem_dup(identity, sizeof(*identity));
}

static void add_chunk(struct persist_item *item, uint64_t offset, struct slice bytes)
{
    item->op.type = STORE_SNAP_CHUNK;
    item->op.snap_offset = offset;
    item->bytes = mem_dup(bytes.data, bytes.len);
    item->op.snap_bytes = slice_make(item->bytes, bytes.len);
}

static void translate(struct persist_item *item, const struct zab_persist *change,
                      struct store_identity *identity)
{
    switch (change->type) {
    case ZAB_PERSIST_APPEND:
        item->op.type = STORE_APPEND;
        item->op.committed = change->append.committed;
        item->rec = change->append.rec;
        break;
    case ZAB_PERSIST_TRUNCATE:
        item->op.type = STORE_TRUNCATE;
        item->op.zxid = change->truncate.zxid;
        break;
    case ZAB_PERSIST_PROMISE:
        item->op.type = STORE_PROMISE;
        item->op.epoch = change->promise.epoch;
        item->op.leader = change->promise.leader;
        break;
    case ZAB_PERSIST_JOIN:
        join(item, change->join.config, identity);
        break;
    case ZAB_PERSIST_QUARANTINE:
        item->op.type = STORE_QUARANTINE;
        item->reason = mem_strdup(change->quarantine.reason);
        break;
    case ZAB_PERSIST_RELEASE:
        item->op.type = STORE_RELEASE;
        break;
    case ZAB_PERSIST_RESET:
        item->op.type = STORE_RESET;
        break;
    case ZAB_PERSIST_SNAP_BEGIN:
        item->op.type = STORE_SNAP_BEGIN;
        break;
    case ZAB_PERSIST_SNAP_CHUNK:
        add_chunk(item, change->snap_chunk.offset, change->snap_chunk.bytes);
        break;
    case ZAB_PERSIST_SNAP_INSTALL:
        item->op.type = STORE_SNAP_INSTALL;
        break;
    case ZAB_PERSIST_SNAP_ABORT:
        item->op.type = STORE_SNAP_ABORT;
        break;
    default:
        UNREACHABLE();
    }
}

void persist_add(struct persist_batch *batch, const struct zab_persist *change,
                 struct store_identity *identity)
{
    ASSERT(batch->count == 0 || batch->items[batch->count - 1].token < change->token);

    grow(batch, batch->count + 1);

    struct persist_item *item = &batch->items[batch->count++];

    *item = (struct persist_item){.token = change->token};
    translate(item, change, identity);
}

void persist_merge(struct persist_batch *into, struct persist_batch *from)
{
    grow(into, into->count + from->count);
    if (from->count > 0) {
        memcpy(&into->items[into->count], from->items, from->count * sizeof(*from->items));
    }
    into->count += from->count;
    from->count = 0;
}

static bool has_result(enum store_op_type type)
{
    return type == STORE_TRUNCATE || type == STORE_RESET || type == STORE_SNAP_INSTALL;
}

static void push_done(struct persist_dones *dones, const struct persist_item *item)
{
    if (dones->count == dones->cap) {
        dones->cap = dones->cap ? dones->cap * 2 : ITEMS_MIN;
        dones->items = mem_realloc(dones->items, dones->cap * sizeof(*dones->items));
    }
    dones->items[dones->count++] = (struct persist_done){.token = item->token,
                                                         .err = item->op.ret_err,
                                                         .last = item->op.ret_last,
                                                         .chain = item->op.ret_chain,
                                                         .snap_end = item->op.ret_snap_end};
}

/* Adds the completions of the first `done` items and drops these. */
static void finish(struct persist_batch *batch, size_t done, struct persist_dones *dones)
{
    ASSERT(done <= batch->count);

    for (size_t i = 0; i < done; i++) {
        if (i + 1 == done || has_result(batch->items[i].op.type)) {
            push_done(dones, &batch->items[i]);
        }
        item_release(&batch->items[i]);
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
        size_t count = batch->count < OPS_PER_RUN ? batch->count : OPS_PER_RUN;
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

void persist_event(const struct persist_done *done, uint64_t now_ms, struct zab_event *ret_event)
{
    *ret_event = (struct zab_event){
        .type = ZAB_EV_PERSISTED,
        .now_ms = now_ms,
        .persisted = {
            .token = done->token, .last = done->last, .last_chain = done->chain, .err = done->err}};
}
