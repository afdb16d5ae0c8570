#include "base/mem.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static void *or_die(void *ptr)
{
    if (!ptr) {
        check_failed(__FILE__, __LINE__, "out of memory");
    }
    return ptr;
}

void *mem_alloc(size_t size)
{
    return or_die(malloc(size ? size : 1));
}

void *mem_zalloc(size_t count, size_t size)
{
    return count && size ? or_die(calloc(count, size)) : or_die(calloc(1, 1));
}

void *mem_realloc(void *ptr, size_t size)
{
    return or_die(realloc(ptr, size ? size : 1));
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
