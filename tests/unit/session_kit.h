/*
 * session_kit.h - a replica on the bench with a session, and learners that report.
 *
 * Each test program includes it once.
 */
#ifndef TESTS_UNIT_SESSION_KIT_H
#define TESTS_UNIT_SESSION_KIT_H

#include "server/replica/replica_int.h"
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"

#define REPORT_MS UINT64_C(500) /* Half a tick. */

enum {
    STEP_MS = 200,
    LEADER = 3,
    HASH = 0xab /* Each byte of the hash of the secret. */
};

static uint8_t hash[TXN_SECRET_HASH_LEN];

static inline void secret_of(struct op_request *request)
{
    memset(hash, HASH, sizeof hash);
    request->args.secret_hash = slice_make(hash, sizeof hash);
}

static inline void in_session(struct op_request *request, uint64_t attach)
{
    request->session.shown = true;
    request->session.attach = attach;
    memset(request->session.hash, HASH, sizeof request->session.hash);
}

static inline struct op_request *session_request(struct bench *bench, enum op_id op,
                                                 struct outcome *outcome)
{
    struct op_request *request = bench_request(bench, op, "", outcome);

    request->args.path = slice_make(NULL, 0);
    request->args.data = slice_make(NULL, 0);
    secret_of(request);
    return request;
}

static inline struct op_request *ephemeral_request(struct bench *bench, const char *path,
                                                   uint64_t attach, struct outcome *outcome)
{
    struct op_request *request = bench_request(bench, OP_CREATE, path, outcome);

    request->args.ephemeral = true;
    in_session(request, attach);
    return request;
}

/* Everything that the leader has proposed becomes durable here, and learner 1 acknowledges it. */
static inline void commit_all(struct bench *bench)
{
    drive_persist(&bench->drive);
    drive_learner_says(&bench->drive, 1, ZAB_ACK, bench_status(bench).zab.last);
}

/* The mark in the newest PING to that learner; 0: none. */
static inline uint64_t mark_for(const struct bench *bench, uint32_t peer)
{
    const struct zab_msg *ping = drive_sent(&bench->drive, peer, ZAB_PING);
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX];
    size_t count = 0;
    bool known =
        ping && heartbeats_decode(ping->ping.payload, bench->drive.now_ms, heartbeats, &count);
    const struct heartbeat *leader = known ? heartbeats_find(heartbeats, count, LEADER) : NULL;

    return leader ? leader->mark : 0;
}

/* A report, or a part of one, from a learner whose last known mark is that of the report. */
static inline void learner_reports_late(struct bench *bench, uint32_t peer, const uint64_t *ids,
                                        const struct report *report)
{
    struct buf bytes;

    buf_init(&bytes, 1 << 20);
    report_encode(ids, report, &bytes);
    struct zab_msg msg = {.type = ZAB_FORWARD,
                          .dialogue = bench->drive.dialogues[peer],
                          .epoch = bench->drive.promised,
                          .forward.request = REPORT_NUMBER,
                          .forward.bytes = buf_slice(&bytes)};

    drive_recv(&bench->drive, peer, &msg);
    buf_release(&bytes);
}

static inline void learner_reports(struct bench *bench, uint32_t peer, const uint64_t *ids,
                                   size_t count, bool last)
{
    struct report report = {.mark = mark_for(bench, peer), .last = last, .count = count};

    learner_reports_late(bench, peer, ids, &report);
}

/* Which learners answer the leader's pings. */
struct alive {
    bool is[3];      /* By id. */
    bool reports[3]; /* They also report, with an empty list. */
};

static const struct alive both = {.is = {false, true, true}, .reports = {false, true, true}};

static inline void pass(struct bench *bench, const struct alive *alive, uint64_t ms)
{
    for (uint64_t end_ms = bench->drive.now_ms + ms; bench->drive.now_ms < end_ms;) {
        drive_tick(&bench->drive, STEP_MS);
        for (uint32_t id = 1; id <= 2; id++) {
            if (alive->is[id]) {
                drive_pong(&bench->drive, id);
            }
            if (alive->reports[id]) {
                learner_reports(bench, id, NULL, 0, true);
            }
        }
    }
}

/* Makes the replica lead and opens a session; returns its public id. */
static inline uint64_t lead_with_session(struct bench *bench)
{
    struct outcome outcome;

    bench_lead(bench);
    bench_submit(bench, session_request(bench, OP_SESSION, &outcome));
    commit_all(bench);
    assert_int_equal(outcome.err, ERR_OK);
    assert_true(outcome.has_session);
    assert_int_equal(outcome.session.id, outcome.zxid);
    assert_int_equal(outcome.session.timeout_ms, BENCH_SESSION_MS);
    return outcome.session.id;
}

static inline bool session_lives(struct bench *bench, uint64_t id)
{
    struct op_session session = {.shown = true, .id = id};
    struct op_session_info info;

    return view_find_session(bench->view, &session, &info) == ERR_OK;
}

/* The ms until the session is gone. */
static inline uint64_t lives_ms(struct bench *bench, const struct alive *alive, uint64_t id)
{
    uint64_t from_ms = bench->drive.now_ms;

    while (session_lives(bench, id)) {
        assert_true(bench->drive.now_ms < from_ms + 20 * BENCH_SESSION_MS);
        pass(bench, alive, STEP_MS);
        commit_all(bench);
    }
    return bench->drive.now_ms - from_ms;
}

#endif
