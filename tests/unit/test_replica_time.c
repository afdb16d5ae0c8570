/* The times of transactions: no wall clock moves the age, also after a restart or at another
 * leader. An idle leader writes the age that no other transaction carries. Absurd times do no harm.
 */
#include "server/replica/clock.h"
#include "server/state/state.h"
#include "server/state/txn.h"
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"

#define YEARS_MS INT64_C(315360000000) /* Ten. */

enum {
    AGE_MS = 5000000,
    NOW_MS = 1000000, /* The bench's wall clock. */
    HOUR_MS = 3600000,
    TXN_AGE_AT = 22, /* Offsets in a header. */
    TXN_STAMP_AT = 30,
    IDLE_STEP_MS = 200,
    MINUTE_MS = 60000,
    FIRST_MS = 10000,
};

static void apply_at(struct state *state, zxid_t zxid, int64_t age_ms, const char *path,
                     uint32_t creates)
{
    const struct txn_header header = {.age_ms = age_ms, .stamp_ms = -age_ms};
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn,
            &(struct txn_effect){.type = TXN_CREATE, .path = slice_str(path), .creates = creates});
    assert_int_equal(state_apply(state, zxid, buf_slice(&txn), false, NULL), ERR_OK);
    buf_release(&txn);
}

static struct state *copy_by_snapshot(const struct state *state)
{
    struct state *copy = state_new(0);
    struct state_cursor cursor;
    struct buf block;

    buf_init(&block, 1 << 20);
    state_scan_init(&cursor);
    while (!cursor.done) {
        buf_clear(&block);
        state_scan(state, &cursor, 1 << 16, &block);
        if (block.len > 0) {
            assert_int_equal(state_restore(copy, buf_slice(&block)), ERR_OK);
        }
    }
    state_scan_release(&cursor);
    state_restored(copy, state_applied(state));
    buf_release(&block);
    return copy;
}

TEST(a_snapshot_keeps_the_times_of_the_state)
{
    struct state *state = state_new(7);

    assert_int_equal(state_age_ms(state), 0);
    apply_at(state, zxid_make(1, 1), 50, "/a", 1);
    apply_at(state, zxid_make(1, 2), 40, "/b", 2);
    assert_int_equal(state_age_ms(state), 50);
    assert_int_equal(state_stamp_ms(state), -40);

    struct state *copy = copy_by_snapshot(state);

    assert_int_equal(state_age_ms(copy), 50);
    assert_int_equal(state_stamp_ms(copy), -40);
    assert_int_equal(state_digest(copy), state_digest(state));
    state_free(copy);
    state_free(state);
}

/* A TTL does not count from the mtime that clients see. */
TEST(a_snapshot_keeps_the_age_of_ttl_znodes_and_containers)
{
    struct state *state = state_new(7);
    const struct txn_header header = {.age_ms = 1000, .stamp_ms = YEARS_MS};
    struct buf buf;

    buf_init(&buf, 4096);
    txn_begin(&buf, &header);
    txn_put(&buf, &(struct txn_effect){.type = TXN_CREATE,
                                       .path = slice_str("/ttl"),
                                       .owner = OWNER_TTL_MARK | 50,
                                       .creates = 1});
    assert_int_equal(state_apply(state, 1, buf_slice(&buf), false, NULL), ERR_OK);

    struct state *copy = copy_by_snapshot(state);

    assert_int_equal(state_digest(copy), state_digest(state));
    buf_clear(&buf);
    assert_int_equal(state_reap_candidates(copy, 1049, 9, &buf), 0);
    assert_int_equal(state_reap_candidates(copy, 1050, 9, &buf), 1);
    assert_int_equal(znode_age_ms(state_find(copy, slice_str("/ttl"))), 1000);
    buf_release(&buf);
    state_free(copy);
    state_free(state);
}

/* The clocks may have differed between two runs that lead to the same tree. */
TEST(the_times_are_no_part_of_the_digest)
{
    struct state *one = state_new(7);
    struct state *other = state_new(7);
    const struct txn_header header = {.age_ms = 90, .stamp_ms = 90};
    struct buf txn;

    apply_at(one, zxid_make(1, 1), 50, "/a", 1);
    apply_at(other, zxid_make(1, 1), 50, "/a", 1);
    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){.type = TXN_CHECK, .path = slice_str("/a")});
    assert_int_equal(state_apply(other, zxid_make(1, 2), buf_slice(&txn), false, NULL), ERR_OK);
    buf_release(&txn);
    assert_int_equal(state_age_ms(other), 90);
    assert_int_equal(state_digest(one), state_digest(other));
    state_free(one);
    state_free(other);
}

/* ---- A leader's. ---- */

static struct txn_header proposed(struct bench *bench, const char *path)
{
    struct wire_reader reader;
    struct txn_header header;
    static struct outcome outcome; /* The answer may arrive after the return. */

    drive_clear(&bench->drive);
    bench_create(bench, path, &outcome);
    const struct zab_msg *entry = drive_sent(&bench->drive, 1, ZAB_ENTRY);

    assert_int_equal(txn_open(&reader, logrec_payload(entry->entry.rec), &header), ERR_OK);
    return header;
}

TEST(a_restarted_leader_continues_the_age_of_its_state, bench, no_set_up, bench_tear_down)
{
    struct state *state = state_new(7);

    apply_at(state, 0x1, AGE_MS, "/old", 1);

    struct state *recovered = copy_by_snapshot(state);

    state_restored(recovered, 0);
    state_free(state);
    bench_open_with(bench, 3, 3, recovered);
    drive_lead(&bench->drive);
    assert_int_equal(proposed(bench, "/new").age_ms, AGE_MS);
    drive_tick(&bench->drive, 300);
    assert_int_equal(proposed(bench, "/newer").age_ms, AGE_MS + 300);
}

TEST(no_wall_clock_moves_the_age, bench, bench_lead, bench_tear_down)
{
    int64_t age_ms = proposed(bench, "/a").age_ms;

    bench->wall_ms += YEARS_MS;
    assert_int_equal(proposed(bench, "/b").age_ms, age_ms);
    drive_tick(&bench->drive, 400);
    assert_int_equal(proposed(bench, "/c").age_ms, age_ms + 400);
    bench->wall_ms = 1;
    assert_int_equal(proposed(bench, "/d").age_ms, age_ms + 400);
}

/* The leader was paused: the time has passed nevertheless. */
TEST(the_age_counts_a_pause, bench, bench_lead, bench_tear_down)
{
    int64_t age_ms = proposed(bench, "/a").age_ms;

    drive_pause(&bench->drive, 1500);
    assert_int_equal(proposed(bench, "/b").age_ms, age_ms + 1500);
}

/* ---- Absurd times. ---- */

/* The next record of the leader creates `path` at these times. */
static void commit_at(struct bench *bench, const char *path, int64_t age_ms, int64_t stamp_ms)
{
    struct drive *drive = &bench->drive;
    zxid_t zxid = drive_log_last(&drive->theirs) + 1;
    struct logrec *made = bench_record(drive, 0, path);
    struct buf txn;

    buf_init(&txn, 4096);
    buf_append_slice(&txn, logrec_payload(made));
    wire_store_u64(txn.data + TXN_AGE_AT, (uint64_t)age_ms);
    wire_store_u64(txn.data + TXN_STAMP_AT, (uint64_t)stamp_ms);
    drive_log_cut(&drive->theirs, zxid - 1);
    drive_entry(drive, drive_log_add_type(&drive->theirs, LOGREC_TXN, zxid, buf_slice(&txn)), 0);
    bench_commit(drive, zxid);
    buf_release(&txn);
}

static struct stat_view stat_of(struct bench *bench, const char *path)
{
    const struct state *state = view_read(bench->view);
    struct stat_view stat;

    assert_non_null(state_find(state, slice_str(path)));
    znode_stat(state_find(state, slice_str(path)), &stat);
    view_read_done(bench->view);
    return stat;
}

/* One bad proposal could otherwise stop every replica that reads it. */
TEST(absurd_times_of_a_committed_transaction_stop_no_follower, bench, bench_follow, bench_tear_down)
{
    commit_at(bench, "/a", 70, 80);
    assert_int_equal(stat_of(bench, "/a").ctime, 80);
    commit_at(bench, "/b", -1, INT64_MAX);
    assert_true(stat_of(bench, "/b").ctime == STAMP_MAX_MS);
    commit_at(bench, "/c", INT64_MAX, INT64_MIN);
    assert_true(stat_of(bench, "/c").ctime == -STAMP_MAX_MS);
    const struct state *state = view_read(bench->view);

    assert_int_equal(state_age_ms(state), 70); /* The next transaction continues from here. */
    view_read_done(bench->view);
    commit_at(bench, "/d", 90, 80);
    assert_int_equal(stat_of(bench, "/d").ctime, 80);
}

/* A stamp in the future is no reason to continue with it. */
TEST(a_leader_proposes_no_absurd_times, bench, no_set_up, bench_tear_down)
{
    struct state *state = state_new(7);
    const struct txn_header header = {.age_ms = TXN_AGE_MAX_MS, .stamp_ms = STAMP_MAX_MS};
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    assert_int_equal(state_apply(state, 1, buf_slice(&txn), false, NULL), ERR_OK);
    buf_release(&txn);

    struct state *recovered = copy_by_snapshot(state);

    state_restored(recovered, 0);
    state_free(state);
    bench_open_with(bench, 3, 3, recovered);
    drive_lead(&bench->drive);
    drive_tick(&bench->drive, 300);
    struct txn_header next = proposed(bench, "/a");

    assert_true(next.age_ms == TXN_AGE_MAX_MS);
    assert_true(next.stamp_ms <= STAMP_MAX_MS);
}

/* ---- Times in a snapshot. ---- */

/* The age in the replica's own heartbeat. */
static int64_t age_of(const struct bench *bench)
{
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX];
    size_t count = replica_heartbeats(bench->replica, heartbeats);
    const struct heartbeat *own = heartbeats_find(heartbeats, count, bench->drive.init.id);

    assert_non_null(own);
    return own->age_ms;
}

/* An empty tree with an age, in place of the state that is to be loaded. */
static void replace_with_age(struct bench *bench, int64_t age_ms)
{
    struct state *state = state_new(7);
    const struct txn_header header = {.age_ms = age_ms};
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    assert_int_equal(state_apply(state, 1, buf_slice(&txn), false, NULL), ERR_OK);
    buf_release(&txn);
    view_replace(bench->view, state);
}

TEST(a_bad_snapshot_leaves_no_age_behind)
{
    struct bench bench;

    for (uint32_t counter = 5; counter <= 6; counter++) { /* Exact, fuzzy. */
        bench_follow(&bench);
        bench_install(&bench, zxid_make(2, counter));
        replace_with_age(&bench, AGE_MS);
        bench.drive.restored_digest = 4711;
        drive_restored(&bench.drive);
        bench_up_to_date(&bench);
        assert_non_null(drive_asked(&bench.drive, ZAB_PERSIST_QUARANTINE));
        drive_tick(&bench.drive, 300);
        assert_true(age_of(&bench) < AGE_MS);
        bench_close(&bench);
    }
}

TEST(a_fuzzy_snapshot_has_its_age_where_the_log_covers_it, bench, bench_follow, bench_tear_down)
{
    uint64_t digest = bench_end_digest();

    bench_install(bench, zxid_make(2, 6));
    replace_with_age(bench, AGE_MS);
    bench->drive.restored_digest = digest;
    drive_restored(&bench->drive);
    drive_tick(&bench->drive, 300);
    assert_true(age_of(bench) < AGE_MS);
    bench_up_to_date(bench);
    drive_tick(&bench->drive, 300);
    assert_int_equal(age_of(bench), AGE_MS);
}

/* ---- Idle time. ---- */

/* A tree with a znode whose TTL is an hour. */
static struct state *state_with_ttl(int64_t age_ms)
{
    struct state *state = state_new(7);
    const struct txn_header header = {.age_ms = age_ms};
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){.type = TXN_CREATE,
                                       .path = slice_str("/ttl"),
                                       .owner = OWNER_TTL_MARK | HOUR_MS,
                                       .creates = 1});
    assert_int_equal(state_apply(state, 1, buf_slice(&txn), false, NULL), ERR_OK);
    buf_release(&txn);

    struct state *recovered = copy_by_snapshot(state);

    state_restored(recovered, 0);
    state_free(state);
    return recovered;
}

/* That much time passes; peer 1 answers and no client writes. */
static void idle(struct bench *bench, uint64_t ms)
{
    for (uint64_t passed_ms = 0; passed_ms < ms; passed_ms += IDLE_STEP_MS) {
        drive_tick(&bench->drive, IDLE_STEP_MS);
        drive_pong(&bench->drive, 1);
        drive_pong(&bench->drive, 2);
    }
}

/* The age in the newest proposal, which must have no effects; -1: none. */
static int64_t written_age(struct bench *bench)
{
    const struct zab_msg *entry = drive_sent(&bench->drive, 1, ZAB_ENTRY);
    struct wire_reader reader;
    struct txn_header header;
    struct txn_effect effect;

    if (!entry) {
        return -1;
    }
    assert_int_equal(entry->entry.rec->type, LOGREC_TXN);
    assert_int_equal(txn_open(&reader, logrec_payload(entry->entry.rec), &header), ERR_OK);
    assert_int_equal(txn_next(&reader, &effect), ERR_MISSING);
    assert_int_equal(header.origin_member, 0);
    return header.age_ms;
}

static void commit_last(struct bench *bench)
{
    drive_persist(&bench->drive);
    drive_learner_says(&bench->drive, 1, ZAB_ACK, drive_status(&bench->drive).last);
    drive_clear(&bench->drive);
}

TEST(an_idle_leader_writes_the_age_where_something_waits_for_it, bench, no_set_up, bench_tear_down)
{
    bench_open_with(bench, 3, 3, state_with_ttl(AGE_MS));
    drive_lead(&bench->drive);
    drive_clear(&bench->drive);
    idle(bench, BENCH_KEEP_AGE_MS - 1000);
    assert_int_equal(written_age(bench), -1);
    idle(bench, 2500);
    int64_t age_ms = written_age(bench);

    assert_in_range(age_ms, AGE_MS + BENCH_KEEP_AGE_MS, AGE_MS + BENCH_KEEP_AGE_MS + 1500);
    /* While one is in flight there is no second; the next follows after as much idle time again. */
    assert_int_equal(drive_sent_count(&bench->drive, 1, ZAB_ENTRY), 1);
    commit_last(bench);
    assert_int_equal(bench_status(bench).applied, zxid_make(1, 1));
    idle(bench, BENCH_KEEP_AGE_MS - 2000);
    assert_int_equal(written_age(bench), -1);
    idle(bench, 3000);
    assert_true(written_age(bench) >= age_ms + BENCH_KEEP_AGE_MS);
}

/* A leader whose log is written keeps the age, whatever keeps it from taking writes of its own
 * clients. */
TEST(an_idle_leader_that_takes_no_writes_writes_the_age, bench, no_set_up, bench_tear_down)
{
    for (int waits = 1; waits >= 0; waits--) {
        if (waits == 0) {
            bench_close(bench);
        }
        bench_open_with(bench, 3, 3, state_with_ttl(AGE_MS));
        drive_lead(&bench->drive);
        replica_stand_aside(bench->replica,
                            &(struct replica_aside){.why = "why", .log_waits = waits != 0},
                            bench->drive.now_ms, &bench->effects);
        bench_take(bench);
        drive_clear(&bench->drive);
        idle(bench, BENCH_KEEP_AGE_MS + 1500);
        assert_int_equal(written_age(bench) >= AGE_MS + BENCH_KEEP_AGE_MS, waits == 0);
    }
}

/* Otherwise a power failure every half minute would stop the age. */
TEST(a_leader_writes_the_age_sooner_the_first_time, bench, no_set_up, bench_tear_down)
{
    bench_open_keeping(bench, 3, 3, state_with_ttl(AGE_MS), MINUTE_MS);
    drive_lead(&bench->drive);
    drive_clear(&bench->drive);
    idle(bench, FIRST_MS - 1000);
    assert_int_equal(written_age(bench), -1);
    idle(bench, 2500);
    int64_t age_ms = written_age(bench);

    assert_in_range(age_ms, AGE_MS + FIRST_MS, AGE_MS + FIRST_MS + 1500);
    commit_last(bench);
    idle(bench, MINUTE_MS - 2000);
    assert_int_equal(written_age(bench), -1);
    idle(bench, 3000);
    assert_in_range(written_age(bench), age_ms + MINUTE_MS, age_ms + MINUTE_MS + 1500);
}

TEST(an_idle_ensemble_without_ttl_znodes_and_keys_writes_nothing, bench, bench_lead,
     bench_tear_down)
{
    idle(bench, 4 * (uint64_t)BENCH_KEEP_AGE_MS);
    assert_int_equal(bench_status(bench).zab.state, ZAB_LEADING);
    assert_null(drive_sent(&bench->drive, 1, ZAB_ENTRY));
}

/* The age has its maximum, so a transaction could not report more. */
TEST(an_idle_leader_whose_age_cannot_grow_writes_nothing, bench, no_set_up, bench_tear_down)
{
    bench_open_with(bench, 3, 3, state_with_ttl(TXN_AGE_MAX_MS));
    drive_lead(&bench->drive);
    drive_clear(&bench->drive);
    idle(bench, HOUR_MS + BENCH_KEEP_AGE_MS);
    assert_int_equal(bench_status(bench).zab.state, ZAB_LEADING);
    assert_null(drive_sent(&bench->drive, 1, ZAB_ENTRY));
}

TEST(an_idle_leader_keeps_a_remembered_result_no_longer_than_it_must)
{
    struct bench bench;
    struct outcome outcome;

    bench_lead(&bench);
    struct op_request *request = bench_request(&bench, OP_CREATE, "/a", &outcome);

    request->key = slice_str("key");
    bench_submit(&bench, request);
    commit_last(&bench);
    assert_int_equal(outcome.err, ERR_OK);
    idle(&bench, BENCH_KEEP_AGE_MS + 1500);
    assert_in_range(written_age(&bench), BENCH_KEEP_AGE_MS, BENCH_KEEP_AGE_MS + 1500);
    bench_close(&bench);
}

TEST(a_leader_that_drains_writes_the_age_first, bench, no_set_up, bench_tear_down)
{
    bench_open_with(bench, 3, 3, state_with_ttl(AGE_MS));
    drive_lead(&bench->drive);
    drive_clear(&bench->drive);
    idle(bench, 1000);
    (void)replica_drain(bench->replica, bench->drive.now_ms, &bench->effects);
    bench_take(bench);
    assert_in_range(written_age(bench), AGE_MS + 1000, AGE_MS + 1000 + IDLE_STEP_MS);
}

/* The replica ends only when its disk has the age. */
TEST(a_voter_alone_that_drains_waits_for_the_age_to_be_durable, bench, no_set_up, bench_tear_down)
{
    bench_open_with(bench, 1, 1, state_with_ttl(AGE_MS));
    drive_persist(&bench->drive);
    drive_tick(&bench->drive, 1000);
    assert_false(replica_drain(bench->replica, bench->drive.now_ms, &bench->effects));
    bench_take(bench);
    drive_persist(&bench->drive);
    assert_true(replica_drain(bench->replica, bench->drive.now_ms, &bench->effects));
    bench_take(bench);
    const struct state *state = view_read(bench->view);

    assert_in_range(state_age_ms(state), AGE_MS + 1000, AGE_MS + 1500);
    view_read_done(bench->view);
}
