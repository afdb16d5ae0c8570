/* The index of the window: the changes of one path without a look at others, and the newest ACLs.
 */
#include "base/mem.h"
#include "server/watch/window.h"
#include "tests/lib/unit.h"
#include "tests/lib/watch_kit.h"

#include <stdio.h>

enum {
    FOUND_MAX = 64,
    FOREIGN = 5000,
    DEEP = 40
};

struct found {
    zxid_t zxids[FOUND_MAX]; /* The newest first. */
    size_t count;
    uint64_t looked;
};

static enum err find(struct window *window, const char *path, bool below, zxid_t after,
                     struct found *ret)
{
    struct window_mark end;
    struct change_set *sets[2];
    enum err err = ERR_OK;
    size_t count;

    window_end(window, &end);
    struct window_search search = {.path = slice_str(path),
                                   .below = below,
                                   .after = after,
                                   .upto = end.zxid,
                                   .life = end.restarts};

    *ret = (struct found){0};
    while (err == ERR_OK && !search.done) {
        err = window_search(window, &search, sets, 2, &count);
        for (size_t i = 0; i < count; i++) {
            assert_true(ret->count < FOUND_MAX);
            ret->zxids[ret->count++] = sets[i]->zxid;
            change_set_unref(sets[i]);
        }
    }
    ret->looked = search.looked;
    return err;
}

static void append(struct window *window, zxid_t zxid, const char *word)
{
    window_append(window, KIT_SET(zxid, word));
}

/* "9 7 3" */
static void expect(struct window *window, const char *path, bool below, zxid_t after,
                   const char *zxids)
{
    struct found found;
    struct buf text;

    buf_init(&text, 4096);
    assert_int_equal(find(window, path, below, after, &found), ERR_OK);
    for (size_t i = 0; i < found.count; i++) {
        buf_printf(&text, i == 0 ? "%d" : " %d", (int)found.zxids[i]);
    }
    assert_string_equal(buf_cstr(&text), zxids);
    assert_int_equal(found.looked, found.count);
    buf_release(&text);
}

TEST(changes_of_a_path_are_found)
{
    struct window *window = window_new(1 << 20, 20, 0);

    append(window, 1, "+/a");
    append(window, 2, "+/a/b");
    append(window, 3, "=/a/b");
    append(window, 5, "+/a/b/c");
    append(window, 6, "+/ab");
    window_append(window, KIT_SET(8, "=/a", "-/a/b/c", "=/a/b", "=/a"));
    append(window, 9, "!/a");
    expect(window, "/a", false, 0, "8 2 1");
    expect(window, "/a", false, 2, "8");
    expect(window, "/a", true, 0, "8 5 3 2 1");
    expect(window, "/a/b", false, 0, "8 5 3 2");
    expect(window, "/a/b/c", true, 0, "8 5");
    expect(window, "/", false, 0, "6 1");
    expect(window, "/", true, 3, "8 6 5");
    expect(window, "/none", true, 0, "");
    window_free(window);
}

TEST(foreign_changes_are_not_examined)
{
    struct window *window = window_new(64 << 20, 2 * FOREIGN, 0);
    static char words[FOREIGN][32];
    struct found found;

    append(window, 1, "+/mine");
    for (int i = 0; i < FOREIGN; i++) {
        (void)snprintf(words[i], sizeof(words[i]), "+/foreign/%d", i);
        append(window, (zxid_t)i + 2, words[i]);
    }
    append(window, FOREIGN + 2, "=/mine");
    assert_int_equal(find(window, "/mine", true, 0, &found), ERR_OK);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.looked, 2);
    assert_int_equal(find(window, "/quiet", false, 1, &found), ERR_OK);
    assert_int_equal(found.looked, 0);
    /* Entries up to `since` are not examined either. */
    assert_int_equal(find(window, "/", true, FOREIGN, &found), ERR_OK);
    assert_int_equal(found.looked, 2);
    window_free(window);
}

/* "=/0/1/2..." */
static void deep_word(char *out, size_t size, int depth, char first)
{
    size_t len = 1;

    out[0] = first;
    for (int i = 0; i < depth; i++) {
        len += (size_t)snprintf(out + len, size - len, "/%d", i);
    }
}

TEST(deep_paths_have_a_bounded_number_of_entries)
{
    struct window *window = window_new(1 << 20, 10, 0);
    struct window_extent extent;
    static char words[3][256];
    struct found found;

    deep_word(words[0], sizeof(words[0]), DEEP, '=');
    deep_word(words[1], sizeof(words[1]), DEEP - 1, '+');
    deep_word(words[2], sizeof(words[2]), 20, '=');
    append(window, 1, words[0]);
    append(window, 2, words[1]);
    append(window, 3, words[2]);
    assert_int_equal(find(window, words[0] + 1, true, 0, &found), ERR_OK);
    /* The chain of the ancestor: it may contain entries of other paths, and misses none. */
    assert_true(found.count >= 1 && found.zxids[found.count - 1] == 1);
    assert_int_equal(find(window, words[1] + 1, true, 0, &found), ERR_OK);
    assert_true(found.count >= 2);
    expect(window, words[0] + 1, false, 0, "1");
    expect(window, words[2] + 1, false, 0, "3");
    expect(window, "/0/1", true, 0, "3 2 1");
    window_extent(window, &extent);
    assert_true(extent.bytes < 10000);
    window_free(window);
}

TEST(dropped_changes_are_missing)
{
    struct window *window = window_new(1 << 20, 3, 0);
    struct window_extent extent;
    struct found found;

    append(window, 1, "+/a");
    append(window, 2, "+/b");
    append(window, 3, "=/a");
    append(window, 4, "=/b");
    assert_int_equal(find(window, "/a", false, 0, &found), ERR_MISSING);
    expect(window, "/a", false, 1, "3");
    append(window, 5, "=/c");
    append(window, 6, "=/c");
    expect(window, "/a", false, 3, "");
    expect(window, "/", true, 3, "6 5 4");
    window_restart(window, 6);
    window_extent(window, &extent);
    assert_int_equal(extent.bytes, 0); /* The index is empty as well. */
    expect(window, "/c", false, 6, "");
    append(window, 7, "=/c");
    expect(window, "/c", false, 6, "7");
    window_free(window);
}

TEST(the_index_counts_as_bytes)
{
    struct window *window = window_new(20000, 1000, 0);
    static char words[200][64];
    struct window_extent extent;

    for (int i = 0; i < 200; i++) {
        (void)snprintf(words[i], sizeof(words[i]), "+/a/long/name/of/a/znode/%d", i);
        append(window, (zxid_t)i + 1, words[i]);
        window_extent(window, &extent);
        assert_true(extent.bytes <= 20000);
    }
    assert_true(extent.sets > 10 && extent.sets < 100);
    window_free(window);
}

TEST(nothing_is_read_during_a_suspension)
{
    struct window *window = window_new(1 << 20, 10, 0);
    struct window_mark start = {0};
    struct set_acls *acls = NULL;
    struct change_set *set;
    struct found found;
    zxid_t last;
    size_t count;

    append(window, 1, "+/a");
    assert_int_equal(window_read(window, &start, &set, 1, &count, &last), ERR_OK);
    window_suspend(window);
    assert_int_equal(find(window, "/a", false, 0, &found), ERR_NOT_READY);
    assert_int_equal(window_acls(window, 0, set, &acls), ERR_NOT_READY);
    change_set_unref(set);
    assert_int_equal(window_read(window, &start, &set, 1, &count, &last), ERR_NOT_READY);
    window_restart(window, 5);
    expect(window, "/a", false, 5, "");
    window_free(window);
}

/* ---- ACLs. ---- */

static struct change_set *set_with(zxid_t zxid, enum txn_effect_type type, const char *path,
                                   struct blob *acl)
{
    struct state_change change = {.type = type, .path = slice_str(path), .acl = acl};
    struct state_changes changes = {.items = &change, .count = 1};

    return change_set_new(zxid, NULL, &changes);
}

/* For a set of one change: whether another ACL counts by now, and which. */
static bool is_other(struct window *window, const struct change_set *set, const struct blob *acl)
{
    struct window_mark end;
    struct set_acls *acls = NULL;

    window_end(window, &end);
    assert_int_equal(window_acls(window, end.restarts, set, &acls), ERR_OK);
    bool other = acls != NULL && acls->items[0].own == acl;

    set_acls_free(acls);
    return other;
}

TEST(the_newest_acl_counts)
{
    struct window *window = window_new(1 << 20, 10, 0);
    struct blob *closed = blob_new(slice_str("closed"));
    struct blob *again = blob_new(slice_str("closed"));
    struct change_set *first = change_set_ref(set_with(1, TXN_CREATE, "/a", NULL));
    struct change_set *third = change_set_ref(set_with(3, TXN_SET, "/a", closed));
    struct set_acls *acls = NULL;

    window_append(window, first);
    assert_int_equal(window_acls(window, 0, first, &acls), ERR_OK);
    assert_null(acls);
    window_append(window, set_with(2, TXN_SET_ACL, "/a", closed));
    assert_true(is_other(window, first, closed));
    window_append(window, third);
    assert_false(is_other(window, third, closed));
    /* Of a deleted znode the last; of one that was created again the new one. */
    window_append(window, set_with(4, TXN_DELETE, "/a", again));
    assert_true(is_other(window, first, again));
    assert_false(is_other(window, third, again));
    window_append(window, set_with(5, TXN_CREATE, "/a", NULL));
    assert_true(is_other(window, third, NULL));
    assert_false(is_other(window, first, NULL));
    for (zxid_t zxid = 6; zxid < 20; zxid++) {
        window_append(window, set_with(zxid, TXN_SET, "/b", NULL));
    }
    assert_int_equal(window_acls(window, 0, first, &acls), ERR_MISSING);
    change_set_unref(first);
    change_set_unref(third);
    blob_unref(closed);
    blob_unref(again);
    window_free(window);
}

TEST(a_set_from_before_a_restart_is_not_used)
{
    struct window *window = window_new(1 << 20, 10, 0);
    struct change_set *set = change_set_ref(set_with(9, TXN_SET, "/a", NULL));
    struct set_acls *acls = NULL;

    window_append(window, set);
    window_restart(window, 4); /* The state went back. */
    assert_int_equal(window_acls(window, 0, set, &acls), ERR_MISSING);
    change_set_unref(set);
    window_free(window);
}

TEST(the_acl_of_a_path_is_known_while_it_has_changes)
{
    struct window *window = window_new(1 << 20, 2, 0);
    struct blob *closed = blob_new(slice_str("closed"));
    struct blob *acl = NULL;

    assert_false(window_acl(window, slice_str("/a"), &acl));
    window_append(window, set_with(1, TXN_DELETE, "/a", closed));
    assert_true(window_acl(window, slice_str("/a"), &acl));
    assert_ptr_equal(acl, closed);
    blob_unref(acl);
    window_append(window, set_with(2, TXN_SET, "/b", NULL));
    window_append(window, set_with(3, TXN_SET, "/b", NULL));
    assert_false(window_acl(window, slice_str("/a"), &acl));
    assert_null(acl);
    blob_unref(closed);
    window_free(window);
}
