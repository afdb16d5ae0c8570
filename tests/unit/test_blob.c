#include "base/blob.h"
#include "tests/lib/unit.h"

TEST(holds_a_copy)
{
    char text[] = "data";
    struct blob *blob = blob_new(slice_str(text));

    text[0] = 'x';
    assert_true(slice_eq(blob_slice(blob), slice_str("data")));
    blob_unref(blob);
}

TEST(lives_until_the_last_reference)
{
    struct blob *blob = blob_alloc(3);

    memcpy(blob->data, "abc", 3);
    assert_ptr_equal(blob_ref(blob), blob);
    blob_unref(blob);
    assert_true(slice_eq(blob_slice(blob), slice_str("abc")));
    blob_unref(blob);
}

TEST(null_and_empty)
{
    struct blob *blob = blob_new(slice_make(NULL, 0));

    assert_int_equal(blob_slice(blob).len, 0);
    blob_unref(blob);
    assert_null(blob_ref(NULL));
    blob_unref(NULL);
    assert_int_equal(blob_slice(NULL).len, 0);
}
