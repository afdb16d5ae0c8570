#include "base/map.h"
#include "tests/lib/unit.h"

static int one = 1;
static int two = 2;

TEST(empty)
{
    struct map map;
    size_t cursor = 0;

    map_init(&map);
    assert_int_equal(map_count(&map), 0);
    assert_null(map_get(&map, slice_str("a")));
    assert_null(map_remove_u64(&map, 0));
    assert_null(map_each(&map, &cursor));
    map_release(&map);
}

TEST(put_replaces_and_returns_the_old)
{
    struct map map;

    map_init(&map);
    assert_null(map_put(&map, slice_str("a"), &one));
    assert_ptr_equal(map_put(&map, slice_str("a"), &two), &one);
    assert_ptr_equal(map_get(&map, slice_str("a")), &two);
    assert_int_equal(map_count(&map), 1);
    assert_ptr_equal(map_remove(&map, slice_str("a")), &two);
    assert_null(map_remove(&map, slice_str("a")));
    assert_int_equal(map_count(&map), 0);
    map_release(&map);
}

/* The key belongs to the value: after a replacement the caller may free the old value. */
TEST(put_takes_the_new_key_memory)
{
    struct map map;
    char old_key[] = "key";
    char new_key[] = "key";

    map_init(&map);
    map_put(&map, slice_str(old_key), &one);
    map_put(&map, slice_str(new_key), &two);
    old_key[0] = 'x';
    assert_ptr_equal(map_get(&map, slice_str("key")), &two);
    map_release(&map);
}

TEST(unusual_keys)
{
    struct map bytes;
    struct map numbers;

    map_init(&bytes);
    map_init(&numbers);
    map_put(&bytes, slice_make(NULL, 0), &one);
    assert_ptr_equal(map_get(&bytes, slice_str("")), &one);
    assert_null(map_get(&bytes, slice_make("\0", 1)));
    map_put_u64(&numbers, 0, &one);
    map_put_u64(&numbers, UINT64_MAX, &two);
    assert_ptr_equal(map_get_u64(&numbers, 0), &one);
    assert_ptr_equal(map_get_u64(&numbers, UINT64_MAX), &two);
    assert_null(map_get_u64(&numbers, 1));
    map_release(&bytes);
    map_release(&numbers);
}

TEST(each_visits_all_once)
{
    struct map map;
    static int values[1000];
    size_t cursor = 0;
    int *value;

    map_init(&map);
    for (size_t i = 0; i < 1000; i++) {
        map_put_u64(&map, i * 4096, &values[i]);
    }
    assert_int_equal(map_count(&map), 1000);
    while ((value = map_each(&map, &cursor)) != NULL) {
        (*value)++;
    }
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(values[i], 1);
    }
    map_release(&map);
}
