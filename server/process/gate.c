#include "server/op/ops.h"
#include "server/process/server_int.h"
#include "server/process/watch_listing.h"

/* Returns the role of this replica in what was published. The caller holds the lock, or is the core
 * thread, which alone publishes. */
static enum replica_role role_of(const struct gate *gate)
{
    const struct config *config = gate->server->config;
    const struct publication *published = &gate->published;

    return replica_role_of(&published->replica.zab,
                           members_votes(config, &published->config, config->id));
}

void gate_init(struct gate *gate, struct server *server)
{
    const struct config *config = server->config;

    mutex_init(&gate->mutex);
    gate->server = server;
    budget_init(&gate->unsent, config->clients.unsent_bytes_max);
    gate_shares_init(gate);
    guard_init(&gate->guard, config->clients.super_digest);
    slow_init(&gate->slow);
    gate->top = top_new(os_now_ms());
}

void gate_release(struct gate *gate)
{
    top_free(gate->top);
    slow_release(&gate->slow);
    guard_release(&gate->guard);
    gate_shares_release(gate);
    mutex_destroy(&gate->mutex);
}

static void publish_pending(struct publication *to, const struct zab_config *pending,
                            uint64_t now_ms)
{
    if (pending && (!to->has_pending || to->pending.version != pending->version)) {
        to->pending_ms = now_ms;
    }
    to->has_pending = pending != NULL;
    if (pending) {
        to->pending = *pending;
    }
}

static void put_text(char *out, size_t size, struct slice text)
{
    (void)snprintf(out, size, "%.*s", (int)text.len, (const char *)text.data);
}

static void publish_waiting(struct publication *to, const struct zab *zab)
{
    struct zab_waiting waiting[ZAB_OUTSIDERS_MAX];

    to->waiting_count = zab_waiting(zab, waiting, ZAB_OUTSIDERS_MAX);
    for (size_t i = 0; i < to->waiting_count; i++) {
        struct waiting_row *row = &to->waiting[i];

        *row = (struct waiting_row){
            .id = waiting[i].id, .since_ms = waiting[i].since_ms, .fault = waiting[i].fault};
        links_address(&waiting[i].texts, row->address);
        put_text(row->client, sizeof row->client, waiting[i].texts.client);
        put_text(row->zone, sizeof row->zone, waiting[i].texts.zone);
    }
}

void gate_publish(struct gate *gate, const struct replica_status *status)
{
    struct core *core = &gate->server->core;
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    struct publication *to = &gate->published;
    struct store_figures figures;
    size_t count = zab_peers(replica_zab(core->replica), peers, ZAB_MEMBERS_MAX);

    store_figures(gate->server->store, &figures);
    mutex_lock(&gate->mutex);
    to->replica = *status;
    to->config = *zab_config(replica_zab(core->replica));
    publish_pending(to, zab_pending(replica_zab(core->replica)), core->now_ms);
    publish_waiting(to, replica_zab(core->replica));
    to->peer_count = count;
    memcpy(to->peers, peers, count * sizeof peers[0]);
    if (core->tcp) {
        tcp_figures(core->tcp, &to->tcp);
    }
    to->links = core->links;
    memcpy(to->join_text, core->join.text, sizeof to->join_text);
    memcpy(to->join_missing, core->join.missing, sizeof to->join_missing);
    memcpy(to->list_differs, core->list.differs, sizeof to->list_differs);
    memcpy(to->not_listening, core->listen.why, sizeof to->not_listening);
    to->heartbeat_count = replica_heartbeats(core->replica, to->heartbeats);
    to->at_ms = core->now_ms;
    to->store = figures;
    mutex_unlock(&gate->mutex);
    gate_shares_divide(gate, max_u32(members_count(gate->server->config, &to->config), 1));
    atomic_store(&gate->role, (uint32_t)role_of(gate));
    atomic_store(&gate->aside, status->aside.why);
    atomic_store(&gate->log_waits, status->aside.log_waits ? status->aside.why : NULL);
    atomic_store(&gate->readable, status->readable);
    atomic_store(&gate->applied, status->applied);
    atomic_store(&gate->heard_ms, status->zab.heard_ms);
    atomic_store(&gate->history, to->config.history);
}

struct view *gate_view(struct gate *gate)
{
    return gate->server->view;
}

struct backups *gate_backups(struct gate *gate)
{
    return &gate->server->backups;
}

struct reloads *gate_reloads(struct gate *gate)
{
    return &gate->server->reloads;
}

struct budget *gate_unsent(struct gate *gate)
{
    return &gate->unsent;
}

struct window *gate_window(struct gate *gate)
{
    return gate->server->window;
}

void gate_touch(struct gate *gate, uint64_t session)
{
    if (!touch_add(gate->server->touched, session)) {
        metric_add(&gate->touches_lost, 1);
    }
}

const struct config_clients *gate_limits(struct gate *gate)
{
    return &gate->server->config->clients;
}

/* Whether the result of the request will be remembered, which counts against the client's share.
 * The result of closing a session is never remembered. */
static bool needs_share(const struct op_request *request)
{
    return request->key.len > 0 && op_args_kind(&request->args) == OP_KIND_WRITE &&
           request->args.op != OP_CLOSE;
}

enum err gate_submit(struct gate *gate, struct op_request *take_request)
{
    ASSERT(take_request->on_reply && take_request->def);
    if (gate_limits(gate)->read_only && op_args_kind(&take_request->args) == OP_KIND_WRITE) {
        return ERR_NOT_READ_ONLY;
    }
    struct share_ticket ticket = {.cost = 0};

    if (needs_share(take_request) && !gate_shares_ask(gate, take_request, &ticket)) {
        take_request->on_reply(take_request);
        return ERR_OK;
    }
    enum err err = mailbox_post(&gate->server->core.requests, &take_request->node);

    if (err == ERR_OK) {
        gate_shares_pay(gate, &ticket);
    }
    if (err == ERR_FULL) {
        metric_add(&gate->throttled, 1);
        return ERR_THROTTLED;
    }
    return err;
}

enum err gate_check_local(struct gate *gate, const char **ret_why)
{
    uint64_t heard_ms = atomic_load_explicit(&gate->heard_ms, memory_order_relaxed);
    uint64_t now_ms = os_now_ms();

    if (!atomic_load_explicit(&gate->readable, memory_order_acquire)) {
        *ret_why = atomic_load(&gate->role) == ROLE_QUARANTINE
                       ? "this replica is in quarantine and is being refilled"
                       : "this replica has not been in step with a leader since it started";
        return ERR_NOT_READY;
    }
    if (now_ms > heard_ms && now_ms - heard_ms > gate->server->config->process.stale_limit_ms) {
        const char *waits = atomic_load(&gate->log_waits);

        *ret_why = waits ? waits
                         : "this replica has been cut off from the ensemble for longer than "
                           "staleLimit";
        return ERR_NOT_READY;
    }
    return ERR_OK;
}

/* Returns the ms since the last contact with a leader; without any contact, since the start. */
static uint64_t lag_ms(struct gate *gate)
{
    uint64_t heard_ms = atomic_load(&gate->heard_ms);
    uint64_t since_ms = max_u64(heard_ms, gate->server->start_ms);
    uint64_t now_ms = os_now_ms();

    return now_ms > since_ms ? now_ms - since_ms : 0;
}

/* Takes the applied zxid from the tree, because the published one may be older than a state that a
 * client has already read. Raises the other zxids, which were published earlier, to the applied
 * one: an applied record is committed, and durable here. */
static void take_applied(struct gate *gate, struct gate_status *status)
{
    const struct state *state = view_read(gate->server->view);

    if (state) {
        status->applied = state_applied(state);
        status->digest = state_digest(state);
        view_read_done(gate->server->view);
    }
    status->committed = max_u64(status->committed, status->applied);
    status->durable = max_u64(status->durable, status->applied);
    status->logged = max_u64(status->logged, status->durable);
}

static void count_members(const struct publication *published, struct gate_status *status)
{
    status->members = published->config.count;
    status->voters = zab_config_voters(&published->config);
    for (size_t i = 0; i < published->peer_count; i++) {
        const struct zab_peer_status *peer = &published->peers[i];
        uint32_t connected = peer->connected ? 1 : 0;
        uint32_t synced = peer->connected && peer->synced ? 1 : 0;

        *(peer->voter ? &status->followers : &status->observers) += connected;
        *(peer->voter ? &status->synced_followers : &status->synced_observers) += synced;
    }
}

void gate_status(struct gate *gate, struct gate_status *ret_status)
{
    mutex_lock(&gate->mutex);
    const struct replica_status *replica = &gate->published.replica;

    *ret_status = (struct gate_status){
        .id = gate->server->config->id,
        .role = replica_role_name(role_of(gate)),
        .serving = replica->zab.serving && !replica->aside.why,
        .in_step = replica->zab.serving,
        .draining = replica->draining || atomic_load(&gate->ending),
        .epoch = replica->zab.epoch,
        .leader = replica->zab.leader,
        .committed = replica->zab.committed,
        .durable = replica->zab.durable,
        .logged = replica->zab.last,
        .history = gate->published.config.history,
        .queue = replica->requests,
        .uptime_ms = os_now_ms() - gate->server->start_ms,
    };
    count_members(&gate->published, ret_status);
    mutex_unlock(&gate->mutex);
    ret_status->lag_ms = lag_ms(gate);
    take_applied(gate, ret_status);
}

uint64_t gate_history(struct gate *gate)
{
    return atomic_load_explicit(&gate->history, memory_order_relaxed);
}

void gate_count_op(struct gate *gate, enum op_id op, bool failed, uint64_t latency_us)
{
    size_t index = (size_t)op < OP_IDS ? (size_t)op : 0;

    metric_observe_us(&gate->op_time[index], latency_us);
    if (failed) {
        metric_add(&gate->op_failed[index], 1);
    }
}

void gate_slow(struct gate *gate, const struct gate_slow *slow)
{
    slow_note(&gate->slow, slow);
}

/* ---- Data of the front ends. Figures and metrics are read under gate->mutex. A listing of watches
 * travels through the mailboxes of the front ends. ---- */

void gate_set_front(struct gate *gate, enum gate_front front, struct gate_front_hooks hooks)
{
    MUTEX_HOLD(&gate->mutex);
    gate->fronts[front] = hooks;
}

void gate_front_figures(struct gate *gate, struct gate_front_figures *ret_figures)
{
    *ret_figures = (struct gate_front_figures){0};
    MUTEX_HOLD(&gate->mutex);
    for (size_t i = 0; i < GATE_FRONTS; i++) {
        if (gate->fronts[i].figures) {
            gate->fronts[i].figures(gate->fronts[i].ctx, ret_figures);
        }
    }
}

/* Once posted, the listing belongs to another thread, so everything that is needed from it is read
 * before it is posted.
 */
void watch_listing_pass(struct watch_listing *listing)
{
    struct gate *gate = listing->gate;
    bool asked = false;

    mutex_lock(&gate->mutex);
    while (!asked && listing->next < GATE_FRONTS) {
        const struct gate_front_hooks *hooks = &gate->fronts[listing->next++];

        asked = hooks->listing != NULL;
        if (asked) {
            hooks->listing(hooks->ctx, listing);
        }
    }
    mutex_unlock(&gate->mutex);
    if (!asked) {
        listing->on_done(listing);
    }
}

/* ---- Failed credentials. ---- */

const char gate_credentials_slowed[] =
    "too many wrong passwords from this address; try again later";

uint32_t gate_credentials_wait(struct gate *gate, const struct op_principal *who, uint32_t first)
{
    return guard_wait(&gate->guard, who, first, os_now_ns());
}

void gate_credentials_seen(struct gate *gate, const struct op_principal *who)
{
    guard_seen(&gate->guard, who, os_now_ns());
}

void gate_credentials_refused(struct gate *gate, const struct op_request *request)
{
    if (request->result.err == ERR_NO_AUTH && request->principal.auth) {
        view_note_refusal(gate->server->view, &request->principal, &request->args);
    }
}

void gate_credentials_failed(struct gate *gate, const struct op_principal *who,
                             enum gate_failure kind)
{
    guard_failed(&gate->guard, who, kind);
}

void gate_guard_log(struct gate *gate, uint64_t now_ms)
{
    struct logfmt line;

    for (int i = 0; i <= GUARD_ADDRESSES_MAX && guard_line(&gate->guard, now_ms, &line); i++) {
        log_message(LOG_WARN, "auth", &line);
    }
}
