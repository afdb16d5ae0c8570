/* The difference: what a subscriber sends when the window does not reach back to `since`. */
#include "base/mem.h"
#include "server/op/acl.h"
#include "tests/lib/state_kit.h"
#include "tests/unit/subscribe_kit.h"

#include <stdio.h>

static void setup(void)
{
    subscribe_kit_setup(1);
}

/* A resumption that the window does not reach: two more transactions elsewhere see to that. */
static const char *resume(enum watch_kind kind, const char *path, zxid_t since)
{
    APPLY("=/zookeeper");
    APPLY("=/zookeeper");
    assert_int_equal(add_since(&fixture.a, kind, path, since), ERR_OK);
    assert_int_equal(fixture.result.zxid, fixture.world.zxid);
    return events();
}

/* ---- One-shot watches: ZooKeeper's setWatches, row by row. ---- */

TEST(data_of_a_deleted_znode, setup, teardown)
{
    APPLY("+/a");
    APPLY("-/a");
    assert_string_equal(resume(WATCH_DATA, "/a", 1), "a NodeDeleted /a [1] diff end\n");
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_DIFFED);
    assert_true(fixture.result.used_up);
    assert_int_equal(left(), 0);
}

TEST(data_that_has_changed, setup, teardown)
{
    APPLY("+/a");
    APPLY("=/a=x");
    assert_string_equal(resume(WATCH_DATA, "/a", 1), "a NodeDataChanged /a [1] ='x' diff end\n");
    assert_true(fixture.result.used_up);
    APPLY("-/a");
    APPLY("+/a=y");
    assert_string_equal(resume(WATCH_DATA, "/a", 2), "a NodeDataChanged /a [2] ='y' diff end\n");
    assert_int_equal(left(), 0);
}

/* Events show the same data as reads do: the usage. A change of the usage alone is no event. */
TEST(stats_of_a_quota_as_they_are_read, setup, teardown)
{
    APPLY("+/a=xy");
    APPLY("+/zookeeper/quota/a");
    APPLY("+/zookeeper/quota/a/zookeeper_limits=count");
    APPLY("+/zookeeper/quota/a/zookeeper_stats=mine");
    assert_string_equal(resume(WATCH_EXISTS, "/zookeeper/quota/a/zookeeper_stats", 3),
                        "a NodeCreated /zookeeper/quota/a/zookeeper_stats [1] "
                        "='count=1,bytes=2' diff end\n");
    assert_int_equal(add(&fixture.a, WATCH_DATA, "/zookeeper/quota/a/zookeeper_stats"), ERR_OK);
    APPLY("=/a=xyz");
    pump(ZXID_MAX);
    assert_string_equal(events(), "");
    APPLY("=/zookeeper/quota/a/zookeeper_stats=mine");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDataChanged /zookeeper/quota/a/zookeeper_stats [2] "
                                  "='count=1,bytes=3' end\n");
}

TEST(data_that_has_not_changed, setup, teardown)
{
    APPLY("+/a");
    APPLY("+/a/x");
    assert_string_equal(resume(WATCH_DATA, "/a", 1), "");
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_DIFFED);
    assert_false(fixture.result.used_up);
    APPLY("=/a");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDataChanged /a [1] end\n");
}

TEST(exists_of_a_created_znode, setup, teardown)
{
    APPLY("+/b");
    APPLY("+/a=x");
    assert_string_equal(resume(WATCH_EXISTS, "/a", 1), "a NodeCreated /a [1] ='x' diff end\n");
    assert_true(fixture.result.used_up);
}

TEST(exists_of_a_znode_that_existed, setup, teardown)
{
    APPLY("+/a");
    assert_string_equal(resume(WATCH_EXISTS, "/a", 1), "");
    APPLY("=/a=x");
    pump(ZXID_MAX);
    events();
    assert_string_equal(resume(WATCH_EXISTS, "/a", 1), "a NodeDataChanged /a [2] ='x' diff end\n");
}

TEST(exists_of_a_znode_absent_all_along, setup, teardown)
{
    APPLY("+/a");
    assert_string_equal(resume(WATCH_EXISTS, "/a/b/c", 1), "");
    assert_int_equal(left(), 1);
    APPLY("+/a/b", "+/a/b/c");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeCreated /a/b/c [1] end\n");
}

TEST(exists_of_a_znode_that_may_have_existed, setup, teardown)
{
    APPLY("+/a", "+/a/b", "+/a/b/c");
    APPLY("-/a/b/c", "-/a/b");
    assert_string_equal(resume(WATCH_EXISTS, "/a/b/c", 1), "a NodeDeleted /a/b/c [1] diff end\n");
    /* Created and deleted again during the absence: ZooKeeper would send nothing. */
    APPLY("+/q");
    APPLY("-/q");
    assert_string_equal(resume(WATCH_EXISTS, "/q", 3), "a NodeDeleted /q [2] diff end\n");
}

TEST(children_of_a_deleted_znode, setup, teardown)
{
    APPLY("+/a");
    APPLY("-/a");
    assert_string_equal(resume(WATCH_CHILDREN, "/a", 1), "a NodeDeleted /a [1] diff end\n");
    assert_true(fixture.result.used_up);
}

TEST(children_that_have_changed, setup, teardown)
{
    APPLY("+/a", "+/a/x");
    APPLY("-/a/x");
    assert_string_equal(resume(WATCH_CHILDREN, "/a", 1), "a NodeChildrenChanged /a [1] diff end\n");
    assert_true(fixture.result.used_up);
}

TEST(children_that_have_not_changed, setup, teardown)
{
    APPLY("+/a", "+/a/x");
    APPLY("=/a");
    APPLY("=/a/x");
    assert_string_equal(resume(WATCH_CHILDREN, "/a", 1), "");
    APPLY("-/a/x");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeChildrenChanged /a [1] end\n");
}

/* ---- Persistent watches: ZooKeeper replays nothing. ---- */

TEST(a_persistent_watch_gets_data_and_children, setup, teardown)
{
    APPLY("+/a");
    APPLY("+/a/x");
    APPLY("=/a=1");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 1),
                        "a NodeChildrenChanged /a [1] diff\n"
                        "a NodeDataChanged /a [1] ='1' diff end\n");
    assert_int_equal(left(), 1);
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 2),
                        "a NodeDataChanged /a [1] ='1' diff end\n");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 3), "");
}

TEST(a_persistent_watch_gets_a_new_znode_and_its_children, setup, teardown)
{
    APPLY("+/b");
    APPLY("+/a");
    APPLY("=/a=1");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 1), "a NodeCreated /a [1] ='1' diff end\n");
    APPLY("-/a");
    APPLY("+/a", "+/a/x");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 3),
                        "a NodeCreated /a [1] diff\na NodeChildrenChanged /a [1] diff end\n");
}

TEST(a_persistent_watch_gets_a_deletion, setup, teardown)
{
    APPLY("+/a");
    APPLY("-/a");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 1), "a NodeDeleted /a [1] diff end\n");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 2), "");
    assert_int_equal(left(), 1);
}

/* ---- Recursive watches. ---- */

TEST(a_recursive_watch_gets_the_subtree_in_the_order_of_zxids, setup, teardown)
{
    APPLY("+/a", "+/a/1", "+/a/2", "+/a/3", "+/ab");
    APPLY("=/a/3=x");
    APPLY("+/a/1/n", "=/ab");
    APPLY("-/a/2");
    assert_string_equal(resume(WATCH_RECURSIVE, "/a", 1),
                        "a NodeDataChanged /a/3 [1] ='x' diff\n"
                        "a NodeChildrenChanged /a/1 [1] diff\n"
                        "a NodeCreated /a/1/n [1] diff\n"
                        "a NodeChildrenChanged /a [1] diff end\n");
    assert_string_equal(resume(WATCH_RECURSIVE, "/a", 4), "");
}

TEST(a_recursive_watch_gets_a_new_subtree_znode_by_znode, setup, teardown)
{
    APPLY("+/a", "+/a/old", "+/a/old/x");
    APPLY("-/a/old/x", "-/a/old", "-/a");
    APPLY("+/a=new", "+/a/b");
    APPLY("+/a/b/c");
    assert_string_equal(resume(WATCH_RECURSIVE, "/a", 1), "a NodeCreated /a [1] ='new' diff\n"
                                                          "a NodeCreated /a/b [1] diff\n"
                                                          "a NodeCreated /a/b/c [1] diff end\n");
}

TEST(a_recursive_watch_gets_the_deletion_of_its_root, setup, teardown)
{
    APPLY("+/a", "+/a/x");
    APPLY("-/a/x", "-/a");
    assert_string_equal(resume(WATCH_RECURSIVE, "/a", 1), "a NodeDeleted /a [1] diff end\n");
    assert_int_equal(left(), 1);
    APPLY("+/a");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeCreated /a [1] end\n");
}

TEST(a_recursive_watch_on_the_root_walks_everything, setup, teardown)
{
    APPLY("+/a");
    APPLY("+/b", "+/b/c");
    assert_string_equal(resume(WATCH_RECURSIVE, "/", 1),
                        "a NodeChildrenChanged / [1] diff\n"
                        "a NodeCreated /b [1] diff\n"
                        "a NodeCreated /b/c [1] diff\n"
                        "a NodeDataChanged /zookeeper [1] diff end\n");
}

/* ---- Bounds and rights. ---- */

TEST(unreadable_znodes_are_left_out, setup, teardown)
{
    struct buf acl;

    buf_init(&acl, 1000);
    acl_put(&acl, &(struct acl_entry){
                      .perms = ACL_READ, .scheme = slice_str("ip"), .id = slice_str("10.0.0.1")});
    APPLY("+/a");
    kit_begin(&fixture.world.txn, KIT_TIME_MS);
    txn_put(&fixture.world.txn, &(struct txn_effect){.type = TXN_CREATE,
                                                     .path = slice_str("/a/secret"),
                                                     .data = slice_str("x"),
                                                     .acl = buf_slice(&acl),
                                                     .creates = 1});
    txn_put(&fixture.world.txn, &(struct txn_effect){.type = TXN_CREATE,
                                                     .path = slice_str("/a/secret/open"),
                                                     .data = slice_str("y"),
                                                     .creates = 1});
    kit_world_apply_txn(&fixture.world);
    assert_string_equal(resume(WATCH_RECURSIVE, "/a", 1),
                        "a NodeChildrenChanged /a [1] diff\n"
                        "a NodeCreated /a/secret/open [1] ='y' diff end\n");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a/secret", 1), "");
    /* Used up like any other, and as silently as the withheld event. */
    assert_string_equal(resume(WATCH_EXISTS, "/a/secret", 1), "");
    assert_true(fixture.result.used_up);
    memcpy(fixture.a.who.address, "10.0.0.1", sizeof("10.0.0.1"));
    assert_string_equal(resume(WATCH_PERSISTENT, "/a/secret", 1),
                        "a NodeCreated /a/secret [2] ='x' diff\n"
                        "a NodeChildrenChanged /a/secret [2] diff end\n");
    buf_release(&acl);
}

/* `count` znodes below /big, in transactions of at most 1,000. */
static void grow(size_t count)
{
    char path[64];

    APPLY("+/big");
    for (size_t i = 0; i < count; i++) {
        if (fixture.world.txn.len == 0) {
            kit_begin(&fixture.world.txn, KIT_TIME_MS);
        }
        snprintf(path, sizeof(path), "/big/%07zu", i);
        txn_put(&fixture.world.txn, &(struct txn_effect){.type = TXN_CREATE,
                                                         .flags = TXN_NULL_DATA,
                                                         .path = slice_str(path),
                                                         .creates = (uint32_t)i + 1});
        if (i % 1000 == 999 || i + 1 == count) {
            kit_world_apply_txn(&fixture.world);
        }
    }
}

TEST(a_walk_continues_over_many_slices, setup, teardown)
{
    enum {
        COUNT = 4500
    };

    const char *line;
    size_t lines = 0;

    grow(COUNT);
    APPLY("=/big/0000000=first");
    APPLY("=/big/0001000=x");
    APPLY("=/big/0004499=last");
    line = resume(WATCH_RECURSIVE, "/big", fixture.world.zxid - 3);
    assert_string_equal(line, "a NodeDataChanged /big/0000000 [1] ='first' diff\n"
                              "a NodeDataChanged /big/0001000 [1] ='x' diff\n"
                              "a NodeDataChanged /big/0004499 [1] ='last' diff end\n");
    assert_int_equal(add_since(&fixture.a, WATCH_RECURSIVE, "/big", 1), ERR_OK);
    for (size_t i = 0; i < fixture.log.len; i++) {
        lines += fixture.log.data[i] == '\n';
    }
    assert_int_equal(lines, COUNT + 1);
    buf_clear(&fixture.log);
}

TEST(too_large_a_walk_is_a_gap, setup, teardown)
{
    grow(SUBSCRIBE_DIFF_NODES_MAX);
    assert_string_equal(resume(WATCH_RECURSIVE, "/big", 1), "");
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_GAP);
    assert_int_equal(left(), 1);
    APPLY("=/big/0000007=x");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDataChanged /big/0000007 [1] ='x' end\n");
    assert_string_equal(resume(WATCH_PERSISTENT, "/big", fixture.world.zxid - 1), "");
}
