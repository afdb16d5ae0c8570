#include "cli/inspect_files.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/os_rng.h"
#include "storage/names.h"
#include "storage/note_file.h"
#include "storage/slots.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    SEGMENT_BYTES = 32 << 20,   /* Matters only to `zabra recover`, which may begin a segment. */
    RECORD_BYTES_MAX = 16 << 20 /* The same as when the server opens the store. */
};

/* The state of the visitor between two files. */
struct visit {
    struct inspect_files *files;
    const struct store_report *report;
    const struct vfs *vfs;
    struct inspect_slot slots[SLOTS_COUNT];
    uint64_t first; /* Number of the log's first segment; 0: the manifest cannot be read. */
};

const char *inspect_lock(const char *dir, struct vfs *vfs)
{
    enum err err = vfs_posix_open(dir, vfs);

    if (err) {
        return "not a readable directory";
    }
    err = vfs->ops->lock(vfs->ctx);
    if (err) {
        vfs_posix_close(vfs);
    }
    return err == ERR_BUSY ? "in use by a replica; stop the replica first"
           : err           ? err_text(err)
                           : NULL;
}

enum err inspect_open(struct vfs vfs, bool read_only, struct store **ret_store,
                      struct store_report *ret_report, struct store_options *ret_options)
{
    struct store_options options = {.vfs = vfs,
                                    .segment_bytes = SEGMENT_BYTES,
                                    .snapshots_keep = 1,
                                    .salt_seed = os_random_u64(),
                                    .record_bytes_max = RECORD_BYTES_MAX};

    if (ret_options) {
        *ret_options = options;
    }
    return store_open(&options, read_only, ret_store, ret_report);
}

void inspect_cluster(const uint8_t cluster[STORE_CLUSTER_LEN], char text[INSPECT_CLUSTER_MAX])
{
    for (size_t i = 0; i < STORE_CLUSTER_LEN; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", cluster[i]);
    }
}

#define JUDGE(file, sound, word, ...)                                    \
    do {                                                                 \
        (file)->is_sound = (sound);                                      \
        (file)->verdict = (word);                                        \
        (void)snprintf((file)->text, sizeof((file)->text), __VA_ARGS__); \
    } while (0)

static struct inspect_file *add(struct inspect_files *files, const char *name, const char *kind)
{
    MEM_GROW(files->items, files->count, files->cap, MEM_ITEMS_MAX);

    struct inspect_file *file = &files->items[files->count++];

    *file = (struct inspect_file){.kind = kind, .is_sound = true, .verdict = "sound"};
    (void)snprintf(file->name, sizeof(file->name), "%s", name);
    return file;
}

/* ---- Small records. ---- */

static void on_manifest(void *arg, const struct manifest *manifest)
{
    struct visit *visit = arg;

    visit->first = manifest->first;
}

static void on_slot(void *arg, const struct inspect_slot *slot)
{
    struct visit *visit = arg;

    visit->slots[slot->index] = *slot;
    if (slot->index + 1 < SLOTS_COUNT) {
        return;
    }

    struct inspect_file *file = add(visit->files, slot->file, "record");
    const struct inspect_slot *one = &visit->slots[0];
    const struct inspect_slot *two = &visit->slots[1];

    if (!one->is_valid && !two->is_valid) {
        JUDGE(file, false, "damaged", "both copies fail verification");
    } else if (!one->is_valid || !two->is_valid) {
        JUDGE(file, true, "one copy",
              "the other copy fails verification; the next start rewrites it");
    } else {
        JUDGE(file, true, "sound", "written %" PRIu64 " times", max_u64(one->seq, two->seq));
    }
}

static void add_missing(struct inspect_files *files)
{
    static const char *const names[] = {NAME_IDENTITY, NAME_PROMISE, NAME_QUARANTINE,
                                        NAME_MANIFEST};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        bool is_there = false;

        for (size_t k = 0; k < files->count; k++) {
            is_there = is_there || strcmp(files->items[k].name, names[i]) == 0;
        }
        if (!is_there) {
            struct inspect_file *file = add(files, names[i], "record");

            JUDGE(file, false, "missing", "missing");
        }
    }
}

/* ---- Segments. ---- */

static void on_segment(void *arg, const struct inspect_segment *segment)
{
    struct visit *visit = arg;
    struct inspect_file *file = add(visit->files, segment->file, "segment");

    file->is_ours = segment->is_ours;
    file->is_valid = segment->is_valid && segment->size == segment->header.bytes;
    file->header = segment->header;
    file->last = segment->header.prev_zxid;
    file->end = VFS_BLOCK;
    file->fault = segment->is_valid && !file->is_valid
                      ? "the file size differs from the size in its header"
                      : NULL;
}

static void on_batch(void *arg, const struct inspect_segment *segment,
                     const struct inspect_batch *batch)
{
    struct visit *visit = arg;
    struct inspect_file *file = &visit->files->items[visit->files->count - 1];

    ASSERT(strcmp(file->name, segment->file) == 0);
    if (!batch->fault) {
        file->batches++;
        file->end = batch->offset + batch->bytes;
    } else if (!file->fault) {
        file->fault = batch->fault;
        file->fault_offset = batch->offset;
    }
}

static void on_record(void *arg, const struct inspect_batch *batch,
                      const struct walfmt_record *record)
{
    struct visit *visit = arg;
    struct inspect_file *file = &visit->files->items[visit->files->count - 1];

    (void)batch;
    file->records++;
    file->last = record->zxid;
}

/* Returns the segment with that number; 0: the newest one, which comes last. */
static struct inspect_file *segment_find(struct inspect_files *files, uint64_t number)
{
    struct inspect_file *found = NULL;

    for (size_t i = 0; i < files->count; i++) {
        struct inspect_file *file = &files->items[i];
        bool wanted = number == 0 || name_parse(file->name).number == number;

        found = wanted && file->is_ours && strcmp(file->kind, "segment") == 0 ? file : found;
    }
    return found;
}

/* Judges a segment of the log up to the offset `end`; 0: up to the end of its batches. */
static void judge_reached(struct inspect_file *file, uint64_t end,
                          const struct store_report *report)
{
    file->is_reached = true;
    if (!file->is_valid && !file->fault) {
        JUDGE(file, false, "damaged", "the header fails verification");
    } else if (file->fault && end == 0 && report->verdict == STORE_TORN_TAIL) {
        JUDGE(file, true, "torn tail",
              "a crash interrupted the batch at offset %" PRIu64 " before it was acknowledged",
              file->fault_offset);
    } else if (file->fault && (end == 0 || file->fault_offset < end)) {
        JUDGE(file, false, "damaged", "offset %" PRIu64 ": %s", file->fault_offset, file->fault);
    } else if (file->end < end) {
        JUDGE(file, false, "damaged", "offset %" PRIu64 ": a batch is missing", file->end);
    } else {
        JUDGE(file, true, "sound", "%" PRIu64 " records in %" PRIu64 " batches, up to 0x%" PRIx64,
              file->records, file->batches, file->last);
    }
}

/* Follows the headers back from the newest segment. Returns whether they lead to `first`. */
static bool walk_back(struct visit *visit)
{
    struct inspect_file *file = segment_find(visit->files, 0);
    uint64_t end = 0;
    uint64_t reached = 0;

    while (file && !file->is_reached) {
        uint64_t before = file->is_valid ? file->header.prev_number : 0;

        judge_reached(file, end, visit->report);
        reached = name_parse(file->name).number;
        end = file->header.prev_offset;
        file = before ? segment_find(visit->files, before) : NULL;
    }
    return visit->first != 0 && reached == visit->first;
}

/* Judges the segments. If walk_back() has reached the first one, the segments that it has skipped
 * are no part of the log; if not, they may be. */
static void judge_segments(struct visit *visit)
{
    bool is_whole = walk_back(visit);

    for (size_t i = 0; i < visit->files->count; i++) {
        struct inspect_file *file = &visit->files->items[i];

        if (strcmp(file->kind, "segment") != 0 || file->is_reached) {
            continue;
        }
        if (visit->first == 0 || (file->is_ours && !is_whole)) {
            JUDGE(file, false, "not reached",
                  "a newer segment that leads to it is damaged or missing");
        } else {
            JUDGE(file, true, "left over", "the log no longer uses it");
        }
    }
}

/* ---- Snapshots and other files. ---- */

static void on_snapshot(void *arg, const struct inspect_snapshot *snapshot)
{
    struct visit *visit = arg;
    struct inspect_file *file = add(visit->files, snapshot->file, "snapshot");
    const struct store_snap_info *shown = &snapshot->info.shown;

    if (visit->first == 0) {
        JUDGE(file, snapshot->is_valid, snapshot->is_valid ? "sound" : "damaged",
              "the manifest is damaged, so its use is unknown");
    } else if (!snapshot->is_ours || name_parse(snapshot->file).number < visit->report->log_base) {
        JUDGE(file, true, "left over", "the log starts after it");
    } else if (!snapshot->is_valid) {
        JUDGE(file, false, "damaged", "it fails verification");
    } else {
        JUDGE(file, true, "sound", "%" PRIu64 " znodes as of 0x%" PRIx64 " to 0x%" PRIx64,
              shown->node_count, shown->start, shown->end);
    }
}

static void judge_note(const struct visit *visit, struct inspect_file *file, const char *name,
                       const char *content)
{
    struct buf value;

    buf_init(&value, NOTE_FILE_MAX);
    if (note_file_read(visit->vfs, name, &value) == ERR_OK) {
        JUDGE(file, true, "sound", "%s", content);
    } else {
        JUDGE(file, false, "damaged", "it fails verification; a start ignores it");
    }
    buf_release(&value);
}

static void on_other(void *arg, const char *name)
{
    struct visit *visit = arg;
    struct inspect_file *file = add(visit->files, name, "other");
    enum name_kind kind = name_parse(name).kind;

    if (kind == NAME_KIND_NEXT) {
        JUDGE(file, true, "sound", "zeros, preallocated for the next segment");
    } else if (kind == NAME_KIND_TEMP) {
        JUDGE(file, true, "left over", "unfinished; the next start removes it");
    } else if (strcmp(name, NOTE_MEMBERS) == 0) {
        judge_note(visit, file, name, "the members that this replica has known last");
    } else if (strcmp(name, NOTE_REMOVED) == 0) {
        judge_note(visit, file, name, "the mark that a change has removed this replica");
    } else if (fnmatch("*.backup", name, 0) == 0) {
        JUDGE(file, true, "backup",
              "a backup, not read here: 'zabra inspect' it alone, or 'zabra restore --from' this "
              "directory");
    } else {
        JUDGE(file, true, "unknown", "not a file of zabra");
    }
}

enum err inspect_files_load(const struct store_options *options, const struct store_report *report,
                            struct inspect_files *ret_files)
{
    struct visit visit = {.files = ret_files, .report = report, .vfs = &options->vfs};
    const struct inspect_visitor visitor = {.arg = &visit,
                                            .manifest = on_manifest,
                                            .slot = on_slot,
                                            .segment = on_segment,
                                            .batch = on_batch,
                                            .record = on_record,
                                            .snapshot = on_snapshot,
                                            .other = on_other};

    *ret_files = (struct inspect_files){0};

    enum err err = inspect_dir(options, &visitor);

    if (err == ERR_OK && report->verdict != STORE_EMPTY) {
        add_missing(ret_files);
        judge_segments(&visit);
    }
    return err;
}

void inspect_files_release(struct inspect_files *files)
{
    mem_free(files->items);
    *files = (struct inspect_files){0};
}

bool inspect_files_sound(const struct inspect_files *files)
{
    bool is_sound = true;

    for (size_t i = 0; i < files->count; i++) {
        is_sound = is_sound && files->items[i].is_sound;
    }
    return is_sound;
}
