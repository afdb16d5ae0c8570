#include "storage/snapfile.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/hash.h"
#include "base/minmax.h"
#include "base/wire.h"

enum {
    HEAD_MAGIC = 0x4e53425a,    /* "ZBSN" */
    TRAILER_MAGIC = 0x5253425a, /* "ZBSR" */
    HEAD_BYTES = 48, /* Bytes of head and checksum; configuration and its checksum follow. */
    FRAME_BYTES = 8, /* Bytes of length and checksum before each block. */
    TRAILER_BYTES = 72,
};

static uint32_t crc_at(uint64_t offset, const void *data, size_t len)
{
    uint8_t seed[8];

    wire_store_u64(seed, offset);
    return crc32c(crc32c(0, seed, sizeof(seed)), data, len);
}

/* ---- Writing. ---- */

enum err snapfile_create(struct snapfile_writer *writer, const struct vfs *vfs, const char *name,
                         uint32_t record_bytes_max)
{
    *writer = (struct snapfile_writer){.vfs = vfs};
    writer->block_max = snapfile_block_max(record_bytes_max);
    buf_init(&writer->pending, (size_t)2 * SNAPFILE_PIECE);
    return vfs_replace(vfs, name, &writer->file);
}

static enum err flush(struct snapfile_writer *writer)
{
    ASSERT(writer->pending.len > 0 && writer->pending.len <= SNAPFILE_PIECE);

    enum err err = writer->vfs->ops->pwrite(writer->file, writer->offset, writer->pending.data,
                                            writer->pending.len);

    THEN(err, writer->vfs->ops->sync(writer->file));
    if (err == ERR_OK) {
        writer->offset += writer->pending.len;
        buf_clear(&writer->pending);
    }
    return err;
}

/* Adds bytes to the file, a piece at a time. */
static enum err put(struct snapfile_writer *writer, struct slice bytes)
{
    enum err err = ERR_OK;

    writer->hash = hash64(writer->hash, bytes);
    while (err == ERR_OK && bytes.len > 0) {
        size_t room = SNAPFILE_PIECE - writer->pending.len;
        size_t take = min_size(bytes.len, room);
        bool fits = buf_append(&writer->pending, bytes.data, take);

        ASSERT(fits);
        bytes = slice_make(bytes.data + take, bytes.len - take);
        if (writer->pending.len == SNAPFILE_PIECE) {
            err = flush(writer);
        }
    }
    return err;
}

enum err snapfile_put_head(struct snapfile_writer *writer, const struct snapfile_info *info,
                           struct slice config)
{
    uint8_t head[HEAD_BYTES] = {0};
    uint8_t crc[4];

    ASSERT(config.len <= SNAPFILE_CONFIG_MAX && writer->offset + writer->pending.len == 0);

    wire_store_u32(head, HEAD_MAGIC);
    wire_store_u32(head + 4, SNAPFILE_VERSION);
    memcpy(head + 8, info->cluster, STORE_CLUSTER_LEN);
    wire_store_u64(head + 24, info->shown.start);
    wire_store_u64(head + 32, info->shown.start_chain);
    wire_store_u32(head + 40, (uint32_t)config.len);
    wire_store_u32(head + 44, crc_at(0, head, 44));
    wire_store_u32(crc, crc_at(HEAD_BYTES, config.data, config.len));

    enum err err = put(writer, slice_make(head, sizeof(head)));

    THEN(err, put(writer, config));
    return err == ERR_OK ? put(writer, slice_make(crc, sizeof(crc))) : err;
}

enum err snapfile_put_block(struct snapfile_writer *writer, struct slice block)
{
    uint8_t frame[FRAME_BYTES];
    uint64_t offset = writer->offset + writer->pending.len;

    ASSERT(block.len > 0 && block.len <= writer->block_max);

    wire_store_u32(frame, (uint32_t)block.len);
    wire_store_u32(frame + 4, crc_at(offset, block.data, block.len));
    writer->blocks++;

    enum err err = put(writer, slice_make(frame, sizeof(frame)));

    return err == ERR_OK ? put(writer, block) : err;
}

enum err snapfile_put_trailer(struct snapfile_writer *writer, const struct snapfile_info *info)
{
    uint8_t trailer[TRAILER_BYTES] = {0};
    uint64_t offset = writer->offset + writer->pending.len;

    ASSERT(info->shown.end >= info->shown.start);

    /* The trailer begins with a block length of 0, which ends the sequence of blocks. */
    wire_store_u32(trailer + 4, TRAILER_MAGIC);
    wire_store_u64(trailer + 8, info->shown.end);
    wire_store_u64(trailer + 16, info->end_chain);
    wire_store_u64(trailer + 24, info->shown.digest);
    wire_store_u64(trailer + 32, info->shown.node_count);
    wire_store_u64(trailer + 40, writer->blocks);
    wire_store_u64(trailer + 48, offset + TRAILER_BYTES);
    wire_store_u64(trailer + 56, writer->hash);
    wire_store_u32(trailer + 64, crc_at(offset, trailer, 64));

    enum err err = put(writer, slice_make(trailer, sizeof(trailer)));

    return err == ERR_OK && writer->pending.len > 0 ? flush(writer) : err;
}

void snapfile_writer_close(struct snapfile_writer *writer)
{
    if (writer->file) {
        writer->vfs->ops->close(writer->file);
    }
    buf_release(&writer->pending);
    *writer = (struct snapfile_writer){0};
}

/* ---- Reading. ---- */

/* Reads exactly `len` bytes and appends them to `out`. */
static enum err get(struct snapfile_reader *reader, uint64_t offset, struct buf *out, size_t len)
{
    size_t got = 0;
    uint8_t *to = buf_reserve(out, len);

    ASSERT(to);
    if (reader->vfs->ops->pread(reader->file, offset, to, len, &got) != ERR_OK || got != len) {
        return ERR_CORRUPT;
    }
    out->len += len;
    return ERR_OK;
}

static enum err read_trailer(struct snapfile_reader *reader, uint64_t size)
{
    uint8_t trailer[TRAILER_BYTES];
    size_t got = 0;
    uint64_t offset = size - TRAILER_BYTES;

    ASSERT(size >= TRAILER_BYTES);
    if (reader->vfs->ops->pread(reader->file, offset, trailer, sizeof(trailer), &got) != ERR_OK ||
        got != sizeof(trailer) || wire_load_u32(trailer) != 0 ||
        wire_load_u32(trailer + 4) != TRAILER_MAGIC ||
        wire_load_u32(trailer + 64) != crc_at(offset, trailer, 64) ||
        wire_load_u32(trailer + 68) != 0 || wire_load_u64(trailer + 48) != size) {
        return ERR_CORRUPT;
    }
    reader->info.shown.end = wire_load_u64(trailer + 8);
    reader->info.end_chain = wire_load_u64(trailer + 16);
    reader->info.shown.digest = wire_load_u64(trailer + 24);
    reader->info.shown.node_count = wire_load_u64(trailer + 32);
    reader->blocks_told = wire_load_u64(trailer + 40);
    reader->hash_told = wire_load_u64(trailer + 56);
    reader->info.shown.id = hash64(reader->hash_told, slice_make(trailer, 64));
    reader->info.shown.file_bytes = size;
    return reader->info.shown.end >= reader->info.shown.start ? ERR_OK : ERR_CORRUPT;
}

static enum err read_head(struct snapfile_reader *reader, uint64_t size)
{
    uint8_t head[HEAD_BYTES];
    size_t got = 0;

    if (size < HEAD_BYTES + 4 + TRAILER_BYTES ||
        reader->vfs->ops->pread(reader->file, 0, head, sizeof(head), &got) != ERR_OK ||
        got != sizeof(head) || wire_load_u32(head) != HEAD_MAGIC ||
        wire_load_u32(head + 4) != SNAPFILE_VERSION ||
        wire_load_u32(head + 44) != crc_at(0, head, 44)) {
        return ERR_CORRUPT;
    }

    uint32_t len = wire_load_u32(head + 40);

    if (len > SNAPFILE_CONFIG_MAX || len + HEAD_BYTES + 4 + TRAILER_BYTES > size) {
        return ERR_CORRUPT;
    }
    memcpy(reader->info.cluster, head + 8, STORE_CLUSTER_LEN);
    reader->info.shown.start = wire_load_u64(head + 24);
    reader->info.shown.start_chain = wire_load_u64(head + 32);

    enum err err = get(reader, HEAD_BYTES, &reader->config, (size_t)len + 4);

    if (err != ERR_OK ||
        wire_load_u32(reader->config.data + len) != crc_at(HEAD_BYTES, reader->config.data, len)) {
        return ERR_CORRUPT;
    }
    reader->hash = hash64(0, slice_make(head, sizeof(head)));
    reader->hash = hash64(reader->hash, slice_make(reader->config.data, len));
    reader->hash = hash64(reader->hash, slice_make(reader->config.data + len, 4));
    reader->config.len = len;
    reader->offset = (uint64_t)HEAD_BYTES + len + 4;
    return ERR_OK;
}

enum err snapfile_open(struct snapfile_reader *reader, const struct vfs *vfs, const char *name,
                       uint32_t record_bytes_max, bool cached)
{
    uint64_t size = 0;

    *reader = (struct snapfile_reader){.vfs = vfs};
    reader->block_max = snapfile_block_max(record_bytes_max);
    buf_init(&reader->config, SNAPFILE_CONFIG_MAX + 4);
    buf_init(&reader->block, reader->block_max);

    enum err err = vfs->ops->open(vfs->ctx, name, false, &reader->file);

    if (err != ERR_OK) {
        snapfile_close(reader);
        return err == ERR_MISSING || err == ERR_NO_FILES ? err : ERR_CORRUPT;
    }
    if (!cached) {
        vfs->ops->drop_cache(reader->file);
    }
    err = vfs->ops->size(reader->file, &size);
    THEN(err, read_head(reader, size));
    THEN(err, read_trailer(reader, size));
    if (err != ERR_OK) {
        snapfile_close(reader);
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

enum err snapfile_next(struct snapfile_reader *reader, struct slice *ret_block)
{
    uint64_t end = reader->info.shown.file_bytes - TRAILER_BYTES;
    uint8_t frame[FRAME_BYTES];
    size_t got = 0;

    if (reader->offset == end) {
        bool is_whole = reader->blocks == reader->blocks_told && reader->hash == reader->hash_told;

        return is_whole ? ERR_MISSING : ERR_CORRUPT;
    }
    if (reader->offset + FRAME_BYTES > end ||
        reader->vfs->ops->pread(reader->file, reader->offset, frame, sizeof(frame), &got) !=
            ERR_OK ||
        got != sizeof(frame)) {
        return ERR_CORRUPT;
    }

    uint32_t len = wire_load_u32(frame);

    if (len == 0 || len > reader->block_max || reader->offset + FRAME_BYTES + len > end) {
        return ERR_CORRUPT;
    }
    buf_clear(&reader->block);
    if (get(reader, reader->offset + FRAME_BYTES, &reader->block, len) != ERR_OK ||
        wire_load_u32(frame + 4) != crc_at(reader->offset, reader->block.data, len)) {
        return ERR_CORRUPT;
    }
    reader->hash = hash64(reader->hash, slice_make(frame, sizeof(frame)));
    reader->hash = hash64(reader->hash, buf_slice(&reader->block));
    reader->offset += FRAME_BYTES + (uint64_t)len;
    reader->blocks++;
    *ret_block = buf_slice(&reader->block);
    return ERR_OK;
}

void snapfile_close(struct snapfile_reader *reader)
{
    if (reader->file) {
        reader->vfs->ops->close(reader->file);
    }
    buf_release(&reader->config);
    buf_release(&reader->block);
    reader->file = NULL;
}

enum err snapfile_verify(const struct vfs *vfs, const char *name, uint32_t record_bytes_max,
                         struct snapfile_info *ret_info)
{
    struct snapfile_reader reader;
    struct slice block;
    enum err err = snapfile_open(&reader, vfs, name, record_bytes_max, false);

    if (err != ERR_OK) {
        return err;
    }
    do {
        err = snapfile_next(&reader, &block);
    } while (err == ERR_OK);
    *ret_info = reader.info;
    snapfile_close(&reader);
    return err == ERR_MISSING ? ERR_OK : ERR_CORRUPT;
}
