/* The core's table of connections follows the peers of the protocol. */
#include "server/process/server_int.h"

/* Warns once for each number of members that needs more descriptors than were kept for peers. */
static void check_files(struct core *core, const struct config *config, uint32_t peers)
{
    uint32_t kept_for = config->peers.files_for;

    if (kept_for != 0 && peers > kept_for && peers > core->files_peers) {
        log_warn("zab",
                 "descriptors are reserved for connections with {count}%u other replicas, but "
                 "the ensemble has more: restart this replica when it suits, so that clients "
                 "leave descriptors for all of them",
                 kept_for);
    }
    core->files_peers = max_u32(core->files_peers, peers);
}

void core_refresh_links(struct server *server)
{
    struct core *core = &server->core;
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(replica_zab(core->replica), peers, ZAB_MEMBERS_MAX);
    uint32_t ids[LINKS_MAX] = {server->config->id};

    for (size_t i = 0; i < count; i++) {
        ids[i + 1] = peers[i].id;
    }
    links_keep(&core->links, ids, count + 1);
    check_files(core, server->config, (uint32_t)count);
}
