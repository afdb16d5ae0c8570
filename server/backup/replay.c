#include "server/backup/replay.h"

#include "server/config/config.h"
#include "server/state/txn.h"

#include <stdio.h>

void replay_release(struct replay *replay)
{
    state_changes_release(&replay->changes);
    blob_unref(replay->config_bytes);
    replay->config_bytes = NULL;
}

void replay_keep_bytes(struct blob **inout_blob, struct slice bytes)
{
    blob_unref(*inout_blob);
    *inout_blob = blob_new(bytes);
}

static void append_piece(void *ctx, struct slice name, struct slice piece)
{
    (void)name;
    (void)buf_append_slice(ctx, piece);
}

/* Notes what a later release has written. */
static enum err newer(struct replay *replay, const struct zab_notice *notice)
{
    struct buf text;

    buf_init(&text, sizeof replay->reason - 1);
    zab_notice_pieces(notice, append_piece, &text);
    (void)snprintf(replay->reason, sizeof replay->reason, "%.*s", (int)text.len, text.data);
    buf_release(&text);
    return ERR_NEWER;
}

enum err replay_check_level(struct replay *replay, const struct zab_config *config)
{
    const struct zab_notice notice = {
        .type = ZAB_NOTICE_NEWER, .feature_level = config->level, .known_level = replay->level_max};

    return config->level > replay->level_max ? newer(replay, &notice) : ERR_OK;
}

/* Puts blocks into the state until the reader has no more. ERR_CORRUPT also if there is none. */
static enum err restore_blocks(struct store_snap_reader *reader, struct state *state)
{
    enum err err = ERR_OK;
    uint64_t count = 0;

    while (err == ERR_OK) {
        struct slice block;

        err = store_snap_next(reader, &block);
        if (err == ERR_OK) {
            err = state_restore(state, block) == ERR_OK ? ERR_OK : ERR_CORRUPT;
            count++;
        }
    }
    return err == ERR_MISSING && count > 0 ? ERR_OK : ERR_CORRUPT;
}

enum err replay_load(struct store_snap_reader *reader, zxid_t start, uint64_t history,
                     struct state **ret_state)
{
    struct state *state = state_new(history);
    enum err err = restore_blocks(reader, state);

    *ret_state = NULL;
    if (err != ERR_OK) {
        state_free(state);
        return err;
    }
    state_restored(state, start);
    *ret_state = state;
    return ERR_OK;
}

enum err replay_snapshot(struct replay *replay, struct store_snap_reader *reader,
                         const struct store_snap_info *info)
{
    struct slice bytes = store_snap_config(reader);
    struct zab_config config;

    if (zab_config_decode(bytes, &config) != ERR_OK) {
        return ERR_CORRUPT;
    }
    enum err err = replay_check_level(replay, &config);

    THEN(err, replay_load(reader, info->start, config.history, &replay->state));
    if (err != ERR_OK) {
        return err;
    }
    if (config.version >= replay->config.version) {
        replay->config = config;
        replay_keep_bytes(&replay->config_bytes, bytes);
    }
    replay->at = info->start;
    replay->chain = info->start_chain;
    replay->snap_end = info->end;
    replay->snap_chain = store_snap_end_chain(reader);
    replay->snap_digest = info->digest;
    return ERR_OK;
}

enum err replay_decode_config(struct replay *replay, const struct logrec *rec,
                              struct zab_config *ret_config)
{
    if (zab_config_decode(logrec_payload(rec), ret_config) != ERR_OK) {
        return ERR_CORRUPT;
    }
    ret_config->version = rec->zxid;
    return replay_check_level(replay, ret_config);
}

static enum err apply_config(struct replay *replay, const struct logrec *rec)
{
    struct zab_config config;
    struct buf text;
    enum err err = replay_decode_config(replay, rec, &config);

    if (err != ERR_OK) {
        return err;
    }
    if (config.version > replay->config.version) {
        replay->config = config;
        replay_keep_bytes(&replay->config_bytes, logrec_payload(rec));
    }
    buf_init(&text, CONFIG_TEXT_MAX);
    config_text(&config, logrec_payload(rec), &text);
    err = state_apply_config(replay->state, rec->zxid, buf_slice(&text),
                             zab_config_txn(logrec_payload(rec)), rec->zxid <= replay->snap_end,
                             &replay->changes);
    buf_release(&text);
    return err;
}

static bool is_newer(const struct logrec *rec)
{
    struct slice bytes = logrec_payload(rec);

    return (rec->type == LOGREC_TXN && txn_is_newer(bytes)) ||
           (rec->type == LOGREC_CONFIG && txn_is_newer(zab_config_txn(bytes)));
}

bool replay_fits_snapshot(const struct replay *replay)
{
    return replay->chain == replay->snap_chain &&
           state_digest(replay->state) == replay->snap_digest;
}

enum err replay_record(struct replay *replay, const struct logrec *rec)
{
    enum err err = ERR_OK;

    if (!replay->state) {
        return ERR_CORRUPT; /* There are records, but no configuration. */
    }
    if (replay->at < replay->snap_end && rec->zxid > replay->snap_end) {
        return ERR_CORRUPT;
    }
    if (is_newer(rec)) {
        const struct zab_notice notice = {.type = ZAB_NOTICE_NEWER_RECORD, .zxid = rec->zxid};

        return newer(replay, &notice);
    }
    if (rec->type == LOGREC_TXN) {
        err = state_apply(replay->state, rec->zxid, logrec_payload(rec),
                          rec->zxid <= replay->snap_end, &replay->changes);
    } else if (rec->type == LOGREC_CONFIG) {
        err = apply_config(replay, rec);
    } else {
        state_skip(replay->state, rec->zxid);
    }
    replay->at = rec->zxid;
    replay->chain = rec->chain;
    return err == ERR_OK && rec->zxid == replay->snap_end && !replay_fits_snapshot(replay)
               ? ERR_CORRUPT
               : err;
}
