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

static void everything_is_shown(void **state)
{
    struct skit kit;
    struct counts counts;

    (void)state;
    skit_init(&kit, UINT64_C(4) * VFS_BLOCK);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(skit_format(&kit), ERR_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(skit_append(&kit, 1, 2, 100), ERR_OK);
    }
    assert_int_equal(skit_snapshot(&kit, 3, 4), ERR_OK);
    assert_int_equal(store_preallocate(kit.store), ERR_OK);
    counts = look(&kit);
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
    skit_release(&kit);
}

static void damage_is_shown_where_it_is(void **state)
{
    struct skit kit;
    struct counts counts;

    (void)state;
    skit_init(&kit, UINT64_C(4) * VFS_BLOCK);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(skit_format(&kit), ERR_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(skit_append(&kit, 1, 2, 100), ERR_OK);
    }
    assert_int_equal(skit_snapshot(&kit, 3, 4), ERR_OK);
    skit_close(&kit, true);
    vfs_mem_flip(kit.disk, "promise", 20, 1);
    vfs_mem_flip(kit.disk, "snap-00000001-0000000100000002", 200, 1);
    vfs_mem_flip(kit.disk, "wal-00000001-0000000000000001", UINT64_C(2) * VFS_BLOCK + 70, 1);
    counts = look(&kit);
    assert_int_equal(counts.bad_slots, 1);
    assert_int_equal(counts.bad_snapshots, 1);
    assert_int_equal(counts.faults, 1);
    assert_int_equal(counts.batches, 4);
    assert_int_equal(counts.records, 6);
    skit_release(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_shown),
        cmocka_unit_test(damage_is_shown_where_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
