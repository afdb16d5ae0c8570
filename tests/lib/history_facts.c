/* All answers and events as changes of keys: merged, and each change assigned to an operation. */
#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/history_int.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    GROW = 4096
};

static void add(struct history_case *the_case, const struct history_fact *fact)
{
    if (the_case->fact_count == the_case->fact_cap) {
        the_case->fact_cap += GROW;
        the_case->facts =
            mem_realloc(the_case->facts, the_case->fact_cap * sizeof(*the_case->facts));
    }
    the_case->facts[the_case->fact_count++] = *fact;
}

/* Adds what a key that a client saw reveals: its creation, and the write of its value. */
static bool add_seen(struct history_case *the_case, uint32_t key, const struct history_seen *seen)
{
    struct history_fact fact = {.zxid = seen->czxid,
                                .key = key,
                                .what = HISTORY_CREATE,
                                .czxid = seen->czxid,
                                .owner = seen->owner};

    if (!seen->present) {
        return true;
    }
    if ((seen->version == 0) != (seen->czxid == seen->mzxid) || seen->mzxid < seen->czxid) {
        return history_complain(the_case, "model",
                                "key %u: version %d with czxid %" PRIx64 " and mzxid %" PRIx64, key,
                                seen->version, seen->czxid, seen->mzxid);
    }
    if (seen->version == 0) {
        fact.value = seen->value;
        add(the_case, &fact);
        return true;
    }
    add(the_case, &fact);
    fact.what = HISTORY_SET;
    fact.owner = 0;
    fact.zxid = seen->mzxid;
    fact.value = seen->value;
    fact.version = seen->version;
    add(the_case, &fact);
    return true;
}

/* Adds the effect of a step at `zxid`. */
static void add_step(struct history_case *the_case, const struct history_op *op,
                     const struct history_step *step, zxid_t zxid)
{
    bool set = step->what == HISTORY_SET;
    bool seen = step->has_seen;
    struct history_fact fact = {.zxid = zxid,
                                .key = step->key,
                                .what = step->what,
                                .value = step->value,
                                .version = set ? -1 : 0,
                                .czxid = set ? 0 : zxid,
                                .owner = step->ephemeral ? op->session : 0,
                                .op = op};

    if (set && seen) {
        fact.version = step->seen.version;
        fact.czxid = step->seen.czxid;
    }
    if (step->what == HISTORY_DELETE) {
        fact.czxid = 0;
    }
    add(the_case, &fact);
}

static bool add_op(struct history_case *the_case, const struct history_op *op)
{
    bool sound = true;

    for (uint32_t i = 0; i < op->count && op->outcome == HISTORY_OK; i++) {
        const struct history_step *step = &op->steps[i];

        if (history_is_write(step)) {
            if (step->has_seen && step->seen.mzxid != op->zxid) {
                return history_complain(the_case, "one-story",
                                        "a write was answered zxid %" PRIx64
                                        " with a stat of zxid %" PRIx64,
                                        op->zxid, step->seen.mzxid);
            }
            add_step(the_case, op, step, op->zxid);
        } else if (step->has_seen) {
            sound = sound && add_seen(the_case, step->key, &step->seen);
        }
    }
    return sound;
}

static bool add_event(struct history_case *the_case, const struct history_item *item)
{
    struct history_fact fact = {.zxid = item->zxid,
                                .key = item->key,
                                .what = item->what,
                                .version = item->what == HISTORY_SET ? -1 : 0};

    the_case->report->events++;
    if (item->what == HISTORY_CHANGED) {
        return true;
    }
    if (item->has_seen && !add_seen(the_case, item->key, &item->seen)) {
        return false;
    }
    /* The data in a difference may be newer than the change that it comes with. */
    if (!item->diff) {
        fact.czxid = item->what == HISTORY_CREATE ? item->zxid : 0;
        add(the_case, &fact);
    }
    return true;
}

static bool add_all(struct history_case *the_case)
{
    for (size_t i = 0; i < the_case->log_count; i++) {
        const struct history_log *log = the_case->logs[i];

        for (size_t k = 0; k < log->op_count; k++) {
            if (!add_op(the_case, &log->ops[k])) {
                return false;
            }
        }
        for (size_t k = 0; k < log->item_count; k++) {
            if (log->items[k].kind == HISTORY_EVENT && !add_event(the_case, &log->items[k])) {
                return false;
            }
        }
    }
    return true;
}

/* ---- The write of a value. ---- */

static void note_values(struct history_case *the_case)
{
    for (size_t i = 0; i < the_case->use_count; i++) {
        struct history_use *use = &the_case->uses[i];

        for (uint32_t k = 0; k < use->op->count; k++) {
            const struct history_step *step = &use->op->steps[k];

            if (history_is_write(step) && step->value != 0) {
                ASSERT(map_put_u64(&the_case->by_value, step->value, use) == NULL);
            }
        }
    }
}

static bool claim_value(struct history_case *the_case, struct history_fact *fact)
{
    struct history_use *use = map_get_u64(&the_case->by_value, fact->value);

    if (!use) {
        return history_complain(the_case, "unasked", "value %u of key %u was never written",
                                fact->value, fact->key);
    }
    if (use->op->outcome != HISTORY_OK && use->op->outcome != HISTORY_UNKNOWN) {
        return history_complain(the_case, "refused",
                                "value %u of key %u was refused, and exists at %" PRIx64,
                                fact->value, fact->key, fact->zxid);
    }

    zxid_t known = use->op->outcome == HISTORY_OK ? use->op->zxid : use->found;

    if (known != 0 && known != fact->zxid) {
        return history_complain(the_case, "once",
                                "value %u of key %u was written at %" PRIx64 " and at %" PRIx64,
                                fact->value, fact->key, known, fact->zxid);
    }
    use->found = fact->zxid;
    fact->op = use->op;
    return true;
}

static bool claim_values(struct history_case *the_case)
{
    for (size_t i = 0; i < the_case->fact_count; i++) {
        struct history_fact *fact = &the_case->facts[i];

        if (fact->value != 0 && !claim_value(the_case, fact)) {
            return false;
        }
    }
    return true;
}

/* If a client saw a value of a write of unknown outcome, the write has happened: adds all its
 * steps, at the zxid of that value. */
static bool add_found(struct history_case *the_case)
{
    for (size_t i = 0; i < the_case->use_count; i++) {
        const struct history_use *use = &the_case->uses[i];

        if (use->op->outcome != HISTORY_UNKNOWN || use->found == 0) {
            continue;
        }
        if (use->found <= use->floor) {
            return history_complain(the_case, "unasked",
                                    "a write of key %u was found at zxid %" PRIx64
                                    ", and was requested after %" PRIx64,
                                    use->op->steps[0].key, use->found, use->floor);
        }
        if (use->op->not_after != 0 && use->found > use->op->not_after) {
            return history_complain(the_case, "moved",
                                    "a write of key %u was found at zxid %" PRIx64
                                    ", and its session had moved by %" PRIx64,
                                    use->op->steps[0].key, use->found, use->op->not_after);
        }
        the_case->report->found++;
        for (uint32_t k = 0; k < use->op->count; k++) {
            if (history_is_write(&use->op->steps[k])) {
                add_step(the_case, use->op, &use->op->steps[k], use->found);
            }
        }
    }
    return true;
}

/* ---- All reports about one zxid and key agree. ---- */

static int by_key(const void *a, const void *b)
{
    const struct history_fact *left = a;
    const struct history_fact *right = b;

    if (left->key != right->key) {
        return left->key < right->key ? -1 : 1;
    }
    return left->zxid < right->zxid ? -1 : left->zxid > right->zxid;
}

static bool agree(const struct history_fact *a, const struct history_fact *b)
{
    return a->what == b->what && (a->value == b->value || a->value == 0 || b->value == 0) &&
           (a->version == b->version || a->version < 0 || b->version < 0) &&
           (a->czxid == b->czxid || a->czxid == 0 || b->czxid == 0) &&
           (a->owner == b->owner || a->owner == 0 || b->owner == 0);
}

static bool merge_into(struct history_case *the_case, struct history_fact *to,
                       const struct history_fact *from)
{
    if (to->op && from->op && to->op != from->op) {
        return history_complain(the_case, "once", "two writes changed key %u at zxid %" PRIx64,
                                to->key, to->zxid);
    }
    if (!agree(to, from)) {
        return history_complain(the_case, "one-story",
                                "key %u at zxid %" PRIx64
                                ": kinds %d and %d, values %u and %u, versions %d and %d, "
                                "czxids %" PRIx64 " and %" PRIx64,
                                to->key, to->zxid, (int)to->what, (int)from->what, to->value,
                                from->value, to->version, from->version, to->czxid, from->czxid);
    }
    to->value = to->value ? to->value : from->value;
    to->version = to->version >= 0 ? to->version : from->version;
    to->czxid = to->czxid ? to->czxid : from->czxid;
    to->owner = to->owner ? to->owner : from->owner;
    to->op = to->op ? to->op : from->op;
    return true;
}

static bool merge(struct history_case *the_case)
{
    struct history_fact *facts = the_case->facts;
    size_t kept = 0;

    if (the_case->fact_count == 0) {
        return true;
    }
    qsort(facts, the_case->fact_count, sizeof(*facts), by_key);
    for (size_t i = 1; i < the_case->fact_count; i++) {
        if (by_key(&facts[kept], &facts[i]) != 0) {
            facts[++kept] = facts[i];
        } else if (!merge_into(the_case, &facts[kept], &facts[i])) {
            return false;
        }
    }
    the_case->fact_count = kept + 1;
    the_case->report->changes = (uint32_t)the_case->fact_count;
    return true;
}

/* ---- Each change has a request. ---- */

static bool may_have_done(const struct history_use *use, const struct history_fact *fact)
{
    for (uint32_t i = 0; i < use->op->count; i++) {
        const struct history_step *step = &use->op->steps[i];

        if (step->what == fact->what && step->key == fact->key) {
            return use->op->outcome == HISTORY_UNKNOWN && use->floor < fact->zxid &&
                   (use->op->not_after == 0 || use->op->not_after >= fact->zxid);
        }
    }
    return false;
}

/* The end of a session deletes its ephemerals, all at one zxid. */
static bool may_have_closed(struct history_case *the_case, struct history_use *use,
                            const struct history_fact *fact)
{
    const struct history_fact *life = NULL;

    if (!history_may_close(use->op) || fact->what != HISTORY_DELETE || use->floor >= fact->zxid ||
        (use->op->outcome == HISTORY_OK && use->op->zxid < fact->zxid)) {
        return false;
    }
    life = history_life_at(the_case, fact->key, fact->zxid - 1);
    if (!life || life->owner != use->op->session || (use->found && use->found != fact->zxid)) {
        return false;
    }
    use->found = fact->zxid;
    return true;
}

static bool check_asked(struct history_case *the_case, const struct history_fact *fact)
{
    for (size_t i = 0; i < the_case->use_count && !fact->op; i++) {
        if (may_have_done(&the_case->uses[i], fact) ||
            may_have_closed(the_case, &the_case->uses[i], fact)) {
            return true;
        }
    }
    return fact->op ? true
                    : history_complain(the_case, "unasked",
                                       "key %u was changed (%d) at zxid %" PRIx64
                                       " and no client had requested it",
                                       fact->key, (int)fact->what, fact->zxid);
}

static int fact_order(const void *a, const void *b)
{
    const struct history_fact *left = *(struct history_fact *const *)a;
    const struct history_fact *right = *(struct history_fact *const *)b;

    if (left->zxid != right->zxid) {
        return left->zxid < right->zxid ? -1 : 1;
    }
    return left->key < right->key ? -1 : left->key > right->key;
}

/* Sorts the facts by zxid. No two operations may have one zxid, even for different keys. */
static bool order_facts(struct history_case *the_case)
{
    size_t count = the_case->fact_count;

    the_case->by_zxid = mem_zalloc(count + 1, sizeof(struct history_fact *));
    for (size_t i = 0; i < count; i++) {
        the_case->by_zxid[i] = &the_case->facts[i];
    }
    qsort(the_case->by_zxid, count, sizeof(struct history_fact *), fact_order);
    for (size_t i = 1; i < count; i++) {
        const struct history_fact *before = the_case->by_zxid[i - 1];
        const struct history_fact *fact = the_case->by_zxid[i];

        if (before->zxid == fact->zxid && before->op && fact->op && before->op != fact->op) {
            return history_complain(the_case, "once",
                                    "zxid %" PRIx64 " was given to two writes, of keys %u and %u",
                                    fact->zxid, before->key, fact->key);
        }
    }
    return true;
}

static void note_open(struct history_case *the_case)
{
    the_case->open = mem_zalloc(the_case->use_count + 1, sizeof(const struct history_use *));
    for (size_t i = 0; i < the_case->use_count; i++) {
        const struct history_use *use = &the_case->uses[i];

        bool lost = use->op->outcome == HISTORY_UNKNOWN && use->found == 0;

        if (history_may_close(use->op) || (lost && history_changes(use->op))) {
            the_case->open[the_case->open_count++] = use;
        }
    }
}

bool history_gather(struct history_case *the_case)
{
    note_values(the_case);
    if (!add_all(the_case) || !claim_values(the_case) || !add_found(the_case)) {
        return false;
    }
    note_open(the_case);
    if (!merge(the_case) || !order_facts(the_case)) {
        return false;
    }
    for (size_t i = 0; i < the_case->fact_count; i++) {
        if (!check_asked(the_case, &the_case->facts[i])) {
            return false;
        }
    }
    return true;
}

const struct history_fact *history_at(const struct history_case *the_case, uint32_t key,
                                      zxid_t zxid)
{
    size_t low = 0;
    size_t high = the_case->fact_count;

    /* The first one after (key, zxid). */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct history_fact *fact = &the_case->facts[middle];

        if (fact->key < key || (fact->key == key && fact->zxid <= zxid)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && the_case->facts[low - 1].key == key ? &the_case->facts[low - 1] : NULL;
}

const struct history_fact *history_life_at(const struct history_case *the_case, uint32_t key,
                                           zxid_t zxid)
{
    const struct history_fact *fact = history_at(the_case, key, zxid);

    while (fact && fact->what == HISTORY_SET) {
        fact = fact > the_case->facts && fact[-1].key == key ? fact - 1 : NULL;
    }
    return fact && fact->what == HISTORY_CREATE ? fact : NULL;
}
