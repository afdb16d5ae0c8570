/* The events of a set of changes, in ZooKeeper's order, and the owners that get them. */
#include "base/check.h"
#include "base/probe.h"
#include "server/state/path.h"
#include "server/watch/watch_int.h"

#define KIND(kind) (1U << (kind))

/* For each event, the kinds of watches at its path that get it. If WATCH_RECURSIVE is among
 * them, recursive watches above the path get the event, too. On a deletion ZooKeeper fires the data
 * watches, and then the child watches of other owners only, so each owner gets one event. */
static const uint32_t concerned_kinds[] = {
    [WATCH_CREATED] = KIND(WATCH_EXISTS) | KIND(WATCH_PERSISTENT) | KIND(WATCH_RECURSIVE),
    [WATCH_DELETED] = KIND(WATCH_DATA) | KIND(WATCH_EXISTS) | KIND(WATCH_CHILDREN) |
                      KIND(WATCH_PERSISTENT) | KIND(WATCH_RECURSIVE),
    [WATCH_DATA_CHANGED] =
        KIND(WATCH_DATA) | KIND(WATCH_EXISTS) | KIND(WATCH_PERSISTENT) | KIND(WATCH_RECURSIVE),
    [WATCH_CHILDREN_CHANGED] = KIND(WATCH_CHILDREN) | KIND(WATCH_PERSISTENT),
};

static bool is_concerned(enum watch_event_type type, enum watch_kind kind)
{
    return (concerned_kinds[type] & KIND(kind)) != 0;
}

/* ---- The triggers of a set, one after the other. ---- */

struct trigger {
    enum watch_event_type type;
    struct slice path;
    const struct state_change *change;
    const struct blob *acl;    /* ACL at the time of the change; it must allow the owner to read. */
    const struct blob *newest; /* Newest ACL; it must allow the owner to read as well. */
};

struct cursor {
    uint32_t change;
    bool parent_next; /* The trigger of the parent is next; the trigger at the path is done. */
};

static struct trigger own_trigger(const struct state_change *change, const struct set_acls *acls,
                                  uint32_t i)
{
    enum watch_event_type type = change->type == TXN_CREATE   ? WATCH_CREATED
                                 : change->type == TXN_DELETE ? WATCH_DELETED
                                                              : WATCH_DATA_CHANGED;

    return (struct trigger){.type = type,
                            .path = change->path,
                            .change = change,
                            .acl = change->acl,
                            .newest = acls != NULL ? acls->items[i].own : change->acl};
}

static struct trigger parent_trigger(const struct state_change *change, const struct set_acls *acls,
                                     uint32_t i)
{
    ASSERT(change->type == TXN_CREATE || change->type == TXN_DELETE);

    return (struct trigger){.type = WATCH_CHILDREN_CHANGED,
                            .path = path_parent(change->path),
                            .acl = change->parent_acl,
                            .newest = acls != NULL ? acls->items[i].parent : change->parent_acl};
}

static bool next_trigger(const struct change_set *set, const struct set_acls *acls,
                         struct cursor *cursor, struct trigger *ret_trigger)
{
    while (cursor->change < set->count) {
        uint32_t i = cursor->change;
        const struct state_change *change = &set->items[i];
        bool has_parent = change->type == TXN_CREATE || change->type == TXN_DELETE;

        if (cursor->parent_next) {
            *ret_trigger = parent_trigger(change, acls, i);
            cursor->parent_next = false;
            cursor->change++;
            return true;
        }
        if (has_parent || change->type == TXN_SET) {
            *ret_trigger = own_trigger(change, acls, i);
            cursor->parent_next = has_parent;
            cursor->change += has_parent ? 0 : 1;
            return true;
        }
        cursor->change++;
    }
    return false;
}

/* Whether the owner may read the znode by both ACLs. If the ACL has become stricter after the
 * change, the znode is as secret as a znode that was never open. */
static bool may_read(const struct watch_owner *owner, const struct trigger *trigger)
{
    return watch_may_read(owner, trigger->acl) && (trigger->newest == trigger->acl || MUTANT(33) ||
                                                   watch_may_read(owner, trigger->newest));
}

/* ---- All watches that a trigger may concern. ---- */

/* One set while the table fires its events. */
struct fire {
    struct watch_table *table;
    zxid_t zxid;
    uint64_t first;         /* Serial of the first trigger of the set. */
    uint64_t serial;        /* Serial of the present trigger. */
    struct trigger trigger; /* The present trigger. */
    struct list due;        /* Owners that get the event of the trigger. */
};

typedef void (*visit_fn)(struct fire *fire, struct watch *watch);

static void visit_kind(struct fire *fire, struct watch_place *place, enum watch_kind kind,
                       visit_fn visit)
{
    list_for_each_entry (struct watch, watch, by_place, &place->by_kind[kind]) {
        if (watch->start < fire->zxid && !watch->held) {
            visit(fire, watch);
        }
    }
}

static void visit_at(struct fire *fire, visit_fn visit)
{
    struct watch_place *place = map_get(&fire->table->places, fire->trigger.path);

    if (place == NULL) {
        return;
    }
    for (int kind = WATCH_DATA; kind < WATCH_KINDS; kind++) {
        if (is_concerned(fire->trigger.type, (enum watch_kind)kind)) {
            visit_kind(fire, place, (enum watch_kind)kind, visit);
        }
    }
}

/* Visits recursive watches of the ancestors, the root first. */
static void visit_above(struct fire *fire, visit_fn visit)
{
    const struct watch_table *table = fire->table;
    struct slice path = fire->trigger.path;
    size_t left = table->recursive;
    uint32_t depth = 0;

    for (size_t i = 0; i < path.len && left > 0 && path.len > 1; i++) {
        if (path.data[i] != '/') {
            continue;
        }
        struct slice prefix = slice_make(path.data, i > 0 ? i : 1);

        ASSERT(depth <= STATE_DEPTH_MAX && left >= table->recursive_at[depth]);
        left -= table->recursive_at[depth];
        struct watch_place *place =
            table->recursive_at[depth] > 0 ? map_get(&table->places, prefix) : NULL;

        if (place != NULL) {
            visit_kind(fire, place, WATCH_RECURSIVE, visit);
        }
        depth++;
    }
}

static void visit_all(struct fire *fire, visit_fn visit)
{
    visit_at(fire, visit);
    if (fire->table->recursive > 0 && is_concerned(fire->trigger.type, WATCH_RECURSIVE)) {
        visit_above(fire, visit);
    }
}

/* ---- First pass: the last trigger for each owner. ---- */

static void mark(struct fire *fire, struct watch *watch)
{
    if (watch_is_one_shot(watch->kind)) {
        if (watch->used == fire->first) {
            return;
        }
        watch->used = fire->first;
    }
    if (may_read(watch->owner, &fire->trigger)) {
        watch->owner->last = fire->serial;
    }
}

/* ---- Second pass: events. ---- */

static void collect(struct fire *fire, struct watch *watch)
{
    struct watch_owner *owner = watch->owner;

    if (!may_read(owner, &fire->trigger)) {
        return;
    }
    watch->hit_next = NULL;
    if (owner->stamp == fire->serial) {
        owner->hits_end->hit_next = watch;
    } else {
        owner->stamp = fire->serial;
        owner->hits = watch;
        list_push_back(&fire->due, &owner->due);
    }
    owner->hits_end = watch;
}

static struct watch_event event_of(const struct trigger *trigger, zxid_t zxid, bool last)
{
    return (struct watch_event){.type = trigger->type,
                                .path = trigger->path,
                                .zxid = zxid,
                                .last = last,
                                .change = trigger->change};
}

static void hand_out(struct fire *fire, bool single)
{
    struct watch_table *table = fire->table;

    while (!list_empty(&fire->due)) {
        struct watch_owner *owner = list_first(&fire->due, struct watch_owner, due);
        struct watch_event event =
            event_of(&fire->trigger, fire->zxid, single || owner->last == fire->serial);

        list_remove(&owner->due);
        table->on_event(table->ctx, owner, owner->hits, &event);
    }
}

static void remove_used_kind(struct fire *fire, struct watch_place *place, enum watch_kind kind)
{
    list_for_each_entry_safe (struct watch, watch, next, by_place, &place->by_kind[kind]) {
        if (watch->start < fire->zxid && !watch->held) {
            watch_remove(fire->table, watch);
        }
    }
}

/* Removes the one-shot watches that the trigger uses up, whether their owners may read the event or
 * not. */
static void remove_used(struct fire *fire)
{
    struct watch_place *place = map_get(&fire->table->places, fire->trigger.path);

    if (place == NULL) {
        return;
    }
    watch_place_ref(place);
    for (int kind = WATCH_DATA; kind < WATCH_KINDS; kind++) {
        if (watch_is_one_shot((enum watch_kind)kind) &&
            is_concerned(fire->trigger.type, (enum watch_kind)kind)) {
            remove_used_kind(fire, place, (enum watch_kind)kind);
        }
    }
    watch_place_unref(fire->table, place);
}

static bool is_watched(const struct watch_table *table, const struct trigger *trigger)
{
    const struct watch_place *place = map_get(&table->places, trigger->path);

    for (int kind = WATCH_DATA; place != NULL && kind < WATCH_KINDS; kind++) {
        if (is_concerned(trigger->type, (enum watch_kind)kind) &&
            !list_empty(&place->by_kind[kind])) {
            return true;
        }
    }
    return false;
}

/* Whether no owner can get two events of this set. This is the common case, and it needs no first
 * pass. */
static bool is_single(const struct watch_table *table, const struct change_set *set)
{
    const struct state_change *change = &set->items[0];

    if (set->count != 1 || (change->type != TXN_CREATE && change->type != TXN_DELETE)) {
        return set->count == 1;
    }
    struct trigger parent = parent_trigger(change, NULL, 0);

    return !is_watched(table, &parent);
}

void watch_fire(struct watch_table *table, const struct change_set *set,
                const struct set_acls *acls)
{
    ASSERT(!table->firing);
    if (table->count == 0) {
        return;
    }
    struct fire fire = {
        .table = table, .zxid = set->zxid, .first = table->serial + 1, .serial = table->serial};
    struct cursor cursor = {0};
    bool single = is_single(table, set);

    list_init(&fire.due);
    while (!single && next_trigger(set, acls, &cursor, &fire.trigger)) {
        fire.serial++;
        visit_all(&fire, mark);
    }
    fire.serial = table->serial;
    cursor = (struct cursor){0};
    while (next_trigger(set, acls, &cursor, &fire.trigger)) {
        fire.serial++;
        visit_all(&fire, collect);
        table->firing = true;
        hand_out(&fire, single);
        table->firing = false;
        remove_used(&fire);
    }
    table->serial = fire.serial;
}

/* ---- One watch alone. ---- */

void watch_tell(struct watch_table *table, struct watch *watch, const struct watch_event *event)
{
    ASSERT(!table->firing);

    watch->hit_next = NULL;
    table->firing = true;
    table->on_event(table->ctx, watch->owner, watch, event);
    table->firing = false;
}

static bool matches(const struct watch *watch, const struct trigger *trigger)
{
    if (!is_concerned(trigger->type, watch->kind)) {
        return false;
    }
    if (watch->kind == WATCH_RECURSIVE) {
        return path_is_within(trigger->path, watch_path(watch));
    }
    return slice_eq(trigger->path, watch_path(watch));
}

bool watch_fire_one(struct watch_table *table, struct watch *watch, const struct change_set *set,
                    const struct set_acls *acls)
{
    struct cursor cursor = {0};
    struct trigger trigger;
    struct watch_event pending;
    bool has_pending = false;
    bool used_up = false;

    while (!used_up && !watch->held && next_trigger(set, acls, &cursor, &trigger)) {
        if (!matches(watch, &trigger)) {
            continue;
        }
        used_up = watch_is_one_shot(watch->kind);
        if (!may_read(watch->owner, &trigger)) {
            continue;
        }
        /* An event is delivered when the next event is found. Only then it is known not to be the
         * last one. */
        if (has_pending) {
            watch_tell(table, watch, &pending);
        }
        pending = event_of(&trigger, set->zxid, true);
        pending.last = false;
        has_pending = true;
    }
    if (has_pending && !watch->held) {
        pending.last = true;
        watch_tell(table, watch, &pending);
        used_up = used_up && !watch->held;
    }
    return used_up;
}
