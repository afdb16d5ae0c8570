/*
 * replica_bench.h - one replica on a bench: zab_drive plays its peers and its disk. The answer of
 * each request outlives the request.
 */
#ifndef TESTS_LIB_REPLICA_BENCH_H
#define TESTS_LIB_REPLICA_BENCH_H

#include "server/op/change.h"
#include "server/op/ops.h"
#include "server/replica/replica.h"
#include "tests/lib/zab_drive.h"

#define BENCH_SESSION_MS UINT64_C(4000) /* Timeout of a session. */

enum {
    BENCH_BOOT = 4242,
    BENCH_REQUESTS_MAX = 8,
    BENCH_FORWARD_BYTES_MAX = 3000,
    BENCH_FORWARD_PEER_BYTES_MAX = 2000,
    BENCH_FORWARD_OUT_BYTES_MAX = 500,
    BENCH_TIMEOUT_MS = 1000,
    BENCH_REMEMBER_MS = 60000,
    BENCH_KEEP_AGE_MS = 5000,
    BENCH_TREE_BYTES_MAX = 1 << 20
};

struct bench {
    struct drive drive;
    struct view *view;
    struct window *window;
    struct touch_set *touched;
    struct replica *replica;
    struct replica_effects effects;
    int64_t wall_ms; /* The wall clock of all steps; it moves only with the test. */
};

/* The answer to one request. */
struct outcome {
    uint32_t answers;
    enum err err;
    zxid_t zxid;
    bool has_stat;
    bool replayed;
    bool has_session;
    struct op_session_info session;
    struct op_times times;
    char detail[200]; /* Of an error, cut; "": none. */
    char reason[40];  /* Likewise. */
    bool has_change;
    struct op_change change;
};

/* Replica `id` of `voters` with an empty tree and log. */
void bench_open(struct bench *bench, uint32_t id, uint32_t voters);
void bench_open_with(struct bench *bench, uint32_t id, uint32_t voters, struct state *take_state);
void bench_open_keeping(struct bench *bench, uint32_t id, uint32_t voters, struct state *take_state,
                        uint32_t keep_age_ms);
void bench_open_level(struct bench *bench, uint32_t id, uint32_t voters, uint16_t level);
void bench_open_quarantined(struct bench *bench, uint32_t id, uint32_t voters);
void bench_close(struct bench *bench);

/* bench_close after the end of a test: it answers the requests that wait, but their outcomes no
 * longer exist and are not written. */
void bench_tear_down(struct bench *bench);

void bench_lead(struct bench *bench);   /* Replica 3 of 3 leads epoch 1. */
void bench_follow(struct bench *bench); /* Replica 1 of 3 follows 3 in epoch 1. */
void bench_wait(struct bench *bench);   /* Replica 1 of 3 has no leader yet. */

/* Takes the effects of a call that was not an event. */
void bench_take(struct bench *bench);

struct op_request *bench_request(struct bench *bench, enum op_id op, const char *path,
                                 struct outcome *outcome);
void bench_submit(struct bench *bench, struct op_request *request);
void bench_create(struct bench *bench, const char *path, struct outcome *outcome);

struct replica_status bench_status(const struct bench *bench);
bool bench_has(struct bench *bench, const char *path);

/* The record of `drive->theirs` that creates `path` for request `request` of this process; 0: for
 * no request. */
struct logrec *bench_record(struct drive *drive, uint64_t request, const char *path);

/* Makes everything durable here, and committed up to `zxid`. */
void bench_commit(struct drive *drive, zxid_t zxid);

/* The number of the newest request sent to the leader. */
uint64_t bench_forwarded(const struct bench *bench);

/* A follower turns to leader 2 of epoch 3, which refills it: the leader's snapshot from (2, 5)
 * to `end` is on the disk. The state is an empty tree; drive_restored reports it as loaded. If the
 * end is after its start, (2, 6) creates "/b". */
void bench_install(struct bench *bench, zxid_t end);
void bench_refill(struct bench *bench, zxid_t end); /* The same of a replica without a leader. */

/* Before that state is loaded: leader 3 of epoch 4 sends its snapshot of (2, 7), an empty tree. */
void bench_install_again(struct bench *bench);

/* Then the replica serves. */
void bench_up_to_date(struct bench *bench);

/* The digest of the state of bench_install at (2, 6). */
uint64_t bench_end_digest(void);

#endif
