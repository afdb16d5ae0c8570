#include "server/process/sole_voter.h"

#include "base/check.h"
#include "server/backup/backup_check.h"
#include "server/process/persist.h"
#include "server/process/recover.h"
#include "server/state/txn.h"
#include "zab/level.h"

enum {
    /* Epochs to skip besides those of the time that has passed, so that none of the lost replicas
     * has seen the following ones: with the same epoch two histories would look like one. */
    EPOCHS_SKIPPED = 1000,
    AGE_MAX_S = 1 << 28 /* A wrong clock must not use up the epochs. */
};

/* What the disk knows. */
struct knowledge {
    struct zab_config config;
    int64_t stamp_ms; /* The latest time of a transaction. */
};

static enum err take_if_newer(struct zab_config *config, struct slice bytes, zxid_t version)
{
    struct zab_config found;

    if (zab_config_decode(bytes, &found) != ERR_OK) {
        return ERR_CORRUPT;
    }
    if (found.level > ZAB_LEVEL_KNOWN) {
        return ERR_NEWER;
    }
    found.version = version != 0 ? version : found.version;
    if (config->count == 0 || found.version >= config->version) {
        *config = found;
    }
    return ERR_OK;
}

/* Reads all blocks: if the replica could not load the snapshot later, its disk would go into
 * quarantine, and no other replica could refill it. The first one has the time. */
static enum err read_blocks(struct store_snap_reader *reader, int64_t *inout_stamp_ms)
{
    struct state *head = state_new(0);
    struct slice block;
    enum err err = store_snap_next(reader, &block);

    if (err == ERR_OK && state_restore(head, block) == ERR_OK) {
        *inout_stamp_ms = state_stamp_ms(head);
    }
    while (err == ERR_OK) {
        err = store_snap_next(reader, &block);
    }
    state_free(head);
    return err == ERR_MISSING ? ERR_OK : err;
}

/* Takes the configuration of the newest snapshot; the log is then read from `ret_start`, the
 * snapshot's start. */
static enum err config_of_snapshot(struct store *store, struct knowledge *known, zxid_t *ret_start)
{
    struct store_snap_reader *reader;
    struct store_snap_info info;
    enum err err = store_snap_open(store, &reader, &info);

    if (err != ERR_OK) {
        return err;
    }
    err = take_if_newer(&known->config, store_snap_config(reader), 0);
    if (err == ERR_OK) {
        err = read_blocks(reader, &known->stamp_ms);
    }
    store_snap_close(reader);
    *ret_start = info.start;
    return err;
}

static enum err take_record(void *ctx, const struct logrec *rec)
{
    struct knowledge *known = ctx;
    struct wire_reader reader;
    struct txn_header header;

    if (rec->type == LOGREC_TXN && txn_open(&reader, logrec_payload(rec), &header) == ERR_OK) {
        known->stamp_ms = header.stamp_ms;
    }
    return rec->type == LOGREC_CONFIG
               ? take_if_newer(&known->config, logrec_payload(rec), rec->zxid)
               : ERR_OK;
}

/* Takes the newest configuration and time of identity, snapshot and log. This also proves that the
 * snapshot, and the log after its start, can be read. */
static enum err know(struct store *store, const struct store_report *report,
                     struct knowledge *known)
{
    const struct store_identity *identity = &report->identity;
    zxid_t from = report->log_base;
    enum err err =
        take_if_newer(&known->config, slice_make(identity->genesis, identity->genesis_len), 0);

    if (err == ERR_OK && report->has_snapshot) {
        err = config_of_snapshot(store, known, &from);
    }
    return err == ERR_OK ? recover_each(store, from, report->log_last, take_record, known) : err;
}

/* Returns NULL when this disk may become the only voter, else the reason why not. */
static const char *judge(const struct store_report *report, uint32_t id, enum err *ret_err)
{
    *ret_err = ERR_MISSING;
    if (report->verdict == STORE_EMPTY) {
        return "the directory is empty";
    }
    *ret_err = ERR_CORRUPT;
    if (report->verdict == STORE_DAMAGED || report->is_lost || !report->has_identity) {
        return "the directory is damaged, and the missing records are unknown; choose another "
               "survivor or restore a backup";
    }
    if (report->quarantined) {
        return "this replica is in quarantine: its log cannot be trusted; choose another "
               "survivor or restore a backup";
    }
    *ret_err = ERR_FOREIGN;
    if (report->identity.member_id != id) {
        return "the directory belongs to another replica; give its number as --id ('zabra inspect' "
               "shows it)";
    }
    *ret_err = ERR_MISSING;
    if (report->identity.bootstrapping || report->identity.genesis_len == 0) {
        return "this replica is in no cluster yet: there is nothing to continue";
    }
    *ret_err = ERR_FORMAT;
    if (zab_config_is_older(slice_make(report->identity.genesis, report->identity.genesis_len))) {
        return "an earlier release has written the directory in a format that this release does "
               "not read; use the earlier release";
    }
    *ret_err = ERR_OK;
    return NULL;
}

/* A disk that has just joined knows epochs only from its configuration. */
static uint32_t newest_epoch(const struct sole_voter *voter)
{
    return max_u32(zxid_epoch(voter->config.version), max_u32(voter->promised_epoch, voter->epoch));
}

/* Why the configuration does not allow it, or NULL. */
static const char *judge_config(const struct sole_voter *voter, uint32_t id, enum err *inout_err)
{
    if (*inout_err == ERR_NEWER) {
        return "a later release has written the directory, with a feature level that this "
               "release does not know; use that release";
    }
    if (*inout_err != ERR_OK) {
        return "the snapshot, log or configuration in the directory cannot be read; start the "
               "replica once, which drops a damaged snapshot, and try again, or choose another "
               "survivor";
    }
    *inout_err = ERR_MISSING;
    if (!zab_config_find(&voter->config, id)) {
        return "a change of the members has removed this replica: choose another survivor";
    }
    *inout_err = ERR_TOO_LARGE;
    if (newest_epoch(voter) > BACKUP_EPOCH_MAX) {
        return "its epochs are used up: no ensemble can continue from this directory; choose "
               "another survivor or restore a backup";
    }
    *inout_err = ERR_OK;
    return NULL;
}

enum err sole_voter_check(struct store *store, const struct store_report *report, uint32_t id,
                          struct sole_voter *ret_voter, const char **ret_why)
{
    enum err err;

    ASSERT(id >= 1 && id <= ZAB_ID_MAX);
    *ret_voter = (struct sole_voter){.identity = report->identity,
                                     .promised_epoch = report->promised_epoch,
                                     .epoch = zxid_epoch(report->log_last),
                                     .committed = report->committed,
                                     .last = report->log_last,
                                     .torn_bytes = report->torn_bytes};
    *ret_why = judge(report, id, &err);
    if (*ret_why) {
        return err;
    }
    struct knowledge known = {.stamp_ms = 0};

    err = know(store, report, &known);
    ret_voter->config = known.config;
    ret_voter->stamp_ms = known.stamp_ms;
    *ret_why = judge_config(ret_voter, id, &err);
    return err;
}

/* Epochs that another ensemble may have begun since the time: fewer than the seconds. */
static uint32_t epochs_since(int64_t stamp_ms, int64_t now_ms)
{
    int64_t since_ms = stamp_ms > 0 ? stamp_ms : 0;
    uint64_t age_s = now_ms > since_ms ? (uint64_t)(now_ms - since_ms) / 1000 : 0;

    return (uint32_t)min_u64(age_s, AGE_MAX_S);
}

enum err sole_voter_write(struct store *store, const struct sole_voter *voter, uint64_t history,
                          int64_t now_ms)
{
    uint32_t newest = newest_epoch(voter);
    uint32_t epoch = newest + EPOCHS_SKIPPED + epochs_since(voter->stamp_ms, now_ms);
    struct zab_config config = voter->config;
    struct store_identity identity = voter->identity;
    struct store_op promise = {.type = STORE_PROMISE, .epoch = epoch, .leader = identity.member_id};
    struct store_op change = {.type = STORE_IDENTITY, .identity = &identity};

    ASSERT(history != 0 && newest <= BACKUP_EPOCH_MAX);
    /* No record has this version: only the start of an epoch has counter 0, and this epoch never
     * starts, because an epoch that starts must be higher than every promise. */
    zab_config_survive(&config, identity.member_id, identity.incarnation, zxid_make(epoch, 0),
                       history);
    persist_genesis(&identity, &config);
    /* A crash between the two writes leaves a higher promise, which is harmless: the identity is
     * still the old one. */
    enum err err = store_run_one(store, &promise);

    return err == ERR_OK ? store_run_one(store, &change) : err;
}
