/* slice.h - bytes of another owner. Passed by value; never freed through it. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include "base/minmax.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const uint8_t *data; /* May be NULL when `len` is 0. */
    size_t len;          /* Bytes. */
};

static inline struct slice slice_make(const void *data, size_t len)
{
    return (struct slice){.data = (const uint8_t *)data, .len = len};
}

static inline struct slice slice_str(const char *text)
{
    return (struct slice){.data = (const uint8_t *)text, .len = strlen(text)};
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Orders by bytes, a prefix before what it begins: <0, 0, >0 as memcmp. */
static inline int slice_cmp(struct slice a, struct slice b)
{
    size_t len = min_size(a.len, b.len);
    int order = len == 0 ? 0 : memcmp(a.data, b.data, len);

    if (order != 0) {
        return order;
    }
    return a.len < b.len ? -1 : a.len > b.len;
}

static inline bool slice_starts_with(struct slice text, struct slice prefix)
{
    return text.len >= prefix.len &&
           (prefix.len == 0 || memcmp(text.data, prefix.data, prefix.len) == 0);
}

#endif
