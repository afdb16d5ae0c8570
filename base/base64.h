/* base64.h - RFC 4648 section 4, with padding. Decoding is strict: no blanks, and the
 * unused bits of the last character must be 0. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"
#include "base/err.h"

/* Appends the encoding of `bytes`. */
void base64_encode(struct buf *out, struct slice bytes);

/* Writes the encoding of `bytes` to `to` and returns the number of bytes written. `to` must have
 * room for four bytes per group of three bytes; a last group of one or two bytes counts in full. */
size_t base64_write(uint8_t *to, struct slice bytes);

/* Appends the decoding of `text`. ERR_FORMAT leaves `out` as it was; ERR_TOO_LARGE sets
 * out->overflow. */
enum err base64_decode(struct buf *out, struct slice text);

#endif
