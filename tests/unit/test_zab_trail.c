/* The outline of a log, the last common record of two logs, and what makes a quorum: exhaustively.
 */
#include "base/mem.h"
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"
#include "zab/zab_int.h"

enum {
    CACHE = 8
};

static void load(struct trail *trail, const struct drive_log *log)
{
    struct epoch_range ranges[DRIVE_RANGES_MAX];
    uint32_t count = drive_log_ranges(log, ranges);

    trail_init(trail, CACHE, 1 << 20);
    trail_load(trail, log->base, drive_log_last(log), drive_log_chain(log, drive_log_last(log)),
               ranges, count);
}

static void append(struct trail *trail, struct drive_log *log, zxid_t zxid, uint64_t token)
{
    trail_append(trail, drive_log_add(log, zxid), token);
}

TEST(the_trail_knows_its_records, drive_log, no_set_up, drive_log_release)
{
    struct trail trail;

    trail_init(&trail, CACHE, 1 << 20);
    append(&trail, drive_log, zxid_make(1, 0), 1);
    append(&trail, drive_log, zxid_make(1, 1), 2);
    append(&trail, drive_log, zxid_make(3, 0), 3);
    assert_true(trail_has(&trail, 0));
    assert_true(trail_has(&trail, zxid_make(1, 1)));
    assert_true(trail_has(&trail, zxid_make(3, 0)));
    assert_false(trail_has(&trail, zxid_make(1, 2)));
    assert_false(trail_has(&trail, zxid_make(2, 0)));
    assert_false(trail_has(&trail, zxid_make(3, 1)));
    assert_ptr_equal(trail_after(&trail, zxid_make(1, 1)), drive_log->recs[2]);
    assert_ptr_equal(trail_find(&trail, zxid_make(1, 1)), drive_log->recs[1]);
    assert_null(trail_after(&trail, zxid_make(3, 0)));
    assert_null(trail_find(&trail, zxid_make(2, 0)));
    trail_release(&trail);
}

TEST(durable_moves_with_tokens_and_never_beyond, drive_log, no_set_up, drive_log_release)
{
    struct trail trail;

    trail_init(&trail, CACHE, 1 << 20);
    append(&trail, drive_log, zxid_make(1, 0), 4);
    append(&trail, drive_log, zxid_make(1, 1), 7);
    assert_int_equal(trail.durable, 0);
    assert_false(trail_persisted(&trail, 3));
    assert_true(trail_persisted(&trail, 6));
    assert_int_equal(trail.durable, zxid_make(1, 0));
    assert_true(trail_persisted(&trail, 9));
    assert_int_equal(trail.durable, zxid_make(1, 1));
    assert_false(trail_persisted(&trail, 9));
    trail_release(&trail);
}

TEST(a_cut_removes_ranges_records_and_durability, drive_log, no_set_up, drive_log_release)
{
    struct trail trail;

    trail_init(&trail, CACHE, 1 << 20);
    append(&trail, drive_log, zxid_make(1, 0), 1);
    append(&trail, drive_log, zxid_make(1, 1), 2);
    append(&trail, drive_log, zxid_make(2, 0), 3);
    (void)trail_persisted(&trail, 3);
    assert_true(trail_truncate(&trail, zxid_make(1, 0)));
    assert_int_equal(trail.last, zxid_make(1, 0));
    assert_int_equal(trail.durable, zxid_make(1, 0));
    assert_int_equal(trail.last_chain, drive_log->recs[0]->chain);
    assert_int_equal(trail.epochs.count, 1);
    drive_log_cut(drive_log, zxid_make(1, 0));
    append(&trail, drive_log, zxid_make(3, 0), 4);
    assert_false(trail_has(&trail, zxid_make(2, 0)));
    trail_release(&trail);
}

TEST(the_cache_keeps_what_is_not_durable_or_still_needed, drive_log, no_set_up, drive_log_release)
{
    struct trail trail;

    trail_init(&trail, CACHE, 1 << 20);
    for (uint32_t i = 0; i < 20; i++) {
        append(&trail, drive_log, zxid_make(1, i), i + 1);
    }
    trail_shrink(&trail, zxid_make(1, 19));
    assert_int_equal(trail.ring_count, 20);
    (void)trail_persisted(&trail, 20);
    trail_shrink(&trail, zxid_make(1, 4));
    assert_int_equal(trail.ring_count, 15);
    assert_null(trail_find(&trail, zxid_make(1, 4)));
    assert_non_null(trail_find(&trail, zxid_make(1, 5)));
    trail_shrink(&trail, zxid_make(1, 19));
    assert_int_equal(trail.ring_count, CACHE);
    assert_true(trail_has(&trail, zxid_make(1, 0)));
    trail_release(&trail);
}

TEST(purging_moves_the_base, drive_log, no_set_up, drive_log_release)
{
    struct trail trail;

    drive_log_add(drive_log, zxid_make(1, 0));
    drive_log_add(drive_log, zxid_make(1, 1));
    drive_log_add(drive_log, zxid_make(2, 0));
    drive_log_add(drive_log, zxid_make(2, 1));
    load(&trail, drive_log);
    trail_purge(&trail, zxid_make(2, 0));
    assert_int_equal(trail.base, zxid_make(2, 0));
    assert_true(trail_has(&trail, zxid_make(2, 0)));
    assert_true(trail_has(&trail, zxid_make(2, 1)));
    assert_false(trail_has(&trail, zxid_make(1, 1)));
    trail_purge(&trail, zxid_make(1, 0));
    assert_int_equal(trail.base, zxid_make(2, 0));
    trail_release(&trail);
}

/* An outline between replicas is bounded, a log is not: with rare snapshots and frequent elections,
 * the log behind the oldest snapshot begins more than ZAB_RANGES_MAX epochs ago. */
TEST(a_log_may_have_any_number_of_epochs)
{
    const uint32_t count = ZAB_RANGES_MAX + 1000;
    struct epoch_range *ranges = mem_zalloc(count, sizeof ranges[0]);
    struct trail trail;

    for (uint32_t i = 0; i < count; i++) {
        ranges[i] = (struct epoch_range){.epoch = i + 1, .first = 0, .last = 1};
    }
    trail_init(&trail, CACHE, 1 << 20);
    trail_load(&trail, 0, zxid_make(count, 1), 0, ranges, count);
    assert_true(trail_has(&trail, 0));
    assert_true(trail_has(&trail, zxid_make(1, 0)));
    trail_purge(&trail, zxid_make(1, 1)); /* As after the first snapshot. */
    assert_true(trail_has(&trail, trail.base));
    trail_purge(&trail, zxid_make(900, 0));
    assert_int_equal(trail.base, zxid_make(900, 0));
    assert_true(trail_has(&trail, zxid_make(900, 1)));
    assert_int_equal(trail.epochs.count, count - 899);
    trail_release(&trail);
    mem_free(ranges);
}

/* ---- The last common record. ---- */

enum {
    EPOCHS = 3,
    COUNTERS = 3, /* Records in an epoch at most. */
    LOGS_MAX = 4096
};

/*
 * All histories that log matching permits: each epoch e has one leader, whose records of e follow
 * one fixed record, and every log is a prefix of such a history. `tree` says after which record of
 * which epoch each epoch begins.
 */
struct family {
    zxid_t after[EPOCHS + 1]; /* Epoch e begins after this record; 0: at the very start. */
};

static void build(const struct family *family, zxid_t last, struct drive_log *log)
{
    zxid_t path[EPOCHS + 1];
    size_t count = 0;

    drive_log_reset(log, 0, 0);
    for (zxid_t at = last; at != 0; at = family->after[zxid_epoch(at)]) {
        path[count++] = at;
    }
    while (count-- > 0) {
        for (uint32_t i = 0; i <= zxid_counter(path[count]); i++) {
            drive_log_add(log, zxid_make(zxid_epoch(path[count]), i));
        }
    }
}

static zxid_t naive_common(const struct drive_log *a, const struct drive_log *b)
{
    zxid_t common = 0;

    for (size_t i = 0; i < a->count && i < b->count && a->recs[i]->zxid == b->recs[i]->zxid; i++) {
        common = a->recs[i]->zxid;
    }
    return common;
}

static void purge_log(struct drive_log *log, size_t count)
{
    struct drive_log rest = {0};

    drive_log_reset(&rest, log->recs[count - 1]->zxid, log->recs[count - 1]->chain);
    for (size_t i = count; i < log->count; i++) {
        rest.recs[rest.count++] = logrec_ref(log->recs[i]);
    }
    drive_log_release(log);
    *log = rest;
}

/* Our log purged by `ours` records, theirs by `theirs`: the result is the true answer or none. */
static void compare(const struct drive_log *a, const struct drive_log *b, size_t ours,
                    size_t theirs)
{
    struct epoch_range ranges[DRIVE_RANGES_MAX];
    struct drive_log left = {0};
    struct drive_log right = {0};
    zxid_t expected = naive_common(a, b);
    zxid_t common = 0;
    struct trail trail;

    drive_log_copy(&left, a);
    drive_log_copy(&right, b);
    if (ours > 0) {
        purge_log(&left, ours);
    }
    if (theirs > 0) {
        purge_log(&right, theirs);
    }
    load(&trail, &left);
    uint32_t count = drive_log_ranges(&right, ranges);
    enum err err = trail_common(&trail, ranges, count, right.base, &common);

    /* Records before a base are committed, so all logs share them; elsewhere the answer is exact.
     */
    if (expected >= left.base && expected >= right.base) {
        assert_int_equal(err, ERR_OK);
        assert_int_equal(common, expected);
    } else {
        assert_int_equal(err, ERR_MISSING);
    }
    trail_release(&trail);
    drive_log_release(&left);
    drive_log_release(&right);
}

/* Each of them behind each purge that it could have seen. */
static void compare_purged(const struct drive_log *a, const struct drive_log *b)
{
    for (size_t ours = 0; ours <= a->count; ours++) {
        for (size_t theirs = 0; theirs <= b->count; theirs += 2) {
            compare(a, b, ours, theirs);
        }
    }
}

static void compare_all(const struct family *family)
{
    struct drive_log a = {0};
    struct drive_log b = {0};

    for (uint32_t i = 0; i <= EPOCHS * COUNTERS; i++) {
        for (uint32_t j = 0; j <= EPOCHS * COUNTERS; j++) {
            build(family, i ? zxid_make((i - 1) / COUNTERS + 1, (i - 1) % COUNTERS) : 0, &a);
            build(family, j ? zxid_make((j - 1) / COUNTERS + 1, (j - 1) % COUNTERS) : 0, &b);
            compare_purged(&a, &b);
        }
    }
    drive_log_release(&a);
    drive_log_release(&b);
}

/* Every place where epoch 2 may begin in epoch 1, and epoch 3 in either of them. */
TEST(the_last_common_record_is_exact)
{
    for (uint32_t two = 0; two <= COUNTERS; two++) {
        for (uint32_t three = 0; three <= 2 * COUNTERS; three++) {
            struct family family = {0};

            family.after[2] = two ? zxid_make(1, two - 1) : 0;
            family.after[3] =
                three ? zxid_make((three - 1) / COUNTERS + 1, (three - 1) % COUNTERS) : 0;
            compare_all(&family);
        }
    }
}

/* ---- Quorums. ---- */

static bool is_set(const struct zab *zab, const struct peer *peer)
{
    (void)zab;
    return peer->learner.counted;
}

static uint32_t bits_of(uint32_t mask)
{
    uint32_t count = 0;

    for (; mask; mask &= mask - 1) {
        count++;
    }
    return count;
}

/* Every subset of acknowledging members, in ensembles of 1 to 7; this replica is member 1. */
TEST(a_quorum_is_more_than_half_of_the_voters)
{
    for (uint32_t voters = 1; voters <= DRIVE_SEEDS_MAX; voters++) {
        struct drive drive;

        drive_init(&drive, 1, voters);
        drive_start(&drive);
        for (uint32_t id = 2; id <= voters; id++) {
            drive_up(&drive, id);
        }
        for (uint32_t mask = 0; mask < 1U << voters; mask++) {
            for (uint32_t i = 0; i < drive.zab->peer_count; i++) {
                drive.zab->peers[i]->learner.counted = mask & 1U << (drive.zab->peers[i]->id - 1);
            }
            assert_int_equal(quorum_has(drive.zab, mask & 1, is_set), bits_of(mask) > voters / 2);
        }
        drive_release(&drive);
    }
}

/*
 * Members 1 to 4 vote in the old configuration; a change of disks removes some of them from one of
 * the two configurations: both majorities are needed. All pairs of configurations, all subsets.
 */
TEST(while_a_change_is_pending_both_majorities_are_needed)
{
    struct drive drive;

    drive_init(&drive, 1, 4);
    drive_start(&drive);
    for (uint32_t id = 2; id <= 4; id++) {
        drive_up(&drive, id);
    }
    struct zab *zab = drive.zab;

    zab->config.pending = zab->config.committed;
    zab->config.has_pending = true;
    for (uint32_t cases = 0; cases < 1U << 12; cases++) {
        uint32_t in_old = cases & 15;
        uint32_t in_new = cases >> 4 & 15;
        uint32_t yes = cases >> 8 & 15;

        for (uint32_t i = 0; i < 4; i++) {
            zab->config.committed.members[i].incarnation =
                in_old >> i & 1 ? DRIVE_INCARNATION + i + 1 : 1;
            zab->config.pending.members[i].incarnation =
                in_new >> i & 1 ? DRIVE_INCARNATION + i + 1 : 1;
        }
        for (uint32_t i = 0; i < zab->peer_count; i++) {
            zab->peers[i]->learner.counted = yes >> (zab->peers[i]->id - 1) & 1;
        }
        bool expected = bits_of(in_old & yes) > 2 && bits_of(in_new & yes) > 2;

        assert_int_equal(quorum_has(zab, yes & 1, is_set), expected);
    }
    zab->config.has_pending = false;
    drive_release(&drive);
}

/* The highest zxid on a majority, for all combinations of 0..3 on five disks. */
TEST(the_quorums_zxid_is_the_median_of_the_disks)
{
    struct drive drive;

    drive_init(&drive, 1, 5);
    drive_start(&drive);
    for (uint32_t id = 2; id <= 5; id++) {
        drive_up(&drive, id);
    }
    struct zab *zab = drive.zab;

    for (uint32_t cases = 0; cases < 1024; cases++) {
        uint32_t above[5] = {0};

        zab->trail.durable = cases & 3;
        for (uint32_t i = 0; i < 4; i++) {
            zab->peers[i]->learner.stage = LEARNER_SYNCED;
            zab->peers[i]->learner.acked = cases >> (2 * i + 2) & 3;
        }
        for (uint32_t value = 1; value <= 3; value++) {
            above[value] = zab->trail.durable >= value;
            for (uint32_t i = 0; i < 4; i++) {
                above[value] += zab->peers[i]->learner.acked >= value;
            }
        }
        zxid_t expected = above[3] >= 3 ? 3 : above[2] >= 3 ? 2 : above[1] >= 3 ? 1 : 0;

        assert_int_equal(quorum_acked(zab), expected);
    }
    zab->trail.durable = 0;
    drive_release(&drive);
}

TEST(a_learner_not_in_step_has_acknowledged_nothing)
{
    struct drive drive;

    drive_init(&drive, 1, 3);
    drive_start(&drive);
    drive_up(&drive, 2);
    drive_up(&drive, 3);
    drive.zab->peers[0]->learner.stage = LEARNER_STREAM;
    drive.zab->peers[0]->learner.acked = 9;
    drive.zab->peers[1]->learner.stage = LEARNER_STREAM;
    drive.zab->peers[1]->learner.acked = 9;
    assert_int_equal(quorum_acked(drive.zab), 0);
    drive_release(&drive);
}
