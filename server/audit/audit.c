#include "server/audit/audit.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/os_clock.h"
#include "server/audit/audit_int.h"

#include <errno.h>
#include <stdio.h>

enum {
    WAKE_MS = 50,     /* Time between two looks at the log. */
    SLOW_WAKE_MS = 5, /* The same, while lines wait for a slow reader. */
    READ_BYTES_MAX = 1 << 20,
    READ_RECS_MAX = 256,
    READS_PER_TURN = 16, /* One while syncs fail, because it may have to be recorded again. */
    STOP_MS = 2000,      /* Longest time that the end waits until all is recorded. */
    STOP_HANG_MS = 1000  /* And for a call that does not return. */
};

/* ---- Opening and closing. ---- */

static enum err open_file(struct audit *audit, char error[AUDIT_ERROR_MAX])
{
    const struct audit_options *options = &audit->options;
    enum err err = audit_file_open(&audit->file, options->path, options->system, error);

    if (err != ERR_OK) {
        return err;
    }
    err = audit_tail_read(&audit->file, &audit->tail);
    if (err != ERR_OK) {
        (void)snprintf(error, AUDIT_ERROR_MAX,
                       err == ERR_FORMAT
                           ? "auditFile: the end of %s, or its first line, is not that of an "
                             "audit file; name another file, or move this one away"
                           : "auditFile: cannot read %s; check the disk, or name another file",
                       options->path);
        audit_file_close(&audit->file);
        return ERR_CONFIG;
    }
    if (audit->tail.cut > 0) {
        log_warn(
            "audit",
            "{path}%s ended with lines that were not complete: {bytes}%llu bytes were cut off, "
            "and their changes are recorded again",
            options->path, (unsigned long long)audit->tail.cut);
    }
    return ERR_OK;
}

enum err audit_open(const struct audit_options *options, struct audit **ret_audit,
                    char error[AUDIT_ERROR_MAX])
{
    struct audit *audit = mem_zalloc(1, sizeof(*audit));
    enum err err = ERR_OK;

    audit->options = *options;
    audit->path = options->path ? mem_strdup(options->path) : NULL;
    audit->options.path = audit->path;
    err = open_file(audit, error);
    if (err == ERR_OK && !audit_note_open(&audit->note, options->data_dir)) {
        (void)snprintf(error, AUDIT_ERROR_MAX, "dataDir: cannot open audit-position in %s: %s",
                       options->data_dir, strerrordesc_np(errno));
        audit_file_close(&audit->file);
        err = ERR_CONFIG;
    }
    if (err != ERR_OK) {
        mem_free(audit->path);
        mem_free(audit);
        return err;
    }
    audit->options.data_dir = NULL; /* Not needed any more. */
    mutex_init(&audit->mutex);
    ASSERT(pthread_cond_init(&audit->changed, NULL) == 0);
    mailbox_init(&audit->wake, 1);
    buf_init(&audit->out, AUDIT_OUT_MAX);
    buf_init(&audit->asked.refusals, AUDIT_REFUSALS_MAX);
    *ret_audit = audit;
    return ERR_OK;
}

/* ---- What other threads ask. ---- */

void audit_applied(struct audit *audit, zxid_t applied, const uint8_t cluster[AUDIT_CLUSTER_LEN])
{
    atomic_store(&audit->told_applied, applied);
    if (!atomic_load(&audit->is_told)) {
        MUTEX_HOLD(&audit->mutex);
        memcpy(audit->asked.cluster, cluster, AUDIT_CLUSTER_LEN);
        atomic_store(&audit->is_told, true);
    }
}

zxid_t audit_keep(struct audit *audit)
{
    return atomic_load(&audit->keep);
}

const char *audit_why(struct audit *audit)
{
    bool hangs = audit_hangs(audit);

    if (atomic_load(&audit->stuck)) {
        return "the audit file of this replica cannot be written (auditFull=refuse): until it can, "
               "this replica accepts no writes; use another replica";
    }
    return hangs && audit->options.full == AUDIT_FULL_REFUSE
               ? "the file system of the audit file of this replica does not answer "
                 "(auditFull=refuse): until it does, this replica accepts no writes; use another "
                 "replica"
               : NULL;
}

bool audit_reopen(struct audit *audit, uint32_t wait_ms, char error[AUDIT_ERROR_MAX])
{
    uint64_t end_ms = os_now_ms() + wait_ms;

    MUTEX_HOLD(&audit->mutex);
    const struct audit_asked *asked = &audit->asked;
    uint64_t ask = ++audit->asked.reopen_asks;

    while (asked->reopen_dones < ask) {
        uint64_t now_ms = os_now_ms();

        if (now_ms >= end_ms) {
            (void)snprintf(error, AUDIT_ERROR_MAX,
                           "%s could not be opened again in %u ms: is its disk slow?",
                           audit_name(audit), wait_ms);
            return false;
        }
        thread_wait(&audit->changed, &audit->mutex, end_ms - now_ms);
    }
    (void)snprintf(error, AUDIT_ERROR_MAX, "%s", asked->reopen_error);
    return error[0] == '\0';
}

void audit_refused(struct audit *audit, const struct audit_refusal *refusal)
{
    uint64_t second = os_now_ms() / 1000;

    metric_add(&audit->refusals, 1);
    MUTEX_HOLD(&audit->mutex);
    struct audit_asked *asked = &audit->asked;

    if (asked->second != second) {
        asked->second = second;
        asked->in_second = 0;
        asked->bytes_in_second = 0;
    }
    size_t before = asked->refusals.len;
    bool is_omitted = asked->in_second >= AUDIT_REFUSALS_PER_S ||
                      asked->bytes_in_second >= AUDIT_REFUSAL_BYTES_PER_S;

    is_omitted = is_omitted || before + AUDIT_LINE_MAX > AUDIT_REFUSALS_MAX;
    if (!is_omitted) {
        audit_put_refusal(&asked->refusals, refusal, os_wall_ms());
        is_omitted = asked->refusals.overflow || asked->refusals.len - before > AUDIT_LINE_MAX;
    }
    if (is_omitted) { /* Whatever a client sends, it ends no replica and makes no longer line. */
        asked->refusals.len = before;
        asked->refusals.overflow = false;
        asked->omitted++;
        metric_add(&audit->omitted, 1);
        return;
    }
    asked->lines++;
    asked->in_second++;
    asked->bytes_in_second += asked->refusals.len - before;
}

void audit_figures(struct audit *audit, struct audit_figures *ret_figures, char *ret_why)
{
    zxid_t recorded = atomic_load(&audit->recorded);
    bool hangs = audit_hangs(audit);

    *ret_figures = (struct audit_figures){.lines = metric_get(&audit->lines),
                                          .dropped = metric_get(&audit->dropped),
                                          .refusals = metric_get(&audit->refusals),
                                          .omitted = metric_get(&audit->omitted),
                                          .gaps = metric_get(&audit->gaps),
                                          .errors = metric_get(&audit->errors),
                                          .recorded = recorded};
    MUTEX_HOLD(&audit->mutex);
    bool fails = audit->asked.why[0] != '\0';

    ret_figures->failing = fails || hangs;
    ret_figures->behind = zxid_behind(atomic_load(&audit->told_applied), recorded);
    if (ret_why && hangs && !fails) {
        (void)snprintf(ret_why, AUDIT_ERROR_MAX,
                       "%s cannot be written: its file system does not answer", audit_name(audit));
    } else if (ret_why) {
        (void)snprintf(ret_why, AUDIT_ERROR_MAX, "%s", audit->asked.why);
    }
}

/* ---- Where to begin. ---- */

static bool is_same(const struct audit *audit, const uint8_t cluster[AUDIT_CLUSTER_LEN])
{
    return memcmp(audit->cluster, cluster, AUDIT_CLUSTER_LEN) == 0;
}

/* Sets where recording begins: after the last zxid of the file or of the note, unless they belong
 * to another cluster. */
static void begin(struct audit *audit)
{
    const struct audit_tail *tail = &audit->tail;
    const struct audit_note *note = &audit->note;
    bool by_tail = tail->has_zxid && tail->has_cluster && is_same(audit, tail->cluster);
    bool by_note = note->is_known && is_same(audit, note->cluster);

    audit->at = by_tail || by_note ? max_u64(by_tail ? tail->zxid : 0, by_note ? note->written : 0)
                                   : audit->options.start;
    audit->begun = true;
    audit->note.synced = by_note ? audit->note.synced : audit->at;
    audit->note.written = audit->at;
    memcpy(audit->note.cluster, audit->cluster, AUDIT_CLUSTER_LEN);
    /* From here on a change is missing if recording begins anywhere else. */
    audit_note_write(&audit->note);
    atomic_store(&audit->recorded, audit->at);
    atomic_store(&audit->keep, audit->at);
    audit_put_open_first(audit);
    log_info("audit", "{path}%s records changes after zxid {zxid}0x%llx", audit_name(audit),
             (unsigned long long)audit->at);
}

/* Takes what other threads have asked; returns how often opening the file again was asked, 0: it is
 * not asked now. */
static uint64_t take_asks(struct audit *audit)
{
    mutex_lock(&audit->mutex);
    const struct audit_asked *asked = &audit->asked;
    uint64_t reopen = asked->reopen_asks > asked->reopen_dones ? asked->reopen_asks : 0;
    bool may_begin = atomic_load(&audit->is_told) && !audit->begun;

    memcpy(audit->cluster, audit->asked.cluster, AUDIT_CLUSTER_LEN);
    mutex_unlock(&audit->mutex);
    audit->applied = atomic_load(&audit->told_applied);
    if (may_begin) {
        begin(audit);
    }
    return reopen;
}

/* Looks at the file, and reports the result to the threads that have asked. */
static void look(struct audit *audit, uint64_t reopen)
{
    audit->reopen_error[0] = '\0';
    audit_look(audit, reopen > 0);
    if (reopen > 0) {
        MUTEX_HOLD(&audit->mutex);
        memcpy(audit->asked.reopen_error, audit->reopen_error, sizeof(audit->reopen_error));
        audit->asked.reopen_dones = reopen;
        (void)pthread_cond_broadcast(&audit->changed);
    }
}

/* ---- Refusals. ---- */

static void take_refusals(struct audit *audit)
{
    /* Not between the lines of a transaction: a crash would cut them off. */
    if (audit->rec || !audit_make_room(audit)) {
        return; /* They wait where they are, and later ones are counted. */
    }
    MUTEX_HOLD(&audit->mutex);
    struct audit_asked *asked = &audit->asked;

    buf_append_slice(&audit->out, buf_slice(&asked->refusals));
    buf_trim(&asked->refusals, AUDIT_LINE_MAX);
    audit->in_out.lines += asked->lines;
    asked->lines = 0;
    if (asked->omitted > 0 && asked->second != os_now_ms() / 1000) {
        audit_put_omitted(&audit->out, asked->omitted, os_wall_ms());
        audit->in_out.omitted += asked->omitted;
        asked->omitted = 0;
    }
    ASSERT(!audit->out.overflow);
}

/* ---- The log. ---- */

/* Appends the lines of the present record. False: there is no room for them now, or recording
 * continues elsewhere. */
static bool finish_record(struct audit *audit)
{
    bool more = audit->rec != NULL;
    zxid_t zxid = more ? audit->rec->zxid : 0;

    while (more) {
        if (!audit_make_room(audit)) {
            return false;
        }
        if (!audit->rec) {
            return audit->at == zxid; /* Its other lines were dropped, or it is recorded again. */
        }
        more = audit_record_line(&audit->record, os_wall_ms(), &audit->out);
        audit->has_lines = audit->has_lines || more;
    }
    if (audit->rec) {
        audit->at = audit->rec->zxid;
        logrec_unref(audit->rec);
        audit->rec = NULL;
    }
    return true;
}

/* Records up to `applied`; releases all records. False: no more can be done now. */
static bool take_records(struct audit *audit, struct logrec **recs, size_t count)
{
    bool more = count > 0;

    for (size_t i = 0; i < count; i++) {
        more = more && recs[i]->zxid <= audit->applied;
        if (more) {
            audit->rec = logrec_ref(recs[i]);
            audit_record_begin(&audit->record, audit->rec);
            audit->has_lines = false;
            more = finish_record(audit);
        }
        logrec_unref(recs[i]);
    }
    return more;
}

/* The record after which to continue is not in the log any more. */
static void skip_gap(struct audit *audit)
{
    struct store_figures figures;

    store_figures(audit->store, &figures);
    bool is_purged = figures.log_base > audit->at;
    zxid_t next = is_purged ? figures.log_base : audit->applied;
    const char *why =
        is_purged ? "the log does not have these changes any more: it was purged, or this replica "
                    "was refilled by a snapshot"
                  : "the log of this replica does not have the last recorded zxid";

    log_warn("audit",
             "changes after zxid {after}0x%llx up to {zxid}0x%llx are not recorded: {reason}%s",
             (unsigned long long)audit->at, (unsigned long long)next, why);
    audit_put_gap(&audit->out, audit->at, next, why, os_wall_ms());
    audit->at = next;
    metric_add(&audit->gaps, 1);
}

static void tell_read(struct audit *audit, enum err err)
{
    bool fails = err != ERR_OK && err != ERR_MISSING;

    if (fails && !audit->read_failing) {
        log_warn("audit",
                 "the log cannot be read ({error}%s): the audit log is behind until it can",
                 err_text(err));
        metric_add(&audit->errors, 1);
    }
    audit->read_failing = fails;
}

/* Reads and records the next records. False: there is nothing more to do now. */
static bool read_log(struct audit *audit)
{
    struct logrec *recs[READ_RECS_MAX];
    size_t count = 0;

    if (!finish_record(audit) || audit->at >= audit->applied || !audit_make_room(audit) ||
        !audit_enter_store(audit)) {
        return false;
    }
    enum err err = store_read(audit->store, audit->at, READ_BYTES_MAX, READ_RECS_MAX, recs, &count);

    if (err == ERR_MISSING) {
        skip_gap(audit);
    }
    audit_leave_store(audit);
    tell_read(audit, err);
    if (err == ERR_MISSING) {
        return true;
    }
    return err == ERR_OK && take_records(audit, recs, count);
}

/* ---- The thread. ---- */

/* Returns whether there is more to do at once. */
static bool turn(struct audit *audit, bool is_last)
{
    bool more = true;

    look(audit, take_asks(audit));
    take_refusals(audit);
    int reads = audit->sync_failing ? 1 : READS_PER_TURN;

    for (int i = 0; i < reads && more; i++) {
        more = audit->begun && read_log(audit);
    }
    (void)audit_flush(audit);
    audit_sync(audit, is_last && !more);
    return more;
}

/* Frees all; no thread uses it any more. */
static void release(struct audit *audit)
{
    if (audit->rec) {
        logrec_unref(audit->rec);
    }
    audit_file_close(&audit->file);
    audit_note_close(&audit->note);
    mailbox_release(&audit->wake);
    ASSERT(pthread_cond_destroy(&audit->changed) == 0);
    mutex_destroy(&audit->mutex);
    buf_release(&audit->out);
    buf_release(&audit->asked.refusals);
    mem_free(audit->path);
    mem_free(audit);
}

static void run(struct audit *audit)
{
    uint64_t end_ms = UINT64_MAX;
    bool more = false;

    for (;;) {
        bool is_last = mailbox_is_closed(&audit->wake);

        if (is_last && end_ms == UINT64_MAX) {
            end_ms = os_now_ms() + STOP_MS;
        }
        more = turn(audit, is_last);
        audit_is_alive(audit);
        if (is_last && (!more || os_now_ms() >= end_ms)) {
            return;
        }
        if (!more) {
            (void)mailbox_wait(&audit->wake, audit_is_slow(audit) ? SLOW_WAKE_MS : WAKE_MS);
        }
    }
}

static void body(void *arg)
{
    struct audit *audit = arg;

    run(audit);
    if (audit_ends(audit)) {
        release(audit);
    }
}

void audit_start(struct audit *audit, struct store *store)
{
    audit->store = store;
    atomic_store(&audit->alive_ms, os_now_ms());
    audit->has_thread = true;
    thread_start(&audit->thread, "zabra-audit", body, audit);
}

void audit_stop(struct audit *audit)
{
    if (!audit) {
        return;
    }
    mailbox_close(&audit->wake);
    if (audit->has_thread && !audit_wait_end(audit, STOP_MS + STOP_HANG_MS)) {
        return; /* The thread is not this function's any more. */
    }
    if (audit->has_thread) {
        thread_join(&audit->thread);
    }
    release(audit);
}
