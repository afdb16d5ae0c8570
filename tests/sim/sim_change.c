#include "base/check.h"
#include "tests/sim/sim_ask.h"
#include "tests/sim/sim_member.h"
#include "tests/sim/sim_quorum.h"
#include "tests/sim/sim_seat.h"

#include <inttypes.h>

/*
 * The operation "reconfigure": which changes the client asks for. A simple model makes the wished
 * configuration from the committed one; the plan needs it to keep a majority alive, and the checker
 * compares it with what the leader proposes.
 */

enum {
    MOVE_MAX_MS = 4000, /* A machine changes its address within this time after the request. */
    FIX_US = 10 * SIM_SECOND,  /* ... and gets that of the configuration at last. */
    WISH_US = 30 * SIM_SECOND, /* A request may still be under way so long after it was made. */
    HOLD_PPM = 50000,          /* Requests about the feature level. */
    BLIND_PPM = 200000,        /* Requests without If-Match. */
    SECOND_PPM = 250000,       /* A second request while the first is under way. */
};

static uint64_t below(struct sim *sim, uint64_t bound)
{
    return rng_below(&sim->members.rng, bound);
}

static bool chance(struct sim *sim, uint32_t ppm)
{
    return rng_chance(&sim->members.rng, ppm);
}

/* ---- Choosing. ---- */

typedef bool (*node_pred)(const struct sim *sim, const struct sim_node *node);

static bool is_outside(const struct sim *sim, const struct sim_node *node)
{
    return (node->idle || node->joins) && !sim_member_is(sim, node);
}

static bool is_observer(const struct sim *sim, const struct sim_node *node)
{
    return sim_member_is(sim, node) && !sim_seat_of(sim, node);
}

static bool is_voter(const struct sim *sim, const struct sim_node *node)
{
    return sim_seat_of(sim, node) != NULL;
}

static struct sim_node *choose(struct sim *sim, node_pred pred)
{
    struct sim_node *chosen = NULL;
    uint64_t count = 0;

    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (pred(sim, &sim->nodes[id]) && below(sim, ++count) == 0) {
            chosen = &sim->nodes[id];
        }
    }
    return chosen;
}

/* A voter, the leader in a third of the draws. */
static struct sim_node *choose_voter(struct sim *sim)
{
    struct sim_node *leader = sim_leader(sim);

    return leader && is_voter(sim, leader) && chance(sim, 330000) ? leader : choose(sim, is_voter);
}

static struct zab_change_item *put(struct sim_change *change, enum zab_change_what what,
                                   const struct sim_node *node)
{
    struct zab_change_item *item = &change->items[change->count++];

    ASSERT(change->count <= SIM_ITEMS_MAX);
    *item = (struct zab_change_item){.what = what, .id = node->id};
    return item;
}

static void set_address(struct sim_change *change, uint16_t port)
{
    struct zab_change_item *item = &change->items[change->count - 1];

    item->texts.port = port;
    item->sets_address = true;
}

/* ---- Kinds of changes. ---- */

/* A machine joins with an empty disk; a few with the one that was removed, which must fail. It may
 * be running already, and wait. */
static void draw_add(struct sim *sim, struct sim_change *change)
{
    struct sim_node *node = choose(sim, is_outside);

    if (!node || !sim_member_may_lose(sim, node)) {
        return;
    }
    if (node->idle && node->identity.incarnation != 0 && chance(sim, 900000)) {
        sim_disk_empty(sim, node);
    }
    node->port = node->idle ? sim_member_port(sim, node) : node->port;
    put(change, ZAB_CHANGE_ADD, node)->joining = chance(sim, 300000);
    set_address(change, node->port);
    change->items[0].sets_client = chance(sim, 500000);
    change->items[0].texts.client =
        change->items[0].sets_client ? slice_str("c:1") : slice_make(NULL, 0);
}

static void draw_promote(struct sim *sim, struct sim_change *change)
{
    struct sim_node *node = choose(sim, is_observer);

    if (node) {
        put(change, ZAB_CHANGE_PROMOTE, node);
    }
}

static void draw_demote(struct sim *sim, struct sim_change *change)
{
    struct sim_node *node = choose_voter(sim);

    if (node) {
        put(change, ZAB_CHANGE_DEMOTE, node);
    }
}

static void draw_remove(struct sim *sim, struct sim_change *change)
{
    struct sim_node *node = chance(sim, 500000) ? choose(sim, is_observer) : NULL;

    node = node ? node : choose_voter(sim);
    if (node) {
        put(change, ZAB_CHANGE_REMOVE, node);
    }
}

/* One voter leaves and an observer takes its place, in one record; or more of them. */
static void draw_replace(struct sim *sim, struct sim_change *change)
{
    struct sim_node *out = choose_voter(sim);
    struct sim_node *in = choose(sim, is_observer);
    struct sim_node *more = chance(sim, 300000) ? choose_voter(sim) : NULL;

    if (!out || !in) {
        return;
    }
    put(change, chance(sim, 700000) ? ZAB_CHANGE_REMOVE : ZAB_CHANGE_DEMOTE, out);
    put(change, ZAB_CHANGE_PROMOTE, in);
    if (more && more != out) {
        put(change, ZAB_CHANGE_REMOVE, more);
    }
}

/* Operators: a machine gets the address of the configuration at last. */
static void fix(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->a];
    const struct sim_node *leader = sim_leader(sim);
    struct zab_texts texts;

    if (leader &&
        zab_config_texts(zab_config_bytes(replica_zab(leader->replica)), node->id, &texts) &&
        texts.port != 0) {
        node->port = texts.port;
    }
    if (!leader && !sim->members.is_over) {
        sim_after(sim, FIX_US, fix, "fix", NULL)->a = node->id;
    }
}

static void moved(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->a];

    SIM_TRACE(sim, "machine %u has the port %u now", node->id, (unsigned)event->b);
    node->port = (uint16_t)event->b;
    sim_after(sim, FIX_US, fix, "fix", NULL)->a = node->id;
}

/* The machine gets the new address earlier or later than the configuration. */
static void draw_move(struct sim *sim, struct sim_change *change)
{
    struct sim_node *node = choose(sim, sim_member_is);
    uint16_t port = node ? sim_member_port(sim, node) : 0;
    struct sim_event *event;

    if (!node) {
        return;
    }
    put(change, ZAB_CHANGE_EDIT, node);
    set_address(change, port);
    event = sim_after(sim, below(sim, MOVE_MAX_MS) * SIM_MS, moved, "moved", NULL);
    event->a = node->id;
    event->b = port;
}

static void draw_edit(struct sim *sim, struct sim_change *change)
{
    struct sim_node *node = choose(sim, sim_member_is);
    struct zab_change_item *item = node ? put(change, ZAB_CHANGE_EDIT, node) : NULL;

    if (item && chance(sim, 500000)) {
        item->sets_zone = true;
        item->texts.zone = chance(sim, 500000) ? slice_str("east") : slice_str("west");
    } else if (item) {
        item->sets_client = true;
        item->texts.client = chance(sim, 500000) ? slice_str("c:2") : slice_make(NULL, 0);
    }
}

static void draw(struct sim *sim, struct sim_change *change)
{
    static void (*const kinds[])(struct sim *, struct sim_change *) = {
        draw_add,    draw_add,    draw_promote, draw_promote, draw_promote, draw_demote,
        draw_remove, draw_remove, draw_replace, draw_replace, draw_move,    draw_edit};

    *change = (struct sim_change){.count = 0};
    if (chance(sim, HOLD_PPM)) {
        change->sets_hold = true;
        change->hold = chance(sim, 500000) ? SIM_LEVELS - 1 : 0;
        return;
    }
    kinds[below(sim, sizeof(kinds) / sizeof(kinds[0]))](sim, change);
}

/* ---- The model. ---- */

static void drop(struct zab_config *config, uint32_t at)
{
    config->count--;
    memmove(config->members + at, config->members + at + 1,
            (config->count - at) * sizeof(config->members[0]));
}

static void insert(struct zab_config *config, struct zab_member member)
{
    uint32_t at = config->count++;

    for (; at > 0 && config->members[at - 1].id > member.id; at--) {
        config->members[at] = config->members[at - 1];
    }
    config->members[at] = member;
}

static uint32_t find(const struct zab_config *config, uint32_t id)
{
    uint32_t at = 0;

    while (at < config->count && config->members[at].id != id) {
        at++;
    }
    return at;
}

bool sim_change_make(const struct sim *sim, const struct sim_change *change,
                     struct zab_config *inout)
{
    for (uint32_t i = 0; i < change->count; i++) {
        const struct zab_change_item *item = &change->items[i];
        uint32_t at = find(inout, item->id);

        if ((at < inout->count) != (item->what != ZAB_CHANGE_ADD)) {
            return false;
        }
        if (item->what == ZAB_CHANGE_ADD) {
            insert(inout, (struct zab_member){.id = item->id});
        } else if (item->what == ZAB_CHANGE_REMOVE) {
            drop(inout, at);
        } else if (item->what == ZAB_CHANGE_PROMOTE) {
            inout->members[at].voter = true;
            inout->members[at].incarnation = sim->nodes[item->id].identity.incarnation;
        } else if (item->what == ZAB_CHANGE_DEMOTE) {
            inout->members[at] = (struct zab_member){.id = item->id};
        }
    }
    return true;
}

static void drop_wishes(struct sim *sim)
{
    struct sim_members *members = &sim->members;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < members->wish_count; i++) {
        const struct sim_wish *wish = &members->wishes[i];

        if ((wish->base == 0 || wish->base == sim->config.version) &&
            sim->now_us < wish->until_us && !sim_ask_is_over(sim, wish->ask)) {
            members->wishes[kept++] = *wish;
        }
    }
    members->wish_count = kept;
}

/* ---- Requests. ---- */

static void turn(struct sim *sim, struct sim_event *event)
{
    struct zab_config config = sim->config;
    struct sim_members *members = &sim->members;
    struct sim_change change;

    (void)event;
    if (sim->phase != SIM_SAFETY) {
        return;
    }
    sim_after(sim, rng_range(&members->rng, 1, (uint64_t)sim->knobs.change_ms * 2) * SIM_MS, turn,
              "change", NULL);
    drop_wishes(sim);
    if (members->wish_count == SIM_WISHES_MAX ||
        (members->wish_count > 0 && !chance(sim, SECOND_PPM))) {
        return;
    }
    draw(sim, &change);
    if ((change.count == 0 && !change.sets_hold) || !sim_change_make(sim, &change, &config) ||
        !sim_member_is_safe(sim, &config)) {
        return;
    }
    for (uint32_t i = 0; i < change.count; i++) {
        SIM_TRACE(sim, "change: asks %d for node %u", (int)change.items[i].what,
                  change.items[i].id);
    }
    /* Without If-Match the result is certain only if nothing else is under way. The level has no
     * If-Match. */
    bool is_blind = change.sets_hold || (members->wish_count == 0 && chance(sim, BLIND_PPM));
    zxid_t base = is_blind ? 0 : sim->config.version;

    members->wishes[members->wish_count++] = (struct sim_wish){
        .ask = sim_ask(sim, &change, base),
        .base = base,
        .config = config,
        .until_us = sim->now_us + WISH_US,
    };
}

void sim_change_begin(struct sim *sim)
{
    if (sim->knobs.change_ms > 0) {
        sim_member_begin(sim);
        sim_after(sim, rng_range(&sim->members.rng, 1, sim->knobs.change_ms) * SIM_MS, turn,
                  "change", NULL);
    }
}
