#include "server/process/notes.h"

#include "base/log.h"
#include "base/wire.h"

/* Reads a note; without one `out` stays empty. */
static void get(const struct vfs *vfs, const char *name, struct buf *out)
{
    enum err err = note_file_read(vfs, name, out);

    if (err != ERR_OK && err != ERR_MISSING) {
        buf_clear(out);
        log_warn("storage",
                 "{path}%s in the data directory cannot be used ({error}%s): it is ignored", name,
                 err_text(err));
    }
}

void notes_encode_mark(const struct store_identity *identity, zxid_t zxid, struct buf *out)
{
    wire_put_u32(out, identity->member_id);
    wire_put_u64(out, identity->incarnation);
    wire_put_raw(out, slice_make(identity->cluster, STORE_CLUSTER_LEN));
    wire_put_u64(out, zxid);
}

/* Whether it is the mark of this disk: a directory may have been emptied without this file. */
static bool is_mark(struct slice bytes, const struct store_identity *identity, zxid_t *ret_zxid)
{
    struct wire_reader reader;

    wire_reader_init(&reader, bytes);
    bool is_own = wire_get_u32(&reader) == identity->member_id;

    is_own = wire_get_u64(&reader) == identity->incarnation && is_own;
    for (size_t i = 0; i < STORE_CLUSTER_LEN; i++) {
        is_own = wire_get_u8(&reader) == identity->cluster[i] && is_own;
    }
    *ret_zxid = wire_get_u64(&reader);
    return wire_reader_done(&reader) && is_own;
}

bool notes_find_mark(const struct vfs *vfs, const struct store_identity *identity, zxid_t *ret_zxid)
{
    struct buf bytes;

    buf_init(&bytes, NOTE_FILE_MAX);
    get(vfs, NOTE_REMOVED, &bytes);
    bool is_marked = is_mark(buf_slice(&bytes), identity, ret_zxid);

    buf_release(&bytes);
    return is_marked;
}

bool notes_shows_removal(const struct zab_config *committed, const struct store_identity *identity,
                         zxid_t *ret_zxid)
{
    const struct zab_removed *entry =
        zab_config_find_removed(committed, identity->member_id, identity->incarnation);

    *ret_zxid = entry ? entry->zxid : committed->version;
    return entry || (committed->count > 0 && !zab_config_find(committed, identity->member_id));
}

struct blob *notes_find_members(const struct vfs *vfs, const uint8_t cluster[STORE_CLUSTER_LEN],
                                zxid_t *ret_version)
{
    struct blob *found = NULL;
    struct zab_config config;
    struct buf bytes;

    buf_init(&bytes, NOTE_FILE_MAX);
    get(vfs, NOTE_MEMBERS, &bytes);
    if (bytes.len > 0 && zab_config_decode(buf_slice(&bytes), &config) == ERR_OK &&
        memcmp(config.cluster, cluster, STORE_CLUSTER_LEN) == 0) {
        found = blob_new(buf_slice(&bytes));
    }
    *ret_version = found ? config.version : 0;
    buf_release(&bytes);
    return found;
}
