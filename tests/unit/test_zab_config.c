/* Which configuration binds a replica: at every moment the one in its log and its snapshot. */
#include "tests/unit/zab_snap_kit.h"

/* The configuration of the test, in which member 2 has that disk. */
static struct zab_config with_disk(const struct drive *drive, uint64_t incarnation)
{
    struct zab_config config = drive->init.config;

    config.members[1].incarnation = incarnation;
    return config;
}

/* The next record of the leader's log names that disk. */
static struct logrec *record(struct drive *drive, uint64_t incarnation)
{
    struct zab_config config = with_disk(drive, incarnation);
    zxid_t zxid = drive_log_last(&drive->theirs) + 1;
    struct buf bytes;

    config.version = zxid;
    buf_init(&bytes, 4096);
    zab_config_encode(&config, &bytes);
    struct logrec *rec = drive_log_add_type(&drive->theirs, LOGREC_CONFIG, zxid, buf_slice(&bytes));

    buf_release(&bytes);
    return rec;
}

static uint64_t binding(const struct drive *drive)
{
    return zab_config(drive->zab)->members[1].incarnation;
}

/* A leader proposes a change only when the one before it is committed. */
TEST(a_second_change_in_the_log_proves_the_first)
{
    struct drive drive;

    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow(&drive, 3, 1);
    drive_entry(&drive, record(&drive, 501), 0);
    assert_int_equal(binding(&drive), DRIVE_INCARNATION + 2);
    drive_entry(&drive, record(&drive, 502), 0);
    assert_int_equal(binding(&drive), 501);
    assert_true(drive.zab->config.has_pending);
    drive_persist(&drive);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_COMMIT, .commit.zxid = zxid_make(1, 2)});
    assert_int_equal(binding(&drive), 502);
    drive_release(&drive);
}

/* A leader that counts wrong stops no follower. */
TEST(an_impossible_age_is_read_as_none)
{
    struct zab_config config;
    struct zab_config got;
    struct drive drive;
    struct buf bytes;

    drive_init(&drive, 1, 3);
    config = drive.init.config;
    config.members[0].admitted_age_ms = ZAB_AGE_MAX_MS;
    config.members[1].admitted_age_ms = ZAB_AGE_MAX_MS + 1;
    config.members[2].admitted_age_ms = UINT64_MAX;
    buf_init(&bytes, 4096);
    zab_config_encode(&config, &bytes);
    assert_int_equal(zab_config_decode(buf_slice(&bytes), &got), ERR_OK);
    assert_true(got.members[0].admitted_age_ms == ZAB_AGE_MAX_MS);
    assert_int_equal(got.members[1].admitted_age_ms, 0);
    assert_int_equal(got.members[2].admitted_age_ms, 0);
    buf_release(&bytes);
    drive_release(&drive);
}

/* ---- Texts. ---- */

/* Level 1, with a removed disk and a host for member 2. */
static struct zab_config with_host(const struct drive *drive, const char *host, struct slice txn,
                                   struct buf *out)
{
    struct zab_config config = drive->init.config;
    struct zab_config_edit edit = {.id = 2, .texts = {.host = slice_str(host), .port = 1}};
    struct zab_config_parts parts = {.edits = &edit, .edit_count = 1, .txn = txn};

    config.level = 1;
    config.removed_count = 1;
    config.removed[0] = (struct zab_removed){.id = 9, .incarnation = 90, .zxid = 1};
    buf_init(out, 4096);
    assert_int_equal(zab_config_write(&config, &parts, out), ERR_OK);
    return config;
}

static struct logrec *record_with_host(struct drive *drive, const char *host)
{
    zxid_t zxid = drive_log_last(&drive->theirs) + 1;
    struct buf bytes;

    (void)with_host(drive, host, slice_str("a transaction"), &bytes);
    struct logrec *rec = drive_log_add_type(&drive->theirs, LOGREC_CONFIG, zxid, buf_slice(&bytes));

    buf_release(&bytes);
    return rec;
}

static void assert_host(struct slice bytes, const char *host, zxid_t version)
{
    struct zab_config config;
    struct zab_texts texts;

    assert_int_equal(zab_config_decode(bytes, &config), ERR_OK);
    assert_int_equal(config.version, version);
    assert_int_equal(config.removed_count, 1);
    assert_int_equal(zab_config_txn(bytes).len, 0);
    assert_true(zab_config_texts(bytes, 2, &texts));
    assert_true(slice_eq(texts.host, slice_str(host)));
}

static struct slice pending_bytes(const struct drive *drive)
{
    return blob_slice(drive->zab->config.pending_bytes);
}

/* They are those of the record, whose zxid is the version, without its transaction. */
TEST(the_texts_of_a_record_are_kept_with_it)
{
    struct drive drive;

    drive_init(&drive, 1, 3);
    drive.init.level_max = 1;
    drive_start(&drive);
    drive_follow(&drive, 3, 1);
    drive_entry(&drive, record_with_host(&drive, "first"), 0);
    assert_host(pending_bytes(&drive), "first", zxid_make(1, 1));
    assert_int_equal(zab_config_bytes(drive.zab).data[0], 3);
    drive_entry(&drive, record_with_host(&drive, "second"), 0);
    assert_host(zab_config_bytes(drive.zab), "first", zxid_make(1, 1));
    assert_host(pending_bytes(&drive), "second", zxid_make(1, 2));
    drive_persist(&drive);
    drive_leader_says(&drive, (struct zab_msg){.type = ZAB_COMMIT, .commit.zxid = zxid_make(1, 2)});
    assert_host(zab_config_bytes(drive.zab), "second", zxid_make(1, 2));
    drive_release(&drive);
}

TEST(texts_that_recovery_has_found_are_kept)
{
    struct drive drive;
    struct buf committed;
    struct buf pending;

    drive_init(&drive, 1, 3);
    drive.init.level_max = 1;
    drive_log_add(&drive.disk, zxid_make(1, 0));
    drive_log_add(&drive.disk, zxid_make(1, 1));
    struct zab_config config = with_host(&drive, "committed", slice_str("txn"), &committed);

    drive.init.config = config;
    drive.init.pending = with_host(&drive, "pending", slice_str("txn"), &pending);
    drive.init.pending.version = zxid_make(1, 1);
    drive.init.has_pending = true;
    drive.init.config_bytes = blob_new(buf_slice(&committed));
    drive.init.pending_bytes = blob_new(buf_slice(&pending));
    drive_start(&drive);
    blob_unref(drive.init.config_bytes);
    blob_unref(drive.init.pending_bytes);
    assert_host(zab_config_bytes(drive.zab), "committed", 0);
    assert_host(pending_bytes(&drive), "pending", zxid_make(1, 1));
    buf_release(&committed);
    buf_release(&pending);
    drive_release(&drive);
}

TEST(texts_that_a_peer_has_told_are_kept)
{
    struct drive drive;
    struct zab_config config;
    struct buf first;
    struct buf bytes;

    drive_init(&drive, 1, 3);
    drive.init.level_max = 1;
    drive_start(&drive);
    drive_up(&drive, 2);
    config = with_host(&drive, "told", slice_make(NULL, 0), &first);
    config.version = zxid_make(5, 1);
    buf_init(&bytes, 4096);
    assert_int_equal(zab_config_write(&config,
                                      &(struct zab_config_parts){.texts_of = buf_slice(&first)},
                                      &bytes),
                     ERR_OK);
    drive_recv(&drive, 2, &(struct zab_msg){.type = ZAB_CONFIG, .config.bytes = buf_slice(&bytes)});
    assert_host(zab_config_bytes(drive.zab), "told", zxid_make(5, 1));
    buf_release(&first);
    buf_release(&bytes);
    drive_release(&drive);
}

/* An admission, and what 'zabra recover' leaves to write, change nothing else. */
TEST(a_leader_writes_texts_and_removed_disks_again)
{
    struct drive drive;
    struct zab_config config;
    struct buf first;
    struct buf bytes;

    drive_init(&drive, 3, 3);
    drive.init.level_max = 1;
    config = with_host(&drive, "kept", slice_make(NULL, 0), &first);
    config.version = zxid_make(3, 0); /* No record has it. */
    buf_init(&bytes, 4096);
    assert_int_equal(zab_config_write(&config,
                                      &(struct zab_config_parts){.texts_of = buf_slice(&first)},
                                      &bytes),
                     ERR_OK);
    drive.init.config = config;
    drive.init.config_bytes = blob_new(buf_slice(&bytes));
    drive.init.promised_epoch = 3;
    drive_start(&drive);
    blob_unref(drive.init.config_bytes);
    drive_lead(&drive);
    drive_pong(&drive, 1);
    drive_tick(&drive, 600);
    const struct zab_msg *told = drive_sent(&drive, 1, ZAB_NEWEPOCH);

    assert_host(told->newepoch.config, "kept", zxid_make(3, 0));
    assert_true(drive.zab->config.has_pending);
    assert_host(pending_bytes(&drive), "kept", drive.zab->trail.last);
    buf_release(&first);
    buf_release(&bytes);
    drive_release(&drive);
}

/* The record has it for the state machine of each replica; what binds the core has it no more. */
TEST(the_transaction_of_a_client_is_in_the_record_only)
{
    struct zab_change change = {.sets_hold = true, .hold = 1};
    struct zab_change_report report;
    struct zab_effects effects;
    struct drive drive;

    drive_init(&drive, 3, 3);
    drive.init.level_max = 1;
    drive.init.config.level = 1;
    drive_start(&drive);
    drive_lead(&drive);
    drive_clear(&drive);
    zab_effects_init(&effects);
    assert_int_equal(zab_change(drive.zab, &change, slice_str("a transaction"), &report, &effects),
                     ZAB_FAULT_NONE);
    drive_take(&drive, &effects);
    zab_effects_release(&effects);
    const struct logrec *rec = drive_asked(&drive, ZAB_PERSIST_APPEND)->append.rec;

    assert_int_equal(rec->type, LOGREC_CONFIG);
    assert_int_equal(rec->zxid, report.version);
    assert_true(slice_eq(zab_config_txn(logrec_payload(rec)), slice_str("a transaction")));
    assert_int_equal(zab_config_txn(pending_bytes(&drive)).len, 0);
    assert_int_equal(drive.zab->config.pending.hold, 1);
    drive_release(&drive);
}

/* ---- The log that came with a snapshot. ---- */

static void install_with(struct drive *drive, uint32_t configs)
{
    acked(drive, false);
    whole_snapshot(drive);
    for (uint32_t i = 0; i < configs; i++) {
        drive_entry(drive, record(drive, 501 + i), 0);
    }
    entries_to(drive, END);
    drive_persist(drive);
    assert_int_equal(drive_status(drive).last, snap_end);
}

TEST(a_configuration_in_the_installed_log_binds_at_once)
{
    struct drive drive;

    install_with(&drive, 1);
    assert_int_equal(binding(&drive), 501); /* Everything up to the snapshot's end is committed. */
    assert_false(drive.zab->config.has_pending);
    drive_release(&drive);
}

TEST(of_two_changes_in_an_installed_log_the_newest_binds)
{
    struct drive drive;

    install_with(&drive, 2);
    assert_int_equal(binding(&drive), 502);
    drive_release(&drive);
}

static void expect_halt_at(struct drive *drive)
{
    zxid_t zxid = drive_log_last(&drive->theirs) + 1;

    drive_clear(drive);
    drive_entry(
        drive,
        drive_log_add_type(&drive->theirs, LOGREC_CONFIG, zxid, slice_str("no configuration")), 0);
    const struct zab_effect *halt = drive_effect(drive, ZAB_FX_HALT);

    assert_non_null(halt);
    assert_int_equal(halt->notice.type, ZAB_NOTICE_MALFORMED_CONFIG);
    assert_int_equal(halt->notice.zxid, zxid);
    assert_ptr_equal(halt, &drive->seen[0]); /* Before the record is written. */
}

/* Without it this replica would not know which disks count. */
TEST(a_malformed_configuration_stops_the_replica)
{
    struct drive drive;

    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_follow(&drive, 3, 1);
    expect_halt_at(&drive);
    drive_release(&drive);

    acked(&drive, false);
    whole_snapshot(&drive);
    expect_halt_at(&drive);
    drive_release(&drive);
}

/* All of a snapshot whose transfer can be resumed. */
static void named_chunk(struct drive *drive)
{
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SNAP_CHUNK,
                                              .snap_chunk.start = snap_start,
                                              .snap_chunk.start_chain = 4711,
                                              .snap_chunk.end = snap_end,
                                              .snap_chunk.snap_id = 77,
                                              .snap_chunk.flags = ZAB_FLAG_SNAP_LAST,
                                              .snap_chunk.bytes = slice_str("all of it")});
}

/* Also when the transfer has broken off between the record and the snapshot's end. */
TEST(texts_in_an_installed_log_are_kept)
{
    struct drive drive;

    for (int broken = 0; broken <= 1; broken++) {
        acked(&drive, false);
        drive.zab->level_max = 1;
        begin(&drive);
        drive_persist(&drive);
        named_chunk(&drive);
        drive_entry(&drive, record_with_host(&drive, "staged"), 0);
        assert_host(blob_slice(drive.zab->follow.staged_bytes), "staged", snap_start + 1);
        if (broken) {
            drive_persist(&drive);
            drive_down(&drive, 3);
            assert_int_equal(drive.zab->follow.leader, 0);
            assert_host(blob_slice(drive.zab->partial.bytes), "staged", snap_start + 1);
            drive_up(&drive, 3);
            drive_says(&drive, 2, ZAB_FOLLOWING, 3);
            drive_says(&drive, 3, ZAB_LEADING, 3);
            drive_leader_says(&drive, (struct zab_msg){.type = ZAB_NEWEPOCH});
            drive_persist(&drive);
            drive_leader_says(
                &drive,
                (struct zab_msg){.type = ZAB_SYNC, .sync.common = drive_log_last(&drive.theirs)});
        }
        entries_to(&drive, END);
        drive_persist(&drive);
        assert_int_equal(drive_status(&drive).last, snap_end);
        assert_host(zab_config_bytes(drive.zab), "staged", snap_start + 1);
        drive_release(&drive);
    }
}

/* After the snapshot's end, only a later change proves that an earlier one is committed. */
TEST(a_change_after_the_snapshots_end_is_pending)
{
    struct drive drive;

    acked(&drive, false);
    whole_snapshot(&drive);
    entries_to(&drive, END - 1);
    drive_log_cut(&drive.theirs, zxid_make(6, END - 1));
    drive_entry(&drive, record(&drive, 501), 0);
    drive_entry(&drive, record(&drive, 502), 0);
    drive_persist(&drive);
    assert_int_equal(binding(&drive), 501);
    assert_true(drive.zab->config.has_pending);
    assert_int_equal(drive.zab->config.pending.members[1].incarnation, 502);
    drive_release(&drive);
}

/* Changes before the snapshot's start are in none of the records that follow it: a learner that
 * loses its leader right after the switch would otherwise count outdated disks. */
TEST(the_leader_sends_its_configuration_before_the_last_piece)
{
    struct drive drive;
    struct zab_event piece = {.type = ZAB_EV_SNAP_FETCHED,
                              .snap_fetched.start = ((zxid_t)3 << 32) + 2};
    size_t found = SIZE_MAX;
    size_t last = 0;

    drive_init(&drive, 3, 3);
    drive_log_reset(&drive.disk, zxid_make(3, 2), 9);
    drive_log_add(&drive.disk, zxid_make(3, 3));
    drive.init.committed = zxid_make(3, 3);
    drive.init.has_snapshot = true;
    drive.init.config.version = zxid_make(3, 1);
    drive_start(&drive);
    drive_lead(&drive);
    drive_up_as(&drive, 1, 999, false);
    drive_clear(&drive);
    struct drive_log empty = {0};

    drive_cepoch(&drive, 1, 4, 0);
    drive_ackepoch(&drive, 1, &empty, ZAB_FLAG_ELIGIBLE | ZAB_FLAG_COUNTED);
    assert_true(drive_sent(&drive, 1, ZAB_SYNC)->sync.flags & ZAB_FLAG_SNAP);
    assert_null(drive_sent(&drive, 1, ZAB_CONFIG));
    piece.snap_fetched.token = drive_effect(&drive, ZAB_FX_SNAP_FETCH)->snap_fetch.token;
    piece.snap_fetched.end = piece.snap_fetched.start;
    piece.snap_fetched.bytes = slice_str("all of it");
    piece.snap_fetched.is_last = true;
    drive_step(&drive, &piece);
    for (size_t i = 0; i < drive.seen_count; i++) {
        if (drive.seen[i].type == ZAB_FX_SEND && drive.seen[i].send.msg.type == ZAB_CONFIG) {
            found = i;
        } else if (drive.seen[i].type == ZAB_FX_SEND &&
                   drive.seen[i].send.msg.type == ZAB_SNAP_CHUNK) {
            last = i;
        }
    }
    assert_true(found < last);
    drive_release(&drive);
}

TEST(a_learner_accepts_it_during_the_transfer)
{
    struct drive drive;
    struct zab_config config;
    struct buf bytes;

    acked(&drive, false);
    begin(&drive);
    drive_persist(&drive);
    config = with_disk(&drive, 500);
    config.version = zxid_make(5, 1);
    buf_init(&bytes, 4096);
    zab_config_encode(&config, &bytes);
    drive_leader_says(&drive,
                      (struct zab_msg){.type = ZAB_CONFIG, .config.bytes = buf_slice(&bytes)});
    buf_release(&bytes);
    assert_int_equal(binding(&drive), 500);
    assert_int_equal(drive_status(&drive).state, ZAB_FOLLOWING);
    drive_release(&drive);
}
