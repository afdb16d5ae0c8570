/*
 * The checker of histories must pass what is possible and catch what is not: one sound history, and
 * for each rule some that were tampered with.
 */
#include "tests/unit/history_tale.h"

TEST(a_possible_history_passes)
{
    struct tale tale;

    build(&tale);
    judge(&tale, NULL);
    build(&tale);
    tale.logs[W].item_count =
        0; /* Without a watcher the delete of unknown outcome may have happened. */
    judge(&tale, NULL);
    build(&tale);
    op_of(&tale, B, 2)->not_before = 13; /* Another try of it came before. */
    judge(&tale, NULL);
}

TEST(a_write_happens_once)
{
    struct tale tale;

    build(&tale);
    item(&tale, 2)->seen.value = 3; /* The value of 12 appears at 11 as well. */
    op_of(&tale, A, 1)->outcome = HISTORY_UNKNOWN;
    judge(&tale, "once");
    build(&tale); /* Two writes at the same time get the same zxid. */
    op_of(&tale, B, 1)->start_us = op_of(&tale, A, 1)->start_us;
    op_of(&tale, B, 1)->zxid = 11;
    op_of(&tale, B, 1)->steps[0].key = 3;
    op_of(&tale, B, 1)->steps[0].has_seen = false;
    op_of(&tale, B, 1)->steps[0].has_version = false;
    judge(&tale, "once");
}

TEST(a_refused_write_is_never_seen)
{
    struct tale tale;

    build(&tale);
    op_of(&tale, A, 1)->outcome = HISTORY_NOT_DONE;
    judge(&tale, "refused");
    build(&tale);
    op_of(&tale, B, 2)->outcome = HISTORY_NOT_DONE; /* The write that was found at 14. */
    judge(&tale, "refused");
}

TEST(no_change_happens_without_a_request)
{
    struct tale tale;

    build(&tale);
    op_of(&tale, A, 3)->steps[0].seen.value = 99;
    judge(&tale, "unasked");
    build(&tale);
    add_event(&tale,
              (struct history_item){.zxid = 17, .what = HISTORY_DELETE, .key = 5, .end = true});
    judge(&tale, "unasked");
    build(&tale); /* Sent only after others knew zxid 15. */
    item(&tale, 9)->key = 1;
    judge(&tale, "unasked");
    build(&tale); /* Another try learned that it was not done at 14, and yet it appears there. */
    op_of(&tale, B, 2)->not_before = 14;
    judge(&tale, "unasked");
}

TEST(a_session_that_moved_changes_nothing_from_its_old_connection)
{
    struct tale tale;

    build(&tale);
    op_of(&tale, B, 2)->not_after = 14; /* The write that was found at 14. */
    judge(&tale, NULL);
    build(&tale);
    op_of(&tale, B, 2)->not_after = 13;
    judge(&tale, "moved");
}

TEST(all_reports_agree)
{
    struct tale tale;

    build(&tale);
    item(&tale, 2)->seen.version = 5;
    judge(&tale, "one-story");
    build(&tale);
    item(&tale, 6)->what = HISTORY_DELETE;
    item(&tale, 6)->has_seen = false;
    judge(&tale, "one-story");
    build(&tale);
    op_of(&tale, A, 1)->steps[0].seen.mzxid = 10;
    judge(&tale, "one-story");
}

TEST(changes_follow_one_another)
{
    struct tale tale;

    build(&tale);
    op_of(&tale, B, 1)->steps[0].seen.version = 4;
    judge(&tale, "model");
    build(&tale); /* Created twice. */
    op_of(&tale, A, 2)->steps[0].what = HISTORY_CREATE;
    item(&tale, 6)->what = HISTORY_CREATE;
    judge(&tale, "model");
    build(&tale); /* Set in another lifetime of the znode. */
    op_of(&tale, B, 1)->steps[0].seen.czxid = 8;
    judge(&tale, "model");
}

TEST(reads_see_the_state_that_they_name)
{
    struct tale tale;

    build(&tale);
    op_of(&tale, A, 3)->steps[0].seen = seen(13, 13, 0, 5);
    judge(&tale, "state");
    build(&tale);
    op_of(&tale, A, 4)->steps[0].key = 1; /* Seen as absent. */
    judge(&tale, "state");
    build(&tale);
    op_of(&tale, B, 4)->steps[0].key = 2; /* Refused as there. */
    judge(&tale, "state");
    build(&tale);
    op_of(&tale, A, 5)->listed = 0;
    judge(&tale, "state");
    build(&tale);
    op_of(&tale, A, 5)->listed |= 1U << 0;
    judge(&tale, "state");
    build(&tale);
    op_of(&tale, B, 1)->steps[0].version = 0; /* A condition that did not hold. */
    judge(&tale, "state");
    build(&tale);
    op_of(&tale, B, 1)->outcome = HISTORY_BAD_VERSION; /* A condition that held. */
    op_of(&tale, B, 1)->zxid = 11;
    op_of(&tale, B, 1)->steps[0].has_seen = false;
    op_of(&tale, A, 2)->steps[0].value = 3;
    op_of(&tale, B, 1)->steps[0].value = 4;
    remove_item(&tale, 3);
    item(&tale, 4)->since = 11;
    judge(&tale, "state");
}

TEST(answers_are_not_behind_known_zxids)
{
    struct tale tale;
    struct history_op *op;

    build(&tale); /* A linearizable read after a completed write. */
    op = op_of(&tale, B, 0);
    op->start_us = op_of(&tale, A, 1)->end_us + 1;
    op->end_us = op->start_us + 1;
    judge(&tale, "real-time");
    build(&tale); /* A write that is not newer than an earlier read. */
    op_of(&tale, B, 1)->zxid = 10;
    judge(&tale, "real-time");
}

TEST(a_connection_does_not_go_back)
{
    struct tale tale;

    build(&tale);
    op_of(&tale, A, 3)->zxid = 12;
    op_of(&tale, A, 3)->steps[0].has_seen = false;
    judge(&tale, "order");
}

TEST(demanded_states_are_reached)
{
    struct tale tale;

    build(&tale);
    op_of(&tale, A, 3)->min_zxid = 15;
    judge(&tale, "minimum");
}

TEST(watchers_miss_nothing)
{
    struct tale tale;

    for (size_t i = 1; i < 10; i++) {
        build(&tale);
        if (item(&tale, i)->kind == HISTORY_EVENT) {
            remove_item(&tale, i);
            judge(&tale, "watch");
        } else {
            judge(&tale, NULL);
        }
    }
    build(&tale);
    tale.logs[W].item_count = 9; /* An answer of state 16 on the same socket, before an event. */
    add_item(&tale, HISTORY_BOOKMARK, 16, 0);
    judge(&tale, "watch");
    build(&tale);
    item(&tale, 5)->since = 13;
    judge(&tale, "watch");
}

TEST(watchers_get_each_event_once_and_in_order)
{
    struct tale tale;

    build(&tale);
    add_event(&tale,
              (struct history_item){.zxid = 15, .what = HISTORY_DELETE, .key = 0, .end = true});
    judge(&tale, "watch");
    build(&tale);
    *item(&tale, 1) = *item(&tale, 2);
    judge(&tale, "watch");
    build(&tale);
    item(&tale, 7)->end = false;
    judge(&tale, "watch");
}

/* A watcher since 10, away until 15: k0 was deleted, k1 created. */
static void build_diff(struct tale *tale)
{
    build(tale);
    tale->logs[W].item_count = 2;
    add_item(tale, HISTORY_LOST, 0, 0);
    add_item(tale, HISTORY_DIFFED, 15, 10);
    add_event(tale, (struct history_item){.zxid = 14,
                                          .what = HISTORY_CREATE,
                                          .key = 1,
                                          .diff = true,
                                          .seen = seen(13, 14, 1, 6)});
    add_event(
        tale,
        (struct history_item){
            .zxid = 15, .what = HISTORY_CHANGED, .key = HISTORY_ROOT, .diff = true, .end = true});
    add_item(tale, HISTORY_BOOKMARK, 16, 0);
}

TEST(a_difference_is_complete)
{
    struct tale tale;

    build_diff(&tale);
    judge(&tale, NULL);
    build_diff(&tale);
    remove_item(&tale, 4);
    judge(&tale, "watch");
    build_diff(&tale);
    remove_item(&tale, 5);
    judge(&tale, "watch");
    build_diff(&tale); /* On a connection that stays open: its replica received a new state. */
    remove_item(&tale, 2);
    remove_item(&tale, 2);
    judge(&tale, NULL);
    build_diff(&tale);
    remove_item(&tale, 2);
    remove_item(&tale, 2);
    remove_item(&tale, 2);
    judge(&tale, "watch");
    build_diff(&tale); /* The connection is lost after the difference, and resumed there. */
    tale.logs[W].item_count = 6;
    add_item(&tale, HISTORY_LOST, 0, 0);
    add_item(&tale, HISTORY_REPLAYED, 16, 15);
    judge(&tale, NULL);
    build_diff(&tale); /* The connection is lost before its end: the difference must be sent again
                          from its beginning. */
    tale.logs[W].item_count = 5;
    add_item(&tale, HISTORY_LOST, 0, 0);
    add_item(&tale, HISTORY_REPLAYED, 16, 15);
    judge(&tale, "watch");
    build_diff(&tale);
    item(&tale, 3)->kind = HISTORY_GAP;
    remove_item(&tale, 4);
    remove_item(&tale, 4);
    judge(&tale, NULL);
}

/* The watcher knows k1 from its creation at 13. A write of unknown outcome followed soon, and the
 * difference does not name k1. */
static void build_diff_without_key(struct tale *tale, enum history_what what, uint32_t key)
{
    build_diff(tale);
    remove_item(tale, 4);
    tale->logs[A].op_count = 4; /* Up to the multi. */
    tale->logs[B].op_count = 4; /* All but the create that was refused because k1 existed. */

    struct history_op *unknown = op_of(tale, A, 3);
    uint64_t start_us = op_of(tale, A, 2)->end_us;

    *unknown = make(what, key, 0, 0);
    unknown->outcome = HISTORY_UNKNOWN;
    unknown->connection = A + 1;
    unknown->start_us = start_us;
    unknown->end_us = start_us + 1;
}

TEST(a_difference_may_show_a_deletion_of_unknown_outcome)
{
    struct tale tale;

    build_diff_without_key(&tale, HISTORY_DELETE, 1);
    judge(&tale, NULL);
    build_diff_without_key(&tale, HISTORY_CHECK, 1);
    judge(&tale, "watch");
    build_diff_without_key(&tale, HISTORY_DELETE, 0);
    judge(&tale, "watch");
    build_diff_without_key(&tale, HISTORY_DELETE, 1);
    remove_item(&tale, 4); /* The children have not changed, so the write did not happen. */
    judge(&tale, "watch");
    build_diff_without_key(&tale, HISTORY_DELETE, 1);
    struct history_op later = make(HISTORY_LIST, 0, 0, 15);

    later.listed = 1U << 1; /* It existed after the difference. */
    add_op(&tale, A, later);
    judge(&tale, "watch");
}
