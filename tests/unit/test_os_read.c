/* Files that keys of the configuration name: what is read, and what is refused. */
#include "base/os_read.h"
#include "tests/lib/cert_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST = 5
};

struct place {
    struct cert_kit kit; /* Only its directory is used. */
    char path[CERT_KIT_PATH_MAX];
};

static void begin(struct place *place)
{
    cert_kit_open(&place->kit);
    (void)cert_kit_path(&place->kit, "file", place->path);
}

static void end(struct place *place)
{
    cert_kit_close(&place->kit);
}

/* `said` NULL: the file can be read, and holds `bytes`; else a part of the sentence. */
static void expect(const struct place *place, bool secret, const char *bytes, const char *said)
{
    const struct os_source source = {
        .key = "someFile", .path = place->path, .bytes_max = MOST, .secret = secret};
    char error[512] = "";
    struct buf got;

    if (!said) {
        assert_true(os_read(&source, &got, error, sizeof(error)));
        assert_int_equal(got.len, strlen(bytes));
        assert_memory_equal(got.data, bytes, got.len);
        os_read_release(&got);
        return;
    }
    assert_false(os_read(&source, &got, error, sizeof(error)));
    os_read_release(&got); /* Accepted, but not needed. */
    assert_int_equal(strncmp(error, "someFile: ", 10), 0);
    assert_non_null(strstr(error, place->path));
    assert_non_null(strstr(error, said));
}

TEST(a_file_is_read_up_to_its_limit, place, begin, end)
{
    cert_kit_write(&place->kit, "file", slice_str(""));
    expect(place, false, "", NULL);
    cert_kit_write(&place->kit, "file", slice_str("12345"));
    expect(place, true, "12345", NULL);
    cert_kit_write(&place->kit, "file", slice_str("123456"));
    expect(place, false, NULL, " has more than 5 bytes; check the path");
}

TEST(a_secret_belongs_to_its_user, place, begin, end)
{
    cert_kit_write(&place->kit, "file", slice_str("1"));
    assert_int_equal(chmod(place->path, 0640), 0); /* A group may be meant. */
    expect(place, true, "1", NULL);
    assert_int_equal(chmod(place->path, 0604), 0);
    expect(place, false, "1", NULL);
    expect(place, true, NULL, "; run chmod 600 on it");
    assert_int_equal(chmod(place->path, 0602), 0);
    expect(place, true, NULL, "; run chmod 600 on it");
}

/* Root copies files, and the user of the service reads them: the sentence has this user. */
TEST(a_file_of_another_user_names_who_must_read_it, place, begin, end)
{
    const uid_t before = geteuid();
    char said[128];

    cert_kit_write(&place->kit, "file", slice_str("1"));
    assert_int_equal(chmod(place->path, 0), 0);
    if (before == 0) {
        assert_int_equal(seteuid(65534), 0); /* Root reads everything. */
    }
    (void)snprintf(said, sizeof(said),
                   " the user with id %u must be able to read it (chgrp and chmod 640)",
                   (unsigned)geteuid());
    expect(place, true, NULL, said);
    assert_int_equal(seteuid(before), 0);
}

/* A FIFO without a writer would block the thread. */
TEST(what_is_no_file_is_refused_at_once, place, begin, end)
{
    expect(place, false, NULL,
           " cannot be read: No such file or directory; check path and permission");
    assert_int_equal(mkfifo(place->path, 0600), 0);
    expect(place, true, NULL, " is not a regular file; check the path");
    assert_int_equal(unlink(place->path), 0);
    assert_int_equal(mkdir(place->path, 0700), 0);
    expect(place, false, NULL, " is not a regular file; check the path");
    assert_int_equal(rmdir(place->path), 0);
}
