/*
 * members.h - the members of the ensemble, as clients and operators see them.
 *
 * The committed configuration says which replicas are members, and which vote. The file says it
 * only until the ensemble is founded; later its lines override addresses. A replica that joins
 * knows no members until it is one. Pure. Any thread.
 */
#ifndef SERVER_PROCESS_MEMBERS_H
#define SERVER_PROCESS_MEMBERS_H

#include "server/config/config.h"
#include "zab/config.h"

struct member_row {
    uint32_t id;
    bool voter;                         /* Has a seat, perhaps an empty one. */
    const struct config_server *server; /* Its line in the configuration file; NULL: none. */
};

struct members {
    struct member_row rows[ZAB_MEMBERS_MAX]; /* Ascending by id. */
    uint32_t count;
};

/* Lists the members; `config` outlives the list. */
void members_list(const struct config *config, const struct zab_config *committed,
                  struct members *ret_members);

/* Whether replica `id` is a member with a seat. */
bool members_votes(const struct config *config, const struct zab_config *committed, uint32_t id);

/* Returns the number of members. */
uint32_t members_count(const struct config *config, const struct zab_config *committed);

#endif
