/*
 * jsonesc.h - escapes of JSON strings, byte by byte. Bytes from 0x80 on are left as they are:
 * whether the text is UTF-8 is the caller's business.
 */
#ifndef BASE_JSONESC_H
#define BASE_JSONESC_H

#include "base/slice.h"

enum {
    JSONESC_MAX = 6 /* Bytes of one escape. */
};

/* The escape of a byte into `to`; returns its length, which is 1 for a byte that needs none. */
size_t jsonesc_put(uint8_t to[JSONESC_MAX], uint8_t byte);

/* Bytes of the whole text with its escapes. */
uint64_t jsonesc_len(struct slice text);

/* The first byte from `pos` on that needs an escape, or text.len. */
size_t jsonesc_run(struct slice text, size_t pos);

/* True when one of eight bytes may need an escape, or is not ASCII: the borrow of a subtraction
 * shows a small byte, and a byte equal to a searched one is zero, so small, after the exclusive or.
 */
static inline bool jsonesc_may_change(const uint8_t *from)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = ones * 0x80;
    uint64_t word;

    memcpy(&word, from, sizeof(word));

    uint64_t control = word - ones * 0x20;
    uint64_t quote = (word ^ ones * '"') - ones;
    uint64_t backslash = (word ^ ones * '\\') - ones;

    return ((word | control | quote | backslash) & highs) != 0;
}

#endif
