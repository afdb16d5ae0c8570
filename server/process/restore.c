#include "server/process/restore.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "server/op/ops.h"
#include "server/prepare/prep.h"
#include "server/process/persist.h"
#include "server/process/sole_voter.h"
#include "zab/msg.h"

#include <stdio.h>

enum {
    BATCH_RECS = 1024,
    BATCH_BYTES = 4 << 20,
    PIECE_BYTES = 1 << 20
};

struct writing {
    const struct restore_target *target;
    struct backup_check *check;
    struct store_identity identity;
    bool is_receiving; /* The snapshot is not installed yet. */
    zxid_t snap_end;
    struct logrec *batch[BATCH_RECS];
    size_t batch_count;
    size_t batch_bytes;
    zxid_t last;
    uint64_t chain;
    char *why;
};

bool restore_is_member(const struct backup_check *check, uint32_t id)
{
    return zab_config_find(&check->replay.config, id) != NULL;
}

static enum err failed(struct writing *writing, enum err err)
{
    (void)snprintf(writing->why, BACKUP_WHY_MAX, "the directory cannot be written (%s)",
                   err_text(err));
    return err;
}

static enum err run(struct writing *writing, struct store_op *op)
{
    enum err err = store_run_one(writing->target->store, op);

    THEN(err, op->ret_err);
    return err == ERR_OK ? ERR_OK : failed(writing, err);
}

/* ---- The snapshot and the records. ---- */

static enum err write_identity(struct writing *writing)
{
    struct store_op op = {.type = STORE_IDENTITY, .identity = &writing->identity};

    writing->identity = (struct store_identity){.member_id = writing->target->id,
                                                .incarnation = writing->target->incarnation};
    memcpy(writing->identity.cluster, writing->check->cluster, sizeof writing->identity.cluster);
    persist_genesis(&writing->identity, &writing->check->replay.config);
    return run(writing, &op);
}

static enum err install(struct writing *writing)
{
    struct store_op op = {.type = STORE_SNAP_INSTALL};

    if (!writing->is_receiving || writing->last < writing->snap_end) {
        return ERR_OK;
    }
    writing->is_receiving = false;
    return run(writing, &op);
}

/* Writes the records that wait, as one batch. */
static enum err flush(struct writing *writing)
{
    struct store_op op = {.type = STORE_APPEND,
                          .recs = writing->batch,
                          .rec_count = writing->batch_count,
                          .committed = writing->last};
    enum err err = writing->batch_count > 0 ? run(writing, &op) : ERR_OK;

    for (size_t i = 0; i < writing->batch_count; i++) {
        logrec_unref(writing->batch[i]);
    }
    writing->batch_count = 0;
    writing->batch_bytes = 0;
    THEN(err, install(writing));
    return err;
}

static enum err append(struct writing *writing, struct logrec *rec)
{
    writing->batch[writing->batch_count++] = logrec_ref(rec);
    writing->batch_bytes += rec->len;
    writing->last = rec->zxid;
    writing->chain = rec->chain;
    bool is_full = writing->batch_count == BATCH_RECS || writing->batch_bytes >= BATCH_BYTES;

    return is_full ? flush(writing) : ERR_OK;
}

static enum err copy_file(struct writing *writing, struct store_snap_reader *reader, uint64_t size)
{
    uint8_t *piece = mem_alloc(PIECE_BYTES);
    enum err err = ERR_OK;

    for (uint64_t offset = 0; offset < size && err == ERR_OK;) {
        size_t len = 0;

        err = store_snap_read_raw(reader, offset, piece,
                                  (size_t)min_u64(PIECE_BYTES, size - offset), &len);
        struct store_op op = {
            .type = STORE_SNAP_CHUNK, .snap_offset = offset, .snap_bytes = slice_make(piece, len)};

        THEN(err, len > 0 ? run(writing, &op) : ERR_CORRUPT);
        offset += len;
    }
    mem_free(piece);
    return err;
}

static enum err on_snapshot(void *ctx, const struct vfs *vfs, const char *name)
{
    struct writing *writing = ctx;
    struct store_op begin = {.type = STORE_SNAP_BEGIN};
    struct store_snap_reader *reader;
    struct store_snap_info info;
    enum err err = store_snap_open_file(vfs, name, ZAB_RECORD_BYTES_MAX, &reader, &info);

    if (err != ERR_OK) {
        return ERR_CORRUPT;
    }
    writing->is_receiving = true;
    writing->snap_end = info.end;
    writing->last = info.start;
    writing->chain = info.start_chain;
    err = run(writing, &begin);
    THEN(err, copy_file(writing, reader, info.file_bytes));
    store_snap_close(reader);
    THEN(err, install(writing));
    return err;
}

static enum err on_record(void *ctx, struct logrec *rec)
{
    struct writing *writing = ctx;

    return rec->zxid <= writing->check->at.zxid ? append(writing, rec) : ERR_OK;
}

static void on_progress(void *ctx, uint64_t bytes, uint64_t size)
{
    struct writing *writing = ctx;

    if (writing->check->on_progress) {
        writing->check->on_progress(writing->check->progress_ctx, bytes, size);
    }
}

static enum err write_backup(struct writing *writing, const struct backup_input *input,
                             struct backup_mark *mark)
{
    const struct backup_visitor visitor = {.on_snapshot = on_snapshot,
                                           .on_record = on_record,
                                           .on_progress = on_progress,
                                           .ctx = writing};
    struct backup_end end;

    return backup_read(input, &visitor, mark, &end, writing->why);
}

/* ---- The sessions. ---- */

/* Appends the transaction that closes a session, and applies it. */
static enum err close_session(struct writing *writing, struct prep *prep, uint64_t session)
{
    struct state *state = writing->check->replay.state;
    const struct txn_header header = {.age_ms = state_age_ms(state),
                                      .stamp_ms = state_stamp_ms(state)};
    struct op_args args;
    const struct prep_job job = {.args = &args, .header = &header};
    zxid_t zxid = writing->last + 1;
    struct op_result result;
    struct buf txn;

    op_args_init(&args, OP_EXPIRE);
    args.session = session;
    op_result_init(&result);
    buf_init(&txn, ZAB_RECORD_BYTES_MAX);
    enum err err = prep_request(prep, state, &job, zxid, &txn, &result);

    THEN(err, state_apply(state, zxid, buf_slice(&txn), false, NULL));
    if (err == ERR_OK) {
        struct logrec *rec =
            logrec_new(LOGREC_TXN, zxid, writing->last, writing->chain, buf_slice(&txn));

        err = append(writing, rec);
        logrec_unref(rec);
    } else {
        (void)snprintf(writing->why, BACKUP_WHY_MAX, "a session cannot be closed (%s)",
                       err_text(err));
    }
    prep_clear(prep);
    buf_release(&txn);
    op_result_release(&result);
    return err;
}

static enum err close_sessions(struct writing *writing, uint64_t *ret_count)
{
    const struct prep_limits limits = {.tree = {.sessions_max = UINT32_MAX},
                                       .txn_bytes_max = ZAB_RECORD_BYTES_MAX - 4096};
    struct prep *prep = prep_new(&limits);
    const struct state_session *session;
    uint64_t at = 0;
    enum err err = ERR_OK;

    while (err == ERR_OK &&
           (session = state_session_after(writing->check->replay.state, at)) != NULL) {
        at = session->id;
        err = close_session(writing, prep, at);
        (*ret_count)++;
    }
    prep_free(prep);
    return err;
}

/* ---- The whole. ---- */

static enum err write_log(struct writing *writing, const struct backup_input *inputs, size_t count,
                          struct restore_result *ret_result)
{
    struct backup_mark mark = {.is_known = false};
    enum err err = write_identity(writing);

    for (size_t i = 0; i < count && err == ERR_OK; i++) {
        err = write_backup(writing, &inputs[i], &mark);
    }
    if (err == ERR_OK && writing->last != writing->check->at.zxid) {
        (void)snprintf(writing->why, BACKUP_WHY_MAX, "the backups have changed since the check");
        err = ERR_CORRUPT;
    }
    if (err == ERR_OK && !writing->target->keep_sessions) {
        err = close_sessions(writing, &ret_result->sessions);
    }
    THEN(err, flush(writing));
    return err;
}

/* An ensemble that was lost, or one that was restored from the same backup before, may have begun
 * epochs since the backup was made. */
static enum err become_sole_voter(const struct writing *writing)
{
    const struct sole_voter voter = {.identity = writing->identity,
                                     .config = writing->check->replay.config,
                                     .epoch = zxid_epoch(writing->check->end),
                                     .stamp_ms = writing->check->made_ms,
                                     .committed = writing->last,
                                     .last = writing->last};

    return sole_voter_write(writing->target->store, &voter, writing->target->history,
                            writing->target->now_ms);
}

enum err restore_write(const struct restore_target *target, struct backup_check *check,
                       const struct backup_input *inputs, size_t count,
                       struct restore_result *ret_result, char why[BACKUP_WHY_MAX])
{
    struct writing *writing = mem_zalloc(1, sizeof *writing);

    ASSERT(restore_is_member(check, target->id) && target->history != 0);
    *ret_result = (struct restore_result){.last = 0};
    why[0] = '\0';
    writing->target = target;
    writing->check = check;
    writing->why = why;
    enum err err = write_log(writing, inputs, count, ret_result);

    THEN(err, become_sole_voter(writing));
    if (err != ERR_OK && why[0] == '\0') {
        (void)failed(writing, err);
    }
    ret_result->last = writing->last;
    ret_result->digest = state_digest(check->replay.state);
    for (size_t i = 0; i < writing->batch_count; i++) {
        logrec_unref(writing->batch[i]);
    }
    mem_free(writing);
    return err;
}
