/*
 * buf.h - a growable byte buffer whose maximum is given when it is made.
 *
 * Appending beyond the maximum sets `overflow` and keeps the contents, so a caller may append a
 * whole message and check once at the end.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/slice.h"

struct buf {
    uint8_t *data;   /* Heap memory, NULL until the first append. */
    size_t len;      /* Bytes used. */
    size_t cap;      /* Bytes allocated. */
    size_t size_max; /* Maximum of `len`: an append beyond it sets `overflow`. */
    bool overflow;   /* Sticky until buf_clear. */
};

void buf_init(struct buf *buf, size_t size_max);
void buf_release(struct buf *buf);

/* Empties the buffer, keeps its memory, clears `overflow`. */
void buf_clear(struct buf *buf);

/* Empties the buffer like buf_clear, and frees its memory when that is more than `keep_bytes`. */
static inline void buf_trim(struct buf *buf, size_t keep_bytes)
{
    if (buf->cap > keep_bytes) {
        buf_release(buf);
    }
    buf->len = 0;
    buf->overflow = false;
}

/* Makes room for `len` more bytes behind the contents and returns the address of the room. The
 * caller writes there, and adds the bytes written to buf->len. Returns NULL and sets `overflow`
 * when the maximum would be exceeded. */
uint8_t *buf_reserve(struct buf *buf, size_t len);

/* Each function appends to the buffer, or returns false and sets `overflow` when the maximum would
 * be exceeded. */
bool buf_append(struct buf *buf, const void *data, size_t len);
bool buf_append_slice(struct buf *buf, struct slice slice);
bool buf_append_str(struct buf *buf, const char *text);
bool buf_append_byte(struct buf *buf, uint8_t byte);
bool buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first `len` bytes, moving the rest to the front. */
void buf_consume(struct buf *buf, size_t len);

/* Makes the contents a C string (the terminator is not counted in `len`) and returns it; the
 * terminator always fits, also at the maximum. */
char *buf_cstr(struct buf *buf);

static inline struct slice buf_slice(const struct buf *buf)
{
    return slice_make(buf->data, buf->len);
}

#endif
