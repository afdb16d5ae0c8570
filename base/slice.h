/* slice.h - bytes of another owner. A slice is passed by value; its bytes are never freed through
 * it. */
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

/* Compares the bytes like memcmp (<0, 0, >0); a prefix comes before a longer slice. */
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

/* Returns the position of the first `byte` in `text`; the length when there is none. */
static inline size_t slice_find(struct slice text, uint8_t byte)
{
    const uint8_t *at = text.len > 0 ? memchr(text.data, byte, text.len) : NULL;

    return at ? (size_t)(at - text.data) : text.len;
}

static inline bool slice_is_zero(struct slice bytes)
{
    return bytes.len == 0 ||
           (bytes.data[0] == 0 && memcmp(bytes.data, bytes.data + 1, bytes.len - 1) == 0);
}

/* Returns the value of a hexadecimal digit of either case, or -1. */
static inline int hex_digit(uint8_t byte)
{
    uint8_t lower = byte | 0x20;

    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Returns the slice without its first `len` bytes, which must exist. */
static inline struct slice slice_from(struct slice text, size_t len)
{
    return slice_make(len > 0 ? text.data + len : text.data, text.len - len);
}

/* Cuts off and returns the bytes before the first `byte`, and drops that `byte`. Takes all bytes
 * when there is no such `byte`. */
static inline struct slice slice_cut(struct slice *rest, uint8_t byte)
{
    size_t len = slice_find(*rest, byte);
    struct slice text = slice_make(rest->data, len);

    *rest = slice_from(*rest, len < rest->len ? len + 1 : len);
    return text;
}

#endif
