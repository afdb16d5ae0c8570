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
        age_heard(&replica->age, sign->epoch, sign->age_ms);
    }
}

/* ---- Stamp. ---- */

/* The clock of a voter now, as far as it has been heard of since it was connected. */
static int64_t clock_of(const struct replica *replica, uint32_t id)
{
    if (id == replica->options.zab.id) {
        return stamp_clamp(replica->wall_ms);
    }
    const struct sign *sign = signs_find(replica->signs, replica->sign_count, id);

    if (!sign || sign->wall_ms == 0) {
        return 0;
    }
    ASSERT(sign->at_ms <= replica->now_ms);
    return sign->wall_ms + (int64_t)(replica->now_ms - sign->at_ms);
}

static int64_t reached(struct replica *replica)
{
    const struct zab_config *config = zab_config(replica->zab);
    int64_t clocks_ms[ZAB_MEMBERS_MAX];
    size_t voters = 0;

    for (uint32_t i = 0; i < config->count; i++) {
        if (config->members[i].voter) {
            clocks_ms[voters++] = clock_of(replica, config->members[i].id);
        }
    }
    const struct zab_member *self = zab_config_find(config, replica->options.zab.id);

    if (voters == 1 && self && self->voter) {
        return steady_read(&replica->steady, replica->now_ms, replica->wall_ms);
    }
    return voters > 0 ? stamp_reached(clocks_ms, voters, voters / 2 + 1) : 0;
}

/* A connected voter may have no leader to answer for long. Time in which this process stood still
 * says nothing about the others. */
static void forget_silent(struct replica *replica)
{
    const struct zab_limits *limits = &replica->options.zab.limits;
    uint64_t silent_ms = CLOCK_LIMITS * (uint64_t)limits->sync_limit * limits->tick_ms;

    if (replica->now_ms - replica->compared_ms > limits->tick_ms) {
        replica->awake_ms = replica->now_ms;
    }
    replica->compared_ms = replica->now_ms;
    for (size_t i = 0; i < replica->sign_count; i++) {
        struct sign *sign = &replica->signs[i];
        uint64_t since_ms = sign->at_ms > replica->awake_ms ? sign->at_ms : replica->awake_ms;

        if (replica->now_ms - since_ms > silent_ms) {
            sign->wall_ms = 0;
        }
    }
}

/* Each heartbeat, not each transaction: between two the monotonic clock counts on. */
void times_compare(struct replica *replica)
{
    forget_silent(replica);
    int64_t reached_ms = reached(replica);

    replica->reached_known = reached_ms > 0;
    replica->reached_ahead_ms = reached_ms - (int64_t)replica->now_ms;
}

int64_t times_ahead_ms(const struct replica *replica)
{
    int64_t own_ms = stamp_clamp(replica->wall_ms) - (int64_t)replica->now_ms;

    return replica->reached_known ? own_ms - replica->reached_ahead_ms : 0;
}

void times_peer_lost(struct replica *replica, uint32_t peer)
{
    for (size_t i = 0; i < replica->sign_count; i++) {
        if (replica->signs[i].id == peer) {
            replica->signs[i].wall_ms = 0;
        }
    }
}

/* Where too few clocks are known, a voter being about to come in step, stamps stand still. */
static int64_t next_stamp(struct replica *replica)
{
    int64_t reached_ms = (int64_t)replica->now_ms + replica->reached_ahead_ms;

    if (MUTANT(50)) {
        reached_ms = replica->wall_ms;
    }
    if (replica->reached_known) {
        replica->stamp_ms =
            stamp_next(replica->stamp_ms, replica->wall_ms, stamp_clamp(reached_ms));
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
