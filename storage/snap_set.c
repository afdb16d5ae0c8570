#include "base/check.h"
#include "base/mem.h"
#include "base/probe.h"
#include "storage/store_int.h"

#include <inttypes.h>
#include <string.h>

void snap_set_release(struct snap_set *set)
{
    mem_free(set->list);
    *set = (struct snap_set){0};
}

struct snap_entry *snap_set_find(struct snap_set *set, zxid_t start)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->list[i].info.shown.start == start) {
            return &set->list[i];
        }
    }
    return NULL;
}

void snap_set_add(struct snap_set *set, const struct snap_entry *entry)
{
    struct snap_entry *same = snap_set_find(set, entry->info.shown.start);
    size_t at = set->count;

    if (same) {
        *same = *entry;
        return;
    }
    MEM_GROW(set->list, set->count, set->cap, MEM_ITEMS_MAX);
    while (at > 0 && set->list[at - 1].info.shown.start > entry->info.shown.start) {
        set->list[at] = set->list[at - 1];
        at--;
    }
    set->list[at] = *entry;
    set->count++;
}

struct snap_entry *snap_set_newest(struct snap_set *set)
{
    for (size_t i = set->count; i > 0; i--) {
        if (!set->list[i - 1].is_bad) {
            return &set->list[i - 1];
        }
    }
    return NULL;
}

void snap_set_remove(struct snap_set *set, size_t index)
{
    ASSERT(index < set->count);
    set->count--;
    memmove(set->list + index, set->list + index + 1, (set->count - index) * sizeof(*set->list));
}

enum err snap_unlink(struct store *store, size_t index)
{
    const struct vfs *vfs = &store->options.vfs;
    char name[VFS_NAME_MAX];

    ASSERT(index < store->snaps.count);
    name_snap(name, store->wal.manifest.history, store->snaps.list[index].info.shown.start);

    enum err err = vfs->ops->unlink(vfs->ctx, name);

    if (err != ERR_OK && err != ERR_MISSING) {
        return err;
    }
    snap_set_remove(&store->snaps, index);
    return ERR_OK;
}

void snap_figures(struct store *store)
{
    uint32_t good = 0;
    const struct snap_entry *newest = snap_set_newest(&store->snaps);

    for (size_t i = 0; i < store->snaps.count; i++) {
        good += !store->snaps.list[i].is_bad;
    }
    pthread_mutex_lock(&store->wal.index_mutex);
    store->snap_count = good;
    store->snap_newest_end = newest ? newest->info.shown.end : 0;
    pthread_mutex_unlock(&store->wal.index_mutex);
}

/* Reads head and trailer of one. ERR_NO_FILES; a bad one is no error. */
static enum err entry_load(struct store *store, const struct name *name, struct snap_entry *entry)
{
    static const uint8_t none[STORE_CLUSTER_LEN];
    struct snapfile_reader reader;
    const uint8_t *mine = store->identity.cluster;

    *entry = (struct snap_entry){.is_bad = true};

    enum err err =
        snapfile_open(&reader, &store->options.vfs, name->text, store->options.record_bytes_max);

    if (err == ERR_OK) {
        const uint8_t *theirs = reader.info.cluster;
        bool is_foreign = memcmp(mine, none, sizeof(none)) != 0 &&
                          memcmp(theirs, none, sizeof(none)) != 0 &&
                          memcmp(mine, theirs, sizeof(none)) != 0;

        entry->info = reader.info;
        entry->is_bad = is_foreign || reader.info.shown.start != name->number;
        snapfile_close(&reader);
    }
    entry->info.shown.start = name->number;
    return err == ERR_NO_FILES ? err : ERR_OK;
}

/* Compares a good snapshot with the log. A snapshot is made only of records that are durable in the
 * log, so a log that ends before the snapshot has lost records. */
static enum err judge_coverage(struct store *store, const struct snap_entry *entry,
                               struct store_report *report)
{
    struct wal *wal = &store->wal;
    const struct store_snap_info *info = &entry->info.shown;
    uint64_t chain = 0;

    if (info->end > wal->live.last) {
        PROBE("storage.log_behind_snapshot");
        report_damage(report,
                      "the log ends at %" PRIx64 " but the snapshot from %" PRIx64
                      " was made of records up to %" PRIx64,
                      wal->live.last, info->start, info->end);
        return ERR_OK;
    }

    enum err err = wal_chain_at(wal, info->start, &chain);
    bool is_same = err == ERR_OK && chain == info->start_chain;

    if (is_same) {
        err = wal_chain_at(wal, info->end, &chain);
        is_same = err == ERR_OK && chain == entry->info.end_chain;
    }
    if (!is_same && err != ERR_NO_FILES) {
        report_damage(report, "the snapshot from %" PRIx64 " to %" PRIx64 " is of another history",
                      info->start, info->end);
    }
    return err == ERR_NO_FILES ? err : ERR_OK;
}

enum err snaps_recover(struct store *store, const struct names *names, struct store_report *report)
{
    ASSERT(store->snaps.count == 0 && store->wal.is_open);

    for (size_t i = 0; i < names->count; i++) {
        const struct name *name = &names->list[i];
        struct snap_entry entry;

        if (name->kind != NAME_KIND_SNAP || name->history != store->wal.manifest.history) {
            continue;
        }

        enum err err = entry_load(store, name, &entry);

        if (err == ERR_OK && !entry.is_bad && entry.info.shown.start < store->wal.live.base) {
            /* A purge was interrupted: the log no longer reaches back to it. */
            PROBE("storage.stale_snapshot");
            continue;
        }
        if (!entry.is_bad) {
            err = judge_coverage(store, &entry, report);
        } else if (err == ERR_OK) {
            PROBE("storage.bad_snapshot");
        }
        if (err != ERR_OK) {
            return err;
        }
        snap_set_add(&store->snaps, &entry);
    }
    if (store->wal.live.base > 0 && !snap_set_newest(&store->snaps)) {
        PROBE("storage.no_snapshot_left");
        report_damage(report, "the log begins after %" PRIx64 " and no snapshot verifies",
                      store->wal.live.base);
    }
    return ERR_OK;
}

/* Counts what a replay over the newest snapshot would read, roughly. */
static void mark_snapshot(struct store *store, zxid_t start)
{
    const struct wal *wal = &store->wal;
    uint64_t records = 0;
    uint64_t bytes = 0;

    for (size_t i = 0; i < wal->live.count; i++) {
        const struct wal_segment *segment = wal->live.segments[i];

        for (size_t k = 0; k < segment->count; k++) {
            bool is_after = segment->extents[k].last > start;

            records += is_after ? segment->extents[k].count : 0;
            bytes += is_after ? segment->extents[k].bytes : 0;
        }
    }
    store->snap_records_mark = wal->live.records_total - records;
    store->snap_bytes_mark = wal->live.bytes_total - bytes;
}

void snaps_report(struct store *store, struct store_report *report)
{
    ASSERT(store->wal.is_open);

    const struct snap_entry *newest = snap_set_newest(&store->snaps);

    report->has_snapshot = newest != NULL;
    report->snap_start = newest ? newest->info.shown.start : 0;
    report->snap_end = newest ? newest->info.shown.end : 0;
    report->snap_digest = newest ? newest->info.shown.digest : 0;
    if (store->snaps.count > 0 && newest != &store->snaps.list[store->snaps.count - 1]) {
        PROBE("storage.snapshot_fallback");
    }
    mark_snapshot(store, report->snap_start);
    snap_figures(store);
}
