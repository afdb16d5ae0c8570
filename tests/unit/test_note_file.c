/* A small optional file: what is read is what was written, or an error. */
#include "base/wire.h"
#include "storage/names.h"
#include "storage/note_file.h"
#include "tests/lib/unit.h"
#include "tests/lib/vfs_mem.h"

#include <string.h>

enum {
    HEAD = 16,
    CALLS_MAX = 100
};

static const char name[] = "members";
static const char other[] = "removed";

struct fixture {
    struct vfs_mem *disk;
    struct vfs vfs;
    struct buf value;
};

static void make(struct fixture *f)
{
    f->disk = vfs_mem_new(0);
    f->vfs = vfs_mem_vfs(f->disk);
    buf_init(&f->value, NOTE_FILE_MAX + 1);
}

static void release(struct fixture *f)
{
    buf_release(&f->value);
    vfs_mem_free(f->disk);
}

static enum err get(struct fixture *f, const char *from)
{
    buf_clear(&f->value);
    return note_file_read(&f->vfs, from, &f->value);
}

static void put(struct fixture *f, const char *text)
{
    assert_int_equal(note_file_write(&f->vfs, name, slice_str(text)), ERR_OK);
}

static void expect(struct fixture *f, const char *text)
{
    assert_int_equal(get(f, name), ERR_OK);
    assert_true(slice_eq(buf_slice(&f->value), slice_str(text)));
}

TEST(the_newest_value_is_read, fixture, make, release)
{
    assert_int_equal(get(fixture, name), ERR_MISSING);
    put(fixture, "first");
    expect(fixture, "first");
    put(fixture, "2nd");
    expect(fixture, "2nd");
    assert_int_equal(get(fixture, other), ERR_MISSING);
}

TEST(the_longest_value_is_read_and_no_longer_one, fixture, make, release)
{
    static uint8_t bytes[NOTE_FILE_MAX];
    struct vfs_file *file = NULL;

    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(note_file_write(&fixture->vfs, name, slice_make(bytes, sizeof bytes)), ERR_OK);
    assert_int_equal(get(fixture, name), ERR_OK);
    assert_true(slice_eq(buf_slice(&fixture->value), slice_make(bytes, sizeof bytes)));
    assert_int_equal(fixture->vfs.ops->open(fixture->vfs.ctx, name, false, &file), ERR_OK);
    assert_int_equal(fixture->vfs.ops->pwrite(file, HEAD + NOTE_FILE_MAX, "x", 1), ERR_OK);
    fixture->vfs.ops->close(file);
    assert_int_equal(get(fixture, name), ERR_CORRUPT);
}

TEST(a_flipped_bit_is_found, fixture, make, release)
{
    size_t len = HEAD + strlen("value");

    put(fixture, "value");
    for (size_t i = 0; i < len * 8; i++) {
        uint8_t byte;

        assert_true(vfs_mem_read(fixture->disk, name, i / 8, &byte, 1));
        byte ^= (uint8_t)(1U << (i % 8));
        vfs_mem_poke(fixture->disk, name, i / 8, &byte, 1);
        assert_int_equal(get(fixture, name), ERR_CORRUPT);
        assert_int_equal(fixture->value.len, 0);
        byte ^= (uint8_t)(1U << (i % 8));
        vfs_mem_poke(fixture->disk, name, i / 8, &byte, 1);
    }
    expect(fixture, "value");
}

TEST(a_cut_file_is_found, fixture, make, release)
{
    for (size_t len = 0; len < HEAD + strlen("value"); len++) {
        struct vfs_file *file = NULL;

        put(fixture, "value");
        assert_int_equal(fixture->vfs.ops->open(fixture->vfs.ctx, name, false, &file), ERR_OK);
        assert_int_equal(fixture->vfs.ops->truncate(file, len), ERR_OK);
        fixture->vfs.ops->close(file);
        assert_int_equal(get(fixture, name), ERR_CORRUPT);
    }
}

TEST(a_file_under_another_name_is_found, fixture, make, release)
{
    put(fixture, "value");
    assert_int_equal(fixture->vfs.ops->rename(fixture->vfs.ctx, name, other), ERR_OK);
    assert_int_equal(get(fixture, other), ERR_CORRUPT);
}

/* A crash or an error at any point leaves the old value or the new one. */
TEST(a_write_that_fails_leaves_the_old_value, fixture, make, release)
{
    uint64_t call = 0;
    enum err err = ERR_IO;

    put(fixture, "old");
    while (err != ERR_OK && call < CALLS_MAX) {
        uint64_t before = vfs_mem_calls(fixture->disk);

        call++;
        vfs_mem_fail_at(fixture->disk, before + call, ERR_NO_SPACE);
        err = note_file_write(&fixture->vfs, name, slice_str("new"));
        vfs_mem_fail_at(fixture->disk, 0, ERR_OK);
        assert_int_equal(get(fixture, name), ERR_OK);
        bool is_new = slice_eq(buf_slice(&fixture->value), slice_str("new"));

        assert_true(is_new || slice_eq(buf_slice(&fixture->value), slice_str("old")));
        assert_true(is_new || err == ERR_NO_SPACE);
    }
    assert_in_range(call, 5, CALLS_MAX - 1);
    expect(fixture, "new");
}

TEST(a_crash_leaves_the_old_value_or_the_new_one, fixture, make, release)
{
    struct rng rng;

    rng_init(&rng, 1);
    put(fixture, "old");
    put(fixture, "new");
    vfs_mem_crash(fixture->disk, &rng, VFS_MEM_LOSE_ALL);
    expect(fixture, "new");
}

/* The store removes neither of them when it tidies up. */
TEST(the_names_are_left_alone, fixture, make, release)
{
    assert_int_equal(name_parse(name).kind, NAME_KIND_OTHER);
    assert_int_equal(name_parse(other).kind, NAME_KIND_OTHER);
    assert_int_equal(name_parse("members.new").kind, NAME_KIND_OTHER);
    put(fixture, "value");
    assert_int_equal(get(fixture, "members.new"), ERR_MISSING);
}
