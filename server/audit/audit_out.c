/* Lines on their way to the file: writing, dropping, syncing, rotation. */
#include "base/check.h"
#include "base/log.h"
#include "base/os_clock.h"
#include "server/audit/audit_int.h"

#include <stdio.h>

enum {
    SYNC_MS = 1000 /* Longest time for which a written line is not durable. */
};

/* ---- Failures. ---- */

/* Sets the text that other threads may read. */
static void set_why(struct audit *audit, const char *why)
{
    MUTEX_HOLD(&audit->mutex);
    if (!why) {
        audit->asked.why[0] = '\0';
        return;
    }
    (void)snprintf(audit->asked.why, sizeof(audit->asked.why), "%s cannot be written: %s",
                   audit_name(audit), why);
}

static void fail(struct audit *audit, enum err err)
{
    bool refuses = audit->options.full == AUDIT_FULL_REFUSE;
    const char *why = err == ERR_FULL ? "its reader does not read" : err_text(err);

    audit->retry_ms = os_now_ms() + AUDIT_RETRY_MS;
    if (audit->failing) {
        return;
    }
    audit->failing = true;
    metric_add(&audit->errors, 1);
    set_why(audit, why);
    atomic_store(&audit->stuck, refuses);
    log_warn("audit", "{path}%s cannot be written ({error}%s): {action}%s", audit_name(audit), why,
             refuses ? "until it can, this replica takes no writes"
                     : "until it can, lines are dropped and counted");
}

static void works(struct audit *audit)
{
    if (!audit->failing || audit->write_failing || audit->sync_failing) {
        return;
    }
    audit->failing = false;
    atomic_store(&audit->stuck, false);
    set_why(audit, NULL);
    log_info("audit", "{path}%s can be written again", audit_name(audit));
}

static bool is_waiting(const struct audit *audit)
{
    return audit->is_gone || (audit->failing && os_now_ms() < audit->retry_ms);
}

/* ---- Dropping. ---- */

/* Whether lines are dropped that cannot be written. After a failed sync they can. */
static bool may_drop(const struct audit *audit)
{
    return audit->options.full == AUDIT_FULL_DROP && audit->failing && audit->write_failing;
}

static size_t lines_in(struct slice text)
{
    size_t count = 0;

    for (size_t at = slice_find(text, '\n'); at < text.len; at = slice_find(text, '\n')) {
        count++;
        text = slice_from(text, at + 1);
    }
    return count;
}

/* Returns the end of what is never dropped: the rest of a line of which a part is in the file, and
 * the line about a start, which tells the cluster. */
static size_t kept_end(const struct audit *audit)
{
    static const char open[] = "{\"event\":\"open\",";
    struct slice rest = slice_from(buf_slice(&audit->out), audit->written);
    bool is_open = audit->written == 0 && rest.len > sizeof(open) &&
                   memcmp(rest.data, open, sizeof(open) - 1) == 0;
    bool is_begun = audit->written > 0 && audit->out.data[audit->written - 1] != '\n';

    return is_open || is_begun ? audit->written + slice_find(rest, '\n') + 1 : audit->written;
}

/* Drops the lines of the present record that are not in `out` yet. Returns their number. */
static size_t drop_record(struct audit *audit)
{
    size_t len = audit->out.len;
    size_t count = 0;

    while (audit_record_line(&audit->record, 0, &audit->out)) {
        audit->out.len = len;
        count++;
    }
    audit->at = audit->rec->zxid;
    logrec_unref(audit->rec);
    audit->rec = NULL;
    return count;
}

/* Drops the lines of which nothing is in the file. A transaction that loses a line loses all that
 * follow, so that the line about them covers it, and nothing of it follows. */
static void drop(struct audit *audit)
{
    size_t keep = kept_end(audit);
    size_t count = lines_in(slice_from(buf_slice(&audit->out), keep));

    if (count == 0) {
        return;
    }
    if (audit->rec && audit->has_lines) {
        count += drop_record(audit);
    }
    if (audit->dropped_lines == 0) {
        audit->dropped_after = atomic_load(&audit->recorded);
    }
    audit->dropped_lines += count;
    metric_add(&audit->dropped, count);
    audit->out.len = keep;
}

/* ---- Writing. ---- */

/* Puts the line about dropped lines where these lines would be. Returns its length. */
static size_t tell_dropped(struct audit *audit)
{
    drop(audit);
    size_t before = audit->out.len;

    if (audit->dropped_lines > 0) {
        audit_put_dropped(&audit->out, audit->dropped_after, audit->at, audit->dropped_lines,
                          os_wall_ms());
    }
    return audit->out.len - before;
}

/* Notes how far the log is recorded, for when the file is gone at the next start. */
static void note_recorded(struct audit *audit, zxid_t synced)
{
    zxid_t recorded = atomic_load(&audit->recorded);

    if (audit->begun && (recorded != audit->note.written || synced != audit->note.synced)) {
        audit->note.written = recorded;
        audit->note.synced = synced;
        audit_note_write(&audit->note);
    }
}

/* Returns the start of the line of which a part is in the file; else `written`. */
static size_t begun_start(const struct audit *audit)
{
    const uint8_t *feed =
        audit->written > 0 ? memrchr(audit->out.data, '\n', audit->written) : NULL;

    return feed ? (size_t)(feed - audit->out.data) + 1 : 0;
}

/* Removes the lines from `out` that are in the file as a whole. */
static void forget_written(struct audit *audit)
{
    size_t whole = begun_start(audit);

    metric_add(&audit->lines, lines_in(slice_make(audit->out.data, whole)));
    buf_consume(&audit->out, whole);
    audit->written -= whole;
}

/* Notes the result of a write. */
static void note_full(struct audit *audit, enum err err, size_t done)
{
    if (err != ERR_FULL) {
        audit->full_ms = 0;
    } else if (done > 0 || audit->full_ms == 0) {
        audit->full_ms = os_now_ms();
    }
}

/* A pipe is full whenever its reader is slower than the log, so this is a failure only when the
 * reader takes nothing for a while. */
bool audit_is_slow(const struct audit *audit)
{
    return audit->full_ms != 0 && os_now_ms() < audit->full_ms + AUDIT_RETRY_MS;
}

static bool write_out(struct audit *audit)
{
    struct slice rest = slice_from(buf_slice(&audit->out), audit->written);
    size_t done = 0;
    enum err err = audit_file_write(&audit->file, rest.data, rest.len, &done);

    audit->written += done;
    audit->dirty = audit->dirty || done > 0;
    audit_is_alive(audit);
    forget_written(audit);
    note_full(audit, err, done);
    audit->write_failing = err != ERR_OK;
    if (err != ERR_OK) {
        if (!audit_is_slow(audit)) {
            fail(audit, err);
        }
        return false;
    }
    audit->unsynced.lines += audit->in_out.lines;
    audit->unsynced.omitted += audit->in_out.omitted;
    audit->in_out = (struct audit_refusals){0};
    atomic_store(&audit->recorded, audit->at);
    note_recorded(audit, audit->note.synced);
    works(audit);
    return true;
}

/* Tries again after lines were dropped. */
static bool flush_dropped(struct audit *audit)
{
    size_t told = tell_dropped(audit);
    bool all = write_out(audit);

    if (all || audit->out.len - audit->written < told) {
        audit->dropped_lines = 0;
    } else { /* Nothing of it is in the file: it is put again, with what is dropped meanwhile. */
        audit->out.len -= told;
    }
    return all;
}

/* ---- Lines that a failed sync may have lost. ---- */

/* Refusals are in no log, so those that are lost are counted. */
static void count_lost_refusals(struct audit *audit)
{
    uint64_t lines = audit->in_out.lines + audit->unsynced.lines;

    metric_add(&audit->omitted, lines);
    MUTEX_HOLD(&audit->mutex);
    audit->asked.omitted += lines + audit->in_out.omitted + audit->unsynced.omitted;
    audit->in_out = (struct audit_refusals){0};
    audit->unsynced = (struct audit_refusals){0};
}

/* Continues after the last zxid that is durable. */
static void record_again(struct audit *audit)
{
    if (audit->rec) {
        logrec_unref(audit->rec);
        audit->rec = NULL;
    }
    buf_clear(&audit->out);
    audit->written = 0;
    audit->dropped_lines = 0; /* They are recorded, too. */
    count_lost_refusals(audit);
    if (audit->begun) {
        audit->at = atomic_load(&audit->keep);
        atomic_store(&audit->recorded, audit->at);
        note_recorded(audit, audit->note.synced);
    }
}

/* What the system could not make durable it may have lost, and it reports that once: the next sync
 * succeeds. So the lines after the last good sync are cut off, and recorded again. False: they
 * could not be cut off, and nothing may be written behind them. */
static bool take_back(struct audit *audit)
{
    audit->is_unsafe = !audit_file_take_back(&audit->file);
    if (audit->is_unsafe) {
        fail(audit, ERR_IO);
        return false;
    }
    record_again(audit);
    if (audit->begun) {
        audit_put_open_first(audit);
    }
    return true;
}

bool audit_flush(struct audit *audit)
{
    if (is_waiting(audit) || (audit->is_unsafe && !take_back(audit))) {
        return false;
    }
    return may_drop(audit) ? flush_dropped(audit) : write_out(audit);
}

bool audit_make_room(struct audit *audit)
{
    size_t waiting = audit->out.len - audit->written;

    /* Nothing is added to what could not be written: so `out` is empty again, and its zxid
     * recorded, before more follows. */
    if (waiting == 0 || (waiting < AUDIT_FLUSH_AT && !audit->write_failing) || audit_flush(audit)) {
        return true;
    }
    if (may_drop(audit)) {
        drop(audit);
    }
    return may_drop(audit);
}

/* ---- Syncing. ---- */

void audit_sync(struct audit *audit, bool now)
{
    uint64_t now_ms = os_now_ms();
    zxid_t recorded = atomic_load(&audit->recorded);
    /* Records without a line, such as the age of an idle ensemble, leave nothing to sync. */
    bool moved = audit->begun && recorded != atomic_load(&audit->keep);

    if ((!audit->dirty && !moved) || (!now && now_ms < audit->synced_ms + SYNC_MS)) {
        return;
    }
    audit->synced_ms = now_ms;
    enum err err = audit->dirty ? audit_file_sync(&audit->file) : ERR_OK;

    audit_is_alive(audit);
    audit->sync_failing = err != ERR_OK;
    if (err != ERR_OK) {
        fail(audit, err);
        (void)take_back(audit);
        return;
    }
    audit->dirty = false;
    audit->unsynced = (struct audit_refusals){0};
    works(audit);
    atomic_store(&audit->keep, recorded);
    note_recorded(audit, recorded);
}

/* ---- Rotation. ---- */

void audit_put_open_first(struct audit *audit)
{
    struct audit_open open = {.zxid = atomic_load(&audit->recorded),
                              .member = audit->options.member,
                              .version = audit->options.version,
                              .wall_ms = os_wall_ms()};
    struct buf out;

    memcpy(open.cluster, audit->cluster, sizeof(open.cluster));
    buf_init(&out, AUDIT_OUT_MAX);
    audit_put_open(&out, &open);
    buf_append_slice(&out, slice_from(buf_slice(&audit->out), begun_start(audit)));
    ASSERT(!out.overflow);
    buf_release(&audit->out);
    audit->out = out;
    audit->written = 0;
}

/* Opens the file that has the name now. A line that could not be completed in the old file is
 * written again in the new one. */
static bool reopen(struct audit *audit)
{
    char error[AUDIT_ERROR_MAX] = "";
    struct audit_file next;
    struct audit_tail tail;
    enum err err = audit_file_open(&next, audit->options.path, audit->options.system, error);

    if (err == ERR_OK) {
        err = audit_tail_read(&next, &tail);
        if (err != ERR_OK) {
            (void)snprintf(error, sizeof(error), "%s is not an audit file", audit->options.path);
            audit_file_close(&next);
        }
    }
    if (err != ERR_OK) {
        log_error("audit", "the audit file cannot be opened again: {reason}%s", error);
        memcpy(audit->reopen_error, error, sizeof(error));
        metric_add(&audit->errors, 1);
        return false;
    }
    audit_file_cut(&audit->file, audit->written - begun_start(audit));
    audit_sync(audit, true);
    if (audit->is_unsafe) { /* The old file keeps lines that may be lost; the new one has them. */
        audit->is_unsafe = false;
        record_again(audit);
    }
    audit_file_close(&audit->file);
    audit->file = next;
    audit->is_gone = false;
    if (audit->begun) {
        audit_put_open_first(audit);
    } else {
        buf_consume(&audit->out, begun_start(audit));
        audit->written = 0;
    }
    log_info("audit", "{path}%s was opened again", audit->options.path);
    return true;
}

/* The file was removed. Lines that are written there now would be lost, so a new one is needed. */
static void look_gone(struct audit *audit)
{
    if (!audit->is_gone) {
        log_warn("audit", "{path}%s was removed; a new file is made", audit->options.path);
    } else if (os_now_ms() < audit->retry_ms) {
        (void)snprintf(audit->reopen_error, sizeof(audit->reopen_error),
                       "%s was removed, and no new file could be made", audit->options.path);
        return;
    }
    if (!reopen(audit)) {
        audit->is_gone = true;
        audit->write_failing = true;
        fail(audit, ERR_IO);
    }
}

void audit_look(struct audit *audit, bool asked)
{
    enum audit_file_change change = audit_file_look(&audit->file);

    if (change == AUDIT_FILE_GONE) {
        look_gone(audit);
    } else if (asked && audit_file_is_renamed(&audit->file)) {
        (void)audit_flush(audit);
        (void)reopen(audit);
    } else if (asked) {
        log_info("audit", "{path}%s was not renamed: it stays open", audit_name(audit));
    }
    if (change == AUDIT_FILE_CUT) {
        log_info("audit", "{path}%s was truncated; it continues from its beginning",
                 audit->options.path);
        if (audit->begun) {
            audit_put_open_first(audit);
        }
    }
}
