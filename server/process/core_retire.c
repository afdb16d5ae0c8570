/*
 * Connections that began with a secret which has been removed from peerSecretFile, or with a
 * certificate of a CA which has been removed from peerCaFile. They are closed, because an intruder
 * that knew the secret or had the certificate may have opened one. They come back at once, with the
 * present secret or certificate.
 *
 * The close of a connection with the leader costs this replica a moment in which it serves nothing,
 * and makes the outcome of requests in flight unknown. So a follower closes it when it has no
 * request in flight and the others are a quorum without it. That no two followers do so at once is
 * left to the clock: each has its own part of the time. If clocks are wrong, two do, and a leader
 * is elected again: nothing is lost. A connection that has found no such moment is closed after a
 * minute.
 */
#include "server/process/server_int.h"

enum {
    PAUSE_MS = 3000,   /* Between two closed connections. */
    ALWAYS_MS = 60000, /* A connection is closed then in any case. */
    SLOT_MS = 4000,    /* Part of the time of one replica. */
    MARGIN_MS = 1000,  /* Time at both ends of that part in which nothing is closed. */
    FRESH_TICKS = 4    /* A report of another replica counts for so many ticks. */
};

static bool has_slot(const struct config *config)
{
    uint64_t wall_ms = (uint64_t)os_wall_ms();
    uint64_t index = (uint64_t)(config_self(config) - config->peers.servers);
    uint64_t within_ms = wall_ms % SLOT_MS;

    return wall_ms / SLOT_MS % config->peers.server_count == index && within_ms >= MARGIN_MS &&
           within_ms < SLOT_MS - MARGIN_MS;
}

/* Whether the other voters are a quorum, as far as their last reports say. */
static bool is_spare(const struct server *server, uint32_t epoch)
{
    const struct core *core = &server->core;
    const struct config *config = server->config;
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX];
    size_t count = replica_heartbeats(core->replica, heartbeats);
    uint64_t fresh_ms = max_u64((uint64_t)config->zab.tick_ms * FRESH_TICKS, 1000);
    size_t voters = 0;
    size_t working = 0;

    for (uint32_t i = 0; i < config->peers.server_count; i++) {
        voters += config->peers.servers[i].voter ? 1 : 0;
    }
    for (size_t i = 0; i < count; i++) {
        const struct config_server *entry = config_find_server(config, heartbeats[i].id);

        working += entry && entry->voter && entry->id != config->id &&
                           heartbeats[i].epoch == epoch &&
                           (heartbeats[i].flags & HEARTBEAT_SERVING) != 0 &&
                           heartbeats[i].at_ms + fresh_ms > core->now_ms
                       ? 1
                       : 0;
    }
    return working > voters / 2;
}

/* Whether the connection may be closed as soon as no request is in flight. The leader leaves this
 * to its followers, which know of their requests. */
static bool may_retire(const struct server *server, uint32_t id)
{
    struct zab_status status;

    zab_status(replica_zab(server->core.replica), &status);
    if (status.state == ZAB_LEADING || status.leader == 0 || !has_slot(server->config)) {
        return false;
    }
    return status.leader != id || is_spare(server, status.epoch);
}

/* Notes how the connection is sealed, and since when its secret is removed. */
static void look(struct core *core, struct core_peer *peer, uint32_t id)
{
    tcp_seal(core->tcp, id, &peer->seal);
    if (!peer->seal.up || !peer->seal.removed) {
        peer->removed_ms = 0;
    } else if (peer->removed_ms == 0) {
        peer->removed_ms = core->now_ms;
    }
}

void core_look_at_seals(struct server *server)
{
    struct core *core = &server->core;
    const struct config_peers *peers = &server->config->peers;

    core->retire_id = 0;
    for (uint32_t i = 0; core->tcp && i < peers->server_count; i++) {
        struct core_peer *peer = &core->links[i];
        uint32_t id = peers->servers[i].id;

        look(core, peer, id);
        if (peer->removed_ms != 0 && core->retire_id == 0 && core->now_ms >= core->retire_ms) {
            core->retire_late = core->now_ms - peer->removed_ms >= ALWAYS_MS;
            core->retire_id = core->retire_late || may_retire(server, id) ? id : 0;
        }
    }
}

static const char *reason_of(const struct core *core, uint32_t id)
{
    struct tcp_seal seal;

    tcp_seal(core->tcp, id, &seal);
    return seal.up && seal.kind == KEYS_SEAL_CERTIFICATE
               ? "it began with a certificate of a CA that has been removed from peerCaFile"
               : "it began with a secret that has been removed from peerSecretFile";
}

void core_retire_peer(struct server *server)
{
    struct core *core = &server->core;
    struct replica_status status;

    if (core->retire_id == 0) {
        return;
    }
    replica_status(core->replica, &status);
    if (core->retire_late || status.requests == 0) {
        log_info("zab", "closes the connection with peer {peer}%u: {reason}%s", core->retire_id,
                 reason_of(core, core->retire_id));
        tcp_disconnect(core->tcp, core->retire_id);
        core->retire_id = 0;
        core->retire_ms = core->now_ms + PAUSE_MS;
    }
}
