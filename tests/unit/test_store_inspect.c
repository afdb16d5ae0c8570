#include "storage/inspect.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

#include <string.h>

struct counts {
    unsigned slots;
    unsigned bad_slots;
    unsigned segments;
    unsigned batches;
    unsigned faults;
    unsigned records;
    unsigned snapshots;
    unsigned bad_snapshots;
    unsigned others;
    uint64_t history;
};

static void on_manifest(void *arg, const struct manifest *manifest)
{
    ((struct counts *)arg)->history = manifest->history;
}

static void on_slot(void *arg, const struct inspect_slot *slot)
{
    struct counts *counts = arg;

    counts->slots++;
    counts->bad_slots += !slot->is_valid;
}

static void on_segment(void *arg, const struct inspect_segment *segment)
{
    struct counts *counts = arg;

    counts->segments++;
    assert_true(segment->is_valid);
    assert_true(segment->is_ours);
}

static void on_batch(void *arg, const struct inspect_segment *segment,
                     const struct inspect_batch *batch)
{
    struct counts *counts = arg;

    assert_true(batch->offset + batch->bytes <= segment->size);
    counts->batches++;
    counts->faults += batch->fault != NULL;
}

static void on_record(void *arg, const struct inspect_batch *batch,
                      const struct walfmt_record *record)
{
    struct counts *counts = arg;

    assert_true(record->zxid > batch->head.durable_upto);
    counts->records++;
}

static void on_snapshot(void *arg, const struct inspect_snapshot *snapshot)
{
    struct counts *counts = arg;

    counts->snapshots++;
    counts->bad_snapshots += !snapshot->is_valid;
}

static void on_other(void *arg, const char *file)
{
    assert_int_equal(strncmp(file, "next-", 5), 0);
    ((struct counts *)arg)->others++;
}

static struct counts look(const struct skit *kit)
{
    struct counts counts = {0};
    const struct inspect_visitor visitor = {
        .arg = &counts,
        .manifest = on_manifest,
        .slot = on_slot,
        .segment = on_segment,
        .batch = on_batch,
        .record = on_record,
        .snapshot = on_snapshot,
        .other = on_other,
    };

    assert_int_equal(inspect_dir(&kit->options, &visitor), ERR_OK);
    return counts;
}

TEST(an_inspection_shows_everything, skit, no_set_up, skit_release)
{
    struct counts counts;

    skit_init(skit, UINT64_C(4) * VFS_BLOCK);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit_format(skit), ERR_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(skit_append(skit, 1, 2, 100), ERR_OK);
    }
    assert_int_equal(skit_snapshot(skit, 3, 4), ERR_OK);
    assert_int_equal(store_preallocate(skit->store), ERR_OK);
    counts = look(skit);
    assert_int_equal(counts.slots, 8);
    assert_int_equal(counts.bad_slots, 0);
    assert_int_equal(counts.segments, 2);
    assert_int_equal(counts.batches, 5);
    assert_int_equal(counts.records, 10);
    assert_int_equal(counts.faults, 0);
    assert_int_equal(counts.snapshots, 1);
    assert_int_equal(counts.bad_snapshots, 0);
    assert_int_equal(counts.others, 1);
    assert_int_equal(counts.history, 1);
}

TEST(damage_is_shown_where_it_is, skit, no_set_up, skit_release)
{
    struct counts counts;

    skit_init(skit, UINT64_C(4) * VFS_BLOCK);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit_format(skit), ERR_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(skit_append(skit, 1, 2, 100), ERR_OK);
    }
    assert_int_equal(skit_snapshot(skit, 3, 4), ERR_OK);
    skit_close(skit, true);
    vfs_mem_flip(skit->disk, "promise", 20, 1);
    vfs_mem_flip(skit->disk, "snap-00000001-0000000100000002", 200, 1);
    vfs_mem_flip(skit->disk, "wal-00000001-0000000000000001", UINT64_C(2) * VFS_BLOCK + 70, 1);
    counts = look(skit);
    assert_int_equal(counts.bad_slots, 1);
    assert_int_equal(counts.bad_snapshots, 1);
    assert_int_equal(counts.faults, 1);
    assert_int_equal(counts.batches, 4);
    assert_int_equal(counts.records, 6);
}
