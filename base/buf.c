#include "base/buf.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    CAP_MIN = 64
};

/* Makes the memory hold `total` bytes and one more, so that a terminator always fits. */
static void grow(struct buf *buf, size_t total)
{
    if (total < buf->cap) {
        return;
    }

    size_t cap = buf->cap < SIZE_MAX / 2 ? buf->cap * 2 : SIZE_MAX;

    if (cap < CAP_MIN) {
        cap = CAP_MIN;
    }
    if (buf->size_max < cap) {
        cap = buf->size_max + 1;
    }
    if (cap <= total) {
        cap = total + 1;
    }
    buf->data = mem_realloc(buf->data, cap);
    buf->cap = cap;
}

void buf_init(struct buf *buf, size_t size_max)
{
    ASSERT(size_max < SIZE_MAX);

    *buf = (struct buf){.size_max = size_max};
}

void buf_release(struct buf *buf)
{
    mem_free(buf->data);
    *buf = (struct buf){.size_max = buf->size_max};
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->overflow = false;
}

uint8_t *buf_reserve(struct buf *buf, size_t len)
{
    if (buf->overflow || len > buf->size_max - buf->len) {
        buf->overflow = true;
        return NULL;
    }
    grow(buf, buf->len + len);
    return buf->data + buf->len;
}

bool buf_append(struct buf *buf, const void *data, size_t len)
{
    uint8_t *to = buf_reserve(buf, len);

    if (!to) {
        return false;
    }
    if (len) {
        memcpy(to, data, len);
        buf->len += len;
    }
    return true;
}

bool buf_append_slice(struct buf *buf, struct slice slice)
{
    return buf_append(buf, slice.data, slice.len);
}

bool buf_append_str(struct buf *buf, const char *text)
{
    return buf_append(buf, text, strlen(text));
}

bool buf_append_byte(struct buf *buf, uint8_t byte)
{
    uint8_t *to = buf_reserve(buf, 1);

    if (!to) {
        return false;
    }
    *to = byte;
    buf->len++;
    return true;
}

bool buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_list again;

    va_start(args, format);
    va_copy(again, args);

    size_t room = buf->cap - buf->len;
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): `args` was just started. */
    int need = vsnprintf(buf->data ? (char *)buf->data + buf->len : NULL, room, format, args);

    ASSERT(need >= 0);

    uint8_t *to = buf_reserve(buf, (size_t)need);

    if (to && (size_t)need >= room) {
        (void)vsnprintf((char *)to, (size_t)need + 1, format, again);
    }
    if (to) {
        buf->len += (size_t)need;
    }
    va_end(again);
    va_end(args);
    return to != NULL;
}

void buf_consume(struct buf *buf, size_t len)
{
    ASSERT(len <= buf->len);

    if (len) {
        memmove(buf->data, buf->data + len, buf->len - len);
        buf->len -= len;
    }
}

char *buf_cstr(struct buf *buf)
{
    grow(buf, buf->len);
    buf->data[buf->len] = '\0';
    return (char *)buf->data;
}
