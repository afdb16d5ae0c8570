#include "tests/fuzz/disk_script.h"

#include "base/check.h"
#include "storage/names.h"
#include "storage/slots.h"
#include "storage/snapfile.h"
#include "storage/walfmt.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/store_kit.h"

enum {
    STEPS_MAX = 64,
    MARKS_MAX = 64,
    RECORDS_MAX = 16,
    PAYLOAD_MAX = 1500,
    SEGMENT_BLOCKS = 16,
    NAME_LEN_MAX = 40,
    MEMBER = 3, /* As skit_identity. */
    INCARNATION = 77
};

/* The position of the log that is being written. */
struct script {
    struct vfs_mem *disk;
    struct wire_reader *reader;
    struct walfmt_header header; /* Of the last segment. */
    bool has_segment;
    char name[VFS_NAME_MAX]; /* Its file. */
    uint64_t offset;         /* Offset of its next batch. */
    uint64_t batch_next;
    zxid_t last;
    uint64_t chain;

    struct mark {
        zxid_t zxid;
        uint64_t chain;
    } marks[MARKS_MAX]; /* The base, then each record. */

    size_t mark_count;
};

static void mark(struct script *script)
{
    if (script->mark_count < MARKS_MAX) {
        script->marks[script->mark_count++] =
            (struct mark){.zxid = script->last, .chain = script->chain};
    }
}

static void step_raw(struct script *script)
{
    struct slice text = fuzz_take(script->reader, NAME_LEN_MAX);
    char name[VFS_NAME_MAX] = "";

    if (text.len == 0 || memchr(text.data, 0, text.len)) {
        return;
    }
    memcpy(name, text.data, text.len);
    disk_read_file(script->disk, name, script->reader);
}

static void step_slots(struct script *script)
{
    static const char *const names[] = {NAME_IDENTITY, NAME_PROMISE, NAME_QUARANTINE,
                                        NAME_MANIFEST};
    struct vfs vfs = vfs_mem_vfs(script->disk);
    unsigned which = wire_get_u8(script->reader) % 4U;
    struct slice payload = fuzz_take(script->reader, SLOTS_PAYLOAD_MAX);
    enum err err =
        slots_create(&vfs, names[which], (enum slots_kind)(SLOTS_IDENTITY + which), payload);

    ASSERT(err == ERR_OK);
}

static struct walfmt_header next_header(const struct script *script)
{
    const struct walfmt_header *before = &script->header;
    uint64_t number = script->has_segment ? before->number + 1 : 1;

    return (struct walfmt_header){
        .member_id = MEMBER,
        .incarnation = INCARNATION,
        .history = script->has_segment ? before->history : 1,
        .number = number,
        .prev_number = script->has_segment ? before->number : 0,
        .prev_offset = script->has_segment ? script->offset : 0,
        .prev_zxid = script->last,
        .prev_chain = script->chain,
        .salt = number * 7,
        .batch_first = script->batch_next,
    };
}

static void read_header(struct wire_reader *reader, unsigned flags, struct walfmt_header *header)
{
    if (flags & DISK_SEGMENT_PLACE) {
        header->prev_number = wire_get_u64(reader);
        header->prev_offset = wire_get_u64(reader);
    }
    if (flags & DISK_SEGMENT_RECORD) {
        header->prev_zxid = wire_get_u64(reader);
        header->prev_chain = wire_get_u64(reader);
    }
    if (flags & DISK_SEGMENT_NUMBER) {
        header->number = wire_get_u64(reader);
        header->history = wire_get_u8(reader);
    }
    if (flags & DISK_SEGMENT_BATCH) {
        header->batch_first = wire_get_u64(reader);
        header->committed = wire_get_u64(reader);
    }
    if (flags & DISK_SEGMENT_OWNER) {
        header->member_id = wire_get_u32(reader);
        header->incarnation = wire_get_u64(reader);
    }
}

static void step_segment(struct script *script)
{
    unsigned flags = wire_get_u8(script->reader);
    uint64_t size = (1 + wire_get_u8(script->reader) % (uint64_t)SEGMENT_BLOCKS) * VFS_BLOCK;
    struct walfmt_header header = next_header(script);
    uint8_t block[VFS_BLOCK];

    header.bytes = size;
    read_header(script->reader, flags, &header);
    if (flags & DISK_SEGMENT_BYTES) {
        header.bytes = wire_get_u64(script->reader) / VFS_BLOCK * VFS_BLOCK;
    }
    if (header.number == 0 || header.number <= header.prev_number) {
        return; /* Not possible on any disk. */
    }
    walfmt_header_encode(&header, block);
    name_wal(script->name, header.history, header.number);
    disk_make_file(script->disk, script->name, slice_make(block, sizeof(block)), size);
    script->header = header;
    script->has_segment = true;
    script->offset = VFS_BLOCK;
    script->batch_next = header.batch_first;
}

static struct walfmt_record read_record(struct script *script)
{
    struct wire_reader *reader = script->reader;
    unsigned flags = wire_get_u8(reader);
    bool is_first = (flags & DISK_RECORD_EPOCH) != 0;
    zxid_t zxid = is_first ? zxid_make(zxid_epoch(script->last) + 1, 0) : script->last + 1;
    struct walfmt_record record = {
        .type = is_first ? LOGREC_EPOCH : LOGREC_TXN, .zxid = zxid, .prev = script->last};

    if (flags & DISK_RECORD_ZXID) {
        record.zxid = wire_get_u64(reader);
        record.prev = wire_get_u64(reader);
    }
    if (flags & DISK_RECORD_TYPE) {
        record.type = (enum logrec_type)wire_get_u8(reader);
    }
    record.chain = flags & DISK_RECORD_CHAIN ? wire_get_u64(reader) : 0;
    record.payload = fuzz_take(reader, PAYLOAD_MAX);
    if (!(flags & DISK_RECORD_CHAIN)) {
        record.chain =
            logrec_chain(script->chain, record.type, record.zxid, record.prev, record.payload);
    }
    return record;
}

static void put_records(struct script *script, const struct walfmt_place *place, struct buf *raw,
                        struct walfmt_batch *batch)
{
    unsigned count = 1U + (unsigned)wire_get_u8(script->reader) % RECORDS_MAX;

    walfmt_batch_begin(raw);
    for (unsigned i = 0; i < count && (i == 0 || fuzz_more(script->reader)); i++) {
        struct walfmt_record record = read_record(script);

        walfmt_batch_put(raw, place, &record);
        script->last = record.zxid;
        script->chain = record.chain;
        mark(script);
        batch->count++;
    }
    batch->len = (uint32_t)(raw->len - WALFMT_BATCH_HEAD);
}

static void write_batch(struct script *script, const struct walfmt_place *place,
                        const struct buf *framed, uint8_t torn)
{
    uint64_t size = 0;

    if (!vfs_mem_size(script->disk, script->name, &size)) {
        return;
    }
    for (size_t at = 0; at < framed->len; at += VFS_SECTOR) {
        size_t sector = at / VFS_SECTOR;
        bool is_torn = sector < 8 && ((unsigned)torn >> sector & 1U) != 0;

        if (!is_torn && place->offset + at + VFS_SECTOR <= size) {
            vfs_mem_poke(script->disk, script->name, place->offset + at, framed->data + at,
                         VFS_SECTOR);
        }
    }
}

static void step_batch(struct script *script)
{
    struct wire_reader *reader = script->reader;
    unsigned flags = wire_get_u8(reader);
    struct walfmt_batch batch = {.durable_upto = script->last, .chain = script->chain};
    struct walfmt_place place = {
        .salt = script->header.salt, .offset = script->offset, .number = script->batch_next};
    uint32_t count = 0;
    uint8_t torn = 0;
    struct buf raw;
    struct buf framed;

    if (flags & DISK_BATCH_CHAIN) {
        batch.durable_upto = wire_get_u64(reader);
        batch.chain = wire_get_u64(reader);
    }
    batch.committed = flags & DISK_BATCH_COMMIT ? wire_get_u64(reader) : 0;
    if (flags & DISK_BATCH_COUNT) {
        count = wire_get_u32(reader);
    }
    if (flags & DISK_BATCH_NUMBER) {
        place.number = wire_get_u64(reader);
        place.offset = (1 + wire_get_u8(reader) % (uint64_t)SEGMENT_BLOCKS) * VFS_BLOCK;
    }
    if (flags & DISK_BATCH_TORN) {
        torn = wire_get_u8(reader);
    }
    buf_init(&raw, 1 << 20);
    buf_init(&framed, 2 << 20);
    put_records(script, &place, &raw, &batch);
    batch.count = count > 0 ? count : batch.count;
    walfmt_batch_end(&raw, &place, &batch);
    walfmt_frame(buf_slice(&raw), &place, &framed);
    if (script->has_segment) {
        write_batch(script, &place, &framed, torn);
    }
    if (!(flags & DISK_BATCH_STAY)) {
        script->offset = place.offset + framed.len;
        script->batch_next = place.number + 1;
    }
    buf_release(&raw);
    buf_release(&framed);
}

static void step_snap(struct script *script)
{
    struct wire_reader *reader = script->reader;
    struct vfs vfs = vfs_mem_vfs(script->disk);
    unsigned flags = wire_get_u8(reader);
    const struct mark *start = &script->marks[wire_get_u8(reader) % script->mark_count];
    const struct mark *end = &script->marks[wire_get_u8(reader) % script->mark_count];
    struct slice config = fuzz_take(reader, PAYLOAD_MAX);
    struct snapfile_info info = {.shown = {.start = start->zxid,
                                           .start_chain = start->chain,
                                           .end = end->zxid > start->zxid ? end->zxid : start->zxid,
                                           .digest = 5},
                                 .end_chain = end->chain};
    struct snapfile_writer writer;
    char name[VFS_NAME_MAX];
    struct slice block = fuzz_take(reader, PAYLOAD_MAX);

    if (flags & 1U) {
        info.shown.start_chain ^= 1;
    }
    name_snap(name, script->has_segment ? script->header.history : 1, start->zxid);

    enum err err = snapfile_create(&writer, &vfs, name, KIT_RECORD_MAX);

    ASSERT(err == ERR_OK);
    err = snapfile_put_head(&writer, &info, config);
    while (err == ERR_OK && block.len > 0) {
        err = snapfile_put_block(&writer, block);
        block = fuzz_take(reader, PAYLOAD_MAX);
    }
    ASSERT(err == ERR_OK);
    err = snapfile_put_trailer(&writer, &info);
    ASSERT(err == ERR_OK);
    snapfile_writer_close(&writer);
}

static void step_damage(struct script *script, enum disk_step step)
{
    char name[VFS_NAME_MAX];
    bool found = disk_name(script->disk, wire_get_u8(script->reader), name);
    uint64_t size = 0;

    if (!found || !vfs_mem_size(script->disk, name, &size) || size == 0) {
        return;
    }
    if (step == DISK_REMOVE) {
        vfs_mem_remove(script->disk, name);
        return;
    }

    uint64_t at = wire_get_u32(script->reader) % size;

    if (step == DISK_FLIP) {
        vfs_mem_flip(script->disk, name, at, wire_get_u8(script->reader));
    } else {
        vfs_mem_cut(script->disk, name, at);
    }
}

static void step_next(struct script *script)
{
    char name[VFS_NAME_MAX];

    name_next(name, wire_get_u8(script->reader));
    disk_make_file(script->disk, name, slice_make(NULL, 0),
                   wire_get_u8(script->reader) % (uint64_t)SEGMENT_BLOCKS * VFS_BLOCK);
}

static void step_base(struct script *script)
{
    script->last = wire_get_u64(script->reader);
    script->chain = wire_get_u64(script->reader);
    script->mark_count = 0;
    mark(script);
}

static void run_step(struct script *script, enum disk_step step)
{
    switch (step) {
    case DISK_RAW:
        step_raw(script);
        break;
    case DISK_SLOTS:
        step_slots(script);
        break;
    case DISK_SEGMENT:
        step_segment(script);
        break;
    case DISK_BATCH:
        step_batch(script);
        break;
    case DISK_SNAP:
        step_snap(script);
        break;
    case DISK_FLIP:
    case DISK_CUT:
    case DISK_REMOVE:
        step_damage(script, step);
        break;
    case DISK_NEXT:
        step_next(script);
        break;
    case DISK_BASE:
        step_base(script);
        break;
    case DISK_STEPS:
        UNREACHABLE();
    }
}

void disk_script_run(struct vfs_mem *disk, struct wire_reader *reader)
{
    struct script script = {.disk = disk, .reader = reader, .batch_next = 1};

    mark(&script);
    for (int i = 0; i < STEPS_MAX && fuzz_more(reader); i++) {
        run_step(&script, (enum disk_step)(wire_get_u8(reader) % DISK_STEPS));
    }
}
