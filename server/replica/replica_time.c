/* Age and stamp of transactions: what this replica knows of both, and what a leader gives to its
 * transactions. clock.h defines them: the age grows only while a leader leads, the stamp is a wall
 * clock time. */
#include "server/replica/replica_int.h"

enum {
    CLOCK_LIMITS = 2 /* A clock is unknown after this multiple of syncLimit without heartbeats. */
};

_Static_assert(ZAB_AGE_MAX_MS == TXN_AGE_MAX_MS, "zab and transactions have the same bound");

/* ---- Age. ---- */

void times_turn(struct replica *replica)
{
    const struct zab_status *status = &replica->status;

    age_turn(&replica->clock.age, status->epoch, status->state == ZAB_LEADING,
             replica_leads(replica), replica->now_ms);
}

int64_t times_age(const struct replica *replica)
{
    return min_i64(age_now(&replica->clock.age, replica->now_ms), TXN_AGE_MAX_MS);
}

void times_of_config(struct replica *replica, const struct zab_config *config)
{
    for (uint32_t i = 0; i < config->count; i++) {
        ASSERT(config->members[i].admitted_age_ms <= ZAB_AGE_MAX_MS);
        age_seen(&replica->clock.age, (int64_t)config->members[i].admitted_age_ms);
    }
}

/* Takes age and stamp of the state. A leader keeps its own stamp, because its proposals are newer
 * than the applied state. */
void times_of_state(struct replica *replica, const struct state *state)
{
    age_seen(&replica->clock.age, state_age_ms(state));
    if (!replica->clock.age.runs) {
        replica->clock.stamp_ms = state_stamp_ms(state);
    }
}

/* Takes the age from the leader's heartbeat. Only the leader knows the age; the age that other
 * replicas send is ignored. */
void times_heard(struct replica *replica, const struct heartbeat *heartbeat)
{
    if (heartbeat->role == ROLE_LEADER && heartbeat->id == replica->status.leader) {
        age_heard(&replica->clock.age, heartbeat->epoch, heartbeat->age_ms, replica->now_ms);
    }
}

/* ---- Stamp. ---- */

/* Returns the time without a heartbeat after which the clock of a voter is unknown. */
static uint64_t silent_ms(const struct replica *replica)
{
    const struct zab_limits *limits = &replica->options.zab.limits;

    return MUTANT(57) ? limits->tick_ms
                      : CLOCK_LIMITS * (uint64_t)limits->sync_limit * limits->tick_ms;
}

/* Returns the range of the time that a voter's clock may show now. After its connection breaks, the
 * time is continued by the monotonic clock, until the voter has been silent for too long. */
static struct reached clock_of(const struct replica *replica, uint32_t id)
{
    int64_t own_ms = stamp_clamp(replica->wall_ms);

    if (id == replica->options.zab.id) {
        return (struct reached){.least_ms = own_ms, .most_ms = own_ms};
    }
    const struct heartbeat *heartbeat =
        heartbeats_find(replica->heartbeats.known, replica->heartbeats.count, id);

    if (!heartbeat || heartbeat->wall_ms == 0) {
        /* Soon after a start or a pause of this process, the voter has had no time to send its
         * clock, so any time is possible. */
        bool early = replica->now_ms - replica->clock.awake_ms <= silent_ms(replica);

        return (struct reached){.most_ms = early ? STAMP_MAX_MS : 0};
    }
    ASSERT(heartbeat->at_ms <= replica->now_ms);
    int64_t least_ms = heartbeat->wall_ms + (int64_t)(replica->now_ms - heartbeat->at_ms);
    bool bounded = heartbeat->late_ms != HEARTBEAT_LATE_UNKNOWN;

    return (struct reached){.least_ms = least_ms,
                            .most_ms = bounded ? least_ms + heartbeat->late_ms : STAMP_MAX_MS};
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
            stamp_clamp(steady_read(&replica->clock.steady, replica->now_ms, replica->wall_ms));

        return (struct reached){.least_ms = own_ms, .most_ms = own_ms};
    }
    if (voters == 0) {
        return (struct reached){0};
    }
    return (struct reached){.least_ms = stamp_reached(least_ms, voters, voters / 2 + 1),
                            .most_ms = stamp_reached(most_ms, voters, voters / 2 + 1)};
}

/* Forgets the clocks of silent voters. A connected voter may be silent as well, because a voter
 * without a leader sends no heartbeats. A pause of this process does not count as silence of the
 * voters. */
static void forget_silent(struct replica *replica)
{
    if (replica->now_ms - replica->clock.compared_ms > replica->options.zab.limits.tick_ms) {
        replica->clock.awake_ms = replica->now_ms;
    }
    replica->clock.compared_ms = replica->now_ms;
    for (size_t i = 0; i < replica->heartbeats.count; i++) {
        struct heartbeat *heartbeat = &replica->heartbeats.known[i];
        uint64_t since_ms = max_u64(heartbeat->at_ms, replica->clock.awake_ms);

        if (replica->now_ms - since_ms > silent_ms(replica)) {
            heartbeat->wall_ms = 0;
        }
    }
}

void times_compare(struct replica *replica)
{
    forget_silent(replica);
    replica->clock.reached = reached(replica);
}

/* Returns the time that the clocks of a majority have reached by now: that of the last
 * times_compare, plus the time since. */
static struct reached reached_now(const struct replica *replica)
{
    int64_t since_ms = (int64_t)(replica->now_ms - replica->clock.compared_ms);

    ASSERT(replica->now_ms >= replica->clock.compared_ms);
    return (struct reached){.least_ms = stamp_clamp(replica->clock.reached.least_ms + since_ms),
                            .most_ms = stamp_clamp(replica->clock.reached.most_ms + since_ms)};
}

/* Returns by how much this replica's clock is certainly ahead of the majority's; negative: behind.
 * The time of the majority is known as a range only, because heartbeats take time to arrive: within
 * the range the result is 0. */
int64_t times_ahead_ms(const struct replica *replica)
{
    struct reached now = reached_now(replica);
    int64_t own_ms = stamp_clamp(replica->wall_ms);

    if (replica->clock.reached.least_ms == 0) {
        return 0;
    }
    if (own_ms < now.least_ms) {
        return own_ms - now.least_ms;
    }
    return max_i64(own_ms - now.most_ms, 0);
}

/* Returns the next stamp. While the clocks of a majority are not known, stamps stand still. */
static int64_t next_stamp(const struct replica *replica)
{
    struct reached now = reached_now(replica);

    if (MUTANT(50)) {
        now.least_ms = stamp_clamp(replica->wall_ms);
        now.most_ms = now.least_ms;
    }
    if (replica->clock.reached.least_ms == 0) {
        return replica->clock.stamp_ms;
    }
    return stamp_next(replica->clock.stamp_ms, replica->wall_ms, &now);
}

/* ---- Both. ---- */

void lead_times(struct replica *replica, struct txn_header *header)
{
    ASSERT(replica->clock.age.runs);
    header->age_ms = times_age(replica);
    if (MUTANT(51) && replica->wall_ms > header->age_ms) {
        header->age_ms = replica->wall_ms;
        age_seen(&replica->clock.age, header->age_ms);
    }
    header->stamp_ms = next_stamp(replica);
}
