/*
 * Majorities of a configuration and of the change to the next one, for every choice of voters among
 * seven replicas: the product's answer against a naive count, and each two decisions that must not
 * be taken independently have a disk in common.
 */
#include "tests/lib/draw.h"
#include "tests/lib/unit.h"
#include "zab/zab_int.h"

#include <stdbool.h>

enum {
    MEMBERS = 7,
    SETS = 1 << MEMBERS, /* A set of replicas is a number: bit 0 stands for replica 1. */
    NONE = 0,            /* No configuration is pending. */
    SEEDS = 40,
    DRAWS = 2000,
    ZXIDS = 6,
#ifdef ZABRA_SLOW
    STRIDE = 5, /* Of the pending configurations: a sanitizer makes each call slow. */
#else
    STRIDE = 1,
#endif
};

/* ---- The model. ---- */

/* One configuration: the voters, and the disk of each. */
struct choice {
    uint32_t voters;
    uint64_t disks[MEMBERS];
};

static uint32_t size_of(uint32_t set)
{
    return (uint32_t)__builtin_popcount(set);
}

static bool is_in(uint32_t set, uint32_t i)
{
    return (set >> i & 1) != 0;
}

static bool is_majority(uint32_t voters, uint32_t set)
{
    return 2 * size_of(voters & set) > size_of(voters);
}

/* While a change is pending, both majorities are needed. */
static bool decides(uint32_t voters, uint32_t next, uint32_t set)
{
    return is_majority(voters, set) && (next == NONE || is_majority(next, set));
}

/* The replicas whose disk is the one that the configuration names. */
static uint32_t known_disks(const struct choice *choice, const uint64_t *disks)
{
    uint32_t set = 0;

    for (uint32_t i = 0; i < MEMBERS; i++) {
        set |= choice->disks[i] == disks[i] ? 1U << i : 0;
    }
    return set;
}

/* ---- The product. ---- */

static uint32_t yes; /* The replicas that satisfy the predicate. */

static bool says_yes(const struct zab *zab, const struct peer *peer)
{
    (void)zab;
    return is_in(yes, peer->id - 1);
}

static struct zab *new_replica(void)
{
    struct zab_seed seeds[MEMBERS];
    struct zab_init init = {.id = 1, .incarnation = 1, .seeds = seeds, .seed_count = MEMBERS};

    zab_limits_default(&init.limits);
    init.limits.window_max = 1;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        seeds[i] = (struct zab_seed){.id = i + 1, .voter = true};
    }
    return zab_new(&init);
}

static void set_disks(struct zab *zab, const uint64_t *disks)
{
    zab->incarnation = disks[0];
    for (uint32_t i = 1; i < MEMBERS; i++) {
        peer_find(zab, i + 1)->incarnation = disks[i];
    }
}

static void fill(struct zab_config *config, const struct choice *choice)
{
    *config = (struct zab_config){.count = MEMBERS};
    for (uint32_t i = 0; i < MEMBERS; i++) {
        bool voter = is_in(choice->voters, i);

        config->members[i] = (struct zab_member){
            .id = i + 1, .voter = voter, .incarnation = voter ? choice->disks[i] : 0};
    }
}

/* `next` without voters: no configuration is pending. */
static void bind(struct zab *zab, const struct choice *now, const struct choice *next)
{
    fill(&zab->config.committed, now);
    fill(&zab->config.pending, next);
    zab->config.has_pending = next->voters != NONE;
}

static bool product_decides(const struct zab *zab, uint32_t set)
{
    yes = set;
    return quorum_has(zab, is_in(set, 0), says_yes);
}

/* ---- All sets that decide, as the product says. ---- */

/* One bit for each set of replicas. */
struct family {
    uint64_t words[SETS / 64];
};

/* By the voters of the committed and of the pending configuration: the sets that decide, and those
 * that leave out a set that decides. */
static struct family deciding[SETS][SETS];
static struct family leaving[SETS][SETS];

static void add(struct family *family, uint32_t set)
{
    family->words[set / 64] |= (uint64_t)1 << set % 64;
}

/* Two decisions without a common disk: one by a set, and one by all others. A set that contains a
 * set that decides decides as well, so no smaller sets need to be looked at. */
static bool may_part(uint32_t now_a, uint32_t next_a, uint32_t now_b, uint32_t next_b)
{
    const struct family *a = &deciding[now_a][next_a];
    const struct family *b = &leaving[now_b][next_b];

    return (a->words[0] & b->words[0]) != 0 || (a->words[1] & b->words[1]) != 0;
}

static const struct choice first_disks = {.disks = {1, 1, 1, 1, 1, 1, 1}};

static void ask(struct zab *zab, uint32_t voters, uint32_t next)
{
    struct choice now = first_disks;
    struct choice then = first_disks;

    now.voters = voters;
    then.voters = next;
    bind(zab, &now, &then);
    for (uint32_t set = 0; set < SETS; set++) {
        bool is = product_decides(zab, set);

        if (is != decides(voters, next, set)) {
            fail_msg("voters %x, then %x: the set %x %s", voters, next, set,
                     is ? "decides" : "does not decide");
        }
        if (is) {
            add(&deciding[voters][next], set);
            add(&leaving[voters][next], SETS - 1 - set);
        }
    }
}

static void ask_all(void)
{
    struct zab *zab = new_replica();

    memset(deciding, 0, sizeof(deciding));
    memset(leaving, 0, sizeof(leaving));
    set_disks(zab, first_disks.disks);
    for (uint32_t voters = 1; voters < SETS; voters++) {
        for (uint32_t next = NONE; next < SETS; next += STRIDE) {
            ask(zab, voters, next);
        }
    }
    zab_free(zab);
}

/* The configuration before the change, and the one after it, can decide nothing without a disk that
 * takes part in the change. */
TEST(a_change_meets_both_configurations)
{
    uint32_t parted = 0;

    ask_all();
    for (uint32_t now = 1; now < SETS; now++) {
        assert_false(may_part(now, NONE, now, NONE));
        for (uint32_t next = STRIDE; next < SETS; next += STRIDE) {
            assert_false(may_part(now, next, now, NONE));
            assert_false(may_part(now, next, next, NONE));
            parted += may_part(now, NONE, next, NONE);
        }
    }
    assert_true(parted > 0); /* Without the joint majority, the two do part. */
}

/* A change that is pending and the change that follows it have a disk in common, since both need a
 * majority of the configuration between them. */
TEST(consecutive_changes_meet)
{
    uint32_t parted = 0;

    ask_all();
    for (uint32_t first = 1; first < SETS; first++) {
        for (uint32_t second = STRIDE; second < SETS; second += STRIDE) {
            for (uint32_t third = STRIDE; third < SETS; third += STRIDE) {
                assert_false(may_part(first, second, second, third));
                parted += may_part(first, second, third, NONE);
            }
        }
    }
    assert_true(parted > 0); /* Two changes apart, nothing ties the majorities together. */
}

/* ---- Disks that were replaced, and zxids. ---- */

struct draw {
    struct choice now;
    struct choice next;
    uint64_t disks[MEMBERS]; /* In the machines. */
};

static void draw_choice(struct rng *rng, struct choice *ret_choice)
{
    ret_choice->voters = (uint32_t)rng_range(rng, 1, SETS - 1);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        ret_choice->disks[i] = rng_chance(rng, 200000) ? 2 : 1;
    }
}

static void draw_one(struct rng *rng, struct draw *ret_draw)
{
    draw_choice(rng, &ret_draw->now);
    draw_choice(rng, &ret_draw->next);
    if (rng_chance(rng, 300000)) {
        ret_draw->next.voters = NONE;
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        ret_draw->disks[i] = rng_chance(rng, 200000) ? 2 : 1;
    }
}

static bool draw_decides(const struct draw *draw, uint32_t set)
{
    uint32_t now = set & known_disks(&draw->now, draw->disks);
    uint32_t next = set & known_disks(&draw->next, draw->disks);

    return is_majority(draw->now.voters, now) &&
           (draw->next.voters == NONE || is_majority(draw->next.voters, next));
}

TEST(a_replaced_disk_does_not_count)
{
    struct zab *zab = new_replica();
    struct draw draw;
    uint32_t decided = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rng rng;

        rng_init(&rng, seed);
        for (int i = 0; i < DRAWS; i++) {
            draw_one(&rng, &draw);
            bind(zab, &draw.now, &draw.next);
            set_disks(zab, draw.disks);
            uint32_t set = (uint32_t)rng_below(&rng, SETS);

            assert_int_equal(product_decides(zab, set), draw_decides(&draw, set));
            decided += draw_decides(&draw, set);
        }
    }
    assert_true(decided > SEEDS * DRAWS / 20);
    zab_free(zab);
}

/* The newest zxid that may be committed: those that have it decide. */
static zxid_t model_acked(const struct draw *draw, const zxid_t *acked, uint32_t synced)
{
    zxid_t best = 0;

    for (zxid_t zxid = 1; zxid <= ZXIDS; zxid++) {
        uint32_t set = 0;

        for (uint32_t i = 0; i < MEMBERS; i++) {
            set |= is_in(synced, i) && acked[i] >= zxid ? 1U << i : 0;
        }
        best = draw_decides(draw, set) ? zxid : best;
    }
    return best;
}

static void set_acked(struct zab *zab, const zxid_t *acked, uint32_t synced)
{
    zab->trail.durable = acked[0];
    for (uint32_t i = 1; i < MEMBERS; i++) {
        struct learner *learner = &peer_find(zab, i + 1)->learner;

        learner->stage = is_in(synced, i) ? LEARNER_SYNCED : LEARNER_STREAM;
        learner->acked = acked[i];
    }
}

TEST(what_both_majorities_have_is_committed)
{
    struct zab *zab = new_replica();
    struct draw draw;
    uint32_t some = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rng rng;

        rng_init(&rng, seed);
        for (int i = 0; i < DRAWS; i++) {
            zxid_t acked[MEMBERS];
            uint32_t synced = 1; /* The leader itself. */

            for (uint32_t k = 0; k < MEMBERS; k++) {
                acked[k] = rng_below(&rng, ZXIDS + 1);
                synced |= rng_chance(&rng, 750000) ? 1U << k : 0;
            }
            draw_one(&rng, &draw);
            bind(zab, &draw.now, &draw.next);
            set_disks(zab, draw.disks);
            set_acked(zab, acked, synced);
            zxid_t expected = model_acked(&draw, acked, synced);

            assert_int_equal(quorum_acked(zab), expected);
            some += expected > 0;
        }
    }
    assert_true(some > SEEDS * DRAWS / 20);
    set_acked(zab, (const zxid_t[MEMBERS]){0}, 1);
    zab_free(zab);
}
