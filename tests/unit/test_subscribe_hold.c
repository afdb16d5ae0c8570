/* Watches whose owner takes no more for a while: they catch up, and each event comes once. */
#include "tests/lib/state_kit.h"
#include "tests/unit/subscribe_kit.h"

enum {
    SETS_MAX = 4 /* Of the window. */
};

static void setup(void)
{
    subscribe_kit_setup(SETS_MAX);
}

TEST(a_held_watch_catches_up_from_where_it_stopped, setup, teardown)
{
    struct watch *recursive;
    struct watch *data;

    APPLY("+/a");
    assert_int_equal(add(&fixture.a, WATCH_RECURSIVE, "/"), ERR_OK);
    recursive = find(&fixture.a, fixture.result.id);
    assert_int_equal(add(&fixture.a, WATCH_DATA, "/a"), ERR_OK);
    data = find(&fixture.a, fixture.result.id);
    fixture.a.holds = true;
    APPLY("=/a=1", "+/a/x");
    APPLY("=/a=2");
    pump(ZXID_MAX);
    assert_true(recursive->held && data->held);
    fixture.a.holds = false;
    APPLY("=/a=3");
    pump(ZXID_MAX);
    assert_string_equal(events(), "");
    assert_int_equal(subscribe_catch_up(fixture.subscriber, recursive, 1, &fixture.result), ERR_OK);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='1'\n"
                                  "a NodeCreated /a/x [1] end\n"
                                  "a NodeDataChanged /a [1] ='2' end\n"
                                  "a NodeDataChanged /a [1] ='3' end\n");
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_REPLAYED);
    assert_int_equal(subscribe_catch_up(fixture.subscriber, data, 1, &fixture.result), ERR_OK);
    assert_string_equal(events(), "a NodeDataChanged /a [2] ='1' end\n");
    assert_true(fixture.result.used_up);
    APPLY("-/a/x");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDeleted /a/x [1] end\n");
}

TEST(a_watch_may_be_held_again_while_it_catches_up, setup, teardown)
{
    struct watch *watch;

    assert_int_equal(add(&fixture.a, WATCH_RECURSIVE, "/"), ERR_OK);
    watch = find(&fixture.a, fixture.result.id);
    watch_hold(watch);
    APPLY("+/a");
    APPLY("+/b");
    pump(ZXID_MAX);
    fixture.a.holds = true;
    assert_int_equal(subscribe_catch_up(fixture.subscriber, watch, 0, &fixture.result), ERR_OK);
    assert_true(watch->held);
    fixture.a.holds = false;
    assert_string_equal(events(), "");
    assert_int_equal(subscribe_catch_up(fixture.subscriber, watch, 0, &fixture.result), ERR_OK);
    assert_string_equal(events(), "a NodeCreated /a [1] end\na NodeCreated /b [1] end\n");
}

TEST(a_watch_may_be_held_while_it_resumes, setup, teardown)
{
    struct watch *watch;

    APPLY("+/a");
    APPLY("+/b");
    fixture.a.holds = true;
    assert_int_equal(add_since(&fixture.a, WATCH_EXISTS, "/b", 0), ERR_OK);
    assert_false(fixture.result.used_up);
    fixture.a.holds = false;
    APPLY("=/b");
    pump(ZXID_MAX);
    assert_string_equal(events(), "");
    watch = find(&fixture.a, fixture.result.id);
    assert_int_equal(subscribe_catch_up(fixture.subscriber, watch, 1, &fixture.result), ERR_OK);
    assert_string_equal(events(), "a NodeCreated /b [1] end\n");
    assert_true(fixture.result.used_up);
}

TEST(an_interrupted_difference_is_sent_again_completely, setup, teardown)
{
    struct watch *watch;

    APPLY("+/a", "+/b");
    APPLY("-/b");
    for (int i = 0; i < SETS_MAX; i++) {
        APPLY("=/a");
    }
    APPLY("+/c");
    fixture.a.holds = true;
    /* The znode is certainly gone at 7; the change itself is older. */
    assert_int_equal(add_since(&fixture.a, WATCH_EXISTS, "/b", 1), ERR_OK);
    fixture.a.holds = false;
    watch = find(&fixture.a, fixture.result.id);
    assert_int_equal(subscribe_catch_up(fixture.subscriber, watch, 6, &fixture.result), ERR_OK);
    assert_string_equal(events(), "a NodeDeleted /b [1] diff end\n");
    assert_true(fixture.result.used_up);
}

/* A client that states what it has gets the rest now, and not again when the watch catches up. */
TEST(a_held_watch_that_is_registered_again_is_not_held, setup, teardown)
{
    struct watch *watch;

    assert_int_equal(add(&fixture.a, WATCH_RECURSIVE, "/"), ERR_OK);
    watch = find(&fixture.a, fixture.result.id);
    watch_hold(watch);
    APPLY("+/a");
    APPLY("+/b");
    pump(ZXID_MAX);
    assert_int_equal(add_since(&fixture.a, WATCH_RECURSIVE, "/", 1), ERR_OK);
    assert_string_equal(events(), "a NodeCreated /b [1] end\n");
    assert_int_equal(subscribe_catch_up(fixture.subscriber, watch, 0, &fixture.result), ERR_OK);
    assert_string_equal(events(), "");
    APPLY("+/c");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeCreated /c [1] end\n");
}
