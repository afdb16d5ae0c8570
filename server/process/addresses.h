/*
 * addresses.h - where other replicas are dialed, and how the server list of the configuration file
 * differs from the members of the ensemble. Pure. Any thread.
 *
 * A line server.N of the file wins, as this replica's network may need another address than that
 * of the replicated configuration. Else the committed configuration has the address, and the
 * pending one the next address. Else a hint has it: the newest configuration that this replica has
 * known before it lost its log. A replica that is no member yet knows them from another one.
 */
#ifndef SERVER_PROCESS_ADDRESSES_H
#define SERVER_PROCESS_ADDRESSES_H

#include "server/config/config.h"
#include "zab/tcp/tcp.h"

enum {
    LIST_TEXT_MAX = 400
};

/* Encoded configurations; each may be empty. */
struct addresses {
    const struct config *config;
    struct slice committed;
    struct slice pending;
    struct slice hint;
    struct slice outside; /* Of an ensemble in which this replica is not. */
};

/* Fills the addresses of replica `id`; without one, the host is "". Returns false if an address is
 * not used because config_may_dial refuses it. */
bool addresses_find(const struct addresses *from, uint32_t id, struct tcp_peer *ret_peer);

/* Writes how the server list differs from the committed configuration, with the first differences;
 * "" if it does not, or if one of both is empty. */
void addresses_compare(const struct config *config, const struct zab_config *committed,
                       char text[LIST_TEXT_MAX]);

#endif
