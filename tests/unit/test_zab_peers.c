/* Peers that come and go, in each role and stage. The address sanitizer watches the memory. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"
#include "zab/zab_int.h"

enum {
    CHUNK = 1000,
    FORWARD_REQUEST = 9
};

static const zxid_t log_base = ((zxid_t)3 << 32) + 2;

/* From the end of the next step on the peers are all replicas of the server list but `without`. */
static void want_all_but(struct drive *drive, uint32_t without)
{
    uint32_t ids[DRIVE_SEEDS_MAX];
    uint32_t count = 0;

    for (uint32_t id = 1; id <= drive->init.seed_count; id++) {
        if (id != drive->init.id && id != without) {
            ids[count++] = id;
        }
    }
    peers_want(drive->zab, ids, count);
}

static void drop(struct drive *drive, uint32_t id)
{
    assert_non_null(peer_find(drive->zab, id));
    want_all_but(drive, id);
    drive_clear(drive);
    drive_tick(drive, 0);
    assert_null(peer_find(drive->zab, id));
}

static void add_again(struct drive *drive)
{
    want_all_but(drive, 0);
    drive_tick(drive, 0);
    assert_int_equal(drive->zab->peer_count, drive->init.seed_count - 1);
}

static size_t sent_to(const struct drive *drive, uint32_t peer)
{
    size_t count = 0;

    for (size_t i = 0; i < drive->seen_count; i++) {
        const struct zab_effect *effect = &drive->seen[i];

        count += effect->type == ZAB_FX_SEND && effect->send.peer == peer;
    }
    return count;
}

/* ---- The list. ---- */

TEST(peers_change_at_the_end_of_a_step_and_keep_their_address)
{
    struct drive drive;

    drive_init(&drive, 3, 5);
    drive_start(&drive);
    const struct peer *first = peer_find(drive.zab, 1);
    const struct peer *last = peer_find(drive.zab, 5);

    want_all_but(&drive, 2);
    assert_non_null(peer_find(drive.zab, 2));
    drive_tick(&drive, 0);
    assert_null(peer_find(drive.zab, 2));
    drive_tick(&drive, 50);
    add_again(&drive);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(drive.zab->peers[i]->id, i < 2 ? i + 1 : i + 2);
    }
    assert_ptr_equal(peer_find(drive.zab, 1), first);
    assert_ptr_equal(peer_find(drive.zab, 5), last);
    assert_int_equal(peer_find(drive.zab, 2)->seen_ms, drive.now_ms);
    drive_release(&drive);
}

/* Each connection gets a vote, which says which configuration is known here. A stranger may ask for
 * that configuration. Nothing else that it says counts. */
TEST(a_replica_that_is_no_member_is_not_heard)
{
    struct drive drive;

    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_clear(&drive);
    drive_up(&drive, 4);
    assert_int_equal(drive.seen_count, 1);
    assert_non_null(drive_sent(&drive, 4, ZAB_VOTE));
    drive_clear(&drive);
    drive_vote(&drive, 4, 4, 100);
    drive_cepoch(&drive, 4, 0, 0);
    drive_down(&drive, 4);
    assert_int_equal(drive.seen_count, 0);
    assert_null(peer_find(drive.zab, 4));
    drive_release(&drive);
}

/* What an earlier disk under this id has acknowledged is forgotten, too. */
TEST(a_peer_that_comes_back_is_a_new_one)
{
    struct drive drive;

    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_lead(&drive);
    assert_true(peer_find(drive.zab, 2)->known_promised != 0);
    drop(&drive, 2);
    add_again(&drive);
    const struct peer *peer = peer_find(drive.zab, 2);

    assert_false(peer->up);
    assert_false(peer->vote.valid);
    assert_int_equal(peer->known_promised, 0);
    assert_int_equal(peer->learner.stage, LEARNER_NONE);
    drive_up(&drive, 2);
    drive_join(&drive, 2);
    assert_int_equal(peer->learner.stage, LEARNER_SYNCED);
    drive_release(&drive);
}

TEST(all_peers_may_change_at_once_and_often)
{
    struct drive drive;
    uint32_t ids[ZAB_MEMBERS_MAX];

    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_lead(&drive);
    for (uint32_t turn = 0; turn < 4; turn++) {
        for (uint32_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
            ids[i] = 2 + turn * (ZAB_MEMBERS_MAX - 1) + i;
        }
        peers_want(drive.zab, ids, ZAB_MEMBERS_MAX);
        drive_tick(&drive, 0);
        assert_int_equal(drive.zab->peer_count, ZAB_MEMBERS_MAX);
        for (uint32_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
            assert_int_equal(drive.zab->peers[i]->id, ids[i]);
            drive_up(&drive, ids[i]);
        }
    }
    peers_want(drive.zab, ids, 0);
    drive_tick(&drive, 0);
    assert_int_equal(drive.zab->peer_count, 0);
    drive_release(&drive);
}

/* ---- Looking. ---- */

TEST(a_candidate_that_is_dropped_gets_no_vote)
{
    struct drive drive;

    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_up(&drive, 2);
    drive_up(&drive, 3);
    drive_vote(&drive, 3, 3, 100);
    assert_int_equal(drive_sent(&drive, 2, ZAB_VOTE)->vote.candidate, 3);
    uint64_t round = drive.round;

    drive_cepoch(&drive, 3, 0, 0); /* It is early: this replica still looks. */
    drop(&drive, 3);
    assert_int_equal(drive_sent(&drive, 2, ZAB_VOTE)->vote.candidate, 1);
    assert_true(drive.round > round);
    drive_clear(&drive);
    drive_tick(&drive, 2000);
    assert_int_equal(sent_to(&drive, 3), 0);
    assert_true(sent_to(&drive, 2) > 0);
    drive_release(&drive);
}

/* The vote that is left may be all that the election has waited for. */
TEST(an_election_may_end_with_the_drop_of_a_peer)
{
    struct drive drive;

    drive_init(&drive, 3, 3);
    drive_start(&drive);
    drive_up(&drive, 1);
    drive_up(&drive, 2);
    drive_vote(&drive, 1, 3, 0);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    drop(&drive, 2);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    drive_release(&drive);
}

/* ---- Leading. ---- */

/* Replica 3 of 5 leads, in BROADCAST; its log begins with a snapshot. */
static void leads(struct drive *drive)
{
    drive_init(drive, 3, 5);
    drive_log_reset(&drive->disk, log_base, 99);
    drive_log_add(&drive->disk, log_base + 1);
    drive->init.committed = log_base + 1;
    drive->init.has_snapshot = true;
    drive->init.limits.chunk_bytes = CHUNK;
    drive->init.limits.cache_max = 1;
    drive_start(drive);
    drive_lead(drive);
    for (uint32_t i = 0; i < 4; i++) {
        zxid_t zxid = drive_propose(drive, "x");

        drive_persist(drive);
        for (uint32_t id = 1; id <= 5; id++) {
            if (id != 3) {
                drive_learner_says(drive, id, ZAB_ACK, zxid);
            }
        }
    }
    assert_int_equal(drive_status(drive).committed, drive_log_last(&drive->disk));
}

/* Replica 2 comes back with the log `log`. */
static void comes_back(struct drive *drive, const struct drive_log *log)
{
    drive_down(drive, 2);
    drive_up(drive, 2);
    drive->fetch.fetch.token = 0;
    drive->snap_fetch[2].token = 0;
    drive_cepoch(drive, 2, drive->promised, drive_log_last(log));
    drive_ackepoch(drive, 2, log, ZAB_FLAG_ELIGIBLE);
}

/* A quarantined disk, which has no log to compare. */
static void comes_back_empty(struct drive *drive)
{
    struct drive_log empty = {0};
    struct zab_msg msg = {.type = ZAB_CEPOCH,
                          .dialogue = ++drive->dialogues[2],
                          .cepoch.promised = drive->promised,
                          .cepoch.flags = ZAB_FLAG_QUARANTINE};

    drive_down(drive, 2);
    drive_up(drive, 2);
    drive_recv(drive, 2, &msg);
    drive_ackepoch(drive, 2, &empty, ZAB_FLAG_QUARANTINE);
}

static void reaches(struct drive *drive, enum learner_stage stage)
{
    struct drive_log part = {0};

    if (stage == LEARNER_NONE) {
        drive_down(drive, 2);
        drive_up(drive, 2);
    } else if (stage == LEARNER_CEPOCH) {
        drive_down(drive, 2);
        drive_up(drive, 2);
        drive_cepoch(drive, 2, drive->promised, drive_log_last(&drive->disk));
    } else if (stage == LEARNER_SNAP) {
        comes_back_empty(drive);
        assert_int_equal(zab_keep(drive->zab), 0);
    } else if (stage == LEARNER_STREAM) {
        drive_log_copy(&part, &drive->disk);
        drive_log_cut(&part, zxid_make(drive->promised, 0));
        peer_find(drive->zab, 2)->known_promised = 0; /* It lacks what it has acknowledged. */
        comes_back(drive, &part);
        drive_log_release(&part);
    }
    assert_int_equal(peer_find(drive->zab, 2)->learner.stage, stage);
}

/* The answers to what was asked for a peer that has gone since. */
static void answers_come_late(struct drive *drive)
{
    uint8_t bytes[CHUNK] = {0};
    struct zab_event piece = {.type = ZAB_EV_SNAP_FETCHED,
                              .snap_fetched = {.token = drive->snap_fetch[2].token,
                                               .start = log_base + 1,
                                               .end = log_base + 1,
                                               .id = 5,
                                               .bytes = slice_make(bytes, sizeof bytes)}};

    if (drive->snap_fetch[2].token != 0) {
        drive_step(drive, &piece);
    }
    if (drive->fetch.fetch.token != 0) {
        drive_fetched(drive);
    }
    drive_learner_says(drive, 2, ZAB_ACK, drive_log_last(&drive->disk));
    drive_pong(drive, 2);
}

static void refuse(struct drive *drive)
{
    struct zab_effects effects;

    zab_effects_init(&effects);
    zab_refuse(drive->zab, 2, drive->dialogues[2], FORWARD_REQUEST, slice_str("no"), &effects);
    assert_int_equal(effects.count, 0);
    zab_effects_release(&effects);
}

static void commits_with_the_rest(struct drive *drive)
{
    zxid_t zxid = drive_propose(drive, "y");

    drive_persist(drive);
    drive_learner_says(drive, 1, ZAB_ACK, zxid);
    assert_true(drive_status(drive).committed < zxid);
    drive_learner_says(drive, 4, ZAB_ACK, zxid);
    assert_int_equal(drive_status(drive).committed, zxid);
}

TEST(a_leader_drops_a_learner_at_any_stage)
{
    static const enum learner_stage stages[] = {LEARNER_NONE, LEARNER_CEPOCH, LEARNER_SNAP,
                                                LEARNER_STREAM, LEARNER_SYNCED};

    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        struct drive drive;

        leads(&drive);
        reaches(&drive, stages[i]);
        bool asks = stages[i] == LEARNER_SNAP || stages[i] == LEARNER_STREAM;

        assert_int_equal(drive.snap_fetch[2].token != 0 || drive.fetch.fetch.token != 0, asks);
        drop(&drive, 2);
        assert_true(drive_status(&drive).serving);
        assert_true(zab_keep(drive.zab) == ZAB_KEEP_NONE);
        assert_false(zab_is_dialogue(drive.zab, 2, drive.dialogues[2]));
        answers_come_late(&drive);
        refuse(&drive);
        commits_with_the_rest(&drive);
        assert_int_equal(sent_to(&drive, 2), 0);
        add_again(&drive);
        drive_up(&drive, 2);
        drive_join(&drive, 2);
        assert_int_equal(peer_find(drive.zab, 2)->learner.stage, LEARNER_SYNCED);
        drive_release(&drive);
    }
}

TEST(the_outline_of_a_dropped_peer_does_not_count)
{
    struct drive drive;

    drive_init(&drive, 3, 5);
    drive_start(&drive);
    drive_elect(&drive, 3, 0);
    drive_cepoch(&drive, 1, 0, 0);
    drive_cepoch(&drive, 2, 0, 0);
    drive_cepoch(&drive, 4, 0, 0);
    drive_persist(&drive);
    drive_ackepoch(&drive, 1, &drive.disk, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
    assert_int_equal(peer_find(drive.zab, 1)->learner.stage, LEARNER_ACKED);
    drop(&drive, 1);
    drive_ackepoch(&drive, 2, &drive.disk, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
    assert_int_equal(drive.zab->lead.phase, LEADER_OUTLINE);
    drive_ackepoch(&drive, 4, &drive.disk, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
    assert_int_equal(drive.zab->lead.phase, LEADER_EPOCH);
    drive_release(&drive);
}

TEST(a_leader_that_drops_a_part_of_its_quorum_looks)
{
    struct drive drive;

    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_lead(&drive);
    drive_down(&drive, 3);
    assert_int_equal(drive_status(&drive).state, ZAB_LEADING);
    drop(&drive, 2);
    assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
    assert_false(drive_status(&drive).serving);
    assert_non_null(drive_effect(&drive, ZAB_FX_ROLE));
    assert_int_equal(sent_to(&drive, 2), 0);
    drive_release(&drive);
}

TEST(a_round_ends_without_the_peer_that_asked_for_it)
{
    struct drive drive;

    leads(&drive);
    struct zab_msg ask = {.type = ZAB_READ_INDEX,
                          .dialogue = drive.dialogues[2],
                          .epoch = drive.promised,
                          .read_index.request = 7};

    drive_recv(&drive, 2, &ask);
    drive_recv(&drive, 2, &ask); /* This one waits for the next round. */
    drop(&drive, 2);
    for (uint32_t id = 1; id <= 4; id += 3) {
        struct zab_msg yes = {.type = ZAB_CONFIRM_ACK,
                              .dialogue = drive.dialogues[id],
                              .epoch = drive.promised,
                              .confirm.round = drive.zab->lead.round};

        drive_recv(&drive, id, &yes);
    }
    assert_int_equal(drive_sent_count(&drive, 2, ZAB_READ_REPLY), 0);
    assert_true(drive.zab->lead.round_active);
    assert_int_equal(drive.zab->lead.waiting.count, 0);
    drive_release(&drive);
}

/* Learners 1 and 2 get a snapshot in turn; the last piece was read for the one that goes. */
TEST(refills_go_on_when_the_learner_whose_turn_it_was_is_dropped)
{
    struct drive drive;
    struct drive_log empty = {0};

    drive_init(&drive, 3, 5);
    drive_log_reset(&drive.disk, log_base, 99);
    drive_log_add(&drive.disk, log_base + 1);
    drive.init.committed = log_base + 1;
    drive.init.has_snapshot = true;
    drive.init.limits.chunk_bytes = CHUNK;
    drive.init.limits.refill_rate = 1; /* After the burst no piece may go for a long time. */
    drive_start(&drive);
    drive_elect(&drive, 3, log_base + 1);
    for (uint32_t id = 4; id <= 5; id++) {
        drive_cepoch(&drive, id, drive.promised, log_base + 1);
    }
    drive_persist(&drive);
    for (uint32_t id = 4; id <= 5; id++) {
        drive_ackepoch(&drive, id, &drive.disk, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
    }
    drive_persist(&drive);
    for (uint32_t id = 4; id <= 5; id++) {
        drive_learner_says(&drive, id, ZAB_ACK_NEWLEADER, zxid_make(drive.promised, 0));
    }
    for (uint32_t id = 2; id >= 1; id--) {
        drive_up_as(&drive, id, 900 + id, false);
        drive_cepoch(&drive, id, 0, 0);
        drive_ackepoch(&drive, id, &empty, 0);
    }
    assert_int_equal(drive.snap_fetch[2].peer, 2);
    assert_int_equal(drive.snap_fetch[1].peer, 0); /* Learner 1 has to wait. */
    drop(&drive, 2);
    drive.zab->lead.refill_due_us = 0;
    drive_tick(&drive, 1);
    assert_int_equal(drive.snap_fetch[1].peer, 1);
    drive_release(&drive);
}

/* ---- Following. ---- */

TEST(a_follower_leaves_a_leader_that_is_dropped)
{
    static void (*const reach[])(struct drive *, uint32_t, uint32_t) = {
        drive_follow_acked, drive_follow_stream, drive_follow_wait, drive_follow};

    for (size_t i = 0; i <= sizeof reach / sizeof reach[0]; i++) {
        struct drive drive;

        drive_init(&drive, 1, 3);
        drive_start(&drive);
        if (i == 0) {
            drive_follow_cepoch(&drive, 3);
        } else {
            reach[i - 1](&drive, 3, 4);
        }
        assert_int_equal(drive_status(&drive).leader, 3);
        drop(&drive, 3);
        drive_persist(&drive);
        assert_int_equal(drive_status(&drive).state, ZAB_LOOKING);
        assert_int_equal(drive_status(&drive).leader, 0);
        drive_tick(&drive, 100);
        assert_int_equal(sent_to(&drive, 3), 0);
        assert_true(drive_sent_count(&drive, 2, ZAB_VOTE) > 0);
        drive_release(&drive);
    }
}

TEST(a_follower_goes_on_when_another_peer_is_dropped)
{
    struct drive drive;

    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow(&drive, 3, 4);
    drop(&drive, 2);
    assert_true(drive_status(&drive).serving);
    assert_int_equal(drive_status(&drive).leader, 3);
    drive_release(&drive);
}
