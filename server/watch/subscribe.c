#include "base/probe.h"
#include "server/watch/subscribe_int.h"

enum {
    PUMP_SETS = 64 /* Sets that are read from the window at a time. */
};

const char *subscribe_resumed_name(enum subscribe_resumed resumed)
{
    static const char *const names[] = {
        [SUBSCRIBE_FRESH] = "fresh",
        [SUBSCRIBE_REPLAYED] = "replayed",
        [SUBSCRIBE_DIFFED] = "diffed",
        [SUBSCRIBE_GAP] = "gap",
    };

    ASSERT(resumed <= SUBSCRIBE_GAP);
    return names[resumed];
}

struct subscriber *subscriber_new(struct view *view, struct window *window,
                                  const struct subscribe_sink *sink)
{
    struct subscriber *subscriber = mem_zalloc(1, sizeof(*subscriber));

    ASSERT(sink->on_event != NULL && sink->on_lost != NULL);
    subscriber->view = view;
    subscriber->window = window;
    subscriber->sink = *sink;
    subscriber->slice_nodes = VIEW_NODES_MAX;
    subscriber->table = watch_table_new(sink->on_event, sink->ctx);
    window_end(window, &subscriber->at);
    return subscriber;
}

void subscriber_free(struct subscriber *subscriber)
{
    if (subscriber == NULL) {
        return;
    }
    watch_table_free(subscriber->table);
    mem_free(subscriber);
}

struct watch_table *subscribe_table(struct subscriber *subscriber)
{
    return subscriber->table;
}

zxid_t subscribe_at(const struct subscriber *subscriber)
{
    return subscriber->at.zxid;
}

/* ---- The pump. ---- */

/* Moves to the end of the window and reports a loss, because the changes up to there cannot be
 * delivered one by one. If an older state has replaced the former one, the window ends before the
 * old position. Changes up to the old position were delivered already, so watches ignore them when
 * the window reaches them again. */
static void lose(struct subscriber *subscriber)
{
    zxid_t from = subscriber->at.zxid;

    PROBE("subscribe.lost");
    window_end(subscriber->window, &subscriber->at);
    if (from > subscriber->at.zxid) {
        watch_table_raise(subscriber->table, from);
    }
    if (!MUTANT(28)) {
        subscriber->sink.on_lost(subscriber->sink.ctx, from);
    }
}

static void tell_set(struct subscriber *subscriber, const struct change_set *set,
                     const struct set_acls *acls)
{
    const struct subscribe_sink *sink = &subscriber->sink;

    ASSERT(set->zxid > subscriber->at.zxid);
    subscriber->telling = true;
    for (uint32_t i = 0; i < set->count && sink->on_change != NULL; i++) {
        sink->on_change(sink->ctx, set->zxid, &set->items[i]);
    }
    watch_fire(subscriber->table, set, acls);
    subscriber->telling = false;
    subscriber->at.zxid = set->zxid;
}

/* Delivers one set with the newest ACLs. The ACLs are looked up as late as possible, because an ACL
 * may have changed since the set was read. */
static enum err try_tell_set(struct subscriber *subscriber, const struct change_set *set)
{
    struct set_acls *acls = NULL;
    enum err err = window_acls(subscriber->window, subscriber->at.restarts, set, &acls);

    if (err == ERR_OK) {
        tell_set(subscriber, set, acls);
    }
    set_acls_free(acls);
    return err;
}

/* Delivers the sets up to `until` and drops all references. ERR_MISSING: the sets from `*ret_told`
 * on are not in the window any more. */
static enum err tell_sets(struct subscriber *subscriber, struct change_set *const *take_sets,
                          size_t count, zxid_t until, size_t *ret_told)
{
    size_t told = 0;
    enum err err = ERR_OK;

    while (err == ERR_OK && told < count && take_sets[told]->zxid <= until) {
        err = try_tell_set(subscriber, take_sets[told]);
        told += err == ERR_OK ? 1 : 0;
    }
    for (size_t i = 0; i < count; i++) {
        change_set_unref(take_sets[i]);
    }
    *ret_told = told;
    return err;
}

/* Delivers at most `max` sets; returns false when there are no more. */
static bool pump_some(struct subscriber *subscriber, zxid_t until, size_t max)
{
    struct change_set *sets[PUMP_SETS];
    size_t count;
    size_t told = 0;
    zxid_t last;

    ASSERT(max <= PUMP_SETS);
    enum err err = window_read(subscriber->window, &subscriber->at, sets, max, &count, &last);

    if (err == ERR_OK) {
        err = tell_sets(subscriber, sets, count, until, &told);
    }
    if (err == ERR_MISSING) {
        lose(subscriber);
    }
    if (err != ERR_OK) {
        return false;
    }
    /* No set lies between the last delivered one and `end`, so all changes up to `end` are
     * delivered. */
    zxid_t end = told < count || last > until ? until : last;

    subscriber->at.zxid = max_u64(subscriber->at.zxid, end);
    return told == count && count == max;
}

zxid_t subscribe_pump(struct subscriber *subscriber, zxid_t until, size_t sets_max)
{
    bool more = true;

    ASSERT(!subscriber->telling);
    while (more && sets_max > 0) {
        size_t max = min_size(sets_max, PUMP_SETS);

        more = pump_some(subscriber, until, max);
        sets_max -= max;
    }
    return subscriber->at.zxid;
}

/* ---- Adding. ---- */

/* Gets history and applied zxid of the present state. */
static enum err look(const struct subscriber *subscriber, uint64_t *ret_history,
                     zxid_t *ret_applied)
{
    const struct state *state = view_read(subscriber->view);

    if (state == NULL) {
        return ERR_NOT_READY;
    }
    *ret_history = state_history(state);
    *ret_applied = state_applied(state);
    view_read_done(subscriber->view);
    return ERR_OK;
}

static enum err check_since(const struct subscriber *subscriber,
                            const struct subscribe_request *request)
{
    bool ahead = request->has_since && request->since > subscriber->at.zxid && !MUTANT(27);
    uint64_t history;
    zxid_t applied;

    if (!request->has_history && !ahead) {
        return ERR_OK;
    }
    enum err err = look(subscriber, &history, &applied);

    if (err == ERR_OK && request->has_history && request->since_history != history) {
        return ERR_HISTORY_CHANGED;
    }
    return err == ERR_OK && ahead && request->since > applied ? ERR_REPLICA_BEHIND : err;
}

/* Delivers all changes up to `upto` to all watches, because the watch that is to be added begins
 * there. If changes are lost meanwhile, the added watch gets a gap, because changes after the
 * gathered ones are missing. */
static void reach(struct subscriber *subscriber, struct missed *missed)
{
    uint64_t restarts = subscriber->at.restarts;

    if (missed->upto > subscriber->at.zxid) {
        subscribe_pump(subscriber, missed->upto, SIZE_MAX);
    }
    if (restarts != subscriber->at.restarts || missed->upto < subscriber->at.zxid) {
        missed_give_up(missed, subscriber->at.zxid);
    }
}

/* Moves the start of the watch to the end of the missed changes and delivers these changes. */
static void tell_missed(struct subscriber *subscriber, struct watch *watch,
                        const struct missed *missed, struct subscribe_result *ret_result)
{
    *ret_result = (struct subscribe_result){
        .id = watch->id, .resumed = missed->resumed, .zxid = missed->upto};
    watch->start = max_u64(watch->start, missed->upto);
    watch->begin = min_u64(watch->begin, missed->since);
    if (missed->resumed == SUBSCRIBE_DIFFED) {
        watch->diff_since = missed->since;
        watch->diff_upto = missed->upto;
    }
    subscriber->telling = true;
    ret_result->used_up = missed_tell(subscriber, watch, missed);
    subscriber->telling = false;
    if (ret_result->used_up) {
        watch_remove(subscriber->table, watch);
    }
}

static enum err add(struct subscriber *subscriber, struct watch_owner *owner,
                    const struct subscribe_request *request, struct missed *missed,
                    struct subscribe_result *ret_result)
{
    reach(subscriber, missed);
    struct watch *watch =
        watch_add(subscriber->table, owner, request->kind, request->path, missed->upto);

    if (watch == NULL) {
        return ERR_THROTTLED;
    }
    watch->values = request->values;
    watch->format = (uint8_t)request->format;
    if (missed->resumed == SUBSCRIBE_FRESH) {
        *ret_result = (struct subscribe_result){.id = watch->id, .zxid = missed->upto};
        return ERR_OK;
    }
    /* A hold ends here: the client has all changes up to `since`, and gets the missed ones now. */
    watch->held = false;
    tell_missed(subscriber, watch, missed, ret_result);
    return ERR_OK;
}

/* Adds a watch that begins at `since`. The changes between `since` and the present position are
 * delivered at once. */
static enum err add_since(struct subscriber *subscriber, struct watch_owner *owner,
                          const struct subscribe_request *request,
                          struct subscribe_result *ret_result)
{
    const struct missed_by by = {
        .owner = owner, .kind = request->kind, .path = request->path, .since = request->since};
    struct missed missed;

    if (!watch_may_add(subscriber->table, owner, request->kind, request->path)) {
        return ERR_THROTTLED;
    }
    missed_init(&missed, SUBSCRIBE_REPLAYED, request->since);
    enum err err = missed_gather(subscriber, &by, &missed);

    if (err == ERR_OK) {
        err = add(subscriber, owner, request, &missed, ret_result);
    }
    missed_release(&missed);
    return err;
}

static enum err add_fresh(struct subscriber *subscriber, struct watch_owner *owner,
                          const struct subscribe_request *request, zxid_t zxid,
                          struct subscribe_result *ret_result)
{
    struct missed none;

    missed_init(&none, SUBSCRIBE_FRESH, zxid);
    enum err err = add(subscriber, owner, request, &none, ret_result);

    missed_release(&none);
    return err;
}

enum err subscribe_add(struct subscriber *subscriber, struct watch_owner *owner,
                       const struct subscribe_request *request, struct subscribe_result *ret_result)
{
    subscribe_pump(subscriber, ZXID_MAX, SIZE_MAX);
    enum err err = check_since(subscriber, request);

    if (err != ERR_OK) {
        return err;
    }
    if (!request->has_since || (MUTANT(27) && request->since > subscriber->at.zxid)) {
        return add_fresh(subscriber, owner, request, subscriber->at.zxid, ret_result);
    }
    return add_since(subscriber, owner, request, ret_result);
}

enum err subscribe_add_at(struct subscriber *subscriber, struct watch_owner *owner,
                          const struct subscribe_request *request,
                          struct subscribe_result *ret_result)
{
    zxid_t at = subscribe_pump(subscriber, request->since, SIZE_MAX);

    if (at <= request->since) {
        return add_fresh(subscriber, owner, request, request->since, ret_result);
    }
    return add_since(subscriber, owner, request, ret_result);
}

/* ---- Catching up. ---- */

/* Gives up when `from` is beyond the applied zxid: then an older state has replaced the former one,
 * and this state may lack changes that were delivered. A `from` between the position of this
 * subscriber and the applied zxid is valid: a difference has delivered changes up to there. */
static enum err check_from(const struct subscriber *subscriber, zxid_t from, struct missed *missed)
{
    uint64_t history;
    zxid_t applied;

    if (from <= subscriber->at.zxid) {
        return ERR_OK;
    }
    enum err err = look(subscriber, &history, &applied);

    if (err == ERR_OK && from > applied) {
        missed_give_up(missed, subscriber->at.zxid);
    }
    return err;
}

/* Returns the zxid after which changes must be delivered to the watch: `from`, but at least
 * `start`, because changes up to `start` do not concern the watch. For a held watch it is at least
 * `begin` instead, because the watch may have got events up to `start` that its owner has not
 * passed on. A difference is repeated as a whole, because a client cannot resume within it. */
static zxid_t since_of(const struct watch *watch, zxid_t from)
{
    zxid_t least = watch->held ? watch->begin : watch->start;
    zxid_t since = max_u64(from, least);

    return since < watch->diff_upto && since > watch->diff_since ? watch->diff_since : since;
}

static enum err gather_from(const struct subscriber *subscriber, const struct watch *watch,
                            zxid_t from, struct missed *missed)
{
    const struct missed_by by = {.owner = watch->owner,
                                 .kind = watch->kind,
                                 .path = watch_path(watch),
                                 .since = since_of(watch, from)};
    enum err err = MUTANT(28) ? ERR_OK : check_from(subscriber, from, missed);

    if (MUTANT(28) || err != ERR_OK || missed->resumed == SUBSCRIBE_GAP) {
        return err;
    }
    return missed_gather(subscriber, &by, missed);
}

enum err subscribe_catch_up(struct subscriber *subscriber, struct watch *watch, zxid_t from,
                            struct subscribe_result *ret_result)
{
    struct missed missed;

    ASSERT(!subscriber->telling);
    missed_init(&missed, SUBSCRIBE_REPLAYED, subscriber->at.zxid);
    enum err err = gather_from(subscriber, watch, from, &missed);

    if (err == ERR_OK) {
        watch->held = false;
        tell_missed(subscriber, watch, &missed, ret_result);
    } else {
        watch_hold(watch);
    }
    missed_release(&missed);
    return err;
}
