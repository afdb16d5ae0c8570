#include "server/replica/replica_int.h"

void replica_effects_clear(struct replica_effects *effects)
{
    zab_effects_clear(&effects->zab);
    effects->take_snapshot = false;
    effects->status_changed = false;
}

/* Draws the next snapshot point at random between half and the whole of the configured number, so
 * that replicas do not take snapshots at the same time. */
static void draw_snapshot_point(struct replica *replica)
{
    uint64_t count = replica->options.snap_count;
    uint64_t bytes = replica->options.snap_bytes;

    replica->snapshot.at_records = count / 2 + rng_below(&replica->rng, count / 2 + 1) + 1;
    replica->snapshot.at_bytes = bytes / 2 + rng_below(&replica->rng, bytes / 2 + 1) + 1;
}

static void refresh(struct replica *replica)
{
    zab_status(replica->zab, &replica->status);
    progress_note(&replica->progress.logged, replica->status.last, replica->now_ms);
    progress_note(&replica->progress.durable, replica->status.durable, replica->now_ms);
    progress_note(&replica->progress.committed, replica->status.committed, replica->now_ms);
}

/* Copies the options and the seeds; all other memory that the options point to belongs to the
 * caller. */
static void keep_options(struct replica *replica, const struct replica_options *options)
{
    struct zab_init *init = &replica->options.zab;

    ASSERT(options->zab.seed_count <= ZAB_MEMBERS_MAX);
    replica->options = *options;
    if (init->seed_count > 0) {
        memcpy(replica->seeds, init->seeds, init->seed_count * sizeof replica->seeds[0]);
    }
    init->seeds = replica->seeds;
    init->ranges = NULL;
    init->range_count = 0;
    init->config_bytes = NULL;
    init->pending_bytes = NULL;
}

/* Takes the ensemble's age from the recovered configuration and state, and the stamp from the state
 * (clock.h). */
static void take_times(struct replica *replica)
{
    const struct state *state = view_read(replica->view);

    times_turn(replica);
    times_of_config(replica, &replica->options.zab.config);
    if (state) {
        times_of_state(replica, state);
        view_read_done(replica->view);
    }
}

struct replica *replica_new(const struct replica_options *options)
{
    ASSERT(options->requests_max > 0);

    struct replica *replica = mem_zalloc(1, sizeof *replica);

    keep_options(replica, options);
    replica->zab = zab_new(&options->zab);
    replica->prep = prep_new(&options->prep);
    replica->view = options->view;
    rng_init(&replica->rng, options->zab.rng_seed ^ options->boot);
    zab_effects_init(&replica->inner);
    list_init(&replica->requests.all);
    fifos_init(replica);
    list_init(&replica->learners.deferred);
    list_init(&replica->learners.forwards);
    map_init(&replica->requests.by_id);
    map_init(&replica->learners.deferred_by_token);
    buf_init(&replica->txn, TXN_BYTES_MAX);
    replica->now_ms = options->zab.now_ms;
    replica->clock.compared_ms = replica->now_ms;
    replica->clock.awake_ms = replica->now_ms;
    replica->tree.applied = options->zab.committed;
    replica->requests.waiting_min = UINT64_MAX;
    replica->snapshot.records = options->records_since_snap;
    replica->requests.scan_ms = replica->now_ms + DEADLINE_SCAN_MS;
    replica->leader.reap_ms = replica->now_ms + options->reap_every_ms;
    replica->sessions.report_every_ms =
        options->zab.limits.tick_ms / 2 > 0 ? options->zab.limits.tick_ms / 2 : 1;
    replica->sessions.report_ms = replica->now_ms + replica->sessions.report_every_ms;
    replica->sessions.expiry = expiry_new(replica->sessions.report_every_ms);
    draw_snapshot_point(replica);
    refresh(replica);
    take_times(replica);
    if (options->window) {
        window_restart(options->window, replica->tree.applied); /* The recovered state is whole. */
    }
    return replica;
}

void replica_free(struct replica *replica)
{
    if (!replica) {
        return;
    }
    requests_close(replica);
    lead_clear(replica);
    replica_release_kept(replica);
    mem_free(replica->kept.items);
    mem_free(replica->requests.ready);
    map_release(&replica->requests.by_id);
    map_release(&replica->learners.deferred_by_token);
    buf_release(&replica->txn);
    state_changes_release(&replica->tree.changes);
    zab_effects_release(&replica->inner);
    expiry_free(replica->sessions.expiry);
    prep_free(replica->prep);
    zab_free(replica->zab);
    mem_free(replica);
}

/* ---- Roles. ---- */

/* Makes an empty tree when there is none yet and this replica knows the cluster: bootstrapping or
 * joining has given it a configuration, which contains the history id (Zk-History) of the tree. */
static void make_state(struct replica *replica)
{
    const struct zab_config *config = zab_config(replica->zab);

    if (config->count == 0 || replica->status.quarantined) {
        return;
    }
    if (view_read(replica->view)) {
        view_read_done(replica->view);
        return;
    }
    view_replace(replica->view, state_new(config->history));
}

static void on_role(struct replica *replica, struct replica_effects *out)
{
    struct zab_status before = replica->status;

    refresh(replica);
    /* The protocol already reports `serving`, but the last deliveries of this step come after this
     * effect. So `serving` stays false until the next ROLE effect, which follows them. */
    if (!before.serving && replica->tree.applied < replica->status.delivered) {
        replica->status.serving = false;
    }
    out->status_changed = true;
    make_state(replica);
    if (before.state != replica->status.state || before.leader != replica->status.leader ||
        (before.serving && !replica->status.serving)) {
        if (replica->status.state == ZAB_LOOKING) {
            replica->counts.elections++;
        }
        prep_clear(replica->prep);
        replica->leader.low_since = 0;
        replica->leader.hands_over_ms = 0;
        lead_clear(replica);
        sessions_role_ended(replica);
        requests_role_ended(replica);
    }
    replica_update_readable(replica); /* Before any request may read. */
    if (replica->status.serving && (!before.serving || before.epoch != replica->status.epoch)) {
        requests_new_epoch(replica);
    }
    times_turn(replica);
    heartbeats_note_room(replica);
    sessions_role_began(replica);
}

/* ---- Effects. ---- */

static void pass_on(struct replica_effects *out, const struct zab_effect *effect)
{
    struct zab_effects *list = &out->zab;

    MEM_GROW(list->items, list->count, list->cap, MEM_ITEMS_MAX);
    list->items[list->count++] = *effect;
}

static void take_effect(struct replica *replica, size_t index, struct replica_effects *out)
{
    struct zab_effect effect = replica->inner.items[index];

    switch (effect.type) {
    case ZAB_FX_CONFIRMED:
        if (!sessions_confirmed(replica, effect.confirmed.request) &&
            !lead_confirmed(replica, effect.confirmed.request)) {
            requests_confirmed(replica, effect.confirmed.request, effect.confirmed.zxid);
        }
        break;
    case ZAB_FX_FORWARDED:
        lead_forwarded(replica, &effect.forwarded);
        break;
    case ZAB_FX_REFUSED:
        requests_refused(replica, effect.refused.request, effect.refused.bytes);
        break;
    case ZAB_FX_PING_PAYLOAD:
        heartbeats_heard(replica, effect.ping_payload.peer, effect.ping_payload.bytes);
        break;
    case ZAB_FX_ROLE:
        on_role(replica, out);
        break;
    case ZAB_FX_DISCONNECT:
        sessions_peer_lost(replica, effect.disconnect.peer);
        pass_on(out, &replica->inner.items[index]);
        break;
    case ZAB_FX_SEND:
    case ZAB_FX_PERSIST:
    case ZAB_FX_FETCH:
    case ZAB_FX_SNAP_FETCH:
    case ZAB_FX_MEMBERS:
    case ZAB_FX_SEARCH:
    case ZAB_FX_HALT:
    case ZAB_FX_ALARM:
        pass_on(out, &replica->inner.items[index]);
        break;
    case ZAB_FX_REMOVED:
        replica->is_removed = true;
        pass_on(out, &replica->inner.items[index]);
        break;
    case ZAB_FX_RESTORE:
        replica->tree.loading++;
        replica_restoring(replica);
        pass_on(out, &replica->inner.items[index]);
        break;
    case ZAB_FX_DELIVER:
        UNREACHABLE();
    }
}

/* Runs the effects that concern this replica and passes the others to the host. An effect that is
 * run may add further effects. */
static void take_effects(struct replica *replica, struct replica_effects *out)
{
    size_t at = 0;

    while (at < replica->inner.count) {
        if (replica->inner.items[at].type == ZAB_FX_DELIVER) {
            at = replica_deliver(replica, at);
        } else {
            take_effect(replica, at, out);
            at++;
        }
        if (at == replica->inner.count) {
            refresh(replica);
            requests_run_queue(replica);
            lead_run_forwards(replica);
        }
    }
    if (replica->is_removed && !replica->status.serving) {
        requests_removed(replica);
    }
    requests_unblocked(replica);
    zab_effects_clear(&replica->inner);
}

/* ---- Snapshots and other periodic work. ---- */

/* Whether a snapshot is due. The size of the log makes a snapshot due only while this replica
 * serves. A learner that waits for a snapshot makes one due even before this replica serves: a
 * leader may need that learner for its quorum, and cannot serve without a quorum. A snapshot before
 * serving is safe, because the applied state is committed. */
static bool is_snapshot_due(const struct replica *replica)
{
    bool by_size = replica->snapshot.records >= replica->snapshot.at_records ||
                   replica->snapshot.bytes >= replica->snapshot.at_bytes;

    if (replica->snapshot.running || replica->tree.loading > 0 || replica->status.quarantined ||
        replica->status.delivered < replica->tree.fuzzy_end) {
        return false;
    }
    return replica->snapshot.wanted || (by_size && replica->status.serving);
}

static void want_snapshot(struct replica *replica, struct replica_effects *out)
{
    if (!is_snapshot_due(replica)) {
        return;
    }
    replica->snapshot.running = true;
    replica->snapshot.wanted = false;
    replica->snapshot.records = 0;
    replica->snapshot.bytes = 0;
    draw_snapshot_point(replica);
    out->take_snapshot = true;
    out->snap_start = replica->status.delivered;
    out->snap_chain = replica->status.delivered_chain;
}

void replica_snapshot_failed(struct replica *replica)
{
    ASSERT(replica->snapshot.running);
    replica->snapshot.running = false;
}

static void before_step(struct replica *replica, const struct zab_event *event)
{
    if (event->type == ZAB_EV_PEER_DOWN) {
        sessions_peer_lost(replica, event->peer);
    }
    if (event->type == ZAB_EV_RESTORED) {
        ASSERT(replica->tree.loading > 0);
        replica->tree.loading--;
    }
    if (event->type == ZAB_EV_SNAP_FETCHED) {
        replica->snapshot.wanted = event->snap_fetched.err == ERR_MISSING;
    }
    if (event->type == ZAB_EV_RESTORED && event->restored.err == ERR_OK) {
        replica_restored(replica, &event->restored);
    } else if (event->type == ZAB_EV_STORED_SNAP) {
        replica->snapshot.running = false;
        replica->snapshot.wanted = false;
    }
}

static void periodic(struct replica *replica)
{
    sessions_turn(replica);
    if (replica->now_ms >= replica->requests.scan_ms) {
        replica->requests.scan_ms = replica->now_ms + DEADLINE_SCAN_MS;
        requests_check_deadlines(replica);
        if (replica->aside.why) {
            requests_stand_aside(replica);
        }
    }
    if (replica->now_ms >= replica->leader.reap_ms) {
        replica->leader.reap_ms = replica->now_ms + replica->options.reap_every_ms;
        lead_reap(replica);
        lead_forget(replica);
        lead_keep_age_idle(replica);
    }
}

void replica_step(struct replica *replica, const struct zab_event *event, int64_t wall_ms,
                  struct replica_effects *effects)
{
    replica->now_ms = event->now_ms;
    struct zab_event timed = *event;

    replica->wall_ms = wall_ms;
    replica_release_kept(replica);
    sessions_clock(replica);
    before_step(replica, event);
    times_turn(replica);
    heartbeats_turn(replica);
    timed.age_ms = (uint64_t)times_age(replica);
    zab_step(replica->zab, &timed, &replica->inner);
    periodic(replica);
    take_effects(replica, effects);
    refresh(replica);
    replica_update_readable(replica);
    want_snapshot(replica, effects);
}

void replica_request(struct replica *replica, struct op_request *take_request, uint64_t now_ms,
                     int64_t wall_ms, struct replica_effects *effects)
{
    ASSERT(now_ms >= replica->now_ms);

    replica->now_ms = now_ms;
    replica->wall_ms = wall_ms;
    take_request->id = ++replica->requests.seq;
    list_push_back(&replica->requests.all, &take_request->node);
    (void)map_put_u64(&replica->requests.by_id, take_request->id, take_request);
    replica->requests.count++;
    take_request->stage = 0;
    fifo_enter(replica, take_request);
    if (replica->drain.on) {
        request_reply(replica, take_request, ERR_NOT_READY, "this replica is shutting down");
    } else if (replica->requests.count > replica->options.requests_max) {
        PROBE("replica.too_many_requests");
        request_reply(replica, take_request, ERR_THROTTLED,
                      "too many requests are in flight (maxRequests)");
    } else {
        request_dispatch(replica, take_request);
    }
    take_effects(replica, effects);
}

void replica_stand_aside(struct replica *replica, const struct replica_aside *aside,
                         uint64_t now_ms, struct replica_effects *effects)
{
    ASSERT(now_ms >= replica->now_ms && (aside->why || !aside->log_waits));

    replica->now_ms = now_ms;
    if (aside->log_waits && !replica->aside.log_waits) {
        replica->log_waits_ms = now_ms;
    }
    replica->aside = *aside;
    effects->status_changed = true;
    if (aside->why) {
        requests_stand_aside(replica);
    }
    take_effects(replica, effects);
}

/* Begins to drain. Writes the age first, because a leader that has resigned proposes nothing. */
static void begin_drain(struct replica *replica, uint64_t now_ms, struct replica_effects *effects)
{
    struct zab_event event = {.type = ZAB_EV_RESIGN, .now_ms = now_ms, .is_to_resign = true};

    ASSERT(!replica->drain.on && now_ms >= replica->now_ms);
    replica->drain.on = true;
    replica->drain.since_ms = now_ms;
    replica->now_ms = now_ms;
    replica->drain.age_zxid = lead_keep_age(replica, DRAIN_IDLE_MS);
    take_effects(replica, effects);
    replica_step(replica, &event, replica->wall_ms, effects);
}

bool replica_drain(struct replica *replica, uint64_t now_ms, struct replica_effects *effects)
{
    if (!replica->drain.on) {
        begin_drain(replica, now_ms, effects);
    }
    /* A leader waits at most two ticks for another leader, because the other replicas may be
     * shutting down as well. A single voter waits only until the record of the age is applied. */
    bool early =
        now_ms - replica->drain.since_ms < 2 * (uint64_t)replica->options.zab.limits.tick_ms;
    bool others = zab_config_voters(zab_config(replica->zab)) > 1;
    bool kept = replica->status.state == ZAB_LEADING && early &&
                (others || replica->tree.applied < replica->drain.age_zxid);

    if (!early && !replica->status.serving) {
        requests_give_up(replica);
    }
    return replica->requests.count == 0 && !kept;
}

zxid_t replica_applied(const struct replica *replica)
{
    return replica->tree.applied;
}

uint64_t replica_wake_ms(const struct replica *replica)
{
    uint64_t wake_ms = zab_wake_ms(replica->zab);

    if (replica->sessions.expire_more) {
        return replica->now_ms;
    }
    if (replica->requests.count > 0) {
        wake_ms = min_u64(wake_ms, replica->requests.scan_ms);
    }
    return min_u64(min_u64(wake_ms, replica->sessions.report_ms), replica->leader.reap_ms);
}

void replica_status(const struct replica *replica, struct replica_status *ret_status)
{
    *ret_status = (struct replica_status){
        .applied = replica->tree.applied,
        .requests = replica->requests.count,
        .counts = replica->counts,
        .room = replica->heartbeats.room,
        .aside = replica->aside,
        .clock_known = replica->clock.reached.least_ms > 0,
        .clock_ahead_ms = times_ahead_ms(replica),
        .draining = replica->drain.on,
        .readable = replica->tree.readable,
    };
    zab_status(replica->zab, &ret_status->zab);
    const struct state *state = view_read(replica->view);

    if (state) {
        ret_status->digest = state_digest(state);
        view_read_done(replica->view);
    }
}

void replica_facts(struct replica *replica, const struct zab_fact *facts, uint32_t count)
{
    zab_set_facts(replica->zab, facts, count);
}

const struct zab *replica_zab(const struct replica *replica)
{
    return replica->zab;
}
