#include "base/mem.h"

#include "base/lack.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *need(void *ptr, size_t size)
{
    if (!ptr) {
        lack_failed("there is no memory left: %zu bytes were asked for", size);
    }
    return ptr;
}

void *mem_alloc(size_t size)
{
    return need(malloc(size ? size : 1), size);
}

void *mem_zalloc(size_t count, size_t size)
{
    size_t bytes = 0;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        bytes = SIZE_MAX;
    }
    return need(bytes ? calloc(count, size) : calloc(1, 1), bytes);
}

void *mem_realloc(void *ptr, size_t size)
{
    return need(realloc(ptr, size ? size : 1), size);
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
