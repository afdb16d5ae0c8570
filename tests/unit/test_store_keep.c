/* Log that a learner needs is kept by purges, until a bound or a full disk is stronger. */
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

/* More than a segment of records and a snapshot, which purges what is before it. */
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

static void purges_keep_the_log_that_a_learner_needs(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit, KEEP_BYTES);
    rounds(&kit, 1);

    zxid_t needed = skit_zxid(&kit.log, kit.log.count - 5);

    store_keep(kit.store, needed);
    rounds(&kit, ROUNDS);
    assert_true(can_read(&kit, needed));
    assert_true(figures_of(&kit).log_base <= needed);
    assert_in_range(figures_of(&kit).kept_bytes, KIT_SEGMENT, KEEP_BYTES);
    assert_int_equal(figures_of(&kit).keeps_lost, 0);
    assert_int_equal(figures_of(&kit).snapshots, 1);
    skit_release(&kit);
}

static void no_more_log_is_kept_than_the_bound_allows(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit, KIT_SEGMENT + 1);
    rounds(&kit, 1);

    zxid_t needed = skit_zxid(&kit.log, kit.log.count - 5);

    store_keep(kit.store, needed);
    rounds(&kit, ROUNDS);
    assert_false(can_read(&kit, needed));
    assert_int_equal(figures_of(&kit).kept_bytes, 0);
    assert_true(figures_of(&kit).keeps_lost > 0);
    skit_release(&kit);
}

static void a_full_disk_takes_the_log_that_was_kept(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit, KEEP_BYTES);
    rounds(&kit, 1);

    zxid_t needed = skit_zxid(&kit.log, kit.log.count - 5);

    store_keep(kit.store, needed);
    rounds(&kit, ROUNDS);

    uint64_t kept = figures_of(&kit).kept_bytes;
    uint64_t log = figures_of(&kit).log_bytes;

    assert_int_equal(store_preallocate(kit.store), ERR_OK);
    vfs_mem_set_capacity(kit.disk, 1);
    /* The next segment is there, so that the disk is not low; one more is needed behind it. */
    assert_int_equal(skit_append(&kit, 1, 20, 3000), ERR_OK);
    (void)store_preallocate(kit.store);
    assert_int_equal(figures_of(&kit).kept_bytes, 0);
    assert_true(figures_of(&kit).log_bytes <= log + KIT_SEGMENT - kept);
    assert_true(figures_of(&kit).keeps_lost > 0);
    assert_false(can_read(&kit, needed));
    vfs_mem_set_capacity(kit.disk, 0);
    assert_int_equal(store_preallocate(kit.store), ERR_OK);
    assert_false(store_is_low(kit.store));
    skit_release(&kit);
}

static void log_that_no_learner_needs_any_more_goes(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit, KEEP_BYTES);
    rounds(&kit, 1);
    store_keep(kit.store, skit_zxid(&kit.log, kit.log.count - 5));
    rounds(&kit, ROUNDS);
    assert_true(figures_of(&kit).kept_bytes > 0);
    store_keep(kit.store, STORE_KEEP_NONE);
    assert_int_equal(store_preallocate(kit.store), ERR_OK);
    assert_int_equal(figures_of(&kit).kept_bytes, 0);
    assert_int_equal(figures_of(&kit).keeps_lost, 0);
    assert_false(can_read(&kit, skit_zxid(&kit.log, 10)));
    skit_release(&kit);
}

static void an_opening_finds_kept_log_sound(void **state)
{
    struct skit kit;

    (void)state;
    ready(&kit, KEEP_BYTES);
    rounds(&kit, 1);
    store_keep(kit.store, 0);
    rounds(&kit, ROUNDS);
    skit_close(&kit, false);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(kit.report.verdict, STORE_CLEAN);
    assert_true(skit_check_log(&kit) > 0);
    rounds(&kit, 1);
    assert_int_equal(figures_of(&kit).kept_bytes, 0);
    skit_release(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(purges_keep_the_log_that_a_learner_needs),
        cmocka_unit_test(no_more_log_is_kept_than_the_bound_allows),
        cmocka_unit_test(a_full_disk_takes_the_log_that_was_kept),
        cmocka_unit_test(log_that_no_learner_needs_any_more_goes),
        cmocka_unit_test(an_opening_finds_kept_log_sound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
