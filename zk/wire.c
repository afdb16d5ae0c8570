#include "zk/wire.h"

#include "base/check.h"

#include <byteswap.h>

/* wire_get_u32 and wire_get_u64 read little-endian numbers. */
int32_t zk_get_int(struct wire_reader *reader)
{
    return (int32_t)bswap_32(wire_get_u32(reader));
}

int64_t zk_get_long(struct wire_reader *reader)
{
    return (int64_t)bswap_64(wire_get_u64(reader));
}

bool zk_get_bool(struct wire_reader *reader)
{
    return wire_get_u8(reader) != 0;
}

struct slice zk_get_bytes(struct wire_reader *reader)
{
    int32_t len = zk_get_int(reader);

    if (len < -1) {
        wire_reader_fail(reader);
    }
    if (len < 0 || !wire_reader_ok(reader)) {
        return slice_make(NULL, 0);
    }
    return wire_get_raw(reader, (size_t)len);
}

uint32_t zk_get_count(struct wire_reader *reader, size_t element_bytes)
{
    int32_t count = zk_get_int(reader);
    size_t left = (size_t)(reader->end - reader->pos);

    ASSERT(element_bytes > 0);
    if (count <= 0) {
        return 0;
    }
    if ((size_t)count > left / element_bytes) {
        wire_reader_fail(reader);
        return 0;
    }
    return (uint32_t)count;
}

void zk_put_int(struct buf *out, int32_t value)
{
    uint8_t bytes[ZK_INT_BYTES];

    zk_store_int(bytes, value);
    (void)buf_append(out, bytes, sizeof(bytes));
}

void zk_put_long(struct buf *out, int64_t value)
{
    uint8_t bytes[ZK_LONG_BYTES];

    zk_store_long(bytes, value);
    (void)buf_append(out, bytes, sizeof(bytes));
}

void zk_put_bool(struct buf *out, bool value)
{
    (void)buf_append_byte(out, value ? 1 : 0);
}

void zk_put_bytes(struct buf *out, struct slice bytes)
{
    ASSERT(bytes.len <= INT32_MAX);

    zk_put_int(out, (int32_t)bytes.len);
    (void)buf_append_slice(out, bytes);
}

void zk_put_null(struct buf *out)
{
    zk_put_int(out, -1);
}

size_t zk_put_space(struct buf *out)
{
    size_t at = out->len;

    zk_put_int(out, 0);
    return at;
}

void zk_patch_int(struct buf *out, size_t at, int32_t value)
{
    if (!out->overflow) {
        ASSERT(at + ZK_INT_BYTES <= out->len);
        zk_store_int(out->data + at, value);
    }
}

size_t zk_frame_begin(struct buf *out)
{
    return zk_put_space(out);
}

void zk_frame_end(struct buf *out, size_t at)
{
    size_t len = out->len - at;

    if (out->overflow) {
        out->len = at;
        return;
    }
    ASSERT(len >= ZK_INT_BYTES && len - ZK_INT_BYTES <= INT32_MAX);
    zk_patch_int(out, at, (int32_t)(len - ZK_INT_BYTES));
}
