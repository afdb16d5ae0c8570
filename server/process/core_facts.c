/* What this process knows of the members' addresses, for the replicated configuration. */
#include "server/process/server_int.h"

static void put_text(char *to, size_t size, const char *text)
{
    if (strlen(text) < size) { /* The file's texts may be longer than those of the configuration. */
        (void)snprintf(to, size, "%s", text);
    }
}

static void fill(const struct server *server, const struct core_peer *link, struct zab_fact *fact)
{
    const struct config *config = server->config;
    const struct config_server *known = config_find_server(config, fact->id);
    const char *client =
        fact->id == config->id ? config->clients.advertise_client : link->advertise;

    if (known && known->port != 0) {
        put_text(fact->host, sizeof fact->host, known->host);
        fact->port = fact->host[0] != '\0' ? known->port : 0;
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
