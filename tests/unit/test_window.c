/* The window of recent changes: what it keeps, what it drops, and what readers learn. */
#include "base/check.h"
#include "base/thread.h"
#include "server/watch/window.h"
#include "tests/lib/unit.h"

#include <stdatomic.h>

enum {
    READ_MAX = 64,
    RACE_SETS = 20000
};

static struct change_set *make_set(zxid_t zxid, size_t data_len)
{
    struct logrec *rec = logrec_new(LOGREC_TXN, zxid, zxid - 1, 0, slice_str("/a"));
    struct blob *data = blob_alloc((uint32_t)data_len);
    struct state_change change = {.type = TXN_SET, .path = logrec_payload(rec), .data = data};
    struct state_changes changes = {.items = &change, .count = 1};
    struct change_set *set = change_set_new(zxid, rec, &changes);

    memset(data->data, 'v', data_len);
    blob_unref(data);
    logrec_unref(rec);
    return set;
}

/* Reads behind `after` and releases the references; returns what was found. */
static enum err read_zxids(struct window *window, struct window_mark after, size_t max,
                           zxid_t zxids[READ_MAX], size_t *ret_count, zxid_t *ret_last)
{
    struct change_set *sets[READ_MAX];
    enum err err = window_read(window, &after, sets, max, ret_count, ret_last);

    for (size_t i = 0; i < *ret_count; i++) {
        zxids[i] = sets[i]->zxid;
        assert_true(slice_eq(sets[i]->items[0].path, slice_str("/a")));
        change_set_unref(sets[i]);
    }
    return err;
}

static struct window_mark mark(zxid_t zxid, uint64_t restarts)
{
    return (struct window_mark){.zxid = zxid, .restarts = restarts};
}

TEST(reads_return_the_sets_after_a_mark_in_order)
{
    struct window *window = window_new(1 << 20, 10, 100);
    zxid_t zxids[READ_MAX];
    zxid_t last;
    size_t count;

    assert_int_equal(read_zxids(window, mark(100, 0), 8, zxids, &count, &last), ERR_OK);
    assert_int_equal(count, 0);
    assert_int_equal(last, 100);
    window_append(window, make_set(101, 1));
    window_append(window, make_set(105, 1));
    window_append(window, make_set(106, 1));
    assert_int_equal(read_zxids(window, mark(100, 0), 8, zxids, &count, &last), ERR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(zxids[0], 101);
    assert_int_equal(zxids[2], 106);
    assert_int_equal(last, 106);
    assert_int_equal(read_zxids(window, mark(103, 0), 1, zxids, &count, &last), ERR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(zxids[0], 105);
    assert_int_equal(last, 105);
    window_free(window);
}

TEST(a_skipped_record_moves_the_end_alone)
{
    struct window *window = window_new(1 << 20, 10, 0);
    struct window_mark end;
    zxid_t zxids[READ_MAX];
    zxid_t last;
    size_t count;

    window_append(window, make_set(1, 1));
    window_skip(window, 5);
    window_skip(window, 4);
    window_end(window, &end);
    assert_int_equal(end.zxid, 5);
    assert_int_equal(read_zxids(window, mark(1, 0), 8, zxids, &count, &last), ERR_OK);
    assert_int_equal(count, 0);
    assert_int_equal(last, 5);
    /* A full page does not claim to cover what follows it. */
    assert_int_equal(read_zxids(window, mark(0, 0), 1, zxids, &count, &last), ERR_OK);
    assert_int_equal(last, 5);
    window_append(window, make_set(6, 1));
    assert_int_equal(read_zxids(window, mark(0, 0), 1, zxids, &count, &last), ERR_OK);
    assert_int_equal(last, 1);
    window_free(window);
}

TEST(a_mark_ahead_of_the_end_reads_nothing_and_stays)
{
    struct window *window = window_new(1 << 20, 10, 7);
    zxid_t zxids[READ_MAX];
    zxid_t last;
    size_t count;

    window_append(window, make_set(8, 1));
    assert_int_equal(read_zxids(window, mark(20, 0), 8, zxids, &count, &last), ERR_OK);
    assert_int_equal(count, 0);
    assert_int_equal(last, 20);
    window_free(window);
}

TEST(too_many_sets_drop_the_oldest)
{
    struct window *window = window_new(1 << 20, 3, 0);
    struct window_extent extent;
    zxid_t zxids[READ_MAX];
    zxid_t last;
    size_t count;

    for (zxid_t zxid = 1; zxid <= 10; zxid++) {
        window_append(window, make_set(zxid, 1));
    }
    window_extent(window, &extent);
    assert_int_equal(extent.sets, 3);
    assert_int_equal(extent.base, 7);
    assert_int_equal(extent.last, 10);
    assert_int_equal(read_zxids(window, mark(6, 0), 8, zxids, &count, &last), ERR_MISSING);
    assert_int_equal(count, 0);
    assert_int_equal(read_zxids(window, mark(7, 0), 8, zxids, &count, &last), ERR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(zxids[0], 8);
    window_free(window);
}

TEST(too_many_bytes_drop_the_oldest)
{
    struct window *window = window_new(10000, 100, 0);
    struct window_extent extent;

    for (zxid_t zxid = 1; zxid <= 20; zxid++) {
        window_append(window, make_set(zxid, 2000));
        window_extent(window, &extent);
        assert_true(extent.bytes <= 10000);
    }
    assert_true(extent.sets >= 2 && extent.sets < 5);
    assert_int_equal(extent.base, 20 - extent.sets);
    window_free(window);
}

TEST(the_newest_set_stays_whatever_its_size)
{
    struct window *window = window_new(1000, 100, 0);
    struct window_extent extent;

    window_append(window, make_set(1, 10));
    window_append(window, make_set(2, 50000));
    window_extent(window, &extent);
    assert_int_equal(extent.sets, 1);
    assert_int_equal(extent.base, 1);
    window_append(window, make_set(3, 10));
    window_extent(window, &extent);
    assert_int_equal(extent.sets, 1);
    assert_int_equal(extent.base, 2);
    window_free(window);
}

TEST(readers_keep_what_the_window_has_dropped)
{
    struct window *window = window_new(1 << 20, 1, 0);
    struct window_mark start = mark(0, 0);
    struct change_set *set;
    zxid_t last;
    size_t count;

    window_append(window, make_set(1, 3));
    assert_int_equal(window_read(window, &start, &set, 1, &count, &last), ERR_OK);
    assert_int_equal(count, 1);
    window_append(window, make_set(2, 3));
    window_free(window);
    assert_int_equal(set->zxid, 1);
    assert_memory_equal(set->items[0].data->data, "vvv", 3);
    change_set_unref(set);
}

TEST(a_restart_invalidates_all_marks)
{
    struct window *window = window_new(1 << 20, 10, 0);
    struct window_mark end;
    zxid_t zxids[READ_MAX];
    zxid_t last;
    size_t count;

    window_append(window, make_set(1, 1));
    window_append(window, make_set(2, 1));
    window_restart(window, 1);
    assert_int_equal(read_zxids(window, mark(1, 0), 8, zxids, &count, &last), ERR_MISSING);
    assert_int_equal(read_zxids(window, mark(9, 0), 8, zxids, &count, &last), ERR_MISSING);
    window_end(window, &end);
    assert_int_equal(end.zxid, 1);
    assert_int_equal(end.restarts, 1);
    window_append(window, make_set(2, 1));
    assert_int_equal(read_zxids(window, end, 8, zxids, &count, &last), ERR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(read_zxids(window, mark(0, 1), 8, zxids, &count, &last), ERR_MISSING);
    window_free(window);
}

TEST(only_watchable_changes_are_kept)
{
    struct blob *acl = blob_new(slice_str("acl"));
    struct state_change items[] = {
        {.type = TXN_CHECK, .path = slice_str("/a")},
        {.type = TXN_CREATE, .path = slice_str("/a/b"), .acl = acl, .parent_acl = acl},
        {.type = TXN_REMEMBER},
        {.type = TXN_SESSION_MOVE, .session = 5, .attach = 6, .member = 7},
        {.type = TXN_SESSION_CLOSE, .session = 5, .expired = true},
    };
    struct state_changes changes = {.items = items, .count = 5};
    struct change_set *set = change_set_new(9, NULL, &changes);

    assert_int_equal(set->count, 3);
    assert_int_equal(set->items[0].type, TXN_CREATE);
    assert_int_equal(set->items[1].session, 5);
    assert_int_equal(set->items[1].attach, 6);
    assert_int_equal(set->items[1].member, 7);
    assert_false(set->items[1].expired);
    assert_true(set->items[2].expired);
    blob_unref(acl);
    assert_memory_equal(set->items[0].parent_acl->data, "acl", 3);
    change_set_unref(set);
    changes.count = 1;
    assert_null(change_set_new(9, NULL, &changes));
    change_set_unref(NULL);
}

static void count_wake(void *ctx)
{
    *(int *)ctx += 1;
}

TEST(listeners_are_woken_once_for_several_sets)
{
    struct window *window = window_new(1 << 20, 10, 0);
    int woken[2] = {0};
    struct window_listener first = {.wake = count_wake, .ctx = &woken[0]};
    struct window_listener second = {.wake = count_wake, .ctx = &woken[1]};

    window_listen(window, &first);
    window_listen(window, &second);
    window_wake(window);
    assert_int_equal(woken[0], 0);
    window_append(window, make_set(1, 1));
    window_append(window, make_set(2, 1));
    window_wake(window);
    window_wake(window);
    assert_int_equal(woken[0], 1);
    assert_int_equal(woken[1], 1);
    window_skip(window, 3);
    window_wake(window);
    assert_int_equal(woken[0], 1);
    window_unlisten(window, &first);
    window_restart(window, 9);
    window_wake(window);
    assert_int_equal(woken[0], 1);
    assert_int_equal(woken[1], 2);
    window_unlisten(window, &second);
    window_free(window);
}

static void write_many(void *arg)
{
    struct window *window = arg;

    for (zxid_t zxid = 1; zxid <= RACE_SETS; zxid++) {
        window_append(window, make_set(zxid, 1));
    }
}

TEST(a_concurrent_reader_notices_every_miss)
{
    struct window *window = window_new(1 << 20, 500, 0);
    struct window_mark at = {0};
    struct thread writer;
    zxid_t zxids[READ_MAX];
    zxid_t last;
    size_t count;

    thread_start(&writer, "writer", write_many, window);
    while (at.zxid < RACE_SETS) {
        if (read_zxids(window, at, READ_MAX, zxids, &count, &last) != ERR_OK) {
            window_end(window, &at);
            continue;
        }
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(zxids[i], at.zxid + 1 + i);
        }
        at.zxid = last;
    }
    thread_join(&writer);
    window_free(window);
}
