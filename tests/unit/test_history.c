/*
 * The checker of histories must let pass what can be, and catch what cannot: one sound history, and
 * for each rule some that were tampered with.
 */
#include "base/mem.h"
#include "tests/lib/history.h"
#include "tests/lib/unit.h"

#include <string.h>

enum {
    A = 0, /* Two clients, each with one connection, and one watcher. */
    B = 1,
    W = 2,
    LOGS = 3,
    STEP_US = 10
};

struct tale {
    struct history_log logs[LOGS];
    uint64_t now_us;
};

static struct history_seen seen(zxid_t czxid, zxid_t mzxid, int32_t version, uint32_t value)
{
    return (struct history_seen){
        .present = true, .czxid = czxid, .mzxid = mzxid, .version = version, .value = value};
}

static void add_op(struct tale *tale, uint32_t who, struct history_op op)
{
    tale->now_us += STEP_US;
    op.connection = who + 1;
    op.start_us = tale->now_us - STEP_US / 2;
    op.end_us = tale->now_us;
    op.count = op.count ? op.count : 1;
    history_add_op(&tale->logs[who], &op);
}

static void add_event(struct tale *tale, struct history_item item)
{
    item.kind = HISTORY_EVENT;
    item.at_us = ++tale->now_us;
    item.has_seen = item.seen.present;
    history_add_item(&tale->logs[W], &item);
}

static void add_item(struct tale *tale, enum history_item_kind kind, zxid_t zxid, zxid_t since)
{
    struct history_item item = {
        .kind = kind, .at_us = ++tale->now_us, .zxid = zxid, .since = since};

    history_add_item(&tale->logs[W], &item);
}

static struct history_op make(enum history_what what, uint32_t key, uint32_t value, zxid_t zxid)
{
    return (struct history_op){
        .zxid = zxid, .steps = {{.what = what, .key = key, .value = value}}, .count = 1};
}

/* What the clients did, between zxid 10 and 15. Positions in the logs are used below. */
static void tell_ops(struct tale *tale)
{
    struct history_op op = make(HISTORY_CREATE, 0, 1, 10);

    add_op(tale, A, op);
    op = make(HISTORY_GET, 0, 0, 10);
    op.linearizable = true;
    op.steps[0].has_seen = true;
    op.steps[0].seen = seen(10, 10, 0, 1);
    add_op(tale, B, op);
    op = make(HISTORY_SET, 0, 2, 11);
    op.steps[0].has_seen = true;
    op.steps[0].seen = seen(10, 11, 1, 2);
    add_op(tale, A, op);
    op = make(HISTORY_SET, 0, 3, 12);
    op.steps[0].has_version = true;
    op.steps[0].version = 1;
    op.steps[0].has_seen = true;
    op.steps[0].seen = seen(10, 12, 2, 3);
    add_op(tale, B, op);
    op = make(HISTORY_SET, 0, 4, 13); /* A multi. */
    op.steps[1] = (struct history_step){.what = HISTORY_CREATE, .key = 1, .value = 5};
    op.count = 2;
    add_op(tale, A, op);
    op = make(HISTORY_SET, 1, 6, 0);
    op.outcome = HISTORY_UNKNOWN; /* It was done at 14. */
    add_op(tale, B, op);
    op = make(HISTORY_GET, 1, 0, 14);
    op.steps[0].has_seen = true;
    op.steps[0].seen = seen(13, 14, 1, 6);
    add_op(tale, A, op);
    add_op(tale, B, make(HISTORY_DELETE, 0, 0, 15));
    op = make(HISTORY_GET, 0, 0, 15);
    op.steps[0].has_seen = true; /* Absent. */
    add_op(tale, A, op);
    op = make(HISTORY_CREATE, 1, 7, 15);
    op.outcome = HISTORY_NODE_EXISTS;
    add_op(tale, B, op);
    op = make(HISTORY_LIST, 0, 0, 15);
    op.listed = 1U << 1;
    add_op(tale, A, op);
    op = make(HISTORY_DELETE, 1, 0, 0);
    op.outcome = HISTORY_UNKNOWN; /* It was never done. */
    add_op(tale, A, op);
}

static void tell_events(struct tale *tale)
{
    add_item(tale, HISTORY_STARTED, 9, 0);
    add_event(
        tale,
        (struct history_item){
            .zxid = 10, .what = HISTORY_CREATE, .key = 0, .end = true, .seen = seen(10, 10, 0, 1)});
    add_event(
        tale,
        (struct history_item){
            .zxid = 11, .what = HISTORY_SET, .key = 0, .end = true, .seen = seen(10, 11, 1, 2)});
    add_event(tale, (struct history_item){.zxid = 12, .what = HISTORY_SET, .key = 0, .end = true});
    add_item(tale, HISTORY_LOST, 0, 0);
    add_item(tale, HISTORY_REPLAYED, 14, 12);
    add_event(tale, (struct history_item){.zxid = 13, .what = HISTORY_SET, .key = 0});
    add_event(tale,
              (struct history_item){.zxid = 13, .what = HISTORY_CREATE, .key = 1, .end = true});
    add_event(tale, (struct history_item){.zxid = 14, .what = HISTORY_SET, .key = 1, .end = true});
    add_event(tale,
              (struct history_item){.zxid = 15, .what = HISTORY_DELETE, .key = 0, .end = true});
    add_item(tale, HISTORY_BOOKMARK, 16, 0);
}

static void tell(struct tale *tale)
{
    *tale = (struct tale){.now_us = 1000};
    history_log_init(&tale->logs[A], "a");
    history_log_init(&tale->logs[B], "b");
    history_log_init(&tale->logs[W], "w");
    tell_ops(tale);
    tell_events(tale);
}

/* Holds the tale against the rules, and ends it. */
static void judge(struct tale *tale, const char *rule)
{
    const struct history_log *logs[LOGS];
    struct history_report report;

    for (size_t i = 0; i < LOGS; i++) {
        logs[i] = &tale->logs[i];
    }
    history_check(logs, LOGS, &report);
    if ((report.rule == NULL) != (rule == NULL) || (rule && strcmp(rule, report.rule) != 0)) {
        print_message("wanted %s, got %s: %s\n", rule ? rule : "none",
                      report.rule ? report.rule : "none", report.text);
        fail();
    }
    for (size_t i = 0; i < LOGS; i++) {
        history_log_release(&tale->logs[i]);
    }
}

static struct history_op *op_of(struct tale *tale, uint32_t who, size_t number)
{
    assert_true(number < tale->logs[who].op_count);
    return &tale->logs[who].ops[number];
}

static struct history_item *item(struct tale *tale, size_t number)
{
    assert_true(number < tale->logs[W].item_count);
    return &tale->logs[W].items[number];
}

static void remove_item(struct tale *tale, size_t number)
{
    struct history_log *log = &tale->logs[W];

    assert_true(number < log->item_count);
    log->item_count--;
    memmove(&log->items[number], &log->items[number + 1],
            (log->item_count - number) * sizeof(*log->items));
}

static void what_can_be_passes(void **state)
{
    struct tale tale;

    (void)state;
    tell(&tale);
    judge(&tale, NULL);
    tell(&tale);
    tale.logs[W].item_count = 0; /* Nobody watched: the unknown delete might have happened. */
    judge(&tale, NULL);
    tell(&tale);
    op_of(&tale, B, 2)->not_before = 13; /* Another try came before it. */
    judge(&tale, NULL);
}

static void a_write_happens_once(void **state)
{
    struct tale tale;

    (void)state;
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

static void a_refused_write_is_never_seen(void **state)
{
    struct tale tale;

    (void)state;
    tell(&tale);
    op_of(&tale, A, 1)->outcome = HISTORY_NOT_DONE;
    judge(&tale, "refused");
    tell(&tale);
    op_of(&tale, B, 2)->outcome = HISTORY_NOT_DONE; /* The one that was found at 14. */
    judge(&tale, "refused");
}

static void nothing_happens_unasked(void **state)
{
    struct tale tale;

    (void)state;
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

static void all_tell_one_story(void **state)
{
    struct tale tale;

    (void)state;
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

static void changes_follow_one_another(void **state)
{
    struct tale tale;

    (void)state;
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

static void reads_see_the_state_that_they_name(void **state)
{
    struct tale tale;

    (void)state;
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

static void answers_are_not_behind_what_was_known(void **state)
{
    struct tale tale;
    struct history_op *op;

    (void)state;
    tell(&tale); /* A linearizable read behind a finished write. */
    op = op_of(&tale, B, 0);
    op->start_us = op_of(&tale, A, 1)->end_us + 1;
    op->end_us = op->start_us + 1;
    judge(&tale, "real-time");
    tell(&tale); /* A write that is not ahead of what was read before it. */
    op_of(&tale, B, 1)->zxid = 10;
    judge(&tale, "real-time");
}

static void a_connection_does_not_go_back(void **state)
{
    struct tale tale;

    (void)state;
    tell(&tale);
    op_of(&tale, A, 3)->zxid = 12;
    op_of(&tale, A, 3)->steps[0].has_seen = false;
    judge(&tale, "order");
}

static void demanded_states_are_reached(void **state)
{
    struct tale tale;

    (void)state;
    tell(&tale);
    op_of(&tale, A, 3)->min_zxid = 15;
    judge(&tale, "minimum");
}

static void watchers_miss_nothing(void **state)
{
    struct tale tale;

    (void)state;
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

static void watchers_are_told_once_and_in_order(void **state)
{
    struct tale tale;

    (void)state;
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

static void a_difference_leaves_nothing_out(void **state)
{
    struct tale tale;

    (void)state;
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

static void a_difference_may_show_a_deletion_of_unknown_outcome(void **state)
{
    struct tale tale;

    (void)state;
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

/* ---- Sessions. ---- */

enum {
    SESSION = 5,
    FIRST = 2, /* Keys. */
    SECOND = 3
};

/* Client A makes two ephemerals, at 17 and 18, and closes its session at 20: ops 7 to 9 of A. The
 * watcher is told, in items 11 to 14. */
static void tell_session(struct tale *tale)
{
    struct history_op op = make(HISTORY_CREATE, FIRST, 11, 17);

    tell(tale);
    op.session = SESSION;
    op.steps[0].ephemeral = true;
    add_op(tale, A, op);
    op = make(HISTORY_CREATE, SECOND, 12, 18);
    op.session = SESSION;
    op.steps[0].ephemeral = true;
    add_op(tale, A, op);
    op = make(HISTORY_CLOSE, 0, 0, 20);
    op.session = SESSION;
    add_op(tale, A, op);
    add_event(tale,
              (struct history_item){.zxid = 17, .what = HISTORY_CREATE, .key = FIRST, .end = true});
    add_event(tale, (struct history_item){
                        .zxid = 18, .what = HISTORY_CREATE, .key = SECOND, .end = true});
    add_event(tale, (struct history_item){.zxid = 20, .what = HISTORY_DELETE, .key = FIRST});
    add_event(tale, (struct history_item){
                        .zxid = 20, .what = HISTORY_DELETE, .key = SECOND, .end = true});
    add_item(tale, HISTORY_BOOKMARK, 21, 0);
}

static void a_session_takes_along_what_belongs_to_it(void **state)
{
    struct tale tale;

    (void)state;
    tell_session(&tale);
    judge(&tale, NULL);
    tell_session(&tale); /* Nobody watched. */
    tale.logs[W].item_count = 0;
    judge(&tale, NULL);
    tell_session(&tale); /* One was deleted before. */
    item(&tale, 13)->zxid = 19;
    item(&tale, 13)->end = true;
    add_op(&tale, B, make(HISTORY_DELETE, FIRST, 0, 19));
    op_of(&tale, B, 5)->start_us = op_of(&tale, A, 9)->start_us;
    judge(&tale, NULL);
}

static void nothing_of_a_session_outlives_it(void **state)
{
    struct tale tale;

    (void)state;
    tell_session(&tale); /* The second one stays. */
    item(&tale, 13)->end = true;
    remove_item(&tale, 14);
    judge(&tale, "session");
    tell_session(&tale); /* One comes later. */
    op_of(&tale, A, 8)->outcome = HISTORY_UNKNOWN;
    remove_item(&tale, 14);
    remove_item(&tale, 12);
    item(&tale, 12)->end = true;
    item(&tale, 13)->zxid = 20;
    add_event(&tale, (struct history_item){.zxid = 22,
                                           .what = HISTORY_CREATE,
                                           .key = SECOND,
                                           .end = true,
                                           .seen = seen(22, 22, 0, 12)});
    judge(&tale, "session");
}

static void only_its_own_goes_with_a_session(void **state)
{
    struct tale tale;

    (void)state;
    tell_session(&tale); /* Not in one transaction. */
    item(&tale, 13)->zxid = 19;
    item(&tale, 13)->end = true;
    judge(&tale, "nobody");
    tell_session(&tale);
    op_of(&tale, A, 8)->session = SESSION + 1;
    judge(&tale, "nobody");
    tell_session(&tale);
    op_of(&tale, A, 8)->steps[0].ephemeral = false;
    judge(&tale, "nobody");
    tell_session(&tale); /* Before it was asked for. */
    op_of(&tale, A, 9)->start_us = tale.now_us + 1;
    op_of(&tale, A, 9)->end_us = tale.now_us + 2;
    judge(&tale, "nobody");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_be_passes),
        cmocka_unit_test(a_write_happens_once),
        cmocka_unit_test(a_refused_write_is_never_seen),
        cmocka_unit_test(nothing_happens_unasked),
        cmocka_unit_test(all_tell_one_story),
        cmocka_unit_test(changes_follow_one_another),
        cmocka_unit_test(reads_see_the_state_that_they_name),
        cmocka_unit_test(answers_are_not_behind_what_was_known),
        cmocka_unit_test(a_connection_does_not_go_back),
        cmocka_unit_test(demanded_states_are_reached),
        cmocka_unit_test(watchers_miss_nothing),
        cmocka_unit_test(watchers_are_told_once_and_in_order),
        cmocka_unit_test(a_difference_leaves_nothing_out),
        cmocka_unit_test(a_difference_may_show_a_deletion_of_unknown_outcome),
        cmocka_unit_test(a_session_takes_along_what_belongs_to_it),
        cmocka_unit_test(nothing_of_a_session_outlives_it),
        cmocka_unit_test(only_its_own_goes_with_a_session),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
