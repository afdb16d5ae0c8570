/*
 * Snapshot files. The first byte chooses: a file as it comes, or parts that are written as a
 * snapshot, whose bytes are then changed. A changed file never verifies, an unchanged one gives its
 * parts back. Each is also received as from a leader: a file that does not verify leaves the old
 * state.
 */
#include "base/mem.h"
#include "storage/snapfile.h"
#include "tests/fuzz/disk.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/store_kit.h"

enum {
    BLOCKS_MAX = 32,
    BLOCK_MAX = 2000,
    POKES_MAX = 8,
    CHUNK_BYTES = 700,
    RECORDS = 3,
    RAW = 1 /* Bit of the first byte. */
};

static const char name[] = "s";

struct parts {
    struct snapfile_info info;
    struct slice config;
    struct slice blocks[BLOCKS_MAX];
    size_t count;
};

static void read_parts(struct wire_reader *reader, struct parts *parts)
{
    struct store_snap_info *shown = &parts->info.shown;
    struct slice block;

    *parts = (struct parts){.count = 0};
    shown->start = wire_get_u64(reader) >> 1;
    shown->end = shown->start + wire_get_u16(reader);
    shown->start_chain = wire_get_u64(reader);
    parts->info.end_chain = wire_get_u64(reader);
    shown->digest = wire_get_u64(reader);
    shown->node_count = wire_get_u64(reader);
    if (wire_get_u8(reader) & 1U) {
        parts->info.end_chain = shown->start_chain;
    }
    parts->config = fuzz_take(reader, BLOCK_MAX);
    block = fuzz_take(reader, BLOCK_MAX);
    while (block.len > 0 && parts->count < BLOCKS_MAX) {
        parts->blocks[parts->count++] = block;
        block = fuzz_take(reader, BLOCK_MAX);
    }
}

static void write_parts(const struct vfs *vfs, const char *to, const struct parts *parts)
{
    struct snapfile_writer writer;
    enum err err = snapfile_create(&writer, vfs, to, KIT_RECORD_MAX);

    ASSERT(err == ERR_OK);
    err = snapfile_put_head(&writer, &parts->info, parts->config);
    for (size_t i = 0; err == ERR_OK && i < parts->count; i++) {
        err = snapfile_put_block(&writer, parts->blocks[i]);
    }
    ASSERT(err == ERR_OK);
    err = snapfile_put_trailer(&writer, &parts->info);
    ASSERT(err == ERR_OK);
    snapfile_writer_close(&writer);
}

/* Offset u16, mask u8; a mask of 0 cuts the file there. */
static void poke(struct vfs_mem *disk, struct wire_reader *reader)
{
    for (int i = 0; i < POKES_MAX && fuzz_more(reader); i++) {
        uint64_t offset = wire_get_u16(reader);
        uint8_t mask = wire_get_u8(reader);
        uint64_t size = 0;

        if (!vfs_mem_size(disk, name, &size) || size == 0) {
            return;
        }
        if (mask == 0) {
            vfs_mem_cut(disk, name, offset % size);
        } else {
            vfs_mem_flip(disk, name, offset % size, mask);
        }
    }
}

/* Reads the file block by block; the first error or ERR_MISSING. Keeps copies of what was read. */
static enum err read_back(const struct vfs *vfs, struct parts *parts, struct buf *memory)
{
    struct snapfile_reader reader;
    struct slice block;
    enum err err = snapfile_open(&reader, vfs, name, KIT_RECORD_MAX, false);

    *parts = (struct parts){.count = 0};
    if (err != ERR_OK) {
        return err;
    }
    /* The slices must not move. */
    (void)buf_reserve(memory, memory->size_max);
    parts->info = reader.info;
    parts->config = slice_make(memory->data, reader.config.len);
    buf_append_slice(memory, buf_slice(&reader.config));
    while ((err = snapfile_next(&reader, &block)) == ERR_OK && parts->count < BLOCKS_MAX) {
        parts->blocks[parts->count++] = slice_make(memory->data + memory->len, block.len);
        buf_append_slice(memory, block);
    }
    ASSERT(!memory->overflow && (err == ERR_MISSING || err == ERR_CORRUPT || err == ERR_OK));
    snapfile_close(&reader);
    return err;
}

static bool is_same_file(const struct vfs_mem *disk, const char *a, const char *b)
{
    uint64_t size = 0;
    uint64_t other = 0;

    if (!vfs_mem_size(disk, a, &size) || !vfs_mem_size(disk, b, &other) || size != other) {
        return false;
    }

    uint8_t *first = mem_alloc((size_t)size + 1);
    uint8_t *second = mem_alloc((size_t)size + 1);
    bool is_same = vfs_mem_read(disk, a, 0, first, (size_t)size) &&
                   vfs_mem_read(disk, b, 0, second, (size_t)size) &&
                   memcmp(first, second, (size_t)size) == 0;

    mem_free(first);
    mem_free(second);
    return is_same;
}

/* A file that verifies is exactly the file that its parts are written as. */
static enum err check_file(struct vfs_mem *disk)
{
    struct vfs vfs = vfs_mem_vfs(disk);
    struct parts parts;
    struct snapfile_info info;
    struct buf memory;
    enum err verdict = snapfile_verify(&vfs, name, KIT_RECORD_MAX, &info);

    buf_init(&memory, DISK_FILE_MAX);

    enum err err = read_back(&vfs, &parts, &memory);

    ASSERT(verdict == ERR_OK || verdict == ERR_CORRUPT);
    ASSERT((verdict == ERR_OK) == (err == ERR_MISSING) || err == ERR_OK);
    if (err == ERR_MISSING) {
        write_parts(&vfs, "again", &parts);
        ASSERT(is_same_file(disk, name, "again"));
    }
    buf_release(&memory);
    return verdict;
}

static void run_op(struct skit *kit, struct store_op *op)
{
    enum err err = skit_run(kit, op);

    ASSERT(err == ERR_OK);
}

static void send(struct skit *kit, const uint8_t *bytes, size_t len)
{
    struct store_op begin = {.type = STORE_SNAP_BEGIN};

    run_op(kit, &begin);
    for (size_t at = 0; at < len; at += CHUNK_BYTES) {
        size_t take = len - at < CHUNK_BYTES ? len - at : CHUNK_BYTES;
        struct store_op chunk = {.type = STORE_SNAP_CHUNK,
                                 .snap_offset = at,
                                 .snap_bytes = slice_make(bytes + at, take)};

        run_op(kit, &chunk);
    }
}

static void check_received(struct skit *kit, const struct store_op *install, enum err verdict)
{
    if (install->ret_err != ERR_OK) {
        ASSERT(install->ret_err == ERR_CORRUPT && skit_check_log(kit) == RECORDS);
        ASSERT(install->ret_last == skit_zxid(&kit->log, RECORDS));
        skit_close(kit, true);
        enum err err = skit_open(kit);

        ASSERT(err == ERR_OK && kit->report.verdict == STORE_CLEAN);
        ASSERT(skit_check_log(kit) == RECORDS && !kit->report.has_snapshot);
        return;
    }
    ASSERT(verdict == ERR_OK);
    skit_close(kit, true);

    enum err err = skit_open(kit);

    ASSERT(err == ERR_OK && kit->report.verdict == STORE_CLEAN && kit->report.has_snapshot);
    ASSERT(kit->report.log_last == install->ret_last);
    ASSERT(kit->report.snap_end == install->ret_snap_end);
}

/* As from a leader, into a store with a short log. */
static void receive(const struct vfs_mem *disk, enum err verdict)
{
    struct skit kit;
    struct store_op install = {.type = STORE_SNAP_INSTALL};
    uint64_t size = 0;

    (void)vfs_mem_size(disk, name, &size);

    uint8_t *bytes = mem_alloc((size_t)size + 1);

    (void)vfs_mem_read(disk, name, 0, bytes, (size_t)size);
    skit_init(&kit, KIT_SEGMENT);

    enum err err = skit_open(&kit);

    ASSERT(err == ERR_OK);
    err = skit_format(&kit);
    ASSERT(err == ERR_OK);
    err = skit_append(&kit, 1, RECORDS, 40);
    ASSERT(err == ERR_OK);
    send(&kit, bytes, (size_t)size);
    run_op(&kit, &install);
    check_received(&kit, &install, verdict);
    skit_release(&kit);
    mem_free(bytes);
}

static bool fuzz_one(struct slice input)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct wire_reader reader;
    struct parts parts;

    wire_reader_init(&reader, input);

    bool is_raw = (wire_get_u8(&reader) & RAW) != 0;
    enum err verdict = ERR_OK;

    if (is_raw) {
        struct slice bytes = fuzz_rest(&reader);

        disk_make_file(disk, name, bytes, bytes.len);
        verdict = check_file(disk);
    } else {
        read_parts(&reader, &parts);
        write_parts(&vfs, name, &parts);
        write_parts(&vfs, "as-written", &parts);
        poke(disk, &reader);
        verdict = check_file(disk);
        ASSERT((verdict == ERR_OK) == is_same_file(disk, name, "as-written"));
    }
    receive(disk, verdict);
    vfs_mem_free(disk);
    return verdict == ERR_OK;
}

static void put_parts(struct buf *out, uint16_t span, size_t blocks)
{
    wire_put_u8(out, 0);
    wire_put_u64(out, zxid_make(1, 5) << 1);
    wire_put_u16(out, span);
    wire_put_u64(out, 11);
    wire_put_u64(out, 12);
    wire_put_u64(out, 13);
    wire_put_u64(out, 14);
    wire_put_u8(out, span == 0);
    fuzz_put(out, slice_str("configuration"));
    for (size_t i = 0; i < blocks; i++) {
        fuzz_put(out, slice_str("a block of a snapshot"));
    }
    fuzz_put(out, slice_make(NULL, 0));
}

static void seed_raw(struct fuzz_sink *sink, struct buf *bytes)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct parts parts = {.config = slice_str("c"), .blocks = {slice_str("b")}, .count = 1};
    uint8_t file[512];
    uint64_t size = 0;

    write_parts(&vfs, name, &parts);
    (void)vfs_mem_size(disk, name, &size);
    ASSERT(size <= sizeof(file));
    (void)vfs_mem_read(disk, name, 0, file, (size_t)size);
    buf_clear(bytes);
    wire_put_u8(bytes, RAW);
    wire_put_raw(bytes, slice_make(file, (size_t)size));
    fuzz_seed(sink, "raw", buf_slice(bytes));
    vfs_mem_free(disk);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    struct buf bytes;

    buf_init(&bytes, FUZZ_INPUT_MAX);
    put_parts(&bytes, 0, 2);
    fuzz_seed(sink, "at-once", buf_slice(&bytes));
    buf_clear(&bytes);
    put_parts(&bytes, 7, 3);
    fuzz_seed(sink, "with-span", buf_slice(&bytes));
    buf_clear(&bytes);
    put_parts(&bytes, 0, 0);
    fuzz_seed(sink, "no-blocks", buf_slice(&bytes));
    seed_raw(sink, &bytes);
    buf_release(&bytes);
}

FUZZ_TARGET(snapshot)
