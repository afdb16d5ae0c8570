/* How a replica finds an ensemble that its file does not list: join, bootstrap, advertisePeer. */
#include "server/config/config_int.h"

#include <stdio.h>

static bool is_word(const char *text)
{
    for (; *text; text++) {
        if (*text <= ' ' || *text > '~') {
            return false;
        }
    }
    return true;
}

static bool is_wildcard(const char *host)
{
    return !strcmp(host, "0.0.0.0") || !strcmp(host, "::");
}

/* Parses host:port; a host that the replicated configuration could not hold is malformed. */
static bool parse_address(struct slice text, struct config_address *ret_address)
{
    char line[CONFIG_HOST_MAX + 8];
    uint64_t port = 0;

    if (text.len == 0 || text.len >= sizeof line) {
        return false;
    }
    (void)snprintf(line, sizeof line, "%.*s", (int)text.len, (const char *)text.data);
    const char *rest = config_split_host(line, ret_address->host);

    if (!rest || !config_parse_number(rest, &port) || port == 0 || port > UINT16_MAX) {
        return false;
    }
    ret_address->port = (uint16_t)port;
    return strlen(ret_address->host) <= ZAB_HOST_MAX && is_word(ret_address->host);
}

static enum err check_join(struct config_loader *loader)
{
    struct config_peers *peers = &loader->config->peers;
    struct slice rest = slice_str(peers->join);

    peers->join_count = 0;
    while (rest.len > 0) {
        struct slice item = config_trim(slice_cut(&rest, ','));

        if (peers->join_count == CONFIG_JOINS_MAX) {
            return config_fail(loader,
                               "join: more than %d addresses; a few replicas of the ensemble are "
                               "enough, or one name with all their addresses",
                               CONFIG_JOINS_MAX);
        }
        struct config_address *address = &peers->joins[peers->join_count];

        if (!parse_address(item, address) || is_wildcard(address->host)) {
            return config_fail(loader,
                               "join: \"%.*s\" is not the address of another replica; give "
                               "host:port with the port for replicas, for example zk1:10998",
                               (int)min_size(item.len, 64),
                               item.len ? (const char *)item.data : "");
        }
        peers->join_count++;
    }
    return ERR_OK;
}

static enum err check_bootstrap(struct config_loader *loader)
{
    const struct config_peers *peers = &loader->config->peers;

    if (peers->bootstrap == 0) {
        return ERR_OK;
    }
    if (peers->server_count > 0) {
        return config_fail(loader,
                           "bootstrap: the lines server.N name the founders already; remove these "
                           "lines or bootstrap");
    }
    if (peers->join_count == 0) {
        return config_fail(loader,
                           "bootstrap: join is missing; give the addresses at which replicas 1 to "
                           "%u find each other, or one name with all these addresses",
                           peers->bootstrap);
    }
    return ERR_OK;
}

static enum err check_texts(struct config_loader *loader)
{
    struct config_peers *peers = &loader->config->peers;

    if (!is_word(peers->zone)) {
        return config_fail(loader,
                           "zone: \"%.64s\" has a character that is not allowed; give a "
                           "word of ASCII letters, digits and signs",
                           peers->zone);
    }
    if (peers->advertise[0] == '\0') {
        return ERR_OK;
    }
    if (!parse_address(slice_str(peers->advertise), &peers->own) || is_wildcard(peers->own.host)) {
        return config_fail(loader,
                           "advertisePeer: \"%.64s\" is no address under which other replicas can "
                           "reach this one; give host:port, for example zk4:10998",
                           peers->advertise);
    }
    return ERR_OK;
}

enum err config_check_join(struct config_loader *loader)
{
    enum err err = check_join(loader);

    THEN(err, check_bootstrap(loader));
    THEN(err, check_texts(loader));
    return err;
}

/* Sets the address that this replica tells to others. */
static void set_own(struct config_peers *peers, const struct config_server *self)
{
    if (peers->own.host[0] != '\0') {
        return;
    }
    if (self && self->port != 0) {
        (void)snprintf(peers->own.host, sizeof peers->own.host, "%s", self->host);
        peers->own.port = self->port;
    } else if (peers->listen[0] != '\0' && !is_wildcard(peers->host)) {
        (void)snprintf(peers->own.host, sizeof peers->own.host, "%s", peers->host);
        peers->own.port = peers->port;
    }
}

enum err config_set_own(struct config_loader *loader)
{
    struct config *config = loader->config;
    struct config_peers *peers = &config->peers;
    const struct config_server *self = config_self(config);

    set_own(peers, self);
    if (peers->is_alone && peers->advertise[0] == '\0') {
        return peers->listen[0] == '\0'
                   ? ERR_OK
                   : config_fail(loader,
                                 "peerListen: no server.N is given, nor join or advertisePeer, so "
                                 "no other replica will connect; add one of them or remove "
                                 "peerListen");
    }
    if (peers->is_alone) {
        (void)snprintf(peers->servers[0].host, CONFIG_HOST_MAX, "%s", peers->own.host);
        peers->servers[0].port = peers->own.port;
    }
    if (peers->own.host[0] == '\0') {
        return config_fail(loader,
                           "advertisePeer: missing; give host:port, under which the other replicas "
                           "reach this one, for example zk%u:10998",
                           config->id);
    }
    if (peers->listen[0] == '\0') {
        bool is_listed = self && self->port != 0;

        (void)snprintf(peers->host, sizeof peers->host, "%s",
                       is_listed ? self->host : peers->own.host);
        peers->port = is_listed ? self->port : peers->own.port;
    }
    return ERR_OK;
}
