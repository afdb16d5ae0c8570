#include "storage/inspect.h"

#include "storage/names.h"
#include "storage/slots.h"
#include "storage/wal.h"

struct inspection {
    const struct vfs *vfs;
    const struct store_options *options;
    const struct inspect_visitor *visitor;
    struct wal wal; /* Used for its limits only. */
    bool has_manifest;
    struct manifest manifest;
};

static void inspect_slots(struct inspection *inspection, const char *file)
{
    struct vfs_file *handle = NULL;

    if (!inspection->visitor->slot) {
        return;
    }
    /* Both slots of a file that cannot be opened count as bad. */
    (void)inspection->vfs->ops->open(inspection->vfs->ctx, file, false, &handle);
    for (unsigned i = 0; i < SLOTS_COUNT; i++) {
        struct slots_view view = {0};

        if (handle) {
            view = slots_look(inspection->vfs, handle, (enum slots_kind)name_slots(file), i);
        }
        struct inspect_slot slot = {
            .file = file, .index = i, .is_valid = view.valid, .seq = view.seq};

        inspection->visitor->slot(inspection->visitor->arg, &slot);
    }
    if (handle) {
        inspection->vfs->ops->close(handle);
    }
}

static void inspect_manifest(struct inspection *inspection)
{
    struct slots slots;

    if (slots_open(&slots, inspection->vfs, NAME_MANIFEST, SLOTS_MANIFEST) == ERR_OK) {
        inspection->has_manifest =
            manifest_decode(slice_make(slots.payload, slots.len), &inspection->manifest) == ERR_OK;
    }
    slots_close(&slots, inspection->vfs);
    if (inspection->has_manifest && inspection->visitor->manifest) {
        inspection->visitor->manifest(inspection->visitor->arg, &inspection->manifest);
    }
}

/* Shows the records of one batch. Returns what is wrong with them, or NULL. */
static const char *inspect_records(const struct inspection *inspection,
                                   const struct inspect_batch *batch, struct wal_loaded *loaded)
{
    const struct inspect_visitor *visitor = inspection->visitor;
    struct walfmt_record record;
    uint64_t chain = batch->head.chain;
    enum err err = ERR_OK;

    ASSERT(loaded->cursor.pos == WALFMT_BATCH_HEAD);
    while ((err = walfmt_next(&loaded->cursor, &record)) == ERR_OK) {
        if (logrec_chain(chain, record.type, record.zxid, record.prev, record.payload) !=
            record.chain) {
            return "the chain of records is broken";
        }
        chain = record.chain;
        if (visitor->record) {
            visitor->record(visitor->arg, batch, &record);
        }
    }
    return err == ERR_MISSING ? NULL : "a record fails verification";
}

/* Shows one batch. Returns false when no batch behind it can be shown. */
static bool inspect_batch(const struct inspection *inspection,
                          const struct inspect_segment *segment, struct vfs_file *file,
                          struct walfmt_place *place)
{
    const struct inspect_visitor *visitor = inspection->visitor;
    struct inspect_batch batch = {.offset = place->offset};
    struct wal_loaded loaded;
    enum err err = wal_load(&inspection->wal, file, place, segment->size - place->offset, &loaded);

    if (err == ERR_OK) {
        batch.bytes = walfmt_framed_len(loaded.cursor.raw.len);
        batch.head = loaded.head;
        batch.fault = inspect_records(inspection, &batch, &loaded);
    } else if (err == ERR_CORRUPT) {
        batch.fault = "a sector is damaged or missing";
    } else if (err != ERR_MISSING) {
        batch.fault = "cannot be read";
    }
    wal_loaded_release(&loaded);
    if (err != ERR_MISSING && visitor->batch) {
        visitor->batch(visitor->arg, segment, &batch);
    }
    place->offset += batch.bytes;
    place->number++;
    return err == ERR_OK && !batch.fault;
}

static bool is_ours(const struct inspection *inspection, const struct name *name)
{
    const struct manifest *manifest = &inspection->manifest;

    return inspection->has_manifest && name->history == manifest->history &&
           (name->kind == NAME_KIND_SNAP || name->number >= manifest->first);
}

static bool read_header(const struct inspection *inspection, const struct name *name,
                        struct vfs_file *file, struct inspect_segment *segment)
{
    const struct vfs_ops *ops = inspection->vfs->ops;
    uint8_t block[VFS_BLOCK];
    size_t got = 0;

    return ops->size(file, &segment->size) == ERR_OK &&
           ops->pread(file, 0, block, sizeof(block), &got) == ERR_OK && got == sizeof(block) &&
           walfmt_header_decode(block, &segment->header) == ERR_OK &&
           segment->header.number == name->number && segment->header.history == name->history;
}

static void inspect_segment(const struct inspection *inspection, const struct name *name)
{
    const struct vfs_ops *ops = inspection->vfs->ops;
    struct inspect_segment segment = {.file = name->text, .is_ours = is_ours(inspection, name)};
    struct vfs_file *file = NULL;

    if (ops->open(inspection->vfs->ctx, name->text, false, &file) == ERR_OK) {
        segment.is_valid = read_header(inspection, name, file, &segment);
    }
    if (inspection->visitor->segment) {
        inspection->visitor->segment(inspection->visitor->arg, &segment);
    }
    if (segment.is_valid) {
        struct walfmt_place place = {
            .salt = segment.header.salt, .offset = VFS_BLOCK, .number = segment.header.batch_first};
        bool goes_on = true;

        while (goes_on && place.offset < segment.size) {
            goes_on = inspect_batch(inspection, &segment, file, &place);
        }
    }
    if (file) {
        ops->close(file);
    }
}

static void inspect_snapshot(const struct inspection *inspection, const struct name *name)
{
    struct inspect_snapshot snapshot = {.file = name->text, .is_ours = is_ours(inspection, name)};

    if (!inspection->visitor->snapshot) {
        return;
    }
    snapshot.is_valid =
        snapfile_verify(inspection->vfs, name->text, inspection->options->record_bytes_max,
                        &snapshot.info) == ERR_OK &&
        snapshot.info.shown.start == name->number;
    inspection->visitor->snapshot(inspection->visitor->arg, &snapshot);
}

static void inspect_name(struct inspection *inspection, const struct name *name)
{
    switch (name->kind) {
    case NAME_KIND_SLOTS:
        inspect_slots(inspection, name->text);
        break;
    case NAME_KIND_WAL:
        inspect_segment(inspection, name);
        break;
    case NAME_KIND_SNAP:
        inspect_snapshot(inspection, name);
        break;
    case NAME_KIND_OTHER:
    case NAME_KIND_NEXT:
    case NAME_KIND_TEMP:
        if (inspection->visitor->other) {
            inspection->visitor->other(inspection->visitor->arg, name->text);
        }
        break;
    }
}

enum err inspect_dir(const struct store_options *options, const struct inspect_visitor *visitor)
{
    static const struct store_identity none;
    struct inspection inspection = {.vfs = &options->vfs, .options = options, .visitor = visitor};
    struct names names;
    enum err err = names_list(&options->vfs, &names);

    if (err != ERR_OK) {
        return err;
    }
    wal_init(&inspection.wal, options, &none);
    inspect_manifest(&inspection);
    for (size_t i = 0; i < names.count; i++) {
        inspect_name(&inspection, &names.list[i]);
    }
    wal_release(&inspection.wal);
    names_release(&names);
    return ERR_OK;
}
