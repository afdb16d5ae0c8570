/* Crashes at every call to the disk of a scripted life. */
#include "base/mem.h"
#include "tests/lib/store_life.h"
#include "tests/lib/unit.h"

static struct life *life;

static int setup(void **state)
{
    (void)state;
    life = mem_zalloc(1, sizeof(*life));
    life_init(life);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    life_release(life);
    mem_free(life);
    return 0;
}

static void every_image_opens_with_what_was_durable(void **state)
{
    (void)state;
    assert_int_equal(life_crash_everywhere(life, 0, life->step_count, VFS_MEM_SECTORS, 1), 0);
}

/* What is read back after a kill may be in the page cache only. */
static void opening_tells_only_what_is_durable(void **state)
{
    (void)state;
    assert_int_equal(life_kill_everywhere(life, 4), 0);
}

/* A disk without atomic sectors: quarantine is allowed, wrong data are not. */
static void half_written_sectors_never_give_wrong_data(void **state)
{
    size_t from = life_find("rotate again");

    (void)state;
    assert_int_equal(life_crash_everywhere(life, from, from + 5, VFS_MEM_TORN, 2), 0);
}

static void failing_calls_lose_nothing(void **state)
{
    (void)state;
    assert_int_equal(life_fail_everywhere(life, ERR_IO, 1), 0);
}

static void full_disk_loses_nothing(void **state)
{
    (void)state;
    assert_int_equal(life_fail_everywhere(life, ERR_NO_SPACE, 1), 0);
}

/* EMFILE and ENFILE are no failed disk: each operation is run again and loses nothing. */
static void lack_of_descriptors_loses_nothing(void **state)
{
    (void)state;
    assert_int_equal(life_lack_files_everywhere(life), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_image_opens_with_what_was_durable),
        cmocka_unit_test(opening_tells_only_what_is_durable),
        cmocka_unit_test(half_written_sectors_never_give_wrong_data),
        cmocka_unit_test(failing_calls_lose_nothing),
        cmocka_unit_test(full_disk_loses_nothing),
        cmocka_unit_test(lack_of_descriptors_loses_nothing),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
