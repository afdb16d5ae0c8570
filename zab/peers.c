/*
 * The peers: the other replicas that this one talks to. A peer's struct keeps its address from
 * peer_add to peer_drop. Both are called only by peers_update, at the end of a step, and by
 * peer_meet, at its beginning: no loop over the peers is under way then, and no caller holds a
 * pointer to one.
 */
#include "zab/zab_int.h"

void peer_up(struct zab *zab, struct peer *peer, const struct zab_ev_peer_up *up)
{
    ASSERT(!peer->up && peer->learner.stage == LEARNER_NONE);

    peer->up = true;
    peer->incarnation = up->incarnation;
    peer->bootstrapping = up->bootstrapping;
    peer->level = up->level;
    peer->up_ms = zab->now_ms;
    peer->is_in_cluster = !slice_is_zero(slice_make(up->cluster, ZAB_CLUSTER_LEN));
    peer->word = (struct join_word){0};
    peer->vote.valid = false;
    peer->is_out = config_excludes(zab, peer);
    if (peer->known_incarnation != up->incarnation) {
        peer->known_incarnation = up->incarnation;
        peer->known_last = 0;
        peer->known_promised = 0;
    }
    bootstrap_check(zab);
    election_greet(zab, peer);
}

void peer_down(struct zab *zab, struct peer *peer)
{
    if (!peer->up) {
        return;
    }
    peer->up = false;
    peer->vote.valid = false;
    if (quorum_counts(zab, peer->id, peer->incarnation)) {
        peer->seen_ms = zab->now_ms;
    }
    if (zab->state == ZAB_LEADING) {
        lead_peer_down(zab, peer);
    } else if (zab->state == ZAB_LOOKING) {
        election_check(zab);
    } else if (zab->follow.leader == peer->id) {
        enter_looking(zab, "the connection to the leader has closed");
    }
    ASSERT(peer->learner.stage == LEARNER_NONE);
}

static bool is_wanted(const struct wanted *wanted, uint32_t id)
{
    for (uint32_t i = 0; i < wanted->count; i++) {
        if (wanted->ids[i] == id) {
            return true;
        }
    }
    return false;
}

static struct peer *peer_add(struct zab *zab, uint32_t id)
{
    ASSERT(zab->peer_count < ZAB_MEMBERS_MAX && !peer_find(zab, id));

    struct peer *peer = mem_zalloc(1, sizeof *peer);
    uint32_t at = zab->peer_count++;

    peer->id = id;
    peer->seen_ms = zab->now_ms;
    peer->learner.flight.zxids = mem_zalloc(zab->limits.window_max, sizeof(zxid_t));
    peer->learner.flight.bytes = mem_zalloc(zab->limits.window_max, sizeof(uint32_t));
    while (at > 0 && zab->peers[at - 1]->id > id) {
        zab->peers[at] = zab->peers[at - 1];
        at--;
    }
    zab->peers[at] = peer;
    return peer;
}

static void peer_free(struct zab *zab, struct peer *peer)
{
    learner_reset(zab, peer);
    mem_free(peer->learner.flight.zxids);
    mem_free(peer->learner.flight.bytes);
    mem_free(peer);
}

/* Ends all that this replica has under way with the peer, as if its connection had closed: if this
 * replica follows it or needs it for its quorum, that role ends. What names the peer by its id (a
 * request that waits for a quorum round, a fetch, a vote for it) no longer finds it. */
static void peer_drop(struct zab *zab, uint32_t at)
{
    struct peer *peer = zab->peers[at];

    ASSERT(at < zab->peer_count);
    peer_down(zab, peer);
    zab->peer_count--;
    memmove(zab->peers + at, zab->peers + at + 1, (zab->peer_count - at) * sizeof(struct peer *));
    peer_free(zab, peer);
}

struct peer *peer_meet(struct zab *zab, uint32_t id)
{
    uint32_t outsiders = 0;

    for_each_peer (peer, zab) {
        outsiders += peer->is_outsider ? 1 : 0;
    }
    if (outsiders == ZAB_OUTSIDERS_MAX || zab->peer_count == ZAB_MEMBERS_MAX) {
        fx_disconnect(zab, id);
        return NULL;
    }
    struct peer *peer = peer_add(zab, id);

    peer->is_outsider = true;
    return peer;
}

void peers_want(struct zab *zab, const uint32_t *ids, uint32_t count)
{
    ASSERT(count <= ZAB_MEMBERS_MAX);

    for (uint32_t i = 0; i < count; i++) {
        ASSERT(ids[i] != zab->id && ids[i] > (i > 0 ? ids[i - 1] : 0));
        zab->wanted.ids[i] = ids[i];
    }
    zab->wanted.count = count;
    zab->wanted.is_new = true;
}

bool peers_update(struct zab *zab)
{
    bool have_changed = false;

    if (!zab->wanted.is_new) {
        return false;
    }
    zab->wanted.is_new = false;
    for (uint32_t at = zab->peer_count; at > 0; at--) {
        const struct peer *peer = zab->peers[at - 1];

        if (!is_wanted(&zab->wanted, peer->id)) {
            if (peer->is_outsider && peer->up) {
                fx_disconnect(zab, peer->id); /* A member needs its place. */
            }
            have_changed |= !peer->is_outsider;
            peer_drop(zab, at - 1);
        }
    }
    for (uint32_t i = 0; i < zab->wanted.count; i++) {
        if (!peer_find(zab, zab->wanted.ids[i])) {
            (void)peer_add(zab, zab->wanted.ids[i]);
            have_changed = true;
        }
    }
    ASSERT(zab->peer_count == zab->wanted.count);
    return have_changed;
}

void peers_free(struct zab *zab)
{
    for_each_peer (peer, zab) {
        peer_free(zab, peer);
    }
    zab->peer_count = 0;
}
