#include "base/blob.h"
#include "tests/lib/unit.h"

static void test_holds_a_copy(void **state)
{
    char text[] = "data";
    struct blob *blob = blob_new(slice_str(text));

    (void)state;
    text[0] = 'x';
    assert_true(slice_eq(blob_slice(blob), slice_str("data")));
    blob_unref(blob);
}

static void test_lives_until_the_last_reference(void **state)
{
    struct blob *blob = blob_alloc(3);

    (void)state;
    memcpy(blob->data, "abc", 3);
    assert_ptr_equal(blob_ref(blob), blob);
    blob_unref(blob);
    assert_true(slice_eq(blob_slice(blob), slice_str("abc")));
    blob_unref(blob);
}

static void test_null_and_empty(void **state)
{
    struct blob *blob = blob_new(slice_make(NULL, 0));

    (void)state;
    assert_int_equal(blob_slice(blob).len, 0);
    blob_unref(blob);
    assert_null(blob_ref(NULL));
    blob_unref(NULL);
    assert_int_equal(blob_slice(NULL).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holds_a_copy),
        cmocka_unit_test(test_lives_until_the_last_reference),
        cmocka_unit_test(test_null_and_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
