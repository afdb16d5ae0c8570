/* The core's table of connections, and the transport, follow the protocol. */
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

/* Takes the address from the committed configuration, unless it was taken from this version. */
static void take_address(const struct zab *zab, struct core_peer *link)
{
    zxid_t version = zab_config(zab)->version;
    struct zab_texts texts;

    if (link->address_known && link->address_version == version) {
        return;
    }
    link->address_known = true;
    link->address_version = version;
    link->address[0] = '\0';
    if (zab_config_texts(zab_config_bytes(zab), link->id, &texts) && texts.port != 0) {
        (void)snprintf(link->address, sizeof link->address, "%.*s:%u", (int)texts.host.len,
                       (const char *)texts.host.data, texts.port);
    }
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
    for_each_link (link, &core->links) {
        take_address(replica_zab(core->replica), link);
    }
    check_files(core, server->config, (uint32_t)count);
}

void core_tell_level(struct core *core)
{
    uint32_t level = zab_config(replica_zab(core->replica))->level;

    if (core->tcp && level != core->told_level) {
        core->told_level = level;
        tcp_set_level(core->tcp, (uint8_t)min_u32(level, UINT8_MAX));
    }
}
