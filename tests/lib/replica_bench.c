#include "tests/lib/replica_bench.h"

#include "server/state/state.h"
#include "server/state/txn.h"
#include "tests/lib/limits_kit.h"

#include <stdio.h>

static bool outcomes_are_gone; /* The test has ended. */

static void host(void *ctx, const struct zab_event *event, struct zab_effects *effects)
{
    struct bench *bench = ctx;

    replica_step(bench->replica, event, bench->wall_ms, &bench->effects);
    zab_effects_release(effects);
    *effects = bench->effects.zab;
    bench->effects.zab = (struct zab_effects){0};
}

static void open_drive(struct bench *bench, uint32_t id, uint32_t voters, bool quarantined)
{
    *bench = (struct bench){.wall_ms = 1000000};
    drive_init(&bench->drive, id, voters);
    bench->drive.init.quarantined = quarantined;
    bench->drive.host = host;
    bench->drive.host_ctx = bench;
    drive_prepare(&bench->drive);
}

static void open_replica(struct bench *bench, struct state *take_state, uint32_t keep_age_ms)
{
    bench->view = view_new();
    bench->window = window_new(1 << 20, 100, 0);
    bench->touched = touch_set_new(200000);
    view_replace(bench->view,
                 take_state ? take_state : state_new(bench->drive.init.config.history));
    struct replica_options options = {
        .zab = bench->drive.init,
        .prep = kit_limits,
        .boot = BENCH_BOOT,
        .requests_max = BENCH_REQUESTS_MAX,
        .forward_bytes_max = BENCH_FORWARD_BYTES_MAX,
        .forward_peer_bytes_max = BENCH_FORWARD_PEER_BYTES_MAX,
        .forward_out_bytes_max = BENCH_FORWARD_OUT_BYTES_MAX,
        .snap_count = 1000000,
        .snap_bytes = 1 << 30,
        .reap_every_ms = 1000,
        .keep_age_ms = keep_age_ms,
        .tree_bytes_max = BENCH_TREE_BYTES_MAX,
        .view = bench->view,
        .window = bench->window,
        .touched = bench->touched,
    };

    options.prep.tree.session_default_ms = BENCH_SESSION_MS;
    options.prep.tree.remember_ms = BENCH_REMEMBER_MS;
    bench->effects = (struct replica_effects){0};
    bench->replica = replica_new(&options);
    bench->drive.observed = replica_zab(bench->replica);
    drive_tick(&bench->drive, 0);
}

void bench_open(struct bench *bench, uint32_t id, uint32_t voters)
{
    bench_open_with(bench, id, voters, NULL);
}

void bench_open_with(struct bench *bench, uint32_t id, uint32_t voters, struct state *take_state)
{
    bench_open_keeping(bench, id, voters, take_state, BENCH_KEEP_AGE_MS);
}

void bench_open_keeping(struct bench *bench, uint32_t id, uint32_t voters, struct state *take_state,
                        uint32_t keep_age_ms)
{
    open_drive(bench, id, voters, false);
    open_replica(bench, take_state, keep_age_ms);
}

void bench_open_level(struct bench *bench, uint32_t id, uint32_t voters, uint16_t level)
{
    open_drive(bench, id, voters, false);
    bench->drive.init.level_max = level;
    bench->drive.init.config.level = level;
    open_replica(bench, NULL, BENCH_KEEP_AGE_MS);
}

void bench_open_quarantined(struct bench *bench, uint32_t id, uint32_t voters)
{
    open_drive(bench, id, voters, true);
    open_replica(bench, NULL, BENCH_KEEP_AGE_MS);
}

void bench_close(struct bench *bench)
{
    replica_free(bench->replica);
    zab_effects_release(&bench->effects.zab);
    drive_release(&bench->drive);
    touch_set_free(bench->touched);
    window_free(bench->window);
    view_free(bench->view);
}

void bench_tear_down(struct bench *bench)
{
    outcomes_are_gone = true;
    bench_close(bench);
    outcomes_are_gone = false;
}

void bench_take(struct bench *bench)
{
    drive_take(&bench->drive, &bench->effects.zab);
    replica_effects_clear(&bench->effects);
}

static void on_reply(struct op_request *request)
{
    const struct op_result *result = &request->result;
    struct outcome *outcome = request->ctx;

    if (!outcomes_are_gone) {
        *outcome = (struct outcome){.answers = outcome->answers + 1,
                                    .err = result->err,
                                    .zxid = result->zxid,
                                    .has_stat = result->has_stat,
                                    .replayed = result->replayed,
                                    .has_session = result->has_session,
                                    .session = result->session,
                                    .times = request->times};
        (void)snprintf(outcome->detail, sizeof(outcome->detail), "%s",
                       result->detail ? result->detail : "");
        (void)snprintf(outcome->reason, sizeof(outcome->reason), "%s",
                       result->reason ? result->reason : "");
        outcome->has_change = result->has_change;
        if (result->has_change) {
            (void)op_change_decode(blob_slice(result->change), &outcome->change);
        }
    }
    op_request_free(request);
}

struct op_request *bench_request(struct bench *bench, enum op_id op, const char *path,
                                 struct outcome *outcome)
{
    struct op_request *request = op_request_new();

    *outcome = (struct outcome){0};
    request->def = ops_by_id(op);
    op_args_init(&request->args, op);
    request->args.path = slice_str(path);
    request->args.data = slice_str("data");
    request->deadline_ms = bench->drive.now_ms + BENCH_TIMEOUT_MS;
    request->on_reply = on_reply;
    request->ctx = outcome;
    return request;
}

void bench_submit(struct bench *bench, struct op_request *request)
{
    replica_request(bench->replica, request, bench->drive.now_ms, bench->wall_ms, &bench->effects);
    bench_take(bench);
}

void bench_create(struct bench *bench, const char *path, struct outcome *outcome)
{
    bench_submit(bench, bench_request(bench, OP_CREATE, path, outcome));
}

struct replica_status bench_status(const struct bench *bench)
{
    struct replica_status status;

    replica_status(bench->replica, &status);
    return status;
}

bool bench_has(struct bench *bench, const char *path)
{
    const struct state *state = view_read(bench->view);
    bool found = state_find(state, slice_str(path)) != NULL;

    view_read_done(bench->view);
    return found;
}

/* The record that creates `path` for a request of this process, or for no request. */
struct logrec *bench_record(struct drive *drive, uint64_t request, const char *path)
{
    const struct txn_header header = {.origin_member = request ? 1 : 0,
                                      .origin_boot = request ? BENCH_BOOT : 0,
                                      .request = request,
                                      .age_ms = 5,
                                      .stamp_ms = 5};
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){.type = TXN_CREATE,
                                       .flags = TXN_REPLY,
                                       .path = slice_str(path),
                                       .data = slice_str("x"),
                                       .creates = (uint32_t)drive->theirs.count});
    struct logrec *rec = drive_log_add_type(&drive->theirs, LOGREC_TXN,
                                            drive_log_last(&drive->theirs) + 1, buf_slice(&txn));

    buf_release(&txn);
    return rec;
}

void bench_commit(struct drive *drive, zxid_t zxid)
{
    drive_persist(drive);
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_COMMIT, .commit.zxid = zxid});
}

uint64_t bench_forwarded(const struct bench *bench)
{
    return drive_sent(&bench->drive, bench->drive.leader, ZAB_FORWARD)->forward.request;
}

void bench_lead(struct bench *bench)
{
    bench_open(bench, 3, 3);
    drive_lead(&bench->drive);
    drive_clear(&bench->drive);
}

void bench_follow(struct bench *bench)
{
    bench_open(bench, 1, 3);
    drive_follow(&bench->drive, 3, 1);
    drive_clear(&bench->drive);
}

void bench_wait(struct bench *bench)
{
    bench_open(bench, 1, 3);
}

/* `leader` of `epoch` sends its snapshot of `start`, complete at `end`. The state is not loaded. */
static void receive_snapshot(struct bench *bench, uint32_t leader, uint32_t epoch, zxid_t start,
                             zxid_t end)
{
    struct drive *drive = &bench->drive;

    drive->restores_by_hand = true;
    drive->restored_end = end;
    drive_clear(drive);
    drive_follow_acked(drive, leader, epoch);
    drive_log_reset(&drive->theirs, start, 77);
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SYNC, .sync.flags = ZAB_FLAG_SNAP});
    drive_persist(drive);
    drive_log_reset(&drive->staged, start, 77);
    drive_leader_says(drive, (struct zab_msg){.type = ZAB_SNAP_CHUNK,
                                              .snap_chunk.start = start,
                                              .snap_chunk.start_chain = 77,
                                              .snap_chunk.end = end,
                                              .snap_chunk.flags = ZAB_FLAG_SNAP_LAST});
    if (end > start) {
        drive_entry(drive, bench_record(drive, 0, "/b"), 0);
    }
    drive_persist(drive);
    view_replace(bench->view, state_new(7));
}

void bench_install(struct bench *bench, zxid_t end)
{
    drive_down(&bench->drive, 3);
    bench_refill(bench, end);
}

void bench_refill(struct bench *bench, zxid_t end)
{
    receive_snapshot(bench, 2, 3, zxid_make(2, 5), end);
}

void bench_install_again(struct bench *bench)
{
    drive_down(&bench->drive, 2);
    drive_log_copy(&bench->drive.theirs, &bench->drive.disk);
    receive_snapshot(bench, 3, 4, zxid_make(2, 7), zxid_make(2, 7));
}

void bench_up_to_date(struct bench *bench)
{
    struct drive *drive = &bench->drive;

    drive_newleader(drive, drive_log_add(&drive->theirs, zxid_make(3, 0)));
    drive_persist(drive);
    drive_leader_says(drive,
                      (struct zab_msg){.type = ZAB_UPTODATE, .commit.zxid = zxid_make(3, 0)});
}

uint64_t bench_end_digest(void)
{
    struct bench bench;

    bench_follow(&bench);
    bench_install(&bench, zxid_make(2, 6));
    drive_restored(&bench.drive);
    bench_up_to_date(&bench);
    uint64_t digest = bench_status(&bench).digest;

    bench_close(&bench);
    return digest;
}
