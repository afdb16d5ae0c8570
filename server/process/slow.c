#include "server/process/slow.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/thread.h"
#include "server/op/ops.h"

#include <inttypes.h>

enum {
    SLOW_PATH_MAX = 1024,
    SECOND_MS = 1000
};

void slow_init(struct slow_log *log)
{
    mutex_init(&log->mutex);
}

void slow_release(struct slow_log *log)
{
    mutex_destroy(&log->mutex);
}

/* ---- Phases. ---- */

/* Moves `*at` to `point` if that is later; returns by how much. */
static uint64_t lap(uint64_t *at, uint64_t point)
{
    uint64_t from = *at;

    *at = max_u64(from, point);
    return *at - from;
}

/* Returns the end of a phase: `point` or, when it was not reached, `next` if a later point was
 * reached (the phase does not apply) and else the end of all waiting. */
static uint64_t end_of(uint64_t point, bool later, uint64_t at, uint64_t answered)
{
    if (point != 0) {
        return min_u64(point, answered);
    }
    return later ? at : answered;
}

static struct slow_phases phases_of_write(const struct gate_slow *slow)
{
    const struct op_times *times = &slow->times;
    uint64_t answered = times->answered_ms ? times->answered_ms : slow->served_ms;
    bool has_quorum = times->quorum_ms != 0;
    bool has_synced = times->synced_ms != 0 || has_quorum;
    struct slow_phases phases = {0};
    uint64_t at = slow->begin_ms;

    phases.queued = lap(&at, end_of(times->sent_ms, false, at, answered));
    phases.prepared = lap(&at, end_of(times->prepared_ms, has_synced, at, answered));
    phases.synced = lap(&at, end_of(times->synced_ms, has_quorum, at, answered));
    phases.quorum = lap(&at, end_of(times->quorum_ms, false, at, answered));
    phases.applied = lap(&at, answered);
    phases.written = lap(&at, slow->end_ms);
    return phases;
}

static struct slow_phases phases_of_read(const struct gate_slow *slow)
{
    struct slow_phases phases = {0};
    uint64_t at = slow->begin_ms;

    phases.queued = lap(&at, slow->times.sent_ms);
    phases.quorum = lap(&at, slow->times.quorum_ms);
    phases.applied = lap(&at, slow->times.answered_ms);
    phases.prepared = lap(&at, slow->served_ms);
    phases.written = lap(&at, slow->end_ms);
    return phases;
}

struct slow_phases slow_phases_of(const struct gate_slow *slow)
{
    return slow->is_write ? phases_of_write(slow) : phases_of_read(slow);
}

/* ---- Lines. ---- */

bool slow_may_log(struct slow_log *log, struct slice address, uint64_t now_ms,
                  uint64_t *ret_left_out)
{
    uint32_t *own = &log->of_address[hash64(0, address) % SLOW_ADDRESSES];

    MUTEX_HOLD(&log->mutex);
    if (log->second != now_ms / SECOND_MS) {
        log->second = now_ms / SECOND_MS;
        log->lines = 0;
        memset(log->of_address, 0, sizeof log->of_address);
    }
    if (log->lines >= SLOW_LINES || *own >= SLOW_ADDRESS_LINES) {
        log->left_out++;
        metric_add(&log->unlogged, 1);
        return false;
    }
    log->lines++;
    (*own)++;
    *ret_left_out = log->left_out;
    log->left_out = 0;
    return true;
}

/* The path is the last value, because it may contain blanks and what looks like another value. */
static void write_line(const struct gate_slow *slow, uint64_t left_out)
{
    struct slow_phases phases = slow_phases_of(slow);
    struct slice path = slow->path.len > 0 ? slow->path : slice_str("-");
    struct slice trace = slow->trace.len > 0 ? slow->trace : slice_str("-");

    log_warn(slow->front,
             "slow request: op={op}%s ms={ms}%" PRIu64 " queued={queued}%" PRIu64
             " prepared={prepared}%" PRIu64 " synced={synced}%" PRIu64 " quorum={quorum}%" PRIu64
             " applied={applied}%" PRIu64 " written={written}%" PRIu64
             " code={code}%s zxid={zxid}0x%" PRIx64 " session={session}%" PRIx64
             " remote={address}%s request={request}%s trace={trace}%.*s left_out={left_out}%" PRIu64
             " path={path}%.*s",
             slow->def->name, slow->end_ms - slow->begin_ms, phases.queued, phases.prepared,
             phases.synced, phases.quorum, phases.applied, phases.written, err_name(slow->err),
             slow->zxid, slow->session, slow->address, slow->request, (int)trace.len,
             (const char *)trace.data, left_out, (int)min_size(path.len, SLOW_PATH_MAX),
             (const char *)path.data);
}

void slow_note(struct slow_log *log, const struct gate_slow *slow)
{
    uint64_t left_out = 0;

    metric_add(&log->requests, 1);
    if (slow_may_log(log, slice_str(slow->address), slow->end_ms, &left_out)) {
        write_line(slow, left_out);
    }
}
