/* What `zabra recover` does to a directory. */
#include "server/process/sole_voter.h"
#include "storage/names.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

enum {
    HISTORY = 0x77,
    BLOCK_BYTES = 20000 /* Most of the snapshot's file. */
};

static struct zab_config three(void)
{
    struct zab_config config = {.history = 6, .count = 3};
    struct store_identity identity = skit_identity();

    memcpy(config.cluster, identity.cluster, ZAB_CLUSTER_LEN);
    for (uint32_t i = 0; i < 3; i++) {
        config.members[i] = (struct zab_member){.id = i + 1, .voter = true, .incarnation = 10 + i};
    }
    config.members[identity.member_id - 1].incarnation = identity.incarnation;
    return config;
}

/* The disk of a member of a cluster that was founded with `config`. */
static void found(struct skit *kit, const struct zab_config *config)
{
    struct store_identity identity = skit_identity();
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};
    struct buf bytes;

    skit_init(kit, KIT_SEGMENT);
    assert_int_equal(skit_open(kit), ERR_OK);
    buf_init(&bytes, STORE_GENESIS_MAX);
    zab_config_encode(config, &bytes);
    memcpy(identity.genesis, bytes.data, bytes.len);
    identity.genesis_len = (uint32_t)bytes.len;
    identity.bootstrapping = false;
    buf_release(&bytes);
    assert_int_equal(skit_run(kit, &op), ERR_OK);
}

/* A member of a cluster of three with some records. */
static void member(struct skit *kit)
{
    struct store_op promise = {.type = STORE_PROMISE, .epoch = 4, .leader = 2};
    struct zab_config config = three();

    found(kit, &config);
    assert_int_equal(skit_run(kit, &promise), ERR_OK);
    assert_int_equal(skit_append(kit, 3, 20, 100), ERR_OK);
    skit_close(kit, true);
}

static uint32_t own_id(void)
{
    return skit_identity().member_id;
}

static enum err look(struct skit *kit, uint32_t id, struct sole_voter *ret_survivor)
{
    const char *why = NULL;

    assert_int_equal(skit_open(kit), ERR_OK);
    enum err err = sole_voter_check(kit->store, &kit->report, id, ret_survivor, &why);

    assert_true((why != NULL) == (err != ERR_OK));
    return err;
}

static struct zab_config genesis(const struct store_report *report)
{
    struct zab_config config;

    assert_int_equal(
        zab_config_decode(slice_make(report->identity.genesis, report->identity.genesis_len),
                          &config),
        ERR_OK);
    return config;
}

TEST(a_member_is_shown_unchanged, skit, member, skit_release)
{
    struct sole_voter survivor;

    assert_int_equal(look(skit, own_id(), &survivor), ERR_OK);
    assert_int_equal(survivor.promised_epoch, 4);
    assert_int_equal(survivor.epoch, 3);
    assert_int_equal(survivor.last, skit_zxid(&skit->log, 20));
    assert_int_equal(survivor.config.count, 3);
    assert_int_equal(survivor.config.history, 6);
    skit_close(skit, false);
}

TEST(the_sole_voter_continues_with_its_whole_log, skit, member, skit_release)
{
    struct sole_voter survivor;
    struct zab_config config;

    assert_int_equal(look(skit, own_id(), &survivor), ERR_OK);
    assert_int_equal(sole_voter_write(skit->store, &survivor, HISTORY, 0), ERR_OK);
    skit_close(skit, true);
    assert_int_equal(skit_open(skit), ERR_OK);
    config = genesis(&skit->report);
    assert_int_equal(skit->report.promised_epoch, 1004);
    assert_int_equal(config.version, zxid_make(1004, 0));
    assert_int_equal(config.history, HISTORY);
    assert_int_equal(zab_config_voters(&config), 1);
    assert_true(zab_config_is_voter(&config, own_id(), skit_identity().incarnation));
    assert_int_equal(skit_check_log(skit), 20);
    skit_close(skit, false);
}

TEST(a_directory_of_an_earlier_release_is_refused, skit, member, skit_release)
{
    struct sole_voter survivor;
    struct store_identity identity;
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};

    assert_int_equal(skit_open(skit), ERR_OK);
    identity = skit->report.identity;
    identity.genesis[0] = 2; /* The format of its configuration. */
    assert_int_equal(skit_run(skit, &op), ERR_OK);
    skit_close(skit, true);
    assert_int_equal(look(skit, own_id(), &survivor), ERR_FORMAT);
    skit_close(skit, false);
}

/* Appends a transaction of this time. */
static void append_txn(struct skit *kit, int64_t stamp_ms)
{
    struct buf txn;

    buf_init(&txn, 4096);
    kit_begin(&txn, stamp_ms);
    struct logrec *rec = logrec_new(LOGREC_TXN, kit->report.log_last + 1, kit->report.log_last,
                                    kit->report.log_chain, buf_slice(&txn));
    struct store_op op = {.type = STORE_APPEND, .recs = &rec, .rec_count = 1};

    assert_int_equal(skit_run(kit, &op), ERR_OK);
    logrec_unref(rec);
    buf_release(&txn);
}

/* Makes a disk with a transaction of this time the sole voter at another one; returns its epoch. */
static uint32_t epoch_after(int64_t stamp_ms, int64_t now_ms)
{
    struct sole_voter survivor;
    struct skit kit;

    member(&kit);
    assert_int_equal(skit_open(&kit), ERR_OK);
    append_txn(&kit, stamp_ms);
    skit_close(&kit, true);
    assert_int_equal(look(&kit, own_id(), &survivor), ERR_OK);
    assert_int_equal(survivor.stamp_ms, stamp_ms);
    assert_int_equal(sole_voter_write(kit.store, &survivor, HISTORY, now_ms), ERR_OK);
    skit_close(&kit, true);
    assert_int_equal(skit_open(&kit), ERR_OK);
    uint32_t epoch = kit.report.promised_epoch;

    skit_close(&kit, false);
    skit_release(&kit);
    return epoch;
}

/* An ensemble that continued from one survivor has begun fewer epochs than seconds until another
 * one is recovered: the epochs of that one lie above them. */
TEST(two_survivors_have_no_epoch_in_common)
{
    int64_t stamp_ms = 1700000000000;
    uint32_t first = epoch_after(stamp_ms, stamp_ms + 60 * 1000);
    uint32_t second = epoch_after(stamp_ms, stamp_ms + 9000 * 1000);

    assert_int_equal(first, 4 + 1000 + 60);
    assert_true(second >= first + (9000 - 60));
    /* Also if the second one had been away for long before. */
    assert_true(epoch_after(stamp_ms - 3600 * 1000, stamp_ms + 9000 * 1000) > second);
    /* A clock that was set back, and one that is wrong, use up few epochs. */
    assert_int_equal(epoch_after(stamp_ms, stamp_ms - 5000), 4 + 1000);
    assert_int_equal(epoch_after(0, INT64_MAX), 4 + 1000 + (1 << 28));
}

TEST(epochs_that_are_used_up_are_an_error, skit, no_set_up, skit_release)
{
    struct sole_voter survivor;
    struct zab_config config = three();

    config.version = zxid_make(UINT32_MAX - 5, 0);
    found(skit, &config);
    skit_close(skit, true);
    assert_int_equal(look(skit, own_id(), &survivor), ERR_TOO_LARGE);
    skit_close(skit, false);
}

/* A disk that has joined and not yet promised anything: its only knowledge of epochs is the
 * configuration. */
TEST(the_epochs_of_a_configuration_count, skit, no_set_up, skit_release)
{
    struct sole_voter survivor;
    struct zab_config config = three();

    config.version = zxid_make(5000, 7);
    found(skit, &config);
    skit_close(skit, true);
    assert_int_equal(look(skit, own_id(), &survivor), ERR_OK);
    assert_int_equal(sole_voter_write(skit->store, &survivor, HISTORY, 0), ERR_OK);
    skit_close(skit, true);
    assert_int_equal(skit_open(skit), ERR_OK);
    config = genesis(&skit->report);
    assert_int_equal(config.version, zxid_make(6000, 0));
    assert_int_equal(skit->report.promised_epoch, 6000);
    skit_close(skit, false);
}

/* Appends a configuration, which is not known to be committed. */
static void append_config(struct skit *kit, const struct zab_config *config)
{
    struct buf bytes;

    buf_init(&bytes, STORE_GENESIS_MAX);
    zab_config_encode(config, &bytes);
    struct logrec *rec = logrec_new(LOGREC_CONFIG, kit->report.log_last + 1, kit->report.log_last,
                                    kit->report.log_chain, buf_slice(&bytes));
    struct store_op op = {.type = STORE_APPEND, .recs = &rec, .rec_count = 1};

    assert_int_equal(skit_run(kit, &op), ERR_OK);
    logrec_unref(rec);
    buf_release(&bytes);
}

/* A configuration in the log is newer than the founding one, even if it is not known to be
 * committed. */
TEST(the_newest_configuration_counts, skit, member, skit_release)
{
    struct sole_voter survivor;
    struct zab_config config = three();

    assert_int_equal(skit_open(skit), ERR_OK);
    config.members[config.count++] = (struct zab_member){.id = 9};
    zxid_t version = skit->report.log_last + 1;

    append_config(skit, &config);
    skit_close(skit, true);
    assert_int_equal(look(skit, own_id(), &survivor), ERR_OK);
    assert_int_equal(survivor.config.count, 4);
    assert_int_equal(survivor.config.version, version);
    skit_close(skit, false);
}

/* No configuration has a voter that is joining: the start would find the identity damaged. */
TEST(an_observer_that_was_joining_can_be_the_sole_voter, skit, no_set_up, skit_release)
{
    struct sole_voter survivor;
    struct zab_config config = three();

    config.level = 1;
    config.members[own_id() - 1] = (struct zab_member){.id = own_id(), .joining = true};
    found(skit, &config);
    skit_close(skit, true);
    assert_int_equal(look(skit, own_id(), &survivor), ERR_OK);
    assert_int_equal(sole_voter_write(skit->store, &survivor, HISTORY, 0), ERR_OK);
    skit_close(skit, true);
    assert_int_equal(skit_open(skit), ERR_OK);
    config = genesis(&skit->report);
    assert_int_equal(config.level, 1);
    assert_true(zab_config_is_voter(&config, own_id(), skit_identity().incarnation));
    skit_close(skit, false);
}

TEST(a_removed_replica_is_refused_as_the_sole_voter, skit, member, skit_release)
{
    struct sole_voter survivor;
    struct zab_config config = three();

    assert_int_equal(skit_open(skit), ERR_OK);
    config.count--;
    for (uint32_t i = own_id() - 1; i < config.count; i++) {
        config.members[i] = config.members[i + 1];
    }
    append_config(skit, &config);
    skit_close(skit, true);
    assert_int_equal(look(skit, own_id(), &survivor), ERR_MISSING);
    skit_close(skit, false);
}

/* Of records 5 to 8 of the model. */
static void take_snapshot(struct skit *kit, struct slice config)
{
    struct store_snap_writer *writer = NULL;
    uint8_t block[BLOCK_BYTES];

    memset(block, 7, sizeof(block));
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(store_snap_begin(kit->store, skit_zxid(&kit->log, 5), skit_chain(&kit->log, 5),
                                      config, &writer),
                     ERR_OK);
    assert_int_equal(store_snap_block(writer, slice_make(block, sizeof(block))), ERR_OK);
    assert_int_equal(store_snap_finish(writer, skit_zxid(&kit->log, 8), 1, 1), ERR_OK);
    skit_close(kit, true);
}

/* If the replica cannot load the snapshot, it has nothing to continue with: the log before the
 * snapshot is gone. */
TEST(a_snapshot_is_read_to_its_end, skit, member, skit_release)
{
    struct sole_voter survivor;
    struct zab_config config = three();
    struct buf bytes;
    char name[VFS_NAME_MAX];
    uint64_t size = 0;

    buf_init(&bytes, STORE_GENESIS_MAX);
    zab_config_encode(&config, &bytes);
    take_snapshot(skit, buf_slice(&bytes));
    buf_release(&bytes);
    assert_int_equal(look(skit, own_id(), &survivor), ERR_OK);
    skit_close(skit, true);
    name_snap(name, 1, skit_zxid(&skit->log, 5));
    assert_true(vfs_mem_size(skit->disk, name, &size));
    vfs_mem_flip(skit->disk, name, size / 2, 1);
    assert_int_equal(look(skit, own_id(), &survivor), ERR_CORRUPT);
    skit_close(skit, false);
}

TEST(an_unreadable_configuration_is_not_skipped, skit, member, skit_release)
{
    struct sole_voter survivor;

    take_snapshot(skit, slice_str("no configuration"));
    assert_int_equal(look(skit, own_id(), &survivor), ERR_CORRUPT);
    skit_close(skit, false);
}

TEST(a_member_that_cannot_continue_is_refused)
{
    struct skit kit;
    struct sole_voter survivor;
    struct store_op quarantine = {.type = STORE_QUARANTINE, .reason = "a test"};

    skit_init(&kit, KIT_SEGMENT);
    assert_int_equal(look(&kit, 1, &survivor), ERR_MISSING);
    assert_int_equal(skit_format(&kit), ERR_OK);
    skit_close(&kit, true);
    assert_int_equal(look(&kit, own_id(), &survivor), ERR_MISSING);
    skit_close(&kit, true);
    skit_release(&kit);

    member(&kit);
    assert_int_equal(look(&kit, own_id() + 1, &survivor), ERR_FOREIGN);
    assert_int_equal(skit_run(&kit, &quarantine), ERR_OK);
    skit_close(&kit, true);
    assert_int_equal(look(&kit, own_id(), &survivor), ERR_CORRUPT);
    skit_close(&kit, false);
    skit_release(&kit);
}
