#include "storage/store_int.h"

#include <inttypes.h>

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

enum err snap_unlink(struct store *store, size_t index)
{
    struct snap_set *set = &store->snaps;
    char name[VFS_NAME_MAX];

    ASSERT(index < set->count);
    name_snap(name, store->wal.manifest.history, set->list[index].info.shown.start);

    enum err err = vfs_remove(&store->options.vfs, name);

    if (err != ERR_OK) {
        return err;
    }
    set->count--;
    memmove(set->list + index, set->list + index + 1, (set->count - index) * sizeof(*set->list));
    return ERR_OK;
}

void snap_figures(struct store *store)
{
    uint32_t good = 0;
    const struct snap_entry *newest = snap_set_newest(&store->snaps);

    for (size_t i = 0; i < store->snaps.count; i++) {
        good += !store->snaps.list[i].is_bad;
    }
    MUTEX_HOLD(&store->wal.index_mutex);
    store->snap_count = good;
    store->snap_newest_end = newest ? newest->info.shown.end : 0;
}

/* Reads head and trailer of a snapshot. A bad snapshot is no error, but marked in `entry`.
 * ERR_NO_FILES. */
static enum err entry_load(struct store *store, const struct name *name, struct snap_entry *entry)
{
    struct snapfile_reader reader;
    struct slice mine = slice_make(store->identity.cluster, STORE_CLUSTER_LEN);

    *entry = (struct snap_entry){.is_bad = true};

    enum err err = snapfile_open(&reader, &store->options.vfs, name->text,
                                 store->options.record_bytes_max, false);

    if (err == ERR_OK) {
        struct slice theirs = slice_make(reader.info.cluster, STORE_CLUSTER_LEN);
        bool is_foreign = !slice_is_zero(mine) && !slice_is_zero(theirs) && !slice_eq(mine, theirs);

        entry->info = reader.info;
        entry->is_bad = is_foreign || reader.info.shown.start != name->number;
        snapfile_close(&reader);
    }
    entry->info.shown.start = name->number;
    return err == ERR_NO_FILES ? err : ERR_OK;
}

/* Compares a good snapshot with the log. A snapshot is made only of records that are durable in the
 * log, so a log that ends before the snapshot's end has lost records. */
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
            /* A purge was interrupted: the log no longer reaches back to this snapshot. */
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
        report_damage(report,
                      "the log begins after %" PRIx64 " and no snapshot passes verification",
                      store->wal.live.base);
    }
    return ERR_OK;
}

/* Sets snap_records_mark and snap_bytes_mark. The totals of the log minus these marks are, roughly,
 * the records and bytes that a replay over the newest snapshot would read: store_figures shows
 * them. */
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

/* ---- Purging. ---- */

struct snap_entry *snap_find(struct store *store, uint64_t history, zxid_t start)
{
    return store->wal.manifest.history == history ? snap_set_find(&store->snaps, start) : NULL;
}

/* Returns whether a snapshot is good. Reads it without holding a mutex, then notes the result. A
 * snapshot that was read since the store was opened gets a quick check only. */
static bool verify_one(struct store *store, uint64_t history, struct snap_entry before)
{
    const struct vfs *vfs = &store->options.vfs;
    uint32_t record_max = store->options.record_bytes_max;
    struct snapfile_reader reader;
    struct snapfile_info info;
    char name[VFS_NAME_MAX];
    enum err err = ERR_CORRUPT;

    name_snap(name, history, before.info.shown.start);
    if (before.is_verified && !before.is_bad) {
        err = snapfile_open(&reader, vfs, name, record_max, false);
        if (err == ERR_OK) {
            snapfile_close(&reader);
        }
    } else if (!before.is_bad) {
        err = snapfile_verify(vfs, name, record_max, &info);
    }
    MUTEX_HOLD(&store->wal.files_mutex);

    struct snap_entry *entry = snap_find(store, history, before.info.shown.start);

    /* A snapshot that could not be opened for lack of a descriptor is neither good nor bad. */
    if (entry && err != ERR_NO_FILES) {
        entry->is_verified = err == ERR_OK;
        entry->is_bad = err != ERR_OK;
    }
    return err == ERR_OK;
}

/* Verifies snapshots from the newest on until `snapshots_keep` are good. Returns false when fewer
 * are good; else true, the history when the search began and the start of the oldest snapshot to
 * keep. */
static bool choose_cut(struct store *store, uint64_t *ret_history, zxid_t *ret_cut)
{
    struct snap_entry *copy = NULL;
    uint32_t good = 0;

    mutex_lock(&store->wal.files_mutex);

    size_t count = store->snaps.count;

    *ret_history = store->wal.manifest.history;
    if (count > 0) {
        copy = mem_dup(store->snaps.list, count * sizeof(*copy));
    }
    mutex_unlock(&store->wal.files_mutex);
    for (size_t i = count; i > 0 && good < store->options.snapshots_keep; i--) {
        bool is_good = verify_one(store, *ret_history, copy[i - 1]);

        if (!is_good) {
            PROBE("storage.purge_skips_bad_snapshot");
        }
        if (is_good || MUTANT(22)) {
            good++;
            *ret_cut = copy[i - 1].info.shown.start;
        }
    }
    mem_free(copy);
    return good == store->options.snapshots_keep;
}

/* Unlinks snapshots that are older than `cut` or bad. Returns how many could not be removed: these
 * snapshots count as bad from now on, because the log will not reach back to them. */
static uint32_t unlink_older(struct store *store, zxid_t cut)
{
    ASSERT(snap_set_find(&store->snaps, cut));

    uint32_t unremoved = 0;

    for (size_t i = store->snaps.count; i > 0; i--) {
        struct snap_entry *entry = &store->snaps.list[i - 1];
        bool is_due = entry->info.shown.start < cut || (entry->is_bad && !MUTANT(22));

        if (is_due && snap_unlink(store, i - 1) != ERR_OK) {
            entry->is_bad = true;
            unremoved++;
        }
    }
    return unremoved;
}

/* Notes that `bytes` bytes of log, up to `below`, are kept for a reader; 0: none. `is_lost`: this
 * purge removes log that it needs. */
static void note_kept(struct store *store, enum store_reader reader, zxid_t below, uint64_t bytes,
                      bool is_lost)
{
    store->kept_below[reader] = bytes > 0 ? below : 0;
    if (reader != STORE_LEARNERS) {
        return; /* The figures are those of learners. */
    }
    MUTEX_HOLD(&store->wal.index_mutex);
    store->kept_bytes = bytes;
    store->keeps_lost += is_lost ? 1 : 0;
}

/* Returns where the log is cut for one reader: at the oldest snapshot, or further back when the
 * reader needs more and the limit allows it. Notes what is kept. */
static zxid_t choose_cut_for(struct store *store, enum store_reader reader, zxid_t cut,
                             bool may_keep)
{
    zxid_t keep = atomic_load(&store->keep[reader]);
    /* If a part of the log after `keep` is gone, the reader cannot use the rest. */
    bool is_there = keep == 0 || keep >= store->wal.live.base;
    uint64_t bytes = is_there && keep < cut ? wal_purge_bytes(&store->wal, keep, cut) : 0;
    bool keeps = bytes > 0 && may_keep && bytes <= store->options.keep_bytes_max;

    if (bytes > 0 && !keeps) {
        PROBE("storage.kept_log_lost");
    }
    note_kept(store, reader, cut, keeps ? bytes : 0, bytes > 0 && !keeps);
    return keeps ? keep : cut;
}

/* Returns where the log is cut. What one reader needs does not depend on what others need, and both
 * are ranges up to `cut`: so no more than the limit is kept. The caller holds files_mutex. */
static zxid_t choose_log_cut(struct store *store, zxid_t cut, bool may_keep)
{
    zxid_t lowest = cut;

    for (size_t i = 0; i < STORE_READERS; i++) {
        lowest = min_u64(lowest, choose_cut_for(store, (enum store_reader)i, cut, may_keep));
    }
    return lowest;
}

/* Removes snapshots and log before `cut`. The caller holds files_mutex. */
static enum err purge_to(struct store *store, zxid_t cut, bool may_keep)
{
    const struct vfs *vfs = &store->options.vfs;
    size_t count_before = store->snaps.count;
    uint32_t unremoved = unlink_older(store, cut);
    enum err err = ERR_OK;

    ASSERT(store->snaps.count > 0);
    if (store->snaps.count < count_before) {
        err = vfs->ops->sync_dir(vfs->ctx);
    }
    THEN(err, wal_purge(&store->wal, choose_log_cut(store, cut, may_keep)));
    snap_figures(store);
    MUTEX_HOLD(&store->wal.index_mutex);
    store->unremoved = unremoved + (uint32_t)store->wal.stuck_count;
    return err == ERR_OK ? ERR_OK : ERR_IO;
}

enum err snaps_purge(struct store *store, bool may_keep)
{
    uint64_t history = 0;
    zxid_t cut = 0;
    enum err err = ERR_OK;

    ASSERT(may_keep || snaps_keeps(store));
    for (size_t i = 0; i < STORE_READERS; i++) {
        note_kept(store, (enum store_reader)i, 0, 0, false);
    }
    if (!choose_cut(store, &history, &cut)) {
        return ERR_OK;
    }
    MUTEX_HOLD(&store->wal.files_mutex);
    if (!store->is_quarantined && snap_find(store, history, cut)) {
        err = purge_to(store, cut, may_keep);
    }
    return err;
}

bool snaps_keeps(const struct store *store)
{
    bool keeps = false;

    for (size_t i = 0; i < STORE_READERS; i++) {
        keeps = keeps || store->kept_below[i] != 0;
    }
    return keeps;
}

bool snaps_keeps_too_much(const struct store *store)
{
    bool too_much = false;

    for (size_t i = 0; i < STORE_READERS; i++) {
        too_much = too_much || (store->kept_below[i] != 0 &&
                                atomic_load(&store->keep[i]) >= store->kept_below[i]);
    }
    return too_much;
}
