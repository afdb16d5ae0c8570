/* Requests of the clients of a replica that a change of the members removes: what its last leader
 * has not answered is answered at once when that leader has left it, because it gets no other. */
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"
#include "zab/level.h"

enum {
    SELF = 1,
    LEADER = 3
};

static void follow(struct bench *bench)
{
    bench_open_level(bench, SELF, 3, ZAB_LEVEL_TEXTS);
    drive_follow(&bench->drive, LEADER, 1);
    drive_clear(&bench->drive);
}

/* The record without this replica. */
static struct logrec *removal(struct drive *drive)
{
    const struct zab_config_parts parts = {.edit_count = 0};
    struct zab_config config = *zab_config(drive->observed);
    zxid_t zxid = drive_log_last(&drive->theirs) + 1;
    struct logrec *rec = NULL;
    struct buf bytes;

    assert_int_equal(config.members[0].id, SELF);
    config.removed[config.removed_count++] = (struct zab_removed){
        .id = SELF, .incarnation = config.members[0].incarnation, .zxid = zxid};
    config.count--;
    memmove(&config.members[0], &config.members[1], config.count * sizeof(config.members[0]));
    config.version = zxid;
    buf_init(&bytes, ZAB_CONFIG_BYTES_MAX);
    assert_int_equal(zab_config_write(&config, &parts, &bytes), ERR_OK);
    rec = drive_log_add_type(&drive->theirs, LOGREC_CONFIG, zxid, buf_slice(&bytes));
    buf_release(&bytes);
    return rec;
}

static void remove_it(struct bench *bench)
{
    struct logrec *rec = removal(&bench->drive);

    drive_entry(&bench->drive, rec, 0);
    bench_commit(&bench->drive, zxid_make(1, 1));
    assert_null(zab_config_find(zab_config(replica_zab(bench->replica)), SELF));
}

static struct op_request *fifo_request(struct bench *bench, enum op_id op, struct outcome *outcome)
{
    struct op_request *request = bench_request(bench, op, "/a", outcome);

    request->fifo = 7;
    return request;
}

TEST(the_outcome_of_a_forwarded_write_is_unknown, bench, follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    remove_it(bench);
    assert_int_equal(outcome.answers, 0); /* The leader may still send its record. */
    drive_down(&bench->drive, LEADER);
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OUTCOME_UNKNOWN);
    assert_string_equal(outcome.detail, "a change of the members has removed this replica");
}

TEST(what_the_leader_still_sends_answers_a_write, bench, follow, bench_tear_down)
{
    struct outcome outcome;

    bench_create(bench, "/a", &outcome);
    remove_it(bench);
    drive_entry(&bench->drive, bench_record(&bench->drive, bench_forwarded(bench), "/a"), 0);
    bench_commit(&bench->drive, zxid_make(1, 2));
    assert_int_equal(outcome.answers, 1);
    assert_int_equal(outcome.err, ERR_OK);
}

TEST(what_was_not_sent_is_not_applied, bench, follow, bench_tear_down)
{
    struct outcome write;
    struct outcome read;
    struct outcome later;

    remove_it(bench);
    bench_submit(bench, bench_request(bench, OP_SYNC, "/", &read));
    assert_int_equal(read.answers, 0);
    drive_down(&bench->drive, LEADER);
    assert_int_equal(read.answers, 1);
    assert_int_equal(read.err, ERR_NOT_READY);
    bench_create(bench, "/a", &write);
    assert_int_equal(write.answers, 1);
    assert_int_equal(write.err, ERR_NOT_READY);
    bench_submit(bench, bench_request(bench, OP_SYNC, "/", &later));
    assert_int_equal(later.answers, 1);
    assert_int_equal(later.err, ERR_NOT_READY);
}

/* A confirmed read behind a write of its connection is answered after that write. */
TEST(a_read_behind_a_write_is_answered_too, bench, follow, bench_tear_down)
{
    struct op_request *request = NULL;
    struct outcome write;
    struct outcome read;

    bench_submit(bench, fifo_request(bench, OP_CREATE, &write));
    request = fifo_request(bench, OP_GET, &read);
    request->consistency = OP_LINEARIZABLE;
    bench_submit(bench, request);
    drive_leader_says(&bench->drive, (struct zab_msg){.type = ZAB_READ_REPLY,
                                                      .read_reply = {.request = request->id}});
    remove_it(bench);
    drive_down(&bench->drive, LEADER);
    assert_int_equal(write.answers, 1);
    assert_int_equal(write.err, ERR_OUTCOME_UNKNOWN);
    assert_int_equal(read.answers, 1);
    assert_int_equal(read.err, ERR_OK);
}
