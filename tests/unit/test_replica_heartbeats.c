/* The state of the replicas: each reports its own, and the leader reports all of them to all. */
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"

static struct heartbeat heartbeat_of(const struct bench *bench, uint32_t id)
{
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX];
    size_t count = replica_heartbeats(bench->replica, heartbeats);
    const struct heartbeat *heartbeat = heartbeats_find(heartbeats, count, id);

    return heartbeat ? *heartbeat : (struct heartbeat){0};
}

static struct heartbeat follower(uint32_t id, const struct bench *bench)
{
    return (struct heartbeat){.id = id,
                              .at_ms = bench->drive.now_ms,
                              .role = ROLE_FOLLOWER,
                              .flags = HEARTBEAT_SERVING,
                              .epoch = 1,
                              .zxid = zxid_make(1, 5),
                              .host = {.sync_p99_us = 2000, .version = "0.1.0"}};
}

/* Of a PING, PONG or ACK_NEWLEADER. */
static struct slice payload_of(const struct zab_msg *msg)
{
    return msg->type == ZAB_PING   ? msg->ping.payload
           : msg->type == ZAB_PONG ? msg->pong.payload
                                   : msg->ack.payload;
}

/* A PONG or a PING with the status of these replicas. */
static void says(struct bench *bench, enum zab_msg_type type, const struct heartbeat *heartbeats,
                 size_t count)
{
    struct buf bytes;
    struct zab_msg msg = {.type = type};

    buf_init(&bytes, ZAB_PING_PAYLOAD_MAX);
    heartbeats_encode(heartbeats, count, bench->drive.now_ms, &bytes);
    if (type == ZAB_PING) {
        msg.ping.payload = buf_slice(&bytes);
        drive_leader_says(&bench->drive, msg);
    } else {
        msg.pong.payload = buf_slice(&bytes);
        msg.dialogue = bench->drive.dialogues[heartbeats[0].id];
        drive_recv(&bench->drive, heartbeats[0].id, &msg);
    }
    buf_release(&bytes);
}

/* The payload that the replica sent to `peer` in the newest message of that type. */
static size_t said(struct bench *bench, uint32_t peer, enum zab_msg_type type,
                   struct heartbeat heartbeats[ZAB_MEMBERS_MAX])
{
    const struct zab_msg *msg = drive_sent(&bench->drive, peer, type);
    size_t count = 0;

    assert_non_null(msg);
    assert_true(heartbeats_decode(payload_of(msg), bench->drive.now_ms, heartbeats, &count));
    return count;
}

TEST(a_leader_reports_all_replicas_to_all, bench, bench_lead, bench_tear_down)
{
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX];

    replica_host(bench->replica, &(struct heartbeat_host){.sync_p50_us = 250, .version = "0.1.0"});
    struct heartbeat two = follower(2, bench);

    says(bench, ZAB_PONG, &two, 1);
    assert_int_equal(heartbeat_of(bench, 2).zxid, zxid_make(1, 5));
    drive_clear(&bench->drive);
    drive_tick(&bench->drive, 500);
    size_t count = said(bench, 1, ZAB_PING, heartbeats);

    assert_int_equal(count, 2);
    assert_int_equal(heartbeats_find(heartbeats, count, 3)->role, ROLE_LEADER);
    assert_int_equal(heartbeats_find(heartbeats, count, 3)->host.sync_p50_us, 250);
    assert_int_equal(heartbeats_find(heartbeats, count, 2)->host.sync_p99_us, 2000);
    /* The heartbeat is half a second old, and the payload says so. */
    assert_int_equal(heartbeats_find(heartbeats, count, 2)->at_ms, bench->drive.now_ms - 500);
}

TEST(a_follower_reports_itself_and_learns_about_all, bench, bench_follow, bench_tear_down)
{
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX];
    struct heartbeat heard[2] = {0};

    heard[0] = follower(3, bench);
    heard[0].role = ROLE_LEADER;
    heard[1] = follower(2, bench);
    drive_clear(&bench->drive);
    drive_tick(&bench->drive, 200);
    says(bench, ZAB_PING, heard, 2);
    assert_int_equal(heartbeat_of(bench, 3).role, ROLE_LEADER);
    assert_int_equal(heartbeat_of(bench, 2).zxid, zxid_make(1, 5));
    assert_int_equal(said(bench, 3, ZAB_PONG, heartbeats), 1);
    assert_int_equal(heartbeats[0].id, 1);
    assert_int_equal(heartbeats[0].role, ROLE_FOLLOWER);
    assert_true(heartbeats[0].flags & HEARTBEAT_SERVING);
}

/* A new leader may know less about a lost replica than its predecessor. */
TEST(the_newest_heartbeat_counts, bench, bench_follow, bench_tear_down)
{
    drive_tick(&bench->drive, 1000);
    struct heartbeat two = follower(2, bench);
    struct heartbeat older = two;

    older.at_ms -= 500;
    older.role = ROLE_LOOKING;
    says(bench, ZAB_PING, &two, 1);
    says(bench, ZAB_PING, &older, 1);
    assert_int_equal(heartbeat_of(bench, 2).role, ROLE_FOLLOWER);
    assert_int_equal(heartbeat_of(bench, 2).at_ms, two.at_ms);
}

/* No other replica reports for this one, unknown ids are dropped, and malformed bytes are ignored.
 */
TEST(invalid_heartbeats_are_dropped, bench, bench_follow, bench_tear_down)
{
    struct heartbeat wrong[2] = {0};

    wrong[0] = follower(1, bench);
    wrong[0].role = ROLE_QUARANTINE;
    wrong[1] = follower(9, bench);
    says(bench, ZAB_PING, wrong, 2);
    drive_leader_says(&bench->drive,
                      (struct zab_msg){.type = ZAB_PING, .ping.payload = slice_str("?")});
    drive_tick(&bench->drive, 200);
    assert_int_equal(heartbeat_of(bench, 1).role, ROLE_FOLLOWER);
    assert_int_equal(heartbeat_of(bench, 9).id, 0);
}

TEST(a_replica_reports_since_when_it_has_its_role, bench, bench_follow, bench_tear_down)
{
    drive_tick(&bench->drive, 200);
    uint64_t before_ms = heartbeat_of(bench, 1).role_ms;

    drive_tick(&bench->drive, 700);
    assert_int_equal(heartbeat_of(bench, 1).role_ms, before_ms + 700);
    drive_down(&bench->drive, 3);
    drive_tick(&bench->drive, 300);
    assert_int_equal(heartbeat_of(bench, 1).role, ROLE_LOOKING);
    assert_true(heartbeat_of(bench, 1).role_ms <= 300);
}

/* ---- maxTreeBytes: the smallest of the voters in step. ---- */

static struct prep_room room_of(const struct bench *bench)
{
    return bench_status(bench).room;
}

static void expect_room(const struct bench *bench, uint64_t bytes_max, uint32_t member)
{
    assert_int_equal(room_of(bench).bytes_max, bytes_max);
    assert_int_equal(room_of(bench).member, member);
}

static void says_limit(struct bench *bench, uint32_t id, uint64_t bytes_max)
{
    struct heartbeat heartbeat = follower(id, bench);

    heartbeat.tree_bytes_max = bytes_max;
    says(bench, ZAB_PONG, &heartbeat, 1);
    drive_tick(&bench->drive, 200);
}

TEST(the_smallest_limit_of_the_voters_in_step_is_in_force, bench, bench_lead, bench_tear_down)
{
    drive_tick(&bench->drive, 200);
    expect_room(bench, BENCH_TREE_BYTES_MAX, 3);
    says_limit(bench, 2, BENCH_TREE_BYTES_MAX / 2);
    expect_room(bench, BENCH_TREE_BYTES_MAX / 2, 2);
    /* A larger limit, and a replica that does not know its memory, have no effect. */
    says_limit(bench, 2, BENCH_TREE_BYTES_MAX * 2);
    expect_room(bench, BENCH_TREE_BYTES_MAX, 3);
    says_limit(bench, 2, 0);
    expect_room(bench, BENCH_TREE_BYTES_MAX, 3);
}

TEST(a_replica_that_is_not_in_step_limits_nothing, bench, bench_lead, bench_tear_down)
{
    says_limit(bench, 1, 1000);
    expect_room(bench, 1000, 1);
    /* The replica is lost, and its last heartbeat is still known. */
    drive_down(&bench->drive, 1);
    drive_tick(&bench->drive, 200);
    assert_int_equal(heartbeat_of(bench, 1).tree_bytes_max, 1000);
    expect_room(bench, BENCH_TREE_BYTES_MAX, 3);
}

TEST(a_leader_refuses_growth_and_names_the_limiting_replica)
{
    struct bench bench;
    struct outcome outcome;
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX];

    bench_lead(&bench);
    says_limit(&bench, 2, 100);
    bench_create(&bench, "/a", &outcome);
    says_limit(&bench, 2, 100); /* The round that confirms the refusal. */
    assert_int_equal(bench_status(&bench).counts.tree_refused, 1);
    assert_int_equal(bench_status(&bench).counts.proposals, 0);
    drive_clear(&bench.drive);
    drive_tick(&bench.drive, 500);
    size_t count = said(&bench, 2, ZAB_PING, heartbeats);

    assert_int_equal(heartbeats_find(heartbeats, count, 3)->room_bytes_max, 100);
    assert_int_equal(heartbeats_find(heartbeats, count, 3)->room_member, 2);
    assert_int_equal(heartbeats_find(heartbeats, count, 3)->tree_bytes_max, BENCH_TREE_BYTES_MAX);
    /* Once that replica has more memory, writes are accepted again. */
    says_limit(&bench, 2, BENCH_TREE_BYTES_MAX);
    bench_create(&bench, "/a", &outcome);
    assert_int_equal(bench_status(&bench).counts.proposals, 1);
    bench_close(&bench);
}

TEST(a_follower_knows_the_limit_from_its_leader, bench, bench_follow, bench_tear_down)
{
    struct heartbeat heard[2] = {0};

    heard[0] = follower(3, bench);
    heard[0].role = ROLE_LEADER;
    heard[0].room_bytes_max = 777;
    heard[0].room_member = 2;
    heard[1] = follower(2, bench);
    drive_tick(&bench->drive, 200);
    says(bench, ZAB_PING, heard, 2);
    drive_tick(&bench->drive, 200);
    expect_room(bench, 777, 2);
}

/* The clock started with the machine, long before this process. */
TEST(a_replica_that_never_heard_a_leader_lags_since_its_start, bench, no_set_up, bench_tear_down)
{
    bench_open(bench, 1, 3);
    uint64_t start_ms = bench->drive.now_ms;

    drive_tick(&bench->drive, 300);
    assert_true(heartbeat_of(bench, 1).lag_ms <= 300);
    assert_true(start_ms > 300);
}
