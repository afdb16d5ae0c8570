#include "server/process/members.h"

#include "base/check.h"

static bool has_seat(const struct zab_member *member)
{
    return member->voter || member->empty_seat;
}

void members_list(const struct config *config, const struct zab_config *committed,
                  struct members *ret_members)
{
    ret_members->count = 0;
    for_each_member (member, committed) {
        ret_members->rows[ret_members->count++] =
            (struct member_row){.id = member->id,
                                .voter = has_seat(member),
                                .server = config_find_server(config, member->id)};
    }
    for (uint32_t i = 0; committed->count == 0 && i < config->peers.server_count; i++) {
        const struct config_server *server = &config->peers.servers[i];

        ret_members->rows[ret_members->count++] =
            (struct member_row){.id = server->id, .voter = server->voter, .server = server};
    }
    for (uint32_t id = 1; committed->count == 0 && id <= config->peers.bootstrap; id++) {
        ret_members->rows[ret_members->count++] = (struct member_row){.id = id, .voter = true};
    }
    ASSERT(ret_members->count == members_count(config, committed));
}

bool members_votes(const struct config *config, const struct zab_config *committed, uint32_t id)
{
    const struct zab_member *member = zab_config_find(committed, id);
    const struct config_server *server = config_find_server(config, id);

    if (committed->count > 0) {
        return member && has_seat(member);
    }
    return server ? server->voter : id <= config->peers.bootstrap;
}

uint32_t members_count(const struct config *config, const struct zab_config *committed)
{
    return committed->count > 0 ? committed->count
                                : config->peers.server_count + config->peers.bootstrap;
}
