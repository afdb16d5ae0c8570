/* `zabra inspect` on sound, torn and damaged directories: the result for each file, as text and as
 * JSON, and the exit code. */
#include "base/mem.h"
#include "storage/inspect.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OUTPUT_MAX = 64 * 1024,
    RECORDS = 60
};

#define SNAPSHOT "snap-00000001-0000000100000009"
#define FIRST    "wal-00000001-0000000000000001"

static char dir[64];
static char output[OUTPUT_MAX];
static struct vfs vfs;

static int run_inspect(const char *options)
{
    char command[512];
    size_t got = 0;
    FILE *pipe = NULL;

    (void)snprintf(command, sizeof(command), "%s inspect %s %s 2>&1", ZABRA_BINARY, options, dir);
    pipe = popen(command, "r"); /* NOLINT(cert-env33-c): a fixed command. */
    assert_non_null(pipe);
    got = fread(output, 1, sizeof(output) - 1, pipe);
    output[got] = '\0';

    int status = pclose(pipe);

    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The line with the result for a file: the last one that names it. */
static const char *line_of(const char *file)
{
    static char line[512];
    const char *start = "";

    for (const char *at = strstr(output, file); at; at = strstr(at + 1, file)) {
        start = at;
    }
    (void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(start, "\n"), start);
    return line;
}

static void assert_line(const char *file, const char *what)
{
    if (!strstr(line_of(file), what)) {
        fail_msg("%s: no \"%s\" in:\n%s", file, what, output);
    }
}

static void remove_name(void *arg, const char *name)
{
    (void)arg;
    assert_int_equal(vfs.ops->unlink(vfs.ctx, name), ERR_OK);
}

/* Makes the directory of a small replica: more than two segments, and a snapshot. */
static void setup(void)
{
    struct skit kit;

    (void)snprintf(dir, sizeof(dir), "inspect-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(vfs_posix_open(dir, &vfs), ERR_OK);
    skit_init(&kit, KIT_SEGMENT);
    kit.options.vfs = vfs;
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(skit_format(&kit), ERR_OK);
    for (size_t i = 0; i < RECORDS; i += 10) {
        assert_int_equal(skit_append(&kit, 1, 10, 3000), ERR_OK);
    }
    assert_int_equal(skit_snapshot(&kit, 10, 15), ERR_OK);
    skit_close(&kit, false);
    /* All files are closed, so the lock is released. */
    vfs_posix_close(&vfs);
    assert_int_equal(vfs_posix_open(dir, &vfs), ERR_OK);
    skit_release(&kit);
}

static void teardown(void)
{
    assert_int_equal(vfs.ops->list(vfs.ctx, remove_name, NULL), ERR_OK);
    vfs_posix_close(&vfs);
    assert_int_equal(rmdir(dir), 0);
}

static void flip(const char *name, uint64_t offset)
{
    struct vfs_file *file = NULL;
    uint8_t byte = 0;
    size_t got = 0;

    assert_int_equal(vfs.ops->open(vfs.ctx, name, false, &file), ERR_OK);
    assert_int_equal(vfs.ops->pread(file, offset, &byte, 1, &got), ERR_OK);
    byte ^= 4;
    assert_int_equal(vfs.ops->pwrite(file, offset, &byte, 1), ERR_OK);
    vfs.ops->close(file);
}

TEST(a_sound_directory, setup, teardown)
{
    assert_int_equal(run_inspect(""), 0);
    assert_line("identity   ", "sound: written 1 times");
    assert_line(FIRST, "sound: ");
    assert_line(SNAPSHOT, "sound: 3 znodes as of 0x100000009 to 0x10000000e");
    assert_non_null(strstr(output, ": sound\n"));
    assert_null(strstr(output, "damaged"));
    assert_int_equal(run_inspect("--records"), 0);
    assert_non_null(strstr(output, "0x000000010000003b"));
}

/* After a failed copy, or with the name of another folder. */
TEST(an_empty_directory_is_not_sound, setup, teardown)
{
    assert_int_equal(vfs.ops->list(vfs.ctx, remove_name, NULL), ERR_OK);
    assert_int_equal(run_inspect(""), 1);
    assert_non_null(strstr(output, ": empty, no replica has used it\n"));
    assert_int_equal(run_inspect("-o json"), 1);
    assert_non_null(strstr(output, "\"verdict\":\"empty\",\"sound\":false"));
}

TEST(one_bad_copy_is_reported_and_survived, setup, teardown)
{
    flip("promise", 20);
    assert_int_equal(run_inspect(""), 0);
    assert_line("promise   ", "one copy: ");
}

TEST(a_record_without_a_good_copy_is_damage, setup, teardown)
{
    flip("quarantine", 20);
    flip("quarantine", VFS_BLOCK + 20);
    assert_int_equal(run_inspect(""), 1);
    assert_line("quarantine   ", "damaged: ");
    assert_non_null(strstr(output, ": NOT sound\n"));
}

TEST(a_missing_record_is_damage, setup, teardown)
{
    assert_int_equal(vfs.ops->unlink(vfs.ctx, "manifest"), ERR_OK);
    assert_int_equal(run_inspect(""), 1);
    assert_line("manifest   ", "missing: ");
    assert_line(FIRST, "not reached: ");
}

TEST(a_damaged_segment_is_named_with_its_place, setup, teardown)
{
    flip(FIRST, UINT64_C(2) * VFS_BLOCK);
    assert_int_equal(run_inspect(""), 1);
    assert_line(FIRST, "damaged: offset 4096: ");
    assert_line(SNAPSHOT, "sound: ");
}

TEST(records_after_a_damaged_header_are_not_reached, setup, teardown)
{
    flip("wal-00000001-0000000000000003", 70);
    assert_int_equal(run_inspect(""), 1);
    assert_line("wal-00000001-0000000000000003", "damaged: the header fails verification");
    assert_line(FIRST, "not reached: ");
}

/* Even a snapshot that the log does not need. */
TEST(a_flipped_bit_of_a_snapshot_is_damage, setup, teardown)
{
    flip(SNAPSHOT, 200);
    assert_int_equal(run_inspect(""), 1);
    assert_line(SNAPSHOT, "damaged: ");
}

/* The rest of a batch that was not acknowledged before a crash. */
TEST(a_torn_tail_is_no_damage, setup, teardown)
{
    static const uint8_t zeros[VFS_SECTOR];
    struct vfs_file *file = NULL;

    assert_int_equal(vfs.ops->open(vfs.ctx, "wal-00000001-0000000000000004", false, &file), ERR_OK);
    assert_int_equal(vfs.ops->pwrite(file, VFS_BLOCK + VFS_SECTOR, zeros, sizeof(zeros)), ERR_OK);
    vfs.ops->close(file);
    assert_int_equal(run_inspect(""), 0);
    assert_line("wal-00000001-0000000000000004", "torn tail: ");
    assert_non_null(strstr(output, "never acknowledged"));
}

TEST(leftover_files_are_no_damage, setup, teardown)
{
    struct vfs_file *file = NULL;

    assert_int_equal(vfs.ops->open(vfs.ctx, "snap-local.tmp", true, &file), ERR_OK);
    vfs.ops->close(file);
    assert_int_equal(vfs.ops->open(vfs.ctx, "notes", true, &file), ERR_OK);
    vfs.ops->close(file);
    assert_int_equal(vfs.ops->open(vfs.ctx, "1-full.backup", true, &file), ERR_OK);
    vfs.ops->close(file);
    assert_int_equal(run_inspect(""), 0);
    assert_line("snap-local.tmp", "left over: ");
    assert_line("1-full.backup", "backup: a backup, not read here: 'zabra inspect' it alone");
    assert_line("notes   ", "unknown: ");
}

static json_t *file_in(const json_t *root, const char *name)
{
    json_t *file = NULL;
    size_t index = 0;

    json_array_foreach(json_object_get(root, "files"), index, file)
    {
        if (strcmp(json_string_value(json_object_get(file, "file")), name) == 0) {
            return file;
        }
    }
    return NULL;
}

TEST(the_same_as_json, setup, teardown)
{
    json_error_t error;

    assert_int_equal(run_inspect("--json"), 0);

    json_t *root = json_loads(output, 0, &error);

    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "verdict")), "sound");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "log"), "records")),
                     RECORDS);
    assert_true(json_is_true(json_object_get(file_in(root, SNAPSHOT), "sound")));
    json_decref(root);
    flip(SNAPSHOT, 200);
    assert_int_equal(run_inspect("--json"), 1);
    root = json_loads(output, 0, &error);
    assert_non_null(root);
    assert_true(json_is_false(json_object_get(root, "sound")));
    assert_string_equal(json_string_value(json_object_get(file_in(root, SNAPSHOT), "verdict")),
                        "damaged");
    json_decref(root);
}

TEST(wrong_usage, setup, teardown)
{
    assert_int_equal(run_inspect("--nonsense"), 2);
    assert_int_equal(run_inspect("--json --records"), 2);
    assert_int_equal(run_inspect("another"), 2);
}

TEST(a_directory_in_use_is_refused, setup, teardown)
{
    assert_int_equal(vfs.ops->lock(vfs.ctx), ERR_OK);
    assert_int_equal(run_inspect(""), 1);
    assert_non_null(strstr(output, "in use"));
}
