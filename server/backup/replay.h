/*
 * replay.h - makes a state out of a snapshot and committed records: at the start of a replica, when
 * a backup is checked, and when one is restored.
 */
#ifndef SERVER_BACKUP_REPLAY_H
#define SERVER_BACKUP_REPLAY_H

#include "base/blob.h"
#include "server/state/state.h"
#include "storage/store.h"
#include "zab/config.h"
#include "zab/zab.h"

struct replay {
    uint16_t level_max;            /* Highest feature level that this release knows. */
    struct state *state;           /* NULL: there is no configuration yet. Owned. */
    struct zab_config config;      /* The newest committed configuration. */
    struct blob *config_bytes;     /* As it was encoded; NULL: not known. Owned. */
    zxid_t at;                     /* Newest zxid applied so far. */
    uint64_t chain;                /* Chain value there. */
    zxid_t snap_end;               /* The state is whole from here on; 0: there was no snapshot. */
    uint64_t snap_chain;           /* Chain value there, */
    uint64_t snap_digest;          /* and digest. */
    char reason[STORE_REASON_MAX]; /* ERR_NEWER: a sentence. */
    struct state_changes changes;  /* Of the last record; not used. */
};

/* Frees all but the state. */
void replay_release(struct replay *replay);

/* ERR_NEWER, with the reason, if the level of the configuration is not known. */
enum err replay_check_level(struct replay *replay, const struct zab_config *config);

/* Loads a state from an opened snapshot. */
enum err replay_load(struct store_snap_reader *reader, zxid_t start, uint64_t history,
                     struct state **ret_state);

/* Loads the snapshot, unless its configuration has a level that is not known: its blocks may then
 * have a form that is not known either. ERR_CORRUPT, ERR_NEWER. */
enum err replay_snapshot(struct replay *replay, struct store_snap_reader *reader,
                         const struct store_snap_info *info);

/* Decodes the configuration of a record. ERR_CORRUPT, ERR_NEWER. */
enum err replay_decode_config(struct replay *replay, const struct logrec *rec,
                              struct zab_config *ret_config);

/* Applies one committed record. ERR_CORRUPT also when there is no record at `snap_end`, or its
 * chain value or the digest there is another one than that of the snapshot. */
enum err replay_record(struct replay *replay, const struct logrec *rec);

/* Whether the state, which is at `snap_end`, has the digest of the snapshot, and the log its chain
 * value. */
bool replay_fits_snapshot(const struct replay *replay);

/* Makes `bytes` the blob that `*inout_blob` names. */
void replay_keep_bytes(struct blob **inout_blob, struct slice bytes);

#endif
