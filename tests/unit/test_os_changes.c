/* When changed files are read again: times of all kinds, files that are still being written, and
 * readings that have failed. */
#include "base/os_changes.h"
#include "tests/lib/cert_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <sys/stat.h>

struct watched {
    struct cert_kit kit; /* Only its directory is used. */
    char paths[2][CERT_KIT_PATH_MAX];
    struct os_changes changes;
};

static void begin(struct watched *watched)
{
    cert_kit_open(&watched->kit);
    cert_kit_write(&watched->kit, "a", slice_str("1"));
    cert_kit_write(&watched->kit, "b", slice_str("1"));
    os_changes_add(&watched->changes, cert_kit_path(&watched->kit, "a", watched->paths[0]));
    os_changes_add(&watched->changes, cert_kit_path(&watched->kit, "b", watched->paths[1]));
    os_changes_add(&watched->changes, "");
    os_changes_begin(&watched->changes);
    os_changes_end(&watched->changes, true, 0);
}

static void end(struct watched *watched)
{
    cert_kit_close(&watched->kit);
}

static enum os_due look(struct watched *watched, uint64_t now_ms)
{
    return os_changes_look(&watched->changes, now_ms);
}

static void expect_changed(struct watched *watched)
{
    assert_int_equal(look(watched, 1), OS_NOT_DUE);
    assert_int_equal(look(watched, 1), OS_CHANGED);
    os_changes_begin(&watched->changes);
    os_changes_end(&watched->changes, true, 1);
    assert_int_equal(look(watched, 1000000), OS_NOT_DUE);
}

TEST(only_what_is_named_counts, watched, begin, end)
{
    assert_int_equal(watched->changes.count, 2);
    assert_int_equal(look(watched, 1000000), OS_NOT_DUE);
    assert_int_equal(look(watched, 1000000), OS_NOT_DUE);
}

TEST(a_change_of_bytes_of_the_mode_or_of_existence_counts, watched, begin, end)
{
    cert_kit_write(&watched->kit, "a", slice_str("2"));
    expect_changed(watched);
    assert_int_equal(chmod(watched->paths[1], 0640), 0);
    expect_changed(watched);
    assert_int_equal(remove(watched->paths[1]), 0);
    expect_changed(watched);
    cert_kit_write(&watched->kit, "b", slice_str("1"));
    expect_changed(watched);
}

/* The second file of a renewal may come seconds after the first one. */
TEST(files_that_are_still_written_do_not_count, watched, begin, end)
{
    cert_kit_write(&watched->kit, "a", slice_str("2"));
    assert_int_equal(look(watched, 1), OS_NOT_DUE);
    cert_kit_write(&watched->kit, "b", slice_str("2"));
    expect_changed(watched);
}

TEST(files_that_never_stop_changing_are_read_in_the_end, watched, begin, end)
{
    for (int i = 1; i < OS_CHANGES_LOOKS_MAX; i++) {
        cert_kit_write(&watched->kit, "a", slice_str("2"));
        assert_int_equal(look(watched, 1), OS_NOT_DUE);
    }
    cert_kit_write(&watched->kit, "a", slice_str("2"));
    assert_int_equal(look(watched, 1), OS_CHANGED);
}

TEST(a_failed_reading_is_repeated, watched, begin, end)
{
    os_changes_end(&watched->changes, false, 1000);
    assert_int_equal(look(watched, 1000 + OS_CHANGES_RETRY_MS - 1), OS_NOT_DUE);
    assert_int_equal(look(watched, 1000 + OS_CHANGES_RETRY_MS), OS_RETRY);
    /* A change is read at once, not at the next attempt. */
    cert_kit_write(&watched->kit, "a", slice_str("2"));
    expect_changed(watched);
}
