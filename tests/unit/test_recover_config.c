/* A start finds the newest configuration of a directory, with the texts that it was written with.
 * It is refused if a later release has written the directory. */
#include "base/wire.h"
#include "server/process/persist.h"
#include "server/process/recover.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>

enum {
    LEVEL = 1,
    NEWER = 2,
    BLOCK_MAX = 1 << 20
};

struct start {
    struct view *view;
    struct replica_options options;
    struct store_identity identity;
};

static struct zab_config three(zxid_t version, uint16_t level)
{
    struct zab_config config = {.version = version, .history = 6, .count = 3, .level = level};
    struct store_identity identity = skit_identity();

    memcpy(config.cluster, identity.cluster, ZAB_CLUSTER_LEN);
    for (uint32_t i = 0; i < 3; i++) {
        config.members[i] = (struct zab_member){.id = i + 1, .voter = true, .incarnation = 10 + i};
    }
    config.removed_count = 1;
    config.removed[0] = (struct zab_removed){.id = 9, .incarnation = 90, .zxid = 1};
    return config;
}

/* Encoded, with a host for member 2 and the transaction of a client. */
static void put(const struct zab_config *config, const char *host, struct buf *out)
{
    const struct txn_header header = {.age_ms = 5};
    const struct txn_remember remember = {.scope = slice_str("scope"), .key = slice_str(host)};
    struct zab_config_edit edit = {.id = 2, .texts = {.host = slice_str(host), .port = 1}};
    struct zab_config_parts parts = {.edits = &edit, .edit_count = 1};
    struct buf txn;

    buf_init(&txn, STORE_GENESIS_MAX);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){.type = TXN_REMEMBER, .remember = remember});
    parts.txn = buf_slice(&txn);
    buf_init(out, STORE_GENESIS_MAX);
    assert_int_equal(zab_config_write(config, &parts, out), ERR_OK);
    buf_release(&txn);
}

/* The disk of a member of an ensemble that was founded at a level. */
static void member_at(struct skit *kit, uint16_t level)
{
    struct zab_config config = three(0, level);
    struct store_identity identity = skit_identity();
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};

    skit_init(kit, KIT_SEGMENT);
    assert_int_equal(skit_open(kit), ERR_OK);
    persist_genesis(&identity, &config);
    identity.bootstrapping = false;
    assert_int_equal(skit_run(kit, &op), ERR_OK);
    skit_close(kit, true);
}

static void member(struct skit *kit)
{
    member_at(kit, LEVEL);
}

static zxid_t next_zxid(const struct skit *kit)
{
    return kit->report.log_last == 0 ? zxid_make(3, 1) : kit->report.log_last + 1;
}

/* Appends a record to an opened store, and closes it. */
static void append_record(struct skit *kit, enum logrec_type type, struct slice payload,
                          bool committed)
{
    zxid_t zxid = next_zxid(kit);
    struct logrec *rec =
        logrec_new(type, zxid, kit->report.log_last, kit->report.log_chain, payload);
    struct store_op op = {.type = STORE_APPEND,
                          .recs = &rec,
                          .rec_count = 1,
                          .committed = committed ? zxid : kit->report.committed};

    assert_int_equal(skit_run(kit, &op), ERR_OK);
    logrec_unref(rec);
    skit_close(kit, true);
}

static void append_level(struct skit *kit, const char *host, uint16_t level, bool committed)
{
    assert_int_equal(skit_open(kit), ERR_OK);

    struct zab_config config = three(next_zxid(kit), level);
    struct buf bytes;

    put(&config, host, &bytes);
    append_record(kit, LOGREC_CONFIG, buf_slice(&bytes), committed);
    buf_release(&bytes);
}

/* Appends the configuration as a record that names that host. */
static void append(struct skit *kit, const char *host, bool committed)
{
    append_level(kit, host, LEVEL, committed);
}

static void start(struct skit *kit, struct start *start)
{
    *start = (struct start){.view = view_new()};
    assert_int_equal(skit_open(kit), ERR_OK);
    start->options.zab.id = skit_identity().member_id;
    start->options.zab.incarnation = 1;
    start->options.zab.level_max = LEVEL;
    assert_int_equal(
        recover(kit->store, &kit->report, start->view, &start->options, &start->identity), ERR_OK);
    assert_false(start->options.zab.quarantined);
}

static void stop(struct skit *kit, struct start *start)
{
    recover_release(&start->options);
    assert_null(start->options.zab.config_bytes);
    view_free(start->view);
    skit_close(kit, true);
}

static void assert_host(const struct blob *bytes, const char *host)
{
    struct zab_texts texts;

    assert_true(zab_config_texts(blob_slice(bytes), 2, &texts));
    assert_true(slice_eq(texts.host, slice_str(host)));
}

TEST(the_identity_has_no_texts, skit, member, skit_release)
{
    struct start run;

    start(skit, &run);
    assert_int_equal(run.options.zab.config.level, LEVEL);
    assert_int_equal(run.options.zab.config.removed_count, 0);
    assert_int_equal(run.options.zab.config.count, 3);
    stop(skit, &run);
}

TEST(the_newest_committed_record_counts, skit, member, skit_release)
{
    struct start run;

    append(skit, "first", true);
    append(skit, "second", true);
    start(skit, &run);
    assert_int_equal(run.options.zab.config.version, zxid_make(3, 2));
    assert_int_equal(run.options.zab.config.removed_count, 1);
    assert_host(run.options.zab.config_bytes, "second");
    assert_null(run.options.zab.pending_bytes);
    stop(skit, &run);
}

TEST(a_pending_record_keeps_its_own_texts, skit, member, skit_release)
{
    struct start run;

    append(skit, "committed", true);
    append(skit, "pending", false);
    start(skit, &run);
    assert_true(run.options.zab.has_pending);
    assert_host(run.options.zab.config_bytes, "committed");
    assert_host(run.options.zab.pending_bytes, "pending");
    stop(skit, &run);
}

/* The committed part of the log is applied, the transactions in it as well. */
TEST(the_transaction_of_a_change_is_applied, skit, member, skit_release)
{
    struct start run;

    append(skit, "committed", true);
    append(skit, "pending", false);
    start(skit, &run);
    const struct state *state = view_read(run.view);

    assert_int_equal(state_applied(state), zxid_make(3, 1));
    assert_int_equal(state_age_ms(state), 5);
    assert_non_null(state_remembered(state, slice_str("scope"), slice_str("committed")));
    assert_null(state_remembered(state, slice_str("scope"), slice_str("pending")));
    view_read_done(run.view);
    stop(skit, &run);
}

/* A second change in the log proves that the first one is committed. */
/* A record of this type that names a configuration as committed, and that of an older release. */
static void append_proof(struct skit *kit, enum logrec_type type, bool has_version, zxid_t version)
{
    struct buf bytes;

    assert_int_equal(skit_open(kit), ERR_OK);
    buf_init(&bytes, 64);
    wire_put_u8(&bytes, 1);
    wire_put_u32(&bytes, 1);
    wire_put_raw(&bytes, slice_make("123456789012345678901234", 24));
    if (has_version) {
        wire_put_u64(&bytes, version);
    }
    append_record(kit, type, buf_slice(&bytes), false);
    buf_release(&bytes);
}

static bool is_proven(struct skit *kit)
{
    struct start run;

    start(kit, &run);
    bool is = run.options.zab.is_pending_proven;

    assert_true(run.options.zab.has_pending);
    stop(kit, &run);
    return is;
}

TEST(a_stamp_proves_the_record_that_it_names, skit, member, skit_release)
{
    append(skit, "committed", true);
    append(skit, "pending", false);
    assert_false(is_proven(skit));
    append_proof(skit, LOGREC_STAMP, false, 0);
    assert_false(is_proven(skit));
    append_proof(skit, LOGREC_STAMP, true, zxid_make(3, 1));
    assert_false(is_proven(skit));
    append_proof(skit, LOGREC_STAMP, true, zxid_make(3, 2));
    assert_true(is_proven(skit));
    append(skit, "second", false);
    assert_false(is_proven(skit));
}

TEST(of_two_pending_records_the_first_counts, skit, member, skit_release)
{
    struct start run;

    append(skit, "first", false);
    append(skit, "second", false);
    start(skit, &run);
    assert_int_equal(run.options.zab.config.version, zxid_make(3, 1));
    assert_host(run.options.zab.config_bytes, "first");
    assert_host(run.options.zab.pending_bytes, "second");
    stop(skit, &run);
}

static void write_blocks(struct store_snap_writer *writer, const struct state *state)
{
    struct state_cursor cursor;
    struct buf block;

    state_scan_init(&cursor);
    buf_init(&block, BLOCK_MAX);
    while (!cursor.done) {
        buf_clear(&block);
        state_scan(state, &cursor, 1, &block);
        assert_int_equal(store_snap_block(writer, buf_slice(&block)), ERR_OK);
    }
    buf_release(&block);
    state_scan_release(&cursor);
}

/* Appends a record, and takes a snapshot with a configuration of that level. */
static void take_snapshot(struct skit *kit, uint16_t level)
{
    struct zab_config config = three(zxid_make(3, 1), level);
    struct store_snap_writer *writer = NULL;
    struct buf bytes;
    struct state *state = state_new(config.history);

    append(kit, "record", true);
    put(&config, "snapshot", &bytes);
    state_skip(state, zxid_make(3, 1));
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(store_snap_begin(kit->store, zxid_make(3, 1), kit->report.log_chain,
                                      buf_slice(&bytes), &writer),
                     ERR_OK);
    write_blocks(writer, state);
    assert_int_equal(store_snap_finish(writer, zxid_make(3, 1), state_digest(state), 1), ERR_OK);
    skit_close(kit, true);
    state_free(state);
    buf_release(&bytes);
}

/* The record may be gone from the log when the snapshot is there. */
TEST(a_snapshot_keeps_the_texts, skit, member, skit_release)
{
    struct start run;

    take_snapshot(skit, LEVEL);
    start(skit, &run);
    assert_int_equal(run.options.zab.committed, zxid_make(3, 1));
    assert_host(run.options.zab.config_bytes, "snapshot");
    stop(skit, &run);
}

/* ---- What a later release has written. ---- */

static const char later_level[] =
    "the ensemble has feature level 2, and this release knows only levels up to 1: start a release "
    "that knows level 2";

/* Starts on a disk that takes no writes. */
static void expect_refused(struct skit *kit, const char *reason)
{
    struct start start = {.view = view_new()};

    assert_int_equal(skit_open(kit), ERR_OK);
    start.options.zab.id = skit_identity().member_id;
    start.options.zab.incarnation = 1;
    start.options.zab.level_max = LEVEL;
    vfs_mem_fail(kit->disk, VFS_MEM_FAIL_WRITES | VFS_MEM_FAIL_SYNCS, 1);
    assert_int_equal(recover(kit->store, &kit->report, start.view, &start.options, &start.identity),
                     ERR_NEWER);
    assert_int_equal(vfs_mem_io_errors(kit->disk), 0);
    vfs_mem_fail(kit->disk, VFS_MEM_FAIL_NONE, 1);
    assert_string_equal(kit->report.reason, reason);
    assert_null(view_read(start.view));
    stop(kit, &start);
}

/* The same start after the level is known. */
static void expect_started(struct skit *kit)
{
    struct start run = {.view = view_new()};

    assert_int_equal(skit_open(kit), ERR_OK);
    run.options.zab.id = skit_identity().member_id;
    run.options.zab.incarnation = 1;
    run.options.zab.level_max = NEWER;
    assert_int_equal(recover(kit->store, &kit->report, run.view, &run.options, &run.identity),
                     ERR_OK);
    stop(kit, &run);
}

TEST(a_later_level_of_the_identity_is_refused)
{
    struct skit kit;

    member_at(&kit, NEWER);
    expect_refused(&kit, later_level);
    expect_started(&kit);
    skit_release(&kit);
}

TEST(a_later_level_of_a_quarantined_disk_is_refused)
{
    struct store_op op = {.type = STORE_QUARANTINE, .reason = "for the test"};
    struct skit kit;

    member_at(&kit, NEWER);
    assert_int_equal(skit_open(&kit), ERR_OK);
    assert_int_equal(skit_run(&kit, &op), ERR_OK);
    skit_close(&kit, true);
    expect_refused(&kit, later_level);
    expect_started(&kit);
    skit_release(&kit);
}

TEST(a_later_level_of_a_snapshot_is_refused, skit, member, skit_release)
{
    take_snapshot(skit, NEWER);
    expect_refused(skit, later_level);
    expect_started(skit);
}

TEST(a_later_level_of_a_committed_record_is_refused, skit, member, skit_release)
{
    append_level(skit, "newer", NEWER, true);
    expect_refused(skit, later_level);
    expect_started(skit);
}

TEST(a_later_level_of_a_pending_record_is_refused, skit, member, skit_release)
{
    append(skit, "known", true);
    append_level(skit, "newer", NEWER, false);
    expect_refused(skit, later_level);
    expect_started(skit);
}

/* Its level would be later, too, if each release did what it should. */
TEST(a_transaction_of_a_later_version_is_refused, skit, member, skit_release)
{
    const uint8_t txn[] = {TXN_VERSION + 1, 0, 1, 2, 3};

    append(skit, "known", true);
    assert_int_equal(skit_open(skit), ERR_OK);
    append_record(skit, LOGREC_TXN, slice_make(txn, sizeof txn), true);
    expect_refused(skit, "a later release has written the record at zxid 0x300000002, which this "
                         "release cannot read: start that release");
}
