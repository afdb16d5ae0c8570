#include "server/backup/backup_source.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/wire.h"
#include "server/read/view.h"
#include "server/state/state.h"

#include <stdio.h>

enum {
    READ_RECS_MAX = 1024,
    OPENS_MAX = 4, /* Snapshots to try, one older than the other. */
};

/* What the next piece is of. */
enum step {
    STEP_OPEN,
    STEP_HEAD,
    STEP_SNAPSHOT,
    STEP_RECORDS,
    STEP_END,
    STEP_DONE
};

struct backup_source {
    struct backup_host host;
    struct backup_ask ask;
    enum step step;
    struct store_snap_reader *reader; /* The snapshot; NULL: none is read. */
    struct store_snap_info info;
    bool is_checked;  /* All blocks of it were read. */
    uint64_t checked; /* Bytes of these blocks. */
    uint32_t opens;
    struct backup_head head;
    struct buf config;  /* The bytes of head.config. */
    struct buf payload; /* Of RECORDS. */
    uint64_t offset;    /* In the snapshot's file. */
    uint32_t crc;       /* Of the part SNAPSHOT so far. */
    zxid_t at;          /* The last record. */
    uint64_t chain;     /* Chain value there. */
    uint64_t records;
    struct crypto_hash *hash; /* Of all bytes so far; NULL: it has ended. */
    struct logrec *recs[READ_RECS_MAX];
};

struct backup_source *backup_source_new(const struct backup_host *host,
                                        const struct backup_ask *ask)
{
    struct backup_source *source = mem_zalloc(1, sizeof *source);

    source->host = *host;
    source->ask = *ask;
    source->hash = crypto_hash_begin();
    buf_init(&source->config, BACKUP_CONFIG_MAX);
    buf_init(&source->payload, SIZE_MAX / 2);
    return source;
}

static void close_snapshot(struct backup_source *source)
{
    if (source->reader) {
        store_snap_close(source->reader);
        source->reader = NULL;
    }
}

void backup_source_free(struct backup_source *source)
{
    uint8_t unused[CRYPTO_SHA256_LEN];

    if (!source) {
        return;
    }
    store_keep(source->host.store, STORE_BACKUP, STORE_KEEP_NONE);
    close_snapshot(source);
    if (source->hash) {
        crypto_hash_end(source->hash, unused);
    }
    buf_release(&source->config);
    buf_release(&source->payload);
    mem_free(source);
}

/* Chooses the end: the state as it is now. */
static enum err choose_end(struct backup_source *source, const char **ret_why)
{
    struct backup_head *head = &source->head;
    const struct state *state = view_read_whole(source->host.view);

    if (!state) {
        *ret_why = "this replica has no state to back up yet: use another replica, or try again";
        return ERR_NOT_READY;
    }
    head->end = state_applied(state);
    head->digest = state_digest(state);
    head->history = state_history(state);
    view_read_done(source->host.view);
    if (source->ask.history != 0 && source->ask.history != head->history) {
        *ret_why = "`since` is from another history: take a full backup";
        return ERR_HISTORY_CHANGED;
    }
    if (head->end < max_u64(source->at, source->ask.since)) {
        *ret_why = "`since` lies ahead of this replica: try again later, or use another replica";
        return ERR_REPLICA_BEHIND;
    }
    if (source->reader && head->end < source->info.end) {
        *ret_why = "this replica loads its state: try again";
        return ERR_NOT_READY;
    }
    return ERR_OK;
}

/* ---- The beginning: a snapshot that verifies, or the place in the log. ---- */

/* A backup without a snapshot: the log reaches back to the first record. */
static enum err begin_at_first(struct backup_source *source, const char **ret_why)
{
    struct store_figures figures;
    const struct store_identity *identity = source->host.identity;

    store_figures(source->host.store, &figures);
    if (figures.log_base != 0) {
        *ret_why = "this replica has no snapshot that can be read: take the backup from another "
                   "replica";
        return ERR_CORRUPT;
    }
    source->at = 0;
    source->chain = 0;
    (void)buf_append(&source->config, identity->genesis, identity->genesis_len);
    source->step = STEP_HEAD;
    return ERR_OK;
}

static enum err begin_full(struct backup_source *source, const char **ret_why)
{
    enum err err = store_snap_open(source->host.store, &source->reader, &source->info);

    if (err == ERR_MISSING) {
        return begin_at_first(source, ret_why);
    }
    if (err == ERR_CORRUPT) {
        store_snap_condemn(source->host.store, &source->info);
        source->opens++;
        if (source->opens < OPENS_MAX) {
            return ERR_OK; /* The next call opens an older one. */
        }
    }
    if (err != ERR_OK) {
        *ret_why = err == ERR_NO_FILES
                       ? "this replica has no file descriptor left to read its snapshot: try again"
                       : "this replica has no snapshot that can be read: take the backup from "
                         "another replica";
        return err;
    }
    store_keep(source->host.store, STORE_BACKUP, source->info.start);
    source->at = source->info.start;
    source->chain = source->info.start_chain;
    buf_clear(&source->config);
    (void)buf_append_slice(&source->config, store_snap_config(source->reader));
    source->is_checked = source->info.is_checked;
    source->step = STEP_HEAD;
    return ERR_OK;
}

static enum err begin_increment(struct backup_source *source, const char **ret_why)
{
    size_t count = 0;
    enum err err = store_read(source->host.store, source->ask.since, 1, 1, source->recs, &count);

    bool follows = count == 0 || (err == ERR_OK && source->recs[0]->prev == source->ask.since);

    for (size_t i = 0; i < count; i++) {
        logrec_unref(source->recs[i]);
    }
    if (!follows) {
        *ret_why = "no record of the log of this replica has the zxid `since`: take a full backup";
        return ERR_GAP;
    }
    if (err == ERR_OK) {
        store_keep(source->host.store, STORE_BACKUP, source->ask.since);
        source->at = source->ask.since;
        source->step = STEP_HEAD;
        return ERR_OK;
    }
    *ret_why = err == ERR_MISSING
                   ? "the log of this replica does not reach back to `since`: take a "
                     "full backup"
                   : "this replica cannot read its log: use another replica";
    return err == ERR_MISSING ? ERR_GAP : err;
}

/* Nothing may be purged between the choice of the place and store_keep() for it. */
static enum err open_place(struct backup_source *source, const char **ret_why)
{
    enum err err = choose_end(source, ret_why); /* Refuses before anything is read. */

    if (err != ERR_OK) {
        return err;
    }
    store_keep(source->host.store, STORE_BACKUP, 0);
    return source->ask.increment ? begin_increment(source, ret_why) : begin_full(source, ret_why);
}

/* ---- The parts. ---- */

static void hash(struct backup_source *source, const struct buf *out)
{
    crypto_hash_add(source->hash, buf_slice(out));
}

static enum err make_head(struct backup_source *source, struct buf *out, const char **ret_why)
{
    struct backup_head *head = &source->head;
    const struct store_identity *identity = source->host.identity;
    struct store_figures figures;
    enum err err = choose_end(source, ret_why);

    if (err != ERR_OK) {
        return err;
    }
    store_figures(source->host.store, &figures);
    memcpy(head->cluster, identity->cluster, sizeof head->cluster);
    head->member = identity->member_id;
    head->full = !source->ask.increment;
    head->from = source->at;
    head->least = source->reader ? source->info.end : source->at;
    head->made_ms = source->host.wall_ms(source->host.wall_ctx);
    head->snapshot_bytes = source->reader ? source->info.file_bytes : 0;
    head->log_bytes = figures.bytes_since_snap;
    head->config = buf_slice(&source->config);
    (void)snprintf(head->release, sizeof head->release, "%s", source->host.release);
    backup_put_head(head, out);
    if (source->reader) {
        source->crc = backup_begin_part(BACKUP_SNAPSHOT, head->snapshot_bytes, out);
    }
    hash(source, out);
    source->step = source->reader ? STEP_SNAPSHOT : STEP_RECORDS;
    return ERR_OK;
}

/* Checks the blocks of the snapshot, as long as they are not further than the bytes that are sent.
 * A damaged one is not used again: the next backup takes an older one. */
static enum err check_blocks(struct backup_source *source, const char **ret_why)
{
    uint64_t upto = source->offset == source->head.snapshot_bytes ? UINT64_MAX : source->offset;
    enum err err = ERR_OK;

    while (err == ERR_OK && !source->is_checked && source->checked < upto) {
        struct slice block;

        err = store_snap_next(source->reader, &block);
        if (err == ERR_OK) {
            source->checked += block.len;
        } else if (err == ERR_MISSING) {
            store_snap_checked(source->host.store, &source->info);
            source->is_checked = true;
            err = ERR_OK;
        }
    }
    if (err != ERR_OK) {
        store_snap_condemn(source->host.store, &source->info);
        *ret_why = "the snapshot of this replica is damaged: try again, or use another replica";
    }
    return err;
}

static enum err make_snapshot(struct backup_source *source, struct buf *out, size_t *ret_read,
                              const char **ret_why)
{
    uint64_t left = source->head.snapshot_bytes - source->offset;
    size_t len = (size_t)min_u64(left, BACKUP_RECORDS_MAX);
    uint8_t *to = buf_reserve(out, len);
    size_t got = 0;
    enum err err = store_snap_read_raw(source->reader, source->offset, to, len, &got);

    if (err != ERR_OK || got != len) {
        *ret_why = "this replica cannot read its snapshot: use another replica";
        return err != ERR_OK ? err : ERR_CORRUPT;
    }
    out->len = len;
    *ret_read = len;
    source->crc = crc32c(source->crc, to, len);
    source->offset += len;
    err = check_blocks(source, ret_why);
    if (err != ERR_OK) {
        return err;
    }
    if (source->offset == source->head.snapshot_bytes) {
        wire_put_u32(out, source->crc);
        close_snapshot(source);
        source->step = STEP_RECORDS;
    }
    hash(source, out);
    return ERR_OK;
}

/* Adds the records up to the end of the backup to the payload. False: one does not follow the one
 * before it. */
static bool take_records(struct backup_source *source, size_t count)
{
    bool follows = true;

    for (size_t i = 0; i < count; i++) {
        struct logrec *rec = source->recs[i];

        if (rec->zxid <= source->head.end) {
            follows = follows && rec->prev == source->at;
            backup_put_record(rec, &source->payload);
            source->at = rec->zxid;
            source->chain = rec->chain;
            source->records++;
        }
        logrec_unref(rec);
    }
    return follows;
}

static enum err make_records(struct backup_source *source, struct buf *out, size_t *ret_read,
                             const char **ret_why)
{
    size_t count = 0;

    if (source->at == source->head.end) {
        source->step = STEP_END;
        return ERR_OK;
    }
    enum err err = store_read(source->host.store, source->at, BACKUP_RECORDS_MAX, READ_RECS_MAX,
                              source->recs, &count);

    buf_clear(&source->payload);
    if (err == ERR_MISSING || (err == ERR_OK && count == 0)) {
        *ret_why = "the log behind the snapshot was purged while the backup was made, because the "
                   "disk is nearly full or the reader was slow (maxRefillLogBytes)";
        return ERR_GAP;
    }
    if (err == ERR_OK && !take_records(source, count)) {
        err = ERR_CORRUPT;
    }
    if (err != ERR_OK) {
        *ret_why = "this replica cannot read its log: use another replica";
        return err;
    }
    *ret_read = source->payload.len;
    store_keep(source->host.store, STORE_BACKUP, source->at);
    backup_put_part(BACKUP_RECORDS, buf_slice(&source->payload), out);
    hash(source, out);
    return ERR_OK;
}

static void make_end(struct backup_source *source, struct buf *out)
{
    struct backup_end end = {.zxid = source->at,
                             .chain = source->chain,
                             .digest = source->head.digest,
                             .records = source->records};

    crypto_hash_end(source->hash, end.sha256);
    source->hash = NULL;
    backup_put_end(&end, out);
    source->step = STEP_DONE;
}

enum err backup_source_next(struct backup_source *source, struct buf *out, size_t *ret_read,
                            const char **ret_why)
{
    buf_clear(out);
    *ret_read = 0;
    switch (source->step) {
    case STEP_OPEN:
        return open_place(source, ret_why);
    case STEP_HEAD:
        return make_head(source, out, ret_why);
    case STEP_SNAPSHOT:
        return make_snapshot(source, out, ret_read, ret_why);
    case STEP_RECORDS:
        return make_records(source, out, ret_read, ret_why);
    case STEP_END:
        make_end(source, out);
        return ERR_OK;
    case STEP_DONE:
        break;
    }
    UNREACHABLE();
}

bool backup_source_is_done(const struct backup_source *source)
{
    return source->step == STEP_DONE;
}

const struct backup_head *backup_source_head(const struct backup_source *source)
{
    return &source->head;
}
