/*
 * The checker of histories must let pass what can be, and catch what cannot: one sound history, and
 * for each rule some that were tampered with.
 */
#include "tests/unit/history_tale.h"

TEST(what_can_be_passes)
{
    struct tale tale;

    tell(&tale);
    judge(&tale, NULL);
    tell(&tale);
    tale.logs[W].item_count = 0; /* Nobody watched: the unknown delete might have happened. */
    judge(&tale, NULL);
    tell(&tale);
    op_of(&tale, B, 2)->not_before = 13; /* Another try came before it. */
    judge(&tale, NULL);
}

TEST(a_write_happens_once)
{
    struct tale tale;

    tell(&tale);
    item(&tale, 2)->seen.value = 3; /* The value of 12 appears at 11, too. */
    op_of(&tale, A, 1)->outcome = HISTORY_UNKNOWN;
    judge(&tale, "once");
    tell(&tale); /* Two writes at the same time get the same zxid. */
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

    tell(&tale);
    op_of(&tale, A, 1)->outcome = HISTORY_NOT_DONE;
    judge(&tale, "refused");
    tell(&tale);
    op_of(&tale, B, 2)->outcome = HISTORY_NOT_DONE; /* The one that was found at 14. */
    judge(&tale, "refused");
}

TEST(nothing_happens_unasked)
{
    struct tale tale;

    tell(&tale);
    op_of(&tale, A, 3)->steps[0].seen.value = 99;
    judge(&tale, "nobody");
    tell(&tale);
    add_event(&tale,
              (struct history_item){.zxid = 17, .what = HISTORY_DELETE, .key = 5, .end = true});
    judge(&tale, "nobody");
    tell(&tale); /* Asked for only after zxid 15 was known to others. */
    item(&tale, 9)->key = 1;
    judge(&tale, "nobody");
    tell(&tale); /* Another try was told that at 14 it was not done, and there it is. */
    op_of(&tale, B, 2)->not_before = 14;
    judge(&tale, "nobody");
}

TEST(all_tell_one_story)
{
    struct tale tale;

    tell(&tale);
    item(&tale, 2)->seen.version = 5;
    judge(&tale, "one-story");
    tell(&tale);
    item(&tale, 6)->what = HISTORY_DELETE;
    item(&tale, 6)->has_seen = false;
    judge(&tale, "one-story");
    tell(&tale);
    op_of(&tale, A, 1)->steps[0].seen.mzxid = 10;
    judge(&tale, "one-story");
}

TEST(changes_follow_one_another)
{
    struct tale tale;

    tell(&tale);
    op_of(&tale, B, 1)->steps[0].seen.version = 4;
    judge(&tale, "model");
    tell(&tale); /* Created twice. */
    op_of(&tale, A, 2)->steps[0].what = HISTORY_CREATE;
    item(&tale, 6)->what = HISTORY_CREATE;
    judge(&tale, "model");
    tell(&tale); /* Set in another life. */
    op_of(&tale, B, 1)->steps[0].seen.czxid = 8;
    judge(&tale, "model");
}

TEST(reads_see_the_state_that_they_name)
{
    struct tale tale;

    tell(&tale);
    op_of(&tale, A, 3)->steps[0].seen = seen(13, 13, 0, 5);
    judge(&tale, "state");
    tell(&tale);
    op_of(&tale, A, 4)->steps[0].key = 1; /* Seen as absent. */
    judge(&tale, "state");
    tell(&tale);
    op_of(&tale, B, 4)->steps[0].key = 2; /* Refused as there. */
    judge(&tale, "state");
    tell(&tale);
    op_of(&tale, A, 5)->listed = 0;
    judge(&tale, "state");
    tell(&tale);
    op_of(&tale, A, 5)->listed |= 1U << 0;
    judge(&tale, "state");
    tell(&tale);
    op_of(&tale, B, 1)->steps[0].version = 0; /* A condition that did not hold. */
    judge(&tale, "state");
    tell(&tale);
    op_of(&tale, B, 1)->outcome = HISTORY_BAD_VERSION; /* One that did. */
    op_of(&tale, B, 1)->zxid = 11;
    op_of(&tale, B, 1)->steps[0].has_seen = false;
    op_of(&tale, A, 2)->steps[0].value = 3;
    op_of(&tale, B, 1)->steps[0].value = 4;
    remove_item(&tale, 3);
    item(&tale, 4)->since = 11;
    judge(&tale, "state");
}

TEST(answers_are_not_behind_what_was_known)
{
    struct tale tale;
    struct history_op *op;

    tell(&tale); /* A linearizable read behind a finished write. */
    op = op_of(&tale, B, 0);
    op->start_us = op_of(&tale, A, 1)->end_us + 1;
    op->end_us = op->start_us + 1;
    judge(&tale, "real-time");
    tell(&tale); /* A write that is not ahead of what was read before it. */
    op_of(&tale, B, 1)->zxid = 10;
    judge(&tale, "real-time");
}

TEST(a_connection_does_not_go_back)
{
    struct tale tale;

    tell(&tale);
    op_of(&tale, A, 3)->zxid = 12;
    op_of(&tale, A, 3)->steps[0].has_seen = false;
    judge(&tale, "order");
}

TEST(demanded_states_are_reached)
{
    struct tale tale;

    tell(&tale);
    op_of(&tale, A, 3)->min_zxid = 15;
    judge(&tale, "minimum");
}

TEST(watchers_miss_nothing)
{
    struct tale tale;

    for (size_t i = 1; i < 10; i++) {
        tell(&tale);
        if (item(&tale, i)->kind == HISTORY_EVENT) {
            remove_item(&tale, i);
            judge(&tale, "watch");
        } else {
            judge(&tale, NULL);
        }
    }
    tell(&tale);
    tale.logs[W].item_count = 9; /* An answer of state 16 on the same socket, ahead of an event. */
    add_item(&tale, HISTORY_BOOKMARK, 16, 0);
    judge(&tale, "watch");
    tell(&tale);
    item(&tale, 5)->since = 13;
    judge(&tale, "watch");
}

TEST(watchers_are_told_once_and_in_order)
{
    struct tale tale;

    tell(&tale);
    add_event(&tale,
              (struct history_item){.zxid = 15, .what = HISTORY_DELETE, .key = 0, .end = true});
    judge(&tale, "watch");
    tell(&tale);
    *item(&tale, 1) = *item(&tale, 2);
    judge(&tale, "watch");
    tell(&tale);
    item(&tale, 7)->end = false;
    judge(&tale, "watch");
}

/* Watched since 10, away until 15: k0 was deleted, k1 created. */
static void tell_diff(struct tale *tale)
{
    tell(tale);
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

TEST(a_difference_leaves_nothing_out)
{
    struct tale tale;

    tell_diff(&tale);
    judge(&tale, NULL);
    tell_diff(&tale);
    remove_item(&tale, 4);
    judge(&tale, "watch");
    tell_diff(&tale);
    remove_item(&tale, 5);
    judge(&tale, "watch");
    tell_diff(&tale); /* On a connection that stays open: its replica was refilled. */
    remove_item(&tale, 2);
    remove_item(&tale, 2);
    judge(&tale, NULL);
    tell_diff(&tale);
    remove_item(&tale, 2);
    remove_item(&tale, 2);
    remove_item(&tale, 2);
    judge(&tale, "watch");
    tell_diff(&tale); /* Lost behind its end, and resumed there. */
    tale.logs[W].item_count = 6;
    add_item(&tale, HISTORY_LOST, 0, 0);
    add_item(&tale, HISTORY_REPLAYED, 16, 15);
    judge(&tale, NULL);
    tell_diff(&tale); /* Lost before it; it must be told again from its beginning. */
    tale.logs[W].item_count = 5;
    add_item(&tale, HISTORY_LOST, 0, 0);
    add_item(&tale, HISTORY_REPLAYED, 16, 15);
    judge(&tale, "watch");
    tell_diff(&tale);
    item(&tale, 3)->kind = HISTORY_GAP;
    remove_item(&tale, 4);
    remove_item(&tale, 4);
    judge(&tale, NULL);
}

/* What is known of k1 is its creation at 13; a write of unknown outcome came soon after that, and
 * the difference does not name k1. */
static void tell_diff_without_key(struct tale *tale, enum history_what what, uint32_t key)
{
    tell_diff(tale);
    remove_item(tale, 4);
    tale->logs[A].op_count = 4; /* Behind the multi. */
    tale->logs[B].op_count = 4; /* All but the one that was refused because k1 was there. */

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

    tell_diff_without_key(&tale, HISTORY_DELETE, 1);
    judge(&tale, NULL);
    tell_diff_without_key(&tale, HISTORY_CHECK, 1);
    judge(&tale, "watch");
    tell_diff_without_key(&tale, HISTORY_DELETE, 0);
    judge(&tale, "watch");
    tell_diff_without_key(&tale, HISTORY_DELETE, 1);
    remove_item(&tale, 4); /* The children have not changed, so it was not done. */
    judge(&tale, "watch");
    tell_diff_without_key(&tale, HISTORY_DELETE, 1);
    struct history_op later = make(HISTORY_LIST, 0, 0, 15);

    later.listed = 1U << 1; /* It was there behind the difference. */
    add_op(&tale, A, later);
    judge(&tale, "watch");
}
