/*
 * notes.h - the two optional small files of dataDir (storage/note_file.h).
 *
 *   members   the newest committed configuration with the members' texts, from ZAB_LEVEL_TEXTS on.
 *             A hint about addresses, for a replica that has lost its log: no quorum depends on it.
 *   removed   the mark that a change of the members has removed this disk, so that it stays out
 *             although its own log does not show the change.
 */
#ifndef SERVER_PROCESS_NOTES_H
#define SERVER_PROCESS_NOTES_H

#include "base/blob.h"
#include "storage/note_file.h"
#include "storage/store.h"
#include "zab/config.h"

/* Appends the mark. */
void notes_encode_mark(const struct store_identity *identity, zxid_t zxid, struct buf *out);

/* Whether the directory has the mark of this disk; `ret_zxid` is then the zxid of the change. A
 * mark that does not verify is ignored, after a warning. */
bool notes_find_mark(const struct vfs *vfs, const struct store_identity *identity,
                     zxid_t *ret_zxid);

/* Whether a committed configuration shows that this disk was removed. */
bool notes_shows_removal(const struct zab_config *committed, const struct store_identity *identity,
                         zxid_t *ret_zxid);

/* Reads the encoded configuration that was noted for this cluster; NULL: there is none. One that
 * does not verify is ignored, after a warning. `ret_version`: its version, or 0. */
struct blob *notes_find_members(const struct vfs *vfs, const uint8_t cluster[STORE_CLUSTER_LEN],
                                zxid_t *ret_version);

#endif
