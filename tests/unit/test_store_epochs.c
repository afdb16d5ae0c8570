/* What a store reports about the epochs in its log. */
#include "base/mem.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

enum {
    EPOCHS = 5000 /* More than one message between replicas can list. */
};

static void reopen(struct skit *kit, bool clean)
{
    skit_close(kit, clean);
    assert_int_equal(skit_open(kit), ERR_OK);
}

/* The log reports counters from 0 to `last` of `epoch`, as entry number `index` of `count`. */
static void check_epoch(struct store *store, size_t count, size_t index, uint32_t epoch,
                        uint32_t last)
{
    size_t found = 0;
    struct epoch_range *ranges = store_epochs(store, &found);

    assert_int_equal(found, count);
    assert_int_equal(ranges[index].epoch, epoch);
    assert_int_equal(ranges[index].first, 0);
    assert_int_equal(ranges[index].last, last);
    mem_free(ranges);
}

TEST(epochs_describe_the_log, skit, no_set_up, skit_release)
{
    size_t count = 1;

    skit_init(skit, KIT_SEGMENT);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit_format(skit), ERR_OK);
    assert_int_equal(skit_append(skit, 1, 4, 10), ERR_OK);
    assert_int_equal(skit_append(skit, 3, 2, 10), ERR_OK);
    for (int round = 0; round < 2; round++) {
        check_epoch(skit->store, 2, 0, 1, 3);
        check_epoch(skit->store, 2, 1, 3, 1);
        reopen(skit, false);
    }
    assert_int_equal(skit_truncate(skit, 3), ERR_OK);
    check_epoch(skit->store, 1, 0, 1, 2);
    assert_int_equal(skit_truncate(skit, 0), ERR_OK);
    mem_free(store_epochs(skit->store, &count));
    assert_int_equal(count, 0);
}

/* If the list were incomplete, the core would not find the base of the log in it. */
TEST(a_log_of_very_many_epochs_lists_all_of_them, skit, no_set_up, skit_release)
{
    skit_init(skit, KIT_SEGMENT);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit_format(skit), ERR_OK);
    for (uint32_t epoch = 1; epoch <= EPOCHS; epoch++) {
        assert_int_equal(skit_append(skit, epoch, 1, 10), ERR_OK);
    }
    reopen(skit, true);
    check_epoch(skit->store, EPOCHS, 0, 1, 0);
    check_epoch(skit->store, EPOCHS, EPOCHS - 1, EPOCHS, 0);
}
