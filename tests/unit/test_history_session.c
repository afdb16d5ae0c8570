/* The checker of histories: the end of a session deletes its ephemerals, and nothing else. */
#include "tests/unit/history_tale.h"

enum {
    SESSION = 5,
    FIRST = 2, /* Keys. */
    SECOND = 3
};

/* Client A makes two ephemerals at 17 and 18, and closes its session at 20: ops 7 to 9 of A. The
 * watcher receives the events as items 11 to 14. */
static void build_session(struct tale *tale)
{
    struct history_op op = make(HISTORY_CREATE, FIRST, 11, 17);

    build(tale);
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

TEST(a_session_ends_with_its_ephemerals)
{
    struct tale tale;

    build_session(&tale);
    judge(&tale, NULL);
    build_session(&tale); /* Without a watcher. */
    tale.logs[W].item_count = 0;
    judge(&tale, NULL);
    build_session(&tale); /* One was deleted before. */
    item(&tale, 13)->zxid = 19;
    item(&tale, 13)->end = true;
    add_op(&tale, B, make(HISTORY_DELETE, FIRST, 0, 19));
    op_of(&tale, B, 5)->start_us = op_of(&tale, A, 9)->start_us;
    judge(&tale, NULL);
}

TEST(no_ephemeral_outlives_its_session)
{
    struct tale tale;

    build_session(&tale); /* The second one stays. */
    item(&tale, 13)->end = true;
    remove_item(&tale, 14);
    judge(&tale, "session");
    build_session(&tale); /* One is deleted later. */
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

TEST(only_its_own_ephemerals_end_with_a_session)
{
    struct tale tale;

    build_session(&tale); /* Not in one transaction. */
    item(&tale, 13)->zxid = 19;
    item(&tale, 13)->end = true;
    judge(&tale, "unasked");
    build_session(&tale);
    op_of(&tale, A, 8)->session = SESSION + 1;
    judge(&tale, "unasked");
    build_session(&tale);
    op_of(&tale, A, 8)->steps[0].ephemeral = false;
    judge(&tale, "unasked");
    build_session(&tale); /* Before the close was sent. */
    op_of(&tale, A, 9)->start_us = tale.now_us + 1;
    op_of(&tale, A, 9)->end_us = tale.now_us + 2;
    judge(&tale, "unasked");
}
