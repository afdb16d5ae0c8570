/*
 * links.h - what this replica knows about its connection with each other replica, by id.
 *
 * Members come and go while the process runs, so no index of another list names an entry. The table
 * has an entry for this replica and for each peer of the protocol core, and for each connected
 * replica that waits to be added; an entry ends with its peer.
 *
 * Not thread safe: the core owns the table, and other threads read a copy.
 */
#ifndef SERVER_PROCESS_LINKS_H
#define SERVER_PROCESS_LINKS_H

#include "server/config/config.h"
#include "zab/tcp/tcp.h"

enum {
    LINKS_MAX = ZAB_MEMBERS_MAX + 1, /* This replica and its peers. */
    LINK_ADDRESS_MAX = CONFIG_HOST_MAX + 8,
    PEER_REFUSED_MAX = 200
};

/* The connection with a replica: what the replica has reported, or why there is no connection. */
struct core_peer {
    uint32_t id;
    char address[LINK_ADDRESS_MAX]; /* host:port for other replicas, in the committed configuration;
                                       "": it has none. */
    char zone[ZAB_ZONE_MAX + 1];    /* Likewise. */
    char client[ZAB_CLIENT_MAX + 1]; /* Likewise, for clients. */
    bool address_known;              /* These three were taken from the configuration of */
    zxid_t address_version;          /* this version. */
    char advertise[CONFIG_HOST_MAX];
    char refused[PEER_REFUSED_MAX];   /* Why its handshakes fail; "": they do not. */
    bool refusal_waits;               /* `refused` is still to be logged. */
    uint64_t refusal_logged_ms;       /* Time of the last log line; 0: none. */
    char duplicate[PEER_REFUSED_MAX]; /* Last report that a second process claims its id. */
    uint64_t duplicate_ms;            /* Time of that report. */
    uint64_t duplicate_logged_ms;     /* Time of the last log line; 0: none. */
    struct tcp_seal seal;             /* How the connection is sealed, at the last publication. */
    uint64_t removed_ms; /* When its secret was first seen to be removed; 0: it is not. */
};

struct links {
    struct core_peer items[LINKS_MAX]; /* Ascending by id. */
    uint32_t count;
};

/* Loops over the entries. NOLINTBEGIN(*-parentheses): `link` is declared here. */
#define for_each_link(link, links)                             \
    for (__typeof__(&(links)->items[0]) link = (links)->items; \
         link < (links)->items + (links)->count; link++)
/* NOLINTEND(*-parentheses) */

/* Writes host:port for other replicas, an IPv6 address in brackets; "" without a port. */
void links_address(const struct zab_texts *texts, char ret_address[LINK_ADDRESS_MAX]);

/* Returns the entry of this id; NULL: there is none. */
struct core_peer *links_find(struct links *links, uint32_t id);

/* Returns the entry of this id to read; an empty one if there is none. */
const struct core_peer *links_see(const struct links *links, uint32_t id);

/* Returns the entry of this id, and makes one if there is none. NULL: the table is full. The call
 * moves other entries. */
struct core_peer *links_place(struct links *links, uint32_t id);

/* Makes the table hold exactly `ids`, at most LINKS_MAX. Entries that stay are unchanged. */
void links_keep(struct links *links, const uint32_t *ids, size_t count);

#endif
