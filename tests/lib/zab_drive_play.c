#include "base/check.h"
#include "tests/lib/zab_drive.h"

/* ---- Election. ---- */

void drive_vote(struct drive *drive, uint32_t peer, uint32_t candidate, zxid_t zxid)
{
    struct zab_msg msg = {
        .type = ZAB_VOTE,
        .vote.state = ZAB_LOOKING,
        .vote.round = drive->round,
        .vote.candidate = candidate,
        .vote.candidate_last = zxid,
        .vote.last = zxid,
        .vote.flags = ZAB_FLAG_ELIGIBLE,
    };

    drive_recv(drive, peer, &msg);
}

void drive_says(struct drive *drive, uint32_t peer, enum zab_state state, uint32_t leader)
{
    struct zab_msg msg = {
        .type = ZAB_VOTE,
        .vote.state = (uint8_t)state,
        .vote.round = drive->round,
        .vote.candidate = leader,
        .vote.voters = drive->init.seed_count,
        .vote.flags = ZAB_FLAG_ELIGIBLE,
    };

    drive_recv(drive, peer, &msg);
}

void drive_elect(struct drive *drive, uint32_t candidate, zxid_t zxid)
{
    for (uint32_t id = 1; id <= drive->init.seed_count; id++) {
        if (id != drive->init.id) {
            drive_up(drive, id);
        }
    }
    for (uint32_t id = 1; id <= drive->init.seed_count; id++) {
        if (id != drive->init.id) {
            drive_vote(drive, id, candidate, zxid);
        }
    }
}

/* ---- We lead. ---- */

void drive_cepoch(struct drive *drive, uint32_t peer, uint32_t promised, zxid_t zxid)
{
    struct zab_msg msg = {
        .type = ZAB_CEPOCH,
        .dialogue = ++drive->dialogues[peer],
        .cepoch.promised = promised,
        .cepoch.last = zxid,
        .cepoch.flags = ZAB_FLAG_ELIGIBLE,
    };

    drive_recv(drive, peer, &msg);
}

void drive_ackepoch(struct drive *drive, uint32_t peer, const struct drive_log *log, uint32_t flags)
{
    struct epoch_range ranges[DRIVE_RANGES_MAX];
    struct zab_msg msg = {
        .type = ZAB_ACKEPOCH,
        .dialogue = drive->dialogues[peer],
        .epoch = drive->promised,
        .ackepoch.last = drive_log_last(log),
        .ackepoch.base = log->base,
        .ackepoch.ranges = ranges,
        .ackepoch.range_count = drive_log_ranges(log, ranges),
        .ackepoch.flags = flags,
    };

    drive_recv(drive, peer, &msg);
}

void drive_learner_says(struct drive *drive, uint32_t peer, enum zab_msg_type type, zxid_t zxid)
{
    struct zab_msg msg = {.type = type,
                          .dialogue = drive->dialogues[peer],
                          .epoch = drive->promised,
                          .ack.zxid = zxid};

    drive_recv(drive, peer, &msg);
}

void drive_pong(struct drive *drive, uint32_t peer)
{
    struct zab_msg msg = {.type = ZAB_PONG,
                          .dialogue = drive->dialogues[peer],
                          .epoch = drive->promised,
                          .pong.flags = ZAB_FLAG_ELIGIBLE};

    drive_recv(drive, peer, &msg);
}

void drive_join(struct drive *drive, uint32_t peer)
{
    drive_cepoch(drive, peer, drive->promised, drive_log_last(&drive->disk));
    drive_ackepoch(drive, peer, &drive->disk, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
    drive_persist(drive);
    drive_learner_says(drive, peer, ZAB_ACK_NEWLEADER, drive_log_last(&drive->disk));
}

void drive_establish(struct drive *drive)
{
    zxid_t last = drive_log_last(&drive->disk);
    uint32_t count = drive->init.seed_count;
    uint32_t promised = drive->promised;

    drive_elect(drive, drive->init.id, last);
    for (uint32_t id = 1; id <= count; id++) {
        if (id != drive->init.id) {
            drive_cepoch(drive, id, promised, last);
        }
    }
    drive_persist(drive); /* The promise. */
    for (uint32_t id = 1; id <= count; id++) {
        if (id != drive->init.id) {
            drive_ackepoch(drive, id, &drive->disk, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
        }
    }
    drive_persist(drive); /* The EPOCH record. */
}

/* A leader with a change in its history serves only when that is proven. */
static void ack_proof(struct drive *drive)
{
    if (drive_status(drive).phase == ZAB_PHASE_BROADCAST) {
        return;
    }
    drive_persist(drive);
    for (uint32_t id = 1; id <= drive->init.seed_count; id++) {
        if (id != drive->init.id) {
            drive_learner_says(drive, id, ZAB_ACK, drive_status(drive).last);
        }
    }
}

void drive_lead(struct drive *drive)
{
    drive_establish(drive);
    for (uint32_t id = 1; id <= drive->init.seed_count; id++) {
        if (id != drive->init.id) {
            drive_learner_says(drive, id, ZAB_ACK_NEWLEADER, zxid_make(drive->promised, 0));
        }
    }
    ack_proof(drive);
    if (drive->fetch.fetch.token != 0) {
        drive_fetched(drive);
    }
    ASSERT(drive_status(drive).phase == ZAB_PHASE_BROADCAST);
    ASSERT(drive_status(drive).serving);
}

/* ---- We follow. ---- */

void drive_leader_says(struct drive *drive, struct zab_msg msg)
{
    msg.dialogue = drive->dialogue;
    msg.epoch = drive->epoch;
    drive_recv(drive, drive->leader, &msg);
}

void drive_entry(struct drive *drive, struct logrec *rec, zxid_t commit)
{
    drive_leader_says(
        drive, (struct zab_msg){.type = ZAB_ENTRY, .entry.rec = rec, .entry.commit = commit});
}

void drive_newleader(struct drive *drive, struct logrec *rec)
{
    struct buf bytes;

    buf_init(&bytes, 4096);
    zab_config_encode(&drive->init.config, &bytes);
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_NEWLEADER,
                                              .newleader.rec = rec,
                                              .newleader.config = buf_slice(&bytes)});
    buf_release(&bytes);
}

void drive_follow_cepoch(struct drive *drive, uint32_t leader)
{
    drive->leader = leader;
    drive_elect(drive, leader, drive_log_last(&drive->disk) + 1);
    ASSERT(drive->dialogue != 0);
}

void drive_follow_acked(struct drive *drive, uint32_t leader, uint32_t epoch)
{
    struct buf bytes;

    drive_follow_cepoch(drive, leader);
    drive->epoch = epoch;
    buf_init(&bytes, 4096);
    zab_config_encode(&drive->init.config, &bytes);
    drive_leader_says(drive,
                      (struct zab_msg){.type = ZAB_NEWEPOCH, .newepoch.config = buf_slice(&bytes)});
    buf_release(&bytes);
    drive_persist(drive);
    ASSERT(drive_sent(drive, leader, ZAB_ACKEPOCH));
    drive_log_copy(&drive->theirs, &drive->disk);
}

void drive_follow_stream(struct drive *drive, uint32_t leader, uint32_t epoch)
{
    drive_follow_acked(drive, leader, epoch);
    drive_leader_says(
        drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = drive_log_last(&drive->disk)});
}

void drive_follow_wait(struct drive *drive, uint32_t leader, uint32_t epoch)
{
    drive_follow_stream(drive, leader, epoch);
    drive_newleader(drive, drive_log_add(&drive->theirs, zxid_make(epoch, 0)));
    drive_persist(drive);
    ASSERT(drive_sent(drive, leader, ZAB_ACK_NEWLEADER));
}

void drive_follow(struct drive *drive, uint32_t leader, uint32_t epoch)
{
    drive_follow_wait(drive, leader, epoch);
    drive_leader_says(drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(epoch, 0)});
    if (drive->fetch.fetch.token != 0) {
        drive_fetched(drive); /* The records from before its start are not in memory. */
    }
    ASSERT(drive_status(drive).serving);
}
