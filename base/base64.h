/* base64.h - RFC 4648 section 4, with padding. Decoding is strict: no blanks, canonical bits. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"
#include "base/err.h"

/* Appends the encoding of `bytes`. */
void base64_encode(struct buf *out, struct slice bytes);

/* The same to where there is room for four bytes for each three, or the rest of three; returns how
 * many were written. */
size_t base64_write(uint8_t *to, struct slice bytes);

/* Appends the decoding of `text`; ERR_FORMAT leaves `out` as it was, ERR_TOO_LARGE sets its
 * `overflow`. */
enum err base64_decode(struct buf *out, struct slice text);

#endif
