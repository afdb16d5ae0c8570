#include "base/buf.h"
#include "tests/lib/unit.h"

TEST(appends_and_grows)
{
    struct buf buf;

    buf_init(&buf, 1 << 20);
    for (int i = 0; i < 5000; i++) {
        assert_true(buf_append_byte(&buf, (uint8_t)i));
    }
    assert_int_equal(buf.len, 5000);
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(buf.data[i], (uint8_t)i);
    }
    buf_release(&buf);
    assert_null(buf.data);
    assert_true(buf_append_str(&buf, "again"));
    buf_release(&buf);
}

TEST(nothing_appended_is_nothing_changed)
{
    struct buf buf;

    buf_init(&buf, 0);
    assert_true(buf_append(&buf, NULL, 0));
    assert_true(buf_append_slice(&buf, slice_make(NULL, 0)));
    assert_int_equal(buf.len, 0);
    assert_string_equal(buf_cstr(&buf), "");
    assert_false(buf_append_byte(&buf, 'x'));
    assert_true(buf.overflow);
    buf_release(&buf);
}

TEST(overflow_keeps_the_contents_and_sticks)
{
    struct buf buf;

    buf_init(&buf, 4);
    assert_true(buf_append_str(&buf, "abc"));
    assert_false(buf_append_str(&buf, "de"));
    assert_false(
        buf_append_byte(&buf, 'd')); /* It would fit, but the buffer has already overflowed. */
    assert_true(slice_eq(buf_slice(&buf), slice_str("abc")));
    buf_clear(&buf);
    assert_true(buf_append_str(&buf, "abcd"));
    assert_string_equal(buf_cstr(&buf), "abcd");
    assert_false(buf.overflow);
    buf_release(&buf);
}

TEST(sizes_near_the_end_of_the_range_do_not_wrap)
{
    struct buf buf;

    buf_init(&buf, SIZE_MAX - 1);
    assert_true(buf_append_str(&buf, "abc"));
    assert_null(buf_reserve(&buf, SIZE_MAX - 2));
    assert_null(buf_reserve(&buf, SIZE_MAX));
    buf_release(&buf);
}

TEST(reserve_gives_room_without_using_it)
{
    struct buf buf;

    buf_init(&buf, 100);

    uint8_t *to = buf_reserve(&buf, 100);

    assert_non_null(to);
    assert_int_equal(buf.len, 0);
    memset(to, 'x', 100);
    buf.len = 100;
    assert_int_equal(strlen(buf_cstr(&buf)), 100);
    buf_release(&buf);
}

TEST(printf)
{
    struct buf buf;

    buf_init(&buf, 200);
    assert_true(buf_printf(&buf, "%s-%d", "a", 7));
    assert_true(buf_printf(&buf, "%100s", "b"));
    assert_int_equal(buf.len, 103);
    assert_memory_equal(buf.data, "a-7   ", 6);
    assert_int_equal(buf.data[102], 'b');
    assert_true(buf_printf(&buf, "%97s", "c"));
    assert_int_equal(buf.len, 200);
    assert_false(buf_printf(&buf, "d"));
    assert_int_equal(buf.len, 200);
    assert_true(buf.overflow);
    buf_release(&buf);
}

TEST(consume)
{
    struct buf buf;

    buf_init(&buf, 100);
    buf_consume(&buf, 0);
    buf_append_str(&buf, "abcdef");
    buf_consume(&buf, 2);
    assert_string_equal(buf_cstr(&buf), "cdef");
    buf_consume(&buf, 4);
    assert_int_equal(buf.len, 0);
    buf_release(&buf);
}
