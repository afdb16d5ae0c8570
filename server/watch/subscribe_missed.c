/* Gathers and delivers changes that a watch has missed: from the window if it reaches back to
 * `since`, else from the tree. */
#include "base/probe.h"
#include "server/watch/subscribe_int.h"

enum {
    REPLAY_SETS = 256 /* Sets that are read from the window at a time. */
};

void missed_init(struct missed *missed, enum subscribe_resumed resumed, zxid_t upto)
{
    *missed = (struct missed){.resumed = resumed, .since = upto, .upto = upto};
    buf_init(&missed->paths, SUBSCRIBE_DIFF_BYTES_MAX);
}

static void drop_sets(struct missed *missed)
{
    while (missed->set_count > 0) {
        struct missed_set *last = &missed->sets[--missed->set_count];

        change_set_unref(last->set);
        set_acls_free(last->acls);
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
    drop_sets(missed);
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
    drop_sets(missed);
    drop_events(missed);
}

/* ---- Replay. ---- */

static void add_set(struct missed *missed, struct change_set *take_set)
{
    MEM_GROW(missed->sets, missed->set_count, missed->set_cap, MEM_ITEMS_MAX);
    missed->sets[missed->set_count++] = (struct missed_set){.set = take_set};
}

/* Finds the sets between `since` and the subscriber's position that concern the watch, and takes
 * references. ERR_MISSING when the window does not hold all of these sets. */
static enum err find_sets(const struct subscriber *subscriber, const struct missed_by *by,
                          struct missed *missed)
{
    struct window_search search = {.path = by->path,
                                   .below = by->kind == WATCH_RECURSIVE,
                                   .after = by->since,
                                   .upto = subscriber->at.zxid,
                                   .life = subscriber->at.restarts};
    struct change_set *found[REPLAY_SETS];
    enum err err = ERR_OK;
    size_t count;

    while (err == ERR_OK && !search.done) {
        err = window_search(subscriber->window, &search, found, REPLAY_SETS, &count);
        for (size_t i = 0; i < count; i++) {
            add_set(missed, found[i]);
        }
    }
    missed->looked = search.looked;
    return err;
}

static enum err replay_gather(const struct subscriber *subscriber, const struct missed_by *by,
                              struct missed *missed)
{
    enum err err = find_sets(subscriber, by, missed);

    /* The newest ACLs hide a znode whose ACL has become stricter since the change. */
    for (size_t i = 0; i < missed->set_count && err == ERR_OK; i++) {
        err = window_acls(subscriber->window, subscriber->at.restarts, missed->sets[i].set,
                          &missed->sets[i].acls);
    }
    if (err != ERR_OK) {
        drop_sets(missed);
    }
    return err;
}

enum err missed_gather(const struct subscriber *subscriber, const struct missed_by *by,
                       struct missed *missed)
{
    zxid_t at = subscriber->at.zxid;

    ASSERT(missed->set_count == 0 && missed->event_count == 0);
    missed->resumed = SUBSCRIBE_REPLAYED;
    missed->since = by->since;
    missed->upto = max_u64(by->since, at);
    if (by->since >= at) {
        return ERR_OK;
    }
    enum err err = replay_gather(subscriber, by, missed);

    if (err != ERR_MISSING) {
        PROBE("subscribe.replayed");
        return err;
    }
    PROBE("subscribe.diffed");
    err = diff_gather(subscriber, by, missed);
    if (err == ERR_TOO_LARGE) {
        missed_give_up(missed, at);
        err = ERR_OK;
    }
    return err;
}

/* ---- Delivery. ---- */

static bool tell_sets(struct subscriber *subscriber, struct watch *watch,
                      const struct missed *missed)
{
    bool used_up = false;

    for (size_t i = missed->set_count; i-- > 0 && !used_up && !watch->held;) {
        const struct missed_set *from = &missed->sets[i];

        used_up = watch_fire_one(subscriber->table, watch, from->set, from->acls);
    }
    return used_up;
}

/* Delivers one event of a difference. Only the last one is marked `last`, because a client cannot
 * resume within a difference: one event stands for all changes of a znode's children, but has the
 * zxid of the newest one. A client that resumed just before this zxid would miss earlier ones. */
static void tell_event(struct subscriber *subscriber, struct watch *watch,
                       const struct missed *missed, size_t i)
{
    const struct diff_event *from = &missed->events[i];
    struct state_change change = from->change;
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
