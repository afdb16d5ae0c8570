/* Purges keep the log that a learner needs, until a bound or a full disk takes precedence. */
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

enum {
    ROUNDS = 4,
    KEEP_BYTES = 1 << 20
};

static void ready(struct skit *kit, uint64_t keep_bytes_max)
{
    skit_init(kit, KIT_SEGMENT);
    kit->options.snapshots_keep = 1;
    kit->options.keep_bytes_max = keep_bytes_max;
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(skit_format(kit), ERR_OK);
}

/* Appends more than a segment of records and takes a snapshot, which purges the log before it. */
static void rounds(struct skit *kit, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(skit_append(kit, 1, 10, 3000), ERR_OK);
        assert_int_equal(skit_append(kit, 1, 10, 3000), ERR_OK);
        assert_int_equal(skit_append(kit, 1, 10, 3000), ERR_OK);
        assert_int_equal(skit_snapshot(kit, kit->log.count - 5, kit->log.count - 2), ERR_OK);
    }
}

static struct store_figures figures_of(const struct skit *kit)
{
    struct store_figures figures;

    store_figures(kit->store, &figures);
    return figures;
}

/* True when the records after `after` can be read. */
static bool can_read(const struct skit *kit, zxid_t after)
{
    struct logrec *rec = NULL;
    size_t count = 0;
    enum err err = store_read(kit->store, after, 1, 1, &rec, &count);

    assert_true(err == ERR_OK || err == ERR_MISSING);
    if (err == ERR_OK) {
        logrec_unref(rec);
    }
    return err == ERR_OK;
}

TEST(purges_keep_the_log_that_a_learner_needs, skit, no_set_up, skit_release)
{
    ready(skit, KEEP_BYTES);
    rounds(skit, 1);

    zxid_t needed = skit_zxid(&skit->log, skit->log.count - 5);

    store_keep(skit->store, STORE_LEARNERS, needed);
    rounds(skit, ROUNDS);
    assert_true(can_read(skit, needed));
    assert_true(figures_of(skit).log_base <= needed);
    assert_in_range(figures_of(skit).kept_bytes, KIT_SEGMENT, KEEP_BYTES);
    assert_int_equal(figures_of(skit).keeps_lost, 0);
    assert_int_equal(figures_of(skit).snapshots, 1);
}

TEST(no_more_log_is_kept_than_the_bound_allows, skit, no_set_up, skit_release)
{
    ready(skit, KIT_SEGMENT + 1);
    rounds(skit, 1);

    zxid_t needed = skit_zxid(&skit->log, skit->log.count - 5);

    store_keep(skit->store, STORE_LEARNERS, needed);
    rounds(skit, ROUNDS);
    assert_false(can_read(skit, needed));
    assert_int_equal(figures_of(skit).kept_bytes, 0);
    assert_true(figures_of(skit).keeps_lost > 0);
}

TEST(a_full_disk_drops_the_kept_log, skit, no_set_up, skit_release)
{
    ready(skit, KEEP_BYTES);
    rounds(skit, 1);

    zxid_t needed = skit_zxid(&skit->log, skit->log.count - 5);

    store_keep(skit->store, STORE_LEARNERS, needed);
    rounds(skit, ROUNDS);

    uint64_t kept = figures_of(skit).kept_bytes;
    uint64_t log = figures_of(skit).log_bytes;

    assert_int_equal(store_preallocate(skit->store), ERR_OK);
    vfs_mem_set_capacity(skit->disk, 1);
    /* The next segment exists, so the disk is not low; one more is needed after it. */
    assert_int_equal(skit_append(skit, 1, 20, 3000), ERR_OK);
    (void)store_preallocate(skit->store);
    assert_int_equal(figures_of(skit).kept_bytes, 0);
    assert_true(figures_of(skit).log_bytes <= log + KIT_SEGMENT - kept);
    assert_true(figures_of(skit).keeps_lost > 0);
    assert_false(can_read(skit, needed));
    vfs_mem_set_capacity(skit->disk, 0);
    assert_int_equal(store_preallocate(skit->store), ERR_OK);
    assert_false(store_is_low(skit->store));
}

TEST(log_that_no_learner_needs_is_purged, skit, no_set_up, skit_release)
{
    ready(skit, KEEP_BYTES);
    rounds(skit, 1);
    store_keep(skit->store, STORE_LEARNERS, skit_zxid(&skit->log, skit->log.count - 5));
    rounds(skit, ROUNDS);
    assert_true(figures_of(skit).kept_bytes > 0);
    store_keep(skit->store, STORE_LEARNERS, STORE_KEEP_NONE);
    assert_int_equal(store_preallocate(skit->store), ERR_OK);
    assert_int_equal(figures_of(skit).kept_bytes, 0);
    assert_int_equal(figures_of(skit).keeps_lost, 0);
    assert_false(can_read(skit, skit_zxid(&skit->log, 10)));
}

TEST(an_opening_finds_kept_log_sound, skit, no_set_up, skit_release)
{
    ready(skit, KEEP_BYTES);
    rounds(skit, 1);
    store_keep(skit->store, STORE_LEARNERS, 0);
    rounds(skit, ROUNDS);
    skit_close(skit, false);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit->report.verdict, STORE_CLEAN);
    assert_true(skit_check_log(skit) > 0);
    rounds(skit, 1);
    assert_int_equal(figures_of(skit).kept_bytes, 0);
}

/* ---- Several readers. ---- */

/* An audit log whose part of the log was purged before, or is too far behind, takes nothing away
 * from a learner. */
TEST(each_reader_is_judged_alone, skit, no_set_up, skit_release)
{
    ready(skit, 3 * KIT_SEGMENT);
    rounds(skit, 2);
    zxid_t gone = skit_zxid(&skit->log, 5);
    zxid_t behind = skit_zxid(&skit->log, skit->log.count - 5);

    assert_true(figures_of(skit).log_base > gone);
    for (int i = 0; i < 2; i++) {
        store_keep(skit->store, STORE_AUDIT, i == 0 ? gone : behind);
        store_keep(skit->store, STORE_LEARNERS, STORE_KEEP_NONE);
        rounds(skit, 1);
        zxid_t needed = skit_zxid(&skit->log, skit->log.count - 5);

        store_keep(skit->store, STORE_LEARNERS, needed);
        rounds(skit, 2); /* Two rounds fit the limit, three do not. */
        assert_true(can_read(skit, needed));
        assert_true(figures_of(skit).kept_bytes > 0);
        assert_int_equal(figures_of(skit).keeps_lost, 0);
        behind = skit_zxid(&skit->log, skit->log.count - 5);
        store_keep(skit->store, STORE_LEARNERS, STORE_KEEP_NONE);
        assert_int_equal(store_preallocate(skit->store), ERR_OK);
    }
    assert_int_equal(figures_of(skit).keeps_lost, 0); /* Those of learners. */
}

TEST(an_audit_log_keeps_what_learners_do_not_need, skit, no_set_up, skit_release)
{
    ready(skit, KEEP_BYTES);
    rounds(skit, 1);
    zxid_t needed = skit_zxid(&skit->log, skit->log.count - 5);

    store_keep(skit->store, STORE_AUDIT, needed);
    rounds(skit, 1);
    store_keep(skit->store, STORE_LEARNERS, skit_zxid(&skit->log, skit->log.count - 5));
    rounds(skit, 1);
    assert_true(can_read(skit, needed));
    uint64_t kept = figures_of(skit).kept_bytes;

    assert_true(kept > 0);
    store_keep(skit->store, STORE_LEARNERS, STORE_KEEP_NONE);
    assert_int_equal(store_preallocate(skit->store), ERR_OK);
    assert_true(can_read(skit, needed));
    assert_int_equal(figures_of(skit).kept_bytes, 0);
    store_keep(skit->store, STORE_AUDIT, skit_zxid(&skit->log, skit->log.count - 1));
    assert_int_equal(store_preallocate(skit->store), ERR_OK);
    assert_false(can_read(skit, needed));
}
