/* Pacing of snapshots: by the learner's link, and for all learners together. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"

enum {
    CHUNK = 1000,
    RATE = 100000, /* A chunk every 10 ms. */
    WINDOW_MAX = 16,
    QUORUM_MS = 500 /* The interval at which the quorum answers. */
};

static const zxid_t snap_start = ((zxid_t)3 << 32) + 2;

/* Replica 3 of 5 leads with 1 and 5; learners 2 and 4 have empty disks. */
struct rig {
    struct drive drive;
    uint64_t asked[5]; /* By learner: offset of the fetch in progress ... */
    uint64_t token[5]; /* ... and its token; 0: none. */
    uint64_t sent[5];  /* Bytes. */
    uint64_t ping;     /* Round of the newest PING. */
};

static void note(struct rig *rig)
{
    for (size_t i = 0; i < rig->drive.seen_count; i++) {
        const struct zab_effect *effect = &rig->drive.seen[i];

        if (effect->type == ZAB_FX_SNAP_FETCH) {
            rig->token[effect->snap_fetch.peer] = effect->snap_fetch.token;
            rig->asked[effect->snap_fetch.peer] = effect->snap_fetch.offset;
        }
        if (effect->type == ZAB_FX_SEND && effect->send.msg.type == ZAB_PING) {
            rig->ping = effect->send.msg.ping.round;
        }
    }
    drive_clear(&rig->drive);
}

static void pass(struct rig *rig, uint64_t ms)
{
    for (uint64_t end_ms = rig->drive.now_ms + ms; rig->drive.now_ms < end_ms;) {
        uint64_t rest_ms = end_ms - rig->drive.now_ms;

        drive_tick(&rig->drive, rest_ms < QUORUM_MS ? rest_ms : QUORUM_MS);
        drive_pong(&rig->drive, 1);
        drive_pong(&rig->drive, 5);
    }
    note(rig);
}

/* The leader's answer to its first message takes that long to come back. */
static void ask_from_afar(struct rig *rig, uint32_t peer, uint64_t trip_ms)
{
    struct drive_log empty = {0};

    drive_up_as(&rig->drive, peer, 900 + peer, false);
    drive_clear(&rig->drive);
    drive_cepoch(&rig->drive, peer, 0, 0);
    note(rig);
    pass(rig, trip_ms);
    drive_ackepoch(&rig->drive, peer, &empty, 0);
    note(rig);
}

static void ask(struct rig *rig, uint32_t peer)
{
    ask_from_afar(rig, peer, 0);
}

static void leads(struct rig *rig, uint64_t rate)
{
    drive_init(&rig->drive, 3, 5);
    drive_log_reset(&rig->drive.disk, snap_start, 99);
    drive_log_add(&rig->drive.disk, snap_start + 1);
    rig->drive.init.committed = snap_start + 1;
    rig->drive.init.has_snapshot = true;
    rig->drive.init.limits.chunk_bytes = CHUNK;
    rig->drive.init.limits.refill_rate = rate;
    drive_start(&rig->drive);
    drive_lead(&rig->drive);
}

static void leads_unlimited(struct rig *rig)
{
    leads(rig, 0);
}

static void leads_limited(struct rig *rig)
{
    leads(rig, RATE);
}

static void teardown(struct rig *rig)
{
    drive_release(&rig->drive);
}

/* The host answers the fetch for `peer`; false if there is none. */
static bool answer(struct rig *rig, uint32_t peer)
{
    static uint8_t bytes[CHUNK];
    struct zab_event piece = {.type = ZAB_EV_SNAP_FETCHED,
                              .snap_fetched.token = rig->token[peer],
                              .snap_fetched.offset = rig->asked[peer],
                              .snap_fetched.start = snap_start,
                              .snap_fetched.end = snap_start,
                              .snap_fetched.bytes = slice_make(bytes, sizeof(bytes))};

    if (rig->token[peer] == 0) {
        return false;
    }
    rig->token[peer] = 0;
    rig->sent[peer] += CHUNK;
    drive_step(&rig->drive, &piece);
    note(rig);
    return true;
}

static void ack(struct rig *rig, uint32_t peer, uint64_t offset)
{
    drive_recv(&rig->drive, peer,
               &(struct zab_msg){.type = ZAB_SNAP_ACK,
                                 .dialogue = rig->drive.dialogues[peer],
                                 .epoch = drive_status(&rig->drive).epoch,
                                 .snap_ack.offset = offset});
    note(rig);
}

/* The learner's answer to a PING. */
static void pong(struct rig *rig, uint32_t peer, uint64_t round)
{
    drive_recv(&rig->drive, peer,
               &(struct zab_msg){.type = ZAB_PONG,
                                 .dialogue = rig->drive.dialogues[peer],
                                 .epoch = drive_status(&rig->drive).epoch,
                                 .pong.round = round});
    note(rig);
}

/* Until the leader has just sent one. */
static void next_ping(struct rig *rig)
{
    for (uint64_t round = rig->ping; rig->ping == round;) {
        pass(rig, 1);
    }
}

/* Everything that may be in flight is; returns its bytes. */
static uint64_t fill_window(struct rig *rig, uint32_t peer)
{
    uint64_t from = rig->sent[peer];

    while (answer(rig, peer)) {
    }
    return rig->sent[peer] - from;
}

TEST(a_fast_learner_gets_more_pieces_at_a_time, rig, leads_unlimited, teardown)
{
    uint64_t acked = 0;

    ask(rig, 2);
    assert_in_range(fill_window(rig, 2), CHUNK, 2 * CHUNK);
    for (int i = 0; i < 3 * WINDOW_MAX; i++) {
        acked = rig->sent[2];
        pass(rig, 1);
        ack(rig, 2, acked);
        (void)fill_window(rig, 2);
    }
    assert_int_equal(rig->sent[2] - acked, WINDOW_MAX * CHUNK);
}

/* Heartbeats on its connection wait behind what is in flight. */
TEST(a_slow_learner_gets_one_piece_at_a_time, rig, leads_unlimited, teardown)
{
    uint64_t acked = 0;

    ask(rig, 2);
    for (int i = 0; i < 10; i++) {
        (void)fill_window(rig, 2);
        acked = rig->sent[2];
        pass(rig, 500);
        ack(rig, 2, acked);
    }
    assert_int_equal(fill_window(rig, 2), CHUNK);
}

/* Each piece comes back after that time, however many are in flight. Returns the final bytes in
 * flight. */
static uint64_t window_after(struct rig *rig, uint32_t peer, uint64_t delay_ms)
{
    uint64_t acked = 0;

    for (int i = 0; i < 3 * WINDOW_MAX; i++) {
        (void)fill_window(rig, peer);
        acked = rig->sent[peer];
        pass(rig, delay_ms);
        ack(rig, peer, acked);
    }
    return fill_window(rig, peer);
}

/* The round trip takes 300 ms: a piece that takes as long has not waited. */
TEST(a_distant_learner_gets_more_pieces_at_a_time, rig, leads_unlimited, teardown)
{
    ask_from_afar(rig, 2, 300);
    assert_int_equal(window_after(rig, 2, 310), WINDOW_MAX * CHUNK);
}

/* The learner's disk was slow when the dialogue began; a heartbeat shows that it is near. */
TEST(the_shortest_round_trip_counts, rig, leads_unlimited, teardown)
{
    ask_from_afar(rig, 2, 900);
    assert_int_equal(window_after(rig, 2, 700), WINDOW_MAX * CHUNK);
    next_ping(rig);
    pong(rig, 2, rig->ping);
    assert_int_equal(window_after(rig, 2, 700), CHUNK);

    /* A later pong that took longer, answers an old PING or answers none changes nothing. */
    pong(rig, 2, 1);
    pong(rig, 2, 0);
    pong(rig, 2, rig->ping + 1);
    assert_int_equal(window_after(rig, 2, 700), CHUNK);
}

/* A paused learner looks far away: the estimate never exceeds a second. */
TEST(the_estimated_distance_is_bounded, rig, leads_unlimited, teardown)
{
    ask_from_afar(rig, 2, 60000);
    assert_int_equal(window_after(rig, 2, 1500), CHUNK);
}

/* Each acknowledges at once; what is sent in a second is what the rate permits. */
TEST(all_learners_share_the_rate, rig, leads_limited, teardown)
{
    ask(rig, 2);
    ask(rig, 4);
    for (int ms = 0; ms < 1000; ms++) {
        for (uint32_t peer = 2; peer <= 4; peer += 2) {
            if (answer(rig, peer)) {
                ack(rig, peer, rig->sent[peer]);
            }
        }
        pass(rig, 1);
    }
    assert_in_range(rig->sent[2] + rig->sent[4], RATE * 8 / 10, RATE * 11 / 10);
    assert_in_range(rig->sent[2], RATE * 3 / 10, RATE * 7 / 10);
}

/* A chunk that waits for the rate needs no other event: the core says when it wants to wake. */
TEST(the_leader_wakes_for_the_next_piece, rig, leads_limited, teardown)
{
    ask(rig, 2);
    while (answer(rig, 2)) {
        ack(rig, 2, rig->sent[2]);
    }
    assert_in_range(zab_wake_ms(rig->drive.zab), rig->drive.now_ms, rig->drive.now_ms + 11);
}
