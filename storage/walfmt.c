#include "storage/walfmt.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/minmax.h"
#include "base/wire.h"

enum {
    HEADER_MAGIC = 0x4c41575a, /* "ZWAL" */
    BATCH_MAGIC = 0x5441425a,  /* "ZBAT" */
    HEADER_BYTES = 124,        /* Bytes of the header before its checksum. */
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

#define HEADER(form, member) WIRE_FIELD(WIRE_##form, struct walfmt_header, member)
#define BATCH(member)        WIRE_FIELD(WIRE_INT, struct walfmt_batch, member)

/* The fields after magic and version. */
static const struct wire_field header_fields[] = {
    HEADER(RAW, cluster),     HEADER(INT, member_id), HEADER(INT, incarnation),
    HEADER(INT, history),     HEADER(INT, number),    HEADER(INT, prev_number),
    HEADER(INT, prev_offset), HEADER(INT, prev_zxid), HEADER(INT, prev_chain),
    HEADER(INT, committed),   HEADER(INT, salt),      HEADER(INT, bytes),
    HEADER(INT, batch_first), {.form = WIRE_END},
};

/* The fields after magic, checksum and the batch's number. */
static const struct wire_field batch_fields[] = {
    BATCH(len),   BATCH(count),     BATCH(durable_upto),
    BATCH(chain), BATCH(committed), {.form = WIRE_END},
};

void walfmt_header_encode(const struct walfmt_header *header, uint8_t out[VFS_BLOCK])
{
    ASSERT(header->number > 0 && header->number > header->prev_number);
    ASSERT(header->bytes % VFS_BLOCK == 0);

    memset(out, 0, VFS_BLOCK);
    wire_store_u32(out, HEADER_MAGIC);
    wire_store_u32(out + 4, WALFMT_VERSION);
    wire_store_fields(out + 8, header_fields, header);
    wire_store_u32(out + HEADER_BYTES, crc32c(0, out, HEADER_BYTES));
}

enum err walfmt_header_decode(const uint8_t in[VFS_BLOCK], struct walfmt_header *ret_header)
{
    const size_t used = HEADER_BYTES + 4;

    if (wire_load_u32(in) != HEADER_MAGIC || wire_load_u32(in + 4) != WALFMT_VERSION ||
        wire_load_u32(in + HEADER_BYTES) != crc32c(0, in, HEADER_BYTES) ||
        !slice_is_zero(slice_make(in + used, VFS_BLOCK - used))) {
        return ERR_CORRUPT;
    }
    wire_load_fields(in + 8, header_fields, ret_header);
    return ERR_OK;
}

uint64_t walfmt_framed_len(uint64_t raw_len)
{
    ASSERT(raw_len > 0);

    uint64_t sectors = (raw_len + WALFMT_CONTENT - 1) / WALFMT_CONTENT;
    uint64_t blocks = (sectors + WALFMT_BLOCK_SECTORS - 1) / WALFMT_BLOCK_SECTORS;

    return blocks * VFS_BLOCK;
}

/* Appends bytes to a batch. The owner sizes the buffer for the largest batch, so bytes that do not
 * fit are a bug. */
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
    wire_store_fields(head + 16, batch_fields, batch);

    uint32_t seed = seed_of(place->salt, place->offset, place->number);

    wire_store_u32(head + 4, crc32c(seed, head + 8, WALFMT_BATCH_HEAD - 8));
}

static uint32_t stamp_of(const struct walfmt_place *place, uint64_t index, const uint8_t *content)
{
    uint32_t seed = seed_of(place->salt, place->offset + index * VFS_SECTOR, place->number);
    uint32_t stamp = crc32c(seed, content, WALFMT_CONTENT);

    /* The checksum is never 0: a written sector must differ from a sector that still holds
     * zeros. */
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
    return slice_is_zero(slice_make(sector, VFS_SECTOR)) ? WALFMT_SECTOR_ZERO : WALFMT_SECTOR_BAD;
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
    wire_load_fields(content + 16, batch_fields, ret_batch);
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
