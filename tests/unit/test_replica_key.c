/* Writes with an idempotency key, as the clients of any replica see them. */
#include "server/replica/replica_int.h"
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"

#define TEN_YEARS_MS INT64_C(315360000000)

static void create_with_key(struct bench *bench, const char *path, const char *key,
                            struct outcome *outcome)
{
    struct op_request *request = bench_request(bench, OP_CREATE, path, outcome);

    request->key = slice_str(key);
    bench_submit(bench, request);
}

TEST(a_repeated_answer_equals_the_first)
{
    struct bench bench;
    struct outcome first;
    struct outcome other;
    struct outcome again;

    bench_open(&bench, 1, 1);
    drive_persist(&bench.drive);
    create_with_key(&bench, "/a", "key", &first);
    drive_persist(&bench.drive);
    bench_create(&bench, "/b", &other);
    drive_persist(&bench.drive);
    create_with_key(&bench, "/a", "key", &again);
    assert_int_equal(again.answers, 1);
    assert_int_equal(again.err, ERR_OK);
    assert_true(again.has_stat);
    assert_true(again.zxid == first.zxid && other.zxid > first.zxid);
    create_with_key(&bench, "/c", "key", &again);
    assert_int_equal(again.err, ERR_KEY_REUSED);
    bench_close(&bench);
}

static void learner_forwards(struct bench *bench, uint64_t number)
{
    struct outcome none;
    struct op_request *request = bench_request(bench, OP_CREATE, "/a", &none);
    struct buf bytes;

    request->key = slice_str("key");
    buf_init(&bytes, 1 << 16);
    forward_encode(99, request, &bytes);
    op_request_free(request);
    drive_recv(&bench->drive, 1,
               &(struct zab_msg){.type = ZAB_FORWARD,
                                 .dialogue = bench->drive.dialogues[1],
                                 .epoch = bench->drive.promised,
                                 .forward.request = number,
                                 .forward.bytes = buf_slice(&bytes)});
    buf_release(&bytes);
}

static void confirm_round(struct bench *bench, uint32_t peer)
{
    drive_recv(&bench->drive, peer,
               &(struct zab_msg){.type = ZAB_CONFIRM_ACK,
                                 .dialogue = bench->drive.dialogues[peer],
                                 .epoch = bench->drive.promised,
                                 .confirm.round =
                                     drive_sent(&bench->drive, peer, ZAB_CONFIRM)->confirm.round});
}

TEST(a_learner_gets_the_repeated_answer_after_a_round)
{
    struct bench bench;
    struct outcome other;
    struct op_result result;

    bench_lead(&bench);
    learner_forwards(&bench, 17);
    bench_create(&bench, "/b", &other);
    drive_persist(&bench.drive);
    drive_learner_says(&bench.drive, 1, ZAB_ACK, zxid_make(1, 2));
    assert_int_equal(other.err, ERR_OK);
    drive_clear(&bench.drive);
    learner_forwards(&bench, 18);
    assert_null(drive_asked(&bench.drive, ZAB_PERSIST_APPEND));
    assert_null(drive_sent(&bench.drive, 1, ZAB_FORWARD_REPLY));
    confirm_round(&bench, 2);
    const struct zab_msg *reply = drive_sent(&bench.drive, 1, ZAB_FORWARD_REPLY);

    assert_int_equal(reply->forward.request, 18);
    op_result_init(&result);
    assert_int_equal(op_result_decode(reply->forward.bytes, &result), ERR_OK);
    assert_int_equal(result.err, ERR_OK);
    assert_true(result.replayed && result.has_stat);
    assert_true(slice_eq(result.path, slice_str("/a")));
    assert_int_equal(result.zxid, zxid_make(1, 1));
    op_result_release(&result);
    bench_close(&bench);
}

/* No new write is done; but repeating the answer of an earlier one takes no space. */
TEST(an_answer_is_repeated_even_with_full_disks)
{
    struct zab_event low = {.type = ZAB_EV_SPACE, .is_space_low = true};
    struct bench bench;
    struct outcome first;
    struct outcome again;

    bench_open(&bench, 1, 1);
    drive_persist(&bench.drive);
    create_with_key(&bench, "/a", "key", &first);
    drive_persist(&bench.drive);
    drive_step(&bench.drive, &low);
    assert_true(bench_status(&bench).zab.quorum_low);
    create_with_key(&bench, "/a", "key", &again);
    assert_int_equal(again.err, ERR_OK);
    assert_true(again.replayed && again.zxid == first.zxid);
    create_with_key(&bench, "/b", "other", &again);
    assert_int_equal(again.err, ERR_DISK_FULL);
    create_with_key(&bench, "/b", "key", &again);
    assert_int_equal(again.err, ERR_KEY_REUSED);
    bench_close(&bench);
}

static uint64_t remembered(struct bench *bench)
{
    const struct state *state = view_read(bench->view);
    uint64_t count = state_remembered_count(state);

    view_read_done(bench->view);
    return count;
}

TEST(an_answer_is_forgotten_after_its_time)
{
    struct bench bench;
    struct outcome outcome;

    bench_open(&bench, 1, 1);
    drive_persist(&bench.drive);
    create_with_key(&bench, "/a", "key", &outcome);
    drive_persist(&bench.drive);
    assert_int_equal(remembered(&bench), 1);
    drive_tick(&bench.drive, BENCH_REMEMBER_MS - 1);
    drive_persist(&bench.drive);
    assert_int_equal(remembered(&bench), 1);
    drive_tick(&bench.drive, BENCH_REMEMBER_MS);
    drive_persist(&bench.drive);
    assert_int_equal(remembered(&bench), 0);
    bench_close(&bench);
}

/* The leader's wall clock is ten years ahead for a moment, and is then corrected. */
TEST(a_brief_jump_of_the_wall_clock_keeps_no_answer_for_ever)
{
    struct bench bench;
    struct outcome outcome;

    bench_open(&bench, 1, 1);
    drive_persist(&bench.drive);
    bench.wall_ms += TEN_YEARS_MS;
    drive_tick(&bench.drive, 1000);
    create_with_key(&bench, "/a", "key", &outcome);
    drive_persist(&bench.drive);
    drive_tick(&bench.drive, 500);
    bench.wall_ms -= TEN_YEARS_MS;
    drive_tick(&bench.drive, 2000);
    assert_int_equal(remembered(&bench), 1);
    drive_tick(&bench.drive, 2 * BENCH_REMEMBER_MS);
    drive_persist(&bench.drive);
    assert_int_equal(remembered(&bench), 0);
    bench_close(&bench);
}

static struct state *state_that_remembers(uint64_t count)
{
    struct state *state = state_new(7);
    struct buf txn;

    buf_init(&txn, 4096);
    for (uint64_t zxid = 1; zxid <= count; zxid++) {
        const struct txn_header header = {.age_ms = 5, .stamp_ms = 5};
        const struct txn_remember remember = {.scope = slice_str("ann"),
                                              .key = slice_make(&zxid, sizeof(zxid))};

        buf_clear(&txn);
        txn_begin(&txn, &header);
        txn_put(&txn, &(struct txn_effect){.type = TXN_REMEMBER, .remember = remember});
        assert_int_equal(state_apply(state, zxid, buf_slice(&txn), false, NULL), ERR_OK);
    }
    buf_release(&txn);
    return state;
}

/* One transaction removes a thousand results. */
TEST(all_due_answers_are_forgotten_together, bench, no_set_up, bench_tear_down)
{
    bench_open_with(bench, 1, 1, state_that_remembers(2500));
    drive_persist(&bench->drive);
    drive_tick(&bench->drive, 2 * BENCH_REMEMBER_MS);
    drive_persist(&bench->drive);
    assert_int_equal(remembered(bench), 0);
}

/* ---- A change of the configuration. ---- */

static void change_hold(struct bench *bench, uint32_t hold, const char *key,
                        struct outcome *outcome)
{
    struct op_request *request = bench_request(bench, OP_LEVEL, "", outcome);

    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str("bob:secret"),
                              "bob:fyVmFCwVbTJYrznoSu1koqYEYF0=", &request->principal.auth),
                     ERR_OK);
    request->args.has_hold = true;
    request->args.hold = hold;
    request->key = slice_str(key);
    bench_submit(bench, request);
}

TEST(a_change_of_the_hold_is_a_write)
{
    struct bench bench;
    struct outcome first;
    struct outcome second;
    struct outcome again;

    bench_open_level(&bench, 1, 1, 1);
    drive_persist(&bench.drive);
    change_hold(&bench, 1, "key", &first);
    assert_int_equal(first.answers, 0);
    change_hold(&bench, 1, "key", &again);
    change_hold(&bench, 1, "other", &second);
    drive_persist(&bench.drive);
    assert_int_equal(first.err, ERR_OK);
    assert_int_equal(again.err, ERR_IN_FLIGHT);
    assert_int_equal(second.err, ERR_CHANGE_REFUSED);
    assert_string_equal(second.detail,
                        "another change is under way: try again when it is committed");
    const struct zab_config *config = zab_config(replica_zab(bench.replica));

    assert_int_equal(config->hold, 1);
    assert_true(config->version == first.zxid && config->level == 1);
    change_hold(&bench, 1, "key", &again);
    assert_true(again.err == ERR_OK && again.replayed && again.zxid == first.zxid);
    change_hold(&bench, 0, "key", &again);
    assert_int_equal(again.err, ERR_KEY_REUSED);
    change_hold(&bench, 0, "release", &second);
    drive_persist(&bench.drive);
    assert_int_equal(second.err, ERR_OK);
    assert_int_equal(config->hold, 0);
    assert_true(second.zxid > first.zxid);
    bench_close(&bench);
}

/* A refused change leaves nothing behind: its key is free. */
TEST(a_refused_change_has_no_key)
{
    struct bench bench;
    struct outcome outcome;

    bench_open_level(&bench, 1, 1, 2);
    drive_persist(&bench.drive);
    change_hold(&bench, 1, "key", &outcome);
    drive_persist(&bench.drive);
    assert_int_equal(outcome.err, ERR_CHANGE_REFUSED);
    assert_string_equal(outcome.detail, "the level is 2: it cannot be held below");
    change_hold(&bench, 2, "key", &outcome);
    drive_persist(&bench.drive);
    assert_int_equal(outcome.err, ERR_OK);
    bench_close(&bench);
}
