/* The status of all replicas: what this replica sends with its heartbeats, and what it has
 * received. */
#include "server/replica/replica_int.h"

enum {
    MAKE_EVERY_MS = 100 /* Shortest time between two payloads of heartbeats. */
};

const struct zab_seed *replica_seed(const struct zab_init *init, uint32_t id)
{
    for (uint32_t i = 0; i < init->seed_count; i++) {
        if (init->seeds[i].id == id) {
            return &init->seeds[i];
        }
    }
    return NULL;
}

bool replica_founds(const struct zab_init *init)
{
    const struct zab_seed *self = replica_seed(init, init->id);

    return self ? self->voter : init->id <= init->bootstrap;
}

size_t replica_ids(const struct replica *replica, uint32_t ids[REPLICA_IDS_MAX])
{
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(replica->zab, peers, ZAB_MEMBERS_MAX);

    ids[0] = replica->options.zab.id;
    for (size_t i = 0; i < count; i++) {
        ids[i + 1] = peers[i].id;
    }
    return count + 1;
}

static struct heartbeat *heartbeat_of(struct replica *replica, uint32_t id)
{
    return heartbeats_place(replica->heartbeats.known, &replica->heartbeats.count, id);
}

/* Forgets replicas that are no peers of this one any more. */
static void forget_others(struct replica *replica)
{
    uint32_t ids[REPLICA_IDS_MAX];
    size_t count = replica_ids(replica, ids);

    heartbeats_keep(replica->heartbeats.known, &replica->heartbeats.count, ids, count);
}

/*
 * Returns the longest time for which a received heartbeat can have been in transit. The heartbeat
 * echoes the last status that its sender has received from this replica, and tells how long ago the
 * sender received that status. The round trip minus this time is the result. So if a heartbeat
 * waited in a socket during a pause, or behind a snapshot on a slow link, it is known that the
 * clock time in the heartbeat may be old, and the sender's clock is not mistaken for a wrong one.
 */
static uint32_t late_of(const struct replica *replica, const struct heartbeat *heard, size_t count)
{
    const struct heartbeat *echo = heartbeats_find(heard, count, replica->options.zab.id);

    if (!echo || echo->made_ms == 0 || echo->made_ms > replica->now_ms) {
        return HEARTBEAT_LATE_UNKNOWN;
    }
    ASSERT(echo->at_ms <= replica->now_ms);
    uint64_t passed_ms = replica->now_ms - echo->made_ms;
    uint64_t kept_ms = replica->now_ms - echo->at_ms; /* How long the sender has had it. */
    uint64_t late_ms = passed_ms > kept_ms ? passed_ms - kept_ms : 0;

    return (uint32_t)min_u64(late_ms, HEARTBEAT_LATE_UNKNOWN);
}

/* Takes the statuses in a heartbeat, and keeps for each replica the status that was made last. A
 * heartbeat may bring an older status than the one known here: the leader that sends it may have
 * lost contact with a replica, while a former leader has sent a newer status of that replica. */
void heartbeats_heard(struct replica *replica, uint32_t peer, struct slice bytes)
{
    struct heartbeat heard[ZAB_MEMBERS_MAX];
    uint32_t ids[REPLICA_IDS_MAX];
    size_t id_count = replica_ids(replica, ids);
    size_t count = 0;

    (void)heartbeats_decode(bytes, replica->now_ms, heard, &count);
    uint32_t late_ms = late_of(replica, heard, count);

    for (size_t i = 0; i < count; i++) {
        /* Each replica may send its own status, and the leader the status of all replicas. */
        bool may_report = heard[i].id != replica->options.zab.id &&
                          (heard[i].id == peer || peer == replica->status.leader) &&
                          zab_id_is_among(ids, id_count, heard[i].id);
        struct heartbeat *known = may_report ? heartbeat_of(replica, heard[i].id) : NULL;

        if (known && heard[i].at_ms >= known->at_ms) {
            *known = heard[i];
            known->late_ms =
                (uint32_t)min_u64((uint64_t)known->late_ms + late_ms, HEARTBEAT_LATE_UNKNOWN);
            times_heard(replica, known);
        }
    }
    times_compare(replica);
}

/* Whether this replica is a member with a seat, perhaps an empty one: in the committed
 * configuration; while there is none, in the configuration file. */
static bool has_seat(const struct replica *replica)
{
    uint32_t id = replica->options.zab.id;
    const struct zab_config *committed = zab_config(replica->zab);
    const struct zab_member *member = zab_config_find(committed, id);

    return committed->count > 0 ? member && (member->voter || member->empty_seat)
                                : replica_founds(&replica->options.zab);
}

static void note_self(struct replica *replica)
{
    const struct zab_status *status = &replica->status;
    /* The own entry was made before the first heartbeat arrived, and is never removed. */
    struct heartbeat *self = heartbeat_of(replica, replica->options.zab.id);
    enum replica_role role = replica_role_of(status, has_seat(replica));
    uint64_t now_ms = replica->now_ms;
    /* The last contact with a leader with a quorum, or the start. */
    uint64_t heard_ms = max_u64(status->heard_ms, replica->options.zab.now_ms);
    bool leads = status->state == ZAB_LEADING;

    ASSERT(self);
    if (role != self->role || replica->heartbeats.role_since_ms == 0) {
        replica->heartbeats.role_since_ms = now_ms;
    }
    *self = (struct heartbeat){
        .id = replica->options.zab.id,
        .at_ms = now_ms,
        .role = role,
        .flags = (status->serving ? HEARTBEAT_SERVING : 0) |
                 (replica->heartbeats.host.disk_low ? HEARTBEAT_DISK_LOW : 0) |
                 (replica->drain.on ? HEARTBEAT_DRAINING : 0),
        .epoch = status->epoch,
        .zxid = replica->tree.applied,
        .lag_ms = (uint32_t)min_u64(now_ms > heard_ms ? now_ms - heard_ms : 0, UINT32_MAX),
        .role_ms = now_ms - replica->heartbeats.role_since_ms,
        .wall_ms = stamp_clamp(replica->wall_ms),
        .made_ms = now_ms,
        .age_ms = times_age(replica),
        .tree_bytes_max = replica->options.tree_bytes_max,
        .room_bytes_max = leads ? replica->heartbeats.room.bytes_max : 0,
        .room_member = leads ? replica->heartbeats.room.member : 0,
        .mark = expiry_is_on(replica->sessions.expiry) ? expiry_mark(replica->sessions.expiry) : 0,
        .host = replica->heartbeats.host,
    };
}

/* Returns the smallest maxTreeBytes of this leader and of the voters in step. The limit of each
 * voter in step is known, because its ACK_NEWLEADER carries a heartbeat. The limits of observers
 * and of replicas that are not in step are ignored: no write waits for these replicas. */
static struct prep_room smallest_room(const struct replica *replica)
{
    struct prep_room room = {.bytes_max = replica->options.tree_bytes_max};
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(replica->zab, peers, ZAB_MEMBERS_MAX);

    room.member = room.bytes_max != 0 ? replica->options.zab.id : 0;
    for (size_t i = 0; i < count; i++) {
        const struct zab_peer_status *peer = &peers[i];
        const struct heartbeat *heartbeat =
            heartbeats_find(replica->heartbeats.known, replica->heartbeats.count, peer->id);
        bool in_step = peer->voter && peer->counted && peer->connected && peer->synced;

        if (in_step && heartbeat && heartbeat->tree_bytes_max != 0 &&
            (room.bytes_max == 0 || heartbeat->tree_bytes_max < room.bytes_max)) {
            room = (struct prep_room){.bytes_max = heartbeat->tree_bytes_max, .member = peer->id};
        }
    }
    return room;
}

/* Updates the limit in force. A learner takes the limit from its leader's heartbeat and keeps it
 * until the next heartbeat. */
void heartbeats_note_room(struct replica *replica)
{
    uint32_t leader = replica->status.leader;
    const struct heartbeat *heartbeat =
        heartbeats_find(replica->heartbeats.known, replica->heartbeats.count, leader);

    if (replica->status.state == ZAB_LEADING) {
        replica->heartbeats.room = smallest_room(replica);
    } else if (leader != 0 && heartbeat && heartbeat->role == ROLE_LEADER) {
        replica->heartbeats.room = (struct prep_room){.bytes_max = heartbeat->room_bytes_max,
                                                      .member = heartbeat->room_member};
    }
}

/* Fills the statuses that a learner sends: its own, and its leader's as last received. */
static size_t own_and_leaders(const struct replica *replica, struct heartbeat heartbeats[2])
{
    uint32_t id = replica->options.zab.id;
    uint32_t leader = replica->status.leader;
    const struct heartbeat *self =
        heartbeats_find(replica->heartbeats.known, replica->heartbeats.count, id);
    const struct heartbeat *other =
        heartbeats_find(replica->heartbeats.known, replica->heartbeats.count, leader);
    size_t count = 0;

    ASSERT(self && replica->status.state != ZAB_LEADING);
    heartbeats[count++] = *self;
    if (leader != id && other) {
        heartbeats[count++] = *other;
    }
    return count;
}

/* Makes the payload of the next heartbeats: a leader sends the status of all replicas. */
static void make_payload(struct replica *replica)
{
    const struct heartbeat *heartbeats = replica->heartbeats.known;
    size_t count = replica->heartbeats.count;
    struct heartbeat two[2];

    if (replica->status.state != ZAB_LEADING) {
        count = own_and_leaders(replica, two);
        heartbeats = two;
    }
    buf_clear(&replica->txn);
    heartbeats_encode(heartbeats, count, replica->now_ms, &replica->txn);
    zab_set_ping_payload(replica->zab, buf_slice(&replica->txn));
}

void heartbeats_turn(struct replica *replica)
{
    if (replica->heartbeats.made_ms != 0 &&
        replica->now_ms - replica->heartbeats.made_ms < MAKE_EVERY_MS) {
        return;
    }
    replica->heartbeats.made_ms = replica->now_ms;
    forget_others(replica);
    heartbeats_note_room(replica);
    note_self(replica);
    times_compare(replica);
    make_payload(replica);
}

void replica_host(struct replica *replica, const struct heartbeat_host *host)
{
    replica->heartbeats.host = *host;
}

size_t replica_heartbeats(const struct replica *replica,
                          struct heartbeat heartbeats[ZAB_MEMBERS_MAX])
{
    memcpy(heartbeats, replica->heartbeats.known,
           replica->heartbeats.count * sizeof(heartbeats[0]));
    return replica->heartbeats.count;
}
