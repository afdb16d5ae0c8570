/* utf8.h - strict UTF-8 (RFC 3629: no surrogates, no over-long forms, at most U+10FFFF). */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/slice.h"

bool utf8_valid(struct slice text);

/* Decodes one code point at `*pos` and moves past it; returns -1 and does not move when invalid. */
int32_t utf8_next(struct slice text, size_t *pos);

#endif
