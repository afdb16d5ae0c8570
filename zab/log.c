/*
 * The log of this replica as the core treats it: which records enter it, which of them are
 * committed, and which are delivered. Only this file delivers records to the host.
 */
#include "zab/zab_int.h"

/* Returns the last zxid that is reported to peers. Everything reported comes from the durable log;
 * a damaged log is reported as empty. */
zxid_t reported_last_zxid(const struct zab *zab)
{
    if (MUTANT(6)) {
        return zab->trail.last;
    }
    if (MUTANT(1) && (zab->promise.leader & MUTANT_EPOCH_WRITTEN) != 0 &&
        zab->promise.epoch > zxid_epoch(zab->trail.durable)) {
        return zxid_make(zab->promise.epoch, 0);
    }
    return zab->quarantined ? 0 : zab->trail.durable;
}

/* Appends a record in memory and requests its append on disk. Records enter the log only here, or
 * with the staged log of a snapshot (follow_install_done). */
void log_append(struct zab *zab, struct logrec *take_rec)
{
    ASSERT(zab->state != ZAB_LOOKING);
    ASSERT(zxid_epoch(take_rec->zxid) <= zab->promise.epoch || MUTANT(12) || MUTANT(13));

    if (take_rec->type == LOGREC_CONFIG) {
        config_verify(zab, take_rec);
    }

    struct zab_persist *persist = fx_persist(zab, ZAB_PERSIST_APPEND);

    persist->append.rec = logrec_ref(take_rec);
    persist->append.committed = min_u64(zab->committed, zab->trail.durable);
    trail_append(&zab->trail, take_rec, persist->token);
    if (take_rec->type == LOGREC_CONFIG) {
        config_seen(zab, take_rec);
        config_committed(zab);
    }
    config_prove(zab, zab_proven_config(take_rec));
    logrec_unref(take_rec);
}

/* Forgets a pending configuration whose record is after `zxid`. */
void log_outline_cut(struct zab *zab, zxid_t zxid)
{
    if (zab->config.has_pending && zab->config.pending.version > zxid && !MUTANT(39)) {
        zab->config.has_pending = false;
    }
    ASSERT(!zab->config.has_pending || zab->config.pending.version <= zxid || MUTANT(39));
}

void commit_to(struct zab *zab, zxid_t zxid)
{
    if (zxid <= zab->committed) {
        return;
    }
    zab->committed = zxid;
    config_committed(zab);
    ASSERT(zab->committed == zxid && zab->delivery.last <= zxid);
}

/* Asks the host for the records that are to be delivered and are no longer in memory. */
static void fetch_own(struct zab *zab)
{
    if (zab->delivery.fetch_token != 0) {
        return;
    }
    ASSERT(may_deliver(zab));
    PROBE("zab.deliver_from_disk");
    zab->delivery.fetch_token = fx_fetch(zab, zab->delivery.last);
}

static void deliver_one(struct zab *zab, struct logrec *rec)
{
    ASSERT(rec->prev == zab->delivery.last);
    ASSERT(rec->zxid <= zab->committed);
    ASSERT(rec->zxid <= zab->trail.durable || MUTANT(5) || MUTANT(15));

    fx_add(zab, ZAB_FX_DELIVER)->deliver.rec = logrec_ref(rec);
    zab->delivery.last = rec->zxid;
    zab->delivery.chain = rec->chain;
    if (rec->type == LOGREC_STAMP || rec->type == LOGREC_EPOCH) {
        admit_on_stamp(zab, rec);
    }
}

/*
 * Whether records may be delivered. Until the EPOCH record of the leader's epoch is durable at a
 * learner, the learner may have a divergent tail. So a COMMIT of that epoch says nothing yet about
 * the records in its log.
 */
bool may_deliver(const struct zab *zab)
{
    if (MUTANT(15)) {
        return zab->state != ZAB_LOOKING;
    }
    return is_broadcasting(zab) || (is_learner(zab) && zab->follow.phase == FOLLOW_SERVE);
}

void deliver(struct zab *zab)
{
    zxid_t limit = min_u64(zab->committed, zab->trail.durable);
    uint32_t budget = DELIVER_MAX;

    zab->delivery.more = false;
    if (!may_deliver(zab) || zab->restore.under_way > 0) {
        return;
    }
    while (zab->delivery.last < limit) {
        struct logrec *rec = trail_after(&zab->trail, zab->delivery.last);

        if (!rec) {
            fetch_own(zab);
            break;
        }
        if (rec->zxid > limit) {
            break; /* The watermark is not the zxid of a record in this log. */
        }
        if (budget-- == 0) {
            zab->delivery.more = true;
            break;
        }
        deliver_one(zab, rec);
    }
    ASSERT(zab->delivery.last <= zab->committed);
}

void log_on_fetched(struct zab *zab, const struct zab_ev_fetched *fetched)
{
    ASSERT(zab->delivery.fetch_token != 0 && zab->delivery.fetch_token == fetched->token);

    zab->delivery.fetch_token = 0;
    if (fetched->err != ERR_OK) {
        fx_halt(zab,
                (struct zab_notice){.type = ZAB_NOTICE_UNREADABLE_LOG, .zxid = zab->delivery.last});
        return;
    }
    zxid_t limit = min_u64(zab->committed, zab->trail.durable);

    for (size_t i = 0; i < fetched->rec_count; i++) {
        struct logrec *rec = fetched->recs[i];

        if (rec->prev != zab->delivery.last || rec->zxid > limit || !may_deliver(zab)) {
            break;
        }
        deliver_one(zab, rec);
    }
}
