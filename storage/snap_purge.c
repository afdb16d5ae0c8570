#include "base/check.h"
#include "base/mem.h"
#include "base/probe.h"
#include "storage/store_int.h"

/* The entry of `start`, if the history is still `history`. The caller holds files_mutex. */
static struct snap_entry *entry_of(struct store *store, uint64_t history, zxid_t start)
{
    return store->wal.manifest.history == history ? snap_set_find(&store->snaps, start) : NULL;
}

/* Reads a snapshot without holding a mutex, then notes whether it is good. One that was read before
 * since the opening gets a quick look only. */
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
        err = snapfile_open(&reader, vfs, name, record_max);
        if (err == ERR_OK) {
            snapfile_close(&reader);
        }
    } else if (!before.is_bad) {
        err = snapfile_verify(vfs, name, record_max, &info);
    }
    pthread_mutex_lock(&store->wal.files_mutex);

    struct snap_entry *entry = entry_of(store, history, before.info.shown.start);

    /* One that could not be looked at for lack of a descriptor is neither good nor bad. */
    if (entry && err != ERR_NO_FILES) {
        entry->is_verified = err == ERR_OK;
        entry->is_bad = err != ERR_OK;
    }
    pthread_mutex_unlock(&store->wal.files_mutex);
    return err == ERR_OK;
}

/* Verifies from the newest on until enough are good. Returns the history looked at and the start of
 * the oldest to keep; 0 and false when there are not enough. */
static bool choose_cut(struct store *store, uint64_t *ret_history, zxid_t *ret_cut)
{
    struct snap_entry *copy = NULL;
    uint32_t good = 0;

    pthread_mutex_lock(&store->wal.files_mutex);

    size_t count = store->snaps.count;

    *ret_history = store->wal.manifest.history;
    if (count > 0) {
        copy = mem_dup(store->snaps.list, count * sizeof(*copy));
    }
    pthread_mutex_unlock(&store->wal.files_mutex);
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

/* Unlinks snapshots that are older than `cut` or bad; returns how many could not be removed. Those
 * are bad from now on: the log will not reach back to them. */
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

/* `bytes` bytes of log, up to `below`, are kept for learners alone; 0: none. */
static void note_kept(struct store *store, zxid_t below, uint64_t bytes, bool is_lost)
{
    ASSERT((below == 0) == (bytes == 0));

    store->kept_below = below;
    pthread_mutex_lock(&store->wal.index_mutex);
    store->kept_bytes = bytes;
    store->keeps_lost += is_lost ? 1 : 0;
    pthread_mutex_unlock(&store->wal.index_mutex);
}

/* Where the log is cut: at the oldest snapshot, or further back when a learner needs more and the
 * limit allows it. Notes what is kept for learners alone. The caller holds files_mutex. */
static zxid_t choose_log_cut(struct store *store, zxid_t cut, bool may_keep)
{
    zxid_t keep = atomic_load(&store->keep);
    /* Log behind a gap is of no use to the learner. */
    bool is_there = keep == 0 || keep >= store->wal.live.base;
    uint64_t bytes = is_there && keep < cut ? wal_purge_bytes(&store->wal, keep, cut) : 0;
    bool keeps = bytes > 0 && may_keep && bytes <= store->options.keep_bytes_max;

    if (bytes > 0 && !keeps) {
        PROBE("storage.kept_log_lost");
    }
    note_kept(store, keeps ? cut : 0, keeps ? bytes : 0, bytes > 0 && !keeps);
    return keeps ? keep : cut;
}

/* The caller holds files_mutex. */
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
    if (err == ERR_OK) {
        err = wal_purge(&store->wal, choose_log_cut(store, cut, may_keep));
    }
    snap_figures(store);
    pthread_mutex_lock(&store->wal.index_mutex);
    store->unremoved = unremoved + (uint32_t)store->wal.stuck_count;
    pthread_mutex_unlock(&store->wal.index_mutex);
    return err == ERR_OK ? ERR_OK : ERR_IO;
}

static enum err purge(struct store *store, bool may_keep)
{
    uint64_t history = 0;
    zxid_t cut = 0;
    enum err err = ERR_OK;

    note_kept(store, 0, 0, false);
    if (!choose_cut(store, &history, &cut)) {
        return ERR_OK;
    }
    pthread_mutex_lock(&store->wal.files_mutex);
    if (!store->is_quarantined && entry_of(store, history, cut)) {
        err = purge_to(store, cut, may_keep);
    }
    pthread_mutex_unlock(&store->wal.files_mutex);
    return err;
}

enum err snaps_purge(struct store *store)
{
    return purge(store, true);
}

enum err snaps_purge_all(struct store *store)
{
    ASSERT(store->kept_below != 0);
    return purge(store, false);
}

bool snaps_keeps_too_much(const struct store *store)
{
    return store->kept_below != 0 && atomic_load(&store->keep) >= store->kept_below;
}
