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
    link->address_known = zab_config(zab)->count > 0; /* The first one has version 0, too. */
    link->address_version = version;
    (void)zab_config_texts(zab_config_bytes(zab), link->id, &texts);
    links_address(&texts, link->address);
    (void)snprintf(link->zone, sizeof link->zone, "%.*s", (int)texts.zone.len,
                   (const char *)texts.zone.data);
    (void)snprintf(link->client, sizeof link->client, "%.*s", (int)texts.client.len,
                   (const char *)texts.client.data);
}

/* Compares the server list with the members, whenever these have changed; logs each difference
 * once. */
static void check_list(struct server *server)
{
    struct core *core = &server->core;
    const struct zab_config *committed = zab_config(replica_zab(core->replica));
    char text[LIST_TEXT_MAX];

    if (committed->count == 0 ||
        (core->list.is_compared && core->list.version == committed->version)) {
        return;
    }
    core->list.is_compared = true;
    core->list.version = committed->version;
    addresses_compare(server->config, committed, text);
    if (strcmp(text, core->list.differs) == 0) {
        return;
    }
    (void)snprintf(core->list.differs, sizeof core->list.differs, "%s", text);
    if (text[0] != '\0') {
        log_warn("zab", "the server list is out of date: {reason}%s", text);
    } else {
        log_info("zab", "the server list names the members of the ensemble again");
    }
}

void core_refresh_links(struct server *server)
{
    struct core *core = &server->core;
    const struct zab *zab = replica_zab(core->replica);
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    struct zab_waiting waiting[ZAB_OUTSIDERS_MAX];
    size_t count = zab_peers(zab, peers, ZAB_MEMBERS_MAX);
    size_t outside = min_size(zab_waiting(zab, waiting, ZAB_OUTSIDERS_MAX), LINKS_MAX - 1 - count);
    uint32_t ids[LINKS_MAX] = {server->config->id};

    for (size_t i = 0; i < count; i++) {
        ids[1 + i] = peers[i].id;
    }
    for (size_t i = 0; i < outside; i++) {
        ids[1 + count + i] = waiting[i].id;
    }
    links_keep(&core->links, ids, 1 + count + outside);
    for_each_link (link, &core->links) {
        take_address(zab, link);
    }
    check_files(core, server->config, (uint32_t)count);
    check_list(server);
}

/* Returns what is known of addresses. The hint may be newer than the committed configuration: then
 * this replica has lost its log. */
static struct addresses addresses_now(const struct server *server)
{
    const struct core *core = &server->core;
    const struct zab *zab = replica_zab(core->replica);
    struct addresses from = {.config = server->config,
                             .committed = zab_config_bytes(zab),
                             .pending = zab_pending_bytes(zab),
                             .hint = blob_slice(core->hint),
                             .outside = zab_outside_bytes(zab)};
    struct zab_config hint;

    if (core->hint && zab_config_decode(from.hint, &hint) == ERR_OK &&
        hint.version > zab_config(zab)->version) {
        from.hint = from.committed;
        from.committed = blob_slice(core->hint);
    }
    return from;
}

/* Lists the other replicas that the transport connects with: the peers of the protocol. */
uint32_t core_list_peers(struct server *server, struct tcp_peer peers[LINKS_MAX])
{
    struct core *core = &server->core;
    const struct zab *zab = replica_zab(core->replica);
    const struct addresses from = addresses_now(server);
    struct zab_peer_status known[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(zab, known, ZAB_MEMBERS_MAX);

    (void)addresses_find(&from, server->config->id, &peers[0]);
    for (size_t i = 0; i < count; i++) {
        struct core_peer *link = links_find(&core->links, known[i].id);

        if (!addresses_find(&from, known[i].id, &peers[i + 1]) && link) {
            (void)snprintf(link->refused, sizeof link->refused,
                           "its address in the configuration of the ensemble is beyond loopback: "
                           "this replica needs peerSecretFile or certificates, and peerTls or "
                           "insecure=true, to dial it");
            link->refusal_waits = true;
        }
    }
    return (uint32_t)count + 1;
}

void core_follow_members(struct server *server)
{
    struct core *core = &server->core;

    core_refresh_links(server);
    core->publish_now = true;
    if (core->tcp) {
        struct tcp_peer *peers = mem_zalloc(LINKS_MAX, sizeof peers[0]);

        tcp_set_peers(core->tcp, peers, core_list_peers(server, peers));
        mem_free(peers);
    }
}

void core_tell_level(struct core *core)
{
    uint32_t level = zab_config(replica_zab(core->replica))->level;

    if (core->tcp && level != core->told_level) {
        core->told_level = level;
        tcp_set_level(core->tcp, (uint8_t)min_u32(level, UINT8_MAX));
    }
}
