#include "tests/lib/store_life.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum {
    LIFE_SEGMENT = 8 * VFS_BLOCK,
};

/* ---- The script. ---- */

static enum err step_format(struct skit *kit)
{
    enum err err = skit_open(kit);

    return err == ERR_OK ? skit_format(kit) : err;
}

static enum err promise(struct skit *kit, uint32_t epoch)
{
    struct store_op op = {.type = STORE_PROMISE, .epoch = epoch, .leader = 1};

    return skit_run(kit, &op);
}

/* Appends in `epoch`, or in the log's own if that is higher. */
static enum err append(struct skit *kit, uint32_t epoch, size_t count, size_t len)
{
    uint32_t now = zxid_epoch(skit_zxid(&kit->log, kit->log.count));

    return skit_append(kit, now > epoch ? now : epoch, count, len);
}

static enum err step_promise(struct skit *kit)
{
    return promise(kit, 1);
}

static enum err step_small(struct skit *kit)
{
    return append(kit, 1, 3, 20);
}

static enum err step_batch(struct skit *kit)
{
    return append(kit, 1, 5, 1500);
}

static enum err step_preallocate(struct skit *kit)
{
    enum err err = ERR_OK;

    do {
        err = store_preallocate(kit->store);
    } while (skit_is_again(kit, err));
    return err;
}

static enum err step_rotate(struct skit *kit)
{
    return append(kit, 1, 30, 3000);
}

static enum err snapshot(struct skit *kit, size_t start, size_t end)
{
    enum err err = ERR_OK;

    do {
        err = skit_snapshot(kit, start, end);
    } while (skit_is_again(kit, err));
    return err;
}

static enum err step_snapshot(struct skit *kit)
{
    return snapshot(kit, 3, 6);
}

static enum err step_truncate_inside(struct skit *kit)
{
    return skit_truncate(kit, 35);
}

static enum err step_new_epoch(struct skit *kit)
{
    return append(kit, 2, 3, 400);
}

static enum err step_promise_again(struct skit *kit)
{
    return promise(kit, 3);
}

static enum err step_snapshot_late(struct skit *kit)
{
    return snapshot(kit, kit->log.count - 3, kit->log.count - 1);
}

/* Several operations in one run: one batch. */
static enum err step_group(struct skit *kit)
{
    struct store_op ops[4];
    struct store_op *list[4];
    size_t first = kit->log.count;
    size_t done = 0;

    skit_make(kit, 3, 4, 700);
    for (size_t i = 0; i < 4; i++) {
        ops[i] = (struct store_op){.type = STORE_APPEND,
                                   .recs = kit->log.recs + first + i,
                                   .rec_count = 1,
                                   .committed = skit_zxid(&kit->log, first)};
        list[i] = &ops[i];
    }

    enum err err = store_run(kit->store, list, 4, &done);

    while (skit_is_again(kit, err)) {
        size_t more = 0;

        err = store_run(kit->store, list + done, 4 - done, &more);
        done += more;
    }
    return err;
}

static enum err step_truncate_far(struct skit *kit)
{
    return skit_truncate(kit, 5);
}

static enum err step_stop_and_start(struct skit *kit)
{
    skit_close(kit, true);
    return skit_open(kit);
}

static enum err step_quarantine(struct skit *kit)
{
    struct store_op op = {.type = STORE_QUARANTINE, .reason = "test"};

    return skit_run(kit, &op);
}

static enum err receive(struct skit *kit, uint32_t epoch, enum store_op_type last)
{
    struct store_op op = {.type = last};

    skit_log_restart(&kit->log, 0, 0);
    skit_make(kit, epoch, 30, 900);

    enum err err = skit_receive(kit, 10, 14, 30, &op);

    return err == ERR_OK ? op.ret_err : err;
}

static enum err step_install(struct skit *kit)
{
    return receive(kit, 5, STORE_SNAP_INSTALL);
}

static enum err step_release(struct skit *kit)
{
    struct store_op op = {.type = STORE_RELEASE};

    return skit_run(kit, &op);
}

static enum err step_receive_abort(struct skit *kit)
{
    struct skit_log mine = kit->log;

    kit->log = (struct skit_log){0};

    enum err err = receive(kit, 7, STORE_SNAP_ABORT);

    skit_log_cut(&kit->log, 0);
    kit->log = mine;
    return err;
}

static enum err step_after(struct skit *kit)
{
    return append(kit, 6, 4, 1000);
}

static enum err step_reset(struct skit *kit)
{
    struct store_op op = {.type = STORE_RESET};
    enum err err = skit_run(kit, &op);

    if (err == ERR_OK) {
        skit_log_restart(&kit->log, 0, 0);
    }
    return err;
}

static enum err step_refill(struct skit *kit)
{
    return append(kit, 8, 30, 2500);
}

static enum err step_truncate_all(struct skit *kit)
{
    return skit_truncate(kit, 0);
}

static enum err step_last(struct skit *kit)
{
    return append(kit, 9, 2, 10);
}

struct step {
    const char *name;
    enum err (*run)(struct skit *kit);
    bool is_append; /* Part of it may have become durable. */
};

static const struct step script[] = {
    {"format", step_format, false},
    {"promise", step_promise, false},
    {"small", step_small, true},
    {"batch", step_batch, true},
    {"preallocate", step_preallocate, false},
    {"rotate", step_rotate, true},
    {"snapshot", step_snapshot, false},
    {"truncate inside a batch", step_truncate_inside, false},
    {"new epoch", step_new_epoch, true},
    {"promise again", step_promise_again, false},
    {"second snapshot", step_snapshot_late, false},
    {"group", step_group, true},
    {"rotate again", step_rotate, true},
    {"third snapshot", step_snapshot_late, false},
    {"stop and start", step_stop_and_start, false},
    {"after the start", step_new_epoch, true},
    {"quarantine", step_quarantine, false},
    {"install", step_install, false},
    {"release", step_release, false},
    {"after the install", step_after, true},
    {"receive and abort", step_receive_abort, false},
    {"after the abort", step_after, true},
    {"reset", step_reset, false},
    {"refill", step_refill, true},
    {"truncate far", step_truncate_far, false},
    {"truncate all", step_truncate_all, false},
    {"last", step_last, true},
};

enum {
    STEP_COUNT = sizeof(script) / sizeof(script[0])
};

_Static_assert((int)STEP_COUNT <= (int)LIFE_STEPS_MAX, "room for all steps");

const char *life_step_name(size_t step)
{
    return step < STEP_COUNT ? script[step].name : "the end";
}

size_t life_find(const char *name)
{
    for (size_t i = 0; i < STEP_COUNT; i++) {
        if (strcmp(script[i].name, name) == 0) {
            return i;
        }
    }
    UNREACHABLE();
}

/* ---- The undisturbed life. ---- */

static void log_copy(struct skit_log *to, const struct skit_log *from)
{
    to->base = from->base;
    to->base_chain = from->base_chain;
    to->count = from->count;
    for (size_t i = 0; i < from->count; i++) {
        to->recs[i] = logrec_ref(from->recs[i]);
    }
}

static void state_note(struct life *life, size_t done, struct skit *kit)
{
    struct life_state *state = &life->states[done];
    struct skit look = {.options = kit->options};

    log_copy(&state->log, &kit->log);
    state->calls = vfs_mem_calls(kit->disk);
    state->is_formatted = done > 0;

    /* A copy of the disk gives the store's own report. */
    struct vfs_mem *copy = vfs_mem_clone(kit->disk);

    look.disk = copy;
    look.options.vfs = vfs_mem_vfs(copy);

    enum err err = skit_open(&look);

    ASSERT(err == ERR_OK && look.report.verdict != STORE_DAMAGED);
    state->promised_epoch = look.report.promised_epoch;
    state->is_quarantined = look.report.quarantined;
    state->committed = look.report.committed;
    skit_close(&look, false);
    vfs_mem_free(copy);
}

void life_init(struct life *life)
{
    struct skit kit;

    *life = (struct life){.step_count = STEP_COUNT};
    skit_init(&kit, LIFE_SEGMENT);
    for (size_t i = 0; i < STEP_COUNT; i++) {
        enum err err = script[i].run(&kit);

        if (err != ERR_OK) {
            (void)fprintf(stderr, "undisturbed life: %s: %s\n", script[i].name, err_symbol(err));
        }
        ASSERT(err == ERR_OK);
        state_note(life, i + 1, &kit);
    }
    skit_release(&kit);
}

void life_release(struct life *life)
{
    for (size_t i = 0; i <= life->step_count; i++) {
        skit_log_cut(&life->states[i].log, 0);
    }
}

/* ---- The verdict. ---- */

static bool fail(char text[LIFE_TEXT_MAX], const char *what, size_t done, const char *detail)
{
    (void)snprintf(text, LIFE_TEXT_MAX, "interrupted in '%s': %s %s", life_step_name(done), what,
                   detail);
    return false;
}

/* The log as found: `old`, `new`, or for an append something in between. Returns the matching model
 * and the number of its records found, NULL if none matches. */
static const struct skit_log *find_model(struct skit *kit, const struct life *life, size_t done,
                                         size_t *ret_count)
{
    const struct skit_log *old = &life->states[done].log;
    const struct skit_log *new = done < life->step_count ? &life->states[done + 1].log : old;
    bool is_append = done < life->step_count && script[done].is_append;
    long in_old = skit_match_log(kit, old);
    long in_new = skit_match_log(kit, new);

    if (in_old == (long)old->count) {
        *ret_count = old->count;
        return old;
    }
    if (in_new == (long)new->count || (is_append && in_new >= (long)old->count)) {
        *ret_count = (size_t)in_new;
        return new;
    }
    return NULL;
}

static bool judge_records(const struct skit *kit, const struct life *life, size_t done,
                          char text[LIFE_TEXT_MAX])
{
    const struct life_state *old = &life->states[done];
    const struct life_state *new = done < life->step_count ? old + 1 : old;
    const struct store_report *report = &kit->report;

    if (report->promised_epoch != old->promised_epoch &&
        report->promised_epoch != new->promised_epoch) {
        return fail(text, "a promise was forgotten", done, "");
    }
    if (report->quarantined != old->is_quarantined && report->quarantined != new->is_quarantined) {
        return fail(text, "the quarantine mark is wrong", done, "");
    }
    if (report->committed < old->committed && report->committed < new->committed) {
        return fail(text, "the commit watermark fell", done, "");
    }
    return true;
}

bool life_judge_open(struct skit *kit, const struct life *life, size_t done,
                     char text[LIFE_TEXT_MAX])
{
    enum err err = skit_open(kit);
    size_t count = 0;

    if (err != ERR_OK) {
        kit->store = NULL;
        return fail(text, "cannot be opened:", done, err_symbol(err));
    }
    if (kit->report.verdict == STORE_DAMAGED) {
        return fail(text, "found damaged:", done, kit->report.reason);
    }
    if (kit->report.verdict == STORE_EMPTY) {
        return life->states[done].is_formatted ? fail(text, "found empty", done, "")
                                               : skit_format(kit) == ERR_OK;
    }

    const struct skit_log *model = find_model(kit, life, done, &count);

    if (!model) {
        return fail(text, "the log is wrong", done, "");
    }
    skit_log_cut(&kit->log, 0);
    log_copy(&kit->log, model);
    skit_log_cut(&kit->log, count);
    if (kit->report.has_snapshot && !skit_check_snapshot(kit)) {
        return fail(text, "the snapshot is wrong", done, "");
    }
    return judge_records(kit, life, done, text);
}

bool life_judge(struct skit *kit, const struct life *life, size_t done, char text[LIFE_TEXT_MAX])
{
    skit_log_cut(&kit->log, 0);
    if (!life_judge_open(kit, life, done, text)) {
        return kit->allows_damage && kit->store && kit->report.verdict == STORE_DAMAGED;
    }
    /* The life must be able to continue from there. */
    if (skit_append(kit, 100, 2, 600) != ERR_OK || skit_append(kit, 100, 1, 5000) != ERR_OK) {
        return fail(text, "cannot append after it", done, "");
    }

    long count = (long)kit->log.count;

    skit_close(kit, false);
    if (skit_open(kit) != ERR_OK || kit->report.verdict != STORE_CLEAN) {
        return fail(text, "not clean after continuing:", done, kit->report.reason);
    }
    if (skit_check_log(kit) != count) {
        return fail(text, "the log is wrong after continuing", done, "");
    }
    return true;
}

/* ---- Disturbances. ---- */

size_t life_run(struct skit *kit, const struct life *life, enum err *ret_err)
{
    enum err err = ERR_OK;
    size_t done = 0;

    ASSERT(life->step_count == STEP_COUNT);
    while (err == ERR_OK && done < STEP_COUNT) {
        err = script[done].run(kit);
        if (err == ERR_OK && kit->report.verdict == STORE_DAMAGED) {
            /* A failed read during the opening counts as damage; it must not change anything. */
            err = ERR_CORRUPT;
        }
        done += err == ERR_OK;
    }
    *ret_err = err;
    return done;
}

void life_kit_init(struct skit *kit)
{
    skit_init(kit, LIFE_SEGMENT);
}
