/*
 * zab_snap_kit.h - a learner whose log is too old for the leader's, and a snapshot for it, piece by
 * piece. For the tests of receiving one.
 */
#ifndef TESTS_UNIT_ZAB_SNAP_KIT_H
#define TESTS_UNIT_ZAB_SNAP_KIT_H

#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"
#include "zab/zab_int.h"

enum {
    START = 5, /* The leader's snapshot: (6, 5) to (6, 8). */
    END = 8
};

static const zxid_t snap_start = ((zxid_t)6 << 32) + START;
static const zxid_t snap_end = ((zxid_t)6 << 32) + END;

/* Replica 1 of 3 with a log up to (3, 2), all committed; the leader's log begins at (6, 5).
 * `cache_max`: records of a log in memory; 0: the default. */
static inline void acked_with(struct drive *drive, bool quarantined, uint32_t cache_max)
{
    drive_init(drive, 1, 3);
    if (cache_max > 0) {
        drive->init.limits.cache_max = cache_max;
    }
    if (!quarantined) {
        for (uint32_t i = 0; i <= 2; i++) {
            drive_log_add(&drive->disk, zxid_make(3, i));
        }
        drive->init.committed = zxid_make(3, 2);
    }
    drive->init.quarantined = quarantined;
    drive->init.promised_epoch = 3;
    drive_start(drive);
    drive_says(drive, 3, ZAB_LEADING, 3);
    if (quarantined) {
        drive->leader = 3;
        drive->epoch = 7;
        drive_up(drive, 2);
        drive_up(drive, 3);
        drive_says(drive, 2, ZAB_FOLLOWING, 3);
        drive_says(drive, 3, ZAB_LEADING, 3);
        drive_leader_says(drive, (struct zab_msg){.type = ZAB_NEWEPOCH});
        drive_persist(drive);
    } else {
        drive_follow_acked(drive, 3, 7);
    }
    drive_log_reset(&drive->theirs, snap_start, 4711);
}

static inline void acked(struct drive *drive, bool quarantined)
{
    acked_with(drive, quarantined, 0);
}

static inline void begin(struct drive *drive)
{
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SYNC, .sync.flags = ZAB_FLAG_SNAP});
}

static inline void chunk(struct drive *drive, uint64_t offset, bool last)
{
    static const uint8_t bytes[100];

    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SNAP_CHUNK,
                                              .snap_chunk.start = snap_start,
                                              .snap_chunk.start_chain = 4711,
                                              .snap_chunk.end = snap_end,
                                              .snap_chunk.offset = offset,
                                              .snap_chunk.flags = last ? ZAB_FLAG_SNAP_LAST : 0,
                                              .snap_chunk.bytes = slice_make(bytes, sizeof bytes)});
}

static inline void whole_snapshot(struct drive *drive)
{
    begin(drive);
    drive_persist(drive);
    chunk(drive, 0, false);
    chunk(drive, 100, true);
}

static inline void entries_to(struct drive *drive, uint32_t counter)
{
    while (zxid_counter(drive_log_last(&drive->theirs)) < counter) {
        drive_entry(drive, drive_log_add(&drive->theirs, drive_log_last(&drive->theirs) + 1), 0);
    }
}

#endif
