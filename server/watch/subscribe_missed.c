/* What a watch has missed: from the window while that reaches back, else from the tree. */
#include "base/check.h"
#include "base/mem.h"
#include "base/probe.h"
#include "server/watch/subscribe_int.h"

enum {
    REPLAY_SETS = 512 /* Read from the window at a time. */
};

void missed_init(struct missed *missed, enum subscribe_resumed resumed, zxid_t upto)
{
    *missed = (struct missed){.resumed = resumed, .since = upto, .upto = upto};
    buf_init(&missed->paths, SUBSCRIBE_DIFF_BYTES_MAX);
}

static void drop_sets(struct missed *missed, size_t keep)
{
    while (missed->set_count > keep) {
        change_set_unref(missed->sets[--missed->set_count]);
    }
}

static void drop_events(struct missed *missed)
{
    while (missed->event_count > 0) {
        blob_unref(missed->events[--missed->event_count].change.data);
    }
}

void missed_release(struct missed *missed)
{
    drop_sets(missed, 0);
    drop_events(missed);
    buf_release(&missed->paths);
    mem_free(missed->sets);
    mem_free(missed->events);
    *missed = (struct missed){0};
}

void missed_give_up(struct missed *missed, zxid_t upto)
{
    missed->resumed = SUBSCRIBE_GAP;
    missed->upto = upto;
    missed->used_up = false;
    drop_sets(missed, 0);
    drop_events(missed);
}

/* ---- Replay. ---- */

static void reserve_sets(struct missed *missed)
{
    if (missed->set_cap - missed->set_count < REPLAY_SETS) {
        missed->set_cap = 2 * missed->set_cap + REPLAY_SETS;
        missed->sets = mem_realloc(missed->sets, missed->set_cap * sizeof(struct change_set *));
    }
}

/* References to all sets in (since, here]. ERR_MISSING when the window does not hold them all. */
static enum err replay_gather(const struct subscriber *subscriber, zxid_t since,
                              struct missed *missed)
{
    struct window_mark mark = {.zxid = since, .restarts = subscriber->at.restarts};
    enum err err = ERR_OK;

    while (err == ERR_OK && mark.zxid < subscriber->at.zxid) {
        size_t count;

        reserve_sets(missed);
        err = window_read(subscriber->window, &mark, missed->sets + missed->set_count, REPLAY_SETS,
                          &count, &mark.zxid);
        missed->set_count += count;
    }
    size_t keep = missed->set_count;

    while (keep > 0 && missed->sets[keep - 1]->zxid > subscriber->at.zxid) {
        keep--;
    }
    drop_sets(missed, err == ERR_OK ? keep : 0);
    return err;
}

enum err missed_gather(const struct subscriber *subscriber, const struct missed_by *by,
                       struct missed *missed)
{
    zxid_t at = subscriber->at.zxid;

    ASSERT(missed->set_count == 0 && missed->event_count == 0);
    missed->resumed = SUBSCRIBE_REPLAYED;
    missed->since = by->since;
    missed->upto = by->since > at ? by->since : at;
    if (by->since >= at) {
        return ERR_OK;
    }
    if (replay_gather(subscriber, by->since, missed) == ERR_OK) {
        PROBE("subscribe.replayed");
        return ERR_OK;
    }
    PROBE("subscribe.diffed");
    return diff_gather(subscriber, by, missed);
}

/* ---- Telling. ---- */

static bool tell_sets(struct subscriber *subscriber, struct watch *watch,
                      const struct missed *missed)
{
    bool used_up = false;

    for (size_t i = 0; i < missed->set_count && !used_up && !watch->held; i++) {
        used_up = watch_fire_one(subscriber->table, watch, missed->sets[i]);
    }
    return used_up;
}

/* A part of a difference is no place to resume from: a later change of a znode's children hides an
 * earlier one. */
static void tell_event(struct subscriber *subscriber, struct watch *watch,
                       const struct missed *missed, size_t i)
{
    const struct diff_event *from = &missed->events[i];
    struct change change = from->change;
    struct watch_event event = {.type = from->type,
                                .zxid = from->zxid,
                                .last = i + 1 == missed->event_count,
                                .diff = true,
                                .change = &change};

    ASSERT(from->path_at + from->path_len <= missed->paths.len);
    change.path = slice_make(missed->paths.data + from->path_at, from->path_len);
    event.path = change.path;
    if (from->type == WATCH_CHILDREN_CHANGED) {
        event.change = NULL;
    }
    watch_tell(subscriber->table, watch, &event);
}

bool missed_tell(struct subscriber *subscriber, struct watch *watch, const struct missed *missed)
{
    if (missed->resumed == SUBSCRIBE_REPLAYED) {
        return tell_sets(subscriber, watch, missed);
    }
    for (size_t i = 0; i < missed->event_count && !watch->held; i++) {
        tell_event(subscriber, watch, missed, i);
    }
    return missed->used_up && !watch->held;
}
