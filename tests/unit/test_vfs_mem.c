#include "tests/lib/unit.h"
#include "tests/lib/vfs_mem.h"

#include <string.h>

enum {
    SECTORS_IN_BLOCK = VFS_BLOCK / VFS_SECTOR
};

static struct vfs_file *make_file(const struct vfs *vfs, const char *name)
{
    struct vfs_file *file = NULL;

    assert_int_equal(vfs->ops->open(vfs->ctx, name, true, &file), ERR_OK);
    return file;
}

static void put(const struct vfs *vfs, struct vfs_file *file, uint64_t offset, const char *text)
{
    assert_int_equal(vfs->ops->pwrite(file, offset, text, strlen(text)), ERR_OK);
}

static bool holds(const struct vfs_mem *disk, const char *name, uint64_t offset, const char *text)
{
    char back[32] = "";

    return vfs_mem_read(disk, name, offset, back, strlen(text)) &&
           memcmp(back, text, strlen(text)) == 0;
}

TEST(unsynced_writes_are_lost)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct vfs_file *file = make_file(&vfs, "a");
    struct rng rng;
    uint64_t size = 0;

    rng_init(&rng, 1);
    put(&vfs, file, 0, "old");
    put(&vfs, file, 1000, "far");
    assert_int_equal(vfs.ops->sync(file), ERR_OK);
    assert_int_equal(vfs.ops->sync_dir(vfs.ctx), ERR_OK);
    assert_int_equal(vfs_mem_pending(disk), 0);
    put(&vfs, file, 0, "new");
    put(&vfs, file, 5000, "tail");
    /* Two sectors and the size. */
    assert_int_equal(vfs_mem_pending(disk), 3);
    vfs_mem_crash(disk, &rng, VFS_MEM_LOSE_ALL);
    assert_true(holds(disk, "a", 0, "old"));
    assert_true(vfs_mem_size(disk, "a", &size));
    assert_int_equal(size, 1003);
    /* Files that were opened before are dead. */
    assert_int_equal(vfs.ops->sync(file), ERR_IO);
    vfs.ops->close(file);
    vfs_mem_free(disk);
}

TEST(names_are_durable_only_after_the_directory_is)
{
    struct rng rng;

    rng_init(&rng, 1);
    for (int synced = 0; synced < 2; synced++) {
        struct vfs_mem *disk = vfs_mem_new(0);
        struct vfs vfs = vfs_mem_vfs(disk);
        struct vfs_file *file = make_file(&vfs, "a");
        uint64_t size = 0;

        put(&vfs, file, 0, "x");
        assert_int_equal(vfs.ops->sync(file), ERR_OK);
        assert_int_equal(vfs.ops->rename(vfs.ctx, "a", "b"), ERR_OK);
        if (synced) {
            assert_int_equal(vfs.ops->sync_dir(vfs.ctx), ERR_OK);
        }
        vfs_mem_crash(disk, &rng, VFS_MEM_LOSE_ALL);
        assert_int_equal(vfs_mem_size(disk, "b", &size), synced);
        assert_false(vfs_mem_size(disk, "a", &size));
        vfs.ops->close(file);
        vfs_mem_free(disk);
    }
}

TEST(each_subset_is_reached)
{
    unsigned seen = 0;

    for (uint64_t keep = 0; keep < 4; keep++) {
        struct vfs_mem *disk = vfs_mem_new(0);
        struct vfs vfs = vfs_mem_vfs(disk);
        struct vfs_file *file = make_file(&vfs, "a");

        put(&vfs, file, 0, "old");
        put(&vfs, file, 600, "old");
        assert_int_equal(vfs.ops->sync(file), ERR_OK);
        assert_int_equal(vfs.ops->sync_dir(vfs.ctx), ERR_OK);
        put(&vfs, file, 0, "new");
        put(&vfs, file, 600, "new");
        assert_int_equal(vfs_mem_pending(disk), 2);
        vfs_mem_crash_subset(disk, keep);
        seen |= 1U << (holds(disk, "a", 0, "new") * 2 + holds(disk, "a", 600, "new"));
        vfs.ops->close(file);
        vfs_mem_free(disk);
    }
    assert_int_equal(seen, 15);
}

/* What tells two disks from each other: a byte, a size, a name. */
TEST(a_digest_is_that_of_the_content)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct vfs_file *file = make_file(&vfs, "a");
    struct rng rng;
    uint64_t digests[5];

    rng_init(&rng, 1);
    put(&vfs, file, VFS_BLOCK, "text");
    vfs_mem_crash(disk, &rng, VFS_MEM_KEEP_ALL);
    vfs.ops->close(file);
    digests[0] = vfs_mem_digest(disk);
    vfs_mem_flip(disk, "a", VFS_BLOCK + 3, 1);
    digests[1] = vfs_mem_digest(disk);
    vfs_mem_flip(disk, "a", VFS_BLOCK + 3, 1);
    assert_true(vfs_mem_digest(disk) == digests[0]);
    vfs_mem_flip(disk, "a", 0, 1);
    digests[2] = vfs_mem_digest(disk);
    vfs_mem_cut(disk, "a", VFS_BLOCK + 2);
    digests[3] = vfs_mem_digest(disk);
    vfs_mem_remove(disk, "a");
    digests[4] = vfs_mem_digest(disk);
    for (size_t i = 0; i < 5; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_true(digests[i] != digests[k]);
        }
    }
    vfs_mem_free(disk);
}

TEST(calls_fail_and_crash_on_request)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct vfs_file *file = make_file(&vfs, "a");
    struct rng rng;

    rng_init(&rng, 1);
    vfs_mem_fail_at(disk, vfs_mem_calls(disk) + 2, ERR_NO_SPACE);
    assert_int_equal(vfs.ops->sync(file), ERR_OK);
    assert_false(vfs_mem_fault_hit(disk));
    assert_int_equal(vfs.ops->pwrite(file, 0, "abcd", 4), ERR_NO_SPACE);
    assert_true(vfs_mem_fault_hit(disk));
    assert_int_equal(vfs.ops->pwrite(file, 0, "abcd", 4), ERR_OK);
    vfs_mem_crash_at(disk, vfs_mem_calls(disk) + 1);
    assert_int_equal(vfs.ops->sync(file), ERR_IO);
    assert_int_equal(vfs.ops->sync(file), ERR_IO);
    assert_int_equal(vfs.ops->unlink(vfs.ctx, "a"), ERR_IO);
    vfs_mem_crash(disk, &rng, VFS_MEM_KEEP_ALL);
    assert_true(holds(disk, "a", 0, "abcd"));
    vfs.ops->close(file);
    vfs_mem_free(disk);
}

TEST(capacity_is_kept_and_freed)
{
    struct vfs_mem *disk = vfs_mem_new(10000);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct vfs_file *file = make_file(&vfs, "a");
    char bytes[8000] = "";
    uint64_t left = 0;

    assert_int_equal(vfs.ops->pwrite(file, 0, bytes, sizeof(bytes)), ERR_OK);
    assert_int_equal(vfs.ops->pwrite(file, 0, bytes, sizeof(bytes)), ERR_OK);
    assert_int_equal(vfs.ops->pwrite(file, 8000, bytes, sizeof(bytes)), ERR_NO_SPACE);
    assert_int_equal(vfs.ops->free_bytes(vfs.ctx, &left), ERR_OK);
    assert_int_equal(left, 2000);
    assert_int_equal(vfs.ops->unlink(vfs.ctx, "a"), ERR_OK);
    vfs.ops->close(file);
    file = make_file(&vfs, "b");
    assert_int_equal(vfs.ops->pwrite(file, 0, bytes, sizeof(bytes)), ERR_OK);
    vfs.ops->close(file);
    vfs_mem_free(disk);
}

TEST(clone_is_independent)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct vfs_file *file = make_file(&vfs, "a");
    struct vfs_mem *copy = NULL;

    put(&vfs, file, 0, "old");
    assert_int_equal(vfs.ops->sync(file), ERR_OK);
    put(&vfs, file, 0, "new");
    copy = vfs_mem_clone(disk);
    assert_int_equal(vfs_mem_pending(copy), vfs_mem_pending(disk));
    put(&vfs, file, 0, "own");
    assert_true(holds(copy, "a", 0, "new"));
    /* The sector is lost, the name is kept. */
    vfs_mem_crash_subset(copy, 2);
    assert_true(holds(copy, "a", 0, "old"));
    assert_true(holds(disk, "a", 0, "own"));
    vfs_mem_free(copy);
    vfs.ops->close(file);
    vfs_mem_free(disk);
}

TEST(damage_and_wiping)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct rng rng;
    uint64_t size = 0;

    rng_init(&rng, 1);
    assert_false(vfs_mem_rot(disk, &rng));

    struct vfs_file *file = make_file(&vfs, "a");

    put(&vfs, file, 0, "abcdefgh");
    vfs.ops->close(file);
    vfs_mem_flip(disk, "a", 1, 'b' ^ 'B');
    assert_true(holds(disk, "a", 0, "aBcdefgh"));
    assert_true(vfs_mem_rot(disk, &rng));
    assert_false(holds(disk, "a", 0, "aBcdefgh"));
    vfs_mem_cut(disk, "a", 3);
    assert_true(vfs_mem_size(disk, "a", &size));
    assert_int_equal(size, 3);
    vfs_mem_wipe(disk);
    assert_false(vfs_mem_size(disk, "a", &size));
    vfs_mem_free(disk);
}

/* A page of eight sectors with "old" on the disk and "new" in the cache; the sync fails. */
static struct vfs_file *fail_sync(struct vfs_mem *disk, const struct vfs *vfs)
{
    struct vfs_file *file = make_file(vfs, "a");

    for (uint64_t at = 0; at < VFS_BLOCK; at += VFS_SECTOR) {
        put(vfs, file, at, "old");
    }
    assert_int_equal(vfs->ops->sync(file), ERR_OK);
    assert_int_equal(vfs->ops->sync_dir(vfs->ctx), ERR_OK);
    for (uint64_t at = 0; at < VFS_BLOCK; at += VFS_SECTOR) {
        put(vfs, file, at, "new");
    }
    vfs_mem_fail(disk, VFS_MEM_FAIL_SYNCS, 1);
    assert_int_equal(vfs->ops->sync(file), ERR_IO);
    vfs_mem_fail(disk, VFS_MEM_FAIL_NONE, 0);
    assert_int_equal(vfs_mem_io_errors(disk), 1);
    return file;
}

static int count_new(const struct vfs_mem *disk)
{
    int count = 0;

    for (uint64_t at = 0; at < VFS_BLOCK; at += VFS_SECTOR) {
        count += holds(disk, "a", at, "new");
        assert_true(holds(disk, "a", at, "new") || holds(disk, "a", at, "old"));
    }
    return count;
}

TEST(after_a_failed_sync_the_cache_shows_what_the_disk_lacks)
{
    enum {
        DROPPED,
        POWER_CUT,
        WRITTEN_AGAIN,
        CASES
    };

    for (int how = 0; how < CASES; how++) {
        struct vfs_mem *disk = vfs_mem_new(0);
        struct vfs vfs = vfs_mem_vfs(disk);
        struct vfs_file *file = fail_sync(disk, &vfs);
        struct rng rng;

        rng_init(&rng, 1);
        assert_int_equal(count_new(disk), SECTORS_IN_BLOCK);
        if (how == WRITTEN_AGAIN) {
            put(&vfs, file, 100, "x"); /* The page is written as a whole. */
        }
        assert_int_equal(vfs.ops->sync(file), ERR_OK);
        assert_int_equal(count_new(disk), SECTORS_IN_BLOCK);
        if (how == DROPPED) {
            vfs.ops->drop_cache(file);
        } else {
            vfs_mem_crash(disk, &rng, VFS_MEM_KEEP_ALL);
        }
        if (how == WRITTEN_AGAIN) {
            assert_int_equal(count_new(disk), SECTORS_IN_BLOCK);
        } else {
            assert_in_range(count_new(disk), 1, SECTORS_IN_BLOCK - 1);
        }
        vfs.ops->close(file);
        vfs_mem_free(disk);
    }
}

TEST(calls_of_a_failing_disk_fail_until_it_is_repaired)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct vfs_file *file = make_file(&vfs, "a");
    struct vfs_file *other = NULL;
    char back[4];
    size_t len = 0;

    put(&vfs, file, 0, "abcd");
    vfs_mem_fail(disk, VFS_MEM_FAIL_WRITES, 1);
    assert_int_equal(vfs.ops->pwrite(file, 0, "efgh", 4), ERR_IO);
    assert_true(holds(disk, "a", 0, "efcd"));
    assert_int_equal(vfs.ops->pread(file, 0, back, sizeof(back), &len), ERR_OK);
    vfs_mem_fail(disk, VFS_MEM_FAIL_ALL, 1);
    assert_int_equal(vfs.ops->pread(file, 0, back, sizeof(back), &len), ERR_IO);
    assert_int_equal(vfs.ops->open(vfs.ctx, "a", false, &other), ERR_IO);
    assert_int_equal(vfs.ops->sync_dir(vfs.ctx), ERR_IO);
    vfs_mem_fail(disk, VFS_MEM_FAIL_NONE, 0);
    assert_int_equal(vfs.ops->pread(file, 0, back, sizeof(back), &len), ERR_OK);
    vfs.ops->close(file);
    vfs_mem_free(disk);
}

TEST(a_block_stays_unreadable_until_it_is_written)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct vfs_file *file = make_file(&vfs, "a");
    char back[4];
    size_t len = 0;

    put(&vfs, file, 0, "abcd");
    put(&vfs, file, VFS_BLOCK, "efgh");
    vfs_mem_unreadable(disk, "a", VFS_BLOCK + 1);
    assert_int_equal(vfs.ops->pread(file, 0, back, sizeof(back), &len), ERR_OK);
    assert_int_equal(vfs.ops->pread(file, VFS_BLOCK - 2, back, sizeof(back), &len), ERR_IO);
    put(&vfs, file, VFS_BLOCK, "ijkl");
    assert_int_equal(vfs.ops->pread(file, VFS_BLOCK, back, sizeof(back), &len), ERR_OK);
    assert_memory_equal(back, "ijkl", sizeof(back));
    vfs.ops->close(file);
    vfs_mem_free(disk);
}
