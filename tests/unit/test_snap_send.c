/* Sending snapshots to learners: each is checked before it leaves, and each peer has one file. */
#include "server/process/snap_send.h"
#include "storage/names.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

#include <string.h>

enum {
    BIG_BLOCKS = 12, /* More than two pieces. */
    BIG_BLOCK = 64 << 10,
    ROUNDS = 2,
    IDLE_MS = 1000
};

struct rig {
    struct skit kit;
    struct snap_send send;
    struct buf piece;
    struct store_snap_info info;
    bool is_last;
};

/* Takes a snapshot of several pieces. */
static void take(struct skit *kit, uint8_t fill)
{
    static uint8_t block[BIG_BLOCK];
    struct store_snap_writer *writer = NULL;
    size_t start = kit->log.count - 1;
    zxid_t zxid = skit_zxid(&kit->log, start);

    memset(block, fill, sizeof(block));
    assert_int_equal(store_snap_begin(kit->store, zxid, skit_chain(&kit->log, start),
                                      slice_str("config"), &writer),
                     ERR_OK);
    for (size_t i = 0; i < BIG_BLOCKS; i++) {
        assert_int_equal(store_snap_block(writer, slice_make(block, sizeof(block))), ERR_OK);
    }
    assert_int_equal(store_snap_finish(writer, zxid, 1, 1), ERR_OK);
}

/* A store with ROUNDS snapshots. */
static void setup(struct rig *rig)
{
    skit_init(&rig->kit, KIT_SEGMENT);
    rig->kit.options.snapshots_keep = 3;
    assert_int_equal(skit_open(&rig->kit), ERR_OK);
    assert_int_equal(skit_format(&rig->kit), ERR_OK);
    for (uint8_t i = 0; i < ROUNDS; i++) {
        assert_int_equal(skit_append(&rig->kit, 1, 5, 100), ERR_OK);
        take(&rig->kit, i);
    }
    snap_send_init(&rig->send, rig->kit.store);
    buf_init(&rig->piece, ZAB_CHUNK_BYTES_MAX);
}

static void teardown(struct rig *rig)
{
    snap_send_close(&rig->send);
    buf_release(&rig->piece);
    skit_release(&rig->kit);
}

/* The start of the n-th snapshot. */
static zxid_t start_of(const struct rig *rig, size_t n)
{
    return skit_zxid(&rig->kit.log, 5 * (n + 1) - 1);
}

static void spoil(struct rig *rig, size_t n)
{
    char name[VFS_NAME_MAX];

    name_snap(name, 1, start_of(rig, n));
    vfs_mem_flip(rig->kit.disk, name, 300000, 4);
}

static enum err check(struct rig *rig, uint32_t peer)
{
    enum err err = ERR_OK;
    size_t bytes = 0;

    while (err == ERR_OK && !snap_send_is_checked(&rig->send, peer)) {
        err = snap_send_check(&rig->send, peer, 0, &bytes);
    }
    return err;
}

static enum err begin(struct rig *rig, uint32_t peer)
{
    struct snap_piece first = {.peer = peer, .is_first = true};
    enum err err = snap_send_begin(&rig->send, &first, 0);

    return err == ERR_OK ? check(rig, peer) : err;
}

static enum err piece(struct rig *rig, uint32_t peer, uint64_t offset)
{
    struct snap_piece piece = {.peer = peer, .offset = offset, .len = ZAB_CHUNK_BYTES_MAX};
    enum err err = ERR_OK;

    buf_clear(&rig->piece);
    err = snap_send_piece(&rig->send, &piece, 0, &rig->piece);
    rig->info = piece.info;
    rig->is_last = piece.is_last;
    return err;
}

/* Fetches all pieces from `offset` on; returns the total length. */
static uint64_t rest(struct rig *rig, uint32_t peer, uint64_t offset)
{
    do {
        assert_int_equal(piece(rig, peer, offset), ERR_OK);
        offset += rig->piece.len;
    } while (!rig->is_last);
    return offset;
}

TEST(the_newest_snapshot_is_sent_completely, rig, setup, teardown)
{
    assert_int_equal(begin(rig, 2), ERR_OK);

    uint64_t sent = rest(rig, 2, 0);

    assert_int_equal(sent, rig->info.file_bytes);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS - 1));
    snap_send_tidy(&rig->send, IDLE_MS, IDLE_MS);
    assert_int_equal(piece(rig, 2, 0), ERR_CLOSED);
}

TEST(no_snapshot_is_sent_before_its_check, rig, setup, teardown)
{
    assert_int_equal(
        snap_send_begin(&rig->send, &(struct snap_piece){.peer = 2, .is_first = true}, 0), ERR_OK);
    assert_false(snap_send_is_checked(&rig->send, 2));
    assert_int_equal(piece(rig, 2, 0), ERR_CLOSED);
}

TEST(a_damaged_snapshot_gives_way_to_an_older_one, rig, setup, teardown)
{
    struct store_figures figures;

    spoil(rig, ROUNDS - 1);
    assert_int_equal(begin(rig, 2), ERR_OK);
    (void)rest(rig, 2, 0);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS - 2));
    assert_int_equal(rig->send.condemned, 1);
    store_figures(rig->kit.store, &figures);
    assert_int_equal(figures.snapshots, ROUNDS - 1);
}

/* Even the head cannot be read. */
TEST(an_unreadable_snapshot_gives_way_too, rig, setup, teardown)
{
    char name[VFS_NAME_MAX];

    name_snap(name, 1, start_of(rig, ROUNDS - 1));
    vfs_mem_flip(rig->kit.disk, name, 9, 1);
    assert_int_equal(begin(rig, 2), ERR_OK);
    (void)rest(rig, 2, 0);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS - 2));
}

TEST(without_a_valid_snapshot_a_new_one_is_needed, rig, setup, teardown)
{
    for (size_t i = 0; i < ROUNDS; i++) {
        spoil(rig, i);
    }
    assert_int_equal(begin(rig, 2), ERR_MISSING);
    assert_int_equal(
        snap_send_begin(&rig->send, &(struct snap_piece){.peer = 2, .is_first = true}, 0),
        ERR_MISSING);
    assert_int_equal(skit_append(&rig->kit, 1, 5, 100), ERR_OK);
    take(&rig->kit, 9);
    assert_int_equal(begin(rig, 2), ERR_OK);
    (void)rest(rig, 2, 0);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS));
}

/* Reading 200 MB again for each of many learners would be too much; but a learner that asks for the
 * same snapshot again may have refused it. */
TEST(a_file_is_checked_again_only_for_a_learner_that_asks_again, rig, setup, teardown)
{
    assert_int_equal(begin(rig, 2), ERR_OK);
    (void)rest(rig, 2, 0);
    assert_int_equal(
        snap_send_begin(&rig->send, &(struct snap_piece){.peer = 3, .is_first = true}, 0), ERR_OK);
    assert_true(snap_send_is_checked(&rig->send, 3));
    (void)rest(rig, 3, 0);
    spoil(rig, ROUNDS - 1);
    assert_int_equal(
        snap_send_begin(&rig->send, &(struct snap_piece){.peer = 2, .is_first = true}, 0), ERR_OK);
    assert_false(snap_send_is_checked(&rig->send, 2));
    assert_int_equal(check(rig, 2), ERR_OK);
    (void)rest(rig, 2, 0);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS - 2));
}

TEST(two_learners_do_not_affect_each_other, rig, setup, teardown)
{
    uint64_t first = 0;

    assert_int_equal(begin(rig, 2), ERR_OK);
    assert_int_equal(piece(rig, 2, 0), ERR_OK);
    first = rig->piece.len;
    /* A newer one appears, and the second learner begins with it. */
    assert_int_equal(skit_append(&rig->kit, 1, 5, 100), ERR_OK);
    take(&rig->kit, 9);
    assert_int_equal(begin(rig, 3), ERR_OK);
    assert_int_equal(piece(rig, 3, 0), ERR_OK);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS));
    (void)rest(rig, 2, first);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS - 1));
    assert_int_equal(rig->piece.data[10], ROUNDS - 1);
    (void)rest(rig, 3, first);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS));
    assert_int_equal(rig->piece.data[10], 9);
}

TEST(a_learner_that_begins_again_gets_the_newest_snapshot, rig, setup, teardown)
{
    assert_int_equal(begin(rig, 2), ERR_OK);
    assert_int_equal(piece(rig, 2, 0), ERR_OK);
    assert_int_equal(skit_append(&rig->kit, 1, 5, 100), ERR_OK);
    take(&rig->kit, 9);
    assert_int_equal(begin(rig, 2), ERR_OK);
    (void)rest(rig, 2, 0);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS));
}

TEST(a_lost_learner_keeps_no_file_open, rig, setup, teardown)
{
    assert_int_equal(begin(rig, 2), ERR_OK);
    struct snap_piece first = {.peer = 2, .len = ZAB_CHUNK_BYTES_MAX};

    assert_int_equal(snap_send_piece(&rig->send, &first, 1000, &rig->piece), ERR_OK);
    snap_send_tidy(&rig->send, 1999, 1000);
    assert_int_equal(piece(rig, 2, rig->piece.len), ERR_OK);
    snap_send_tidy(&rig->send, 2000, 1000);
    assert_int_equal(piece(rig, 2, 0), ERR_CLOSED);
}

static void assert_gets_all(struct rig *rig, uint32_t peer)
{
    uint64_t bytes = rest(rig, peer, 0);

    assert_int_equal(bytes, rig->info.file_bytes);
}

TEST(a_peer_gets_the_place_of_one_whose_file_is_closed, rig, setup, teardown)
{
    for (uint32_t peer = 1000; peer < 1200; peer++) {
        assert_int_equal(begin(rig, peer), ERR_OK);
        assert_gets_all(rig, peer);
        snap_send_tidy(&rig->send, IDLE_MS, IDLE_MS);
        assert_int_equal(piece(rig, peer, 0), ERR_CLOSED);
    }
}

TEST(a_peer_waits_while_all_others_have_files, rig, setup, teardown)
{
    for (uint32_t peer = 1000; peer < 1000 + ZAB_MEMBERS_MAX; peer++) {
        assert_int_equal(begin(rig, peer), ERR_OK);
    }
    assert_int_equal(begin(rig, 7), ERR_BUSY);
    assert_int_equal(piece(rig, 7, 0), ERR_CLOSED);
    assert_false(snap_send_is_checked(&rig->send, 7));
    assert_gets_all(rig, 1000);
    snap_send_tidy(&rig->send, IDLE_MS, IDLE_MS);
    assert_int_equal(begin(rig, 7), ERR_OK);
    assert_gets_all(rig, 7);
}

/* Checks the file of this peer to its end while the host tidies up; each block takes nearly as long
 * as a peer may be idle. Returns the bytes that were read. */
static uint64_t check_slowly(struct rig *rig, uint32_t peer, uint64_t *now_ms)
{
    uint64_t read = 0;
    size_t bytes = 0;

    while (!snap_send_is_checked(&rig->send, peer)) {
        assert_int_equal(snap_send_check(&rig->send, peer, *now_ms, &bytes), ERR_OK);
        read += bytes;
        *now_ms += IDLE_MS - 1;
        snap_send_tidy(&rig->send, *now_ms, IDLE_MS);
    }
    return read;
}

/* The second learner waits until the check for the first one has ended. */
TEST(a_file_stays_open_during_its_check, rig, setup, teardown)
{
    struct snap_piece first = {.peer = 2, .is_first = true, .len = ZAB_CHUNK_BYTES_MAX};
    struct snap_piece second = {.peer = 3, .is_first = true, .len = ZAB_CHUNK_BYTES_MAX};
    uint64_t now_ms = 0;

    assert_int_equal(snap_send_begin(&rig->send, &first, now_ms), ERR_OK);
    assert_int_equal(snap_send_begin(&rig->send, &second, now_ms), ERR_OK);
    assert_int_equal(check_slowly(rig, 2, &now_ms), BIG_BLOCKS * BIG_BLOCK);
    assert_int_equal(snap_send_piece(&rig->send, &first, now_ms, &rig->piece), ERR_OK);
    buf_clear(&rig->piece);
    assert_int_equal(check_slowly(rig, 3, &now_ms), BIG_BLOCKS * BIG_BLOCK);
    assert_int_equal(snap_send_piece(&rig->send, &second, now_ms, &rig->piece), ERR_OK);
    /* A file that is not sent is closed at the end of its check. */
    assert_int_equal(piece(rig, 2, 0), ERR_CLOSED);
}

/* Reads `count` blocks of the file of peer 2. */
static void check_part(struct rig *rig, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        assert_int_equal(snap_send_check(&rig->send, 2, 0, &bytes), ERR_OK);
        assert_int_equal(bytes, BIG_BLOCK);
    }
    assert_false(snap_send_is_checked(&rig->send, 2));
}

/* A leader that needs this learner for its quorum begins again with each epoch: even a check that
 * takes longer than an epoch waits for its quorum has to end. */
TEST(a_learner_that_begins_again_waits_for_the_rest_of_the_check, rig, setup, teardown)
{
    struct snap_piece first = {.peer = 2, .is_first = true};
    uint64_t now_ms = 0;

    assert_int_equal(snap_send_begin(&rig->send, &first, 0), ERR_OK);
    check_part(rig, BIG_BLOCKS - 3);
    assert_int_equal(snap_send_begin(&rig->send, &first, 0), ERR_OK);
    check_part(rig, 2);
    assert_int_equal(snap_send_begin(&rig->send, &first, 0), ERR_OK);
    assert_int_equal(check_slowly(rig, 2, &now_ms), BIG_BLOCK);
    (void)rest(rig, 2, 0);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS - 1));
}

TEST(a_check_of_an_outdated_snapshot_completes, rig, setup, teardown)
{
    struct snap_piece first = {.peer = 2, .is_first = true};
    uint64_t now_ms = 0;

    assert_int_equal(snap_send_begin(&rig->send, &first, 0), ERR_OK);
    check_part(rig, BIG_BLOCKS / 2);
    assert_int_equal(skit_append(&rig->kit, 1, 5, 100), ERR_OK);
    take(&rig->kit, 9);
    assert_int_equal(snap_send_begin(&rig->send, &first, 0), ERR_OK);
    assert_int_equal(check_slowly(rig, 2, &now_ms), BIG_BLOCKS * BIG_BLOCK);
    (void)rest(rig, 2, 0);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS));
}

/* The check ended just after the epoch that it was for. */
TEST(a_second_check_is_valid_until_the_file_is_sent_again, rig, setup, teardown)
{
    struct snap_piece first = {.peer = 2, .is_first = true};

    assert_int_equal(begin(rig, 2), ERR_OK);
    (void)rest(rig, 2, 0);
    assert_int_equal(begin(rig, 2), ERR_OK);
    assert_int_equal(snap_send_begin(&rig->send, &first, 0), ERR_OK);
    assert_true(snap_send_is_checked(&rig->send, 2));
    (void)rest(rig, 2, 0);
    assert_int_equal(snap_send_begin(&rig->send, &first, 0), ERR_OK);
    assert_false(snap_send_is_checked(&rig->send, 2));
}

/* What a peer has of snapshot `id`, and where its next transfer begins. */
static uint64_t resumed_at(struct rig *rig, uint64_t id, uint64_t offset, zxid_t oldest)
{
    struct snap_piece first = {.peer = 2,
                               .is_first = true,
                               .id = id,
                               .offset = offset,
                               .oldest = oldest,
                               .len = ZAB_CHUNK_BYTES_MAX};

    assert_int_equal(snap_send_begin(&rig->send, &first, 0), ERR_OK);
    assert_int_equal(check(rig, 2), ERR_OK);
    buf_clear(&rig->piece);
    assert_int_equal(snap_send_piece(&rig->send, &first, 0, &rig->piece), ERR_OK);
    rig->info = first.info;
    return first.offset;
}

TEST(a_broken_transfer_resumes_at_its_offset, rig, setup, teardown)
{
    assert_int_equal(begin(rig, 2), ERR_OK);
    assert_int_equal(piece(rig, 2, 0), ERR_OK);
    uint64_t id = rig->info.id;

    /* A newer one exists by now. */
    assert_int_equal(skit_append(&rig->kit, 1, 5, 100), ERR_OK);
    take(&rig->kit, 7);
    assert_int_equal(resumed_at(rig, id, ZAB_CHUNK_BYTES_MAX, 0), ZAB_CHUNK_BYTES_MAX);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS - 1));
}

/* The last pieces were sent, and the connection broke before the learner received them. */
TEST(a_transfer_that_broke_just_before_its_end_resumes_too, rig, setup, teardown)
{
    assert_int_equal(begin(rig, 2), ERR_OK);
    (void)rest(rig, 2, 0);
    uint64_t id = rig->info.id;

    /* A newer one exists by now. */
    assert_int_equal(skit_append(&rig->kit, 1, 5, 100), ERR_OK);
    take(&rig->kit, 7);
    assert_int_equal(resumed_at(rig, id, ZAB_CHUNK_BYTES_MAX, 0), ZAB_CHUNK_BYTES_MAX);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS - 1));
}

TEST(a_part_of_another_snapshot_is_not_resumed, rig, setup, teardown)
{
    assert_int_equal(begin(rig, 2), ERR_OK);
    assert_int_equal(piece(rig, 2, 0), ERR_OK);
    uint64_t id = rig->info.id;

    assert_int_equal(resumed_at(rig, id + 1, ZAB_CHUNK_BYTES_MAX, 0), 0);
    assert_int_equal(resumed_at(rig, 0, ZAB_CHUNK_BYTES_MAX, 0), 0);
    /* More than the file contains. */
    assert_int_equal(resumed_at(rig, id, rig->info.file_bytes, 0), 0);
}

/* The log does not reach back to its start any more: the newest is sent. */
TEST(a_part_of_a_snapshot_that_is_too_old_is_not_resumed, rig, setup, teardown)
{
    assert_int_equal(begin(rig, 2), ERR_OK);
    assert_int_equal(piece(rig, 2, 0), ERR_OK);
    uint64_t id = rig->info.id;

    assert_int_equal(skit_append(&rig->kit, 1, 5, 100), ERR_OK);
    take(&rig->kit, 7);
    assert_int_equal(resumed_at(rig, id, ZAB_CHUNK_BYTES_MAX, start_of(rig, ROUNDS)), 0);
    assert_int_equal(rig->info.start, start_of(rig, ROUNDS));
}
