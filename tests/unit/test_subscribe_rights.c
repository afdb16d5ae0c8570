/* An event whose znode was readable when it happened and is not when it is sent goes to no client
 * that may not read the znode by then. Also the cost of a watch that resumes while other paths were
 * busy. */
#include "server/watch/subscribe_int.h"
#include "tests/unit/subscribe_kit.h"

#include <stdio.h>

enum {
    SETS_MAX = 20,
    FOREIGN = 3000
};

static void setup(void)
{
    subscribe_kit_setup(SETS_MAX);
}

static void setup_large(void)
{
    subscribe_kit_setup(2 * FOREIGN);
}

/* The events of a watch that resumes with `since`. */
static const char *resume(enum watch_kind kind, const char *path, zxid_t since)
{
    assert_int_equal(add_since(&fixture.a, kind, path, since), ERR_OK);
    return events();
}

static void may_read_all(void)
{
    memcpy(fixture.a.who.address, "10.0.0.1", sizeof("10.0.0.1"));
}

/* ---- Resumed. ---- */

/* Each kind of watch, behind each way in which a znode is closed. */
TEST(unreadable_values_are_not_replayed, setup, teardown)
{
    static const enum watch_kind kinds[] = {WATCH_DATA, WATCH_EXISTS, WATCH_PERSISTENT,
                                            WATCH_RECURSIVE};

    APPLY("+/a");
    APPLY("=/a=secret");
    APPLY("!/a");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        assert_string_equal(resume(kinds[i], "/a", 1), "");
        assert_int_equal(fixture.result.resumed, SUBSCRIBE_REPLAYED);
        /* Used up like any other, and as silently. */
        assert_int_equal(fixture.result.used_up, watch_is_one_shot(kinds[i]));
    }
    assert_string_equal(resume(WATCH_RECURSIVE, "/", 1), "");
    APPLY("!/a=open");
    assert_string_equal(resume(WATCH_DATA, "/a", 1), "a NodeDataChanged /a [6] ='secret' end\n");
}

TEST(a_client_with_the_right_to_read_gets_the_events, setup, teardown)
{
    APPLY("+/a");
    APPLY("=/a=secret");
    APPLY("!/a");
    may_read_all();
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 1),
                        "a NodeDataChanged /a [1] ='secret' end\n");
}

/* Written while closed, opened afterwards: the ACL at the time of the write counts as well. */
TEST(a_change_that_was_unreadable_then_is_not_sent_now, setup, teardown)
{
    APPLY("+/a");
    APPLY("!/a");
    APPLY("=/a=secret");
    APPLY("!/a=open");
    APPLY("=/a=news");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 1),
                        "a NodeDataChanged /a [1] ='news' end\n");
}

TEST(a_znode_closed_in_two_steps_is_closed, setup, teardown)
{
    APPLY("+/a");
    APPLY("=/a=secret");
    APPLY("!/a");
    APPLY("!/a=open");
    APPLY("!/a");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 1), "");
}

TEST(a_deleted_znode_has_its_last_acl, setup, teardown)
{
    APPLY("+/a");
    APPLY("=/a=secret");
    APPLY("!/a");
    APPLY("-/a");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 1), "");
    assert_string_equal(resume(WATCH_RECURSIVE, "/", 1), "");
}

/* The newest ACL of the path: this one is open, the next one is not. */
TEST(a_znode_created_again_has_its_new_acl, setup, teardown)
{
    APPLY("+/a=old");
    APPLY("-/a");
    APPLY("+/a=new", "!/a");
    assert_string_equal(resume(WATCH_EXISTS, "/a", 0), "");
    APPLY("-/a");
    APPLY("+/a=newer");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 4), "a NodeCreated /a [2] ='newer' end\n");
}

/* The last remaining event marks the end of its transaction. */
TEST(a_multi_ends_with_its_last_readable_event, setup, teardown)
{
    APPLY("+/a", "+/b", "+/c");
    APPLY("=/a=1", "=/b=2", "=/c=3");
    APPLY("!/c");
    assert_string_equal(resume(WATCH_RECURSIVE, "/", 1),
                        "a NodeDataChanged /a [1] ='1'\na NodeDataChanged /b [1] ='2' end\n");
    APPLY("=/b=4", "!/b");
    assert_string_equal(resume(WATCH_RECURSIVE, "/", 3), "");
}

TEST(children_of_an_unreadable_parent_are_not_sent, setup, teardown)
{
    APPLY("+/a");
    APPLY("+/a/x=secret");
    APPLY("!/a");
    assert_string_equal(resume(WATCH_CHILDREN, "/a", 1), "");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 1), "");
    /* Lists are not inherited. */
    assert_string_equal(resume(WATCH_RECURSIVE, "/a", 1), "a NodeCreated /a/x [3] ='secret' end\n");
}

/* ---- Later events: held, behind, live. ---- */

TEST(held_events_are_checked_again, setup, teardown)
{
    APPLY("+/a");
    assert_int_equal(add(&fixture.a, WATCH_PERSISTENT, "/a"), ERR_OK);
    fixture.a.holds = true;
    APPLY("=/a=secret");
    pump(ZXID_MAX);
    fixture.a.holds = false;
    APPLY("!/a");
    pump(ZXID_MAX);
    assert_int_equal(
        subscribe_catch_up(fixture.subscriber, find(&fixture.a, 1), 1, &fixture.result), ERR_OK);
    assert_string_equal(events(), "");
    APPLY("!/a=open");
    APPLY("=/a=news");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='news' end\n");
}

TEST(late_events_are_checked_when_they_are_sent, setup, teardown)
{
    APPLY("+/a", "+/b");
    assert_int_equal(add(&fixture.a, WATCH_RECURSIVE, "/"), ERR_OK);
    APPLY("=/a=secret", "=/b=1");
    APPLY("=/a=secret");
    APPLY("=/b=2");
    APPLY("!/a");
    assert_int_equal(pump(ZXID_MAX), 5);
    assert_string_equal(events(), "a NodeDataChanged /b [1] ='1' end\n"
                                  "a NodeDataChanged /b [1] ='2' end\n");
}

static bool closed_meanwhile;

static void close_meanwhile(void *ctx, zxid_t zxid, const struct state_change *change)
{
    (void)ctx;
    (void)change;
    if (zxid == 2 && !closed_meanwhile) {
        closed_meanwhile = true;
        APPLY("!/a");
    }
}

/* The subscriber reads several sets at a time, and checks each when its turn comes. */
TEST(an_acl_that_changes_while_sets_are_sent_counts, setup, teardown)
{
    const struct subscribe_sink sink = {
        .on_event = on_event, .on_change = close_meanwhile, .on_lost = on_lost};
    struct subscriber *other = subscriber_new(fixture.world.view, fixture.world.window, &sink);
    struct subscribe_request request = watch_of(WATCH_PERSISTENT, "/a");

    closed_meanwhile = false;
    APPLY("+/a");
    assert_int_equal(subscribe_add(other, &fixture.b.owner, &request, &fixture.result), ERR_OK);
    APPLY("+/b");
    APPLY("=/a=secret");
    assert_int_equal(subscribe_pump(other, ZXID_MAX, SIZE_MAX), 3);
    assert_true(closed_meanwhile);
    assert_string_equal(events(), "");
    watch_owner_release(subscribe_table(other), &fixture.b.owner);
    subscriber_free(other);
}

/* ---- The difference. ---- */

static void fill_window(void)
{
    for (int i = 0; i < SETS_MAX; i++) {
        APPLY("=/");
    }
}

TEST(unreadable_values_are_not_in_a_difference, setup, teardown)
{
    APPLY("+/a");
    APPLY("=/a=secret", "+/a/x");
    fill_window();
    APPLY("!/a");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 1), "");
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_DIFFED);
    assert_string_equal(resume(WATCH_DATA, "/a", 1), "");
}

TEST(a_known_deletion_is_not_in_a_difference, setup, teardown)
{
    APPLY("+/a");
    APPLY("!/a");
    fill_window();
    APPLY("-/a");
    assert_string_equal(resume(WATCH_PERSISTENT, "/a", 1), "");
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_DIFFED);
    fill_window();
    /* Its last ACL is unknown: the event says only that the znode does not exist. */
    assert_string_equal(resume(WATCH_EXISTS, "/a", 1), "a NodeDeleted /a [2] diff end\n");
}

static void close_between(void *ctx)
{
    (void)ctx;
    APPLY("!/d/a");
    fixture.subscriber->between = NULL;
}

/* A walk takes many holds of the lock: what it saw first may be closed at its end. */
TEST(a_znode_closed_during_a_walk_is_not_sent, setup, teardown)
{
    APPLY("+/d");
    APPLY("+/d/a=secret", "+/d/b=1", "+/d/c=2");
    fill_window();
    fixture.subscriber->slice_nodes = 2;
    fixture.subscriber->between = close_between;
    assert_string_equal(resume(WATCH_RECURSIVE, "/d", 1),
                        "a NodeChildrenChanged /d [1] diff\na NodeCreated /d/b [1] ='1' diff\n"
                        "a NodeCreated /d/c [1] ='2' diff end\n");
}

/* ---- Cost. ---- */

TEST(a_quiet_watch_examines_no_foreign_change, setup_large, teardown)
{
    struct missed missed;
    struct missed_by by = {
        .owner = &fixture.a.owner, .kind = WATCH_PERSISTENT, .path = slice_str("/quiet")};

    APPLY("+/quiet", "+/busy");
    for (int i = 0; i < FOREIGN; i++) {
        APPLY("=/busy");
    }
    APPLY("=/quiet=x");
    pump(ZXID_MAX);
    by.since = 1;
    missed_init(&missed, SUBSCRIBE_REPLAYED, 1);
    assert_int_equal(missed_gather(fixture.subscriber, &by, &missed), ERR_OK);
    assert_int_equal(missed.resumed, SUBSCRIBE_REPLAYED);
    assert_int_equal(missed.set_count, 1);
    assert_int_equal(missed.looked, 1);
    missed_release(&missed);
    /* Also recursive watches, watches above, and one-shot watches. */
    assert_string_equal(resume(WATCH_RECURSIVE, "/quiet", 1),
                        "a NodeDataChanged /quiet [1] ='x' end\n");
    by.kind = WATCH_CHILDREN;
    by.path = slice_str("/");
    missed_init(&missed, SUBSCRIBE_REPLAYED, 1);
    assert_int_equal(missed_gather(fixture.subscriber, &by, &missed), ERR_OK);
    assert_int_equal(missed.looked, 0);
    missed_release(&missed);
}
