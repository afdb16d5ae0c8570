#include "tests/sim/sim_clock.h"

#include "base/check.h"
#include "server/replica/clock.h"
#include "server/state/state.h"
#include "tests/sim/sim_ask.h"
#include "tests/sim/sim_quorum.h"

#include <inttypes.h>

#define WALL_BASE_MS INT64_C(1700000000000)

enum {
    ROUNDING_MS = 70, /* A drifting monotonic clock is adjusted in steps, one a second. */
    DRIFT_PART = 20,  /* A monotonic clock is fast by at most one part in so many. */
    HEARD_TICKS = 14, /* A report of a clock may be this old, beyond twice syncLimit, if its voter
                         or the leader was paused. */
    HEARD_MORE_MS = 2000, /* Added for slow networks. */
    EVEN_PPM = 10000,
    STEADY_MARGIN_MS = 2500, /* A voter notices a jump at its next tick. */
    LOOK_MS = 20,            /* Interval of the checks for progress. */
    PROGRESS_MORE_MS = 3000, /* Added for proposals, and for a leader that is being replaced. */
    PATH_BYTES = 1024 * 100, /* Limit of the paths of TTL znodes in one check. */
    PATHS_MAX = 1000,
    COMPARED_US = 3 * SIM_SECOND, /* A leader compares the clocks at least this often. */
};

/* ---- Clocks that jump. ---- */

/* Value of a clock without an offset. */
static int64_t wall_ms(const struct sim *sim)
{
    return WALL_BASE_MS + (int64_t)(sim->now_us / SIM_MS);
}

int64_t sim_node_wall_ms(struct sim *sim, struct sim_node *node)
{
    return wall_ms(sim) + node->wall_off_ms;
}

void sim_clock_set(struct sim *sim, struct sim_node *node, int64_t off_ms)
{
    SIM_TRACE(sim, "fault: the wall clock of node %u is now %" PRId64 " ms off", node->id, off_ms);
    memmove(&node->walls[1], &node->walls[0], sizeof(node->walls) - sizeof(node->walls[0]));
    node->walls[0] = (struct sim_wall){.off_ms = node->wall_off_ms, .until_us = sim->now_us};
    node->wall_off_ms = off_ms;
}

static void set_right(struct sim *sim, struct sim_event *event)
{
    sim_clock_set(sim, &sim->nodes[event->a], 0);
}

void sim_clock_jump(struct sim *sim, struct sim_node *node, int64_t off_ms, uint64_t for_ms)
{
    sim_clock_set(sim, node, off_ms);
    if (for_ms > 0) {
        sim_after(sim, for_ms * SIM_MS, set_right, "clock", NULL)->a = node->id;
    }
}

/* ---- Stamps: values of the clocks, and permitted values in transactions. ---- */

/* Maximum age of a report that may stand for a voter's clock. */
static uint64_t heard_ms(const struct sim *sim)
{
    return (uint64_t)sim->knobs.limits.tick_ms * (2 * sim->knobs.limits.sync_limit + HEARD_TICKS) +
           HEARD_MORE_MS;
}

/* The largest or smallest offset that a clock had since then. */
static int64_t off_since(const struct sim_node *node, uint64_t since_us, bool largest)
{
    int64_t off_ms = node->wall_off_ms;

    for (size_t i = 0; i < SIM_WALLS && node->walls[i].until_us > since_us; i++) {
        int64_t old_ms = node->walls[i].off_ms;

        if (largest ? old_ms > off_ms : old_ms < off_ms) {
            off_ms = old_ms;
        }
    }
    return off_ms;
}

/* ---- A single voter: it ignores a clock value that lasted less than a minute. ---- */

/* An offset of the clock, and the time during which it lasted. */
struct stay {
    int64_t off_ms;
    uint64_t from_us;
    uint64_t to_us;
};

/* The `i`th last stay. */
static struct stay stay_of(const struct sim *sim, const struct sim_node *node, size_t i)
{
    return (struct stay){
        .off_ms = i == 0 ? node->wall_off_ms : node->walls[i - 1].off_ms,
        .from_us = node->walls[i].until_us,
        .to_us = i == 0 ? sim->now_us : node->walls[i - 1].until_us,
    };
}

/* The node's wall clock and its monotonic clock stay close to each other for a minute. */
static bool is_even(const struct sim_node *node)
{
    return node->drift_ppm < EVEN_PPM && node->drift_ppm > -EVEN_PPM;
}

struct believed {
    int64_t least_ms;
    int64_t most_ms;
    uint64_t since_us; /* End of the oldest of these stays. */
};

uint64_t sim_clock_read_by(const struct sim_node *node)
{
    return node->born_us + STEADY_MARGIN_MS * SIM_MS + node->asleep_us;
}

/* A new process trusts the clock that it finds. A later offset counts once the clock had it for
 * about a minute; where that is not certain, the offset before counts as well. */
static struct believed believed(const struct sim *sim, const struct sim_node *node)
{
    struct believed found = {.least_ms = INT64_MAX, .most_ms = INT64_MIN};
    bool certain = false;

    for (size_t i = 0; i < SIM_WALLS && !certain; i++) {
        struct stay stay = stay_of(sim, node, i);
        bool first = stay.from_us <= sim_clock_read_by(node);
        uint64_t for_ms = (stay.to_us - stay.from_us) / SIM_MS;

        certain = stay.from_us <= node->born_us ||
                  (for_ms > STEADY_SETTLE_MS + STEADY_MARGIN_MS && is_even(node));
        if (certain || first || for_ms + STEADY_MARGIN_MS > STEADY_SETTLE_MS) {
            found.least_ms = stay.off_ms < found.least_ms ? stay.off_ms : found.least_ms;
            found.most_ms = stay.off_ms > found.most_ms ? stay.off_ms : found.most_ms;
            found.since_us = stay.to_us;
        }
    }
    if (sim->knobs.change_ms > 0) { /* It first trusts the clock that it finds when it is alone. */
        found.least_ms = off_since(node, node->born_us, false);
        found.most_ms = off_since(node, node->born_us, true);
        found.since_us = node->born_us;
    } else if (!certain) { /* The clock had more jumps than the simulator remembers. */
        found.least_ms = -STAMP_MAX_MS;
        found.most_ms = STAMP_MAX_MS;
    }
    ASSERT(found.least_ms <= found.most_ms);
    return found;
}

/* See struct sim_rec. */
struct range {
    int64_t reached_ms;
    int64_t least_ms;
};

/* Until then only its monotonic clock counts, which may drift. */
static void note_one(struct sim *sim, const struct sim_node *voter, struct range *ret)
{
    struct believed found = believed(sim, voter);
    int64_t drift_ms = sim->knobs.drift_ppm > 0
                           ? (int64_t)((sim->now_us - found.since_us) / SIM_MS / DRIFT_PART)
                           : 0;

    ret->reached_ms = wall_ms(sim) + found.most_ms + drift_ms;
    ret->least_ms = wall_ms(sim) + found.least_ms - drift_ms;
    ret->reached_ms = ret->reached_ms > 0 ? ret->reached_ms : 0;
    ret->least_ms = ret->least_ms > 0 ? ret->least_ms : 0;
}

/* ---- Several voters. ---- */

static void note_clocks(struct sim *sim, const struct zab_config *config, struct range *ret)
{
    uint64_t window_us = heard_ms(sim) * SIM_MS;
    uint64_t since_us = sim->now_us > window_us ? sim->now_us - window_us : 0;
    int64_t drift_ms = (int64_t)heard_ms(sim) / DRIFT_PART;
    int64_t now_ms = wall_ms(sim);
    int64_t clocks_ms[ZAB_MEMBERS_MAX];
    uint32_t voters = 0;

    ret->least_ms = INT64_MAX;
    for_each_member (member, config) {
        const struct sim_node *node = &sim->nodes[member->id];

        if (member->voter) {
            int64_t least_ms = now_ms + off_since(node, since_us, false);

            clocks_ms[voters++] = now_ms + off_since(node, since_us, true);
            ret->least_ms = least_ms < ret->least_ms ? least_ms : ret->least_ms;
        }
    }
    ret->reached_ms = stamp_reached(clocks_ms, voters, voters / 2 + 1) + drift_ms;
    ret->least_ms = ret->least_ms > drift_ms ? ret->least_ms - drift_ms : 0;
}

/* The only voter; NULL: there are several. */
static const struct sim_node *sole_voter(const struct sim *sim, const struct zab_config *config)
{
    const struct sim_node *sole = NULL;
    uint32_t voters = 0;

    for_each_member (member, config) {
        if (member->voter) {
            sole = &sim->nodes[member->id];
            voters++;
        }
    }
    return voters == 1 ? sole : NULL;
}

static void note(struct sim *sim, const struct zab_config *config, struct range *ret)
{
    const struct sim_node *sole = sole_voter(sim, config);

    if (sole) {
        note_one(sim, sole, ret);
    } else {
        note_clocks(sim, config, ret);
    }
}

/* A leader compares the clocks now and then: a short time ago other voters may have counted. */
void sim_clock_made(struct sim *sim, struct sim_rec *rec)
{
    const struct sim_members *members = &sim->members;
    struct range range;

    rec->made_us = sim->now_us;
    if (sim_txn_of(rec->rec).len == 0) {
        return;
    }
    note(sim, &sim->config, &range);
    rec->reached_ms = range.reached_ms;
    rec->least_ms = range.least_ms;
    for (uint32_t i = 0; i < SIM_PAST; i++) {
        if (members->past[i].count > 0 && sim->now_us < members->past_us[i] + COMPARED_US) {
            note(sim, &members->past[i], &range);
            rec->reached_ms =
                range.reached_ms > rec->reached_ms ? range.reached_ms : rec->reached_ms;
            rec->least_ms = range.least_ms < rec->least_ms ? range.least_ms : rec->least_ms;
        }
    }
}

/* ---- Along the committed log. ---- */

/* The age never falls, and never grows by more than the elapsed time. */
static void check_age(struct sim *sim, const struct sim_rec *rec, int64_t age_ms)
{
    const struct sim_times *last = &sim->times;
    int64_t passed_ms = (int64_t)(rec->made_us / SIM_MS) - (int64_t)(last->made_us / SIM_MS);
    int64_t grown_ms = age_ms - last->age_ms;

    if (grown_ms < 0) {
        sim_fail(sim, "clock",
                 "%" PRIx64 " has an age %" PRId64 " ms below that of the record before",
                 rec->rec->zxid, -grown_ms);
    }
    if (grown_ms > passed_ms + passed_ms / DRIFT_PART + ROUNDING_MS) {
        sim_fail(sim, "clock",
                 "%" PRIx64 " adds %" PRId64 " ms to the age, but only %" PRId64 " ms have passed",
                 rec->rec->zxid, grown_ms, passed_ms);
    }
}

static void check_stamp(struct sim *sim, const struct sim_rec *rec, int64_t stamp_ms)
{
    const struct sim_times *last = &sim->times;
    int64_t slack_ms = STAMP_SLACK_MS + ROUNDING_MS;
    bool held = last->known && stamp_ms == last->stamp_ms;

    if (stamp_ms > rec->reached_ms + slack_ms && !held) {
        sim_fail(sim, "clock",
                 "%" PRIx64 " is stamped %" PRId64
                 " ms after the time that a majority's clocks have reached",
                 rec->rec->zxid, stamp_ms - rec->reached_ms);
    }
    if (last->known && stamp_ms < last->stamp_ms &&
        last->stamp_ms <= rec->least_ms + STAMP_SLACK_MS + STAMP_HOLD_MS - slack_ms) {
        sim_fail(sim, "clock",
                 "the stamp of %" PRIx64 " steps back by %" PRId64
                 " ms: no voter's clock is that far "
                 "behind",
                 rec->rec->zxid, last->stamp_ms - stamp_ms);
    }
}

void sim_clock_committed(struct sim *sim, const struct sim_rec *rec)
{
    struct wire_reader reader;
    struct txn_header header;

    if (txn_open(&reader, sim_txn_of(rec->rec), &header) != ERR_OK) {
        return;
    }
    struct sim_times last = sim->times;
    bool back = last.known && header.stamp_ms < last.stamp_ms;

    check_age(sim, rec, header.age_ms);
    check_stamp(sim, rec, header.stamp_ms);
    sim->times = (struct sim_times){.known = true,
                                    .age_ms = header.age_ms,
                                    .stamp_ms = header.stamp_ms,
                                    .made_us = rec->made_us,
                                    .steps_back = last.steps_back + back};
}

/* ---- Progress. ---- */

/* The leader still has TTL znodes or remembered results from `zxid` or before. */
static bool has_old(struct sim *sim, const struct sim_node *leader, zxid_t zxid)
{
    const struct state *state = view_read(leader->view);
    struct wire_reader reader;
    struct buf paths;

    buf_init(&paths, PATH_BYTES);
    size_t count = state_reap_candidates(state, INT64_MAX - 1, PATHS_MAX, &paths);
    const struct state_remembered *oldest = state_remembered_after(state, 0);
    bool old = sim->knobs.ttl_ppm > 0 && oldest != NULL && oldest->zxid <= zxid;

    wire_reader_init(&reader, buf_slice(&paths));
    for (size_t i = 0; i < count; i++) {
        struct slice path = wire_get_raw(&reader, wire_get_u16(&reader));
        struct stat_view stat;

        znode_stat(state_find(state, path), &stat);
        /* The deletion of a child has restarted the TTL. */
        if (stat.mzxid <= zxid && stat.pzxid <= zxid) {
            SIM_TRACE(sim, "still there: %.*s", (int)path.len, (const char *)path.data);
            old = true;
        }
    }
    buf_release(&paths);
    view_read_done(leader->view);
    return old;
}

bool sim_clock_is_behind(struct sim *sim, zxid_t zxid)
{
    const struct sim_node *leader = sim_leader(sim);

    return !leader || leader->paused || has_old(sim, leader, zxid);
}

static void look(struct sim *sim, struct sim_event *event)
{
    (void)sim;
    (void)event;
}

/* Whether `bound_ms` are over since `from_us`, and the transactions that waited before a deletion
 * then had their turn: two full queues of the leader, or as much time again. `*late_count` is the
 * length of the log when the bound was over, 0 before. */
static bool is_overdue(const struct sim *sim, uint64_t from_us, uint64_t bound_ms,
                       size_t *late_count)
{
    uint64_t passed_ms = (sim->now_us - from_us) / SIM_MS;

    if (passed_ms <= bound_ms) {
        return false;
    }
    if (*late_count == 0) {
        *late_count = sim->log_count;
    }
    return sim->log_count - *late_count > 2 * (size_t)sim->knobs.limits.pending_max ||
           passed_ms > 2 * bound_ms;
}

void sim_clock_progress(struct sim *sim)
{
    const struct sim_knobs *knobs = &sim->knobs;
    uint64_t span_ms = SIM_TTL_MAX_MS > knobs->remember_ms + knobs->remember_ms / 8
                           ? SIM_TTL_MAX_MS
                           : knobs->remember_ms + knobs->remember_ms / 8;
    uint64_t bound_ms =
        span_ms + span_ms / DRIFT_PART * 2 + 3 * (uint64_t)knobs->reap_ms + PROGRESS_MORE_MS;
    uint64_t from_us = sim->now_us;
    zxid_t zxid = sim->log_count > 0 ? sim->log[sim->log_count - 1]->rec->zxid : 0;
    size_t late_count = 0;

    if (knobs->ttl_ppm == 0) {
        return;
    }
    while (sim_clock_is_behind(sim, zxid)) {
        sim_after(sim, LOOK_MS * SIM_MS, look, "look", NULL);
        (void)sim_run(sim, sim->now_us + LOOK_MS * SIM_MS, NULL);
        if (is_overdue(sim, from_us, bound_ms, &late_count)) {
            sim_fail(sim, "clock",
                     "after %" PRIu64 " ms a TTL znode or a remembered result from before %" PRIx64
                     " still exists",
                     bound_ms, zxid);
        }
    }
    sim->totals.progress++;
}
