/* What `zabra recover` does to a directory. */
#include "server/process/sole_voter.h"
#include "storage/names.h"
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

/* A member of a cluster of three with some records. */
static void member(struct skit *kit)
{
    struct store_identity identity = skit_identity();
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};
    struct store_op promise = {.type = STORE_PROMISE, .epoch = 4, .leader = 2};
    struct zab_config config = three();
    struct buf bytes;

    skit_init(kit, KIT_SEGMENT);
    assert_int_equal(skit_open(kit), ERR_OK);
    buf_init(&bytes, STORE_GENESIS_MAX);
    zab_config_encode(&config, &bytes);
    memcpy(identity.genesis, bytes.data, bytes.len);
    identity.genesis_len = (uint32_t)bytes.len;
    identity.founding = false;
    buf_release(&bytes);
    assert_int_equal(skit_run(kit, &op), ERR_OK);
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

static void a_member_is_shown_as_it_is(void **state)
{
    struct skit kit;
    struct sole_voter survivor;

    (void)state;
    member(&kit);
    assert_int_equal(look(&kit, own_id(), &survivor), ERR_OK);
    assert_int_equal(survivor.promised_epoch, 4);
    assert_int_equal(survivor.epoch, 3);
    assert_int_equal(survivor.last, skit_zxid(&kit.log, 20));
    assert_int_equal(survivor.config.count, 3);
    assert_int_equal(survivor.config.history, 6);
    skit_close(&kit, false);
    skit_release(&kit);
}

static void it_goes_on_alone_with_all_its_log(void **state)
{
    struct skit kit;
    struct sole_voter survivor;
    struct zab_config config;

    (void)state;
    member(&kit);
    assert_int_equal(look(&kit, own_id(), &survivor), ERR_OK);
    assert_int_equal(sole_voter_write(kit.store, &survivor, HISTORY), ERR_OK);
    skit_close(&kit, true);
    assert_int_equal(skit_open(&kit), ERR_OK);
    config = genesis(&kit.report);
    assert_int_equal(kit.report.promised_epoch, 1004);
    assert_int_equal(config.version, zxid_make(1004, 0));
    assert_int_equal(config.history, HISTORY);
    assert_int_equal(zab_config_voters(&config), 1);
    assert_true(zab_config_is_voter(&config, own_id(), skit_identity().incarnation));
    assert_int_equal(skit_check_log(&kit), 20);
    skit_close(&kit, false);
    skit_release(&kit);
}

static void a_directory_of_an_earlier_release_is_refused(void **state)
{
    struct skit kit;
    struct sole_voter survivor;
    struct store_identity identity;
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};

    (void)state;
    member(&kit);
    assert_int_equal(skit_open(&kit), ERR_OK);
    identity = kit.report.identity;
    identity.genesis[0] = 2; /* The format of its configuration. */
    assert_int_equal(skit_run(&kit, &op), ERR_OK);
    skit_close(&kit, true);
    assert_int_equal(look(&kit, own_id(), &survivor), ERR_FORMAT);
    skit_close(&kit, false);
    skit_release(&kit);
}

/* A disk that has joined and not yet promised anything: what it knows of epochs is in the
 * configuration. */
static void the_epochs_of_a_configuration_count(void **state)
{
    struct skit kit;
    struct store_identity identity = skit_identity();
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};
    struct sole_voter survivor;
    struct zab_config config = three();
    struct buf bytes;

    (void)state;
    config.version = zxid_make(5000, 7);
    buf_init(&bytes, STORE_GENESIS_MAX);
    zab_config_encode(&config, &bytes);
    memcpy(identity.genesis, bytes.data, bytes.len);
    identity.genesis_len = (uint32_t)bytes.len;
    identity.founding = false;
    buf_release(&bytes);
    skit_init(&kit, KIT_SEGMENT);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(skit_run(&kit, &op), ERR_OK);
    skit_close(&kit, true);
    assert_int_equal(look(&kit, own_id(), &survivor), ERR_OK);
    assert_int_equal(sole_voter_write(kit.store, &survivor, HISTORY), ERR_OK);
    skit_close(&kit, true);
    assert_int_equal(skit_open(&kit), ERR_OK);
    config = genesis(&kit.report);
    assert_int_equal(config.version, zxid_make(6000, 0));
    assert_int_equal(kit.report.promised_epoch, 6000);
    skit_close(&kit, false);
    skit_release(&kit);
}

/* A configuration in the log is newer than the founding one, also when it is not known to be
 * committed. */
static void the_newest_configuration_counts(void **state)
{
    struct skit kit;
    struct sole_voter survivor;
    struct zab_config config = three();
    struct buf bytes;

    (void)state;
    member(&kit);
    assert_int_equal(skit_open(&kit), ERR_OK);
    config.members[config.count++] = (struct zab_member){.id = 9};
    buf_init(&bytes, STORE_GENESIS_MAX);
    zab_config_encode(&config, &bytes);
    struct logrec *rec = logrec_new(LOGREC_CONFIG, kit.report.log_last + 1, kit.report.log_last,
                                    kit.report.log_chain, buf_slice(&bytes));
    struct store_op op = {.type = STORE_APPEND, .recs = &rec, .rec_count = 1};

    assert_int_equal(skit_run(&kit, &op), ERR_OK);
    skit_close(&kit, true);
    assert_int_equal(look(&kit, own_id(), &survivor), ERR_OK);
    assert_int_equal(survivor.config.count, 4);
    assert_int_equal(survivor.config.version, rec->zxid);
    skit_close(&kit, false);
    logrec_unref(rec);
    buf_release(&bytes);
    skit_release(&kit);
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

/* Going on alone with a snapshot that the replica cannot load leaves nothing to continue with:
 * the log before it is gone. */
static void a_snapshot_is_read_to_its_end(void **state)
{
    struct skit kit;
    struct sole_voter survivor;
    struct zab_config config = three();
    struct buf bytes;
    char name[VFS_NAME_MAX];
    uint64_t size = 0;

    (void)state;
    member(&kit);
    buf_init(&bytes, STORE_GENESIS_MAX);
    zab_config_encode(&config, &bytes);
    take_snapshot(&kit, buf_slice(&bytes));
    buf_release(&bytes);
    assert_int_equal(look(&kit, own_id(), &survivor), ERR_OK);
    skit_close(&kit, true);
    name_snap(name, 1, skit_zxid(&kit.log, 5));
    assert_true(vfs_mem_size(kit.disk, name, &size));
    vfs_mem_flip(kit.disk, name, size / 2, 1);
    assert_int_equal(look(&kit, own_id(), &survivor), ERR_CORRUPT);
    skit_close(&kit, false);
    skit_release(&kit);
}

static void a_configuration_that_cannot_be_read_is_not_passed_over(void **state)
{
    struct skit kit;
    struct sole_voter survivor;

    (void)state;
    member(&kit);
    take_snapshot(&kit, slice_str("no configuration"));
    assert_int_equal(look(&kit, own_id(), &survivor), ERR_CORRUPT);
    skit_close(&kit, false);
    skit_release(&kit);
}

static void who_may_not_go_on_is_refused(void **state)
{
    struct skit kit;
    struct sole_voter survivor;
    struct store_op quarantine = {.type = STORE_QUARANTINE, .reason = "a test"};

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_is_shown_as_it_is),
        cmocka_unit_test(it_goes_on_alone_with_all_its_log),
        cmocka_unit_test(a_directory_of_an_earlier_release_is_refused),
        cmocka_unit_test(the_epochs_of_a_configuration_count),
        cmocka_unit_test(the_newest_configuration_counts),
        cmocka_unit_test(a_snapshot_is_read_to_its_end),
        cmocka_unit_test(a_configuration_that_cannot_be_read_is_not_passed_over),
        cmocka_unit_test(who_may_not_go_on_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
