/*
 * A replica's directory, made by disk_script, is opened, read and written. Inspection changes
 * nothing; each record continues the previous one; damage is reported and left as it is; an
 * accepted log can be appended to, and the record exists the next time.
 */
#include "base/mem.h"
#include "storage/names.h"
#include "storage/slots.h"
#include "storage/store_int.h"
#include "tests/fuzz/disk_script.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/store_kit.h"

enum {
    RECS_AT_ONCE = 7,
    RECS_ALL_MAX = 100000,
    SNAPS_MAX = 100,
    SEGMENT_BYTES = 16 * 1024
};

static struct store_options options_for(struct vfs_mem *disk)
{
    return (struct store_options){.vfs = vfs_mem_vfs(disk),
                                  .segment_bytes = SEGMENT_BYTES,
                                  .snapshots_keep = 2,
                                  .salt_seed = 1,
                                  .record_bytes_max = KIT_RECORD_MAX};
}

static bool has_log(const struct store_report *report)
{
    return report->has_identity && report->verdict != STORE_DAMAGED;
}

static void check_report(const struct store_report *report)
{
    ASSERT(memchr(report->reason, 0, sizeof(report->reason)));
    ASSERT(report->verdict != STORE_DAMAGED || report->reason[0] != '\0');
    ASSERT(!report->is_lost || report->verdict == STORE_DAMAGED);
    ASSERT(report->verdict != STORE_EMPTY || !report->has_identity);
    if (has_log(report)) {
        ASSERT(report->log_base <= report->log_last && report->identity.incarnation != 0);
        ASSERT(report->torn_bytes == 0 || report->verdict == STORE_TORN_TAIL);
    }
    if (report->has_snapshot) {
        ASSERT(report->log_base <= report->snap_start && report->snap_start <= report->snap_end);
        ASSERT(report->snap_end <= report->log_last && report->snap_end <= report->committed);
    }
}

static bool is_same_report(const struct store_report *a, const struct store_report *b)
{
    return a->verdict == b->verdict && a->quarantined == b->quarantined &&
           a->promised_epoch == b->promised_epoch && a->has_snapshot == b->has_snapshot &&
           a->snap_start == b->snap_start && a->log_base == b->log_base &&
           a->log_last == b->log_last && a->log_chain == b->log_chain &&
           a->committed == b->committed && a->torn_bytes == b->torn_bytes &&
           strcmp(a->reason, b->reason) == 0;
}

static uint64_t epochs_total(struct store *store)
{
    size_t count = 0;
    struct epoch_range *ranges = store_epochs(store, &count);
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        ASSERT(ranges[i].first <= ranges[i].last);
        ASSERT(i == 0 || ranges[i - 1].epoch < ranges[i].epoch);
        total += (uint64_t)ranges[i].last - ranges[i].first + 1;
    }
    mem_free(ranges);
    return total;
}

/* Each record follows the one before it, from the log's base to its last. */
static void check_log(struct store *store, const struct store_report *report)
{
    struct logrec *recs[RECS_AT_ONCE];
    size_t count = 1;
    size_t total = 0;
    zxid_t last = report->log_base;
    uint64_t chain = 0;

    while (count > 0) {
        enum err err = store_read(store, last, 1000, RECS_AT_ONCE, recs, &count);

        ASSERT(err == ERR_OK);
        for (size_t i = 0; i < count; i++) {
            const struct logrec *rec = recs[i];

            ASSERT(rec->prev == last && rec->zxid > last && rec->len <= KIT_RECORD_MAX);
            ASSERT(total == 0 || rec->chain == logrec_chain(chain, rec->type, rec->zxid, rec->prev,
                                                            logrec_payload(rec)));
            last = rec->zxid;
            chain = rec->chain;
            total++;
            logrec_unref(recs[i]);
        }
        ASSERT(total < RECS_ALL_MAX);
    }
    ASSERT(last == report->log_last && (total == 0 || chain == report->log_chain));
    ASSERT(epochs_total(store) >= total);
}

static void check_snapshot(struct store *store, const struct store_report *report)
{
    struct store_snap_reader *reader = NULL;
    struct store_snap_info info;
    struct slice block;
    enum err err = store_snap_open(store, &reader, &info);

    if (err != ERR_OK) {
        ASSERT(err == ERR_CORRUPT || !report->has_snapshot);
        return;
    }
    ASSERT(info.start == report->snap_start && info.end == report->snap_end);
    ASSERT(store_snap_config(reader).len <= SNAPFILE_CONFIG_MAX);
    while ((err = store_snap_next(reader, &block)) == ERR_OK) {
        ASSERT(block.len > 0 && block.len <= info.file_bytes);
    }
    ASSERT(err == ERR_MISSING || err == ERR_CORRUPT);
    store_snap_close(reader);
}

/* From the newest to the last one. */
static void check_snapshots(struct store *store, struct store_report *report)
{
    for (int i = 0; i < SNAPS_MAX && report->has_snapshot; i++) {
        zxid_t before = report->snap_start;

        check_snapshot(store, report);

        enum err err = store_snap_discard(store, report);

        ASSERT(err == ERR_OK || (err == ERR_MISSING && report->log_base > 0));
        ASSERT(!report->has_snapshot || report->snap_start < before);
    }
    ASSERT(!report->has_snapshot);
}

/* Inspects without any change; false when the directory cannot be opened. */
static bool look(struct vfs_mem *disk, struct store_report *report)
{
    struct store_options options = options_for(disk);
    struct store *store = NULL;
    struct store_report changed;
    uint64_t before = disk_hash(disk);
    enum err err = store_open(&options, true, &store, report);

    if (err == ERR_OK) {
        check_report(report);
        changed = *report;
        if (has_log(report)) {
            check_log(store, report);
            check_snapshots(store, &changed);
        }
        store_close(store, true);
    }
    ASSERT(disk_hash(disk) == before);
    return err == ERR_OK;
}

static void run_op(struct store *store, struct store_op *op)
{
    struct store_op *ops[1] = {op};
    size_t done = 0;
    enum err err = store_run(store, ops, 1, &done);

    ASSERT(err == ERR_OK && done == 1 && op->ret_err == ERR_OK);
}

/* One more record; `inout_report` follows. */
static void append_one(struct store *store, struct slice payload, struct store_report *inout_report)
{
    struct logrec *rec = logrec_new(LOGREC_TXN, inout_report->log_last + 1, inout_report->log_last,
                                    inout_report->log_chain, payload);
    struct store_op op = {.type = STORE_APPEND, .recs = &rec, .rec_count = 1};

    run_op(store, &op);
    inout_report->log_last = rec->zxid;
    inout_report->log_chain = rec->chain;
    logrec_unref(rec);
}

/* A record, one that needs a new segment, and back to the first. */
static void write_some(struct store *store, struct store_report *inout_report)
{
    static const uint8_t large[SEGMENT_BYTES + 1];
    struct store_report ahead;
    struct store_op cut = {.type = STORE_TRUNCATE};

    append_one(store, slice_str("one more"), inout_report);
    ahead = *inout_report;
    append_one(store, slice_make(large, sizeof(large)), &ahead);
    append_one(store, slice_make(large, sizeof(large)), &ahead);
    cut.zxid = inout_report->log_last;
    run_op(store, &cut);
    ASSERT(cut.ret_last == inout_report->log_last && cut.ret_chain == inout_report->log_chain);
}

/* Opens for writing after an inspection that gave `seen`. */
static void use(struct vfs_mem *disk, const struct store_report *seen)
{
    struct store_options options = options_for(disk);
    struct store *store = NULL;
    struct store_report report;
    struct store_report expected = *seen;
    uint64_t before = disk_hash(disk);
    enum err err = store_open(&options, false, &store, &report);

    ASSERT(err == ERR_OK && is_same_report(&report, seen));
    if (!has_log(&report)) {
        ASSERT(report.verdict != STORE_DAMAGED || disk_hash(disk) == before);
        store_close(store, true);
        return;
    }
    check_log(store, &report);
    if (zxid_counter(report.log_last) < UINT32_MAX - 3) {
        write_some(store, &expected);
    }
    store_close(store, true);
    err = store_open(&options, false, &store, &report);
    ASSERT(err == ERR_OK && report.verdict == STORE_CLEAN && !report.one_slot_bad);
    ASSERT(report.log_last == expected.log_last && report.log_chain == expected.log_chain);
    check_log(store, &report);
    store_close(store, false);
}

static bool fuzz_one(struct slice input)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct wire_reader reader;
    struct store_report report;

    wire_reader_init(&reader, input);
    disk_script_run(disk, &reader);

    bool is_open = look(disk, &report);

    if (is_open) {
        use(disk, &report);
    }
    vfs_mem_free(disk);
    return is_open && has_log(&report);
}

/* ---- Seeds. ---- */

static void put_slots(struct buf *out, unsigned which, struct buf *payload)
{
    wire_put_u8(out, DISK_SLOTS);
    wire_put_u8(out, (uint8_t)which);
    fuzz_put(out, buf_slice(payload));
    buf_clear(payload);
}

static void put_small_records(struct buf *out, const struct manifest *manifest)
{
    struct store_identity identity = skit_identity();
    struct buf payload;

    buf_init(&payload, SLOTS_PAYLOAD_MAX);
    identity_encode(&identity, &payload);
    put_slots(out, 0, &payload);
    wire_put_u32(&payload, 2);
    wire_put_u32(&payload, 1);
    put_slots(out, 1, &payload);
    wire_put_u8(&payload, 0);
    wire_put_bytes(&payload, slice_make(NULL, 0));
    put_slots(out, 2, &payload);
    manifest_encode(manifest, &payload);
    put_slots(out, 3, &payload);
    buf_release(&payload);
}

static void put_segment(struct buf *out)
{
    wire_put_u8(out, DISK_SEGMENT);
    wire_put_u8(out, 0);
    wire_put_u8(out, 3);
}

/* `flags` without fields of their own. */
static void put_batch(struct buf *out, uint8_t flags, uint8_t count, bool new_epoch)
{
    wire_put_u8(out, DISK_BATCH);
    wire_put_u8(out, flags);
    if (flags & DISK_BATCH_TORN) {
        wire_put_u8(out, 4);
    }
    wire_put_u8(out, (uint8_t)(count - 1));
    for (uint8_t i = 0; i < count; i++) {
        wire_put_u8(out, i == 0 && new_epoch ? DISK_RECORD_EPOCH : 0);
        fuzz_put(out, slice_str("payload"));
    }
}

static void put_snap(struct buf *out, uint8_t start, uint8_t end)
{
    wire_put_u8(out, DISK_SNAP);
    wire_put_u8(out, 0);
    wire_put_u8(out, start);
    wire_put_u8(out, end);
    fuzz_put(out, slice_str("config"));
    fuzz_put(out, slice_str("block"));
    fuzz_put(out, slice_make(NULL, 0));
}

/* Every field is given, with its natural value. */
static void seed_explicit(struct fuzz_sink *sink, struct buf *out)
{
    const struct manifest four = {.history = 1, .first = 4, .top = 4};

    buf_clear(out);
    put_small_records(out, &four);
    wire_put_u8(out, DISK_SEGMENT);
    wire_put_u8(out, DISK_SEGMENT_PLACE | DISK_SEGMENT_RECORD | DISK_SEGMENT_NUMBER |
                         DISK_SEGMENT_BATCH | DISK_SEGMENT_OWNER | DISK_SEGMENT_BYTES);
    wire_put_u8(out, 3);
    wire_put_u64(out, 0); /* prev_number, prev_offset */
    wire_put_u64(out, 0);
    wire_put_u64(out, 0); /* prev_zxid, prev_chain */
    wire_put_u64(out, 0);
    wire_put_u64(out, 4); /* number, history */
    wire_put_u8(out, 1);
    wire_put_u64(out, 1); /* batch_first, committed */
    wire_put_u64(out, 0);
    wire_put_u32(out, 3); /* owner */
    wire_put_u64(out, 77);
    wire_put_u64(out, UINT64_C(4) * VFS_BLOCK);
    wire_put_u8(out, DISK_BATCH);
    wire_put_u8(out, DISK_BATCH_CHAIN | DISK_BATCH_COMMIT | DISK_BATCH_COUNT | DISK_BATCH_NUMBER);
    wire_put_u64(out, 0); /* durable_upto, chain */
    wire_put_u64(out, 0);
    wire_put_u64(out, 5); /* committed */
    wire_put_u32(out, 1); /* count */
    wire_put_u64(out, 1); /* number, offset */
    wire_put_u8(out, 0);
    wire_put_u8(out, 0); /* One record. */
    wire_put_u8(out, DISK_RECORD_ZXID | DISK_RECORD_TYPE);
    wire_put_u64(out, 5); /* zxid, prev */
    wire_put_u64(out, 0);
    wire_put_u8(out, LOGREC_TXN);
    fuzz_put(out, slice_str("payload"));
    fuzz_seed(sink, "explicit", buf_slice(out));
}

static void seed_scripts(struct fuzz_sink *sink, struct buf *out)
{
    const struct manifest one = {.history = 1, .first = 1, .top = 1};
    const struct manifest two = {.history = 1, .first = 1, .top = 2};

    put_small_records(out, &one);
    put_segment(out);
    fuzz_seed(sink, "formatted", buf_slice(out));
    put_batch(out, 0, 3, true);
    put_batch(out, 0, 2, false);
    fuzz_seed(sink, "two-batches", buf_slice(out));
    put_batch(out, DISK_BATCH_TORN, 1, false);
    fuzz_seed(sink, "torn-tail", buf_slice(out));

    buf_clear(out);
    put_small_records(out, &two);
    put_segment(out);
    put_batch(out, 0, 3, true);
    put_segment(out);
    put_batch(out, 0, 2, true);
    put_snap(out, 1, 4);
    put_snap(out, 2, 5);
    fuzz_seed(sink, "two-segments-and-snapshots", buf_slice(out));

    seed_explicit(sink, out);
    buf_clear(out);
    put_small_records(out, &one);
    wire_put_u8(out, DISK_BASE);
    wire_put_u64(out, zxid_make(3, 9));
    wire_put_u64(out, 99);
    put_segment(out);
    put_batch(out, 0, 2, false);
    put_snap(out, 0, 1);
    fuzz_seed(sink, "from-a-base", buf_slice(out));
}

struct raw {
    const struct vfs_mem *disk;
    struct buf *out;
};

static void put_raw(void *arg, const char *name)
{
    const struct raw *raw = arg;

    wire_put_u8(raw->out, DISK_RAW);
    fuzz_put(raw->out, slice_str(name));
    disk_write_file(raw->disk, name, raw->out);
}

static void need(enum err err)
{
    ASSERT(err == ERR_OK);
}

/* The directory of a store that was used, byte by byte. */
static void seed_raw(struct fuzz_sink *sink, struct buf *out)
{
    struct skit kit;
    struct raw raw = {.out = out};

    skit_init(&kit, SEGMENT_BYTES);
    need(skit_open(&kit));
    need(skit_format(&kit));
    need(skit_append(&kit, 1, 3, 40));
    need(skit_append(&kit, 1, 2, 30));
    need(skit_snapshot(&kit, 1, 4));
    need(skit_truncate(&kit, 4));
    need(skit_append(&kit, 2, 2, 20));
    skit_close(&kit, false);
    raw.disk = kit.disk;
    buf_clear(out);
    vfs_mem_each(kit.disk, put_raw, &raw);
    fuzz_seed(sink, "lived", buf_slice(out));
    skit_release(&kit);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    struct buf out;

    buf_init(&out, FUZZ_INPUT_MAX);
    seed_scripts(sink, &out);
    seed_raw(sink, &out);
    ASSERT(!out.overflow);
    buf_release(&out);
}

FUZZ_TARGET(wal_recover)
