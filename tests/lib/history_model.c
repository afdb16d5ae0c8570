/* Compares the changes of each key with a naive model of a key, and the reads with the changes. */
#include "base/check.h"
#include "tests/lib/history_int.h"

#include <inttypes.h>

/* A key, as far as it is known. */
struct key {
    bool present;
    zxid_t zxid; /* Of its last change. */
    zxid_t czxid;
    int32_t version; /* -1: unknown. */
};

static bool is_covered(const struct history_case *the_case, zxid_t from, zxid_t to)
{
    for (size_t i = 0; i < the_case->span_count; i++) {
        if (the_case->spans[i].from <= from && the_case->spans[i].to + 1 >= to) {
            return true;
        }
    }
    return false;
}

/* Whether the operation may have ended its session between `from` and `to`. The end may have
 * deleted the key, which may have been an ephemeral of that session. */
static bool may_close(const struct history_use *use, zxid_t from, zxid_t to)
{
    return history_may_close(use->op) && use->floor < to &&
           (use->op->outcome != HISTORY_OK || use->op->zxid > from);
}

uint32_t history_hidden(const struct history_case *the_case, uint32_t key, enum history_what what,
                        zxid_t from, zxid_t to)
{
    uint32_t count = 0;

    if (is_covered(the_case, from, to)) {
        return 0;
    }
    for (size_t i = 0; i < the_case->open_count; i++) {
        const struct history_use *use = the_case->open[i];

        bool moved = use->op->not_after != 0 && use->op->not_after <= from;

        for (uint32_t k = 0; !moved && use->floor < to && k < use->op->count; k++) {
            count += use->op->steps[k].what == what && use->op->steps[k].key == key;
        }
        count += what == HISTORY_DELETE && may_close(use, from, to);
    }
    return count;
}

/* ---- Changes one after another. ---- */

static bool complain_fact(struct history_case *the_case, const struct history_fact *fact,
                          const struct key *key, const char *why)
{
    return history_complain(the_case, "model",
                            "key %u at zxid %" PRIx64 ": %s; before, since %" PRIx64
                            ", it was %s with version %d and czxid %" PRIx64,
                            fact->key, fact->zxid, why, key->zxid,
                            key->present ? "there" : "absent", key->version, key->czxid);
}

static bool play_create(struct history_case *the_case, const struct history_fact *fact,
                        struct key *key)
{
    if (key->present &&
        history_hidden(the_case, fact->key, HISTORY_DELETE, key->zxid, fact->zxid) == 0) {
        return complain_fact(the_case, fact, key, "created while it existed");
    }
    *key = (struct key){.present = true, .zxid = fact->zxid, .czxid = fact->zxid, .version = 0};
    return true;
}

static bool play_set(struct history_case *the_case, const struct history_fact *fact,
                     struct key *key)
{
    bool moved = fact->czxid != 0 && fact->czxid != key->czxid;

    if (!key->present || moved) {
        if (history_hidden(the_case, fact->key, HISTORY_CREATE, key->zxid, fact->zxid) == 0) {
            return complain_fact(the_case, fact, key, "set while absent, or in another lifetime");
        }
    } else if (key->version >= 0 && fact->version >= 0) {
        int32_t missing = fact->version - key->version - 1;

        if (missing < 0 || (uint32_t)missing > history_hidden(the_case, fact->key, HISTORY_SET,
                                                              key->zxid, fact->zxid)) {
            return complain_fact(the_case, fact, key, "the version does not follow");
        }
    }
    *key = (struct key){.present = true,
                        .zxid = fact->zxid,
                        .czxid = fact->czxid ? fact->czxid : key->czxid,
                        .version = fact->version};
    return true;
}

static bool play_delete(struct history_case *the_case, const struct history_fact *fact,
                        struct key *key)
{
    if (!key->present &&
        history_hidden(the_case, fact->key, HISTORY_CREATE, key->zxid, fact->zxid) == 0) {
        return complain_fact(the_case, fact, key, "deleted while absent");
    }
    *key = (struct key){.present = false, .zxid = fact->zxid};
    return true;
}

static bool play(struct history_case *the_case, struct history_fact *fact, struct key *key)
{
    bool sound = false;

    if (fact->what == HISTORY_CREATE) {
        sound = play_create(the_case, fact, key);
    } else if (fact->what == HISTORY_SET) {
        sound = play_set(the_case, fact, key);
    } else {
        ASSERT(fact->what == HISTORY_DELETE);
        sound = play_delete(the_case, fact, key);
    }
    /* Later checks look up this change and need its czxid, if that is known by now. */
    fact->czxid = key->czxid;
    return sound;
}

static bool play_all(struct history_case *the_case)
{
    struct key key = {.present = false};
    uint32_t number = UINT32_MAX;

    for (size_t i = 0; i < the_case->fact_count; i++) {
        struct history_fact *fact = &the_case->facts[i];

        if (fact->key != number) {
            key = (struct key){.present = false};
            number = fact->key;
        }
        if (!play(the_case, fact, &key)) {
            return false;
        }
    }
    return true;
}

/* ---- Reads, and the reasons of refusals. ---- */

struct look {
    const struct history_op *op;
    const struct history_step *step;
    const struct history_fact *fact; /* The last change of the key before `to`, or NULL. */
    zxid_t from;                     /* Its zxid, or 0. */
    zxid_t to;                       /* The state is older than `to`. */
};

static bool is_present(const struct look *look)
{
    return look->fact && look->fact->what != HISTORY_DELETE;
}

static bool may_hide(const struct history_case *the_case, const struct look *look,
                     enum history_what what)
{
    return history_hidden(the_case, look->step->key, what, look->from, look->to) > 0;
}

static bool complain_look(struct history_case *the_case, const struct look *look, const char *why)
{
    return history_complain(the_case, "state",
                            "connection %u: key %u in state %" PRIx64
                            ": %s; the last change known is %s at %" PRIx64 " with version %d",
                            look->op->connection, look->step->key, look->op->zxid, why,
                            is_present(look) ? "a write" : "a delete or none", look->from,
                            look->fact ? look->fact->version : -1);
}

static bool check_seen(struct history_case *the_case, const struct look *look)
{
    const struct history_seen *seen = &look->step->seen;

    if (!seen->present) {
        return !is_present(look) || may_hide(the_case, look, HISTORY_DELETE) ||
               complain_look(the_case, look, "seen as absent");
    }
    /* The observation is itself a known change: it must be the last one. */
    return (look->from == seen->mzxid && is_present(look)) ||
           complain_look(the_case, look, "an older state was seen");
}

/* Checks that a condition held just before the change, or did not hold when it was refused. */
static bool check_version(struct history_case *the_case, const struct look *look, bool must_match)
{
    bool certain = is_present(look) && look->fact->version >= 0 &&
                   !may_hide(the_case, look, HISTORY_SET) &&
                   !may_hide(the_case, look, HISTORY_DELETE);
    bool matches = certain && look->fact->version == look->step->version;

    if (!certain || look->step->version < 0) {
        return true;
    }
    return matches == must_match ||
           complain_look(the_case, look,
                         must_match ? "a condition on another version was met"
                                    : "a condition on this version was refused");
}

static bool check_refusal(struct history_case *the_case, const struct look *look)
{
    if (look->op->outcome == HISTORY_NODE_EXISTS) {
        return is_present(look) || may_hide(the_case, look, HISTORY_CREATE) ||
               complain_look(the_case, look, "refused because it exists");
    }
    if (look->op->outcome == HISTORY_NO_NODE) {
        return !is_present(look) || may_hide(the_case, look, HISTORY_DELETE) ||
               complain_look(the_case, look, "refused because it is absent");
    }
    return check_version(the_case, look, false);
}

static bool check_list(struct history_case *the_case, const struct history_op *op)
{
    for (uint32_t key = 0; key < HISTORY_KEYS; key++) {
        struct history_step step = {.what = HISTORY_LIST, .key = key};
        struct look look = {.op = op, .step = &step, .to = op->zxid + 1};

        look.fact = history_at(the_case, key, op->zxid);
        look.from = look.fact ? look.fact->zxid : 0;

        bool listed = (op->listed & (1U << key)) != 0;
        enum history_what what = listed ? HISTORY_CREATE : HISTORY_DELETE;

        if (listed != is_present(&look) && !may_hide(the_case, &look, what)) {
            return complain_look(the_case, &look, listed ? "listed" : "not listed");
        }
    }
    return true;
}

static bool check_step(struct history_case *the_case, const struct history_op *op, uint32_t number)
{
    const struct history_step *step = &op->steps[number];
    bool before = op->outcome == HISTORY_OK && history_changes(op);
    struct look look = {.op = op, .step = step, .to = op->zxid + (before ? 0 : 1)};

    look.fact = history_at(the_case, step->key, look.to - 1);
    look.from = look.fact ? look.fact->zxid : 0;
    if (op->outcome != HISTORY_OK) {
        return number != op->failed || check_refusal(the_case, &look);
    }
    if (step->what == HISTORY_LIST) {
        return check_list(the_case, op);
    }
    if (step->what == HISTORY_GET) {
        return check_seen(the_case, &look);
    }
    if (step->what == HISTORY_CLOSE) {
        return true;
    }
    return !step->has_version || check_version(the_case, &look, true);
}

bool history_check_model(struct history_case *the_case)
{
    if (!play_all(the_case)) {
        return false;
    }
    for (size_t i = 0; i < the_case->use_count; i++) {
        const struct history_op *op = the_case->uses[i].op;

        for (uint32_t k = 0; k < op->count && history_names_state(op); k++) {
            if (!check_step(the_case, op, k)) {
                return false;
            }
        }
    }
    return true;
}
