#include "base/wire.h"

#include "base/check.h"

#include <endian.h>

enum {
    VARINT_LEN_MAX = 10
};

void wire_put_u8(struct buf *buf, uint8_t value)
{
    buf_append_byte(buf, value);
}

void wire_put_u16(struct buf *buf, uint16_t value)
{
    uint16_t le = htole16(value);

    buf_append(buf, &le, sizeof(le));
}

void wire_put_u32(struct buf *buf, uint32_t value)
{
    uint32_t le = htole32(value);

    buf_append(buf, &le, sizeof(le));
}

void wire_put_u64(struct buf *buf, uint64_t value)
{
    uint64_t le = htole64(value);

    buf_append(buf, &le, sizeof(le));
}

void wire_put_raw(struct buf *buf, struct slice bytes)
{
    buf_append_slice(buf, bytes);
}

void wire_put_bytes(struct buf *buf, struct slice bytes)
{
    ASSERT(bytes.len <= UINT32_MAX);

    wire_put_u32(buf, (uint32_t)bytes.len);
    buf_append_slice(buf, bytes);
}

void wire_put_varint(struct buf *buf, uint64_t value)
{
    uint8_t bytes[VARINT_LEN_MAX];
    size_t len = 0;

    while (value >= 0x80) {
        bytes[len++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    bytes[len++] = (uint8_t)value;
    buf_append(buf, bytes, len);
}

void wire_reader_init(struct wire_reader *reader, struct slice input)
{
    static const uint8_t nothing[1];
    const uint8_t *pos = input.data ? input.data : nothing;

    *reader = (struct wire_reader){.pos = pos, .end = pos + input.len};
}

void wire_reader_fail(struct wire_reader *reader)
{
    reader->failed = true;
    reader->pos = reader->end;
}

/* Takes `len` bytes off the input; NULL once the reader has failed. */
static const uint8_t *take(struct wire_reader *reader, size_t len)
{
    if (reader->failed || len > (size_t)(reader->end - reader->pos)) {
        wire_reader_fail(reader);
        return NULL;
    }

    const uint8_t *from = reader->pos;

    reader->pos += len;
    return from;
}

uint8_t wire_get_u8(struct wire_reader *reader)
{
    const uint8_t *from = take(reader, 1);

    return from ? *from : 0;
}

uint16_t wire_get_u16(struct wire_reader *reader)
{
    const uint8_t *from = take(reader, sizeof(uint16_t));
    uint16_t le = 0;

    if (from) {
        memcpy(&le, from, sizeof(le));
    }
    return le16toh(le);
}

uint32_t wire_get_u32(struct wire_reader *reader)
{
    const uint8_t *from = take(reader, sizeof(uint32_t));

    return from ? wire_load_u32(from) : 0;
}

uint64_t wire_get_u64(struct wire_reader *reader)
{
    const uint8_t *from = take(reader, sizeof(uint64_t));

    return from ? wire_load_u64(from) : 0;
}

uint64_t wire_get_varint(struct wire_reader *reader)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < VARINT_LEN_MAX; i++) {
        uint8_t byte = wire_get_u8(reader);
        bool last = (byte & 0x80) == 0;
        bool too_big = i == VARINT_LEN_MAX - 1 && byte > 1;
        bool over_long = last && byte == 0 && i > 0;

        if (reader->failed || too_big || over_long) {
            break;
        }
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (last) {
            return value;
        }
    }
    wire_reader_fail(reader);
    return 0;
}

struct slice wire_get_raw(struct wire_reader *reader, size_t len)
{
    const uint8_t *from = take(reader, len);

    return from ? slice_make(from, len) : slice_make(NULL, 0);
}

struct slice wire_get_bytes(struct wire_reader *reader, size_t len_max)
{
    uint32_t len = wire_get_u32(reader);

    if (len > len_max) {
        wire_reader_fail(reader);
    }
    return wire_get_raw(reader, len);
}

/* ---- Structs by a table. ---- */

static void put_int(struct buf *buf, const void *from, size_t size)
{
    if (size == sizeof(uint64_t)) {
        wire_put_u64(buf, *(const uint64_t *)from);
    } else if (size == sizeof(uint32_t)) {
        wire_put_u32(buf, *(const uint32_t *)from);
    } else {
        ASSERT(size == 1);
        wire_put_u8(buf, *(const uint8_t *)from);
    }
}

void wire_put_fields(struct buf *buf, const struct wire_field *fields, const void *from)
{
    for (const struct wire_field *field = fields; field->form != WIRE_END; field++) {
        const void *at = (const uint8_t *)from + field->offset;

        if (field->form == WIRE_INT) {
            put_int(buf, at, field->size);
        } else if (field->form == WIRE_RAW) {
            wire_put_raw(buf, slice_make(at, field->size));
        } else {
            wire_put_bytes(buf, *(const struct slice *)at);
        }
    }
}

static void get_int(struct wire_reader *reader, void *to, size_t size)
{
    if (size == sizeof(uint64_t)) {
        *(uint64_t *)to = wire_get_u64(reader);
    } else if (size == sizeof(uint32_t)) {
        *(uint32_t *)to = wire_get_u32(reader);
    } else {
        ASSERT(size == 1);
        *(uint8_t *)to = wire_get_u8(reader);
    }
}

void wire_get_fields(struct wire_reader *reader, const struct wire_field *fields, void *to)
{
    for (const struct wire_field *field = fields; field->form != WIRE_END; field++) {
        void *at = (uint8_t *)to + field->offset;

        if (field->form == WIRE_INT) {
            get_int(reader, at, field->size);
        } else if (field->form == WIRE_RAW) {
            const uint8_t *from = take(reader, field->size);

            if (from) {
                memcpy(at, from, field->size);
            }
        } else {
            *(struct slice *)at = wire_get_bytes(reader, field->size);
        }
    }
}
