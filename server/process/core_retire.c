/* Connections that began with a secret which has been removed from peerSecretFile. */
#include "server/process/server_int.h"

enum {
    RETIRE_PAUSE_MS = 3000,   /* Between two closed connections. */
    RETIRE_ALWAYS_MS = 60000, /* Such a connection is closed then in any case. */
};

/* Whether this leader has a quorum without the peer. */
static bool is_spare(const struct server *server, uint32_t peer)
{
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(replica_zab(server->core.replica), peers, ZAB_MEMBERS_MAX);
    size_t voters = config_self(server->config)->voter ? 1 : 0;
    size_t left = voters;
    bool votes = false;

    for (size_t i = 0; i < count; i++) {
        bool works = peers[i].voter && peers[i].synced;

        voters += peers[i].voter ? 1 : 0;
        left += works && peers[i].id != peer ? 1 : 0;
        votes |= works && peers[i].id == peer;
    }
    return !votes || left > voters / 2;
}

/* Whether to close the connection with the peer now. The leader closes those of its learners, as
 * long as it keeps a quorum; learners close those between them, which carry no writes. Whoever does
 * not get this far, because the leader has no quorum to spare or has not read its file, closes the
 * connection later in any case: an intruder that knew the removed secret shall not stay. */
static bool may_retire(const struct server *server, const struct core_peer *peer, uint32_t id)
{
    struct zab_status status;

    if (server->core.now_ms - peer->removed_ms >= RETIRE_ALWAYS_MS) {
        return true;
    }
    zab_status(replica_zab(server->core.replica), &status);
    if (status.state == ZAB_LEADING) {
        return is_spare(server, id);
    }
    return status.leader != 0 && status.leader != id;
}

/* Notes how the connections are sealed. Returns one that is to be closed because its secret was
 * removed, or NULL. */
static struct core_peer *find_retired(struct server *server, uint32_t *ret_id)
{
    struct core *core = &server->core;
    const struct config_peers *peers = &server->config->peers;
    struct core_peer *found = NULL;

    for (uint32_t i = 0; i < peers->server_count; i++) {
        struct core_peer *peer = &core->links[i];

        tcp_seal(core->tcp, peers->servers[i].id, &peer->seal);
        if (!peer->seal.up || !peer->seal.removed) {
            peer->removed_ms = 0;
            continue;
        }
        peer->removed_ms = peer->removed_ms ? peer->removed_ms : core->now_ms;
        if (!found && may_retire(server, peer, peers->servers[i].id)) {
            found = peer;
            *ret_id = peers->servers[i].id;
        }
    }
    return found;
}

void core_retire_peers(struct server *server)
{
    struct core *core = &server->core;
    uint32_t id = 0;
    const struct core_peer *peer = core->tcp ? find_retired(server, &id) : NULL;

    if (!peer) {
        core->retire_ms = core->now_ms + RETIRE_PAUSE_MS;
    } else if (core->now_ms >= core->retire_ms) {
        core->retire_ms = core->now_ms + RETIRE_PAUSE_MS;
        log_info("zab",
                 "closes the connection with peer %u: it began with a secret that has been removed "
                 "from peerSecretFile",
                 id);
        tcp_disconnect(core->tcp, id);
    }
}
