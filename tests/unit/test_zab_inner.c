/* What no script can express about the core: see zab/README.md for everything else. */
#include "base/mem.h"
#include "tests/unit/zab_snap_kit.h"

enum {
    SURVIVOR_DISK = 77,
    NEW_HISTORY = 8
};

/* The list of epochs is bounded on the wire: the learner sends the newest, and where they begin. */
TEST(the_newest_part_of_a_long_outline_is_sent)
{
    struct drive drive;
    uint32_t count = ZAB_RANGES_MAX + 10;
    struct epoch_range *ranges = mem_zalloc(count, sizeof(ranges[0]));

    drive_init(&drive, 1, 3);
    for (uint32_t i = 0; i < count; i++) {
        ranges[i] = (struct epoch_range){.epoch = i + 1, .first = 0, .last = 3};
    }
    drive.init.ranges = ranges;
    drive.init.range_count = count;
    drive.init.log_last = zxid_make(count, 3);
    drive.init.promised_epoch = count;
    drive.init.seeds = drive.seeds;
    drive.init.now_ms = drive.now_ms;
    drive.promised = count;
    drive.zab = zab_new(&drive.init);
    drive.observed = drive.zab;
    drive.disk.base = zxid_make(count, 3);
    drive_tick(&drive, 0);
    drive_follow_cepoch(&drive, 3);
    drive.epoch = count + 1;
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_NEWEPOCH});
    drive_persist(&drive);
    const struct zab_msg *ack = drive_sent(&drive, 3, ZAB_ACKEPOCH);

    assert_int_equal(ack->ackepoch.range_count, ZAB_RANGES_MAX);
    assert_int_equal(ack->ackepoch.ranges[0].epoch, 11);
    assert_int_equal(ack->ackepoch.base, zxid_make(10, 3));
    mem_free(ranges);
    drive_release(&drive);
}

/* Otherwise the queue would disconnect a learner for which the window only waits. */
TEST(the_window_fits_the_queue_of_a_connection)
{
    static const uint64_t queues[] = {(uint64_t)20 << 20, (uint64_t)40 << 20, (uint64_t)64 << 20,
                                      (uint64_t)4096 << 20};

    for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
        struct zab_limits limits;

        zab_limits_default(&limits);
        zab_limits_fit_queue(&limits, queues[i]);
        assert_true(limits.window_bytes_max >= (uint64_t)1 << 20);
        assert_true(limits.window_bytes_max <= (uint64_t)32 << 20);
        /* The window, one more record of any size, a header for each, pieces of a snapshot. */
        assert_true(limits.window_bytes_max + ZAB_RECORD_BYTES_MAX + limits.window_max * 128 +
                        4 * (uint64_t)ZAB_CHUNK_BYTES_MAX <
                    queues[i]);
    }
}

TEST(only_the_survivor_has_a_vote)
{
    struct drive drive;
    struct zab_config config;

    drive_init(&drive, 3, 3);
    config = drive.init.config;
    config.members[0].voter = false;
    config.members[0].incarnation = 0;
    config.members[1].admitted_age_ms = 5;
    zab_config_survive(&config, 3, SURVIVOR_DISK, 100, NEW_HISTORY);
    assert_int_equal(config.version, 100);
    assert_int_equal(config.history, NEW_HISTORY);
    assert_int_equal(zab_config_voters(&config), 1);
    assert_true(zab_config_is_voter(&config, 3, SURVIVOR_DISK));
    assert_false(config.members[0].empty_seat);
    assert_true(config.members[1].empty_seat);
    assert_int_equal(config.members[1].incarnation, 0);
    assert_int_equal(config.members[1].admitted_age_ms, 0);
    drive_release(&drive);
}

/* The disk has installed a second snapshot, or dropped the first one, while the host loaded the
 * first state: whether that load succeeds no longer matters. */
TEST(replacing_a_state_while_it_loads_is_no_failure)
{
    struct drive drive;
    struct zab_event failed = {.type = ZAB_EV_RESTORED, .restored.err = ERR_MISSING};

    acked(&drive, false);
    drive.restores_by_hand = true;
    whole_snapshot(&drive);
    entries_to(&drive, END);
    drive_persist(&drive);
    drive.zab->restore.under_way++; /* Like a second install that has requested its state. */
    drive_step(&drive, &failed);
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    assert_int_equal(drive_status(&drive).delivered, zxid_make(3, 2));
    drive_restored(&drive);
    assert_null(drive_effect(&drive, ZAB_FX_HALT));
    assert_int_equal(drive_status(&drive).delivered, snap_start);
    drive_release(&drive);
}
