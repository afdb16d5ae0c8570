/* The optional files of a data directory: hints that never do harm. */
#include "base/mem.h"
#include "server/process/notes.h"
#include "tests/lib/unit.h"
#include "tests/lib/vfs_mem.h"
#include "zab/level.h"

enum {
    VERSION = 77
};

struct fixture {
    struct vfs_mem *disk;
    struct vfs vfs;
    struct store_identity *identity;
    struct zab_config config;
    struct buf bytes;
    zxid_t zxid;
};

static void make(struct fixture *f)
{
    f->disk = vfs_mem_new(0);
    f->vfs = vfs_mem_vfs(f->disk);
    f->identity = mem_zalloc(1, sizeof *f->identity);
    f->identity->member_id = 3;
    f->identity->incarnation = 30;
    f->identity->cluster[0] = 9;
    f->config = (struct zab_config){
        .version = VERSION, .cluster = {9}, .level = ZAB_LEVEL_TEXTS, .count = 2};
    f->config.members[0] = (struct zab_member){.id = 1, .voter = true, .incarnation = 10};
    f->config.members[1] = (struct zab_member){.id = 3, .voter = true, .incarnation = 30};
    buf_init(&f->bytes, NOTE_FILE_MAX);
}

static void release(struct fixture *f)
{
    buf_release(&f->bytes);
    mem_free(f->identity);
    vfs_mem_free(f->disk);
}

static void put(struct fixture *f, const char *name)
{
    assert_int_equal(note_file_write(&f->vfs, name, buf_slice(&f->bytes)), ERR_OK);
}

static bool is_marked(struct fixture *f)
{
    return notes_find_mark(&f->vfs, f->identity, &f->zxid);
}

TEST(a_mark_is_that_of_its_disk, fixture, make, release)
{
    assert_false(is_marked(fixture));
    notes_encode_mark(fixture->identity, VERSION, &fixture->bytes);
    put(fixture, NOTE_REMOVED);
    assert_true(is_marked(fixture));
    assert_int_equal(fixture->zxid, VERSION);
    fixture->identity->incarnation++;
    assert_false(is_marked(fixture));
    fixture->identity->incarnation--;
    fixture->identity->member_id++;
    assert_false(is_marked(fixture));
    fixture->identity->member_id--;
    fixture->identity->cluster[STORE_CLUSTER_LEN - 1]++;
    assert_false(is_marked(fixture));
    fixture->identity->cluster[STORE_CLUSTER_LEN - 1]--;
    assert_true(is_marked(fixture));
}

TEST(a_mark_of_another_length_is_ignored, fixture, make, release)
{
    notes_encode_mark(fixture->identity, VERSION, &fixture->bytes);
    fixture->bytes.len--;
    put(fixture, NOTE_REMOVED);
    assert_false(is_marked(fixture));
    fixture->bytes.len++;
    (void)buf_append(&fixture->bytes, "x", 1);
    put(fixture, NOTE_REMOVED);
    assert_false(is_marked(fixture));
}

TEST(a_committed_configuration_shows_a_removal, fixture, make, release)
{
    struct zab_config *config = &fixture->config;

    assert_false(notes_shows_removal(config, fixture->identity, &fixture->zxid));
    config->removed_count = 1;
    config->removed[0] = (struct zab_removed){.id = 3, .incarnation = 29, .zxid = 5};
    assert_false(notes_shows_removal(config, fixture->identity, &fixture->zxid));
    config->removed[0].incarnation = 30;
    assert_true(notes_shows_removal(config, fixture->identity, &fixture->zxid));
    assert_int_equal(fixture->zxid, 5);
    config->removed_count = 0;
    config->count = 1; /* Not a member, though the list has forgotten why. */
    assert_true(notes_shows_removal(config, fixture->identity, &fixture->zxid));
    assert_int_equal(fixture->zxid, VERSION);
    config->count = 0; /* It was in no ensemble yet. */
    assert_false(notes_shows_removal(config, fixture->identity, &fixture->zxid));
}

static struct blob *find(struct fixture *f)
{
    return notes_find_members(&f->vfs, f->identity->cluster, &f->zxid);
}

TEST(the_noted_members_are_those_of_the_cluster, fixture, make, release)
{
    assert_null(find(fixture));
    assert_int_equal(fixture->zxid, 0);
    zab_config_encode(&fixture->config, &fixture->bytes);
    put(fixture, NOTE_MEMBERS);
    struct blob *found = find(fixture);

    assert_non_null(found);
    assert_true(slice_eq(blob_slice(found), buf_slice(&fixture->bytes)));
    assert_int_equal(fixture->zxid, VERSION);
    blob_unref(found);
    fixture->identity->cluster[0]++;
    assert_null(find(fixture));
    assert_int_equal(fixture->zxid, 0);
}

TEST(noted_members_that_do_not_verify_are_ignored, fixture, make, release)
{
    uint8_t byte = 'x';

    zab_config_encode(&fixture->config, &fixture->bytes);
    put(fixture, NOTE_MEMBERS);
    vfs_mem_poke(fixture->disk, NOTE_MEMBERS, 40, &byte, 1);
    assert_null(find(fixture));
    fixture->bytes.len /= 2; /* The file verifies, the configuration does not. */
    put(fixture, NOTE_MEMBERS);
    assert_null(find(fixture));
}
