#include "base/logrec.h"
#include "tests/lib/unit.h"

TEST(zxid_parts)
{
    zxid_t zxid = zxid_make(0x80000001, 0xfffffffe);

    assert_true(zxid == UINT64_C(0x80000001fffffffe));
    assert_int_equal(zxid_epoch(zxid), 0x80000001);
    assert_int_equal(zxid_counter(zxid), 0xfffffffe);
    assert_true(zxid_make(2, 0) > zxid_make(1, UINT32_MAX));
}

/* Counters start again with each epoch, whose start is a record of its own. */
TEST(the_distance_of_two_zxids)
{
    assert_int_equal(zxid_behind(zxid_make(2, 7), zxid_make(2, 3)), 4);
    assert_int_equal(zxid_behind(zxid_make(2, 7), zxid_make(2, 7)), 0);
    assert_int_equal(zxid_behind(zxid_make(2, 3), zxid_make(2, 7)), 0);
    assert_int_equal(zxid_behind(zxid_make(3, 0), zxid_make(1, 900)), 1);
    assert_int_equal(zxid_behind(zxid_make(3, 5), zxid_make(2, 900)), 6);
}

TEST(holds_a_copy_and_counts_references)
{
    char text[] = "payload";
    struct logrec *rec =
        logrec_new(LOGREC_TXN, zxid_make(1, 2), zxid_make(1, 1), 99, slice_str(text));

    text[0] = 'x';
    assert_ptr_equal(logrec_ref(rec), rec);
    logrec_unref(rec);
    assert_true(slice_eq(logrec_payload(rec), slice_str("payload")));
    assert_int_equal(rec->type, LOGREC_TXN);
    assert_true(rec->zxid == zxid_make(1, 2) && rec->prev == zxid_make(1, 1));
    assert_true(rec->chain == logrec_chain(99, LOGREC_TXN, zxid_make(1, 2), zxid_make(1, 1),
                                           slice_str("payload")));
    logrec_unref(rec);
    logrec_unref(NULL);
}

TEST(the_chain_depends_on_every_part)
{
    const uint64_t base = logrec_chain(1, LOGREC_TXN, 3, 2, slice_str("a"));
    const uint64_t others[] = {
        logrec_chain(2, LOGREC_TXN, 3, 2, slice_str("a")),
        logrec_chain(1, LOGREC_EPOCH, 3, 2, slice_str("a")),
        logrec_chain(1, LOGREC_TXN, 4, 2, slice_str("a")),
        logrec_chain(1, LOGREC_TXN, 3, 1, slice_str("a")),
        logrec_chain(1, LOGREC_TXN, 3, 2, slice_str("b")),
        logrec_chain(1, LOGREC_TXN, 3, 2, slice_make("a\0", 2)),
        logrec_chain(1, LOGREC_TXN, 3, 2, slice_make(NULL, 0)),
    };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_true(others[i] != base);
    }
    assert_true(base == logrec_chain(1, LOGREC_TXN, 3, 2, slice_str("a")));
}
