/* Age and stamp of transactions: what this replica knows of both, and what a leader gives. */
#include "server/replica/replica_int.h"

enum {
    CLOCK_LIMITS = 2 /* A clock that was not heard of for so many times syncLimit is unknown. */
};

_Static_assert(ZAB_AGE_MAX_MS == TXN_AGE_MAX_MS, "what one takes, the other takes");

/* ---- Age. ---- */

void times_turn(struct replica *replica)
{
    const struct zab_status *status = &replica->status;

    age_turn(&replica->age, status->epoch, status->state == ZAB_LEADING, replica_leads(replica),
             replica->now_ms);
}

int64_t times_age(const struct replica *replica)
{
    int64_t age_ms = age_now(&replica->age, replica->now_ms);

    return age_ms < TXN_AGE_MAX_MS ? age_ms : TXN_AGE_MAX_MS;
}

void times_of_config(struct replica *replica, const struct zab_config *config)
{
    for (uint32_t i = 0; i < config->count; i++) {
        ASSERT(config->members[i].admitted_age_ms <= ZAB_AGE_MAX_MS);
        age_seen(&replica->age, (int64_t)config->members[i].admitted_age_ms);
    }
}

/* The proposals of a leader are newer than what is applied. */
void times_of_state(struct replica *replica, const struct state *state)
{
    age_seen(&replica->age, state_age_ms(state));
    if (!replica->age.runs) {
        replica->stamp_ms = state_stamp_ms(state);
    }
}

/* Its leader alone knows the age: what another replica says of itself is no matter. */
void times_heard(struct replica *replica, const struct sign *sign)
{
    if (sign->role == SIGN_LEADER && sign->id == replica->status.leader) {
        age_heard(&replica->age, sign->epoch, sign->age_ms, replica->now_ms);
    }
}

/* ---- Stamp. ---- */

/* A voter that was not heard of for so long has no clock. */
static uint64_t silent_ms(const struct replica *replica)
{
    const struct zab_limits *limits = &replica->options.zab.limits;

    return MUTANT(57) ? limits->tick_ms
                      : CLOCK_LIMITS * (uint64_t)limits->sync_limit * limits->tick_ms;
}

/* What the clock of a voter may say now. Its connection may break: the clock counts on, since it
 * has not changed by that, until its voter has been silent for too long. */
static struct reached clock_of(const struct replica *replica, uint32_t id)
{
    int64_t own_ms = stamp_clamp(replica->wall_ms);

    if (id == replica->options.zab.id) {
        return (struct reached){.least_ms = own_ms, .most_ms = own_ms};
    }
    const struct sign *sign = signs_find(replica->signs, replica->sign_count, id);

    if (!sign || sign->wall_ms == 0) {
        /* It had no time yet to say anything: after a start, or a pause. */
        bool early = replica->now_ms - replica->awake_ms <= silent_ms(replica);

        return (struct reached){.most_ms = early ? STAMP_MAX_MS : 0};
    }
    ASSERT(sign->at_ms <= replica->now_ms);
    int64_t least_ms = sign->wall_ms + (int64_t)(replica->now_ms - sign->at_ms);
    bool bounded = sign->late_ms != SIGN_LATE_UNKNOWN;

    return (struct reached){.least_ms = least_ms,
                            .most_ms = bounded ? least_ms + sign->late_ms : STAMP_MAX_MS};
}

static struct reached reached(struct replica *replica)
{
    const struct zab_config *config = zab_config(replica->zab);
    int64_t least_ms[ZAB_MEMBERS_MAX];
    int64_t most_ms[ZAB_MEMBERS_MAX];
    size_t voters = 0;

    for (uint32_t i = 0; i < config->count; i++) {
        if (config->members[i].voter) {
            struct reached clock = clock_of(replica, config->members[i].id);

            least_ms[voters] = clock.least_ms;
            most_ms[voters++] = clock.most_ms;
        }
    }
    const struct zab_member *self = zab_config_find(config, replica->options.zab.id);

    if (voters == 1 && self && self->voter) {
        int64_t own_ms =
            stamp_clamp(steady_read(&replica->steady, replica->now_ms, replica->wall_ms));

        return (struct reached){.least_ms = own_ms, .most_ms = own_ms};
    }
    if (voters == 0) {
        return (struct reached){0};
    }
    return (struct reached){.least_ms = stamp_reached(least_ms, voters, voters / 2 + 1),
                            .most_ms = stamp_reached(most_ms, voters, voters / 2 + 1)};
}

/* A connected voter may have no leader to answer for long. Time in which this process stood still
 * says nothing about the others. */
static void forget_silent(struct replica *replica)
{
    if (replica->now_ms - replica->compared_ms > replica->options.zab.limits.tick_ms) {
        replica->awake_ms = replica->now_ms;
    }
    replica->compared_ms = replica->now_ms;
    for (size_t i = 0; i < replica->sign_count; i++) {
        struct sign *sign = &replica->signs[i];
        uint64_t since_ms = sign->at_ms > replica->awake_ms ? sign->at_ms : replica->awake_ms;

        if (replica->now_ms - since_ms > silent_ms(replica)) {
            sign->wall_ms = 0;
        }
    }
}

/* Each heartbeat, not each transaction: between two the monotonic clock counts on. */
void times_compare(struct replica *replica)
{
    forget_silent(replica);
    replica->reached = reached(replica);
}

/* What was reached when clocks were compared, and the time since. */
static struct reached reached_now(const struct replica *replica)
{
    int64_t since_ms = (int64_t)(replica->now_ms - replica->compared_ms);

    ASSERT(replica->now_ms >= replica->compared_ms);
    return (struct reached){.least_ms = stamp_clamp(replica->reached.least_ms + since_ms),
                            .most_ms = stamp_clamp(replica->reached.most_ms + since_ms)};
}

/* Only what is certain: heartbeats take time to arrive. */
int64_t times_ahead_ms(const struct replica *replica)
{
    struct reached now = reached_now(replica);
    int64_t own_ms = stamp_clamp(replica->wall_ms);

    if (replica->reached.least_ms == 0) {
        return 0;
    }
    if (own_ms < now.least_ms) {
        return own_ms - now.least_ms;
    }
    return own_ms > now.most_ms ? own_ms - now.most_ms : 0;
}

/* Where too few clocks are known, a voter being about to come in step, stamps stand still. */
static int64_t next_stamp(struct replica *replica)
{
    struct reached now = reached_now(replica);

    if (MUTANT(50)) {
        now.least_ms = stamp_clamp(replica->wall_ms);
        now.most_ms = now.least_ms;
    }
    if (replica->reached.least_ms > 0) {
        replica->stamp_ms = stamp_next(replica->stamp_ms, replica->wall_ms, &now);
    }
    return replica->stamp_ms;
}

/* ---- Both. ---- */

void lead_times(struct replica *replica, struct txn_header *header)
{
    ASSERT(replica->age.runs);
    header->age_ms = times_age(replica);
    if (MUTANT(51) && replica->wall_ms > header->age_ms) {
        header->age_ms = replica->wall_ms;
        age_seen(&replica->age, header->age_ms);
    }
    header->stamp_ms = next_stamp(replica);
}
