/*
 * recover.h - from an opened directory to a replica that may start: format it when it is empty,
 * quarantine it when it is damaged, else rebuild the state from the newest snapshot and the
 * committed part of the log.
 *
 * The uncommitted tail of the log is not applied, because it may still be truncated. A replica with
 * a quarantined disk ignores its log, starts with an empty state and is refilled. The quarantine
 * mark is durable before the replica starts. Server and simulator share this code.
 */
#ifndef SERVER_RECOVER_H
#define SERVER_RECOVER_H

#include "server/replica/replica.h"
#include "storage/store.h"

/*
 * Prepares a replica to start, before any other thread runs. The caller has set in `options->zab`:
 * id, level_max, seeds, limits, rng_seed, now_ms, and in `incarnation` a fresh random number. The
 * fresh number is used only if this call formats an empty directory; otherwise the incarnation that
 * is on the disk replaces it. This function fills in all other members of `options->zab`, and
 * `records_since_snap`. If the disk has the replicated configuration of a cluster, the state is put
 * into `view`. The view of a bootstrapping replica, or of a learner that knows no cluster yet,
 * stays empty. `ret_identity` is the identity that is now on the disk.
 *
 * A snapshot that turns out to be damaged is discarded for an older one, and `report` is updated.
 *
 * ERR_FOREIGN: the directory belongs to another member. ERR_CORRUPT: the disk is lost and must be
 * replaced by an empty one. ERR_FORMAT: an earlier release has written it, in a format that this
 * one does not read. ERR_NEWER: a later release has written it; `report->reason` says what is not
 * known and what to do, and nothing was written. Also ERR_NO_SPACE, ERR_IO.
 */
enum err recover(struct store *store, struct store_report *report, struct view *view,
                 struct replica_options *options, struct store_identity *ret_identity);

/* Frees what recover() has put into the options, after replica_new has copied it. */
void recover_release(struct replica_options *options);

/* Calls `take` for each record of the log in (from, last], until an error. ERR_CORRUPT: the log has
 * fewer records. */
enum err recover_each(struct store *store, zxid_t from, zxid_t last,
                      enum err (*take)(void *ctx, const struct logrec *rec), void *ctx);

/* Puts another state into the view, and fills the event that answers ZAB_FX_RESTORE of `start`. The
 * state gets `history`, the random id that clients see as Zk-History (state_new). For `start` 0 the
 * state is empty. Otherwise it is loaded from the newest snapshot, and is fuzzy until the log is
 * applied up to the end of that snapshot. When the event has an `err`, such as ERR_CORRUPT or
 * ERR_MISSING, the view is unchanged. */
void recover_restore(struct store *store, zxid_t start, uint64_t history, struct view *view,
                     struct zab_event *ret_event);

#endif
