/*
 * wire.h - the encoding of ZooKeeper's protocol: big-endian numbers, bytes behind an int length,
 * vectors behind an int count; -1 stands for null.
 *
 * The reader is that of base/wire.h, with its sticky error and bounds; the functions here only turn
 * the bytes of numbers round. Writers append to a buf, whose overflow is checked once at the end.
 */
#ifndef ZK_WIRE_H
#define ZK_WIRE_H

#include "base/wire.h"

enum {
    ZK_INT_BYTES = 4,
    ZK_LONG_BYTES = 8
};

/* After a failure each read gives 0, false or null. */
int32_t zk_get_int(struct wire_reader *reader);
int64_t zk_get_long(struct wire_reader *reader);
bool zk_get_bool(struct wire_reader *reader); /* All but 0 is true. */

/* Reads a buffer or a ustring. The slice points into the input. Null has no `data`; empty bytes
 * have. Fails when the length is below -1 or beyond the input. */
struct slice zk_get_bytes(struct wire_reader *reader);

/* Reads the count of a vector; a negative one means null or, as for ZooKeeper, no element: 0. Fails
 * when that many elements of at least `element_bytes` are more than the rest of the input. */
uint32_t zk_get_count(struct wire_reader *reader, size_t element_bytes);

void zk_put_int(struct buf *out, int32_t value);
void zk_put_long(struct buf *out, int64_t value);
void zk_put_bool(struct buf *out, bool value);
void zk_put_bytes(struct buf *out, struct slice bytes); /* Never null. */
void zk_put_null(struct buf *out);

/* Leaves room for an int that is known later, and returns its position. zk_patch_int sets it. It
 * does nothing when the buf has overflowed. */
size_t zk_put_space(struct buf *out);
void zk_patch_int(struct buf *out, size_t at, int32_t value);

/* Begin a frame, and set its length when all of it is written. When the buf has overflowed, the
 * frame is taken off it. */
size_t zk_frame_begin(struct buf *out);
void zk_frame_end(struct buf *out, size_t at);

/* Write to and read from memory. */
static inline void zk_store_int(uint8_t *to, int32_t value)
{
    uint32_t be = htobe32((uint32_t)value);

    memcpy(to, &be, sizeof(be));
}

static inline void zk_store_long(uint8_t *to, int64_t value)
{
    uint64_t be = htobe64((uint64_t)value);

    memcpy(to, &be, sizeof(be));
}

static inline int32_t zk_load_int(const uint8_t *from)
{
    uint32_t be;

    memcpy(&be, from, sizeof(be));
    return (int32_t)be32toh(be);
}

#endif
