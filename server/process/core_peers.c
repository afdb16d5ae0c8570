/*
 * The core's peers: handlers for events of the transport, and the opening of the transport. The
 * reason why a peer is refused is logged at intervals, and shown by /ensemble/v1 until the peer is
 * connected.
 */
#include "server/process/server_int.h"
#include "zab/level.h"

enum {
    LISTEN_AGAIN_MS = 10000,      /* First pause between log lines about listening; it doubles. */
    LISTEN_AGAIN_MAX_MS = 600000, /* Longest pause between log lines about listening. */
    DUPLICATE_AGAIN_MS = 60000,   /* Time between log lines about two processes with one id. */
    DUPLICATE_SHOWN_MS = 10000,   /* How long a duplicate id is shown after its last report. */
    DUPLICATE_SHOWN_TICKS = 3     /* The same time in ticks; the longer of the two counts. */
};

const char *core_peer_duplicate(const struct config *config, const struct core_peer *peer,
                                uint64_t now_ms)
{
    uint64_t shown_ms =
        max_u64((uint64_t)config->zab.tick_ms * DUPLICATE_SHOWN_TICKS, DUPLICATE_SHOWN_MS);
    bool is_now = peer->duplicate_ms != 0 && peer->duplicate_ms + shown_ms > now_ms;

    return is_now ? peer->duplicate : NULL;
}

static void on_up(void *ctx, uint32_t peer, const struct tcp_identity *identity)
{
    struct server *server = ctx;
    struct core_peer *entry = links_place(&server->core.links, peer);
    struct zab_event event = {
        .type = ZAB_EV_PEER_UP,
        .peer = peer,
        .peer_up = {.incarnation = identity->incarnation,
                    .bootstrapping = identity->bootstrapping,
                    .level = identity->level},
    };

    memcpy(event.peer_up.cluster, identity->cluster, ZAB_CLUSTER_LEN);
    if (entry) {
        (void)snprintf(entry->advertise, sizeof entry->advertise, "%s", identity->advertise);
        entry->refused[0] = '\0';
        entry->refusal_waits = false;
    }
    core_tell_facts(server);
    if (identity->is_outsider) {
        log_info("zab", "replica {peer}%u, which is no member, is connected", peer);
    } else {
        log_info("zab", "peer {peer}%u is connected", peer);
    }
    core_step(server, &event);
}

static void on_down(void *ctx, uint32_t peer, const char *why)
{
    struct zab_event event = {.type = ZAB_EV_PEER_DOWN, .peer = peer};

    log_info("zab", "peer {peer}%u is disconnected: {reason}%s", peer, why);
    core_step(ctx, &event);
}

static void on_message(void *ctx, uint32_t peer, const struct zab_msg *msg)
{
    struct zab_event event = {.type = ZAB_EV_RECV, .peer = peer, .msg = msg};

    core_step(ctx, &event);
}

/* Records why a handshake is refused; core_log_refusals logs it. The refusal of an unknown caller
 * (`peer` 0) is only logged, but each time: the transport already limits how often it reports
 * unknown callers. */
static void on_refused(void *ctx, uint32_t peer, const char *why)
{
    struct server *server = ctx;
    struct core_peer *entry = links_find(&server->core.links, peer);

    if (!entry) {
        log_warn("zab", "a connection to the peer port is refused: {reason}%s", why);
        return;
    }
    (void)snprintf(entry->refused, sizeof entry->refused, "%s", why);
    entry->refusal_waits = true;
    server->core.publish_now = true;
}

/* Logs why the transport cannot listen: at once, then at growing intervals. */
static void on_listen(void *ctx, const char *why)
{
    struct server *server = ctx;
    struct core_listen *listen = &server->core.listen;
    uint64_t now_ms = os_now_ms();

    server->core.publish_now = true;
    if (!why) {
        if (listen->why[0]) {
            log_info("zab", "listens for other replicas on {address}%s port {port}%u",
                     server->config->peers.host, server->config->peers.port);
        }
        *listen = (struct core_listen){.logged_ms = 0};
        return;
    }
    (void)snprintf(listen->why, sizeof listen->why, "%s", why);
    if (listen->logged_ms == 0 || now_ms >= listen->logged_ms + listen->pause_ms) {
        listen->pause_ms = listen->logged_ms == 0
                               ? LISTEN_AGAIN_MS
                               : min_u64(listen->pause_ms * 2, LISTEN_AGAIN_MAX_MS);
        listen->logged_ms = now_ms;
        log_warn("zab", "other replicas cannot connect yet: {reason}%s; this replica keeps trying",
                 why);
    }
}

/* Records that two processes claim a peer's id, or the id of this replica. */
static void on_duplicate(void *ctx, uint32_t id, const char *text)
{
    struct server *server = ctx;
    struct core_peer *entry = links_find(&server->core.links, id);
    uint64_t now_ms = os_now_ms();
    bool lasts = entry && core_peer_duplicate(server->config, entry, now_ms);

    if (!entry) {
        return;
    }
    (void)snprintf(entry->duplicate, sizeof entry->duplicate, "%s", text);
    entry->duplicate_ms = now_ms;
    server->core.publish_now = true;
    if (!lasts || now_ms - entry->duplicate_logged_ms >= DUPLICATE_AGAIN_MS) {
        entry->duplicate_logged_ms = now_ms;
        log_error(
            "zab",
            "{reason}%s: stop one of the two processes; the process that connected first keeps its "
            "place",
            text);
    }
}

enum err core_open_peers(struct server *server, char error[SERVER_ERROR_MAX])
{
    const struct config *config = server->config;

    if (config->peers.port == 0) {
        return ERR_OK;
    }
    struct keys *keys = NULL;

    if (peer_keys_load(config, &config->peers.secrets, &keys, error)) {
        return ERR_CONFIG;
    }
    struct tcp_peer *peers = mem_zalloc(LINKS_MAX, sizeof peers[0]);
    struct tcp_handler handler = {.on_up = on_up,
                                  .on_down = on_down,
                                  .on_refused = on_refused,
                                  .on_listen = on_listen,
                                  .on_duplicate = on_duplicate,
                                  .on_join = core_on_join,
                                  .on_message = on_message,
                                  .ctx = server};
    uint32_t count = core_list_peers(server, peers);

    struct tcp_options options = {
        .id = config->id,
        .host = peers[0].host,
        .listen_host = config->peers.host,
        .listen_port = config->peers.port,
        .peers = peers + 1,
        .peer_count = count - 1,
        .keys = keys,
        .tls = (enum keys_mode)config->peers.tls,
        .ensemble = config->process.environment,
        .queue_bytes_max = config->peers.queue_bytes_max,
        .outsiders_max = TCP_OUTSIDERS_MAX,
        .shaking_max = config->peers.handshakes_max,
        .connect_timeout_ms = config->zab.tick_ms,
        .probe_ms = config->zab.tick_ms,
        .retry_min_ms = 20,
        .retry_max_ms = 1000,
        .incarnation = server->core.identity.incarnation,
        .history = zab_config(replica_zab(server->core.replica))->history,
        .bootstrapping = server->core.identity.bootstrapping,
        .level = ZAB_LEVEL_KNOWN,
        .advertise = config->clients.advertise_client,
    };

    memcpy(options.cluster, server->core.identity.cluster, ZAB_CLUSTER_LEN);
    atomic_store(&server->peer_keys.expire_s, keys_expire_s(keys));
    enum err err = tcp_open(&server->core.loop, &options, &handler, &server->core.tcp);

    mem_free(peers);
    keys_release(keys);
    if (err == ERR_OK) {
        core_tell_level(&server->core);
    } else {
        (void)snprintf(
            error, SERVER_ERROR_MAX,
            "%s: cannot listen for peers on %s port %u (%s); stop the process that uses the port "
            "or change the key",
            config->peers.listen[0]                          ? "peerListen"
            : config_self(config) && !config->peers.is_alone ? "server.N"
                                                             : "advertisePeer",
            config->peers.host, config->peers.port, err_text(err));
    }
    return err;
}
