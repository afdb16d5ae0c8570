#include "tests/lib/store_kit.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "storage/snapfile.h"

#include <string.h>

enum {
    BLOCK_BYTES = 700
};

void skit_init(struct skit *kit, uint64_t segment_bytes)
{
    *kit = (struct skit){0};
    kit->disk = vfs_mem_new(0);
    kit->options = (struct store_options){
        .vfs = vfs_mem_vfs(kit->disk),
        .segment_bytes = segment_bytes,
        .snapshots_keep = 2,
        .salt_seed = 1,
        .record_bytes_max = KIT_RECORD_MAX,
    };
}

void skit_release(struct skit *kit)
{
    if (kit->store) {
        skit_close(kit, false);
    }
    skit_log_cut(&kit->log, 0);
    vfs_mem_free(kit->disk);
}

enum err skit_open(struct skit *kit)
{
    enum err err = ERR_OK;

    ASSERT(!kit->store);
    do {
        err = store_open(&kit->options, false, &kit->store, &kit->report);
    } while (err == ERR_NO_FILES && kit->retries_no_files);
    return err;
}

void skit_close(struct skit *kit, bool clean)
{
    store_close(kit->store, clean);
    kit->store = NULL;
}

struct store_identity skit_identity(void)
{
    struct store_identity identity = {
        .member_id = 3, .incarnation = 77, .bootstrapping = true, .genesis_len = 5};

    memcpy(identity.genesis, "three", 5);
    return identity;
}

bool skit_is_again(const struct skit *kit, enum err err)
{
    return (err == ERR_NO_SPACE && kit->retries_no_space) ||
           (err == ERR_NO_FILES && kit->retries_no_files);
}

enum err skit_run(struct skit *kit, struct store_op *op)
{
    struct store_op *ops[1] = {op};
    size_t done = 0;
    enum err err = store_run(kit->store, ops, 1, &done);

    while (skit_is_again(kit, err)) {
        ASSERT(done == 0);
        err = store_run(kit->store, ops, 1, &done);
    }
    ASSERT((err == ERR_OK) == (done == 1));
    return err;
}

enum err skit_format(struct skit *kit)
{
    struct store_identity identity = skit_identity();
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};

    return skit_run(kit, &op);
}

zxid_t skit_zxid(const struct skit_log *log, size_t count)
{
    ASSERT(count <= log->count);
    return count ? log->recs[count - 1]->zxid : log->base;
}

uint64_t skit_chain(const struct skit_log *log, size_t count)
{
    ASSERT(count <= log->count);
    return count ? log->recs[count - 1]->chain : log->base_chain;
}

void skit_log_cut(struct skit_log *log, size_t count)
{
    while (log->count > count) {
        logrec_unref(log->recs[--log->count]);
    }
}

void skit_log_restart(struct skit_log *log, zxid_t base, uint64_t chain)
{
    skit_log_cut(log, 0);
    log->base = base;
    log->base_chain = chain;
}

/* Bytes that follow from `seed`, none of them zero. */
static void draw_bytes(uint8_t *bytes, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
        uint64_t word = hash64_mix(seed, i) | UINT64_C(0x0101010101010101);

        memcpy(bytes + i, &word, min_size(len - i, sizeof(word)));
    }
}

/* Payloads differ by zxid and epoch and contain whole zero sectors, so that a zero sector must not
 * pass for one that was not written. */
static struct logrec *make_one(const struct skit_log *log, uint32_t epoch, size_t len)
{
    zxid_t prev = skit_zxid(log, log->count);
    uint32_t counter = zxid_epoch(prev) == epoch ? zxid_counter(prev) + 1 : 0;
    zxid_t zxid = zxid_make(epoch, counter);
    uint8_t *bytes = mem_zalloc(len + 1, 1);

    for (size_t i = 0; i < len; i += 2048) {
        draw_bytes(bytes + i, min_size(len - i, 1024), hash64_mix(zxid, i));
    }

    struct logrec *rec = logrec_new(counter == 0 ? LOGREC_EPOCH : LOGREC_TXN, zxid, prev,
                                    skit_chain(log, log->count), slice_make(bytes, len));

    mem_free(bytes);
    return rec;
}

void skit_make(struct skit *kit, uint32_t epoch, size_t count, size_t len)
{
    ASSERT(kit->log.count + count <= KIT_RECS_MAX);
    for (size_t i = 0; i < count; i++) {
        kit->log.recs[kit->log.count] = make_one(&kit->log, epoch, len);
        kit->log.count++;
    }
}

enum err skit_append(struct skit *kit, uint32_t epoch, size_t count, size_t len)
{
    size_t first = kit->log.count;
    zxid_t committed = skit_zxid(&kit->log, first);

    skit_make(kit, epoch, count, len);

    struct store_op op = {.type = STORE_APPEND,
                          .recs = kit->log.recs + first,
                          .rec_count = count,
                          .committed = committed};

    return skit_run(kit, &op);
}

enum err skit_truncate(struct skit *kit, size_t keep)
{
    struct store_op op = {.type = STORE_TRUNCATE, .zxid = skit_zxid(&kit->log, keep)};
    enum err err = skit_run(kit, &op);

    if (err == ERR_OK) {
        skit_log_cut(&kit->log, keep);
        ASSERT(op.ret_last == skit_zxid(&kit->log, keep));
        ASSERT(op.ret_chain == skit_chain(&kit->log, keep));
    }
    return err;
}

static void block_fill(uint8_t block[BLOCK_BYTES], zxid_t start, size_t index)
{
    draw_bytes(block, BLOCK_BYTES, start + index);
}

enum err skit_snapshot(struct skit *kit, size_t start, size_t end)
{
    struct store_snap_writer *writer = NULL;
    uint8_t block[BLOCK_BYTES];
    zxid_t from = skit_zxid(&kit->log, start);
    enum err err = store_snap_begin(kit->store, from, skit_chain(&kit->log, start),
                                    slice_str("config"), &writer);

    for (size_t i = 0; err == ERR_OK && i < 3; i++) {
        block_fill(block, from, i);
        err = store_snap_block(writer, slice_make(block, sizeof(block)));
        if (err != ERR_OK) {
            store_snap_abort(writer);
            return err;
        }
    }
    if (err != ERR_OK) {
        return err;
    }
    return store_snap_finish(writer, skit_zxid(&kit->log, end), from ^ 5U, 3);
}

uint8_t *skit_foreign_snapshot(const struct skit_log *log, size_t start, size_t end, size_t blocks,
                               size_t *ret_len)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct snapfile_writer writer;
    uint8_t block[BLOCK_BYTES];
    uint64_t size = 0;
    zxid_t from = skit_zxid(log, start);
    struct snapfile_info info = {
        .shown = {.start = from,
                  .start_chain = skit_chain(log, start),
                  .end = skit_zxid(log, end),
                  .digest = from ^ 5U,
                  .node_count = 3},
        .end_chain = skit_chain(log, end),
    };
    enum err err = snapfile_create(&writer, &vfs, "s", KIT_RECORD_MAX);

    ASSERT(err == ERR_OK);
    err = snapfile_put_head(&writer, &info, slice_str("config"));
    for (size_t i = 0; err == ERR_OK && i < blocks; i++) {
        block_fill(block, from, i);
        err = snapfile_put_block(&writer, slice_make(block, sizeof(block)));
    }
    ASSERT(err == ERR_OK);
    err = snapfile_put_trailer(&writer, &info);
    ASSERT(err == ERR_OK);
    snapfile_writer_close(&writer);
    (void)vfs_mem_size(disk, "s", &size);

    uint8_t *bytes = mem_alloc((size_t)size);

    (void)vfs_mem_read(disk, "s", 0, bytes, (size_t)size);
    vfs_mem_free(disk);
    *ret_len = (size_t)size;
    return bytes;
}

/* The model's index of the record after `zxid`; KIT_RECS_MAX when the model does not know it. */
static size_t index_after(const struct skit_log *log, zxid_t zxid)
{
    for (size_t i = 0; i <= log->count; i++) {
        if (skit_zxid(log, i) == zxid) {
            return i;
        }
    }
    return KIT_RECS_MAX;
}

static bool is_same(const struct logrec *a, const struct logrec *b)
{
    return a->zxid == b->zxid && a->prev == b->prev && a->chain == b->chain && a->type == b->type &&
           slice_eq(logrec_payload(a), logrec_payload(b));
}

long skit_match_log(struct skit *kit, const struct skit_log *log)
{
    zxid_t at = kit->report.log_base;
    size_t index = index_after(log, at);
    struct logrec *recs[7];
    size_t count = 1;
    bool is_good = index < KIT_RECS_MAX;

    while (is_good && count > 0) {
        is_good = store_read(kit->store, at, 3000, 7, recs, &count) == ERR_OK;
        for (size_t i = 0; i < count; i++) {
            is_good = is_good && index < log->count && is_same(log->recs[index], recs[i]);
            at = recs[i]->zxid;
            index++;
            logrec_unref(recs[i]);
        }
    }
    return is_good ? (long)index : -1;
}

long skit_check_log(struct skit *kit)
{
    return skit_match_log(kit, &kit->log);
}

enum err skit_receive(struct skit *kit, size_t start, size_t end, size_t upto,
                      struct store_op *inout_last)
{
    size_t len = 0;
    uint8_t *bytes = skit_foreign_snapshot(&kit->log, start, end, 3, &len);
    struct store_op begin = {.type = STORE_SNAP_BEGIN};
    struct store_op append = {
        .type = STORE_APPEND, .recs = kit->log.recs + start, .rec_count = upto - start};
    enum err err = skit_run(kit, &begin);

    for (size_t at = 0; err == ERR_OK && at < len; at += 1000) {
        struct store_op chunk = {.type = STORE_SNAP_CHUNK,
                                 .snap_offset = at,
                                 .snap_bytes =
                                     slice_make(bytes + at, len - at < 1000 ? len - at : 1000)};

        err = skit_run(kit, &chunk);
    }
    mem_free(bytes);
    if (err == ERR_OK) {
        err = skit_run(kit, &append);
    }
    return err == ERR_OK ? skit_run(kit, inout_last) : err;
}

bool skit_check_snapshot(struct skit *kit)
{
    struct store_snap_reader *reader = NULL;
    struct store_snap_info info;
    struct slice block;
    uint8_t expected[BLOCK_BYTES];
    size_t blocks = 0;

    if (store_snap_open(kit->store, &reader, &info) != ERR_OK) {
        return false;
    }

    bool is_good = slice_eq(store_snap_config(reader), slice_str("config")) &&
                   info.digest == (info.start ^ 5U);
    enum err err = ERR_OK;

    while (is_good && (err = store_snap_next(reader, &block)) == ERR_OK) {
        block_fill(expected, info.start, blocks);
        is_good = slice_eq(block, slice_make(expected, sizeof(expected)));
        blocks++;
    }
    store_snap_close(reader);
    return is_good && err == ERR_MISSING && blocks > 0;
}
