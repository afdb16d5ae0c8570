/* A segment leaves the log while readers hold it: each reads to the end of its batch, and the last
 * one closes the file. */
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

enum {
    PER_BATCH = 6,
    RECORD_BYTES = 4500, /* Two batches fill a segment. */
    BATCHES = 8,
    RECORDS = BATCHES * PER_BATCH,
    AFTER = 2 * PER_BATCH /* The readers begin with the second segment, which is idle. */
};

static struct vfs_ops hooked_ops; /* Those of the disk, except open and pread. */
static const struct vfs_ops *disk_ops;
static void (*at_open)(struct skit *kit);  /* Runs once, before the next open. */
static void (*at_pread)(struct skit *kit); /* Runs once, before the next pread. */
static void (*drop)(struct skit *kit);     /* Removes the second segment from the log. */
static struct skit *hooked_kit;
static zxid_t after; /* The readers' position; it outlives the model's records. */
static uint64_t open_after_drop;

static void fire(void (**hook)(struct skit *kit))
{
    void (*once)(struct skit * kit) = *hook;

    *hook = NULL;
    if (once) {
        once(hooked_kit);
    }
}

static enum err hooked_open(void *ctx, const char *name, bool create, struct vfs_file **ret_file)
{
    fire(&at_open);
    return disk_ops->open(ctx, name, create, ret_file);
}

static enum err hooked_pread(struct vfs_file *file, uint64_t offset, void *data, size_t len,
                             size_t *ret_len)
{
    fire(&at_pread);
    return disk_ops->pread(file, offset, data, len, ret_len);
}

static void ready(struct skit *kit)
{
    skit_init(kit, KIT_SEGMENT);
    disk_ops = kit->options.vfs.ops;
    hooked_ops = *disk_ops;
    hooked_ops.open = hooked_open;
    hooked_ops.pread = hooked_pread;
    hooked_kit = kit;
    kit->options.vfs.ops = &hooked_ops;
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(skit_format(kit), ERR_OK);
    for (int i = 0; i < BATCHES; i++) {
        assert_int_equal(skit_append(kit, 1, PER_BATCH, RECORD_BYTES), ERR_OK);
    }
    after = skit_zxid(&kit->log, AFTER);
}

static void truncate_log(struct skit *kit)
{
    assert_int_equal(skit_truncate(kit, AFTER / 2), ERR_OK);
}

static void reset_log(struct skit *kit)
{
    struct store_op reset = {.type = STORE_RESET};

    assert_int_equal(skit_run(kit, &reset), ERR_OK);
}

static void install_snapshot(struct skit *kit)
{
    struct store_op install = {.type = STORE_SNAP_INSTALL};

    assert_int_equal(skit_receive(kit, RECORDS - 8, RECORDS - 4, RECORDS, &install), ERR_OK);
}

static void purge_log(struct skit *kit)
{
    assert_int_equal(skit_snapshot(kit, RECORDS - 8, RECORDS - 6), ERR_OK);
    assert_int_equal(skit_snapshot(kit, RECORDS - 6, RECORDS - 4), ERR_OK);
}

static void (*const drops[])(struct skit *kit) = {truncate_log, reset_log, install_snapshot,
                                                  purge_log};

enum {
    DROPS_COUNT = sizeof(drops) / sizeof(drops[0])
};

static enum err read_one_batch(struct skit *kit, size_t *ret_count)
{
    struct logrec *recs[PER_BATCH];
    enum err err = store_read(kit->store, after, SIZE_MAX, PER_BATCH, recs, ret_count);

    for (size_t i = 0; i < *ret_count; i++) {
        assert_int_equal(recs[i]->zxid, after + i + 1);
        logrec_unref(recs[i]);
    }
    return err;
}

static void read_whole_batch(struct skit *kit)
{
    size_t count = 0;

    assert_int_equal(read_one_batch(kit, &count), ERR_OK);
    assert_int_equal(count, PER_BATCH);
}

static void drop_segment(struct skit *kit)
{
    drop(kit);
    open_after_drop = vfs_mem_open_now(kit->disk);
}

static void read_and_drop(struct skit *kit)
{
    at_pread = drop_segment;
    read_whole_batch(kit);
}

/* The segment is gone, and no file is left open. */
static void assert_dropped(struct skit *kit)
{
    size_t count = 0;

    assert_int_equal(vfs_mem_open_now(kit->disk), open_after_drop - 1);
    assert_int_not_equal(read_one_batch(kit, &count), ERR_CORRUPT);
    assert_int_equal(count, 0);
    skit_close(kit, true);
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(kit->report.verdict, STORE_CLEAN);
}

TEST(a_reader_keeps_the_file_of_a_dropped_segment)
{
    for (size_t i = 0; i < DROPS_COUNT; i++) {
        struct skit kit;

        ready(&kit);
        drop = drops[i];
        read_and_drop(&kit);
        assert_dropped(&kit);
        skit_release(&kit);
    }
}

TEST(two_readers_keep_the_file_of_a_dropped_segment)
{
    for (size_t i = 0; i < DROPS_COUNT; i++) {
        struct skit kit;

        ready(&kit);
        drop = drops[i];
        at_pread = read_and_drop;
        read_whole_batch(&kit);
        assert_dropped(&kit);
        skit_release(&kit);
    }
}

TEST(a_segment_dropped_before_its_file_is_open_is_missing_not_damaged)
{
    for (size_t i = 0; i < DROPS_COUNT; i++) {
        struct skit kit;
        size_t count = 0;

        ready(&kit);
        at_open = drops[i];
        assert_int_equal(read_one_batch(&kit, &count), ERR_MISSING);
        assert_int_equal(count, 0);
        skit_release(&kit);
    }
}

TEST(an_idle_segment_is_closed_after_its_last_reader, skit, ready, skit_release)
{
    uint64_t open_before = vfs_mem_open_now(skit->disk);

    at_pread = read_whole_batch;
    read_whole_batch(skit);
    assert_int_equal(vfs_mem_open_now(skit->disk), open_before);
}
