/* The answers of the information operations: this replica, all replicas, every limit. */
#include "server/process/server_int.h"

const char gate_disk_is_low[] =
    "the disk is nearly full: there is no room for the next segment of the log";

struct publication *gate_published(struct gate *gate)
{
    struct publication *copy = mem_alloc(sizeof *copy);

    MUTEX_HOLD(&gate->mutex);
    *copy = gate->published;
    return copy;
}

int64_t gate_wall_ms(void *gate)
{
    struct gate *own = gate;

    MUTEX_HOLD(&own->mutex);
    return os_wall_ms() - own->published.replica.clock_ahead_ms;
}

static void write_cluster(struct jsonw *json, const struct zab_config *config)
{
    char hex[2 * ZAB_CLUSTER_LEN + 1];
    char history[17];

    for (size_t i = 0; i < ZAB_CLUSTER_LEN; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", config->cluster[i]);
    }
    (void)snprintf(history, sizeof history, "%016llx", (unsigned long long)config->history);
    jsonw_kv_cstr(json, "cluster", hex);
    jsonw_kv_cstr(json, "history", history);
}

/* Returns how many of the first VIEW_NODES_MAX quotas are exceeded. One hold of the lock may visit
 * no more quotas. */
static uint64_t quotas_exceeded(const struct state *state)
{
    const struct state_quota *quota = state_quota_after(state, slice_make(NULL, 0));
    uint64_t count = 0;

    for (int i = 0; quota && i < VIEW_NODES_MAX; i++) {
        count += (quota->count_limit >= 0 && quota->count > (uint64_t)quota->count_limit) ||
                 (quota->bytes_limit >= 0 && quota->bytes > (uint64_t)quota->bytes_limit);
        quota = state_quota_after(state, quota->path);
    }
    return count;
}

void gate_figures(struct gate *gate, struct gate_figures *ret_figures)
{
    const struct state *state = view_read(gate->server->view);

    *ret_figures = (struct gate_figures){0};
    if (state) {
        *ret_figures = (struct gate_figures){
            .nodes = state_node_count(state),
            .data_bytes = state_data_bytes(state),
            .memory_bytes = state_memory_bytes(state),
            .ephemerals = state_ephemeral_count(state),
            .sessions = state_session_count(state),
            .remembered = state_remembered_count(state),
            .remembered_bytes = state_remembered_bytes(state),
            .quotas_exceeded = quotas_exceeded(state),
        };
        view_read_done(gate->server->view);
    }
}

/* Writes a number, or null for 0, which means not known. */
static void write_known(struct jsonw *json, const char *key, uint64_t number)
{
    jsonw_key(json, key);
    if (number == 0) {
        jsonw_null(json);
    } else {
        jsonw_u64(json, number);
    }
}

static void write_sizes(struct gate *gate, const struct publication *copy, struct jsonw *json)
{
    struct gate_figures figures;
    struct window_extent extent;

    gate_figures(gate, &figures);
    window_extent(gate->server->window, &extent);
    jsonw_kv_u64(json, "znodes", figures.nodes);
    jsonw_kv_u64(json, "sessions", figures.sessions);
    jsonw_kv_u64(json, "ephemerals", figures.ephemerals);
    jsonw_kv_hex(json, "window_base", extent.base);
    jsonw_kv_u64(json, "tree_bytes", figures.memory_bytes);
    /* The limit of the tree, and the replica with that limit, as the leader last reported them. */
    write_known(json, "tree_bytes_max", copy->replica.room.bytes_max);
    write_known(json, "tree_bytes_max_of", copy->replica.room.member);
    /* The log that is kept for learners which are being refilled. */
    jsonw_kv_u64(json, "refills", copy->replica.zab.refills);
    jsonw_kv_u64(json, "refill_log_bytes", copy->store.kept_bytes);
    jsonw_kv_u64(json, "refill_log_lost", copy->store.keeps_lost);
}

/* Returns why this replica does not vote, does not serve, or soon will not serve. */
static const char *reason_of(struct gate *gate, const struct publication *copy)
{
    const char *reason = copy->replica.zab.reason;

    if (copy->replica.aside.why) {
        return copy->replica.aside.why;
    }
    if (reason && reason[0] != '\0') {
        return reason;
    }
    return atomic_load(&gate->server->worker.low) ? gate_disk_is_low : "";
}

/* Writes the text about two processes that claim the id, if there is one. */
static void write_duplicate(const struct config *config, struct jsonw *json,
                            const struct core_peer *link)
{
    const char *text = core_peer_duplicate(config, link, os_now_ms());

    if (text) {
        jsonw_kv_cstr(json, "duplicate", text);
    }
}

void gate_write_status(struct gate *gate, struct jsonw *json)
{
    const struct config *config = gate->server->config;
    struct publication *copy = gate_published(gate);
    struct gate_status status;

    gate_status(gate, &status);
    jsonw_object(json);
    jsonw_kv_u64(json, "id", status.id);
    jsonw_kv_cstr(json, "role", status.role);
    jsonw_kv_bool(json, "serving", status.serving);
    jsonw_kv_u64(json, "epoch", status.epoch);
    jsonw_kv_hex(json, "zxid", status.applied);
    jsonw_kv_hex(json, "committed", status.committed);
    jsonw_kv_hex(json, "logged", status.logged);
    jsonw_kv_hex(json, "durable", status.durable);
    write_known(json, "leader", status.leader);
    jsonw_kv_u64(json, "lag_ms", status.lag_ms);
    jsonw_kv_hex(json, "digest", status.digest);
    write_cluster(json, &copy->config);
    write_sizes(gate, copy, json);
    jsonw_kv_u64(json, "requests", copy->replica.requests);
    jsonw_kv_bool(json, "draining", status.draining);
    jsonw_kv_bool(json, "read_only", config->clients.read_only);
    jsonw_kv_bool(json, "require_identity", config->clients.require_identity);
    jsonw_kv_bool(json, "inherit_acl", config->clients.inherit_acl);
    jsonw_kv_cstr(json, "environment", config->process.environment);
    jsonw_kv_cstr(json, "reason", reason_of(gate, copy));
    write_duplicate(config, json, links_see(&copy->links, config->id));
    jsonw_kv_cstr(json, "version", ZABRA_VERSION);
    jsonw_kv_u64(json, "uptime_ms", os_now_ms() - gate->server->start_ms);
    jsonw_object_end(json);
    mem_free(copy);
}

static const struct zab_peer_status *peer_of(const struct publication *copy, uint32_t id)
{
    for (size_t i = 0; i < copy->peer_count; i++) {
        if (copy->peers[i].id == id) {
            return &copy->peers[i];
        }
    }
    return NULL;
}

enum {
    SILENT_MIN_MS = 1000 /* Minimum of silent_ms: many short ticks may pass between two reports. */
};

/* Returns the ms without contact, direct or through the leader, after which a replica is silent. */
static uint64_t silent_ms(const struct config *config)
{
    return max_u64((uint64_t)config->zab.tick_ms * (config->zab.sync_limit + 2), SILENT_MIN_MS);
}

/* Returns the time of the last contact with the peer, directly or through the leader; 0: never. */
static uint64_t heard_at(const struct zab_peer_status *peer, const struct heartbeat *heartbeat)
{
    return max_u64(peer->heard_ms, heartbeat ? heartbeat->at_ms : 0);
}

/* Returns the state in the peer's last report, unless a newer message of the peer says that it is
 * looking. Returns "joining" for a learner that does not serve yet, and for a peer that reported
 * itself as leader, if another one leads. */
static const char *reported_state(const struct zab_status *self, const struct zab_peer_status *peer,
                                  const struct heartbeat *heartbeat)
{
    bool looking = peer->state == ZAB_LOOKING;

    if (!heartbeat || (looking && peer->heard_ms >= heartbeat->at_ms)) {
        return looking ? "looking" : (peer->voter ? "follower" : "observer");
    }
    bool serving = (heartbeat->flags & HEARTBEAT_SERVING) != 0;
    bool learns = heartbeat->role == ROLE_FOLLOWER || heartbeat->role == ROLE_OBSERVER;
    bool has_led = heartbeat->role == ROLE_LEADER && self->leader != 0;

    return has_led || (learns && !serving) ? "joining" : replica_role_name(heartbeat->role);
}

static const char *state_name(const struct publication *copy, const struct zab_peer_status *peer,
                              const struct heartbeat *heartbeat, bool silent)
{
    const struct zab_status *self = &copy->replica.zab;

    if (!peer->connected) {
        return "unreachable";
    }
    if (silent) {
        return "silent";
    }
    if (peer->id == self->leader) {
        return "leader";
    }
    if (self->state == ZAB_LEADING && !peer->synced) {
        return "joining";
    }
    return reported_state(self, peer, heartbeat);
}

static void write_url(struct jsonw *json, const char *address, bool https)
{
    char url[CONFIG_HOST_MAX + 16];

    (void)snprintf(url, sizeof url, "%s://%s", https ? "https" : "http", address);
    jsonw_key(json, "client");
    if (address[0] == '\0') {
        jsonw_null(json);
    } else {
        jsonw_cstr(json, url);
    }
}

/* Writes microseconds as milliseconds; 0 as null. */
static void write_ms(struct jsonw *json, const char *key, uint32_t us)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%.5g", (double)us / 1000.0);

    jsonw_key(json, key);
    if (us == 0) {
        jsonw_null(json);
    } else {
        jsonw_raw(json, slice_make(text, (size_t)len));
    }
}

/* Writes a replica's own status report; the values are those of the time of the report. */
static void write_heartbeat(struct jsonw *json, const struct heartbeat *heartbeat)
{
    jsonw_kv_u64(json, "epoch", heartbeat->epoch);
    jsonw_kv_u64(json, "lag_ms", heartbeat->lag_ms);
    jsonw_kv_u64(json, "tree_bytes_max", heartbeat->tree_bytes_max);
    write_ms(json, "log_sync_p50_ms", heartbeat->host.sync_p50_us);
    write_ms(json, "log_sync_p99_ms", heartbeat->host.sync_p99_us);
    jsonw_kv_bool(json, "disk_low", (heartbeat->flags & HEARTBEAT_DISK_LOW) != 0);
    jsonw_kv_bool(json, "draining", (heartbeat->flags & HEARTBEAT_DRAINING) != 0);
    jsonw_kv_cstr(json, "version", heartbeat->host.version);
    jsonw_kv_u64(json, "uptime_ms", heartbeat->host.up_ms);
}

/* Writes the rest of this replica's entry; true if it serves. */
static bool write_self(struct gate *gate, struct jsonw *json, const struct publication *copy,
                       const struct core_peer *link, bool https)
{
    const struct heartbeat *heartbeat =
        heartbeats_find(copy->heartbeats, copy->heartbeat_count, gate->server->config->id);
    struct gate_status status;

    gate_status(gate, &status);
    jsonw_kv_cstr(json, "state", status.role);
    jsonw_kv_bool(json, "connected", true);
    jsonw_kv_bool(json, "votes", !copy->replica.zab.unknown_disk && !copy->replica.zab.quarantined);
    jsonw_kv_hex(json, "zxid", status.applied);
    if (heartbeat) {
        jsonw_kv_u64(json, "heard_ms", 0);
        jsonw_kv_u64(json, "state_ms", heartbeat->role_ms);
        write_heartbeat(json, heartbeat);
    }
    write_duplicate(gate->server->config, json, link);
    jsonw_kv_cstr(json, "peer_tls",
                  keys_mode_name((enum keys_mode)gate->server->config->peers.tls));
    write_url(json, gate->server->config->clients.advertise_client, https);
    return status.serving;
}

static bool is_serving(const char *state)
{
    return strcmp(state, "leader") == 0 || strcmp(state, "follower") == 0;
}

/* Writes how the connection with the peer is sealed, and the peer's peerTls if it is known. */
static void write_seal(struct jsonw *json, const struct tcp_seal *seal)
{
    if (seal->up) {
        jsonw_kv_cstr(json, "sealed", keys_seal_name(seal->kind));
    }
    if (seal->up && seal->peer_says) {
        jsonw_kv_cstr(json, "peer_tls", keys_mode_name(seal->peer_tls));
    }
}

/* Returns the newest zxid that the peer is known to have; 0: none. */
static zxid_t zxid_of(const struct zab_peer_status *peer, const struct heartbeat *heartbeat)
{
    zxid_t zxid = heartbeat ? heartbeat->zxid : 0;

    return max_u64(zxid, max_u64(peer->acked, peer->voted));
}

static void write_heard(struct jsonw *json, const struct heartbeat *heartbeat, const char *state,
                        uint64_t heard_ms)
{
    uint64_t now_ms = os_now_ms();

    if (heard_ms != 0) {
        jsonw_kv_u64(json, "heard_ms", now_ms > heard_ms ? now_ms - heard_ms : 0);
    }
    if (heartbeat && strcmp(state, replica_role_name(heartbeat->role)) == 0) {
        jsonw_kv_u64(json, "state_ms", heartbeat->role_ms + (now_ms - heartbeat->at_ms));
    }
}

/* Writes the rest of the entry of another replica; true if it leads or follows. */
static bool write_peer(const struct config *config, struct jsonw *json,
                       const struct publication *copy, const struct zab_peer_status *peer,
                       const struct core_peer *link, bool https)
{
    const struct heartbeat *heartbeat =
        heartbeats_find(copy->heartbeats, copy->heartbeat_count, peer->id);
    uint64_t heard_ms = heard_at(peer, heartbeat);
    /* Compared with the time of publication, not with the present: after a pause of this replica
     * its peers must not look silent. */
    bool silent = heard_ms != 0 && heard_ms + silent_ms(config) < copy->at_ms;
    const char *state = state_name(copy, peer, heartbeat, silent);

    jsonw_kv_cstr(json, "state", state);
    jsonw_kv_bool(json, "connected", peer->connected);
    jsonw_kv_bool(json, "votes", peer->voter && peer->counted);
    if (zxid_of(peer, heartbeat) != 0) {
        jsonw_kv_hex(json, "zxid", zxid_of(peer, heartbeat));
    }
    write_heard(json, heartbeat, state, heard_ms);
    if (heartbeat) {
        write_heartbeat(json, heartbeat);
    }
    if (link->refused[0] != '\0') {
        jsonw_kv_cstr(json, "refused", link->refused);
    }
    write_duplicate(config, json, link);
    write_seal(json, &link->seal);
    write_url(json, link->advertise[0] != '\0' ? link->advertise : link->client, https);
    return is_serving(state);
}

/* Writes the address for other replicas: that of the configuration file, else that of the committed
 * configuration. */
static void write_address(struct jsonw *json, const struct member_row *row,
                          const struct core_peer *link)
{
    char address[LINK_ADDRESS_MAX];

    if (row->server) {
        (void)snprintf(address, sizeof address, "%s:%u", row->server->host, row->server->port);
        jsonw_kv_cstr(json, "peer", address);
    } else if (link->address[0] != '\0') {
        jsonw_kv_cstr(json, "peer", link->address);
    }
}

/* Writes a member; true if it is a voter in step, as this replica sees it. */
static bool write_member(struct gate *gate, struct jsonw *json, const struct publication *copy,
                         const struct member_row *row, bool https)
{
    const struct config *config = gate->server->config;
    const struct zab_peer_status *peer = peer_of(copy, row->id);
    const struct core_peer *link = links_see(&copy->links, row->id);
    const struct zab_member *member = zab_config_find(&copy->config, row->id);
    bool serves = false;

    jsonw_object(json);
    gate_write_role(json, &copy->config, row);
    write_address(json, row, link);
    if (row->id == config->id) {
        serves = write_self(gate, json, copy, link, https);
    } else if (peer) {
        serves = write_peer(config, json, copy, peer, link, https);
    }
    if (link->zone[0] != '\0') {
        jsonw_kv_cstr(json, "zone", link->zone);
    }
    jsonw_object_end(json);
    return serves && member && member->voter;
}

static void write_hold(struct jsonw *json, const struct zab_config *config)
{
    if (config->hold == 0) {
        jsonw_key(json, "hold");
        jsonw_null(json);
    } else {
        jsonw_kv_u64(json, "hold", config->hold);
    }
}

zxid_t gate_write_ensemble(struct gate *gate, bool https, struct jsonw *json)
{
    const struct config *config = gate->server->config;
    struct publication *copy = gate_published(gate);
    zxid_t version = copy->config.version;
    struct members members;
    uint32_t in_step = 0;

    jsonw_object(json);
    write_cluster(json, &copy->config);
    jsonw_kv_hex(json, "config_version", copy->config.version);
    jsonw_kv_u64(json, "level", copy->config.level);
    write_hold(json, &copy->config);
    jsonw_kv_u64(json, "seen_by", config->id);
    jsonw_kv_u64(json, "leader", copy->replica.zab.leader);
    jsonw_kv_u64(json, "epoch", copy->replica.zab.epoch);
    if (copy->list_differs[0] != '\0') {
        jsonw_kv_cstr(json, "list_differs", copy->list_differs);
    }
    jsonw_kv_array(json, "members");
    members_list(config, &copy->config, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        in_step += write_member(gate, json, copy, &members.rows[i], https) ? 1 : 0;
    }
    jsonw_array_end(json);
    gate_write_changes(gate, json, copy, in_step, https);
    jsonw_object_end(json);
    mem_free(copy);
    return version;
}

void gate_write_trend(struct gate *gate, const struct op_args *args, struct jsonw *json)
{
    const struct trend_request request = {
        .step_s = args->step_s, .since_s = args->since_s, .series = args->series};

    trend_write(gate->server->sampler.trend, &request, json);
}

void gate_write_servers(struct gate *gate, struct jsonw *json)
{
    const struct config *config = gate->server->config;
    struct publication *copy = gate_published(gate);
    struct members members;

    members_list(config, &copy->config, &members);
    jsonw_array(json);
    for (uint32_t i = 0; i < members.count; i++) {
        uint32_t id = members.rows[i].id;
        const char *address = links_see(&copy->links, id)->advertise;

        if (id != config->id && address[0] != '\0') {
            jsonw_cstr(json, address);
        }
    }
    jsonw_array_end(json);
    mem_free(copy);
}

static void append_client(struct buf *out, const char *address)
{
    if (address[0] != '\0') {
        buf_append_str(out, address);
        buf_append_byte(out, ' ');
    }
}

void gate_append_clients(struct gate *gate, struct buf *out)
{
    const struct config *config = gate->server->config;

    struct members members;

    append_client(out, config->clients.advertise_client);
    MUTEX_HOLD(&gate->mutex);
    members_list(config, &gate->published.config, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        uint32_t id = members.rows[i].id;

        if (id != config->id) {
            append_client(out, links_see(&gate->published.links, id)->advertise);
        }
    }
}

void gate_write_limits(struct gate *gate, struct jsonw *json)
{
    const struct config_row *rows;
    size_t count = config_rows(&rows);

    ASSERT(count > 0);
    jsonw_object(json);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].is_limit) {
            jsonw_kv_u64(json, rows[i].key, config_number(gate->server->config, &rows[i]));
        }
    }
    jsonw_kv_u64(json, "maxSearchNodes", VIEW_SEARCH_NODES_MAX); /* Fixed. */
    jsonw_object_end(json);
}
