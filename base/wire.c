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

/* Returns the bytes of a field that is neither BYTES nor TEXT. */
static size_t width_of(const struct wire_field *field)
{
    ASSERT(field->form < WIRE_BYTES);
    return field->form == WIRE_BOOL || field->form == WIRE_ENUM ? 1 : field->size;
}

static void store(uint8_t *out, const struct wire_field *field, const void *from)
{
    const void *at = (const uint8_t *)from + field->offset;

    if (field->form == WIRE_RAW || field->size == 1) {
        memcpy(out, at, field->size);
    } else if (field->form == WIRE_ENUM) {
        *out = (uint8_t) * (const uint32_t *)at;
    } else if (field->size == sizeof(uint64_t)) {
        wire_store_u64(out, *(const uint64_t *)at);
    } else if (field->size == sizeof(uint32_t)) {
        wire_store_u32(out, *(const uint32_t *)at);
    } else {
        ASSERT(field->size == sizeof(uint16_t));
        uint16_t le = htole16(*(const uint16_t *)at);

        memcpy(out, &le, sizeof(le));
    }
}

static void load(const uint8_t *in, const struct wire_field *field, void *to)
{
    void *at = (uint8_t *)to + field->offset;

    if (field->form == WIRE_BOOL) {
        *(bool *)at = *in != 0;
    } else if (field->form == WIRE_RAW || field->size == 1) {
        memcpy(at, in, field->size);
    } else if (field->form == WIRE_ENUM) {
        *(uint32_t *)at = *in;
    } else if (field->size == sizeof(uint64_t)) {
        *(uint64_t *)at = wire_load_u64(in);
    } else if (field->size == sizeof(uint32_t)) {
        *(uint32_t *)at = wire_load_u32(in);
    } else {
        ASSERT(field->size == sizeof(uint16_t));
        uint16_t le;

        memcpy(&le, in, sizeof(le));
        *(uint16_t *)at = le16toh(le);
    }
}

void wire_put_field(struct buf *buf, const struct wire_field *field, const void *from)
{
    const void *at = (const uint8_t *)from + field->offset;

    if (field->form == WIRE_BYTES) {
        wire_put_bytes(buf, *(const struct slice *)at);
    } else if (field->form == WIRE_TEXT) {
        wire_put_bytes(buf, slice_str(at));
    } else {
        uint8_t *out = buf_reserve(buf, width_of(field));

        if (out) {
            store(out, field, from);
            buf->len += width_of(field);
        }
    }
}

static void get_text(struct wire_reader *reader, char *to, size_t size)
{
    struct slice text = wire_get_bytes(reader, size - 1);

    if (slice_find(text, '\0') < text.len) {
        wire_reader_fail(reader);
        text.len = 0;
    }
    if (text.len > 0) {
        memcpy(to, text.data, text.len);
    }
    to[text.len] = '\0';
}

void wire_get_field(struct wire_reader *reader, const struct wire_field *field, void *to)
{
    void *at = (uint8_t *)to + field->offset;

    if (field->form == WIRE_BYTES) {
        *(struct slice *)at = wire_get_bytes(reader, field->size);
    } else if (field->form == WIRE_TEXT) {
        get_text(reader, at, field->size);
    } else {
        const uint8_t *in = take(reader, width_of(field));

        if (in) {
            load(in, field, to);
        } else {
            memset(at, 0, field->size);
        }
    }
}

void wire_put_fields(struct buf *buf, const struct wire_field *fields, const void *from)
{
    for (const struct wire_field *field = fields; field->form != WIRE_END; field++) {
        wire_put_field(buf, field, from);
    }
}

void wire_get_fields(struct wire_reader *reader, const struct wire_field *fields, void *to)
{
    for (const struct wire_field *field = fields; field->form != WIRE_END; field++) {
        wire_get_field(reader, field, to);
    }
}

void wire_store_fields(uint8_t *out, const struct wire_field *fields, const void *from)
{
    for (const struct wire_field *field = fields; field->form != WIRE_END; field++) {
        store(out, field, from);
        out += width_of(field);
    }
}

void wire_load_fields(const uint8_t *in, const struct wire_field *fields, void *to)
{
    for (const struct wire_field *field = fields; field->form != WIRE_END; field++) {
        load(in, field, to);
        in += width_of(field);
    }
}
