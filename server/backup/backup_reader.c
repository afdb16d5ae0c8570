#include "server/backup/backup_reader.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/wire.h"
#include "zab/msg.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    PIECE_BYTES = 256 << 10,
    /* A part RECORDS holds at most BACKUP_RECORDS_MAX bytes, or one record. */
    PAYLOAD_MAX = 64 << 20,
    FRAMES_MIN = BACKUP_FRAME_LEN + BACKUP_CRC_LEN
};

static const char window_name[] = "snapshot";

struct reading {
    const struct backup_input *input;
    const struct backup_visitor *visitor;
    struct backup_mark *mark;
    struct backup_head head;
    struct backup_end end;
    bool has_head;
    bool has_snapshot;
    bool has_end;
    uint64_t offset; /* Of the next part. */
    uint64_t records;
    zxid_t at; /* The last record so far. */
    struct buf head_bytes;
    struct buf payload;
    struct crypto_hash *hash;
    char *why;
};

static enum err fail(struct reading *reading, enum err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum err fail(struct reading *reading, enum err err, const char *format, ...)
{
    char text[BACKUP_WHY_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(reading->why, BACKUP_WHY_MAX, "%.200s: %.300s", reading->input->name, text);
    return err;
}

static enum err damaged(struct reading *reading)
{
    return fail(reading, ERR_CORRUPT, "is cut or damaged near byte %" PRIu64, reading->offset);
}

static enum err read_at(struct reading *reading, uint64_t offset, void *to, size_t len)
{
    if (offset > reading->input->size || len > reading->input->size - offset) {
        return damaged(reading);
    }
    enum err err = reading->input->read(reading->input->ctx, offset, to, len);

    return err == ERR_OK ? ERR_OK : fail(reading, err, "cannot be read (%s)", err_text(err));
}

static void tell_progress(struct reading *reading, uint64_t bytes)
{
    if (reading->visitor->on_progress) {
        reading->visitor->on_progress(reading->visitor->ctx, bytes, reading->input->size);
    }
}

/* ---- The snapshot as a file of its own. ---- */

struct vfs_file {
    struct reading *reading;
    uint64_t offset;
    uint64_t size;
};

static enum err window_open(void *ctx, const char *name, bool create, struct vfs_file **ret_file)
{
    struct vfs_file *window = ctx;

    if (create || strcmp(name, window_name) != 0) {
        return ERR_MISSING;
    }
    *ret_file = window;
    return ERR_OK;
}

static void window_close(struct vfs_file *file)
{
    (void)file;
}

static enum err window_read(struct vfs_file *file, uint64_t offset, void *data, size_t len,
                            size_t *ret_len)
{
    uint64_t left = offset < file->size ? file->size - offset : 0;
    size_t got = (size_t)min_u64(left, len);

    *ret_len = got;
    tell_progress(file->reading, file->offset + offset);
    return got > 0 ? read_at(file->reading, file->offset + offset, data, got) : ERR_OK;
}

static enum err window_size(struct vfs_file *file, uint64_t *ret_size)
{
    *ret_size = file->size;
    return ERR_OK;
}

/* Only these are called for a snapshot that is read. */
static const struct vfs_ops window_ops = {.open = window_open,
                                          .close = window_close,
                                          .pread = window_read,
                                          .size = window_size,
                                          .drop_cache = window_close};

/* ---- Parts. ---- */

struct frame {
    enum backup_part type;
    uint64_t len;
    uint32_t crc; /* Of the frame. */
};

static enum err read_frame(struct reading *reading, struct frame *ret_frame)
{
    uint8_t bytes[BACKUP_FRAME_LEN];
    enum err err = read_at(reading, reading->offset, bytes, sizeof bytes);

    if (err != ERR_OK) {
        return err;
    }
    *ret_frame = (struct frame){.type = (enum backup_part)bytes[0],
                                .len = wire_load_u64(bytes + 1),
                                .crc = crc32c(0, bytes, sizeof bytes)};
    uint64_t left = reading->input->size - reading->offset - sizeof bytes;

    if (left < BACKUP_CRC_LEN || ret_frame->len > left - BACKUP_CRC_LEN) {
        return damaged(reading);
    }
    if (ret_frame->type != BACKUP_END) {
        crypto_hash_add(reading->hash, slice_make(bytes, sizeof bytes));
    }
    return ERR_OK;
}

/* Checks the checksum at the end of the part, and moves behind it. */
static enum err end_part(struct reading *reading, const struct frame *frame, uint32_t crc)
{
    uint8_t told[BACKUP_CRC_LEN];
    enum err err =
        read_at(reading, reading->offset + BACKUP_FRAME_LEN + frame->len, told, sizeof told);

    if (err != ERR_OK) {
        return err;
    }
    if (wire_load_u32(told) != crc) {
        return damaged(reading);
    }
    if (frame->type != BACKUP_END) {
        crypto_hash_add(reading->hash, slice_make(told, sizeof told));
    }
    reading->offset += BACKUP_FRAME_LEN + frame->len + BACKUP_CRC_LEN;
    tell_progress(reading, reading->offset);
    return ERR_OK;
}

/* Reads a part that fits into memory. */
static enum err read_payload(struct reading *reading, const struct frame *frame, struct buf *out)
{
    if (frame->len > out->size_max) {
        return damaged(reading);
    }
    size_t len = (size_t)frame->len;

    buf_clear(out);
    enum err err = read_at(reading, reading->offset + BACKUP_FRAME_LEN, buf_reserve(out, len), len);

    if (err != ERR_OK) {
        return err;
    }
    out->len = len;
    if (frame->type != BACKUP_END) {
        crypto_hash_add(reading->hash, buf_slice(out));
    }
    return end_part(reading, frame, crc32c(frame->crc, out->data, len));
}

/* Whether the backup continues at the mark. */
static enum err check_mark(struct reading *reading)
{
    const struct backup_head *head = &reading->head;

    if (!head->full && reading->mark->is_known && head->from != reading->mark->zxid) {
        return fail(reading, ERR_GAP,
                    "begins after zxid 0x%" PRIx64 ", but the backup before it ends at 0x%" PRIx64,
                    head->from, reading->mark->zxid);
    }
    return ERR_OK;
}

static enum err take_head(struct reading *reading, const struct frame *frame)
{
    enum err err = read_payload(reading, frame, &reading->head_bytes);

    if (err != ERR_OK) {
        return err;
    }
    err = backup_get_head(buf_slice(&reading->head_bytes), &reading->head);
    if (err != ERR_OK) {
        return fail(reading, err, "%s",
                    err == ERR_NEWER ? "a later release has made it: use that release"
                                     : "its head is malformed");
    }
    reading->has_head = true;
    reading->at = reading->head.from;
    THEN(err, check_mark(reading));
    if (err == ERR_OK && reading->visitor->on_head) {
        err = reading->visitor->on_head(reading->visitor->ctx, &reading->head);
    }
    if (reading->head.full && reading->head.snapshot_bytes == 0) {
        *reading->mark = (struct backup_mark){.is_known = true};
    }
    return err;
}

/* Adds the bytes of the snapshot to checksum and hash, after it was read as a file. */
static enum err sum_snapshot(struct reading *reading, const struct frame *frame)
{
    uint8_t *piece = mem_alloc(PIECE_BYTES);
    uint32_t crc = frame->crc;
    enum err err = ERR_OK;

    for (uint64_t done = 0; err == ERR_OK && done < frame->len;) {
        size_t len = (size_t)min_u64(frame->len - done, PIECE_BYTES);

        err = read_at(reading, reading->offset + BACKUP_FRAME_LEN + done, piece, len);
        if (err == ERR_OK) {
            crc = crc32c(crc, piece, len);
            crypto_hash_add(reading->hash, slice_make(piece, len));
        }
        done += len;
    }
    mem_free(piece);
    THEN(err, end_part(reading, frame, crc));
    return err;
}

/* Where the log behind the snapshot begins. */
static enum err mark_snapshot(struct reading *reading, const struct vfs *vfs)
{
    struct store_snap_reader *reader;
    struct store_snap_info info;

    if (store_snap_open_file(vfs, window_name, PAYLOAD_MAX, &reader, &info) != ERR_OK) {
        return damaged(reading);
    }
    store_snap_close(reader);
    if (info.start != reading->head.from || info.end != reading->head.least) {
        return damaged(reading);
    }
    *reading->mark =
        (struct backup_mark){.is_known = true, .zxid = info.start, .chain = info.start_chain};
    return ERR_OK;
}

static enum err take_snapshot(struct reading *reading, const struct frame *frame)
{
    struct vfs_file window = {
        .reading = reading, .offset = reading->offset + BACKUP_FRAME_LEN, .size = frame->len};
    const struct vfs vfs = {.ops = &window_ops, .ctx = &window};

    if (reading->has_snapshot || reading->records > 0 || frame->len == 0 ||
        frame->len != reading->head.snapshot_bytes) {
        return damaged(reading);
    }
    reading->has_snapshot = true;
    enum err err = mark_snapshot(reading, &vfs);

    if (err == ERR_OK && reading->visitor->on_snapshot) {
        err = reading->visitor->on_snapshot(reading->visitor->ctx, &vfs, window_name);
        if (err == ERR_CORRUPT && reading->why[0] == '\0') {
            err = damaged(reading);
        }
    }
    THEN(err, sum_snapshot(reading, frame));
    return err;
}

static enum err take_record(struct reading *reading, struct wire_reader *reader)
{
    enum logrec_type type = (enum logrec_type)wire_get_u8(reader);
    zxid_t zxid = wire_get_u64(reader);
    uint64_t chain = wire_get_u64(reader);
    struct slice payload = wire_get_bytes(reader, ZAB_RECORD_BYTES_MAX);
    bool is_known = type >= LOGREC_TXN && type <= LOGREC_STAMP;

    if (!wire_reader_ok(reader) || !is_known || zxid <= reading->at || zxid > reading->head.end) {
        return damaged(reading);
    }
    struct logrec *rec = logrec_new(type, zxid, reading->at, reading->mark->chain, payload);
    enum err err = ERR_OK;

    if (!reading->mark->is_known) {
        rec->chain = chain;
    } else if (rec->chain != chain) {
        err = reading->records == 0 && !reading->head.full
                  ? fail(reading, ERR_GAP, "does not continue the backup before it")
                  : damaged(reading);
    }
    if (err == ERR_OK && reading->visitor->on_record) {
        err = reading->visitor->on_record(reading->visitor->ctx, rec);
    }
    *reading->mark = (struct backup_mark){.is_known = true, .zxid = zxid, .chain = chain};
    reading->at = zxid;
    reading->records++;
    logrec_unref(rec);
    return err;
}

static enum err take_records(struct reading *reading, const struct frame *frame)
{
    enum err err = read_payload(reading, frame, &reading->payload);
    struct wire_reader reader;

    wire_reader_init(&reader, buf_slice(&reading->payload));
    if (reading->head.snapshot_bytes > 0 && !reading->has_snapshot) {
        return damaged(reading);
    }
    while (err == ERR_OK && !wire_reader_done(&reader)) {
        err = take_record(reading, &reader);
    }
    return err;
}

/* Whether the end tells what was read. An increment without records knows no chain. */
static bool fits_end(const struct reading *reading)
{
    const struct backup_end *end = &reading->end;
    bool has_chain = reading->head.full || reading->records > 0;

    return end->zxid == reading->head.end && end->zxid == reading->at &&
           end->digest == reading->head.digest && end->records == reading->records &&
           end->chain == (has_chain ? reading->mark->chain : 0) &&
           reading->has_snapshot == (reading->head.snapshot_bytes > 0) &&
           reading->offset == reading->input->size;
}

static enum err take_end(struct reading *reading, const struct frame *frame)
{
    uint8_t sum[CRYPTO_SHA256_LEN];
    struct backup_end *end = &reading->end;
    enum err err = read_payload(reading, frame, &reading->payload);

    if (err != ERR_OK) {
        return err;
    }
    crypto_hash_end(reading->hash, sum);
    reading->hash = NULL;
    bool fits = backup_get_end(buf_slice(&reading->payload), end) == ERR_OK &&
                memcmp(sum, end->sha256, sizeof sum) == 0 && fits_end(reading);

    reading->has_end = true;
    return fits ? ERR_OK : damaged(reading);
}

static enum err take_part(struct reading *reading)
{
    struct frame frame;
    enum err err = read_frame(reading, &frame);

    if (err != ERR_OK) {
        return err;
    }
    if (reading->has_head == (frame.type == BACKUP_HEAD)) {
        return damaged(reading);
    }
    switch (frame.type) {
    case BACKUP_HEAD:
        return take_head(reading, &frame);
    case BACKUP_SNAPSHOT:
        return take_snapshot(reading, &frame);
    case BACKUP_RECORDS:
        return take_records(reading, &frame);
    case BACKUP_END:
        return take_end(reading, &frame);
    }
    return damaged(reading);
}

static enum err take_magic(struct reading *reading)
{
    uint8_t magic[BACKUP_MAGIC_LEN];

    if (reading->input->size < sizeof magic) {
        return fail(reading, ERR_FORMAT, "is not a backup of zabra");
    }
    enum err err = read_at(reading, 0, magic, sizeof magic);

    if (err != ERR_OK) {
        return err;
    }
    if (memcmp(magic, backup_magic, sizeof magic) != 0) {
        return fail(reading, ERR_FORMAT, "is not a backup of zabra");
    }
    crypto_hash_add(reading->hash, slice_make(magic, sizeof magic));
    reading->offset = sizeof magic;
    return ERR_OK;
}

static void begin(struct reading *reading)
{
    reading->hash = crypto_hash_begin();
    buf_init(&reading->head_bytes, BACKUP_HEAD_MAX);
    buf_init(&reading->payload, PAYLOAD_MAX);
}

static void release(struct reading *reading)
{
    uint8_t unused[CRYPTO_SHA256_LEN];

    if (reading->hash) {
        crypto_hash_end(reading->hash, unused);
    }
    buf_release(&reading->payload);
}

enum err backup_read(const struct backup_input *input, const struct backup_visitor *visitor,
                     struct backup_mark *inout_mark, struct backup_end *ret_end,
                     char why[BACKUP_WHY_MAX])
{
    struct reading reading = {.input = input, .visitor = visitor, .mark = inout_mark, .why = why};

    why[0] = '\0';
    begin(&reading);
    enum err err = take_magic(&reading);

    while (err == ERR_OK && !reading.has_end) {
        err = take_part(&reading);
    }
    *ret_end = reading.end;
    buf_release(&reading.head_bytes);
    release(&reading);
    if (err != ERR_OK && why[0] == '\0') {
        (void)fail(&reading, err, "%s", err_text(err));
    }
    return err;
}

enum err backup_read_head(const struct backup_input *input, struct buf *memory,
                          struct backup_head *ret_head, char why[BACKUP_WHY_MAX])
{
    static const struct backup_visitor none = {.ctx = NULL};
    struct backup_mark mark = {.is_known = false};
    struct reading reading = {.input = input, .visitor = &none, .mark = &mark, .why = why};
    struct frame frame;

    why[0] = '\0';
    begin(&reading);
    enum err err = take_magic(&reading);

    THEN(err, read_frame(&reading, &frame));
    if (err == ERR_OK) {
        err = frame.type == BACKUP_HEAD ? take_head(&reading, &frame) : damaged(&reading);
    }
    *ret_head = reading.head;
    *memory = reading.head_bytes;
    release(&reading);
    return err;
}
