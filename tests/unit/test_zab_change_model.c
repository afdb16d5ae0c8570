/* Random changes of the members against a simple model: what is accepted, and what comes of it. */
#include "base/rng.h"
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

#include <stdio.h>

enum {
    IDS = 70, /* More than there may be members. */
    ITEMS_MAX = 12,
    CHANGES = 150, /* The model of the disk has room for so many records. */
    RUNS = 12,
    HOSTS = 1000,
    NAME_MAX_LEN = 16
};

struct entry {
    bool is_in;
    uint32_t host;
    uint32_t zone; /* 0: none. */
};

struct model {
    struct entry entries[IDS + 1];
};

/* One change, with the memory of its names. */
struct proposal {
    struct zab_change_item items[ITEMS_MAX];
    uint32_t hosts[ITEMS_MAX];
    uint32_t zones[ITEMS_MAX];
    char names[ITEMS_MAX][2][NAME_MAX_LEN];
    uint32_t count;
};

static struct slice name_of(char name[NAME_MAX_LEN], const char *kind, uint32_t number)
{
    (void)snprintf(name, NAME_MAX_LEN, "%s%u", kind, number);
    return slice_str(name);
}

static void draw(struct rng *rng, const struct model *model, struct proposal *ret)
{
    /* One in eight changes has many items, so that the list becomes full. */
    ret->count = 1 + (uint32_t)rng_below(rng, rng_below(rng, 8) == 0 ? ITEMS_MAX : 2);
    for (uint32_t i = 0; i < ret->count; i++) {
        struct zab_change_item *item = &ret->items[i];
        uint32_t id = 1 + (uint32_t)rng_below(rng, IDS);
        bool is_in = model->entries[id].is_in;

        /* Three in four items fit the member. */
        *item = (struct zab_change_item){.id = id, .what = ZAB_CHANGE_ADD};
        if (is_in ? rng_below(rng, 8) > 0 : rng_below(rng, 12) == 0) {
            item->what = rng_below(rng, 6) == 0 ? ZAB_CHANGE_REMOVE : ZAB_CHANGE_EDIT;
        }
        ret->hosts[i] = 1 + (uint32_t)rng_below(rng, HOSTS);
        ret->zones[i] = (uint32_t)rng_below(rng, 4);
        item->texts.host = name_of(ret->names[i][0], "zk", ret->hosts[i]);
        item->texts.port = 10998;
        item->sets_address = rng_below(rng, 2) == 0;
        item->sets_zone = rng_below(rng, 2) == 0;
        if (ret->zones[i] > 0) {
            item->texts.zone = name_of(ret->names[i][1], "z", ret->zones[i]);
        }
    }
}

static bool apply_one(struct model *model, const struct proposal *proposal, uint32_t at)
{
    const struct zab_change_item *item = &proposal->items[at];
    struct entry *entry = &model->entries[item->id];

    for (uint32_t i = 0; i < at; i++) {
        if (proposal->items[i].id == item->id) {
            return false;
        }
    }
    if (item->what == ZAB_CHANGE_REMOVE) {
        bool may_go = entry->is_in && item->id != 1; /* Replica 1 is the only voter. */

        *entry = (struct entry){0};
        return may_go;
    }
    if (entry->is_in == (item->what == ZAB_CHANGE_ADD)) {
        return false;
    }
    if (item->what == ZAB_CHANGE_ADD || item->sets_address) {
        entry->host = proposal->hosts[at];
    }
    if (item->what == ZAB_CHANGE_ADD || item->sets_zone) {
        entry->zone = proposal->zones[at];
    }
    entry->is_in = true;
    return true;
}

static bool has_twins(const struct model *model)
{
    bool is_used[HOSTS + 1] = {false};

    for (uint32_t id = 1; id <= IDS; id++) {
        uint32_t host = model->entries[id].host;

        if (host != 0 && is_used[host]) {
            return true;
        }
        is_used[host] = true;
    }
    return false;
}

static uint32_t count_members(const struct model *model)
{
    uint32_t count = 0;

    for (uint32_t id = 1; id <= IDS; id++) {
        count += model->entries[id].is_in ? 1 : 0;
    }
    return count;
}

/* Whether the change is valid; if so, makes it. */
static bool apply(struct model *model, const struct proposal *proposal)
{
    struct model next = *model;
    uint32_t count = count_members(model);

    for (uint32_t i = 0; i < proposal->count; i++) {
        count += proposal->items[i].what == ZAB_CHANGE_ADD ? 1 : 0;
        if (!apply_one(&next, proposal, i)) {
            return false;
        }
    }
    if (count > ZAB_MEMBERS_MAX || has_twins(&next)) {
        return false;
    }
    *model = next;
    return true;
}

static void compare(const struct drive *drive, const struct model *model)
{
    const struct zab_config *config = zab_config(drive->zab);
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    struct zab_texts texts;
    char name[NAME_MAX_LEN];

    assert_null(zab_pending(drive->zab));
    assert_int_equal(config->count, count_members(model));
    assert_int_equal(zab_peers(drive->zab, peers, ZAB_MEMBERS_MAX), config->count - 1);
    for (uint32_t i = 0; i < config->count; i++) {
        const struct entry *entry = &model->entries[config->members[i].id];

        assert_true(entry->is_in);
        assert_true(i == 0 || peers[i - 1].id == config->members[i].id);
        assert_int_equal(config->members[i].voter, config->members[i].id == 1);
        assert_true(zab_config_texts(zab_config_bytes(drive->zab), config->members[i].id, &texts));
        assert_true(entry->host == 0 ? texts.host.len == 0
                                     : slice_eq(texts.host, name_of(name, "zk", entry->host)));
        assert_true(entry->zone == 0 ? texts.zone.len == 0
                                     : slice_eq(texts.zone, name_of(name, "z", entry->zone)));
    }
}

static uint32_t run(uint64_t seed, uint32_t *inout_most)
{
    struct rng rng;
    struct drive drive;
    struct zab_effects effects;
    struct zab_change_report report;
    struct proposal proposal;
    struct model model = {.entries[1].is_in = true};
    uint32_t accepted = 0;

    rng_init(&rng, seed);
    drive_init(&drive, 1, 1);
    drive.init.level_max = 2;
    drive.init.config.level = 2;
    drive_start(&drive);
    drive_lead(&drive);
    for (uint32_t i = 0; i < CHANGES; i++) {
        draw(&rng, &model, &proposal);
        struct zab_change change = {.items = proposal.items,
                                    .item_count = proposal.count,
                                    .min_tolerance = ZAB_TOLERANCE_DEFAULT};

        zab_effects_init(&effects);
        enum zab_fault fault =
            zab_change(drive.zab, &change, slice_make(NULL, 0), &report, &effects);
        bool is_valid = apply(&model, &proposal);

        assert_int_equal(fault == ZAB_FAULT_NONE, is_valid);
        assert_int_equal(report.version != 0, is_valid);
        drive_take(&drive, &effects);
        zab_effects_release(&effects);
        drive_persist(&drive);
        compare(&drive, &model);
        accepted += is_valid ? 1 : 0;
        if (count_members(&model) > *inout_most) {
            *inout_most = count_members(&model);
        }
        drive_clear(&drive);
    }
    drive_release(&drive);
    return accepted;
}

TEST(random_changes_agree_with_a_simple_model)
{
    uint32_t accepted = 0;
    uint32_t most = 0;

    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        accepted += run(seed, &most);
    }
    assert_true(accepted > RUNS * CHANGES / 10);
    assert_true(accepted < RUNS * CHANGES * 9 / 10);
    assert_int_equal(most, ZAB_MEMBERS_MAX);
}
