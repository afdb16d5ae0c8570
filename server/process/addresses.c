#include "server/process/addresses.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    NAMED_MAX = 4 /* Differences that are named; the others are counted. */
};

/* ---- Addresses. ---- */

static bool take_host(char host[256], uint16_t *ret_port, const struct zab_texts *texts)
{
    if (texts->port == 0 || texts->host.len == 0) {
        return false;
    }
    ASSERT(texts->host.len <= ZAB_HOST_MAX);
    (void)snprintf(host, 256, "%.*s", (int)texts->host.len, (const char *)texts->host.data);
    *ret_port = texts->port;
    return true;
}

/* Takes the first address from the first configuration that has one. */
static void take_first(const struct addresses *from, uint32_t id, struct tcp_peer *peer)
{
    const struct slice sources[] = {from->committed, from->pending, from->hint, from->outside};
    struct zab_texts texts;

    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (zab_config_texts(sources[i], id, &texts) &&
            take_host(peer->host, &peer->port, &texts)) {
            return;
        }
    }
}

static void drop_next(struct tcp_peer *peer)
{
    peer->next_host[0] = '\0';
    peer->next_port = 0;
}

static void take_next(const struct addresses *from, uint32_t id, struct tcp_peer *peer)
{
    struct zab_texts texts;
    bool has = zab_config_texts(from->pending, id, &texts) &&
               take_host(peer->next_host, &peer->next_port, &texts);

    if (has && peer->next_port == peer->port && strcasecmp(peer->next_host, peer->host) == 0) {
        drop_next(peer);
    }
}

static void take_file(struct tcp_peer *peer, const char *host, uint16_t port)
{
    (void)snprintf(peer->host, sizeof peer->host, "%s", host);
    peer->port = port;
}

bool addresses_find(const struct addresses *from, uint32_t id, struct tcp_peer *ret_peer)
{
    const struct config_server *server = config_find_server(from->config, id);
    bool may_dial = true;

    *ret_peer = (struct tcp_peer){.id = id};
    if (id == from->config->id && from->config->peers.own.port != 0) {
        take_file(ret_peer, from->config->peers.own.host, from->config->peers.own.port);
        return true;
    }
    if (server) {
        take_file(ret_peer, server->host, server->port);
        return true;
    }
    take_first(from, id, ret_peer);
    take_next(from, id, ret_peer);
    if (ret_peer->next_host[0] != '\0' && !config_may_dial(from->config, ret_peer->next_host)) {
        drop_next(ret_peer);
        may_dial = false;
    }
    if (ret_peer->host[0] != '\0' && !config_may_dial(from->config, ret_peer->host)) {
        (void)snprintf(ret_peer->host, sizeof ret_peer->host, "%s", ret_peer->next_host);
        ret_peer->port = ret_peer->next_port;
        drop_next(ret_peer); /* Without a first address there is no next one. */
        may_dial = false;
    }
    return may_dial;
}

/* ---- The server list. ---- */

struct differences {
    char *text;
    size_t len;
    uint32_t count;
};

static void note(struct differences *found, const char *before, uint32_t id, const char *after)
{
    if (found->count < NAMED_MAX) {
        int put = snprintf(found->text + found->len, LIST_TEXT_MAX - found->len, "%s%s%u%s",
                           found->count > 0 ? ", " : "", before, id, after);

        ASSERT(put > 0 && found->len + (size_t)put < LIST_TEXT_MAX);
        found->len += (size_t)put;
    }
    found->count++;
}

static void compare_members(const struct config *config, const struct zab_config *committed,
                            struct differences *found)
{
    for_each_member (member, committed) {
        const struct config_server *server = config_find_server(config, member->id);
        bool has_seat = member->voter || member->empty_seat;

        if (!server) {
            note(found, "it lacks replica ", member->id, "");
        } else if (server->voter != has_seat) {
            note(found, "replica ", member->id,
                 has_seat ? " is a voter and no observer" : " is an observer and no voter");
        }
    }
    for (uint32_t i = 0; i < config->peers.server_count; i++) {
        uint32_t id = config->peers.servers[i].id;

        if (!zab_config_find(committed, id)) {
            note(found, "replica ", id, " is no member");
        }
    }
}

void addresses_compare(const struct config *config, const struct zab_config *committed,
                       char text[LIST_TEXT_MAX])
{
    static const char head[] = "server.N: the list differs from the members of the ensemble: ";
    static const char tail[] = "; the members count, so correct the list when it suits";
    struct differences found = {.text = text, .len = sizeof head - 1};

    (void)snprintf(text, LIST_TEXT_MAX, "%s", head);
    bool has_list =
        config->peers.port != 0 && config->peers.server_count > 0 && !config->peers.is_alone;

    if (committed->count > 0 && has_list) {
        compare_members(config, committed, &found);
    }
    if (found.count == 0) {
        text[0] = '\0';
        return;
    }
    if (found.count > NAMED_MAX) {
        found.len += (size_t)snprintf(text + found.len, LIST_TEXT_MAX - found.len, ", and %u more",
                                      found.count - NAMED_MAX);
    }
    ASSERT(found.len + sizeof tail <= LIST_TEXT_MAX);
    (void)snprintf(text + found.len, LIST_TEXT_MAX - found.len, "%s", tail);
}
