/* Random operations on a map whose keys crowd the table, compared with an array. */
#include "base/map.h"
#include "base/rng.h"
#include "tests/lib/unit.h"

enum {
    KEYS = 300,
    SEEDS = 20,
    STEPS = 5000
};

/* The model: values[i] is what key i maps to. Each cell's address serves as a value. */
struct model {
    char cells[KEYS][2];
    void *values[KEYS];
    size_t count;
};

static struct slice key_of(size_t i)
{
    static char names[KEYS][8];

    memcpy(names[i], "aaaaa", 6);
    for (size_t digit = 0, rest = i; rest > 0; digit++, rest /= 6) {
        names[i][digit] = (char)('a' + rest % 6);
    }
    return slice_make(names[i], i == 0 ? 0 : 4 + i % 2);
}

static void *get(const struct map *map, bool bytes, size_t i)
{
    return bytes ? map_get(map, key_of(i)) : map_get_u64(map, i << 56 | i);
}

static void *put(struct map *map, bool bytes, size_t i, void *value)
{
    return bytes ? map_put(map, key_of(i), value) : map_put_u64(map, i << 56 | i, value);
}

static void *take(struct map *map, bool bytes, size_t i)
{
    return bytes ? map_remove(map, key_of(i)) : map_remove_u64(map, i << 56 | i);
}

static void check_all(const struct map *map, bool bytes, const struct model *model)
{
    size_t cursor = 0;
    size_t walked = 0;

    assert_int_equal(map_count(map), model->count);
    for (size_t i = 0; i < KEYS; i++) {
        assert_ptr_equal(get(map, bytes, i), model->values[i]);
    }
    while (map_each(map, &cursor)) {
        walked++;
    }
    assert_int_equal(walked, model->count);
}

static void run_seed(uint64_t seed, bool bytes)
{
    struct model model = {.count = 0};
    struct map map;
    struct rng rng;

    rng_init(&rng, seed);
    map_init(&map);
    for (int step = 0; step < STEPS; step++) {
        bool grow = rng_below(&rng, 100) < (step / 500 % 2 == 0 ? 70U : 30U);
        size_t i = rng_below(&rng, KEYS);
        void *value = &model.cells[i][rng_below(&rng, 2)];

        if (grow) {
            assert_ptr_equal(put(&map, bytes, i, value), model.values[i]);
            model.count += model.values[i] == NULL;
            model.values[i] = value;
        } else {
            assert_ptr_equal(take(&map, bytes, i), model.values[i]);
            model.count -= model.values[i] != NULL;
            model.values[i] = NULL;
        }
        if (step % 37 == 0) {
            check_all(&map, bytes, &model);
        }
    }
    check_all(&map, bytes, &model);
    map_release(&map);
}

TEST(keys_differ)
{
    for (size_t a = 0; a < KEYS; a++) {
        for (size_t b = a + 1; b < KEYS; b++) {
            assert_false(slice_eq(key_of(a), key_of(b)));
        }
    }
}

TEST(bytes)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed, true);
    }
}

TEST(u64)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed, false);
    }
}
