#include "base/slice.h"
#include "tests/lib/unit.h"

TEST(equality)
{
    assert_true(slice_eq(slice_str("abc"), slice_make("abcd", 3)));
    assert_false(slice_eq(slice_str("abc"), slice_str("abd")));
    assert_false(slice_eq(slice_str("abc"), slice_str("ab")));
    assert_true(slice_eq(slice_make(NULL, 0), slice_str("")));
}

TEST(order_is_by_unsigned_bytes_then_length)
{
    assert_true(slice_cmp(slice_str("a"), slice_str("b")) < 0);
    assert_true(slice_cmp(slice_str("\xff"), slice_str("a")) > 0);
    assert_true(slice_cmp(slice_str("a"), slice_str("ab")) < 0);
    assert_true(slice_cmp(slice_str("ab"), slice_str("a")) > 0);
    assert_int_equal(slice_cmp(slice_str("ab"), slice_str("ab")), 0);
    assert_true(slice_cmp(slice_make(NULL, 0), slice_str("a")) < 0);
    assert_int_equal(slice_cmp(slice_make(NULL, 0), slice_make(NULL, 0)), 0);
}

TEST(prefix)
{
    assert_true(slice_starts_with(slice_str("/a/b"), slice_str("/a")));
    assert_true(slice_starts_with(slice_str("/a"), slice_str("/a")));
    assert_true(slice_starts_with(slice_str("/a"), slice_make(NULL, 0)));
    assert_false(slice_starts_with(slice_str("/"), slice_str("/a")));
    assert_false(slice_starts_with(slice_str("/b/a"), slice_str("/a")));
}
