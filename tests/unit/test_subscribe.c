/* A subscriber: order, the exact start of a watch, and missed changes from the window. */
#include "server/watch/subscribe_int.h"
#include "tests/lib/state_kit.h"
#include "tests/unit/subscribe_kit.h"

enum {
    SETS_MAX = 4 /* Of the window. */
};

static void setup(void)
{
    subscribe_kit_setup(SETS_MAX);
}

/* ---- Order. ---- */

TEST(pump_stops_at_exactly_the_bound, setup, teardown)
{
    assert_int_equal(add(&fixture.a, WATCH_RECURSIVE, "/"), ERR_OK);
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_FRESH);
    APPLY("+/a");
    APPLY("+/b");
    APPLY("+/c");
    assert_int_equal(pump(2), 2);
    assert_string_equal(events(), "a NodeCreated /a [1] end\na NodeCreated /b [1] end\n");
    assert_int_equal(pump(1), 2);
    assert_int_equal(pump(ZXID_MAX), 3);
    assert_string_equal(events(), "a NodeCreated /c [1] end\n");
    assert_int_equal(pump(ZXID_MAX), 3);
    assert_string_equal(events(), "");
}

TEST(pump_does_no_more_than_asked, setup, teardown)
{
    assert_int_equal(add(&fixture.a, WATCH_RECURSIVE, "/"), ERR_OK);
    APPLY("+/a");
    APPLY("+/b", "+/c");
    APPLY("+/d");
    assert_int_equal(subscribe_pump(fixture.subscriber, ZXID_MAX, 2), 2);
    assert_string_equal(events(), "a NodeCreated /a [1] end\n"
                                  "a NodeCreated /b [1]\na NodeCreated /c [1] end\n");
    assert_int_equal(subscribe_pump(fixture.subscriber, ZXID_MAX, 2), 3);
    assert_string_equal(events(), "a NodeCreated /d [1] end\n");
}

TEST(pump_passes_records_without_changes, setup, teardown)
{
    APPLY("+/a");
    window_skip(fixture.world.window, 9);
    assert_int_equal(pump(5), 5);
    assert_int_equal(pump(ZXID_MAX), 9);
}

TEST(changes_come_before_their_events, setup, teardown)
{
    struct state_change items[] = {
        {.type = TXN_DELETE, .path = slice_str("/e")},
        {.type = TXN_SESSION_CLOSE, .session = 5},
    };
    struct state_changes changes = {.items = items, .count = 2};

    assert_int_equal(add(&fixture.a, WATCH_PERSISTENT, "/e"), ERR_OK);
    window_append(fixture.world.window, change_set_new(7, NULL, &changes));
    pump(ZXID_MAX);
    assert_string_equal(events(), "7 closed 5\na NodeDeleted /e [1] end\n");
}

/* ---- The start of a watch. ---- */

TEST(a_fresh_watch_begins_now_after_the_events_of_the_others, setup, teardown)
{
    assert_int_equal(add(&fixture.b, WATCH_PERSISTENT, "/a"), ERR_OK);
    APPLY("+/a");
    assert_int_equal(add(&fixture.a, WATCH_PERSISTENT, "/a"), ERR_OK);
    assert_int_equal(fixture.result.zxid, 1);
    assert_string_equal(events(), "b NodeCreated /a [1] end\n");
    APPLY("=/a");
    pump(ZXID_MAX);
    assert_string_equal(events(), "b NodeDataChanged /a [1] end\na NodeDataChanged /a [1] end\n");
}

TEST(a_watch_with_a_read_begins_at_the_read, setup, teardown)
{
    APPLY("+/a");
    APPLY("=/a=read");
    /* The answer was read; the next change comes before the watch is in place. */
    APPLY("=/a=next");
    assert_int_equal(add_at(&fixture.a, WATCH_DATA, "/a", 2), ERR_OK);
    assert_int_equal(fixture.result.zxid, 2);
    assert_int_equal(subscribe_at(fixture.subscriber), 2);
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='next' end\n");
}

TEST(a_watch_with_a_read_gets_what_was_pumped_since, setup, teardown)
{
    APPLY("+/a");
    APPLY("=/a=next");
    pump(ZXID_MAX);
    assert_int_equal(add_at(&fixture.a, WATCH_DATA, "/a", 1), ERR_OK);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='next' end\n");
    assert_true(fixture.result.used_up);
    assert_int_equal(fixture.result.id, 1);
    assert_int_equal(left(), 0);
}

TEST(a_read_of_a_skipped_record_needs_no_window, setup, teardown)
{
    APPLY("+/a");
    /* The state has moved on, and the window does not have the change yet. */
    assert_int_equal(add_at(&fixture.a, WATCH_DATA, "/a", 5), ERR_OK);
    assert_int_equal(fixture.result.zxid, 5);
    window_skip(fixture.world.window, 6);
    fixture.world.zxid = 6;
    APPLY("=/a");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDataChanged /a [1] end\n");
}

TEST(watches_of_one_owner_begin_at_their_own_reads, setup, teardown)
{
    APPLY("+/a");
    assert_int_equal(add_at(&fixture.a, WATCH_DATA, "/a", 1), ERR_OK);
    assert_int_equal(add_at(&fixture.a, WATCH_PERSISTENT, "/a", 2), ERR_OK);
    APPLY("=/a=2");
    APPLY("=/a=3");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='2' end\n"
                                  "a NodeDataChanged /a [2] ='3' end\n");
}

TEST(a_watch_registered_again_does_not_repeat_a_transaction, setup, teardown)
{
    APPLY("+/a");
    assert_int_equal(add_at(&fixture.a, WATCH_DATA, "/a", 1), ERR_OK);
    APPLY("=/a=x", "=/a=y");
    pump(2);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='x' end\n");
    assert_int_equal(add_at(&fixture.a, WATCH_DATA, "/a", 2), ERR_OK);
    pump(ZXID_MAX);
    assert_string_equal(events(), "");
    assert_int_equal(left(), 1);
}

/* ---- Resume from the window. ---- */

TEST(since_replays_in_order, setup, teardown)
{
    APPLY("+/a", "+/b");
    APPLY("=/a=1", "+/a/x", "-/b");
    APPLY("-/a/x", "-/a");
    assert_int_equal(add_since(&fixture.a, WATCH_PERSISTENT, "/a", 1), ERR_OK);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='1'\n"
                                  "a NodeChildrenChanged /a [1] end\n"
                                  "a NodeChildrenChanged /a [1]\n"
                                  "a NodeDeleted /a [1] end\n");
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_REPLAYED);
    assert_int_equal(fixture.result.zxid, 3);
    assert_false(fixture.result.used_up);
    APPLY("+/a");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeCreated /a [1] end\n");
}

TEST(since_uses_up_a_one_shot_watch, setup, teardown)
{
    APPLY("+/a");
    APPLY("=/a=1");
    APPLY("=/a=2");
    assert_int_equal(add_since(&fixture.a, WATCH_DATA, "/a", 1), ERR_OK);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='1' end\n");
    assert_true(fixture.result.used_up);
    assert_int_equal(fixture.result.id, 1);
    assert_null(find(&fixture.a, 1));
    /* Created and deleted during the absence: ZooKeeper would send nothing. */
    APPLY("+/c");
    APPLY("-/c");
    assert_int_equal(add_since(&fixture.a, WATCH_EXISTS, "/c", 3), ERR_OK);
    assert_string_equal(events(), "a NodeCreated /c [2] end\n");
}

TEST(nothing_missed_is_a_replay_of_nothing, setup, teardown)
{
    APPLY("+/a");
    assert_int_equal(add_since(&fixture.a, WATCH_DATA, "/a", 1), ERR_OK);
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_REPLAYED);
    assert_string_equal(events(), "");
    APPLY("=/a");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDataChanged /a [1] end\n");
}

TEST(since_ahead_of_this_replica_has_to_wait, setup, teardown)
{
    APPLY("+/a");
    assert_int_equal(add_since(&fixture.a, WATCH_PERSISTENT, "/a", 3), ERR_REPLICA_BEHIND);
    assert_int_equal(left(), 0);
    APPLY("=/a");
    APPLY("=/a");
    APPLY("-/a");
    assert_int_equal(add_since(&fixture.a, WATCH_PERSISTENT, "/a", 3), ERR_OK);
    assert_string_equal(events(), "a NodeDeleted /a [1] end\n");
}

TEST(since_between_window_and_state_begins_there, setup, teardown)
{
    struct state *state;

    APPLY("+/a");
    state = view_write(fixture.world.view);
    state_skip(state, 5);
    view_write_done(fixture.world.view);
    assert_int_equal(add_since(&fixture.a, WATCH_PERSISTENT, "/a", 4), ERR_OK);
    assert_int_equal(fixture.result.zxid, 4);
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_REPLAYED);
}

TEST(since_of_another_history_is_refused, setup, teardown)
{
    struct subscribe_request request = watch_of(WATCH_DATA, "/a");

    APPLY("+/a");
    request.has_since = true;
    request.has_history = true;
    request.since_history = KIT_HISTORY + 1;
    assert_int_equal(subscribe_add(fixture.subscriber, &fixture.a.owner, &request, &fixture.result),
                     ERR_HISTORY_CHANGED);
    request.since_history = KIT_HISTORY;
    assert_int_equal(subscribe_add(fixture.subscriber, &fixture.a.owner, &request, &fixture.result),
                     ERR_OK);
}

TEST(without_a_state_only_watches_that_need_none_work, setup, teardown)
{
    struct subscribe_request request = watch_of(WATCH_DATA, "/a");

    for (int i = 0; i < 6; i++) {
        window_append(fixture.world.window, KIT_SET((zxid_t)i + 1, "=/a"));
    }
    view_replace(fixture.world.view, NULL);
    assert_int_equal(add(&fixture.a, WATCH_PERSISTENT, "/b"), ERR_OK);
    assert_int_equal(add_since(&fixture.a, WATCH_DATA, "/a", 5), ERR_OK);
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_REPLAYED);
    assert_int_equal(add_since(&fixture.a, WATCH_DATA, "/a", 1), ERR_NOT_READY);
    assert_int_equal(add_since(&fixture.a, WATCH_DATA, "/a", 9), ERR_NOT_READY);
    request.has_history = true;
    assert_int_equal(subscribe_add(fixture.subscriber, &fixture.a.owner, &request, &fixture.result),
                     ERR_NOT_READY);
    assert_int_equal(left(), 1);
}

TEST(the_limits_of_an_owner_are_an_error, setup, teardown)
{
    APPLY("+/a");
    fixture.a.owner.count_max = 1;
    assert_int_equal(add_since(&fixture.a, WATCH_RECURSIVE, "/", 1), ERR_OK);
    assert_int_equal(add_since(&fixture.a, WATCH_RECURSIVE, "/a", 0), ERR_THROTTLED);
    assert_int_equal(add(&fixture.a, WATCH_RECURSIVE, "/a"), ERR_THROTTLED);
    assert_string_equal(events(), "");
    assert_int_equal(add_since(&fixture.a, WATCH_RECURSIVE, "/", 0), ERR_OK);
    assert_string_equal(events(), "a NodeCreated /a [1] end\n");
}

TEST(the_same_watch_again_with_since_is_replayed, setup, teardown)
{
    APPLY("+/a");
    assert_int_equal(add(&fixture.a, WATCH_PERSISTENT, "/a"), ERR_OK);
    APPLY("=/a=1");
    assert_int_equal(add(&fixture.a, WATCH_PERSISTENT, "/a"), ERR_OK);
    assert_int_equal(fixture.result.id, 1);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='1' end\n");
    assert_int_equal(add_since(&fixture.a, WATCH_PERSISTENT, "/a", 0), ERR_OK);
    assert_int_equal(fixture.result.id, 1);
    assert_string_equal(events(), "a NodeCreated /a [1] end\na NodeDataChanged /a [1] ='1' end\n");
    APPLY("=/a=2");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='2' end\n");
    assert_int_equal(left(), 1);
}

/* ---- Loss. ---- */

static void outrun(void *ctx)
{
    (void)ctx;
    for (int i = 0; i <= SETS_MAX; i++) {
        APPLY("=/a=late");
    }
}

static void replace(void *ctx)
{
    (void)ctx;
    kit_world_replace(&fixture.world, NULL, fixture.world.zxid);
}

TEST(a_window_that_overflows_during_a_difference_is_a_gap, setup, teardown)
{
    APPLY("+/a");
    outrun(NULL);
    fixture.change_when_lost = true;
    fixture.subscriber->slice_nodes = 3;
    fixture.subscriber->between = outrun;
    /* The difference is ahead of the subscriber, which cannot reach it any more. */
    assert_int_equal(add_since(&fixture.a, WATCH_RECURSIVE, "/", 1), ERR_OK);
    assert_int_equal(fixture.lost, 2);
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_GAP);
    assert_int_equal(fixture.result.zxid, subscribe_at(fixture.subscriber));
    assert_string_equal(events(), "");
    assert_int_equal(left(), 1);
}

TEST(a_state_replaced_during_a_difference_is_a_gap, setup, teardown)
{
    APPLY("+/a");
    outrun(NULL);
    fixture.subscriber->slice_nodes = 3;
    fixture.subscriber->between = replace;
    assert_int_equal(add_since(&fixture.a, WATCH_RECURSIVE, "/", 1), ERR_OK);
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_GAP);
    assert_string_equal(events(), "");
}

TEST(a_subscriber_behind_the_window_reports_a_loss, setup, teardown)
{
    struct watch *watch;

    APPLY("+/a");
    assert_int_equal(add(&fixture.a, WATCH_PERSISTENT, "/a"), ERR_OK);
    watch = find(&fixture.a, fixture.result.id);
    for (int i = 0; i < SETS_MAX + 1; i++) {
        APPLY("=/a=x");
    }
    assert_int_equal(pump(ZXID_MAX), SETS_MAX + 2);
    assert_int_equal(fixture.lost, 1);
    assert_int_equal(fixture.lost_from, 1);
    assert_string_equal(events(), "");
    assert_int_equal(
        subscribe_catch_up(fixture.subscriber, watch, fixture.lost_from, &fixture.result), ERR_OK);
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_DIFFED);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='x' diff end\n");
    APPLY("-/a");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDeleted /a [1] end\n");
    assert_int_equal(fixture.lost, 1);
}

TEST(a_replaced_state_is_a_loss, setup, teardown)
{
    struct watch *watch;

    APPLY("+/a");
    assert_int_equal(add(&fixture.a, WATCH_PERSISTENT, "/a"), ERR_OK);
    watch = find(&fixture.a, fixture.result.id);
    fixture.world.zxid = 9;
    kit_world_replace(&fixture.world, NULL, 9);
    assert_int_equal(pump(ZXID_MAX), 9);
    assert_int_equal(fixture.lost_from, 1);
    assert_int_equal(subscribe_catch_up(fixture.subscriber, watch, 1, &fixture.result), ERR_OK);
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_DIFFED);
    assert_int_equal(fixture.result.zxid, 9);
    assert_string_equal(events(), "");
    APPLY("=/a");
    pump(ZXID_MAX);
    assert_string_equal(events(), "a NodeDataChanged /a [1] end\n");
}

TEST(a_state_that_is_not_whole_yet_delays_the_events, setup, teardown)
{
    struct watch *watch;

    APPLY("+/a");
    assert_int_equal(add(&fixture.a, WATCH_PERSISTENT, "/a"), ERR_OK);
    watch = find(&fixture.a, fixture.result.id);
    window_restart(fixture.world.window, 5);
    pump(ZXID_MAX);
    assert_int_equal(subscribe_catch_up(fixture.subscriber, watch, 1, &fixture.result),
                     ERR_NOT_READY);
    assert_true(watch->held);
    assert_int_equal(add_since(&fixture.b, WATCH_DATA, "/a", 2), ERR_NOT_READY);
    assert_int_equal(left(), 1);
    fixture.world.zxid = 5;
    APPLY("=/a=6");
    assert_int_equal(subscribe_catch_up(fixture.subscriber, watch, 1, &fixture.result), ERR_OK);
    assert_false(watch->held);
    assert_int_equal(fixture.result.zxid, 6);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='6' diff end\n");
    pump(ZXID_MAX);
    assert_string_equal(events(), "");
}

TEST(after_an_older_state_no_event_is_repeated, setup, teardown)
{
    struct watch *old;
    struct state *older;

    APPLY("+/a");
    older = kit_copy(fixture.world.state, 1 << 20);
    assert_int_equal(add(&fixture.a, WATCH_PERSISTENT, "/a"), ERR_OK);
    old = find(&fixture.a, fixture.result.id);
    APPLY("=/a=2");
    APPLY("=/a=3");
    pump(ZXID_MAX);
    events();
    kit_world_replace(&fixture.world, older, 1);
    assert_int_equal(pump(ZXID_MAX), 1);
    assert_int_equal(fixture.lost_from, 3);
    assert_int_equal(subscribe_catch_up(fixture.subscriber, old, 3, &fixture.result), ERR_OK);
    assert_int_equal(fixture.result.resumed, SUBSCRIBE_GAP);
    /* A client that reads only now sees the older state, and receives what follows it. */
    assert_int_equal(add_at(&fixture.b, WATCH_PERSISTENT, "/a", 1), ERR_OK);
    APPLY("=/a=2");
    APPLY("=/a=3");
    APPLY("=/a=4");
    pump(ZXID_MAX);
    assert_string_equal(events(), "b NodeDataChanged /a [1] ='2' end\n"
                                  "b NodeDataChanged /a [1] ='3' end\n"
                                  "a NodeDataChanged /a [1] ='4' end\n"
                                  "b NodeDataChanged /a [1] ='4' end\n");
}

TEST(a_loss_while_adding_with_a_read_is_reported, setup, teardown)
{
    APPLY("+/a");
    for (int i = 0; i < SETS_MAX + 3; i++) {
        APPLY("=/a=x");
    }
    assert_int_equal(add_at(&fixture.a, WATCH_DATA, "/a", 2), ERR_OK);
    assert_int_equal(fixture.lost, 1);
    assert_string_equal(events(), "a NodeDataChanged /a [1] ='x' diff end\n");
    assert_true(fixture.result.used_up);
}
