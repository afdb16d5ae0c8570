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
