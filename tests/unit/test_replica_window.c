/* What a replica puts into the window of changes, and when the window starts again. */
#include "server/state/state.h"
#include "server/watch/subscribe.h"
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"

enum {
    SETS_MAX = 16
};

/* Takes all sets behind the mark, up to the maximum; the mark moves. */
static size_t take(struct bench *bench, struct window_mark *mark, struct change_set *sets[SETS_MAX])
{
    size_t count = 0;

    assert_int_equal(window_read(bench->window, mark, sets, SETS_MAX, &count, &mark->zxid), ERR_OK);
    return count;
}

static void drop(struct change_set *sets[SETS_MAX], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        change_set_unref(sets[i]);
    }
}

static struct window_extent extent(struct bench *bench)
{
    struct window_extent extent;

    window_extent(bench->window, &extent);
    return extent;
}

TEST(each_transaction_is_a_set)
{
    struct bench bench;
    struct change_set *sets[SETS_MAX];
    struct window_mark mark;

    bench_follow(&bench);
    window_end(bench.window, &mark);
    assert_int_equal(mark.zxid, zxid_make(1, 0)); /* The start of the epoch also moved the end. */
    drive_entry(&bench.drive, bench_record(&bench.drive, 0, "/a"), 0);
    drive_entry(&bench.drive, bench_record(&bench.drive, 0, "/b"), 0);
    bench_commit(&bench.drive, zxid_make(1, 2));
    size_t count = take(&bench, &mark, sets);

    assert_int_equal(count, 2);
    assert_int_equal(sets[0]->zxid, zxid_make(1, 1));
    assert_int_equal(sets[1]->zxid, zxid_make(1, 2));
    assert_int_equal(sets[1]->count, 1);
    assert_int_equal(sets[1]->items[0].type, TXN_CREATE);
    assert_true(slice_eq(sets[1]->items[0].path, slice_str("/b")));
    assert_int_equal(sets[1]->items[0].stat.czxid, zxid_make(1, 2));
    assert_int_equal(mark.zxid, zxid_make(1, 2));
    bench_close(&bench);
    drop(sets, count); /* The sets outlive the window, the log and the state. */
}

TEST(uncommitted_changes_are_not_in_the_window, bench, bench_follow, bench_tear_down)
{
    struct change_set *sets[SETS_MAX];
    struct window_mark mark;

    window_end(bench->window, &mark);
    drive_entry(&bench->drive, bench_record(&bench->drive, 0, "/a"), 0);
    drive_persist(&bench->drive);
    assert_int_equal(take(bench, &mark, sets), 0);
    assert_int_equal(mark.zxid, zxid_make(1, 0));
}

static void count_wakes(void *ctx)
{
    uint32_t *wakes = ctx;

    (*wakes)++;
}

TEST(listeners_are_woken_once_for_a_run, bench, bench_follow, bench_tear_down)
{
    uint32_t wakes = 0;
    struct window_listener listener = {.wake = count_wakes, .ctx = &wakes};

    window_listen(bench->window, &listener);
    drive_entry(&bench->drive, bench_record(&bench->drive, 0, "/a"), 0);
    drive_entry(&bench->drive, bench_record(&bench->drive, 0, "/b"), 0);
    bench_commit(&bench->drive, zxid_make(1, 2));
    assert_int_equal(wakes, 1);
    window_unlisten(bench->window, &listener);
}

TEST(the_window_continues_across_a_change_of_leader, bench, bench_follow, bench_tear_down)
{
    struct window_mark mark;
    struct change_set *sets[SETS_MAX];

    window_end(bench->window, &mark);
    drive_entry(&bench->drive, bench_record(&bench->drive, 0, "/a"), 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    drive_down(&bench->drive, 3);
    drive_clear(&bench->drive);
    drive_follow(&bench->drive, 2, 2);
    size_t count = take(bench, &mark, sets);

    assert_int_equal(count, 1);
    assert_int_equal(mark.zxid, zxid_make(2, 0));
    drop(sets, count);
}

/* A change of the members is a new text of /zookeeper/config. */
TEST(a_new_configuration_is_a_change, bench, bench_follow, bench_tear_down)
{
    struct window_mark mark;
    struct change_set *sets[SETS_MAX];
    struct buf bytes;

    window_end(bench->window, &mark);
    buf_init(&bytes, 1 << 16);
    zab_config_encode(&bench->drive.init.config, &bytes);
    drive_entry(
        &bench->drive,
        drive_log_add_type(&bench->drive.theirs, LOGREC_CONFIG, zxid_make(1, 1), buf_slice(&bytes)),
        0);
    buf_release(&bytes);
    bench_commit(&bench->drive, zxid_make(1, 1));
    size_t count = take(bench, &mark, sets);

    assert_int_equal(count, 1);
    assert_int_equal(sets[0]->items[0].type, TXN_SET);
    assert_true(slice_eq(sets[0]->items[0].path, slice_str(STATE_CONFIG_PATH)));
    assert_int_equal(sets[0]->items[0].stat.mzxid, zxid_make(1, 1));
    assert_non_null(sets[0]->items[0].data);
    drop(sets, count);
}

/* ---- Another state. ---- */

TEST(recovered_transactions_precede_the_window, bench, no_set_up, bench_tear_down)
{
    bench_open(bench, 1, 3);
    assert_int_equal(extent(bench).restarts, 1);
    assert_int_equal(extent(bench).base, 0);
    drive_follow(&bench->drive, 3, 1);
    assert_int_equal(extent(bench).restarts, 1);
    assert_int_equal(extent(bench).last, zxid_make(1, 0));
}

TEST(an_exact_snapshot_restarts_the_window_at_once, bench, bench_follow, bench_tear_down)
{
    uint64_t restarts = extent(bench).restarts;

    bench_install(bench, zxid_make(2, 5));
    bench->drive.restored_digest = bench_status(bench).digest;
    assert_int_equal(extent(bench).restarts, restarts);
    drive_restored(&bench->drive);
    assert_int_equal(extent(bench).restarts, restarts + 1);
    assert_int_equal(extent(bench).base, zxid_make(2, 5));
    bench_up_to_date(bench);
    assert_int_equal(extent(bench).restarts, restarts + 1);
    assert_int_equal(extent(bench).last, zxid_make(3, 0));
}

static enum err read_err(struct bench *bench, const struct window_mark *mark)
{
    struct change_set *sets[SETS_MAX];
    zxid_t upto;
    size_t count = 0;
    enum err err = window_read(bench->window, mark, sets, SETS_MAX, &count, &upto);

    drop(sets, count);
    return err;
}

/* The state can be replaced at any moment between the order to load another one and the report that
 * it is loaded. */
TEST(no_read_is_answered_while_another_state_is_loaded, bench, bench_follow, bench_tear_down)
{
    struct window_mark mark;

    window_end(bench->window, &mark);
    drive_entry(&bench->drive, bench_record(&bench->drive, 0, "/a"), 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    assert_int_equal(read_err(bench, &mark), ERR_OK);
    bench_install(bench, zxid_make(2, 5));
    assert_int_equal(read_err(bench, &mark), ERR_NOT_READY);
    bench->drive.restored_digest = bench_status(bench).digest;
    drive_restored(&bench->drive);
    assert_int_equal(read_err(bench, &mark), ERR_MISSING);
    window_end(bench->window, &mark);
    assert_int_equal(read_err(bench, &mark), ERR_OK);
}

/* Of two states that are being loaded, only the second is the state of the log. */
TEST(a_state_that_is_replaced_again_does_not_restart_the_window, bench, bench_follow,
     bench_tear_down)
{
    struct window_mark mark;
    uint64_t restarts;

    window_end(bench->window, &mark);
    restarts = extent(bench).restarts;
    bench_install(bench, zxid_make(2, 5));
    bench_install_again(bench);
    bench->drive.restored_digest = bench_status(bench).digest;
    drive_restored(&bench->drive);
    assert_int_equal(extent(bench).restarts, restarts);
    assert_int_equal(read_err(bench, &mark), ERR_NOT_READY);
    drive_restored(&bench->drive);
    assert_int_equal(extent(bench).restarts, restarts + 1);
    assert_int_equal(read_err(bench, &mark), ERR_MISSING);
}

/* A state that cannot be loaded does not end the window's suspension: the next state is being
 * loaded. */
TEST(a_failed_load_leaves_the_window_to_the_next_state, bench, bench_follow, bench_tear_down)
{
    struct window_mark mark;
    struct zab_event failed = {.type = ZAB_EV_RESTORED, .restored.err = ERR_MISSING};

    window_end(bench->window, &mark);
    bench_install(bench, zxid_make(2, 5));
    bench_install_again(bench);
    bench->drive.restored_digest = bench_status(bench).digest;
    drive_step(&bench->drive, &failed);
    assert_null(drive_effect(&bench->drive, ZAB_FX_HALT));
    assert_int_equal(read_err(bench, &mark), ERR_NOT_READY);
    drive_restored(&bench->drive);
    assert_int_equal(read_err(bench, &mark), ERR_MISSING);
    window_end(bench->window, &mark);
    assert_int_equal(read_err(bench, &mark), ERR_OK);
}

/* When no further state follows, the process ends: no watcher waits for a window that stays
 * suspended. */
TEST(a_final_failed_load_ends_the_process, bench, bench_follow, bench_tear_down)
{
    struct window_mark mark;
    struct zab_event failed = {.type = ZAB_EV_RESTORED, .restored.err = ERR_CORRUPT};

    window_end(bench->window, &mark);
    bench_install(bench, zxid_make(2, 5));
    drive_step(&bench->drive, &failed);
    assert_non_null(drive_effect(&bench->drive, ZAB_FX_HALT));
    assert_int_equal(read_err(bench, &mark), ERR_NOT_READY);
}

struct listener {
    struct window_listener listener;
    int wakes;
    int events;
    int losses;
    zxid_t lost_from;
};

static void on_wake(void *ctx)
{
    ((struct listener *)ctx)->wakes++;
}

static void on_event(void *ctx, struct watch_owner *owner, struct watch *hits,
                     const struct watch_event *event)
{
    (void)owner;
    (void)hits;
    (void)event;
    ((struct listener *)ctx)->events++;
}

static void on_lost(void *ctx, zxid_t from)
{
    ((struct listener *)ctx)->losses++;
    ((struct listener *)ctx)->lost_from = from;
}

/* The leader is lost while the state is loaded, and no other is found: the end of the load suffices
 * for watchers to learn that they have missed something. */
TEST(watchers_learn_of_a_loss_after_the_load, bench, bench_follow, bench_tear_down)
{
    struct listener watcher = {.listener = {.wake = on_wake}};
    const struct subscribe_sink sink = {.on_event = on_event, .on_lost = on_lost, .ctx = &watcher};

    struct subscriber *subscriber = subscriber_new(bench->view, bench->window, &sink);
    zxid_t at = subscribe_at(subscriber);

    watcher.listener.ctx = &watcher;
    bench_install(bench, zxid_make(2, 5));
    window_listen(bench->window, &watcher.listener);
    bench->drive.restored_digest = bench_status(bench).digest;
    drive_down(&bench->drive, 2);
    assert_int_equal(subscribe_pump(subscriber, ZXID_MAX, SIZE_MAX), at);
    assert_int_equal(watcher.losses, 0);
    drive_restored(&bench->drive);
    assert_int_equal(bench_status(bench).zab.state, ZAB_LOOKING);
    assert_true(watcher.wakes > 0);
    (void)subscribe_pump(subscriber, ZXID_MAX, SIZE_MAX);
    assert_int_equal(watcher.losses, 1);
    assert_int_equal(watcher.lost_from, at);
    assert_int_equal(watcher.events, 0);
    window_unlisten(bench->window, &watcher.listener);
    subscriber_free(subscriber);
}

/* The leader sends a quarantined replica its state from the beginning: until the replica has
 * released the mark, its state does not count. */
TEST(a_quarantined_replica_does_not_restart_the_window, bench, no_set_up, bench_tear_down)
{
    struct window_mark mark;

    bench_open_quarantined(bench, 1, 3);
    window_end(bench->window, &mark);
    assert_int_equal(read_err(bench, &mark), ERR_NOT_READY);
    bench_refill(bench, zxid_make(2, 5));
    bench->drive.restored_digest = bench_status(bench).digest;
    drive_restored(&bench->drive);
    assert_true(bench_status(bench).zab.quarantined);
    assert_int_equal(read_err(bench, &mark), ERR_NOT_READY);
    bench_up_to_date(bench);
    assert_true(bench_status(bench).readable);
    window_end(bench->window, &mark);
    assert_int_equal(mark.zxid, zxid_make(3, 0));
    assert_int_equal(read_err(bench, &mark), ERR_OK);
}

/* The transactions that it repeats on the way to the snapshot's end are no history. */
TEST(a_fuzzy_snapshot_restarts_the_window_at_its_end, bench, bench_follow, bench_tear_down)
{
    struct window_extent before;
    struct window_mark mark;
    struct change_set *sets[SETS_MAX];
    uint64_t digest = bench_end_digest();

    bench->drive.restored_digest = digest;
    before = extent(bench);
    bench_install(bench, zxid_make(2, 6));
    drive_restored(&bench->drive);
    assert_int_equal(extent(bench).restarts, before.restarts);
    assert_int_equal(extent(bench).last, before.last);
    bench_up_to_date(bench);
    assert_true(bench_status(bench).readable);
    assert_int_equal(extent(bench).restarts, before.restarts + 1);
    assert_int_equal(extent(bench).base, zxid_make(2, 6));
    assert_int_equal(extent(bench).last, zxid_make(3, 0));

    window_end(bench->window, &mark);
    drive_entry(&bench->drive, bench_record(&bench->drive, 0, "/c"), 0);
    bench_commit(&bench->drive, zxid_make(3, 1));
    size_t count = take(bench, &mark, sets);

    assert_int_equal(count, 1);
    drop(sets, count);
}

/* It is unknown whether its changes have happened. */
TEST(a_state_that_is_wrong_at_its_end_adds_nothing, bench, bench_follow, bench_tear_down)
{
    uint64_t restarts;

    restarts = extent(bench).restarts;
    bench_install(bench, zxid_make(2, 6));
    bench->drive.restored_digest = 4711;
    drive_restored(&bench->drive);
    bench_up_to_date(bench);
    assert_false(bench_status(bench).readable);
    assert_int_equal(extent(bench).restarts, restarts);
    assert_int_equal(extent(bench).last, zxid_make(1, 0));
}
