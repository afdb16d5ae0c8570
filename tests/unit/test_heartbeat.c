/* The heartbeat payload: there and back, of a later version, cut anywhere. */
#include "base/wire.h"
#include "server/replica/clock.h"
#include "server/replica/heartbeat.h"
#include "tests/lib/unit.h"

#include <string.h>

static struct heartbeat sample(uint32_t id)
{
    return (struct heartbeat){.id = id,
                              .at_ms = 5000,
                              .role = ROLE_FOLLOWER,
                              .flags = HEARTBEAT_SERVING | HEARTBEAT_DISK_LOW,
                              .epoch = 7,
                              .zxid = zxid_make(7, 42),
                              .lag_ms = 12,
                              .role_ms = 90000,
                              .wall_ms = INT64_C(1700000000000),
                              .made_ms = UINT64_C(1) << 41,
                              .late_ms = 77,
                              .age_ms = INT64_C(1) << 40,
                              .tree_bytes_max = UINT64_C(5) << 40,
                              .room_bytes_max = UINT64_C(3) << 33,
                              .room_member = 2,
                              .mark = UINT64_C(9) << 36,
                              .host = {.up_ms = 100000,
                                       .sync_p50_us = 300,
                                       .sync_p99_us = 4100,
                                       .disk_low = true,
                                       .version = "0.1.0"}};
}

/* Member by member: the padding between them has no defined value. */
static void assert_same(const struct heartbeat *a, const struct heartbeat *b)
{
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->at_ms, b->at_ms);
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->zxid, b->zxid);
    assert_int_equal(a->lag_ms, b->lag_ms);
    assert_int_equal(a->role_ms, b->role_ms);
    assert_int_equal(a->wall_ms, b->wall_ms);
    assert_int_equal(a->made_ms, b->made_ms);
    assert_int_equal(a->late_ms, b->late_ms);
    assert_int_equal(a->age_ms, b->age_ms);
    assert_int_equal(a->tree_bytes_max, b->tree_bytes_max);
    assert_int_equal(a->room_bytes_max, b->room_bytes_max);
    assert_int_equal(a->room_member, b->room_member);
    assert_int_equal(a->mark, b->mark);
    assert_int_equal(a->host.up_ms, b->host.up_ms);
    assert_int_equal(a->host.sync_p50_us, b->host.sync_p50_us);
    assert_int_equal(a->host.sync_p99_us, b->host.sync_p99_us);
    assert_int_equal(a->host.disk_low, b->host.disk_low);
    assert_string_equal(a->host.version, b->host.version);
}

TEST(a_heartbeat_survives_a_round_trip)
{
    struct heartbeat said[2] = {sample(1), sample(3)};
    struct heartbeat heard[ZAB_MEMBERS_MAX];
    size_t count = 0;
    struct buf bytes;

    buf_init(&bytes, ZAB_PING_PAYLOAD_MAX);
    said[1].at_ms = 4000;
    heartbeats_encode(said, 2, 5500, &bytes);
    /* The other replica has another clock, so the payload says how long ago it was. */
    assert_true(heartbeats_decode(buf_slice(&bytes), 100000, heard, &count));
    assert_int_equal(count, 2);
    assert_int_equal(heard[0].at_ms, 99500);
    assert_int_equal(heard[1].at_ms, 98500);
    said[1].at_ms = heard[1].at_ms;
    assert_same(&heard[1], &said[1]);
    assert_ptr_equal(heartbeats_find(heard, count, 3), &heard[1]);
    assert_null(heartbeats_find(heard, count, 2));
    buf_release(&bytes);
}

TEST(all_members_fit)
{
    struct heartbeat said[ZAB_MEMBERS_MAX];
    struct heartbeat heard[ZAB_MEMBERS_MAX];
    size_t count = 0;
    struct buf bytes;

    for (uint32_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        said[i] = sample(i + 1);
        memset(said[i].host.version, 'v', HEARTBEAT_VERSION_MAX - 1);
    }
    buf_init(&bytes, ZAB_PING_PAYLOAD_MAX);
    heartbeats_encode(said, ZAB_MEMBERS_MAX, 5000, &bytes);
    assert_false(bytes.overflow);
    assert_true(heartbeats_decode(buf_slice(&bytes), 5000, heard, &count));
    assert_int_equal(count, ZAB_MEMBERS_MAX);
    buf_release(&bytes);
}

TEST(forgotten_replicas_leave_the_table)
{
    struct heartbeat known[ZAB_MEMBERS_MAX];
    uint32_t ids[2] = {7, 0};
    size_t count = 0;

    *heartbeats_place(known, &count, 7) = sample(7);
    for (uint32_t id = 1000; id < 1200; id++) {
        ids[1] = id;
        heartbeats_keep(known, &count, ids, 2);
        assert_int_equal(count, 1);
        *heartbeats_place(known, &count, id) = sample(id);
        assert_int_equal(count, 2);
        assert_ptr_equal(heartbeats_place(known, &count, id), &known[1]);
        heartbeats_keep(known, &count, ids, 2);
        assert_int_equal(count, 2);
        assert_same(&known[0], &(struct heartbeat[]){sample(7)}[0]);
        assert_same(&known[1], &(struct heartbeat[]){sample(id)}[0]);
    }
}

TEST(a_full_table_keeps_its_entries)
{
    struct heartbeat known[ZAB_MEMBERS_MAX];
    const uint32_t rest[] = {3, 9};
    size_t count = 0;

    for (uint32_t id = 1; id <= ZAB_MEMBERS_MAX; id++) {
        *heartbeats_place(known, &count, id) = sample(id);
    }
    assert_null(heartbeats_place(known, &count, ZAB_MEMBERS_MAX + 1));
    assert_int_equal(count, ZAB_MEMBERS_MAX);
    assert_non_null(heartbeats_find(known, count, 1));
    heartbeats_keep(known, &count, rest, 2);
    assert_int_equal(count, 2);
    assert_int_equal(known[0].id, 3);
    assert_int_equal(known[1].id, 9);
    assert_ptr_equal(heartbeats_place(known, &count, ZAB_MEMBERS_MAX + 1), &known[2]);
}

TEST(a_truncated_payload_is_ignored)
{
    struct heartbeat said = sample(1);
    struct heartbeat heard[ZAB_MEMBERS_MAX];
    size_t count = 1;
    struct buf bytes;

    buf_init(&bytes, ZAB_PING_PAYLOAD_MAX);
    heartbeats_encode(&said, 1, 5000, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_false(heartbeats_decode(slice_make(bytes.data, len), 5000, heard, &count));
        assert_int_equal(count, 0);
    }
    wire_put_u8(&bytes, 0);
    assert_false(heartbeats_decode(buf_slice(&bytes), 5000, heard, &count));
    bytes.data[0]++; /* Another format. */
    assert_false(heartbeats_decode(slice_make(bytes.data, bytes.len - 1), 5000, heard, &count));
    buf_release(&bytes);
}

TEST(additions_of_a_later_version_are_skipped)
{
    struct heartbeat said = sample(1);
    struct heartbeat heard[ZAB_MEMBERS_MAX];
    size_t count = 0;
    struct buf bytes;

    buf_init(&bytes, ZAB_PING_PAYLOAD_MAX);
    heartbeats_encode(&said, 1, 5000, &bytes);
    wire_put_u32(&bytes, 99);
    /* The length of the entry follows format and count. */
    wire_store_u32(bytes.data + 2, (uint32_t)(bytes.len - 6));
    assert_true(heartbeats_decode(buf_slice(&bytes), 5000, heard, &count));
    assert_int_equal(count, 1);
    assert_int_equal(heard[0].zxid, said.zxid);
    buf_release(&bytes);
}

static void expect_refused(struct heartbeat said)
{
    struct heartbeat heard[ZAB_MEMBERS_MAX];
    size_t count = 0;
    struct buf bytes;

    buf_init(&bytes, ZAB_PING_PAYLOAD_MAX);
    heartbeats_encode(&said, 1, 5000, &bytes);
    assert_false(heartbeats_decode(buf_slice(&bytes), 5000, heard, &count));
    buf_release(&bytes);
}

TEST(impossible_values_are_refused)
{
    struct heartbeat said = sample(1);

    said.id = 0;
    expect_refused(said);
    said = sample(1);
    said.role = (enum replica_role)ROLES;
    expect_refused(said);
    said = sample(1);
    said.wall_ms = -1;
    expect_refused(said);
    said = sample(1);
    said.wall_ms = STAMP_MAX_MS + 1;
    expect_refused(said);
    said = sample(1);
    said.age_ms = -1;
    expect_refused(said);
    said = sample(1);
    said.age_ms = TXN_AGE_MAX_MS + 1;
    expect_refused(said);
    said = sample(1);
    memcpy(said.host.version, "\xff", 2); /* It would become part of JSON. */
    expect_refused(said);
}

TEST(roles)
{
    struct zab_status status = {.state = ZAB_OBSERVING};

    assert_string_equal(replica_role_name(replica_role_of(&status, false)), "observer");
    assert_string_equal(replica_role_name(replica_role_of(&status, true)), "follower");
    status.state = ZAB_FOLLOWING;
    assert_string_equal(replica_role_name(replica_role_of(&status, false)), "observer");
    assert_string_equal(replica_role_name(replica_role_of(&status, true)), "follower");
    status.state = ZAB_OBSERVING;
    status.unknown_disk = true;
    assert_string_equal(replica_role_name(replica_role_of(&status, true)), "observer");
    status.quarantined = true;
    assert_string_equal(replica_role_name(replica_role_of(&status, true)), "quarantine");
}
