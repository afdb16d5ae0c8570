#include "storage/store_int.h"

/* Finds out whether the file holds at most a segment's header (`*ret_is_zero`). ERR_NO_FILES. */
static enum err holds_no_batch(const struct vfs *vfs, const char *name, bool *ret_is_zero)
{
    struct vfs_file *file = NULL;
    enum err err = vfs->ops->open(vfs->ctx, name, false, &file);

    *ret_is_zero = err == ERR_OK && wal_is_never_used(vfs, file);
    if (err == ERR_OK) {
        vfs->ops->close(file);
    }
    return err == ERR_NO_FILES ? err : ERR_OK;
}

/* Judges a directory without an identity: it must be empty, except for files that a crash while
 * formatting leaves. */
static enum err judge_empty(struct store *store, const struct names *names,
                            struct store_report *report)
{
    const struct vfs *vfs = &store->options.vfs;

    report->verdict = STORE_EMPTY;
    for (size_t i = 0; i < names->count; i++) {
        const struct name *name = &names->list[i];
        bool is_empty = name->kind != NAME_KIND_SNAP && name->kind != NAME_KIND_WAL;

        if (name->kind == NAME_KIND_WAL && name->history == 1) {
            enum err err = holds_no_batch(vfs, name->text, &is_empty);

            if (err != ERR_OK) {
                return err;
            }
        }
        if (!is_empty) {
            PROBE("storage.identity_missing");
            report_damage(report, "the file %s is missing but %s is there", NAME_IDENTITY,
                          name->text);
            store->is_lost = true;
        }
    }
    return ERR_OK;
}

/* Notes the highest numbers, so that new files get numbers that no file here ever had. */
static void note_numbers(struct wal *wal, const struct names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        const struct name *name = &names->list[i];
        bool is_numbered = name->kind == NAME_KIND_WAL || name->kind == NAME_KIND_NEXT;

        wal->top = is_numbered ? max_u64(wal->top, name->number) : wal->top;
        wal->history_top = max_u64(wal->history_top, name->history);
    }
    wal->top = max_u64(wal->top, wal->manifest.top);
    wal->history_top = max_u64(wal->history_top, wal->manifest.history);
}

/* Reads log and snapshots, when the manifest is known. */
static enum err judge_log(struct store *store, const struct names *names,
                          struct store_report *report, struct wal_found *found)
{
    enum err err = wal_recover(&store->wal, names, report, found);

    if (err != ERR_OK || found->verdict == STORE_DAMAGED) {
        return err;
    }
    report->verdict = found->verdict;
    report->torn_bytes = found->torn_to - found->torn_from;
    return snaps_recover(store, names, report);
}

/*
 * Syncs the files that were read. Their bytes may be in the page cache only: a process that was
 * killed between a write and its sync leaves pages that a power cut still loses. The report may
 * name these bytes only once they are durable.
 */
static enum err make_durable(struct store *store)
{
    const struct vfs *vfs = &store->options.vfs;
    enum err err = records_sync(store);

    if (err == ERR_OK && store->wal.is_open) {
        err = vfs->ops->sync(store->wal.live.tail->file);
    }
    return err == ERR_OK ? vfs->ops->sync_dir(vfs->ctx) : err;
}

/* Makes the manifest name the newest segment, if a crash came after the segment got its name and
 * before the manifest was written. From now on that segment takes records, and the loss of a
 * segment above manifest.top would not be noticed. */
static enum err adopt_tail(struct wal *wal)
{
    uint64_t number = wal->live.tail->header.number;

    if (number <= wal->manifest.top) {
        return ERR_OK;
    }
    PROBE("storage.tail_adopted");
    wal->manifest.top = number;
    return wal_manifest_write(wal);
}

/* Finishes what a crash interrupted. Not called for a read-only opening, which changes nothing. */
static enum err tidy(struct store *store, const struct names *names, const struct wal_found *found)
{
    enum err err = ERR_OK;

    if (found->verdict == STORE_TORN_TAIL) {
        err = wal_cut_torn(&store->wal, found);
    }
    THEN(err, records_heal(store));
    THEN(err, adopt_tail(&store->wal));
    return err == ERR_OK ? leftovers_remove(store, names) : err;
}

/* Whether the directory belongs to another member. Checked before the repairs, so that the files of
 * another replica are not changed. */
static bool is_foreign(const struct store *store)
{
    uint32_t wanted = store->options.member_id;

    ASSERT(!store->wal.is_open);
    return store->has_identity && wanted != 0 && store->identity.member_id != wanted;
}

static void report_log(const struct store *store, struct store_report *report)
{
    const struct wal *wal = &store->wal;
    zxid_t snap_end = report->has_snapshot ? report->snap_end : 0;

    report->log_base = wal->live.base;
    report->log_last = wal->live.last;
    report->log_chain = wal->live.last_chain;
    report->committed = max_u64(wal->live.committed, snap_end);
}

static void report_records(const struct store *store, struct store_report *report)
{
    ASSERT(report->verdict == STORE_DAMAGED || report->reason[0] == '\0');

    report->has_identity = store->has_identity;
    report->identity = store->identity;
    report->promised_epoch = store->promised_epoch;
    report->promised_leader = store->promised_leader;
    report->quarantined = store->is_quarantined;
    if (store->is_quarantined && report->verdict != STORE_DAMAGED) {
        memcpy(report->reason, store->quarantine_reason, sizeof(report->reason));
    }
}

static enum err recover_with(struct store *store, const struct names *names,
                             struct store_report *report)
{
    struct wal_found found = {.verdict = STORE_CLEAN};
    enum err err = records_open(store, report);

    note_numbers(&store->wal, names);
    if (err == ERR_OK && is_foreign(store)) {
        report_records(store, report);
        return ERR_FOREIGN;
    }
    if (err == ERR_MISSING) {
        err = judge_empty(store, names, report);
    } else if (err == ERR_OK && store->has_identity && store->wal.manifest.history > 0) {
        enum store_verdict before = report->verdict;

        err = judge_log(store, names, report, &found);
        report->verdict = before == STORE_DAMAGED ? STORE_DAMAGED : report->verdict;
    }
    store->is_damaged = report->verdict == STORE_DAMAGED;
    store->wal.is_open = store->wal.is_open && !store->is_damaged;
    if (err == ERR_OK && store->has_identity && !store->is_read_only) {
        err = make_durable(store);
    }
    if (err == ERR_OK && store->wal.is_open) {
        snaps_report(store, report);
        report_log(store, report);
        if (!store->is_read_only) {
            err = tidy(store, names, &found);
        }
    }
    report->is_lost = store->is_lost;
    report_records(store, report);
    return err;
}

enum err store_recover(struct store *store, struct store_report *report)
{
    ASSERT(!store->has_identity);

    struct names names;
    enum err err = names_list(&store->options.vfs, &names);

    if (err != ERR_OK) {
        return err;
    }
    err = recover_with(store, &names, report);
    names_release(&names);
    return err;
}
