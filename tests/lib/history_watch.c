/*
 * The events of watchers, against all known changes. `at` is the zxid up to which a watcher has
 * received everything; it moves by whole zxids, by bookmarks and by answers on its socket.
 */
#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/history_int.h"

#include <inttypes.h>
#include <string.h>

enum {
    GROUP_MAX = 64, /* Events of one zxid. */
    GROW = 1024
};

struct watcher {
    const struct history_log *log;
    bool started;
    zxid_t at;
    zxid_t span_from;                            /* All changes after this zxid had events. */
    const struct history_item *group[GROUP_MAX]; /* Events of a zxid that is not complete yet. */
    size_t group_count;
    bool in_diff;
    bool diff_ended; /* All events of the difference have arrived. */
    zxid_t diff_since;
    zxid_t diff_upto;
    uint32_t diff_seen[HISTORY_KEYS + 1]; /* Bits of enum history_what, by key. */
};

static bool complain(struct history_case *the_case, const struct watcher *watcher, zxid_t zxid,
                     const char *why)
{
    return history_complain(the_case, "watch", "%s: %s; zxid %" PRIx64 ", complete up to %" PRIx64,
                            watcher->log->name, why, zxid, watcher->at);
}

static void close_span(struct history_case *the_case, const struct watcher *watcher)
{
    if (the_case->spans_noted || !watcher->started || watcher->at <= watcher->span_from) {
        return;
    }
    if (the_case->span_count == the_case->span_cap) {
        the_case->span_cap += GROW;
        the_case->spans =
            mem_realloc(the_case->spans, the_case->span_cap * sizeof(*the_case->spans));
    }
    the_case->spans[the_case->span_count++] =
        (struct history_span){.from = watcher->span_from, .to = watcher->at};
}

/* Moves `at` to `zxid` and begins a new span there: not each change up to `zxid` had an event. */
static void jump(struct history_case *the_case, struct watcher *watcher, zxid_t zxid)
{
    close_span(the_case, watcher);
    watcher->at = zxid;
    watcher->span_from = zxid;
}

/* The first change after `zxid`. */
static size_t first_behind(const struct history_case *the_case, zxid_t zxid)
{
    size_t low = 0;
    size_t high = the_case->fact_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (the_case->by_zxid[middle]->zxid <= zxid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Nothing has changed in (at, zxid]. */
static bool pass_quiet(struct history_case *the_case, struct watcher *watcher, zxid_t zxid)
{
    size_t next = first_behind(the_case, watcher->at);

    if (next < the_case->fact_count && the_case->by_zxid[next]->zxid <= zxid) {
        return complain(the_case, watcher, the_case->by_zxid[next]->zxid, "a change is missing");
    }
    watcher->at = zxid > watcher->at ? zxid : watcher->at;
    return true;
}

/* ---- Exact events. ---- */

static bool group_has(const struct watcher *watcher, const struct history_fact *fact)
{
    for (size_t i = 0; i < watcher->group_count; i++) {
        if (watcher->group[i]->key == fact->key && watcher->group[i]->what == fact->what) {
            return true;
        }
    }
    return false;
}

/* A zxid is complete: its events equal its changes, each once. */
static bool end_group(struct history_case *the_case, struct watcher *watcher, zxid_t zxid)
{
    size_t count = 0;

    if (!pass_quiet(the_case, watcher, zxid - 1)) {
        return false;
    }
    for (size_t i = first_behind(the_case, zxid - 1);
         i < the_case->fact_count && the_case->by_zxid[i]->zxid == zxid; i++) {
        count++;
        if (!group_has(watcher, the_case->by_zxid[i])) {
            return complain(the_case, watcher, zxid, "some changes of a zxid are missing");
        }
    }
    if (count != watcher->group_count) {
        return complain(the_case, watcher, zxid, "a change came twice");
    }
    watcher->group_count = 0;
    watcher->at = zxid;
    return true;
}

static bool take_exact(struct history_case *the_case, struct watcher *watcher,
                       const struct history_item *item)
{
    if (item->zxid <= watcher->at) {
        return complain(the_case, watcher, item->zxid, "an event repeats an earlier zxid");
    }
    if (watcher->group_count > 0 && watcher->group[0]->zxid != item->zxid) {
        return complain(the_case, watcher, item->zxid,
                        "a zxid began before the previous one was complete");
    }
    if (item->what == HISTORY_CHANGED || watcher->group_count == GROUP_MAX) {
        return complain(the_case, watcher, item->zxid,
                        "an event that a recursive watch never gets");
    }
    watcher->group[watcher->group_count++] = item;
    return item->end ? end_group(the_case, watcher, item->zxid) : true;
}

/* ---- Differences. ---- */

static bool was_there(const struct history_fact *fact)
{
    return fact && fact->what != HISTORY_DELETE;
}

/* Whether in the state of `op` the change was still the last one of its key. */
static bool shows_last(const struct history_case *the_case, const struct history_op *op,
                       const struct history_fact *fact)
{
    bool shown = op->steps[0].what == HISTORY_LIST && (op->listed & (1U << fact->key)) != 0 &&
                 history_at(the_case, fact->key, op->zxid) == fact;

    for (uint32_t i = 0; i < op->count && !shown; i++) {
        const struct history_step *step = &op->steps[i];

        shown = step->key == fact->key && step->has_seen && step->seen.present &&
                step->seen.mzxid == fact->zxid;
    }
    return shown;
}

/* Whether a client saw, in the state of `upto` or a later one, that the key still existed. */
static bool outlived(const struct history_case *the_case, const struct history_fact *fact,
                     zxid_t upto)
{
    const struct history_fact *next = fact + 1;
    bool shown = next < the_case->facts + the_case->fact_count && next->key == fact->key &&
                 next->what == HISTORY_SET && next->czxid != 0 && next->czxid == fact->czxid;

    for (size_t i = 0; i < the_case->use_count && !shown; i++) {
        const struct history_op *op = the_case->uses[i].op;

        shown = op->outcome == HISTORY_OK && op->zxid >= upto && shows_last(the_case, op, fact);
    }
    return shown;
}

/* Whether a write of unknown outcome may have deleted the key after its last known change: the
 * difference then says that the root's children have changed. */
static bool may_be_deleted(const struct history_case *the_case, const struct watcher *watcher,
                           const struct history_fact *last)
{
    zxid_t upto = watcher->diff_upto;

    return (watcher->diff_seen[HISTORY_ROOT] & (1U << HISTORY_CHANGED)) != 0 &&
           history_hidden(the_case, last->key, HISTORY_DELETE, last->zxid, upto + 1) > 0 &&
           !outlived(the_case, last, upto);
}

/* What a difference must contain for one key. */
static bool check_key_diff(struct history_case *the_case, struct watcher *watcher, uint32_t key)
{
    const struct history_fact *before = history_at(the_case, key, watcher->diff_since);
    const struct history_fact *after = history_at(the_case, key, watcher->diff_upto);
    uint32_t seen = watcher->diff_seen[key];
    uint32_t want = 0;

    if (!after || after->zxid <= watcher->diff_since) {
        return true;
    }
    if (was_there(after)) {
        want =
            (1U << HISTORY_CREATE) | (after->czxid > watcher->diff_since ? 0 : 1U << HISTORY_SET);
        return (seen & want) != 0 || may_be_deleted(the_case, watcher, after) ||
               complain(the_case, watcher, after->zxid, "a difference lacks a write");
    }
    /* The only other trace of a deletion is the parent's children. */
    want = 1U << HISTORY_CHANGED;
    return !was_there(before) || (watcher->diff_seen[HISTORY_ROOT] & want) != 0 ||
           complain(the_case, watcher, after->zxid, "a difference lacks a deletion");
}

static bool end_diff(struct history_case *the_case, struct watcher *watcher)
{
    watcher->in_diff = false;
    if (!the_case->spans_noted) {
        the_case->report->diffs++;
        return true;
    }
    for (uint32_t key = 0; key < HISTORY_KEYS; key++) {
        if (!check_key_diff(the_case, watcher, key)) {
            return false;
        }
    }
    return true;
}

static void begin_diff(struct history_case *the_case, struct watcher *watcher, zxid_t since,
                       zxid_t upto)
{
    jump(the_case, watcher, upto);
    watcher->in_diff = true;
    watcher->diff_ended = false;
    watcher->diff_since = since;
    watcher->diff_upto = upto;
    memset(watcher->diff_seen, 0, sizeof(watcher->diff_seen));
}

static bool take_diff(struct history_case *the_case, struct watcher *watcher,
                      const struct history_item *item)
{
    /* On a connection that stays open, nothing says beforehand up to which zxid the difference
     * reaches. But each change leaves its zxid at its key or at the root: the difference reaches up
     * to the newest zxid in its events. */
    zxid_t seen = item->has_seen && item->seen.mzxid > item->zxid ? item->seen.mzxid : item->zxid;

    if (!watcher->in_diff) {
        begin_diff(the_case, watcher, watcher->at, seen);
    }
    if (seen > watcher->diff_upto) {
        watcher->diff_upto = seen;
        watcher->at = seen;
        watcher->span_from = seen;
    }
    if (item->key != HISTORY_ROOT && !history_at(the_case, item->key, UINT64_MAX)) {
        return complain(the_case, watcher, item->zxid, "a difference names a key without a change");
    }
    watcher->diff_ended = watcher->diff_ended || item->end;
    watcher->diff_seen[item->key] |= 1U << item->what;
    return true;
}

/* ---- Items one after another. ---- */

static bool take_event(struct history_case *the_case, struct watcher *watcher,
                       const struct history_item *item)
{
    if (!watcher->started) {
        return complain(the_case, watcher, item->zxid, "an event before the watch began");
    }
    if (item->diff) {
        return take_diff(the_case, watcher, item);
    }
    if (watcher->in_diff && !end_diff(the_case, watcher)) {
        return false;
    }
    return take_exact(the_case, watcher, item);
}

static bool take_bookmark(struct history_case *the_case, struct watcher *watcher,
                          const struct history_item *item)
{
    if (!watcher->started) {
        return true;
    }
    if (watcher->group_count > 0) {
        return complain(the_case, watcher, item->zxid, "an item came before a zxid was complete");
    }
    if (watcher->in_diff && !end_diff(the_case, watcher)) {
        return false;
    }
    return pass_quiet(the_case, watcher, item->zxid);
}

static bool take_resumed(struct history_case *the_case, struct watcher *watcher,
                         const struct history_item *item)
{
    if (item->since > watcher->at) {
        return complain(the_case, watcher, item->since,
                        "it resumed from a zxid that it had not reached");
    }
    if (item->kind == HISTORY_DIFFED) {
        begin_diff(the_case, watcher, item->since, item->zxid);
    } else if (item->since < watcher->at) {
        jump(the_case, watcher, item->since);
    }
    return true;
}

/* A difference that was cut off is sent again from its beginning. */
static bool take_lost(struct history_case *the_case, struct watcher *watcher)
{
    watcher->group_count = 0;
    if (watcher->in_diff && watcher->diff_ended) {
        return end_diff(the_case, watcher);
    }
    if (watcher->in_diff) {
        watcher->in_diff = false;
        watcher->at = watcher->diff_since;
        watcher->span_from = watcher->diff_since;
    }
    return true;
}

static bool take(struct history_case *the_case, struct watcher *watcher,
                 const struct history_item *item)
{
    switch (item->kind) {
    case HISTORY_STARTED:
        jump(the_case, watcher, item->zxid);
        watcher->started = true;
        return true;
    case HISTORY_REPLAYED:
    case HISTORY_DIFFED:
        return take_resumed(the_case, watcher, item);
    case HISTORY_GAP:
        the_case->report->gaps += the_case->spans_noted ? 0 : 1;
        watcher->group_count = 0;
        watcher->in_diff = false;
        jump(the_case, watcher, item->zxid);
        return true;
    case HISTORY_EVENT:
        return take_event(the_case, watcher, item);
    case HISTORY_BOOKMARK:
        return take_bookmark(the_case, watcher, item);
    case HISTORY_LOST:
        return take_lost(the_case, watcher);
    case HISTORY_OVERRUN:
        watcher->group_count = 0;
        if (item->since < watcher->at) {
            jump(the_case, watcher, item->since);
        }
        return true;
    }
    UNREACHABLE();
}

static bool check_logs(struct history_case *the_case)
{
    for (size_t i = 0; i < the_case->log_count; i++) {
        struct watcher watcher = {.log = the_case->logs[i]};

        for (size_t k = 0; k < watcher.log->item_count; k++) {
            if (!take(the_case, &watcher, &watcher.log->items[k])) {
                return false;
            }
        }
        if (watcher.in_diff && !end_diff(the_case, &watcher)) {
            return false;
        }
        close_span(the_case, &watcher);
    }
    return true;
}

/* A difference is checked against the changes that other watchers received one by one. */
bool history_check_watches(struct history_case *the_case)
{
    bool sound = check_logs(the_case);

    the_case->spans_noted = true;
    return sound && check_logs(the_case);
}
