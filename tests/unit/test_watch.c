/* The table of watches against ZooKeeper's tables: which watches each change fires, and for which
 * owners. */
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/op/ops.h"
#include "server/watch/watch.h"
#include "tests/lib/unit.h"
#include "tests/lib/watch_kit.h"

struct fixture {
    struct watch_table *table;
    struct buf log;
    struct kit_owner a;
    struct kit_owner b;
    zxid_t zxid;
};

static void setup(struct fixture *fixture)
{
    *fixture = (struct fixture){.zxid = 100};
    buf_init(&fixture->log, WATCH_KIT_LOG_MAX);
    fixture->table = watch_table_new(kit_on_event, &fixture->log);
    kit_owner_init(&fixture->a, 'a');
    kit_owner_init(&fixture->b, 'b');
}

static void teardown(struct fixture *fixture)
{
    watch_owner_release(fixture->table, &fixture->a.owner);
    watch_owner_release(fixture->table, &fixture->b.owner);
    watch_table_free(fixture->table);
    buf_release(&fixture->log);
}

static struct watch *add(struct fixture *fixture, struct kit_owner *owner, enum watch_kind kind,
                         const char *path)
{
    return watch_add(fixture->table, &owner->owner, kind, slice_str(path), fixture->zxid);
}

/* Fires one transaction with these changes; returns the events. */
static const char *fire(struct fixture *fixture, const char *const *words)
{
    struct change_set *set = kit_set_of(++fixture->zxid, words);

    watch_fire(fixture->table, set, NULL);
    change_set_unref(set);
    return kit_take(&fixture->log);
}

#define FIRE(fixture, ...) fire(fixture, (const char *const[]){__VA_ARGS__, NULL})

static size_t left(const struct fixture *fixture)
{
    return watch_table_count(fixture->table);
}

/* ---- By registered watch (one row of the table each). ---- */

TEST(exists_fires_on_create_set_and_delete_once, fixture, setup, teardown)
{
    add(fixture, &fixture->a, WATCH_EXISTS, "/a");
    assert_string_equal(FIRE(fixture, "+/a/x"), "");
    assert_string_equal(FIRE(fixture, "+/a"), "a NodeCreated /a [1] end\n");
    assert_int_equal(left(fixture), 0);
    add(fixture, &fixture->a, WATCH_EXISTS, "/a");
    assert_string_equal(FIRE(fixture, "=/a"), "a NodeDataChanged /a [2] end\n");
    assert_string_equal(FIRE(fixture, "=/a"), "");
    add(fixture, &fixture->a, WATCH_EXISTS, "/a");
    assert_string_equal(FIRE(fixture, "-/a"), "a NodeDeleted /a [3] end\n");
    assert_int_equal(left(fixture), 0);
}

TEST(data_fires_on_set_and_is_used_up_by_delete, fixture, setup, teardown)
{
    add(fixture, &fixture->a, WATCH_DATA, "/a");
    assert_string_equal(FIRE(fixture, "+/a/x"), "");
    assert_string_equal(FIRE(fixture, "-/a/x"), "");
    assert_string_equal(FIRE(fixture, "=/a"), "a NodeDataChanged /a [1] end\n");
    assert_int_equal(left(fixture), 0);
    add(fixture, &fixture->a, WATCH_DATA, "/a");
    assert_string_equal(FIRE(fixture, "-/a"), "a NodeDeleted /a [2] end\n");
    assert_string_equal(FIRE(fixture, "+/a"), "");
    add(fixture, &fixture->a, WATCH_DATA, "/gone");
    assert_string_equal(FIRE(fixture, "+/gone"), "");
    assert_int_equal(left(fixture), 1);
}

TEST(children_fires_on_children_and_its_own_delete, fixture, setup, teardown)
{
    add(fixture, &fixture->a, WATCH_CHILDREN, "/a");
    assert_string_equal(FIRE(fixture, "=/a"), "");
    assert_string_equal(FIRE(fixture, "=/a/x"), "");
    assert_string_equal(FIRE(fixture, "+/a/x/y"), "");
    assert_string_equal(FIRE(fixture, "+/a/x"), "a NodeChildrenChanged /a [1] end\n");
    assert_int_equal(left(fixture), 0);
    add(fixture, &fixture->a, WATCH_CHILDREN, "/a");
    assert_string_equal(FIRE(fixture, "-/a/x"), "a NodeChildrenChanged /a [2] end\n");
    add(fixture, &fixture->a, WATCH_CHILDREN, "/a");
    assert_string_equal(FIRE(fixture, "-/a"), "a NodeDeleted /a [3] end\n");
    assert_int_equal(left(fixture), 0);
    add(fixture, &fixture->a, WATCH_CHILDREN, "/a");
    assert_string_equal(FIRE(fixture, "+/a"), "");
    add(fixture, &fixture->a, WATCH_CHILDREN, "/");
    assert_string_equal(FIRE(fixture, "+/b"), "a NodeChildrenChanged / [5] end\n");
}

TEST(persistent_fires_on_everything_at_its_path, fixture, setup, teardown)
{
    add(fixture, &fixture->a, WATCH_PERSISTENT, "/a");
    assert_string_equal(FIRE(fixture, "+/a"), "a NodeCreated /a [1] end\n");
    assert_string_equal(FIRE(fixture, "=/a"), "a NodeDataChanged /a [1] end\n");
    assert_string_equal(FIRE(fixture, "+/a/x"), "a NodeChildrenChanged /a [1] end\n");
    assert_string_equal(FIRE(fixture, "=/a/x"), "");
    assert_string_equal(FIRE(fixture, "+/a/x/y"), "");
    assert_string_equal(FIRE(fixture, "-/a/x"), "a NodeChildrenChanged /a [1] end\n");
    assert_string_equal(FIRE(fixture, "-/a"), "a NodeDeleted /a [1] end\n");
    assert_string_equal(FIRE(fixture, "+/a"), "a NodeCreated /a [1] end\n");
    assert_int_equal(left(fixture), 1);
}

TEST(recursive_fires_for_the_subtree_but_never_for_children, fixture, setup, teardown)
{
    add(fixture, &fixture->a, WATCH_RECURSIVE, "/a");
    assert_string_equal(FIRE(fixture, "+/a"), "a NodeCreated /a [1] end\n");
    assert_string_equal(FIRE(fixture, "+/a/x"), "a NodeCreated /a/x [1] end\n");
    assert_string_equal(FIRE(fixture, "+/a/x/y"), "a NodeCreated /a/x/y [1] end\n");
    assert_string_equal(FIRE(fixture, "=/a/x/y"), "a NodeDataChanged /a/x/y [1] end\n");
    assert_string_equal(FIRE(fixture, "-/a/x/y"), "a NodeDeleted /a/x/y [1] end\n");
    assert_string_equal(FIRE(fixture, "-/a/x", "-/a"),
                        "a NodeDeleted /a/x [1]\na NodeDeleted /a [1] end\n");
    assert_string_equal(FIRE(fixture, "+/ab"), "");
    assert_string_equal(FIRE(fixture, "+/a"), "a NodeCreated /a [1] end\n");
    assert_int_equal(left(fixture), 1);
}

TEST(recursive_on_the_root_sees_all, fixture, setup, teardown)
{
    add(fixture, &fixture->a, WATCH_RECURSIVE, "/");
    assert_string_equal(FIRE(fixture, "+/a"), "a NodeCreated /a [1] end\n");
    assert_string_equal(FIRE(fixture, "=/a/b/c"), "a NodeDataChanged /a/b/c [1] end\n");
    assert_string_equal(FIRE(fixture, "=/"), "a NodeDataChanged / [1] end\n");
}

/* ---- By change. ---- */

TEST(no_watch_fires_on_acls_and_sessions, fixture, setup, teardown)
{
    struct state_change closed = {.type = TXN_SESSION_CLOSE, .session = 5};
    struct state_changes changes = {.items = &closed, .count = 1};
    struct change_set *set = change_set_new(200, NULL, &changes);

    for (int kind = WATCH_DATA; kind <= WATCH_RECURSIVE; kind++) {
        add(fixture, &fixture->a, (enum watch_kind)kind, "/a");
    }
    assert_string_equal(FIRE(fixture, "!/a"), "");
    watch_fire(fixture->table, set, NULL);
    assert_string_equal(kit_take(&fixture->log), "");
    assert_int_equal(left(fixture), 5);
    change_set_unref(set);
}

TEST(create_fires_at_the_znode_then_at_the_parent, fixture, setup, teardown)
{
    add(fixture, &fixture->a, WATCH_CHILDREN, "/a");
    add(fixture, &fixture->a, WATCH_EXISTS, "/a/x");
    add(fixture, &fixture->b, WATCH_RECURSIVE, "/a");
    add(fixture, &fixture->b, WATCH_PERSISTENT, "/a");
    assert_string_equal(FIRE(fixture, "+/a/x"), "a NodeCreated /a/x [2]\n"
                                                "b NodeCreated /a/x [1]\n"
                                                "a NodeChildrenChanged /a [1] end\n"
                                                "b NodeChildrenChanged /a [2] end\n");
}

TEST(delete_fires_data_then_child_watches_then_at_the_parent, fixture, setup, teardown)
{
    add(fixture, &fixture->b, WATCH_CHILDREN, "/a/x");
    add(fixture, &fixture->a, WATCH_DATA, "/a/x");
    add(fixture, &fixture->a, WATCH_CHILDREN, "/a");
    assert_string_equal(FIRE(fixture, "-/a/x"), "a NodeDeleted /a/x [1]\n"
                                                "b NodeDeleted /a/x [1] end\n"
                                                "a NodeChildrenChanged /a [2] end\n");
    assert_int_equal(left(fixture), 0);
}

TEST(the_end_of_a_session_fires_like_deletes, fixture, setup, teardown)
{
    add(fixture, &fixture->a, WATCH_DATA, "/m/1");
    add(fixture, &fixture->a, WATCH_CHILDREN, "/m");
    add(fixture, &fixture->b, WATCH_RECURSIVE, "/m");
    assert_string_equal(FIRE(fixture, "-/m/1", "-/m/2"), "a NodeDeleted /m/1 [1]\n"
                                                         "b NodeDeleted /m/1 [1]\n"
                                                         "a NodeChildrenChanged /m [2] end\n"
                                                         "b NodeDeleted /m/2 [1] end\n");
}

TEST(multi_fires_in_the_order_of_its_operations, fixture, setup, teardown)
{
    add(fixture, &fixture->a, WATCH_PERSISTENT, "/a");
    add(fixture, &fixture->b, WATCH_DATA, "/a");
    add(fixture, &fixture->b, WATCH_EXISTS, "/z");
    assert_string_equal(FIRE(fixture, "=/a", "+/a/x", "=/a", "-/a/x", "=/q"),
                        "b NodeDataChanged /a [1] end\n"
                        "a NodeDataChanged /a [1]\n"
                        "a NodeChildrenChanged /a [1]\n"
                        "a NodeDataChanged /a [1]\n"
                        "a NodeChildrenChanged /a [1] end\n");
}

TEST(a_one_shot_watch_fires_once_in_a_multi, fixture, setup, teardown)
{
    add(fixture, &fixture->a, WATCH_EXISTS, "/a");
    assert_string_equal(FIRE(fixture, "+/a", "=/a", "-/a"), "a NodeCreated /a [1] end\n");
    add(fixture, &fixture->a, WATCH_EXISTS, "/a");
    add(fixture, &fixture->a, WATCH_DATA, "/a");
    /* The second watch does not match the first event, but matches the second. */
    assert_string_equal(FIRE(fixture, "+/a", "=/a", "=/a"),
                        "a NodeCreated /a [2]\na NodeDataChanged /a [3] end\n");
}

/* ---- Collapse. ---- */

TEST(all_watches_of_an_owner_share_one_event, fixture, setup, teardown)
{
    add(fixture, &fixture->a, WATCH_RECURSIVE, "/");
    add(fixture, &fixture->a, WATCH_RECURSIVE, "/a");
    add(fixture, &fixture->a, WATCH_RECURSIVE, "/a/b");
    add(fixture, &fixture->a, WATCH_PERSISTENT, "/a/b");
    add(fixture, &fixture->a, WATCH_DATA, "/a/b");
    add(fixture, &fixture->a, WATCH_CHILDREN, "/a/b");
    assert_string_equal(FIRE(fixture, "=/a/b"), "a NodeDataChanged /a/b [5,4,3,1,2] end\n");
    assert_string_equal(FIRE(fixture, "-/a/b"), "a NodeDeleted /a/b [6,4,3,1,2] end\n");
    assert_int_equal(left(fixture), 4);
}

TEST(the_same_watch_twice_counts_once, fixture, setup, teardown)
{
    struct watch *first = add(fixture, &fixture->a, WATCH_DATA, "/a");

    fixture->zxid += 5;
    assert_ptr_equal(add(fixture, &fixture->a, WATCH_DATA, "/a"), first);
    assert_int_equal(first->start, 100);
    assert_ptr_not_equal(add(fixture, &fixture->a, WATCH_EXISTS, "/a"), first);
    assert_ptr_not_equal(add(fixture, &fixture->b, WATCH_DATA, "/a"), first);
    assert_int_equal(left(fixture), 3);
    assert_ptr_equal(watch_by_id(fixture->table, &fixture->a.owner, 1), first);
    assert_ptr_equal(watch_find(fixture->table, &fixture->a.owner, WATCH_DATA, slice_str("/a")),
                     first);
    assert_null(watch_by_id(fixture->table, &fixture->a.owner, 9));
    assert_null(watch_find(fixture->table, &fixture->b.owner, WATCH_EXISTS, slice_str("/a")));
}

/* ---- Rights, start and end of a watch. ---- */

TEST(an_unreadable_change_is_silent_but_uses_up_a_watch, fixture, setup, teardown)
{
    struct buf bytes;
    struct blob *acl;

    buf_init(&bytes, 1000);
    acl_put(&bytes, &(struct acl_entry){
                        .perms = ACL_READ, .scheme = slice_str("ip"), .id = slice_str("10.0.0.1")});
    acl = blob_new(buf_slice(&bytes));
    memcpy(fixture->b.who.address, "10.0.0.1", sizeof("10.0.0.1"));

    struct state_change items[] = {
        {.type = TXN_SET, .path = slice_str("/a")},
        {.type = TXN_DELETE, .path = slice_str("/a"), .acl = acl, .parent_acl = acl},
        {.type = TXN_CREATE, .path = slice_str("/a"), .acl = acl},
    };
    struct state_changes changes = {.items = items, .count = 3};
    struct change_set *set = change_set_new(200, NULL, &changes);

    for (struct kit_owner *owner = &fixture->a;; owner = &fixture->b) {
        add(fixture, owner, WATCH_RECURSIVE, "/");
        add(fixture, owner, WATCH_CHILDREN, "/a");
        if (owner == &fixture->b) {
            break;
        }
    }
    watch_fire(fixture->table, set, NULL);
    assert_string_equal(kit_take(&fixture->log), "a NodeDataChanged /a [1] end\n"
                                                 "b NodeDataChanged /a [1]\n"
                                                 "b NodeDeleted /a [2,1]\n"
                                                 "b NodeCreated /a [1] end\n");
    assert_int_equal(left(fixture), 2);
    change_set_unref(set);
    blob_unref(acl);
    buf_release(&bytes);
}

TEST(changes_up_to_its_start_do_not_fire_a_watch, fixture, setup, teardown)
{
    watch_add(fixture->table, &fixture->a.owner, WATCH_DATA, slice_str("/a"), 101);
    watch_add(fixture->table, &fixture->a.owner, WATCH_PERSISTENT, slice_str("/a"), 102);
    assert_string_equal(FIRE(fixture, "=/a"), "");
    assert_string_equal(FIRE(fixture, "=/a"), "a NodeDataChanged /a [1] end\n");
    assert_string_equal(FIRE(fixture, "=/a"), "a NodeDataChanged /a [2] end\n");
    watch_table_raise(fixture->table, 104);
    assert_string_equal(FIRE(fixture, "=/a"), "");
    assert_string_equal(FIRE(fixture, "=/a"), "a NodeDataChanged /a [2] end\n");
}

TEST(an_owner_has_limits, fixture, setup, teardown)
{
    struct watch_owner *owner = &fixture->a.owner;

    owner->count_max = 2;
    assert_non_null(add(fixture, &fixture->a, WATCH_DATA, "/a"));
    assert_non_null(add(fixture, &fixture->a, WATCH_DATA, "/b"));
    assert_null(add(fixture, &fixture->a, WATCH_DATA, "/c"));
    assert_non_null(add(fixture, &fixture->a, WATCH_DATA, "/a"));
    owner->count_max = 10;
    owner->bytes_max = 6;
    assert_null(add(fixture, &fixture->a, WATCH_DATA, "/cc"));
    assert_non_null(add(fixture, &fixture->a, WATCH_DATA, "/c"));
    watch_remove(fixture->table, watch_by_id(fixture->table, owner, 1));
    assert_int_equal(owner->count, 2);
    assert_int_equal(owner->bytes, 4);
    watch_owner_release(fixture->table, owner);
    assert_int_equal(left(fixture), 0);
}

TEST(a_held_watch_is_skipped_and_not_used_up, fixture, setup, teardown)
{
    struct watch *held = add(fixture, &fixture->a, WATCH_DATA, "/a");

    add(fixture, &fixture->a, WATCH_PERSISTENT, "/a");
    watch_hold(held);
    assert_string_equal(FIRE(fixture, "=/a"), "a NodeDataChanged /a [2] end\n");
    assert_int_equal(left(fixture), 2);
    fixture->a.holds = true;
    add(fixture, &fixture->a, WATCH_EXISTS, "/a");
    assert_string_equal(FIRE(fixture, "=/a", "-/a"), "");
    assert_int_equal(left(fixture), 3);
}

/* ---- One watch alone. ---- */

TEST(firing_one_watch_alone_gives_the_same_events, fixture, setup, teardown)
{
    struct change_set *set = KIT_SET(50, "+/a", "+/a/x", "=/q", "-/a/x", "-/a", "!/a");
    struct watch *persistent = add(fixture, &fixture->a, WATCH_PERSISTENT, "/a");
    struct watch *recursive = add(fixture, &fixture->a, WATCH_RECURSIVE, "/a");
    struct watch *exists = add(fixture, &fixture->a, WATCH_EXISTS, "/a");
    struct watch *other = add(fixture, &fixture->a, WATCH_DATA, "/b");

    assert_false(watch_fire_one(fixture->table, persistent, set, NULL));
    assert_string_equal(kit_take(&fixture->log), "a NodeCreated /a [1]\n"
                                                 "a NodeChildrenChanged /a [1]\n"
                                                 "a NodeChildrenChanged /a [1]\n"
                                                 "a NodeDeleted /a [1] end\n");
    assert_false(watch_fire_one(fixture->table, recursive, set, NULL));
    assert_string_equal(kit_take(&fixture->log), "a NodeCreated /a [2]\n"
                                                 "a NodeCreated /a/x [2]\n"
                                                 "a NodeDeleted /a/x [2]\n"
                                                 "a NodeDeleted /a [2] end\n");
    assert_true(watch_fire_one(fixture->table, exists, set, NULL));
    assert_string_equal(kit_take(&fixture->log), "a NodeCreated /a [3] end\n");
    assert_false(watch_fire_one(fixture->table, other, set, NULL));
    assert_string_equal(kit_take(&fixture->log), "");
    assert_int_equal(left(fixture), 4);
    change_set_unref(set);
}

TEST(firing_one_watch_alone_may_stop_midway, fixture, setup, teardown)
{
    struct change_set *set = KIT_SET(50, "=/a", "-/a");
    struct watch *data = add(fixture, &fixture->a, WATCH_DATA, "/a");

    fixture->a.holds = true;
    assert_false(watch_fire_one(fixture->table, data, set, NULL));
    assert_true(data->held);
    change_set_unref(set);
}

/* ---- Size. ---- */

static uint64_t fan_out_count;

static void count_event(void *ctx, struct watch_owner *owner, struct watch *hits,
                        const struct watch_event *event)
{
    (void)ctx;
    (void)owner;
    assert_true(event->last && hits->hit_next == NULL);
    fan_out_count++;
}

TEST(thousands_of_owners_at_one_path, fixture, setup, teardown)
{
    enum {
        OWNERS = 20000
    };
    struct watch_table *table = watch_table_new(count_event, NULL);
    struct kit_owner *owners = mem_zalloc(OWNERS, sizeof(*owners));
    struct change_set *set = KIT_SET(1, "-/a/b");

    fan_out_count = 0;
    for (size_t i = 0; i < OWNERS; i++) {
        kit_owner_init(&owners[i], 'x');
        watch_add(table, &owners[i].owner, i % 2 == 0 ? WATCH_DATA : WATCH_RECURSIVE,
                  slice_str(i % 2 == 0 ? "/a/b" : "/"), 0);
    }
    watch_fire(table, set, NULL);
    assert_int_equal(fan_out_count, OWNERS);
    assert_int_equal(watch_table_count(table), OWNERS / 2);
    for (size_t i = 0; i < OWNERS; i++) {
        watch_owner_release(table, &owners[i].owner);
    }
    watch_table_free(table);
    change_set_unref(set);
    mem_free(owners);
}

/* Those of every owner and kind, each once, and no others. */
TEST(the_watches_at_a_path_are_found, fixture, setup, teardown)
{
    const struct watch *want[] = {add(fixture, &fixture->a, WATCH_EXISTS, "/x"),
                                  add(fixture, &fixture->b, WATCH_EXISTS, "/x"),
                                  add(fixture, &fixture->a, WATCH_RECURSIVE, "/x")};
    const struct watch *watch = NULL;

    (void)add(fixture, &fixture->a, WATCH_EXISTS, "/x/y");
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        watch = watch_at(fixture->table, slice_str("/x"), watch);
        assert_ptr_equal(watch, want[i]);
    }
    assert_null(watch_at(fixture->table, slice_str("/x"), watch));
    assert_null(watch_at(fixture->table, slice_str("/none"), NULL));
}

TEST(names, fixture, setup, teardown)
{
    const struct op_field *field = op_field_find(ops_by_id(OP_WATCH), slice_str("kind"));
    struct op_args args;
    const char *why = NULL;

    for (int i = WATCH_DATA; i < WATCH_KINDS; i++) {
        const char *name = watch_kind_name((enum watch_kind)i);

        assert_int_equal(op_field_parse(field, slice_str(name), &args, &why), ERR_OK);
        assert_int_equal(args.kind, i);
    }
    assert_int_equal(op_field_parse(field, slice_str("Data"), &args, &why), ERR_BAD_ARGUMENTS);
    assert_int_equal(op_field_parse(field, slice_str(""), &args, &why), ERR_BAD_ARGUMENTS);
    assert_string_equal(watch_event_name(WATCH_CHILDREN_CHANGED), "NodeChildrenChanged");
}
