/* Removes files that belong neither to the log nor to the set of snapshots. Makes a new manifest if
 * the manifest's file is missing. */
#include "storage/store_int.h"

static bool is_in_log(const struct wal *wal, const struct name *name)
{
    for (size_t i = 0; i < wal->live.count; i++) {
        const struct walfmt_header *header = &wal->live.segments[i]->header;

        if (header->history == name->history && header->number == name->number) {
            return true;
        }
    }
    return false;
}

static bool is_leftover(struct store *store, const struct name *name)
{
    const struct wal *wal = &store->wal;

    switch (name->kind) {
    case NAME_KIND_OTHER:
    case NAME_KIND_SLOTS:
        return false;
    case NAME_KIND_WAL:
        return !is_in_log(wal, name);
    case NAME_KIND_SNAP:
        return name->history != wal->manifest.history ||
               !snap_set_find(&store->snaps, name->number);
    case NAME_KIND_NEXT:
        return name->number <= wal->top || name->number > wal->top + wal->next_count;
    case NAME_KIND_TEMP:
        return true;
    }
    UNREACHABLE();
}

enum err leftovers_remove(struct store *store, const struct names *names)
{
    const struct vfs *vfs = &store->options.vfs;
    bool has_any = false;
    enum err err = ERR_OK;

    ASSERT(!store->is_read_only);
    for (size_t i = 0; err == ERR_OK && i < names->count; i++) {
        if (is_leftover(store, &names->list[i])) {
            has_any = true;
            err = vfs_remove(vfs, names->list[i].text);
        }
    }
    return err == ERR_OK && has_any ? vfs->ops->sync_dir(vfs->ctx) : err;
}

enum err restart_tidy(struct store *store)
{
    ASSERT(store->wal.is_open && !store->wal.is_staging);

    struct wal *wal = &store->wal;
    struct names names;
    enum err err = names_list(&store->options.vfs, &names);

    if (err == ERR_OK) {
        err = leftovers_remove(store, &names);
        names_release(&names);
    }
    store->is_damaged = false;
    wal->stuck_count = 0;
    snap_figures(store);
    MUTEX_HOLD(&wal->index_mutex);
    store->unremoved = 0;
    store->snap_records_mark = wal->live.records_total;
    store->snap_bytes_mark = wal->live.bytes_total;
    return err == ERR_OK ? ERR_OK : ERR_IO;
}

enum err manifest_ensure(struct store *store)
{
    ASSERT(!store->is_lost && store->has_identity);

    struct wal *wal = &store->wal;

    if (wal->slots.file) {
        return ERR_OK;
    }
    wal->manifest = (struct manifest){
        .history = wal->history_top + 1, .first = wal->top + 1, .top = wal->top + 1};
    wal->history_top++;
    wal->top++;
    return wal_manifest_write(wal);
}
