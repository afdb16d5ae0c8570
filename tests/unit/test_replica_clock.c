/* Stamps of transactions: they follow the clocks of a majority, as far as heartbeats report them.
 */
#include "server/replica/clock.h"
#include "server/state/state.h"
#include "tests/lib/replica_bench.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#define YEARS_MS INT64_C(315360000000) /* Ten. */

enum {
    NOW_MS = 1000000, /* The bench's wall clock. */
    STEP_MS = 200,
    GONE_MS = 7000, /* Twice syncLimit, and more. */
    PAUSE_MS = 1500,
    LATE_MS = 15000,
};

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

/* That much time passes; the followers answer and do not report their clocks. */
static void idle(struct bench *bench, uint64_t ms, uint32_t followers)
{
    for (uint64_t passed_ms = 0; passed_ms < ms; passed_ms += STEP_MS) {
        drive_tick(&bench->drive, STEP_MS);
        for (uint32_t id = 1; id <= followers; id++) {
            drive_pong(&bench->drive, id);
        }
    }
}

/* Peer `id` answers a PING: its payload is `late_ms` old and says how old our last heartbeat is. */
static void says(struct bench *bench, struct heartbeat *said, size_t count, uint64_t late_ms)
{
    uint64_t then_ms = bench->drive.now_ms - late_ms;
    struct zab_msg msg = {.type = ZAB_PONG, .dialogue = bench->drive.dialogues[said[0].id]};
    struct buf bytes;

    said[count++] = (struct heartbeat){.id = 3, .at_ms = then_ms, .made_ms = then_ms};
    buf_init(&bytes, ZAB_PING_PAYLOAD_MAX);
    heartbeats_encode(said, count, then_ms, &bytes);
    msg.pong.payload = buf_slice(&bytes);
    drive_recv(&bench->drive, said[0].id, &msg);
    buf_release(&bytes);
}

static struct heartbeat clock_heartbeat(const struct bench *bench, uint32_t id, int64_t wall_ms)
{
    return (struct heartbeat){.id = id,
                              .at_ms = bench->drive.now_ms,
                              .role = ROLE_FOLLOWER,
                              .epoch = 1,
                              .wall_ms = wall_ms};
}

/* The peer reports that clock now. */
static void shows(struct bench *bench, uint32_t id, int64_t wall_ms)
{
    struct heartbeat said[2] = {clock_heartbeat(bench, id, wall_ms)};

    says(bench, said, 1, 0);
}

/* The peer reported that clock earlier, and the heartbeat was delayed. */
static void showed(struct bench *bench, uint32_t id, int64_t wall_ms, uint64_t late_ms)
{
    struct heartbeat said[2] = {clock_heartbeat(bench, id, wall_ms)};

    said[0].at_ms -= late_ms;
    says(bench, said, 1, late_ms);
}

TEST(a_stamp_is_at_most_a_second_ahead_of_a_majority, bench, bench_lead, bench_tear_down)
{
    assert_int_equal(proposed(bench, "/none").stamp_ms, 0); /* No clock is known yet. */
    shows(bench, 1, NOW_MS + 300);
    assert_int_equal(proposed(bench, "/a").stamp_ms, NOW_MS);
    bench->wall_ms += YEARS_MS;
    assert_int_equal(proposed(bench, "/b").stamp_ms, NOW_MS + STAMP_SLACK_MS);
    shows(bench, 1, NOW_MS);
    shows(bench, 2, NOW_MS + YEARS_MS); /* Another voter's clock is wrong as well. */
    assert_true(proposed(bench, "/c").stamp_ms == NOW_MS + YEARS_MS);
    bench->wall_ms = NOW_MS;
    shows(bench, 2, NOW_MS);
    assert_int_equal(proposed(bench, "/d").stamp_ms, NOW_MS); /* The stamp steps back. */
}

/* The clocks of a majority are wrong for a moment in which nothing is written. */
TEST(a_refused_request_does_not_move_stamps_back, bench, bench_lead, bench_tear_down)
{
    struct outcome outcome;

    shows(bench, 1, NOW_MS);
    bench->wall_ms += YEARS_MS;
    assert_int_equal(proposed(bench, "/a").stamp_ms, NOW_MS + STAMP_SLACK_MS);
    shows(bench, 2, NOW_MS + YEARS_MS);
    bench_create(bench, "/a", &outcome); /* It exists. */
    bench->wall_ms = NOW_MS;
    shows(bench, 2, NOW_MS);
    assert_int_equal(proposed(bench, "/b").stamp_ms, NOW_MS + STAMP_SLACK_MS);
}

TEST(the_clock_of_a_long_absent_voter_counts_as_0, bench, bench_lead, bench_tear_down)
{
    shows(bench, 1, NOW_MS);
    shows(bench, 2, NOW_MS);
    assert_int_equal(proposed(bench, "/a").stamp_ms, NOW_MS);
    drive_down(&bench->drive, 2);
    assert_int_equal(proposed(bench, "/b").stamp_ms, NOW_MS);
    shows(bench, 1, 5000);
    assert_int_equal(proposed(bench, "/c").stamp_ms, NOW_MS);
    idle(bench, GONE_MS, 1);
    shows(bench, 1, 5000); /* With it, no majority has reached more. */
    assert_int_equal(proposed(bench, "/d").stamp_ms, 5000 + STAMP_SLACK_MS);
}

/* Only one clock is wrong, and one connection breaks. */
TEST(a_reconnecting_voter_beside_a_wrong_clock_moves_no_stamp_back, bench, bench_lead,
     bench_tear_down)
{
    shows(bench, 1, 5000);
    shows(bench, 2, NOW_MS);
    assert_int_equal(proposed(bench, "/a").stamp_ms, NOW_MS);
    drive_down(&bench->drive, 2);
    drive_tick(&bench->drive, STEP_MS);
    shows(bench, 1, 5000 + STEP_MS);
    assert_int_equal(proposed(bench, "/b").stamp_ms, NOW_MS);
    drive_up(&bench->drive, 2);
    drive_tick(&bench->drive, STEP_MS);
    assert_int_equal(proposed(bench, "/c").stamp_ms, NOW_MS);
}

/* A tree with a recent write. */
static struct state *state_of_now(void)
{
    struct state *state = state_new(7);
    const struct txn_header header = {.stamp_ms = NOW_MS};
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    assert_int_equal(state_apply(state, 1, buf_slice(&txn), false, NULL), ERR_OK);
    buf_release(&txn);

    struct state *recovered = kit_copy(state, 1 << 16);

    state_restored(recovered, 0);
    state_free(state);
    return recovered;
}

/* Nor does a restart of all replicas: the last voter to return has not reported its clock yet. */
TEST(a_late_voter_beside_a_wrong_clock_moves_no_stamp_back, bench, no_set_up, bench_tear_down)
{
    bench_open_with(bench, 3, 3, state_of_now());
    drive_lead(&bench->drive);
    shows(bench, 1, 5000);
    assert_int_equal(proposed(bench, "/a").stamp_ms, NOW_MS);
    idle(bench, GONE_MS, 1);
    shows(bench, 1, 5000); /* The other voter does not come. */
    assert_int_equal(proposed(bench, "/b").stamp_ms, 5000 + STAMP_SLACK_MS);
}

TEST(a_voters_report_of_other_clocks_is_ignored, bench, bench_lead, bench_tear_down)
{
    shows(bench, 1, NOW_MS);
    shows(bench, 2, NOW_MS);
    struct heartbeat said[3] = {clock_heartbeat(bench, 1, NOW_MS + YEARS_MS),
                                clock_heartbeat(bench, 2, NOW_MS + YEARS_MS)};

    says(bench, said, 2, 0);
    assert_int_equal(proposed(bench, "/a").stamp_ms, NOW_MS);
}

static int64_t clock_ahead_ms(const struct bench *bench)
{
    return bench_status(bench).clock_ahead_ms;
}

/* This process was paused and now reads its sockets; or a link is slow. */
TEST(a_late_heartbeat_is_no_wrong_clock, bench, bench_lead, bench_tear_down)
{
    shows(bench, 1, NOW_MS);
    shows(bench, 2, NOW_MS);
    bench->wall_ms += PAUSE_MS;
    drive_pause(&bench->drive, PAUSE_MS);
    assert_int_equal(clock_ahead_ms(bench), 0);
    showed(bench, 1, NOW_MS, PAUSE_MS);
    showed(bench, 2, NOW_MS, PAUSE_MS);
    assert_int_equal(clock_ahead_ms(bench), 0);
    shows(bench, 1, NOW_MS);
    showed(bench, 2, NOW_MS, 100); /* It took at most a tenth of a second. */
    assert_int_equal(clock_ahead_ms(bench), PAUSE_MS - 100);
}

TEST(a_late_heartbeat_moves_no_stamp_back, bench, bench_lead, bench_tear_down)
{
    idle(bench, LATE_MS, 2);
    bench->wall_ms += LATE_MS;
    shows(bench, 1, NOW_MS + LATE_MS);
    shows(bench, 2, NOW_MS + LATE_MS);
    assert_int_equal(proposed(bench, "/a").stamp_ms, NOW_MS + LATE_MS);
    showed(bench, 1, NOW_MS, LATE_MS);
    showed(bench, 2, NOW_MS, LATE_MS);
    assert_int_equal(proposed(bench, "/b").stamp_ms, NOW_MS + LATE_MS);
    shows(bench, 1, NOW_MS); /* Their clocks were set back. */
    shows(bench, 2, NOW_MS);
    assert_int_equal(proposed(bench, "/c").stamp_ms, NOW_MS + STAMP_SLACK_MS);
}

/* A follower compares its clock with what its leader reports about all replicas. It knows the delay
 * from the round trip of its own heartbeat. */
TEST(a_follower_knows_how_late_its_leaders_heartbeats_are, bench, bench_follow, bench_tear_down)
{
    struct heartbeat said[3] = {0};
    struct zab_msg msg = {.type = ZAB_PING};
    struct buf bytes;

    uint64_t then_ms = bench->drive.now_ms;

    bench->wall_ms += PAUSE_MS;
    drive_pause(&bench->drive, PAUSE_MS);
    said[0] = (struct heartbeat){.id = 3, .at_ms = then_ms, .role = ROLE_LEADER, .wall_ms = NOW_MS};
    said[1] =
        (struct heartbeat){.id = 2, .at_ms = then_ms, .role = ROLE_FOLLOWER, .wall_ms = NOW_MS};
    buf_init(&bytes, ZAB_PING_PAYLOAD_MAX);
    for (int echoes = 1; echoes >= 0; echoes--) {
        said[2] = (struct heartbeat){
            .id = 1, .at_ms = then_ms, .made_ms = echoes ? then_ms : bench->drive.now_ms - 10};
        buf_clear(&bytes);
        heartbeats_encode(said, 3, then_ms, &bytes);
        msg.ping.payload = buf_slice(&bytes);
        drive_leader_says(&bench->drive, msg);
        assert_int_equal(clock_ahead_ms(bench), echoes ? 0 : PAUSE_MS - 10);
    }
    buf_release(&bytes);
}

TEST(a_reported_clock_continues_to_run, bench, bench_lead, bench_tear_down)
{
    bench->wall_ms += YEARS_MS;
    shows(bench, 1, NOW_MS);
    drive_tick(&bench->drive, 700);
    assert_int_equal(proposed(bench, "/a").stamp_ms, NOW_MS + 700 + STAMP_SLACK_MS);
}

TEST(a_voter_alone_does_not_believe_a_jump)
{
    struct bench bench;
    struct outcome outcome;
    struct stat_view stat;

    bench_open(&bench, 1, 1);
    drive_persist(&bench.drive);
    bench.wall_ms += YEARS_MS;
    drive_tick(&bench.drive, 200);
    bench_create(&bench, "/a", &outcome);
    drive_persist(&bench.drive);
    const struct state *state = view_read(bench.view);

    znode_stat(state_find(state, slice_str("/a")), &stat);
    view_read_done(bench.view);
    assert_in_range(stat.ctime, NOW_MS, NOW_MS + STAMP_SLACK_MS + 1000);
    bench_close(&bench);
}
