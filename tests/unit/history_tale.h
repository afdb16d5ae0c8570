/*
 * history_tale.h - one sound history of two clients and a watcher, built step by step. The tests of
 * the checker tamper with it.
 */
#ifndef TESTS_UNIT_HISTORY_TALE_H
#define TESTS_UNIT_HISTORY_TALE_H

#include "base/mem.h"
#include "tests/lib/history.h"
#include "tests/lib/unit.h"

#include <string.h>

enum {
    A = 0, /* Two clients with one connection each, and one watcher. */
    B = 1,
    W = 2,
    LOGS = 3,
    STEP_US = 10
};

struct tale {
    struct history_log logs[LOGS];
    uint64_t now_us;
};

static inline struct history_seen seen(zxid_t czxid, zxid_t mzxid, int32_t version, uint32_t value)
{
    return (struct history_seen){
        .present = true, .czxid = czxid, .mzxid = mzxid, .version = version, .value = value};
}

static inline void add_op(struct tale *tale, uint32_t who, struct history_op op)
{
    tale->now_us += STEP_US;
    op.connection = who + 1;
    op.start_us = tale->now_us - STEP_US / 2;
    op.end_us = tale->now_us;
    op.count = op.count ? op.count : 1;
    history_add_op(&tale->logs[who], &op);
}

static inline void add_event(struct tale *tale, struct history_item item)
{
    item.kind = HISTORY_EVENT;
    item.at_us = ++tale->now_us;
    item.has_seen = item.seen.present;
    history_add_item(&tale->logs[W], &item);
}

static inline void add_item(struct tale *tale, enum history_item_kind kind, zxid_t zxid,
                            zxid_t since)
{
    struct history_item item = {
        .kind = kind, .at_us = ++tale->now_us, .zxid = zxid, .since = since};

    history_add_item(&tale->logs[W], &item);
}

static inline struct history_op make(enum history_what what, uint32_t key, uint32_t value,
                                     zxid_t zxid)
{
    return (struct history_op){
        .zxid = zxid, .steps = {{.what = what, .key = key, .value = value}}, .count = 1};
}

/* What the clients did between zxid 10 and 15. The tests below refer to positions in the logs. */
static inline void build_ops(struct tale *tale)
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

static inline void build_events(struct tale *tale)
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

static inline void build(struct tale *tale)
{
    *tale = (struct tale){.now_us = 1000};
    history_log_init(&tale->logs[A], "a");
    history_log_init(&tale->logs[B], "b");
    history_log_init(&tale->logs[W], "w");
    build_ops(tale);
    build_events(tale);
}

/* Checks the tale against the rules, and releases it. */
static inline void judge(struct tale *tale, const char *rule)
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

static inline struct history_op *op_of(struct tale *tale, uint32_t who, size_t number)
{
    assert_true(number < tale->logs[who].op_count);
    return &tale->logs[who].ops[number];
}

static inline struct history_item *item(struct tale *tale, size_t number)
{
    assert_true(number < tale->logs[W].item_count);
    return &tale->logs[W].items[number];
}

static inline void remove_item(struct tale *tale, size_t number)
{
    struct history_log *log = &tale->logs[W];

    assert_true(number < log->item_count);
    log->item_count--;
    memmove(&log->items[number], &log->items[number + 1],
            (log->item_count - number) * sizeof(*log->items));
}

#endif
