/* Receiving a snapshot while the disk is full: the queue of changes continues, and the space is
 * released. */
#include "base/mem.h"
#include "storage/names.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

#include <string.h>

enum {
    OLD_RECORDS = 10,
    START = 20,
    END = 25,
    UPTO = 30,
    CHUNK = 1000
};

/* What a leader sends, piece by piece. */
struct offer {
    uint8_t *bytes;
    size_t len;
    size_t sent;
};

/* A store with a log of its own, and a snapshot of another history to receive. */
static void ready(struct skit *kit, struct offer *offer)
{
    skit_init(kit, KIT_SEGMENT);
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(skit_format(kit), ERR_OK);
    assert_int_equal(skit_append(kit, 1, OLD_RECORDS, 100), ERR_OK);
    skit_log_restart(&kit->log, 0, 0);
    skit_make(kit, 2, 40, 9000);
    *offer = (struct offer){0};
    offer->bytes = skit_foreign_snapshot(&kit->log, START, END, 3, &offer->len);
}

static void release(struct skit *kit, struct offer *offer)
{
    mem_free(offer->bytes);
    skit_release(kit);
}

static enum err begin(struct skit *kit, struct offer *offer)
{
    struct store_op op = {.type = STORE_SNAP_BEGIN};

    offer->sent = 0;
    return skit_run(kit, &op);
}

static enum err send_piece(struct skit *kit, struct offer *offer)
{
    size_t rest = offer->len - offer->sent;
    size_t len = rest < CHUNK ? rest : CHUNK;
    struct store_op op = {.type = STORE_SNAP_CHUNK,
                          .snap_offset = offer->sent,
                          .snap_bytes = slice_make(offer->bytes + offer->sent, len)};

    offer->sent += len;
    return skit_run(kit, &op);
}

static enum err send_all(struct skit *kit, struct offer *offer)
{
    enum err err = begin(kit, offer);

    while (err == ERR_OK && offer->sent < offer->len) {
        err = send_piece(kit, offer);
    }
    return err;
}

static enum err send_records(struct skit *kit)
{
    struct store_op op = {
        .type = STORE_APPEND, .recs = kit->log.recs + START, .rec_count = UPTO - START};

    return skit_run(kit, &op);
}

static enum err install(struct skit *kit)
{
    struct store_op op = {.type = STORE_SNAP_INSTALL};

    assert_int_equal(skit_run(kit, &op), ERR_OK);
    return op.ret_err;
}

static bool is_temp_there(const struct skit *kit)
{
    uint64_t size = 0;

    return vfs_mem_size(kit->disk, NAME_SNAP_RECV, &size);
}

static void stray_of(void *arg, const char *name)
{
    bool *has_stray = arg;
    struct name parsed = name_parse(name);

    *has_stray = *has_stray || (parsed.kind == NAME_KIND_WAL && parsed.history > 1);
}

static bool is_staged_log_there(const struct skit *kit)
{
    bool has_stray = false;

    vfs_mem_each(kit->disk, stray_of, &has_stray);
    return has_stray;
}

/* After a refusal other changes pass, nothing of the received snapshot is left, the old log stands,
 * and once there is space a second offer is accepted. */
static void assert_refused_and_sound(struct skit *kit, struct offer *offer)
{
    struct store_op promise = {.type = STORE_PROMISE, .epoch = 9, .leader = 2};

    assert_false(is_temp_there(kit));
    assert_false(is_staged_log_there(kit));
    assert_int_equal(skit_run(kit, &promise), ERR_OK);
    vfs_mem_set_capacity(kit->disk, 0);
    assert_int_equal(install(kit), ERR_NO_SPACE);
    skit_close(kit, false);
    assert_int_equal(skit_open(kit), ERR_OK);
    assert_int_equal(kit->report.verdict, STORE_CLEAN);
    assert_int_equal(kit->report.promised_epoch, 9);
    assert_int_equal(kit->report.log_last, zxid_make(1, OLD_RECORDS - 1));
    assert_int_equal(send_all(kit, offer), ERR_OK);
    assert_int_equal(send_records(kit), ERR_OK);
    assert_int_equal(install(kit), ERR_OK);
    skit_log_cut(&kit->log, UPTO);
    assert_true(skit_check_snapshot(kit));
}

TEST(a_piece_without_space_refuses_its_whole_snapshot)
{
    struct skit kit;
    struct offer offer;

    ready(&kit, &offer);
    assert_int_equal(begin(&kit, &offer), ERR_OK);
    assert_int_equal(send_piece(&kit, &offer), ERR_OK);
    vfs_mem_set_capacity(kit.disk, 1);
    while (offer.sent < offer.len) {
        assert_int_equal(send_piece(&kit, &offer), ERR_OK);
    }
    assert_int_equal(send_records(&kit), ERR_OK);
    assert_refused_and_sound(&kit, &offer);
    release(&kit, &offer);
}

TEST(a_beginning_without_space_is_refused)
{
    struct skit kit;
    struct offer offer;

    ready(&kit, &offer);
    /* First the last remnant is unlinked, then the new file is created. */
    vfs_mem_fail_at(kit.disk, vfs_mem_calls(kit.disk) + 2, ERR_NO_SPACE);
    assert_int_equal(send_all(&kit, &offer), ERR_OK);
    assert_true(vfs_mem_fault_hit(kit.disk));
    assert_int_equal(send_records(&kit), ERR_OK);
    assert_refused_and_sound(&kit, &offer);
    release(&kit, &offer);
}

TEST(records_without_space_refuse_their_snapshot)
{
    struct skit kit;
    struct offer offer;

    ready(&kit, &offer);
    assert_int_equal(send_all(&kit, &offer), ERR_OK);
    vfs_mem_set_capacity(kit.disk, 1);
    assert_int_equal(send_records(&kit), ERR_OK);
    assert_refused_and_sound(&kit, &offer);
    release(&kit, &offer);
}

/* The first records fit, a later segment of the staged log does not. */
TEST(later_records_without_space_are_refused_too)
{
    struct skit kit;
    struct offer offer;

    ready(&kit, &offer);
    assert_int_equal(send_all(&kit, &offer), ERR_OK);

    struct store_op first = {.type = STORE_APPEND, .recs = kit.log.recs + START, .rec_count = 1};
    struct store_op rest = {
        .type = STORE_APPEND, .recs = kit.log.recs + START + 1, .rec_count = UPTO - START - 1};

    assert_int_equal(skit_run(&kit, &first), ERR_OK);
    assert_true(is_staged_log_there(&kit));
    vfs_mem_set_capacity(kit.disk, 1);
    assert_int_equal(skit_run(&kit, &rest), ERR_OK);
    assert_refused_and_sound(&kit, &offer);
    release(&kit, &offer);
}

TEST(a_refused_snapshot_can_be_aborted)
{
    struct skit kit;
    struct offer offer;
    struct store_op abort_op = {.type = STORE_SNAP_ABORT};

    ready(&kit, &offer);
    assert_int_equal(begin(&kit, &offer), ERR_OK);
    vfs_mem_set_capacity(kit.disk, 1);
    assert_int_equal(send_piece(&kit, &offer), ERR_OK);
    assert_int_equal(skit_run(&kit, &abort_op), ERR_OK);
    vfs_mem_set_capacity(kit.disk, 0);
    assert_int_equal(send_all(&kit, &offer), ERR_OK);
    assert_int_equal(send_records(&kit), ERR_OK);
    assert_int_equal(install(&kit), ERR_OK);
    release(&kit, &offer);
}

/* The connection may break in the middle of its log: the next leader is elected and promised before
 * the rest arrives. */
TEST(the_log_of_a_snapshot_continues_after_other_changes)
{
    struct skit kit;
    struct offer offer;
    struct store_op promise = {.type = STORE_PROMISE, .epoch = 9, .leader = 2};

    ready(&kit, &offer);
    assert_int_equal(send_all(&kit, &offer), ERR_OK);

    struct store_op first = {.type = STORE_APPEND, .recs = kit.log.recs + START, .rec_count = 1};
    struct store_op rest = {
        .type = STORE_APPEND, .recs = kit.log.recs + START + 1, .rec_count = UPTO - START - 1};

    assert_int_equal(skit_run(&kit, &first), ERR_OK);
    assert_int_equal(skit_run(&kit, &promise), ERR_OK);
    assert_int_equal(skit_run(&kit, &rest), ERR_OK);
    assert_int_equal(install(&kit), ERR_OK);
    skit_log_cut(&kit.log, UPTO);
    assert_true(skit_check_snapshot(&kit));
    release(&kit, &offer);
}

/* Whichever call finds the disk full: the changes of a reception never stay in the queue. */
TEST(a_full_disk_never_blocks_a_reception)
{
    struct skit kit;
    struct offer offer;
    bool was_hit = true;

    for (uint64_t call = 1; was_hit; call++) {
        ready(&kit, &offer);
        vfs_mem_fail_at(kit.disk, vfs_mem_calls(kit.disk) + call, ERR_NO_SPACE);

        enum err err = send_all(&kit, &offer);

        assert_int_not_equal(err, ERR_NO_SPACE);
        err = err == ERR_OK ? send_records(&kit) : err;
        assert_int_not_equal(err, ERR_NO_SPACE);
        if (err == ERR_OK) {
            struct store_op op = {.type = STORE_SNAP_INSTALL};

            assert_int_not_equal(skit_run(&kit, &op), ERR_NO_SPACE);
        }
        was_hit = vfs_mem_fault_hit(kit.disk);
        release(&kit, &offer);
    }
}
