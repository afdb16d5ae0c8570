#include "base/mem.h"

#include "base/check.h"
#include "base/lack.h"
#include "base/minmax.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    CAP_FIRST = 8 /* First capacity of a growing array, in items. */
};

static void *need(void *ptr, size_t size)
{
    if (!ptr) {
        lack_failed("there is no memory left: an allocation of %zu bytes failed", size);
    }
    return ptr;
}

void *mem_alloc(size_t size)
{
    return need(malloc(size ? size : 1), size);
}

/* Returns the product; when it overflows, SIZE_MAX, which no allocation can get. */
static size_t product(size_t count, size_t size)
{
    size_t bytes = 0;

    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

void *mem_zalloc(size_t count, size_t size)
{
    size_t bytes = product(count, size);

    return need(bytes ? calloc(count, size) : calloc(1, 1), bytes);
}

void *mem_realloc(void *ptr, size_t size)
{
    return need(realloc(ptr, size ? size : 1), size);
}

size_t mem_cap_next(size_t cap, size_t max)
{
    ASSERT(cap < max);

    return cap > max / 2 ? max : min_size(max_size(cap * 2, CAP_FIRST), max);
}

void *mem_resize(void *items, size_t count, size_t size)
{
    return mem_realloc(items, product(count, size));
}

void *mem_dup(const void *data, size_t size)
{
    void *copy = mem_alloc(size);

    if (size) {
        memcpy(copy, data, size);
    }
    return copy;
}

char *mem_strdup(const char *text)
{
    return mem_dup(text, strlen(text) + 1);
}

void mem_free(void *ptr)
{
    free(ptr);
}

void mem_trim(void)
{
    (void)malloc_trim(0);
}
