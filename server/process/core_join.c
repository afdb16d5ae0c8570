/*
 * How the core finds others beyond its members: the addresses that the transport dials while the
 * protocol searches or founds, why they are not reached, and what a replica that is no member shows
 * its operator. Core thread.
 */
#include "server/process/join_text.h"
#include "server/process/server_int.h"
#include "zab/level.h"

#include <strings.h>

enum {
    REACHED_MS = 10000,               /* All addresses of join count as reached for so long. */
    LOG_AFTER_MS = 2000,              /* An address that is not reached for so long is logged, */
    LOG_AGAIN_MS = 10000,             /* and again after this time at the earliest. */
    FOUND_AFTER_MS = 3000,            /* A founder that waits for so long says for what, */
    FOUND_AGAIN_MS = 60000,           /* and again after this time. */
    ABSENT_MAX = 512,                 /* Bytes of the list of founders that are not connected. */
    COMMAND_MAX = JOIN_TEXT_MAX - 90, /* What the words before it leave. */
    /* Addresses of join, and two for each member or line of the file. */
    SEARCH_MAX = CONFIG_JOINS_MAX + 2 * (LINKS_MAX + ZAB_MEMBERS_MAX)
};

/* ---- Which addresses are dialed. ---- */

struct search {
    struct tcp_address items[SEARCH_MAX];
    uint32_t count;
};

static void add(struct search *search, const char *host, uint16_t port)
{
    if (host[0] != '\0' && search->count < SEARCH_MAX) {
        struct tcp_address *to = &search->items[search->count++];

        (void)snprintf(to->host, sizeof to->host, "%s", host);
        to->port = port;
    }
}

/* Adds the replicas that this one would not dial: for a connection between two members it is the
 * one with the larger id that dials. */
static void add_others(struct server *server, struct search *search)
{
    const struct config *config = server->config;
    struct tcp_peer *peers = mem_zalloc(LINKS_MAX, sizeof peers[0]);
    uint32_t count = core_list_peers(server, peers);

    for (uint32_t i = 1; i < count; i++) {
        if (peers[i].id > config->id) {
            add(search, peers[i].host, peers[i].port);
            add(search, peers[i].next_host, peers[i].next_port);
        }
    }
    for (uint32_t i = 0; i < config->peers.server_count; i++) {
        const struct config_server *line = &config->peers.servers[i];

        if (line->id != config->id && !links_find(&server->core.links, line->id)) {
            add(search, line->host, line->port);
        }
    }
    mem_free(peers);
}

/* A founder without a list dials only the addresses of join: only these have to be reached. The
 * only member of an ensemble dials them, too: if its directory is that of another ensemble than its
 * operator thinks, the replicas there say so. */
static void dial(struct server *server, const struct zab_status *status)
{
    const struct config_peers *file = &server->config->peers;
    const struct zab_config *committed = zab_config(replica_zab(server->core.replica));
    bool founds = status->bootstrapping && file->bootstrap != 0 && !status->outside;
    bool is_only = committed->count == 1 && file->join_count > 0;
    bool is_on = founds || status->searching || is_only;
    struct search *search;

    if (!is_on && !server->core.join.is_on) {
        return;
    }
    server->core.join.is_on = is_on;
    if (!is_on) {
        memset(server->core.join.whys, 0, sizeof server->core.join.whys);
    }
    search = mem_zalloc(1, sizeof *search);
    for (uint32_t i = 0; i < file->join_count && is_on; i++) {
        add(search, file->joins[i].host, file->joins[i].port);
    }
    if (status->searching && !founds) {
        add_others(server, search);
    }
    tcp_set_join(server->core.tcp, search->items, search->count);
    mem_free(search);
}

/* ---- Why they are not reached. ---- */

void core_on_join(void *ctx, const struct tcp_address *address, const char *why)
{
    struct server *server = ctx;
    const struct config_peers *file = &server->config->peers;

    for (uint32_t i = 0; i < file->join_count; i++) {
        struct core_join_why *entry = &server->core.join.whys[i];

        if (file->joins[i].port == address->port &&
            strcmp(file->joins[i].host, address->host) == 0) {
            (void)snprintf(entry->text, sizeof entry->text, "%s", why ? why : "");
            entry->since_ms = entry->waits ? entry->since_ms : server->core.now_ms;
            entry->waits = why != NULL;
            server->core.publish_now = true;
        }
    }
}

static void log_whys(struct server *server)
{
    const struct config_peers *file = &server->config->peers;

    for (uint32_t i = 0; i < file->join_count; i++) {
        struct core_join_why *entry = &server->core.join.whys[i];
        uint64_t now_ms = server->core.now_ms;

        if (entry->waits && now_ms - entry->since_ms >= LOG_AFTER_MS &&
            (entry->logged_ms == 0 || now_ms - entry->logged_ms >= LOG_AGAIN_MS)) {
            entry->waits = false;
            entry->logged_ms = now_ms;
            log_warn("zab", "join: {address}%s port {port}%u is not reached: {reason}%s",
                     file->joins[i].host, file->joins[i].port, entry->text);
        }
    }
}

/* ---- What the operator sees. ---- */

/* Returns a member's address for clients; "" if none has said one. */
static void find_endpoint(const struct zab *zab, char endpoint[ZAB_CLIENT_MAX + 1])
{
    endpoint[0] = '\0';
    for_each_member (member, zab_outside(zab)) {
        struct zab_texts texts;

        if (zab_config_texts(zab_outside_bytes(zab), member->id, &texts) && texts.client.len > 0) {
            (void)snprintf(endpoint, ZAB_CLIENT_MAX + 1, "%.*s", (int)texts.client.len,
                           (const char *)texts.client.data);
            return;
        }
    }
}

static void explain_outside(const struct server *server, const struct zab_config *ensemble,
                            char text[JOIN_TEXT_MAX])
{
    const struct config *config = server->config;
    const struct zab_texts own = {.port = config->peers.own.port,
                                  .host = slice_str(config->peers.own.host)};
    char address[LINK_ADDRESS_MAX];
    char endpoint[ZAB_CLIENT_MAX + 1];
    char command[COMMAND_MAX];
    char cluster[2 * ZAB_CLUSTER_LEN + 1];

    for (size_t i = 0; i < ZAB_CLUSTER_LEN; i++) {
        (void)snprintf(cluster + 2 * i, 3, "%02x", ensemble->cluster[i]);
    }
    if (ensemble->level < ZAB_LEVEL_TEXTS) {
        (void)snprintf(text, JOIN_TEXT_MAX,
                       "not a member of ensemble %s, whose feature level is %u: members can be "
                       "added from level %d on, so first upgrade all its replicas",
                       cluster, ensemble->level, ZAB_LEVEL_TEXTS);
        return;
    }
    links_address(&own, address);
    find_endpoint(replica_zab(server->core.replica), endpoint);
    struct join_command wanted = {.id = config->id,
                                  .address = address,
                                  .zone = config->peers.zone,
                                  .endpoint = endpoint,
                                  .https = config->clients.tls.mode == CONFIG_TLS_REQUIRED};
    if (!join_command_text(&wanted, command, sizeof command)) {
        wanted.endpoint = "";
        wanted.zone = "";
        (void)join_command_text(&wanted, command, sizeof command);
    }
    (void)snprintf(text, JOIN_TEXT_MAX, "not a member of ensemble %s; its super user adds it: %s",
                   cluster, command);
}

/* Lists the addresses of join that are not reached. */
static void list_missing(const struct server *server, char text[JOIN_TEXT_MAX])
{
    const struct config_peers *file = &server->config->peers;
    size_t len = 0;

    for (uint32_t i = 0; i < file->join_count && len < JOIN_TEXT_MAX; i++) {
        const struct core_join_why *entry = &server->core.join.whys[i];

        if (entry->text[0] != '\0') {
            (void)snprintf(text + len, JOIN_TEXT_MAX - len, "; join: %s port %u: %s",
                           file->joins[i].host, file->joins[i].port, entry->text);
            len = strlen(text);
        }
    }
}

static void explain_search(const struct server *server, bool founds, char text[JOIN_TEXT_MAX])
{
    const struct config_peers *file = &server->config->peers;

    (void)snprintf(text, JOIN_TEXT_MAX,
                   founds ? "no ensemble is founded yet: replicas 1 to %u must be connected, and "
                            "all addresses of join reached"
                          : "this replica looks for an ensemble at the addresses of join",
                   file->bootstrap);
}

static void explain(struct server *server, const struct zab_status *status)
{
    struct core_join *join = &server->core.join;
    const struct zab *zab = replica_zab(server->core.replica);
    const struct zab_config *ensemble = zab_outside(zab);
    char was[JOIN_TEXT_MAX];

    (void)snprintf(was, sizeof was, "%s", join->text);
    join->text[0] = '\0';
    if (status->outside && ensemble) {
        explain_outside(server, ensemble, join->text);
        if (strcmp(was, join->text) != 0) {
            log_warn("zab", "waits to be added: {reason}%s", join->text);
        }
    } else if (zab_config(zab)->count == 0 && server->config->peers.join_count > 0) {
        explain_search(server, status->bootstrapping && server->config->peers.bootstrap != 0,
                       join->text);
    }
    join->missing[0] = '\0';
    if (!status->outside) {
        list_missing(server, join->missing);
    }
}

/* ---- A founder that waits. ---- */

/* Lists the other founders that are not connected; without a server list only their ids are known.
 */
static void list_absent(struct server *server, char text[ABSENT_MAX])
{
    const struct config_peers *file = &server->config->peers;
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(replica_zab(server->core.replica), peers, ZAB_MEMBERS_MAX);
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count && len < ABSENT_MAX; i++) {
        if (peers[i].connected) {
            continue;
        }
        (void)snprintf(text + len, ABSENT_MAX - len, "%s%u", len > 0 ? ", " : "", peers[i].id);
        len = strlen(text);
        for (uint32_t line = 0; line < file->server_count; line++) {
            if (file->servers[line].id == peers[i].id) {
                (void)snprintf(text + len, ABSENT_MAX - len, " (%s port %u)",
                               file->servers[line].host, file->servers[line].port);
                len = strlen(text);
            }
        }
    }
}

/* Logs from time to time what a founder waits for: without a leader nothing else would show it but
 * the probe. */
static void log_founding(struct server *server, const struct zab_status *status)
{
    struct core_join *join = &server->core.join;
    uint64_t now_ms = server->core.now_ms;
    char absent[ABSENT_MAX];
    char why[2 * JOIN_TEXT_MAX + ABSENT_MAX];

    if (!status->bootstrapping || status->outside) {
        join->founds_ms = 0;
    } else if (join->founds_ms == 0) {
        join->founds_ms = now_ms + FOUND_AFTER_MS;
    } else if (now_ms >= join->founds_ms) {
        join->founds_ms = now_ms + FOUND_AGAIN_MS;
        list_absent(server, absent);
        (void)snprintf(why, sizeof why, "%s%s%s%s", join->text[0] ? join->text : status->reason,
                       join->missing, absent[0] ? "; not connected: " : "", absent);
        log_warn("zab", "waits to found the ensemble: {reason}%s", why);
    }
}

/* Logs each replica that begins to wait, once. */
static void log_waiting(struct server *server)
{
    struct core_join *join = &server->core.join;
    struct zab_waiting waiting[ZAB_OUTSIDERS_MAX];
    size_t count = zab_waiting(replica_zab(server->core.replica), waiting, ZAB_OUTSIDERS_MAX);
    uint32_t ids[ZAB_OUTSIDERS_MAX];

    for (size_t i = 0; i < count; i++) {
        char address[LINK_ADDRESS_MAX];

        ids[i] = waiting[i].id;
        links_address(&waiting[i].texts, address);
        if (!zab_id_is_among(join->waiting, join->waiting_count, ids[i])) {
            log_info("zab", "replica {peer}%u at {address}%s is no member and waits to be added",
                     ids[i], address);
        }
    }
    join->waiting_count = count;
    memcpy(join->waiting, ids, count * sizeof ids[0]);
}

void core_look_at_join(struct server *server, const struct zab_status *status)
{
    if (server->core.tcp) {
        dial(server, status);
        log_whys(server);
        explain(server, status);
        log_founding(server, status);
        log_waiting(server);
    }
}

bool core_note_reached(struct server *server, bool *ret_is_reached)
{
    struct core *core = &server->core;
    uint64_t at_ms = core->tcp ? tcp_join_reached_ms(core->tcp) : 0;
    bool was_reached = core->join.is_reached;

    core->join.is_reached = at_ms != 0 && core->now_ms < at_ms + REACHED_MS;
    *ret_is_reached = core->join.is_reached;
    return core->join.is_reached != was_reached;
}
