/* Searching a subtree: what a search finds, for which client, and how it continues. */
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/op/ops.h"
#include "server/read/view.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>

enum {
    TEXT_MAX = 1 << 16,
    MANY = 25000
};

struct fixture {
    struct view *view;
    struct state *state; /* The view's. */
    struct op_result result;
    struct op_args args;
    zxid_t zxid;
    struct op_principal anonymous;
    struct op_principal root;
    char text[TEXT_MAX]; /* The found paths, separated by blanks. */
};

static void make(struct fixture *fixture, const char *path, const char *data)
{
    assert_int_equal(kit_make(fixture->state, ++fixture->zxid, path, data), ERR_OK);
}

static void close_to_all(struct fixture *fixture, const char *path)
{
    struct buf txn;
    struct buf acl;

    buf_init(&txn, 1 << 16);
    buf_init(&acl, ACL_BYTES_MAX);
    acl_put(&acl, &(struct acl_entry){
                      .perms = ACL_READ, .scheme = slice_str("digest"), .id = slice_str("me:x")});
    kit_begin(&txn, KIT_TIME_MS);
    txn_put(&txn, &(struct txn_effect){
                      .type = TXN_SET_ACL, .path = slice_str(path), .acl = buf_slice(&acl)});
    assert_int_equal(kit_apply(fixture->state, ++fixture->zxid, &txn), ERR_OK);
    buf_release(&txn);
    buf_release(&acl);
}

static void setup(struct fixture *fixture)
{
    *fixture = (struct fixture){.view = view_new(), .state = state_new(1)};
    view_replace(fixture->view, fixture->state);
    view_set_whole(fixture->view, true);
    op_result_init(&fixture->result);
    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str("super:root"),
                              "super:zUZ0bpqYS7FucDXsnUgxOWTto1s=", &fixture->root.auth),
                     ERR_OK);
    make(fixture, "/app", "top");
    make(fixture, "/app/alpha", "one");
    make(fixture, "/app/alpha/lock-1", "two");
    make(fixture, "/app/alpha/lock-2", NULL);
    make(fixture, "/app/alpha-", "one two");
    make(fixture, "/app/beta", "");
    make(fixture, "/app/beta/lock-3", "two");
    make(fixture, "/apple", "two");
}

static void teardown(struct fixture *fixture)
{
    op_result_release(&fixture->result);
    auth_unref(fixture->root.auth);
    view_free(fixture->view);
}

static void begin(struct fixture *fixture, const char *path, const char *name, const char *data)
{
    op_args_init(&fixture->args, OP_SEARCH);
    fixture->args.path = slice_str(path);
    fixture->args.pattern = slice_str(name);
    fixture->args.data = slice_str(data);
}

static const char *search(struct fixture *fixture, const struct op_principal *who)
{
    struct op_result *result = &fixture->result;
    const char *why = NULL;
    size_t len = 0;

    op_result_release(result);
    op_result_init(result);
    assert_int_equal(op_args_check(&fixture->args, &why), ERR_OK);
    view_run(fixture->view, who, &fixture->args, result);
    fixture->text[0] = '\0';
    for (uint32_t i = 0; i < result->entry_count; i++) {
        struct slice path = result->entries[i].path;

        len += (size_t)snprintf(fixture->text + len, TEXT_MAX - len, "%s%s%.*s", i > 0 ? " " : "",
                                result->entries[i].hidden ? "!" : "", (int)path.len,
                                (const char *)path.data);
    }
    return fixture->text;
}

static const char *find(struct fixture *fixture, const char *path, const char *name,
                        const char *data)
{
    begin(fixture, path, name, data);
    return search(fixture, &fixture->anonymous);
}

TEST(names_and_data_are_found_in_the_order_of_a_walk, fixture, setup, teardown)
{
    assert_string_equal(find(fixture, "/app", "lock-*", ""),
                        "alpha/lock-1 alpha/lock-2 beta/lock-3");
    assert_false(fixture->result.more);
    assert_int_equal(fixture->result.looked, 7);
    assert_int_equal(fixture->result.zxid, fixture->zxid);
    assert_string_equal(find(fixture, "/app", "", "two"), "alpha/lock-1 alpha- beta/lock-3");
    assert_string_equal(find(fixture, "/app", "alpha", ""), "alpha alpha-");
    assert_string_equal(find(fixture, "/app", "alpha", "two"), "alpha-");
    assert_string_equal(find(fixture, "/app", "no such", ""), "");
    assert_string_equal(find(fixture, "/app/alpha", "", ""), " lock-1 lock-2");
    assert_string_equal(find(fixture, "/app/alpha", "alph?", ""), "");
    assert_int_equal(fixture->result.entry_count, 1);
    assert_string_equal(find(fixture, "/", "", "two"),
                        "app/alpha/lock-1 app/alpha- app/beta/lock-3 apple");
    assert_string_equal(find(fixture, "/", "*o*", ""),
                        "app/alpha/lock-1 app/alpha/lock-2 app/beta/lock-3 zookeeper "
                        "zookeeper/config zookeeper/quota");
}

TEST(requested_members_are_in_the_result, fixture, setup, teardown)
{
    begin(fixture, "/app", "lock", "two");
    search(fixture, &fixture->anonymous);
    assert_int_equal(fixture->result.entry_count, 2);
    assert_null(fixture->result.entries[0].data);
    fixture->args.with = OP_WITH_DATA;
    search(fixture, &fixture->anonymous);
    assert_true(slice_eq(blob_slice(fixture->result.entries[1].data), slice_str("two")));
    assert_int_equal(fixture->result.entries[1].stat.data_length, 3);
}

TEST(a_missing_or_unreadable_top_is_refused, fixture, setup, teardown)
{
    find(fixture, "/none", "", "");
    assert_int_equal(fixture->result.err, ERR_NO_NODE);
    assert_false(fixture->result.more);
    close_to_all(fixture, "/app");
    find(fixture, "/app", "", "");
    assert_int_equal(fixture->result.err, ERR_NO_AUTH);
    assert_int_equal(fixture->result.entry_count, 0);
    view_set_whole(fixture->view, false);
    find(fixture, "/app", "", "");
    assert_int_equal(fixture->result.err, ERR_NOT_READY);
}

TEST(an_unreadable_znode_shows_its_name_alone, fixture, setup, teardown)
{
    close_to_all(fixture, "/app/alpha");
    assert_string_equal(find(fixture, "/app", "*a", ""), "alpha beta");
    assert_string_equal(find(fixture, "/app", "", "one"), "alpha-");
    begin(fixture, "/app", "*a", "");
    fixture->args.with = OP_WITH_STAT;
    assert_string_equal(search(fixture, &fixture->anonymous), "!alpha beta");
    assert_string_equal(search(fixture, &fixture->root), "alpha beta");
    fixture->args.pattern = slice_str("lock");
    assert_string_equal(search(fixture, &fixture->root), "alpha/lock-1 alpha/lock-2 beta/lock-3");
    assert_string_equal(search(fixture, &fixture->anonymous), "beta/lock-3");
    /* A made-up cursor gives no access to a closed subtree. */
    fixture->args.after = slice_str("/app/alpha/lock-1");
    assert_string_equal(search(fixture, &fixture->anonymous), "beta/lock-3");
    assert_string_equal(search(fixture, &fixture->root), "alpha/lock-2 beta/lock-3");
    fixture->args.after = slice_str("/app/alpha");
    assert_string_equal(search(fixture, &fixture->anonymous), "beta/lock-3");
}

TEST(a_search_respects_its_depth, fixture, setup, teardown)
{
    begin(fixture, "/app", "", "");
    fixture->args.depth = 1;
    assert_string_equal(search(fixture, &fixture->anonymous), " alpha alpha- beta");
    assert_int_equal(fixture->result.looked, 4);
    assert_false(fixture->result.more);
    begin(fixture, "/", "lock", "");
    fixture->args.depth = 2;
    assert_string_equal(search(fixture, &fixture->anonymous), "");
    fixture->args.depth = 3;
    assert_string_equal(search(fixture, &fixture->anonymous),
                        "app/alpha/lock-1 app/alpha/lock-2 app/beta/lock-3");
    fixture->args.depth = UINT32_MAX;
    assert_int_equal((search(fixture, &fixture->anonymous), fixture->result.entry_count), 3);
    /* A cursor from deeper, made up or from another search: it continues after the subtree that
     * contains it. */
    begin(fixture, "/app", "", "");
    fixture->args.depth = 1;
    fixture->args.after = slice_str("/app/alpha/lock-1");
    assert_string_equal(search(fixture, &fixture->anonymous), "alpha- beta");
    fixture->args.after = slice_str("/app/beta/lock-3");
    assert_string_equal(search(fixture, &fixture->anonymous), "");
    fixture->args.after = slice_str("/app/alpha");
    assert_string_equal(search(fixture, &fixture->anonymous), "alpha- beta");
}

TEST(names_match_in_any_case_on_request, fixture, setup, teardown)
{
    begin(fixture, "/app", "LOCK-", "");
    assert_string_equal(search(fixture, &fixture->anonymous), "");
    fixture->args.any_case = true;
    assert_string_equal(search(fixture, &fixture->anonymous),
                        "alpha/lock-1 alpha/lock-2 beta/lock-3");
    fixture->args.data = slice_str("TWO"); /* Data is bytes. */
    assert_string_equal(search(fixture, &fixture->anonymous), "");
}

/* The last of 20,000 children is found in a few requests. */
TEST(a_child_is_found_among_many, fixture, setup, teardown)
{
    uint32_t searches = 0;
    uint32_t found = 0;
    char path[64];
    char cursor[64] = "";

    make(fixture, "/many", "");
    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof(path), "/many/child-%u", i);
        make(fixture, path, "");
    }
    make(fixture, "/many/child-0/child-19999", "");
    do {
        begin(fixture, "/many", "child-19999", "");
        fixture->args.depth = 1;
        fixture->args.after = slice_str(cursor);
        search(fixture, &fixture->anonymous);
        found += fixture->result.entry_count;
        (void)snprintf(cursor, sizeof(cursor), "%.*s", (int)fixture->result.after.len,
                       fixture->result.more ? (const char *)fixture->result.after.data : "");
        searches++;
    } while (fixture->result.more && searches < MANY);
    assert_int_equal(found, 1);
}

TEST(a_search_continues_after_its_cursor, fixture, setup, teardown)
{
    char cursor[256] = "";

    static const char *const expected[] = {"alpha/lock-1", "alpha/lock-2", "beta/lock-3"};

    for (size_t i = 0; i < 3; i++) {
        begin(fixture, "/app", "lock", "");
        fixture->args.limit = 1;
        fixture->args.after = slice_str(cursor);
        assert_string_equal(search(fixture, &fixture->anonymous), expected[i]);
        assert_int_equal(fixture->result.more, i < 2);
        (void)snprintf(cursor, sizeof(cursor), "%.*s", (int)fixture->result.after.len,
                       fixture->result.more ? (const char *)fixture->result.after.data : "");
    }
}

TEST(a_cursor_is_a_path_within_the_subtree, fixture, setup, teardown)
{
    const char *why = NULL;

    begin(fixture, "/app", "", "");
    fixture->args.after = slice_str("/apple");
    assert_int_equal(op_args_check(&fixture->args, &why), ERR_BAD_ARGUMENTS);
    fixture->args.after = slice_str("alpha");
    assert_int_equal(op_args_check(&fixture->args, &why), ERR_BAD_ARGUMENTS);
    fixture->args.after = slice_str("/app/zzz");
    assert_string_equal(search(fixture, &fixture->anonymous), "");
    assert_false(fixture->result.more);
}

/* More than one search examines. */
TEST(a_large_subtree_takes_several_searches, fixture, setup, teardown)
{
    uint32_t searches = 0;
    uint32_t looked = 0;
    uint32_t found = 0;
    char path[64];
    char cursor[64] = "";

    make(fixture, "/many", "");
    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof(path), "/many/%06u", i);
        make(fixture, path, i % 1000 == 7 ? "seven" : "x");
    }
    do {
        begin(fixture, "/many", "", "even");
        fixture->args.after = slice_str(cursor);
        search(fixture, &fixture->anonymous);
        assert_int_equal(fixture->result.err, ERR_OK);
        assert_true(fixture->result.looked > 0 && fixture->result.looked <= VIEW_SEARCH_NODES_MAX);
        looked += fixture->result.looked;
        found += fixture->result.entry_count;
        (void)snprintf(cursor, sizeof(cursor), "%.*s", (int)fixture->result.after.len,
                       fixture->result.more ? (const char *)fixture->result.after.data : "");
        searches++;
    } while (fixture->result.more);
    assert_int_equal(looked, MANY + 1);
    assert_int_equal(found, MANY / 1000);
    assert_true(searches >= 3);
}

TEST(a_search_that_finds_long_paths_ends_early, fixture, setup, teardown)
{
    enum {
        LEVELS = 60,
        NAME_BYTES = 250,
        CHILDREN = 300,
        PATH_BYTES = LEVELS * (NAME_BYTES + 1) + 8
    };

    static char path[PATH_BYTES];
    static char cursor[PATH_BYTES];
    uint32_t found = 0;
    size_t len = 0;

    for (int i = 0; i < LEVELS; i++) {
        len += (size_t)snprintf(path + len, PATH_BYTES - len, "/%0*d", NAME_BYTES, i);
        make(fixture, path, "");
    }
    for (int i = 0; i < CHILDREN; i++) {
        (void)snprintf(path + len, PATH_BYTES - len, "/%06d", i);
        make(fixture, path, "");
    }
    do {
        struct op_result *result = &fixture->result;

        begin(fixture, "/", "0*", "");
        fixture->args.after = slice_str(cursor);
        op_result_release(result);
        op_result_init(result);
        view_run(fixture->view, &fixture->anonymous, &fixture->args, result);
        assert_true(result->arena.len <= VIEW_BYTES_MAX + 2 * PATH_BYTES);
        found += result->entry_count;
        (void)snprintf(cursor, PATH_BYTES, "%.*s", (int)result->after.len,
                       result->more ? (const char *)result->after.data : "");
    } while (fixture->result.more);
    assert_int_equal(found, LEVELS + CHILDREN);
}
