/* When sessions were last active: the newest report counts, old entries make room, all is bounded.
 */
#include "server/sessions/heard.h"
#include "tests/lib/unit.h"

static void note(struct heard *heard, uint64_t session, uint32_t member, uint64_t now_ms)
{
    heard_note(heard, &session, 1, member, now_ms);
}

TEST(the_newest_report_counts)
{
    struct heard *heard = heard_new(10);
    struct heard_entry entry;

    assert_false(heard_find(heard, 7, &entry));
    note(heard, 7, 1, 1000);
    note(heard, 7, 2, 2000);
    note(heard, 8, 3, 1500);
    assert_true(heard_find(heard, 7, &entry));
    assert_int_equal(entry.at_ms, 2000);
    assert_int_equal(entry.member, 2);
    assert_true(heard_find(heard, 8, &entry));
    assert_int_equal(entry.member, 3);
    assert_false(heard_find(heard, 9, &entry));
    heard_free(heard);
}

TEST(the_table_grows_up_to_a_bound)
{
    struct heard *heard = heard_new(5000);
    struct heard_entry entry;

    for (uint64_t id = 1; id <= 6000; id++) {
        note(heard, id, 1, id);
    }
    for (uint64_t id = 1; id <= 6000; id++) {
        assert_int_equal(heard_find(heard, id, &entry), id <= 5000);
    }
    note(heard, 1, 2, 7000); /* A known session stays known. */
    assert_true(heard_find(heard, 1, &entry));
    assert_int_equal(entry.at_ms, 7000);
    heard_free(heard);
}

/* Sessions that have ended are never reported again: they must not fill the table permanently. */
TEST(silent_sessions_make_room)
{
    struct heard *heard = heard_new(1000);
    struct heard_entry entry;
    uint64_t late_ms = HEARD_KEEP_MS + 10000;

    for (uint64_t id = 1; id <= 1000; id++) {
        note(heard, id, 1, 1);
    }
    for (uint64_t id = 1001; id <= 3000; id++) {
        note(heard, id, 1, late_ms + id);
    }
    assert_false(heard_find(heard, 1, &entry));
    assert_true(heard_find(heard, 1500, &entry));
    heard_free(heard);
}

TEST(the_table_knows_whether_all_replicas_report)
{
    struct heard *heard = heard_new(1);

    assert_false(heard_all(heard));
    heard_set_all(heard, true);
    assert_true(heard_all(heard));
    heard_set_all(heard, false);
    assert_false(heard_all(heard));
    heard_free(heard);
}
