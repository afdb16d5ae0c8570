/*
 * wire.h - the byte codec of disk and wire: little-endian integers, length-prefixed bytes.
 *
 * The reader has a sticky error: read everything, then ask `wire_reader_ok` once. After an error
 * each read gives 0 or an empty slice. Slices point into the input.
 */
#ifndef BASE_WIRE_H
#define BASE_WIRE_H

#include "base/buf.h"
#include "base/slice.h"

#include <endian.h>
#include <string.h>

struct wire_reader {
    const uint8_t *pos;
    const uint8_t *end;
    bool failed; /* Sticky. */
};

void wire_put_u8(struct buf *buf, uint8_t value);
void wire_put_u16(struct buf *buf, uint16_t value);
void wire_put_u32(struct buf *buf, uint32_t value);
void wire_put_u64(struct buf *buf, uint64_t value);
void wire_put_raw(struct buf *buf, struct slice bytes);   /* Without a length. */
void wire_put_bytes(struct buf *buf, struct slice bytes); /* u32 length, then the bytes. */
void wire_put_varint(struct buf *buf, uint64_t value);    /* LEB128, 1-10 bytes, shortest form. */

void wire_reader_init(struct wire_reader *reader, struct slice input);
uint8_t wire_get_u8(struct wire_reader *reader);
uint16_t wire_get_u16(struct wire_reader *reader);
uint32_t wire_get_u32(struct wire_reader *reader);
uint64_t wire_get_u64(struct wire_reader *reader);
uint64_t wire_get_varint(struct wire_reader *reader);
struct slice wire_get_raw(struct wire_reader *reader, size_t len);

/* Fails when the length exceeds `len_max` or the rest of the input. */
struct slice wire_get_bytes(struct wire_reader *reader, size_t len_max);

/* The form of a struct's member on the wire. A table of members, which ends with WIRE_END,
 * describes the bytes of a struct for both directions. */
enum wire_form {
    WIRE_END,
    WIRE_INT,   /* An integer or enum of 1, 2, 4 or 8 bytes. */
    WIRE_BOOL,  /* One byte; all but 0 is true. */
    WIRE_ENUM,  /* An enum with few values: one byte. */
    WIRE_RAW,   /* An array of bytes, without a length. */
    WIRE_BYTES, /* A slice: u32 length, then the bytes. */
    WIRE_TEXT,  /* A C string in an array: u32 length, then its bytes, none of which is NUL. */
    WIRE_OWN    /* Forms from here on are private to the file with the table, which writes and reads
                   such fields itself. */
};

struct wire_field {
    unsigned form; /* enum wire_form. */
    size_t offset; /* Offset in the struct. */
    size_t size;   /* Bytes of the member; BYTES: the most that is accepted. */
};

#define WIRE_FIELD(form, type, member)                            \
    {                                                             \
        form, offsetof(type, member), sizeof(((type *)0)->member) \
    }
#define WIRE_SLICE(type, member, len_max)           \
    {                                               \
        WIRE_BYTES, offsetof(type, member), len_max \
    }

/* wire_put_... write members of `from`, wire_get_... fill in members of `to`: all members in the
 * table, or one. */
void wire_put_fields(struct buf *buf, const struct wire_field *fields, const void *from);
void wire_get_fields(struct wire_reader *reader, const struct wire_field *fields, void *to);
void wire_put_field(struct buf *buf, const struct wire_field *field, const void *from);
void wire_get_field(struct wire_reader *reader, const struct wire_field *field, void *to);

/* Store and load all fields in memory, for headers of fixed length: no field may be BYTES or
 * TEXT. */
void wire_store_fields(uint8_t *out, const struct wire_field *fields, const void *from);
void wire_load_fields(const uint8_t *in, const struct wire_field *fields, void *to);

/* Marks the input as malformed. */
void wire_reader_fail(struct wire_reader *reader);

static inline bool wire_reader_ok(const struct wire_reader *reader)
{
    return !reader->failed;
}

/* True when there was no error and nothing is left over. */
static inline bool wire_reader_done(const struct wire_reader *reader)
{
    return !reader->failed && reader->pos == reader->end;
}

/* Fixed-width access to memory, for headers that are patched in place and for hashes. */
static inline void wire_store_u32(uint8_t *to, uint32_t value)
{
    uint32_t le = htole32(value);

    memcpy(to, &le, sizeof(le));
}

static inline void wire_store_u64(uint8_t *to, uint64_t value)
{
    uint64_t le = htole64(value);

    memcpy(to, &le, sizeof(le));
}

static inline uint32_t wire_load_u32(const uint8_t *from)
{
    uint32_t le;

    memcpy(&le, from, sizeof(le));
    return le32toh(le);
}

static inline uint64_t wire_load_u64(const uint8_t *from)
{
    uint64_t le;

    memcpy(&le, from, sizeof(le));
    return le64toh(le);
}

#endif
