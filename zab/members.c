/*
 * Which replicas are peers: the members of the committed and of the pending configuration, and for
 * a short time those that a change has removed. A replica that is no member counts nowhere, so it
 * need not learn of its removal; it learns so that it stops.
 */
#include "zab/zab_int.h"

enum {
    LEAVE_TICKS = 2 /* A removed replica stays a peer for so long, to learn of its removal. */
};

static void want(struct wanted *wanted, uint32_t self, uint32_t id)
{
    uint32_t at = wanted->count;

    if (id == self || zab_id_is_among(wanted->ids, wanted->count, id) ||
        wanted->count == ZAB_MEMBERS_MAX) {
        return;
    }
    for (; at > 0 && wanted->ids[at - 1] > id; at--) {
        wanted->ids[at] = wanted->ids[at - 1];
    }
    wanted->ids[at] = id;
    wanted->count++;
}

static bool leaves_now(const struct zab *zab, const struct peer *peer)
{
    return peer->leave_ms != 0 && (!peer->up || zab->now_ms >= peer->leave_ms);
}

static void want_all(struct wanted *wanted, uint32_t self, const struct zab_config *config)
{
    for_each_member (member, config) {
        want(wanted, self, member->id);
    }
}

/* Without a configuration of its own, a replica talks to those of the server list, and to the
 * members of the cluster that it has met. */
static void want_known(const struct zab *zab, struct wanted *wanted)
{
    for (uint32_t i = 0; i < zab->servers.count; i++) {
        want(wanted, zab->id, zab->servers.items[i].id);
    }
    want_all(wanted, zab->id, &zab->outside.config);
}

/* An outsider that is a member now is none any more. Returns whether there was one. */
static bool admit_outsiders(struct zab *zab, const struct wanted *wanted)
{
    bool have_changed = false;

    for_each_peer (peer, zab) {
        if (peer->is_outsider && zab_id_is_among(wanted->ids, wanted->count, peer->id)) {
            peer->is_outsider = false;
            have_changed = true;
        }
    }
    return have_changed;
}

/* Members come first: if there are too many peers, outsiders and those that leave are dropped at
 * once. Returns whether an outsider has become a member. */
static bool want_members(struct zab *zab)
{
    struct wanted wanted = {.count = 0};

    if (zab->config.committed.count == 0) {
        want_known(zab, &wanted);
    }
    want_all(&wanted, zab->id, &zab->config.committed);
    if (zab->config.has_pending) {
        want_all(&wanted, zab->id, &zab->config.pending);
    }
    bool have_changed = admit_outsiders(zab, &wanted);

    for_each_peer (peer, zab) {
        if (peer->leave_ms != 0 && !leaves_now(zab, peer)) {
            want(&wanted, zab->id, peer->id);
        }
    }
    for_each_peer (peer, zab) {
        if (peer->is_outsider && peer->up) {
            want(&wanted, zab->id, peer->id);
        }
    }
    peers_want(zab, wanted.ids, wanted.count);
    return have_changed;
}

/* Begins to drop a peer. The leader sends it the configuration, which reaches it even if it is not
 * in step. An answer to a later PING then proves that it has come. */
static void begin_leave(struct zab *zab, struct peer *peer)
{
    peer->leave_ms = zab->now_ms + ticks_ms(zab, LEAVE_TICKS);
    if (peer->up && zab->state == ZAB_LEADING && config_is_settled(zab)) {
        peer->leave_round = zab->lead.ping_round + 1;
        config_send(zab, peer);
    }
}

static void mark_peers(struct zab *zab)
{
    for_each_peer (peer, zab) {
        peer->is_out = config_excludes(zab, peer);
        if (config_names(zab, peer->id)) {
            peer->leave_ms = 0;
            peer->leave_round = 0;
        } else if (peer->leave_ms == 0 && !peer->is_outsider) {
            begin_leave(zab, peer);
        }
    }
}

/* Reports, once, that this very disk was removed. Its incarnation may be missing in the list: that
 * is unknown for an observer that was away, and the list is short. */
static void note_own_removal(struct zab *zab)
{
    /* A disk that never became a member's may be in the list, too: then the hint shows it. */
    bool is_hint = zab->config.committed.count == 0;
    const struct zab_config *config = is_hint ? &zab->outside.config : &zab->config.committed;
    const struct zab_removed *entry = zab_config_find_removed(config, zab->id, zab->incarnation);
    bool is_in = !is_hint && zab_config_find(config, zab->id) != NULL;

    if (!zab->own.is_removed && (entry || (zab->own.was_member && !is_in))) {
        zab->own.is_removed = true;
        fx_add(zab, ZAB_FX_REMOVED)->removed.zxid = entry ? entry->zxid : config->version;
    }
    zab->own.was_member |= is_in;
}

/* Whether the configurations are others than at the last call. */
static bool are_new(struct zab *zab)
{
    zxid_t committed = zab->config.committed.version;
    zxid_t pending = zab->config.has_pending ? zab->config.pending.version : 0;
    bool was_known = zab->own.knows_configs;

    if (zab->config.committed.count == 0 ||
        (was_known && zab->own.committed == committed && zab->own.pending == pending)) {
        return false;
    }
    zab->own.knows_configs = true;
    zab->own.committed = committed;
    zab->own.pending = pending;
    return true;
}

static bool has_same_address(struct slice was, struct slice is, uint32_t id)
{
    struct zab_texts old;
    struct zab_texts new;

    (void)zab_config_texts(was, id, &old);
    (void)zab_config_texts(is, id, &new);
    return old.port == new.port &&slice_eq(old.host, new.host);
}

/* Keeps the encoded configurations from which the peers have their addresses. Returns whether a
 * peer has others than at the last call. */
static bool note_addresses(struct zab *zab)
{
    struct blob *now[2] = {zab->config.committed_bytes, zab->config.has_pending
                                                            ? zab->config.pending_bytes
                                                            : zab->config.committed_bytes};
    bool have_changed = false;

    for (size_t i = 0; i < 2; i++) {
        for_each_peer (peer, zab) {
            have_changed |=
                !has_same_address(blob_slice(zab->own.addresses[i]), blob_slice(now[i]), peer->id);
        }
        blob_unref(zab->own.addresses[i]);
        zab->own.addresses[i] = blob_ref(now[i]);
    }
    return have_changed;
}

static bool some_leave_now(const struct zab *zab)
{
    for_each_peer (peer, zab) {
        if (leaves_now(zab, peer) || (peer->is_outsider && !peer->up)) {
            return true;
        }
    }
    return false;
}

void members_init(struct zab *zab)
{
    (void)are_new(zab);
    (void)want_members(zab);
    (void)peers_update(zab);
    (void)note_addresses(zab);
}

void members_free(struct zab *zab)
{
    blob_unref(zab->own.addresses[0]);
    blob_unref(zab->own.addresses[1]);
}

void members_update(struct zab *zab)
{
    bool is_new = are_new(zab);

    if (is_new || zab->outside.is_new || !zab->own.is_checked) {
        zab->own.is_checked = true;
        note_own_removal(zab);
    }
    if (is_new) {
        mark_peers(zab);
    }
    bool have_changed = false;

    if (is_new) {
        blob_unref(zab->outside.bytes);
        zab->outside = (struct outside){0};
    }
    if (is_new || zab->outside.is_new || some_leave_now(zab)) {
        have_changed |= zab->outside.is_new;
        zab->outside.is_new = false;
        have_changed |= want_members(zab);
    }
    have_changed |= peers_update(zab);
    have_changed |= is_new && note_addresses(zab);
    if (have_changed) {
        (void)fx_add(zab, ZAB_FX_MEMBERS);
    }
}

bool members_refuse(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    if (!peer->is_out && !peer->is_outsider) {
        return false;
    }
    if (msg->type == ZAB_PONG && zab->state == ZAB_LEADING && peer->leave_round != 0 &&
        msg->dialogue == peer->learner.dialogue && msg->pong.round >= peer->leave_round) {
        peer->leave_ms = max_u64(zab->now_ms, 1);
    }
    if (msg->type == ZAB_VOTE) {
        config_tell(zab, peer, msg->vote.config_version);
    }
    if (peer->is_outsider) {
        /* If all that this replica knew of have left, only a replica that it does not know can send
         * it the configuration. */
        return msg->type != ZAB_CONFIG ||
               zab_config_find_removed(&zab->config.committed, peer->id, peer->incarnation);
    }
    return msg->type == ZAB_VOTE || msg->type == ZAB_CEPOCH || msg->type == ZAB_CONFIG;
}
