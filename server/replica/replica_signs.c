/* How the replicas are: what this one says of itself, and has heard of the others. */
#include "server/replica/replica_int.h"

enum {
    SAY_MS = 100 /* What goes along with signs of life is made anew so often at most. */
};

/* By the configuration file; NULL: a stranger. */
static const struct zab_seed *seed_of(const struct replica *replica, uint32_t id)
{
    const struct zab_init *init = &replica->options.zab;

    for (uint32_t i = 0; i < init->seed_count; i++) {
        if (init->seeds[i].id == id) {
            return &init->seeds[i];
        }
    }
    return NULL;
}

static struct sign *sign_of(struct replica *replica, uint32_t id)
{
    for (size_t i = 0; i < replica->sign_count; i++) {
        if (replica->signs[i].id == id) {
            return &replica->signs[i];
        }
    }
    if (replica->sign_count == ZAB_MEMBERS_MAX) {
        return NULL;
    }
    struct sign *sign = &replica->signs[replica->sign_count++];

    *sign = (struct sign){.id = id};
    return sign;
}

/* Each replica speaks for itself, and its leader for all. */
static bool may_tell(const struct replica *replica, uint32_t peer, uint32_t id)
{
    return id != replica->options.zab.id && (id == peer || peer == replica->status.leader);
}

/*
 * What was said goes back with what its hearer says: so of each heartbeat it is known how long it
 * and the one that it answers were on their way together. A heartbeat that waited in a socket while
 * this process stood still, or behind a snapshot on a slow link, is told from a wrong clock.
 */
static uint32_t late_of(const struct replica *replica, const struct sign *heard, size_t count)
{
    const struct sign *echo = signs_find(heard, count, replica->options.zab.id);

    if (!echo || echo->made_ms == 0 || echo->made_ms > replica->now_ms) {
        return SIGN_LATE_UNKNOWN;
    }
    ASSERT(echo->at_ms <= replica->now_ms);
    uint64_t passed_ms = replica->now_ms - echo->made_ms;
    uint64_t kept_ms = replica->now_ms - echo->at_ms; /* By its hearer. */
    uint64_t late_ms = passed_ms > kept_ms ? passed_ms - kept_ms : 0;

    return late_ms < SIGN_LATE_UNKNOWN ? (uint32_t)late_ms : SIGN_LATE_UNKNOWN;
}

static uint32_t add_late(uint32_t a, uint32_t b)
{
    return a < SIGN_LATE_UNKNOWN - b ? a + b : SIGN_LATE_UNKNOWN;
}

/* The newest word counts: of a replica that is lost to the leader a former leader may have told
 * something newer. */
void signs_heard(struct replica *replica, uint32_t peer, struct slice bytes)
{
    struct sign heard[ZAB_MEMBERS_MAX];
    size_t count = 0;

    (void)signs_decode(bytes, replica->now_ms, heard, &count);
    uint32_t late_ms = late_of(replica, heard, count);

    for (size_t i = 0; i < count; i++) {
        struct sign *known = NULL;

        if (may_tell(replica, peer, heard[i].id) && seed_of(replica, heard[i].id)) {
            known = sign_of(replica, heard[i].id);
        }
        if (known && heard[i].at_ms >= known->at_ms) {
            *known = heard[i];
            known->late_ms = add_late(known->late_ms, late_ms);
            times_heard(replica, known);
        }
    }
    times_compare(replica);
}

static uint32_t own_flags(const struct replica *replica)
{
    return (replica->status.serving ? SIGN_SERVING : 0) |
           (replica->host.disk_low ? SIGN_DISK_LOW : 0) | (replica->draining ? SIGN_DRAINING : 0);
}

/* Since its start, when it has heard from no leader since. */
static uint64_t lag_of(const struct replica *replica)
{
    uint64_t start_ms = replica->options.zab.now_ms;
    uint64_t heard_ms = replica->status.heard_ms > start_ms ? replica->status.heard_ms : start_ms;

    return replica->now_ms > heard_ms ? replica->now_ms - heard_ms : 0;
}

static void note_self(struct replica *replica)
{
    const struct zab_status *status = &replica->status;
    struct sign *self = sign_of(replica, replica->options.zab.id);
    const struct zab_seed *seed = seed_of(replica, replica->options.zab.id);
    enum sign_role role = sign_role_of(status, seed && seed->voter);
    uint64_t now_ms = replica->now_ms;
    uint64_t lag_ms = lag_of(replica);
    bool leads = status->state == ZAB_LEADING;

    ASSERT(self);
    if (role != self->role || replica->role_since_ms == 0) {
        replica->role_since_ms = now_ms;
    }
    *self = (struct sign){
        .id = replica->options.zab.id,
        .at_ms = now_ms,
        .role = role,
        .flags = own_flags(replica),
        .epoch = status->epoch,
        .zxid = replica->applied,
        .lag_ms = lag_ms < UINT32_MAX ? (uint32_t)lag_ms : UINT32_MAX,
        .role_ms = now_ms - replica->role_since_ms,
        .wall_ms = stamp_clamp(replica->wall_ms),
        .made_ms = now_ms,
        .age_ms = times_age(replica),
        .tree_bytes_max = replica->options.tree_bytes_max,
        .room_bytes_max = leads ? replica->room.bytes_max : 0,
        .room_member = leads ? replica->room.member : 0,
        .mark = expiry_is_on(replica->expiry) ? expiry_mark(replica->expiry) : 0,
        .host = replica->host,
    };
}

/* The smallest limit of this leader and of the voters in step. A voter that has not said its limit
 * yet does so within a tick. Observers and replicas that are not in step count for nothing: they
 * hold no write up. */
static struct prep_room smallest_room(const struct replica *replica)
{
    struct prep_room room = {.bytes_max = replica->options.tree_bytes_max};
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(replica->zab, peers, ZAB_MEMBERS_MAX);

    room.member = room.bytes_max != 0 ? replica->options.zab.id : 0;
    for (size_t i = 0; i < count; i++) {
        const struct zab_peer_status *peer = &peers[i];
        const struct sign *sign = signs_find(replica->signs, replica->sign_count, peer->id);
        bool in_step = peer->voter && peer->counted && peer->connected && peer->synced;

        if (in_step && sign && sign->tree_bytes_max != 0 &&
            (room.bytes_max == 0 || sign->tree_bytes_max < room.bytes_max)) {
            room = (struct prep_room){.bytes_max = sign->tree_bytes_max, .member = peer->id};
        }
    }
    return room;
}

/* Others know the limit in force from their leader, and keep it until they hear of another one. */
void signs_note_room(struct replica *replica)
{
    uint32_t leader = replica->status.leader;
    const struct sign *sign = signs_find(replica->signs, replica->sign_count, leader);

    if (replica->status.state == ZAB_LEADING) {
        replica->room = smallest_room(replica);
    } else if (leader != 0 && sign && sign->role == SIGN_LEADER) {
        replica->room =
            (struct prep_room){.bytes_max = sign->room_bytes_max, .member = sign->room_member};
    }
}

/* What a learner says of itself, and what it has heard of its leader. */
static size_t own_and_leaders(const struct replica *replica, struct sign signs[2])
{
    uint32_t id = replica->options.zab.id;
    uint32_t leader = replica->status.leader;
    const struct sign *self = signs_find(replica->signs, replica->sign_count, id);
    const struct sign *other = signs_find(replica->signs, replica->sign_count, leader);
    size_t count = 0;

    ASSERT(self && replica->status.state != ZAB_LEADING);
    signs[count++] = *self;
    if (leader != id && other) {
        signs[count++] = *other;
    }
    return count;
}

/* A learner speaks of itself, a leader of all. */
static void say(struct replica *replica)
{
    const struct sign *signs = replica->signs;
    size_t count = replica->sign_count;
    struct sign two[2];

    if (replica->status.state != ZAB_LEADING) {
        count = own_and_leaders(replica, two);
        signs = two;
    }
    buf_clear(&replica->txn);
    signs_encode(signs, count, replica->now_ms, &replica->txn);
    zab_say(replica->zab, buf_slice(&replica->txn));
}

void signs_turn(struct replica *replica)
{
    if (replica->said_ms != 0 && replica->now_ms - replica->said_ms < SAY_MS) {
        return;
    }
    replica->said_ms = replica->now_ms;
    signs_note_room(replica);
    note_self(replica);
    times_compare(replica);
    say(replica);
}

void replica_host(struct replica *replica, const struct sign_host *host)
{
    replica->host = *host;
}

size_t replica_signs(const struct replica *replica, struct sign signs[ZAB_MEMBERS_MAX])
{
    memcpy(signs, replica->signs, replica->sign_count * sizeof(signs[0]));
    return replica->sign_count;
}
