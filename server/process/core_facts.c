/* What this process knows of the members' addresses, for the replicated configuration. */
#include "server/process/server_int.h"

static void put_text(char *to, size_t size, const char *text)
{
    if (strlen(text) < size) { /* The file's texts may be longer than those of the configuration. */
        (void)snprintf(to, size, "%s", text);
    }
}

/* The first configuration of an ensemble is kept without texts, but for the file `members`. */
static void take_hint(const struct core *core, struct zab_fact *fact)
{
    struct zab_texts texts;

    if (zab_config_texts(blob_slice(core->hint), fact->id, &texts) && texts.port != 0) {
        (void)snprintf(fact->host, sizeof fact->host, "%.*s", (int)texts.host.len,
                       (const char *)texts.host.data);
        fact->port = texts.port;
    }
}

static void fill(const struct server *server, const struct core_peer *link, struct zab_fact *fact)
{
    const struct config *config = server->config;
    const struct config_server *known = config_find_server(config, fact->id);
    bool is_own = fact->id == config->id;
    const char *host = is_own ? config->peers.own.host : known ? known->host : "";
    uint16_t port = is_own ? config->peers.own.port : known ? known->port : 0;
    const char *client = is_own ? config->clients.advertise_client : link->advertise;

    if (port != 0) {
        put_text(fact->host, sizeof fact->host, host);
        fact->port = fact->host[0] != '\0' ? port : 0;
    } else {
        take_hint(&server->core, fact);
    }
    put_text(fact->client, sizeof fact->client, client);
}

/* The table has an entry for this replica and for each peer of the protocol, also before there is a
 * configuration. */
void core_tell_facts(struct server *server)
{
    struct zab_fact *facts = mem_zalloc(ZAB_MEMBERS_MAX, sizeof facts[0]);
    uint32_t count = 0;

    for_each_link (link, &server->core.links) {
        if (count < ZAB_MEMBERS_MAX) {
            facts[count].id = link->id;
            fill(server, link, &facts[count++]);
        }
    }
    replica_facts(server->core.replica, facts, count);
    mem_free(facts);
}
