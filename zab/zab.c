#include "zab/join_int.h"

void zab_limits_default(struct zab_limits *limits)
{
    *limits = (struct zab_limits){
        .tick_ms = 1000,
        .init_limit = 10,
        .sync_limit = 3,
        .pending_max = 20000,
        .pending_bytes_max = 64 << 20,
        .cache_max = 100000,
        .cache_bytes_max = 64 << 20,
        .window_max = 8192,
        .window_bytes_max = 32 << 20,
        .counter_max = UINT32_MAX - 1000000,
        .admit_absent_ms = 10000,
        .admit_again_ms = 600000,
        .level_ms = 10000,
        .step_lag_ms = 1000,
        .promote_ms = 10000,
        .stamp_every = 65536,
        .chunk_bytes = 64 << 10,
        .refill_rate = 32 << 20,
    };
}

void zab_limits_fit_queue(struct zab_limits *limits, uint64_t queue_bytes)
{
    ASSERT(queue_bytes > ZAB_QUEUE_RESERVE);

    uint64_t room = queue_bytes - ZAB_QUEUE_RESERVE;

    limits->window_bytes_max = min_u64(limits->window_bytes_max, room);
}

static void init_log(struct zab *zab, const struct zab_init *init)
{
    ASSERT(!init->has_pending || init->pending.version > init->committed);

    trail_init(&zab->trail, init->limits.cache_max, init->limits.cache_bytes_max);
    trail_init(&zab->follow.staged, init->limits.cache_max, init->limits.cache_bytes_max);
    trail_load(&zab->trail, init->log_base, init->log_last, init->log_chain, init->ranges,
               init->range_count);
    zab->has_snapshot = init->has_snapshot;
    zab->committed = init->committed;
    zab->delivery.last = init->committed;
    zab->delivery.chain = init->committed_chain;
    /* A disk may have joined with a newer configuration than its log contains; an older change in
     * the log is then not pending. */
    zab->config.has_pending = init->has_pending && init->pending.version > init->config.version;
    zab->config.pending = init->pending;
    config_keep(&init->pending, blob_slice(init->pending_bytes), &zab->config.pending_bytes);
    if (init->is_pending_proven) {
        config_prove(zab, init->pending.version);
    }
}

static void init_peers(struct zab *zab, const struct zab_init *init)
{
    join_init(zab, init);
    members_init(zab);
}

struct zab *zab_new(const struct zab_init *init)
{
    ASSERT(init->id >= 1 && init->id <= ZAB_ID_MAX && init->incarnation != 0);
    ASSERT(init->limits.window_max > 0 && init->limits.tick_ms > 0);
    ASSERT(init->limits.chunk_bytes > 0 && init->limits.chunk_bytes <= ZAB_CHUNK_BYTES_MAX);

    struct zab *zab = mem_zalloc(1, sizeof *zab);

    zab->id = init->id;
    zab->incarnation = init->incarnation;
    zab->level_max = init->level_max;
    zab->limits = init->limits;
    rng_init(&zab->rng, init->rng_seed);
    buf_init(&zab->ping_payload, ZAB_PING_PAYLOAD_MAX);
    zab->now_ms = init->now_ms;
    zab->last_step_ms = init->now_ms;
    zab->bootstrapping = init->bootstrapping;
    zab->quarantined = init->quarantined;
    zab->promise.epoch = init->promised_epoch;
    zab->promise.leader = init->promised_leader;
    zab->dialogue_seq = (uint32_t)rng_u64(&zab->rng) | 1;
    config_set(zab, &init->config, blob_slice(init->config_bytes));
    init_log(zab, init);
    init_peers(zab, init);
    zab->state = ZAB_LOOKING;
    return zab;
}

void zab_free(struct zab *zab)
{
    if (!zab) {
        return;
    }
    peers_free(zab);
    members_free(zab);
    facts_free(zab);
    join_free(zab);
    inbox_clear(&zab->follow.inbox);
    mem_free(zab->follow.inbox.items);
    trail_release(&zab->follow.staged);
    trail_release(&zab->trail);
    mem_free(zab->lead.active.items);
    mem_free(zab->lead.waiting.items);
    blob_unref(zab->config.committed_bytes);
    blob_unref(zab->config.pending_bytes);
    blob_unref(zab->follow.staged_bytes);
    blob_unref(zab->partial.bytes);
    buf_release(&zab->ping_payload);
    mem_free(zab);
}

/* ---- Events. ---- */

/* Ends the role of a leader that has received a configuration which its log lacks: a later
 * leader has made it. Voters of that configuration may have acknowledged records of this leader as
 * observers, and have cut them back since. Counted as votes, they would commit a lost record. */
static void yield_to_later_leader(struct zab *zab)
{
    if (zab->state == ZAB_LEADING && zab->config.committed.version > zab->trail.last) {
        enter_looking(zab, "a later leader has changed the configuration");
    }
}

static void on_recv(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    if (!peer->up) {
        return;
    }
    peer->heard_ms = zab->now_ms;
    if (msg->type == ZAB_JOIN) {
        join_on_join(zab, peer, &msg->join);
        return;
    }
    if (members_refuse(zab, peer, msg)) {
        return;
    }
    if (msg->type == ZAB_VOTE) {
        election_on_vote(zab, peer, &msg->vote);
    } else if (msg->type == ZAB_CONFIG) {
        bootstrap_on_config(zab, peer, &msg->config);
        yield_to_later_leader(zab);
    } else if (msg->type == ZAB_EXCLUDE) {
        admit_on_exclude(zab, peer, msg);
    } else if (zab->state == ZAB_LEADING) {
        lead_on_message(zab, peer, msg);
    } else if (is_learner(zab)) {
        follow_on_message(zab, peer, msg);
    } else if (msg->type == ZAB_CEPOCH) {
        peer->learner.early = *msg;
    }
}

/* Applies a completed disk change to what this replica knows of its own disk, whatever role it has
 * now. */
static void on_change_done(struct zab *zab, const struct pending_change *change,
                           const struct zab_ev_persisted *done)
{
    ASSERT(change->token <= done->token);
    switch (change->type) {
    case ZAB_PERSIST_PROMISE:
        zab->promise.epoch = change->epoch;
        zab->promise.leader = change->leader;
        break;
    case ZAB_PERSIST_JOIN:
        zab->bootstrapping = false;
        break;
    case ZAB_PERSIST_RELEASE:
        zab->quarantined = false;
        break;
    case ZAB_PERSIST_TRUNCATE:
        if (done->token == change->token) {
            ASSERT(done->last == zab->trail.last);
            zab->trail.last_chain = done->last_chain;
        }
        break;
    case ZAB_PERSIST_RESET:
        follow_reset_done(zab);
        break;
    case ZAB_PERSIST_SNAP_INSTALL:
        follow_install_done(zab, done);
        break;
    case ZAB_PERSIST_APPEND:
    case ZAB_PERSIST_QUARANTINE:
    case ZAB_PERSIST_SNAP_BEGIN:
    case ZAB_PERSIST_SNAP_CHUNK:
    case ZAB_PERSIST_SNAP_ABORT:
        break;
    }
}

static void on_persisted(struct zab *zab, const struct zab_ev_persisted *done)
{
    ASSERT(done->token <= zab->disk.issued);
    ASSERT(done->token >= zab->disk.done);

    uint32_t count = 0;

    zab->disk.done = done->token;
    while (count < zab->disk.change_count && zab->disk.changes[count].token <= done->token) {
        on_change_done(zab, &zab->disk.changes[count], done);
        count++;
    }
    zab->disk.change_count -= count;
    memmove(zab->disk.changes, zab->disk.changes + count,
            zab->disk.change_count * sizeof zab->disk.changes[0]);
    (void)trail_persisted(&zab->trail, done->token);
    (void)trail_persisted(&zab->follow.staged, done->token);
    if (zab->state == ZAB_LEADING) {
        lead_on_persisted(zab);
    } else if (zab->state == ZAB_LOOKING) {
        election_check(zab);
    } else {
        follow_on_persisted(zab, done);
    }
}

static void on_fetched(struct zab *zab, const struct zab_ev_fetched *fetched)
{
    if (fetched->token == zab->delivery.fetch_token) {
        log_on_fetched(zab, fetched);
    } else if (zab->state == ZAB_LEADING) {
        sync_on_fetched(zab, fetched);
    }
}

static void on_stored_snap(struct zab *zab, const struct zab_ev_stored_snap *snap)
{
    /* A snapshot whose start is not in the log belongs to a log that was reset or replaced while
     * this event was on its way; its file was removed, too. */
    if (!trail_has(&zab->trail, snap->start)) {
        return;
    }
    zab->has_snapshot = true;
    trail_purge(&zab->trail, snap->log_base);
    ASSERT(zab->trail.base >= snap->log_base);
    if (zab->state == ZAB_LEADING) {
        keep_on_purged(zab);
        sync_retry(zab, true);
    }
}

static void on_purged(struct zab *zab, zxid_t base)
{
    if (!trail_has(&zab->trail, base)) {
        return; /* The base is of a log that was reset or replaced while this event was on its way.
                 */
    }
    trail_purge(&zab->trail, base);
    if (zab->state == ZAB_LEADING) {
        keep_on_purged(zab);
    }
}

static void on_resign(struct zab *zab, bool resign)
{
    zab->election.resigned = resign;
    if (resign && zab->state == ZAB_LEADING && zab->lead.phase == LEADER_BROADCAST) {
        zab->lead.resigning = true;
        zab->lead.resign_deadline_ms = zab->now_ms + ticks_ms(zab, 1);
    } else if (!resign && zab->state == ZAB_LEADING) {
        zab->lead.resigning = false;
    } else if (resign && zab->state == ZAB_LOOKING) {
        /* Withdraws this replica's vote for itself. */
        enter_looking(zab, "this replica was asked not to lead");
    }
}

bool zab_hand_over(struct zab *zab)
{
    ASSERT(!zab->effects);
    if (!is_broadcasting(zab) || zab->lead.resigning) {
        return false;
    }
    PROBE("zab.resigns_for_a_change");
    zab->lead.resigning = true;
    zab->lead.leaves = true;
    zab->lead.resign_deadline_ms = zab->now_ms + ticks_ms(zab, 1);
    return true;
}

static void on_event(struct zab *zab, const struct zab_event *event)
{
    ASSERT(event->peer != zab->id);

    struct peer *peer = event->peer ? peer_find(zab, event->peer) : NULL;

    switch (event->type) {
    case ZAB_EV_TICK:
        break;
    case ZAB_EV_PEER_UP:
        join_on_up(zab, &event->peer_up);
        peer = peer ? peer : peer_meet(zab, event->peer);
        if (peer) {
            peer_down(zab, peer);
            peer_up(zab, peer, &event->peer_up);
        }
        break;
    case ZAB_EV_PEER_DOWN:
        if (peer) {
            peer_down(zab, peer);
        }
        break;
    case ZAB_EV_RECV:
        if (peer) {
            on_recv(zab, peer, event->msg);
        }
        break;
    case ZAB_EV_PERSISTED:
        on_persisted(zab, &event->persisted);
        break;
    case ZAB_EV_FETCHED:
        on_fetched(zab, &event->fetched);
        break;
    case ZAB_EV_SNAP_FETCHED:
        if (zab->state == ZAB_LEADING) {
            sync_on_snap_fetched(zab, &event->snap_fetched);
        }
        break;
    case ZAB_EV_RESTORED:
        follow_on_restored(zab, &event->restored);
        break;
    case ZAB_EV_SPACE:
        zab->low_space = event->is_space_low;
        follow_tell_space(zab);
        break;
    case ZAB_EV_RESIGN:
        on_resign(zab, event->is_to_resign);
        break;
    case ZAB_EV_STORED_SNAP:
        on_stored_snap(zab, &event->stored_snap);
        break;
    case ZAB_EV_PURGED:
        on_purged(zab, event->purged_base);
        break;
    case ZAB_EV_REACHED:
        zab->join.is_reached = event->is_all_reached;
        break;
    }
}

/* What the disk has may be of a later release, too. */
static void check_levels(struct zab *zab)
{
    if (zab->election.started) {
        return;
    }
    if (config_is_known(zab, &zab->config.committed) && zab->config.has_pending) {
        (void)config_is_known(zab, &zab->config.pending);
    }
}

static void run_timers(struct zab *zab)
{
    if (zab->state == ZAB_LEADING) {
        lead_tick(zab);
    } else if (zab->state == ZAB_LOOKING) {
        election_tick(zab);
    } else {
        follow_tick(zab);
    }
}

/* Notes a pause of the whole process. Messages that came during the pause are still in the sockets,
 * so no timeout counts for one tick. */
static void note_pause(struct zab *zab)
{
    ASSERT(zab->now_ms >= zab->last_step_ms);

    uint64_t gap_ms = zab->now_ms - zab->last_step_ms;

    if (gap_ms > ticks_ms(zab, zab->limits.sync_limit) / 2) {
        PROBE("zab.paused");
        zab->lead.grace_ms = zab->now_ms + ticks_ms(zab, 1);
        zab->follow.grace_ms = zab->now_ms + ticks_ms(zab, 1);
    }
    zab->last_step_ms = zab->now_ms;
}

void zab_step(struct zab *zab, const struct zab_event *event, struct zab_effects *effects)
{
    ASSERT(event->now_ms >= zab->now_ms);
    ASSERT(!zab->effects);

    zab->effects = effects;
    check_levels(zab);
    zab->election.started = true;
    zab->now_ms = event->now_ms;
    zab->age_ms = event->age_ms;
    trail_shrink(&zab->trail, zab->delivery.last);
    trail_shrink(&zab->follow.staged, zab->follow.staged.durable);
    note_pause(zab);
    on_event(zab, event);
    run_timers(zab);
    deliver(zab);
    join_step(zab);
    members_update(zab);
    note_serving(zab);
    ASSERT(zab->delivery.last <= zab->committed);
    zab->effects = NULL;
}

uint64_t zab_wake_ms(const struct zab *zab)
{
    if (zab->delivery.more) {
        return zab->now_ms;
    }
    if (zab->state == ZAB_LEADING) {
        return lead_wake_ms(zab);
    }
    return zab->state == ZAB_LOOKING ? election_wake_ms(zab) : follow_wake_ms(zab);
}

const struct zab_config *zab_config(const struct zab *zab)
{
    return &zab->config.committed;
}

const struct zab_config *zab_pending(const struct zab *zab)
{
    return zab->config.has_pending ? &zab->config.pending : NULL;
}

struct slice zab_pending_bytes(const struct zab *zab)
{
    return zab->config.has_pending ? blob_slice(zab->config.pending_bytes) : slice_make(NULL, 0);
}

struct slice zab_config_bytes(const struct zab *zab)
{
    return blob_slice(zab->config.committed_bytes);
}
