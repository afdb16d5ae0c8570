/* A disk that fills up and is freed again: no effect of it remains. */
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

enum {
    SMALL = 4 * VFS_BLOCK, /* A segment that is too small for a long record. */
    LONG = 30000
};

static void ready(struct skit *kit, uint64_t segment_bytes)
{
    skit_init(kit, segment_bytes);
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(skit_format(kit), ERR_OK);
}

/* One operation that needs two more segments, of which one exists. */
TEST(freed_space_is_noticed_while_the_next_segment_exists, skit, no_set_up, skit_release)
{
    ready(skit, SMALL);
    assert_int_equal(store_preallocate(skit->store), ERR_OK);
    vfs_mem_set_capacity(skit->disk, 1);
    assert_int_equal(skit_append(skit, 1, 12, 3000), ERR_NO_SPACE);
    vfs_mem_set_capacity(skit->disk, 0);
    assert_int_equal(store_preallocate(skit->store), ERR_OK);
    assert_false(store_is_low(skit->store));
}

TEST(a_disk_is_low_without_a_next_segment, skit, no_set_up, skit_release)
{
    ready(skit, SMALL);
    vfs_mem_set_capacity(skit->disk, 1);
    assert_int_equal(store_preallocate(skit->store), ERR_NO_SPACE);
    assert_true(store_is_low(skit->store));
    vfs_mem_set_capacity(skit->disk, 0);
    assert_int_equal(store_preallocate(skit->store), ERR_OK);
    assert_false(store_is_low(skit->store));
}

/* The store extends the next segment for one long record, and the disk fills up midway; then it
 * uses the segment as it was. Each call of that attempt fails once. */
TEST(a_segment_that_could_not_grow_is_used_unchanged)
{
    bool was_hit = true;

    for (uint64_t call = 1; was_hit; call++) {
        struct skit kit;

        ready(&kit, SMALL);
        assert_int_equal(store_preallocate(kit.store), ERR_OK);
        vfs_mem_fail_at(kit.disk, vfs_mem_calls(kit.disk) + call, ERR_NO_SPACE);

        enum err err = skit_append(&kit, 1, 1, LONG);

        was_hit = vfs_mem_fault_hit(kit.disk);
        if (err == ERR_NO_SPACE) {
            skit_log_cut(&kit.log, 0);
            for (int i = 0; i < 6; i++) {
                assert_int_equal(skit_append(&kit, 1, 1, 3000), ERR_OK);
            }
            skit_close(&kit, false);
            assert_int_equal(skit_open(&kit), ERR_OK);
            assert_int_equal(kit.report.verdict, STORE_CLEAN);
            assert_int_equal(skit_check_log(&kit), 6);
        }
        skit_release(&kit);
    }
}

static struct vfs_ops stubborn_ops; /* Those of the disk, except unlink. */

static enum err full_unlink(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return ERR_NO_SPACE;
}

/* A copy-on-write disk may be too full to remove what did not fit. */
TEST(a_segment_that_could_not_be_removed_is_made_again, skit, no_set_up, skit_release)
{
    enum err (*unlink)(void *, const char *) = NULL;

    skit_init(skit, SMALL);
    stubborn_ops = *skit->options.vfs.ops;
    unlink = stubborn_ops.unlink;
    skit->options.vfs.ops = &stubborn_ops;
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit_format(skit), ERR_OK);
    vfs_mem_set_capacity(skit->disk, 1);
    stubborn_ops.unlink = full_unlink;
    assert_int_equal(store_preallocate(skit->store), ERR_NO_SPACE);
    vfs_mem_set_capacity(skit->disk, 0);
    stubborn_ops.unlink = unlink;
    assert_int_equal(store_preallocate(skit->store), ERR_OK);
    assert_int_equal(skit_append(skit, 1, 12, 3000), ERR_OK);
    assert_int_equal(skit_check_log(skit), 12);
}
