/* The bounds of the space-saving sketch, for streams of all shapes, compared with exact counts. */
#include "base/mem.h"
#include "base/rng.h"
#include "server/process/sketch.h"
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <stdio.h>

enum {
    SEEDS = 40,
    KEYS = 500,
    STEPS = 20000,
    PARTS = 3, /* Sketches of one sum. */
    KEY_TEXT = 16
};

struct exact {
    uint64_t reads;
    uint64_t writes;
};

struct model {
    struct exact keys[KEYS];
    uint64_t added[PARTS];
    struct sketch parts[PARTS];
};

static struct slice key_of(uint32_t number, char text[KEY_TEXT])
{
    return slice_make(text, (size_t)snprintf(text, KEY_TEXT, "/k/%u", number));
}

static uint32_t number_of(struct slice key)
{
    uint32_t number = 0;

    for (size_t i = 3; i < key.len; i++) {
        number = number * 10 + (uint32_t)(key.data[i] - '0');
    }
    assert_true(number < KEYS);
    return number;
}

/* Draws a key: from a few hot ones, from all alike, or the next one of a round, which is the worst
 * stream for a sketch. */
static uint32_t draw(struct rng *rng, uint64_t shape, uint32_t step)
{
    uint64_t below = rng_below(rng, KEYS) + 1;

    switch (shape) {
    case 0:
        return (uint32_t)rng_below(rng, below); /* Small numbers are hot. */
    case 1:
        return (uint32_t)rng_below(rng, KEYS);
    case 2:
        return step % KEYS;
    default:
        return rng_below(rng, 4) == 0 ? 7 : step % (SKETCH_ENTRIES + 1);
    }
}

static void fill(struct model *model, struct rng *rng, uint64_t shape)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t part = (uint32_t)rng_below(rng, PARTS);
        uint32_t number = draw(rng, shape, step);
        bool is_write = rng_below(rng, 3) == 0;
        char text[KEY_TEXT];

        sketch_add(&model->parts[part], key_of(number, text), is_write);
        model->added[part]++;
        model->keys[number].reads += !is_write;
        model->keys[number].writes += is_write;
    }
}

/* observed <= true <= observed + error, error <= n / SKETCH_ENTRIES, and no key above that is
 * missing, unless as many others were observed more often. */
static void check(struct model *model, uint32_t parts)
{
    const struct sketch *sketches[PARTS];
    struct sketch_row rows[SKETCH_ENTRIES];
    bool has[KEYS] = {false};
    uint64_t bound = 0;
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < parts; i++) {
        sketches[i] = &model->parts[i];
        bound += model->added[i] / SKETCH_ENTRIES;
    }
    uint32_t count = sketch_sum(sketches, parts, rows);

    assert_int_equal(count, SKETCH_ENTRIES);
    for (uint32_t i = 0; i < count; i++) {
        const struct exact *exact = &model->keys[number_of(rows[i].key)];
        uint64_t seen = rows[i].reads + rows[i].writes;
        uint64_t truth = exact->reads + exact->writes;

        assert_true(rows[i].error <= bound);
        assert_true(rows[i].reads <= exact->reads && rows[i].writes <= exact->writes);
        assert_true(seen <= truth && truth <= seen + rows[i].error);
        assert_true(seen <= least); /* The busiest first. */
        assert_false(has[number_of(rows[i].key)]);
        has[number_of(rows[i].key)] = true;
        least = seen;
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        uint64_t truth = model->keys[i].reads + model->keys[i].writes;

        assert_true(has[i] || truth <= bound + least);
    }
}

static void run_seed(uint64_t seed, uint32_t parts)
{
    struct model *model = mem_zalloc(1, sizeof(*model));
    struct rng rng;

    rng_init(&rng, seed);
    if (parts == 1) { /* All in one. */
        for (uint32_t step = 0; step < STEPS; step++) {
            uint32_t number = draw(&rng, seed % 4, step);
            char text[KEY_TEXT];

            sketch_add(&model->parts[0], key_of(number, text), false);
            model->keys[number].reads++;
            model->added[0]++;
        }
    } else {
        fill(model, &rng, seed % 4);
    }
    check(model, parts);
    mem_free(model);
}

TEST(one_sketch_keeps_its_bounds)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed, 1);
    }
}

TEST(a_sum_of_sketches_keeps_the_sum_of_their_bounds)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed, PARTS);
    }
}
