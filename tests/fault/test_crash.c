/* Crashes at every call to the disk of a scripted life. */
#include "base/mem.h"
#include "tests/lib/store_life.h"
#include "tests/lib/unit.h"

static struct life *life;

static void setup(void)
{
    life = mem_zalloc(1, sizeof(*life));
    life_init(life);
}

static void teardown(void)
{
    life_release(life);
    mem_free(life);
}

TEST(every_image_opens_with_what_was_durable, setup, teardown)
{
    assert_int_equal(life_crash_everywhere(life, 0, life->step_count, VFS_MEM_SECTORS, 1), 0);
}

/* After a kill, the data that is read back may exist in the page cache only. */
TEST(an_opening_reports_only_what_is_durable, setup, teardown)
{
    assert_int_equal(life_kill_everywhere(life, 4), 0);
}

/* Without atomic sectors, quarantine is permitted and wrong data is not. */
TEST(half_written_sectors_never_give_wrong_data, setup, teardown)
{
    size_t from = life_find("rotate again");

    assert_int_equal(life_crash_everywhere(life, from, from + 5, VFS_MEM_TORN, 2), 0);
}

TEST(failing_calls_lose_nothing, setup, teardown)
{
    assert_int_equal(life_fail_everywhere(life, ERR_IO, 1), 0);
}

TEST(full_disk_loses_nothing, setup, teardown)
{
    assert_int_equal(life_fail_everywhere(life, ERR_NO_SPACE, 1), 0);
}

/* EMFILE and ENFILE are not a failed disk: each operation runs again and loses nothing. */
TEST(lack_of_descriptors_loses_nothing, setup, teardown)
{
    assert_int_equal(life_lack_files_everywhere(life), 0);
}
