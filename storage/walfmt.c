#include "storage/walfmt.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/minmax.h"
#include "base/wire.h"

#include <string.h>

enum {
    HEADER_MAGIC = 0x4c41575a, /* "ZWAL" */
    BATCH_MAGIC = 0x5441425a,  /* "ZBAT" */
    HEADER_BYTES = 124,        /* Up to and without its checksum. */
};

_Static_assert((int)WALFMT_BATCH_HEAD <= (int)WALFMT_CONTENT, "the head lies in one sector");

static uint32_t seed_of(uint64_t salt, uint64_t offset, uint64_t number)
{
    uint8_t bytes[24];

    wire_store_u64(bytes, salt);
    wire_store_u64(bytes + 8, offset);
    wire_store_u64(bytes + 16, number);
    return crc32c(0, bytes, sizeof(bytes));
}

bool walfmt_is_zero(const uint8_t *data, size_t len)
{
    return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

void walfmt_header_encode(const struct walfmt_header *header, uint8_t out[VFS_BLOCK])
{
    ASSERT(header->number > 0 && header->number > header->prev_number);
    ASSERT(header->bytes % VFS_BLOCK == 0);

    memset(out, 0, VFS_BLOCK);
    wire_store_u32(out, HEADER_MAGIC);
    wire_store_u32(out + 4, WALFMT_VERSION);
    memcpy(out + 8, header->cluster, STORE_CLUSTER_LEN);
    wire_store_u32(out + 24, header->member_id);
    wire_store_u64(out + 28, header->incarnation);
    wire_store_u64(out + 36, header->history);
    wire_store_u64(out + 44, header->number);
    wire_store_u64(out + 52, header->prev_number);
    wire_store_u64(out + 60, header->prev_offset);
    wire_store_u64(out + 68, header->prev_zxid);
    wire_store_u64(out + 76, header->prev_chain);
    wire_store_u64(out + 84, header->committed);
    wire_store_u64(out + 92, header->salt);
    wire_store_u64(out + 100, header->bytes);
    wire_store_u64(out + 108, header->batch_first);
    wire_store_u32(out + HEADER_BYTES, crc32c(0, out, HEADER_BYTES));
}

enum err walfmt_header_decode(const uint8_t in[VFS_BLOCK], struct walfmt_header *ret_header)
{
    const size_t used = HEADER_BYTES + 4;

    if (wire_load_u32(in) != HEADER_MAGIC || wire_load_u32(in + 4) != WALFMT_VERSION ||
        wire_load_u32(in + HEADER_BYTES) != crc32c(0, in, HEADER_BYTES) ||
        !walfmt_is_zero(in + used, VFS_BLOCK - used)) {
        return ERR_CORRUPT;
    }
    memcpy(ret_header->cluster, in + 8, STORE_CLUSTER_LEN);
    ret_header->member_id = wire_load_u32(in + 24);
    ret_header->incarnation = wire_load_u64(in + 28);
    ret_header->history = wire_load_u64(in + 36);
    ret_header->number = wire_load_u64(in + 44);
    ret_header->prev_number = wire_load_u64(in + 52);
    ret_header->prev_offset = wire_load_u64(in + 60);
    ret_header->prev_zxid = wire_load_u64(in + 68);
    ret_header->prev_chain = wire_load_u64(in + 76);
    ret_header->committed = wire_load_u64(in + 84);
    ret_header->salt = wire_load_u64(in + 92);
    ret_header->bytes = wire_load_u64(in + 100);
    ret_header->batch_first = wire_load_u64(in + 108);
    return ERR_OK;
}

uint64_t walfmt_framed_len(uint64_t raw_len)
{
    ASSERT(raw_len > 0);

    uint64_t sectors = (raw_len + WALFMT_CONTENT - 1) / WALFMT_CONTENT;
    uint64_t blocks = (sectors + WALFMT_BLOCK_SECTORS - 1) / WALFMT_BLOCK_SECTORS;

    return blocks * VFS_BLOCK;
}

/* The owner sizes the buffer for the largest batch: not to fit is a bug. */
static void put(struct buf *raw, struct slice bytes)
{
    bool fits = buf_append_slice(raw, bytes);

    ASSERT(fits);
}

void walfmt_batch_begin(struct buf *raw)
{
    static const uint8_t room[WALFMT_BATCH_HEAD];

    buf_clear(raw);
    put(raw, slice_make(room, sizeof(room)));
}

static uint32_t record_crc(const struct walfmt_place *place, uint64_t pos, const uint8_t *head,
                           struct slice payload)
{
    uint32_t crc = seed_of(place->salt, place->offset + pos, place->number);

    crc = crc32c(crc, head, 4);
    crc = crc32c(crc, head + 8, WALFMT_RECORD_HEAD - 8);
    return payload.len == 0 ? crc : crc32c(crc, payload.data, payload.len);
}

void walfmt_batch_put(struct buf *raw, const struct walfmt_place *place,
                      const struct walfmt_record *record)
{
    uint8_t head[WALFMT_RECORD_HEAD] = {0};

    ASSERT(raw->len >= WALFMT_BATCH_HEAD && record->payload.len <= UINT32_MAX);

    wire_store_u32(head, (uint32_t)record->payload.len);
    head[8] = (uint8_t)record->type;
    wire_store_u64(head + 12, record->zxid);
    wire_store_u64(head + 20, record->prev);
    wire_store_u64(head + 28, record->chain);
    wire_store_u32(head + 4, record_crc(place, raw->len, head, record->payload));
    put(raw, slice_make(head, sizeof(head)));
    put(raw, record->payload);
}

void walfmt_batch_end(struct buf *raw, const struct walfmt_place *place,
                      const struct walfmt_batch *batch)
{
    uint8_t *head = raw->data;

    ASSERT(raw->len == (size_t)WALFMT_BATCH_HEAD + batch->len && batch->count > 0);

    wire_store_u32(head, BATCH_MAGIC);
    wire_store_u64(head + 8, place->number);
    wire_store_u32(head + 16, batch->len);
    wire_store_u32(head + 20, batch->count);
    wire_store_u64(head + 24, batch->durable_upto);
    wire_store_u64(head + 32, batch->chain);
    wire_store_u64(head + 40, batch->committed);

    uint32_t seed = seed_of(place->salt, place->offset, place->number);

    wire_store_u32(head + 4, crc32c(seed, head + 8, WALFMT_BATCH_HEAD - 8));
}

static uint32_t stamp_of(const struct walfmt_place *place, uint64_t index, const uint8_t *content)
{
    uint32_t seed = seed_of(place->salt, place->offset + index * VFS_SECTOR, place->number);
    uint32_t stamp = crc32c(seed, content, WALFMT_CONTENT);

    /* A written sector must differ from one that was never written. */
    return stamp == 0 ? 1 : stamp;
}

void walfmt_frame(struct slice raw, const struct walfmt_place *place, struct buf *framed)
{
    size_t total = (size_t)walfmt_framed_len(raw.len);
    size_t pos = 0;

    ASSERT(raw.len > 0 && place->offset % VFS_BLOCK == 0);

    buf_clear(framed);

    uint8_t *out = buf_reserve(framed, total);

    ASSERT(out);
    for (size_t i = 0; i < total / VFS_SECTOR; i++) {
        uint8_t *sector = out + i * VFS_SECTOR;
        size_t take = min_size(raw.len - pos, WALFMT_CONTENT);

        if (take > 0) {
            memcpy(sector, raw.data + pos, take);
        }
        memset(sector + take, 0, WALFMT_CONTENT - take);
        wire_store_u32(sector + WALFMT_CONTENT, stamp_of(place, i, sector));
        pos += take;
    }
    ASSERT(pos == raw.len);
    framed->len = total;
}

enum walfmt_sector walfmt_sector_state(const struct walfmt_place *place, uint64_t index,
                                       const uint8_t sector[VFS_SECTOR])
{
    ASSERT(place->offset % VFS_BLOCK == 0);

    if (wire_load_u32(sector + WALFMT_CONTENT) == stamp_of(place, index, sector)) {
        return WALFMT_SECTOR_GOOD;
    }
    return walfmt_is_zero(sector, VFS_SECTOR) ? WALFMT_SECTOR_ZERO : WALFMT_SECTOR_BAD;
}

bool walfmt_unframe(const struct walfmt_place *place, uint64_t first, uint8_t *framed,
                    size_t sectors)
{
    for (size_t i = 0; i < sectors; i++) {
        const uint8_t *sector = framed + i * VFS_SECTOR;

        if (walfmt_sector_state(place, first + i, sector) != WALFMT_SECTOR_GOOD) {
            return false;
        }
        memmove(framed + i * WALFMT_CONTENT, sector, WALFMT_CONTENT);
    }
    return true;
}

enum err walfmt_batch_decode(const uint8_t content[WALFMT_BATCH_HEAD],
                             const struct walfmt_place *place, struct walfmt_batch *ret_batch)
{
    uint32_t seed = seed_of(place->salt, place->offset, place->number);

    if (wire_load_u32(content) != BATCH_MAGIC ||
        wire_load_u32(content + 4) != crc32c(seed, content + 8, WALFMT_BATCH_HEAD - 8) ||
        wire_load_u64(content + 8) != place->number) {
        return ERR_CORRUPT;
    }
    *ret_batch = (struct walfmt_batch){
        .len = wire_load_u32(content + 16),
        .count = wire_load_u32(content + 20),
        .durable_upto = wire_load_u64(content + 24),
        .chain = wire_load_u64(content + 32),
        .committed = wire_load_u64(content + 40),
    };
    return ret_batch->count > 0 && ret_batch->len > 0 ? ERR_OK : ERR_CORRUPT;
}

enum err walfmt_next(struct walfmt_cursor *cursor, struct walfmt_record *ret_record)
{
    size_t left = cursor->raw.len - cursor->pos;
    const uint8_t *head = cursor->raw.data + cursor->pos;

    ASSERT(cursor->pos >= WALFMT_BATCH_HEAD && cursor->pos <= cursor->raw.len);

    if (left == 0) {
        return ERR_MISSING;
    }
    if (left < WALFMT_RECORD_HEAD) {
        return ERR_CORRUPT;
    }

    uint32_t len = wire_load_u32(head);
    struct slice payload = slice_make(head + WALFMT_RECORD_HEAD, len);

    if (len > cursor->payload_max || len > left - WALFMT_RECORD_HEAD || head[8] == 0 ||
        wire_load_u32(head + 4) != record_crc(&cursor->place, cursor->pos, head, payload)) {
        return ERR_CORRUPT;
    }
    *ret_record = (struct walfmt_record){
        .type = (enum logrec_type)head[8],
        .zxid = wire_load_u64(head + 12),
        .prev = wire_load_u64(head + 20),
        .chain = wire_load_u64(head + 28),
        .payload = payload,
    };
    cursor->pos += WALFMT_RECORD_HEAD + len;
    return ERR_OK;
}
