/* Purging after snapshots, on a disk that refuses to remove a file. */
#include "storage/names.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

static struct vfs_ops stubborn_ops; /* Those of the disk, except unlink. */
static enum err unlink_err;         /* The result of removing a file; OK: that of the disk. */
static enum err (*disk_unlink)(void *ctx, const char *name);

static enum err stubborn_unlink(void *ctx, const char *name)
{
    return unlink_err == ERR_OK ? disk_unlink(ctx, name) : unlink_err;
}

static void ready(struct skit *kit)
{
    skit_init(kit, KIT_SEGMENT);
    unlink_err = ERR_OK;
    stubborn_ops = *kit->options.vfs.ops;
    disk_unlink = stubborn_ops.unlink;
    stubborn_ops.unlink = stubborn_unlink;
    kit->options.vfs.ops = &stubborn_ops;
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(skit_format(kit), ERR_OK);
}

/* Records and a snapshot over them. */
static enum err one_round(struct skit *kit)
{
    assert_int_equal(skit_append(kit, 1, 10, 3000), ERR_OK);
    assert_int_equal(skit_append(kit, 1, 10, 3000), ERR_OK);
    return skit_snapshot(kit, kit->log.count - 5, kit->log.count - 2);
}

struct tally {
    size_t segments;
    size_t snapshots;
};

static void tally_one(void *arg, const char *name)
{
    struct tally *tally = arg;
    struct name parsed = name_parse(name);

    tally->segments += parsed.kind == NAME_KIND_WAL;
    tally->snapshots += parsed.kind == NAME_KIND_SNAP;
}

static struct tally files_of(const struct skit *kit)
{
    struct tally tally = {0};

    vfs_mem_each(kit->disk, tally_one, &tally);
    return tally;
}

/* The temporary file of a local snapshot is unlinked before it is created; that may fail only if it
 * does not exist. */
static void fill_up(struct skit *kit, enum err err)
{
    ready(kit);
    for (size_t round = 0; round < 2; round++) {
        assert_int_equal(one_round(kit), ERR_OK);
    }
    assert_int_equal(skit_append(kit, 1, 20, 3000), ERR_OK);

    struct store_snap_writer *writer = NULL;
    size_t start = kit->log.count - 5;

    assert_int_equal(store_snap_begin(kit->store, skit_zxid(&kit->log, start),
                                      skit_chain(&kit->log, start), slice_str("config"), &writer),
                     ERR_OK);
    unlink_err = err;
    assert_int_equal(store_snap_finish(writer, skit_zxid(&kit->log, start + 3), 1, 1), ERR_OK);
    unlink_err = ERR_OK;
}

TEST(a_failed_purge_does_not_fail_the_snapshot)
{
    static const enum err errs[] = {ERR_IO, ERR_NO_SPACE};

    for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
        struct skit kit;
        struct store_figures figures;

        fill_up(&kit, errs[i]);
        store_figures(kit.store, &figures);
        assert_int_equal(figures.snapshots, 2);
        assert_int_equal(figures.snap_newest_end, skit_zxid(&kit.log, kit.log.count - 2));
        assert_true(figures.log_base > 0);
        assert_in_range(figures.unremoved, 2, 9);
        assert_int_equal(files_of(&kit).snapshots, 3);
        assert_true(files_of(&kit).segments > figures.segments);
        skit_release(&kit);
    }
}

TEST(the_next_purge_removes_what_the_last_one_could_not, skit, no_set_up, skit_release)
{
    struct store_figures figures;

    fill_up(skit, ERR_IO);
    assert_int_equal(one_round(skit), ERR_OK);
    store_figures(skit->store, &figures);
    assert_int_equal(figures.unremoved, 0);
    assert_int_equal(files_of(skit).snapshots, 2);
    assert_int_equal(files_of(skit).segments, figures.segments);
    skit_close(skit, false);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_int_equal(skit_check_log(skit), (long)skit->log.count);
}

/* The log no longer reaches back to it. */
TEST(a_snapshot_whose_removal_failed_is_never_used_again, skit, no_set_up, skit_release)
{
    struct store_report report;

    fill_up(skit, ERR_IO);
    assert_int_equal(store_snap_discard(skit->store, &report), ERR_OK);
    assert_int_equal(store_snap_discard(skit->store, &report), ERR_MISSING);
}

TEST(an_opening_removes_leftover_files_too, skit, no_set_up, skit_release)
{
    fill_up(skit, ERR_IO);
    skit_close(skit, true);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_int_equal(files_of(skit).snapshots, 2);
    assert_int_equal(skit_check_log(skit), (long)skit->log.count);
}

/* After a reset the old names mean nothing: nothing of the new log is removed because of them. */
TEST(a_reset_drops_the_list_of_files_to_remove, skit, no_set_up, skit_release)
{
    struct store_op reset = {.type = STORE_RESET};
    struct store_figures figures;

    fill_up(skit, ERR_IO);
    assert_int_equal(skit_run(skit, &reset), ERR_OK);
    skit_log_restart(&skit->log, 0, 0);
    for (size_t round = 0; round < 3; round++) {
        assert_int_equal(one_round(skit), ERR_OK);
    }
    store_figures(skit->store, &figures);
    assert_int_equal(figures.unremoved, 0);
    assert_int_equal(files_of(skit).segments, figures.segments);
    skit_close(skit, true);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit_check_log(skit), (long)skit->log.count);
}
