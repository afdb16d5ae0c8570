#include "base/logrec.h"
#include "storage/names.h"
#include "tests/lib/unit.h"
#include "tests/lib/vfs_mem.h"

#include <string.h>

TEST(file_names_are_told_apart_by_kind)
{
    char text[VFS_NAME_MAX];
    struct name name;

    name_wal(text, 3, 0x1f);
    assert_string_equal(text, "wal-00000003-000000000000001f");
    name = name_parse(text);
    assert_int_equal(name.kind, NAME_KIND_WAL);
    assert_int_equal(name.history, 3);
    assert_int_equal(name.number, 0x1f);
    name_snap(text, 2, UINT64_MAX);
    name = name_parse(text);
    assert_int_equal(name.kind, NAME_KIND_SNAP);
    assert_int_equal(name.number, UINT64_MAX);
    name_next(text, 9);
    name = name_parse(text);
    assert_int_equal(name.kind, NAME_KIND_NEXT);
    assert_int_equal(name.number, 9);
    assert_int_equal(name_parse("identity").kind, NAME_KIND_SLOTS);
    assert_int_equal(name_parse("identity.tmp").kind, NAME_KIND_TEMP);
    assert_int_equal(name_parse("snap-local.tmp").kind, NAME_KIND_TEMP);
}

TEST(foreign_files_are_left_alone)
{
    static const char *const others[] = {
        "lost+found",
        "wal-",
        "wal-00000003",
        "wal-00000003-000000000000001F",
        "wal-00000003-000000000000001f0",
        "wal-00000003x000000000000001f",
        "snap-3-1",
        "next-1",
        "IDENTITY",
        "",
        "a-name-that-is-longer-than-any-name-that-this-program-would-ever-make-up",
    };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(name_parse(others[i]).kind, NAME_KIND_OTHER);
    }
}

TEST(directory_is_listed_in_order)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct names names = {0};
    static const char *const made[] = {"wal-00000002-0000000000000001", "zzz", "promise",
                                       "wal-00000001-0000000000000002",
                                       "wal-00000001-0000000000000001"};

    for (size_t i = 0; i < 5; i++) {
        struct vfs_file *file = NULL;

        assert_int_equal(vfs.ops->open(vfs.ctx, made[i], true, &file), ERR_OK);
        vfs.ops->close(file);
    }
    assert_int_equal(names_list(&vfs, &names), ERR_OK);
    assert_int_equal(names.count, 5);
    assert_string_equal(names.list[0].text, "zzz");
    assert_string_equal(names.list[1].text, "promise");
    assert_string_equal(names.list[2].text, made[4]);
    assert_string_equal(names.list[3].text, made[3]);
    assert_string_equal(names.list[4].text, made[0]);
    assert_non_null(names_find(&names, NAME_KIND_WAL, 2, 1));
    assert_null(names_find(&names, NAME_KIND_WAL, 2, 2));
    names_release(&names);
    vfs_mem_free(disk);
}

TEST(a_manifest_is_read_completely_or_not_at_all)
{
    const struct manifest manifest = {.history = 2,
                                      .first = 3,
                                      .top = 9,
                                      .clean = true,
                                      .clean_number = 9,
                                      .clean_offset = 8192,
                                      .clean_last = 77,
                                      .clean_chain = 78};
    struct manifest back = {0};
    struct buf bytes;

    buf_init(&bytes, MANIFEST_BYTES_MAX);
    manifest_encode(&manifest, &bytes);
    assert_int_equal(manifest_decode(buf_slice(&bytes), &back), ERR_OK);
    assert_int_equal(back.history, 2);
    assert_int_equal(back.first, 3);
    assert_int_equal(back.top, 9);
    assert_true(back.clean);
    assert_int_equal(back.clean_chain, 78);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_int_equal(manifest_decode(slice_make(bytes.data, len), &back), ERR_CORRUPT);
    }
    buf_release(&bytes);
}

static void add(struct epochs *epochs, uint32_t epoch, uint32_t first, uint32_t last)
{
    epochs_add(epochs, (struct epoch_range){.epoch = epoch, .first = first, .last = last});
}

TEST(epochs_grow_at_the_end)
{
    struct epochs epochs = {0};

    add(&epochs, 1, 0, 4);
    add(&epochs, 1, 5, 5);
    add(&epochs, 7, 0, 0);
    assert_int_equal(epochs.count, 2);
    assert_int_equal(epochs.ranges[0].last, 5);
    epochs_release(&epochs);
}

TEST(epochs_are_cut_and_dropped)
{
    struct epochs epochs = {0};

    add(&epochs, 1, 0, 4);
    add(&epochs, 3, 0, 6);
    add(&epochs, 7, 0, 2);
    epochs_cut(&epochs, zxid_make(5, 9));
    assert_int_equal(epochs.count, 2);
    epochs_cut(&epochs, zxid_make(3, 2));
    assert_int_equal(epochs.ranges[1].last, 2);
    epochs_drop_upto(&epochs, zxid_make(1, 2));
    assert_int_equal(epochs.count, 2);
    assert_int_equal(epochs.ranges[0].first, 3);
    epochs_drop_upto(&epochs, zxid_make(3, 0));
    assert_int_equal(epochs.count, 1);
    assert_int_equal(epochs.ranges[0].first, 1);
    epochs_cut(&epochs, 0);
    assert_int_equal(epochs.count, 0);
    epochs_release(&epochs);
}
