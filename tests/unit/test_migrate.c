/* What a migration remembers of its target. */
#include "cli/migrate_index.h"
#include "tests/lib/unit.h"

#include <stdio.h>

enum {
    MANY = 20000
};

static struct slice path_of(char text[32], int number)
{
    (void)snprintf(text, 32, "some/path%d", number);
    return slice_str(text);
}

TEST(the_index_finds_what_was_put_and_not_dropped)
{
    struct migrate_index index = {.entries = NULL};
    char text[32];

    assert_null(migrate_index_get(&index, slice_str("a")));
    for (int i = 0; i < MANY; i++) {
        migrate_index_put(&index, path_of(text, i), (uint64_t)i, (uint32_t)i, false);
    }
    for (int i = 0; i < MANY; i += 2) {
        assert_true(migrate_index_drop(&index, path_of(text, i)));
        assert_false(migrate_index_drop(&index, path_of(text, i)));
    }
    assert_int_equal(index.count, MANY / 2);
    for (int i = 0; i < MANY; i++) {
        const struct migrate_entry *entry = migrate_index_get(&index, path_of(text, i));

        assert_int_equal(entry != NULL, i % 2);
        assert_true(!entry || (entry->digest == (uint64_t)i && entry->creates == (uint32_t)i));
    }
    migrate_index_put(&index, path_of(text, 0), 5, 6, true);
    assert_int_equal(index.count, MANY / 2 + 1);
    assert_true(migrate_index_get(&index, path_of(text, 0))->seen);
    migrate_index_clear(&index);
}

TEST(the_index_keeps_what_the_source_had)
{
    struct migrate_index index = {.entries = NULL};
    char text[32];

    for (int i = 0; i < MANY; i++) {
        migrate_index_put(&index, path_of(text, i), 0, 0, i % 2 == 1);
    }
    assert_false(migrate_index_is_known(&index, path_of(text, 0)));
    migrate_index_see(migrate_index_get(&index, path_of(text, 0)));
    migrate_index_disown(&index, path_of(text, 1));
    assert_true(migrate_index_drop(&index, path_of(text, 3)));
    assert_true(migrate_index_is_known(&index, path_of(text, 3)));
    migrate_index_begin(&index);
    assert_int_equal(index.count, 0);
    for (int i = 0; i < MANY; i += i < 6 ? 1 : 2) {
        if (i != 5) {
            migrate_index_put(&index, path_of(text, i), 0, 0, false);
        }
    }
    for (int i = 0; i < MANY; i++) { /* The table grows meanwhile. */
        (void)snprintf(text, sizeof(text), "other%d", i);
        migrate_index_put(&index, slice_str(text), 0, 0, false);
    }
    assert_true(migrate_index_is_known(&index, path_of(text, 5)));
    migrate_index_end(&index);
    assert_true(migrate_index_is_known(&index, path_of(text, 0)));
    assert_false(migrate_index_is_known(&index, path_of(text, 1)));
    assert_true(migrate_index_is_known(&index, path_of(text, 3)));
    assert_false(migrate_index_get(&index, path_of(text, 3))->seen);
    assert_false(migrate_index_is_known(&index, path_of(text, 5)));
    assert_false(migrate_index_is_known(&index, path_of(text, 8)));
    migrate_index_clear(&index);
}

TEST(what_the_source_has_stays_seen_when_the_target_lacks_it)
{
    struct migrate_index index = {.entries = NULL};
    char text[32];

    assert_false(migrate_index_is_seen(&index, slice_str("refused")));
    migrate_index_put(&index, slice_str("other"), 0, 0, false);
    migrate_index_put(&index, slice_str("refused"), 0, 0, true);
    assert_true(migrate_index_drop(&index, slice_str("refused")));
    for (int i = 0; i < MANY; i++) { /* The table grows. */
        migrate_index_put(&index, path_of(text, i), 0, 0, true);
    }
    assert_null(migrate_index_get(&index, slice_str("refused")));
    assert_true(migrate_index_is_seen(&index, slice_str("refused")));
    assert_false(migrate_index_is_seen(&index, slice_str("other")));
    migrate_index_begin(&index);
    assert_false(migrate_index_is_seen(&index, slice_str("refused")));
    migrate_index_end(&index);
    migrate_index_clear(&index);
}

TEST(the_index_does_not_grow_by_what_comes_and_goes)
{
    struct migrate_index index = {.entries = NULL};
    char text[32];

    for (int i = 0; i < MANY; i++) {
        migrate_index_put(&index, path_of(text, i), 0, 0, true);
        assert_true(migrate_index_drop(&index, path_of(text, i)));
        migrate_index_disown(&index, path_of(text, i));
    }
    assert_in_range(index.cap, 1, MANY / 10);
    migrate_index_clear(&index);
}

TEST(digests_tell_null_from_empty_and_lists_by_their_entries)
{
    struct slice world = slice_str("world");
    struct slice anyone = slice_str("anyone");
    uint64_t a = migrate_acl_add(0, 31, slice_str("digest"), slice_str("a:b"));
    uint64_t open = migrate_acl_add(0, 31, world, anyone);

    assert_int_equal(migrate_acl_done(open), 0);
    assert_true(migrate_acl_done(migrate_acl_add(0, 1, world, anyone)) != 0);
    assert_true(migrate_acl_add(a, 1, world, anyone) ==
                migrate_acl_add(migrate_acl_add(0, 1, world, anyone), 31, slice_str("digest"),
                                slice_str("a:b")));
    assert_true(migrate_digest(slice_str(""), true, 0) != migrate_digest(slice_str(""), false, 0));
    assert_true(migrate_digest(slice_str("x"), false, 0) !=
                migrate_digest(slice_str("x"), false, a));
}
