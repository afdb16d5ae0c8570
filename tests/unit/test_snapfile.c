#include "base/mem.h"
#include "storage/snapfile.h"
#include "tests/lib/unit.h"
#include "tests/lib/vfs_mem.h"

#include <string.h>

enum {
    RECORD_MAX = 1000
};

static const struct snapfile_info sample = {
    .shown = {.start = 10, .start_chain = 11, .end = 20, .digest = 21, .node_count = 3},
    .end_chain = 22,
    .cluster = {5},
};

/* Writes a snapshot of blocks of the given lengths that ends as `last` says. */
static void write_ending(const struct vfs *vfs, const size_t *lens, size_t count,
                         const struct snapfile_info *last)
{
    struct snapfile_writer writer;

    assert_int_equal(snapfile_create(&writer, vfs, "s", RECORD_MAX), ERR_OK);
    assert_int_equal(snapfile_put_head(&writer, &sample, slice_str("the configuration")), ERR_OK);
    for (size_t i = 0; i < count; i++) {
        uint8_t *bytes = mem_alloc(lens[i]);

        memset(bytes, (int)i + 1, lens[i]);
        assert_int_equal(snapfile_put_block(&writer, slice_make(bytes, lens[i])), ERR_OK);
        mem_free(bytes);
    }
    assert_int_equal(snapfile_put_trailer(&writer, last), ERR_OK);
    snapfile_writer_close(&writer);
}

static void write_blocks(const struct vfs *vfs, const size_t *lens, size_t count)
{
    write_ending(vfs, lens, count, &sample);
}

static uint64_t id_of(const struct vfs *vfs)
{
    struct snapfile_info info = {0};

    assert_int_equal(snapfile_verify(vfs, "s", RECORD_MAX, &info), ERR_OK);
    return info.shown.id;
}

/* Otherwise a transfer that broke off inside the trailer would resume with the other file's. */
TEST(files_with_one_id_have_the_same_trailer)
{
    static const size_t lens[] = {1, 700};
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct snapfile_info later = sample;
    uint64_t id;

    later.shown.end++;
    write_blocks(&vfs, lens, 2);
    id = id_of(&vfs);
    write_blocks(&vfs, lens, 2);
    assert_int_equal(id_of(&vfs), id);
    write_ending(&vfs, lens, 2, &later);
    assert_int_not_equal(id_of(&vfs), id);
    vfs_mem_free(disk);
}

TEST(blocks_are_read_as_written)
{
    static const size_t lens[] = {1, 700, SNAPFILE_PIECE, 2 * SNAPFILE_PIECE + 5, 3};
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct snapfile_reader reader;
    struct slice block = {0};

    write_blocks(&vfs, lens, 5);
    assert_int_equal(snapfile_open(&reader, &vfs, "s", RECORD_MAX, false), ERR_OK);
    assert_int_equal(reader.info.shown.start, 10);
    assert_int_equal(reader.info.shown.start_chain, 11);
    assert_int_equal(reader.info.shown.end, 20);
    assert_int_equal(reader.info.shown.digest, 21);
    assert_int_equal(reader.info.shown.node_count, 3);
    assert_int_equal(reader.info.end_chain, 22);
    assert_int_equal(reader.info.cluster[0], 5);
    assert_true(slice_eq(buf_slice(&reader.config), slice_str("the configuration")));
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(snapfile_next(&reader, &block), ERR_OK);
        assert_int_equal(block.len, lens[i]);
        assert_int_equal(block.data[block.len - 1], i + 1);
    }
    assert_int_equal(snapfile_next(&reader, &block), ERR_MISSING);
    snapfile_close(&reader);
    /* All of it was synced. */
    assert_int_equal(vfs.ops->sync_dir(vfs.ctx), ERR_OK);
    assert_int_equal(vfs_mem_pending(disk), 0);
    vfs_mem_free(disk);
}

TEST(snapshot_may_be_empty)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct snapfile_info info = {0};

    write_blocks(&vfs, NULL, 0);
    assert_int_equal(snapfile_verify(&vfs, "s", RECORD_MAX, &info), ERR_OK);
    vfs_mem_free(disk);
}

TEST(snapshot_cut_anywhere_is_refused)
{
    static const size_t lens[] = {100, 200};
    uint64_t size = 0;
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct snapfile_info info;

    write_blocks(&vfs, lens, 2);
    assert_true(vfs_mem_size(disk, "s", &size));
    while (size > 0) {
        size--;
        vfs_mem_cut(disk, "s", size);
        assert_int_equal(snapfile_verify(&vfs, "s", RECORD_MAX, &info), ERR_CORRUPT);
    }
    vfs_mem_remove(disk, "s");
    assert_int_equal(snapfile_verify(&vfs, "s", RECORD_MAX, &info), ERR_MISSING);
    vfs_mem_free(disk);
}

TEST(every_flipped_bit_is_found)
{
    static const size_t lens[] = {100, 200};
    uint64_t size = 0;
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct snapfile_info info;

    write_blocks(&vfs, lens, 2);
    assert_true(vfs_mem_size(disk, "s", &size));
    for (uint64_t bit = 0; bit < size * 8; bit++) {
        uint8_t mask = (uint8_t)(1U << bit % 8);

        vfs_mem_flip(disk, "s", bit / 8, mask);
        assert_int_equal(snapfile_verify(&vfs, "s", RECORD_MAX, &info), ERR_CORRUPT);
        vfs_mem_flip(disk, "s", bit / 8, mask);
    }
    assert_int_equal(snapfile_verify(&vfs, "s", RECORD_MAX, &info), ERR_OK);
    vfs_mem_free(disk);
}

TEST(a_full_disk_is_reported)
{
    struct vfs_mem *disk = vfs_mem_new(SNAPFILE_PIECE);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct snapfile_writer writer;
    uint8_t *bytes = mem_zalloc(SNAPFILE_PIECE, 1);
    enum err err = ERR_OK;

    assert_int_equal(snapfile_create(&writer, &vfs, "s", RECORD_MAX), ERR_OK);
    assert_int_equal(snapfile_put_head(&writer, &sample, slice_str("")), ERR_OK);
    for (int i = 0; err == ERR_OK && i < 3; i++) {
        err = snapfile_put_block(&writer, slice_make(bytes, SNAPFILE_PIECE));
    }
    assert_int_equal(err, ERR_NO_SPACE);
    snapfile_writer_close(&writer);
    mem_free(bytes);
    vfs_mem_free(disk);
}
