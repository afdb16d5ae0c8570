#include "base/mem.h"
#include "tests/lib/unit.h"

#include <string.h>

TEST(size_zero_gives_unique_pointers)
{
    char *a = mem_alloc(0);
    char *b = mem_zalloc(0, 8);
    char *c = mem_dup(NULL, 0);

    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    assert_ptr_not_equal(a, b);
    assert_ptr_not_equal(b, c);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(NULL);
}

TEST(zalloc_zeroes)
{
    static const char zeros[64];
    char *data = mem_zalloc(8, 8);

    assert_memory_equal(data, zeros, sizeof(zeros));
    mem_free(data);
}

TEST(realloc_keeps_the_contents)
{
    char *data = mem_realloc(NULL, 4);

    memcpy(data, "abc", 4);
    data = mem_realloc(data, 4000);
    assert_string_equal(data, "abc");
    data = mem_realloc(data, 0);
    assert_non_null(data);
    mem_free(data);
}

TEST(copies)
{
    char *text = mem_strdup("znode");
    char *bytes = mem_dup("a\0b", 3);

    assert_string_equal(text, "znode");
    assert_memory_equal(bytes, "a\0b", 3);
    mem_free(text);
    mem_free(bytes);
}

TEST(an_array_grows_to_its_bound)
{
    enum {
        MAX = 100
    };

    uint32_t *items = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    uint32_t resized = 0;

    while (count < MAX) {
        uint32_t before = cap;

        MEM_GROW(items, count, cap, MAX);
        resized += cap != before;
        assert_true(cap > count && cap <= MAX);
        items[count] = count;
        count++;
    }
    assert_int_equal(cap, MAX);
    assert_int_equal(resized, 5); /* 8, 16, 32, 64, 100. */
    for (uint32_t i = 0; i < MAX; i++) {
        assert_int_equal(items[i], i);
    }
    mem_free(items);
    assert_true(mem_cap_next(0, 3) == 3);
    assert_true(mem_cap_next(SIZE_MAX / 2 + 1, SIZE_MAX) == SIZE_MAX);
    assert_true(mem_cap_next(SIZE_MAX - 1, SIZE_MAX) == SIZE_MAX);
}
