#include "server/process/sole_voter.h"

#include "base/check.h"
#include "server/process/persist.h"
#include "server/process/recover.h"
#include "zab/level.h"

enum {
    /* Epochs to skip, so that none of the lost replicas has seen the following ones: with the same
     * epoch two histories would look like one. */
    EPOCHS_SKIPPED = 1000,
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
 * quarantine, and no other replica could refill it. */
static enum err read_blocks(struct store_snap_reader *reader)
{
    struct slice block;
    enum err err = ERR_OK;

    while (err == ERR_OK) {
        err = store_snap_next(reader, &block);
    }
    return err == ERR_MISSING ? ERR_OK : err;
}

/* Takes the configuration of the newest snapshot; the log is then read from `ret_start`, the
 * snapshot's start. */
static enum err config_of_snapshot(struct store *store, struct zab_config *config,
                                   zxid_t *ret_start)
{
    struct store_snap_reader *reader;
    struct store_snap_info info;
    enum err err = store_snap_open(store, &reader, &info);

    if (err != ERR_OK) {
        return err;
    }
    err = take_if_newer(config, store_snap_config(reader), 0);
    if (err == ERR_OK) {
        err = read_blocks(reader);
    }
    store_snap_close(reader);
    *ret_start = info.start;
    return err;
}

static enum err take_config(void *ctx, const struct logrec *rec)
{
    return rec->type == LOGREC_CONFIG ? take_if_newer(ctx, logrec_payload(rec), rec->zxid) : ERR_OK;
}

/* Takes the newest configuration of identity, snapshot and log. This also proves that the snapshot,
 * and the log after its start, can be read. */
static enum err newest_config(struct store *store, const struct store_report *report,
                              struct zab_config *ret_config)
{
    const struct store_identity *identity = &report->identity;
    zxid_t from = report->log_base;
    enum err err;

    *ret_config = (struct zab_config){0};
    err = take_if_newer(ret_config, slice_make(identity->genesis, identity->genesis_len), 0);
    if (err == ERR_OK && report->has_snapshot) {
        err = config_of_snapshot(store, ret_config, &from);
    }
    return err == ERR_OK ? recover_each(store, from, report->log_last, take_config, ret_config)
                         : err;
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
    err = newest_config(store, report, &ret_voter->config);
    if (err == ERR_NEWER) {
        *ret_why = "a later release has written the directory, with a feature level that this "
                   "release does not know; use that release";
        return err;
    }
    if (err == ERR_OK && !zab_config_find(&ret_voter->config, id)) {
        *ret_why = "a change of the members has removed this replica: choose another survivor";
        return ERR_MISSING;
    }
    *ret_why =
        err != ERR_OK
            ? "the snapshot, log or configuration in the directory cannot be read; start the "
              "replica once, which drops a damaged snapshot, and try again, or choose another "
              "survivor"
            : NULL;
    return err;
}

enum err sole_voter_write(struct store *store, const struct sole_voter *voter, uint64_t history)
{
    /* A disk that has just joined knows epochs only from its configuration. */
    uint32_t newest =
        max_u32(zxid_epoch(voter->config.version), max_u32(voter->promised_epoch, voter->epoch));
    uint32_t epoch = newest + EPOCHS_SKIPPED;
    struct zab_config config = voter->config;
    struct store_identity identity = voter->identity;
    struct store_op promise = {.type = STORE_PROMISE, .epoch = epoch, .leader = identity.member_id};
    struct store_op change = {.type = STORE_IDENTITY, .identity = &identity};

    ASSERT(history != 0 && epoch > newest);
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
