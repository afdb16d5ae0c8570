/*
 * http_gate.h - a gate that is one replica in memory: a real view, real preparation, and a thread
 * in place of the core. It defines the functions of server/process/gate.h that front ends call.
 */
#ifndef TESTS_UNIT_HTTP_GATE_H
#define TESTS_UNIT_HTTP_GATE_H

#include "base/check.h"
#include "base/mailbox.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/thread.h"
#include "server/op/ops.h"
#include "server/prepare/prep.h"
#include "server/process/backups.h"
#include "server/process/gate.h"
#include "server/process/guard.h"
#include "server/process/reload.h"
#include "server/process/watch_listing.h"
#include "server/read/view.h"
#include "tests/lib/unit.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum {
    KIT_HISTORY = 0x1234abcd,
    KIT_CONFIG_VERSION = 0x30a,
    KIT_DEADLINE_MS = 60000
};

struct gate {
    struct view *view;
    struct window *window;
    struct prep *prep;
    struct config_clients limits;
    struct budget unsent;
    struct guard guard;
    struct reloads reloads;
    struct backups backups; /* Closed: no backup begins. */
    struct mailbox box;
    struct thread core;
    zxid_t zxid; /* Core thread, after the start. */
    _Atomic uint64_t applied;
    _Atomic uint32_t applies;    /* So many records are applied after each call of gate_status. */
    _Atomic uint32_t local_err;  /* What gate_check_local answers, */
    _Atomic uint32_t stand_ms;   /* and for how long it blocks its caller. */
    _Atomic uint32_t submit_err; /* What gate_submit answers. */
    _Atomic uint32_t reply_err;  /* The error of every reply. */
    _Atomic bool held;           /* Requests wait inside the gate. */
    _Atomic bool suspends; /* After the next write the window behaves as if another state were being
                              installed. */
    _Atomic bool reversed; /* The last of the held requests is answered first. */
    _Atomic uint32_t inside;
    _Atomic bool ready;
    _Atomic bool leaderless;             /* gate_status says that this replica is not in step. */
    _Atomic uint64_t noted;              /* Calls of gate_note_request. */
    _Atomic uint64_t counted;            /* Calls of gate_count_op. */
    _Atomic uint64_t refused[ERR_COUNT]; /* Calls of gate_refused, by error. */
    _Atomic uint64_t touched;            /* The session that was touched last. */
    _Atomic uint32_t rounds;             /* Requests other than writes. */
    pthread_mutex_t front_mutex;
    struct gate_front_hooks fronts[GATE_FRONTS];

    /* The last call of gate_slow, with copies of its texts; guarded by front_mutex. */
    struct gate_slow slow;
    char slow_path[128];
    char slow_trace[64];
    char slow_request[64];
    _Atomic uint32_t slow_count;
};

struct gate *kit_gate_new(void);
void kit_gate_free(struct gate *gate);

/* The same without a thread: the test takes the requests out of `box` and runs them. */
struct gate *kit_gate_make(void);
void kit_gate_drop(struct gate *gate);

/* Runs a request and sets its result; the caller replies. */
void kit_serve(struct gate *gate, struct op_request *request);

/* What the leader does; the caller holds the write lock of the view. */
void kit_write_in(struct gate *gate, struct state *state, struct op_request *request);

/* As when a snapshot replaces the state: the changes that led to it are unknown. The core is idle,
 * and one test thread at a time acts for it. */
void kit_replace(struct gate *gate);

/* Ends what `suspends` began: the present state stays. */
void kit_resume(struct gate *gate);

/* Replaces the state by an empty one, as a snapshot would. After kit_load_state no request may read
 * it yet, as while a replica that was refilled waits for its leader. */
void kit_load_state(struct gate *gate, zxid_t zxid);
void kit_put_state(struct gate *gate, zxid_t zxid);

/* The metrics of the most recently started front end. */
void kit_write_front_metrics(struct buf *out);

/* ---- Slow requests ---- */

/* Lets time pass: the test is about times. */
static inline void kit_pass(uint64_t ms)
{
    uint64_t end_ms = os_now_ms() + ms;

    while (os_now_ms() < end_ms) {
        (void)poll(NULL, 0, 1);
    }
}

/* Waits until the held gate has a request, with `pump` (or NULL) between the looks; then holds it
 * for that time, and releases it. */
static inline void kit_hold_for(struct gate *gate, uint64_t ms, void (*pump)(void *ctx), void *ctx)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (atomic_load(&gate->inside) == 0) {
        assert_true(os_now_ms() < end_ms);
        if (pump) {
            pump(ctx);
        }
        (void)poll(NULL, 0, 1);
    }
    kit_pass(ms);
    atomic_store(&gate->held, false);
}

/* Waits for the first slow request: it is noted after its answer was sent. */
static inline void kit_wait_slow(const struct gate *gate)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (atomic_load(&gate->slow_count) == 0) {
        assert_true(os_now_ms() < end_ms);
        (void)poll(NULL, 0, 1);
    }
}

#endif
