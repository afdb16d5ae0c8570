/*
 * jsonesc.h - escapes of JSON strings, byte by byte. Bytes from 0x80 on are left as they are: the
 * caller checks whether the text is UTF-8.
 */
#ifndef BASE_JSONESC_H
#define BASE_JSONESC_H

#include "base/slice.h"

enum {
    JSONESC_MAX = 6 /* Bytes of the longest escape. */
};

/* Writes the escape of a byte to `to` and returns its length. A byte that needs no escape is
 * copied: length 1. */
size_t jsonesc_put(uint8_t to[JSONESC_MAX], uint8_t byte);

/* Returns the length in bytes of the whole text with its escapes. */
uint64_t jsonesc_len(struct slice text);

/* Returns the position of the first byte from `pos` on that needs an escape, or text.len. */
size_t jsonesc_run(struct slice text, size_t pos);

/* True when one of eight bytes may need an escape or, if `ascii`, is not ASCII. Subtracting 0x20
 * from each byte borrows, and so sets the top bit, when the byte is smaller: this finds control
 * bytes. XOR with eight quotes turns each quote into 0, and subtracting 1 from 0 borrows; likewise
 * for backslashes. */
static inline bool jsonesc_may_change(const uint8_t *from, bool ascii)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = ones * 0x80;
    uint64_t word;

    memcpy(&word, from, sizeof(word));

    uint64_t control = word - ones * 0x20;
    uint64_t quote = (word ^ ones * '"') - ones;
    uint64_t backslash = (word ^ ones * '\\') - ones;

    uint64_t found = (control | quote | backslash) & ~word;

    return ((ascii ? found | word : found) & highs) != 0;
}

#endif
