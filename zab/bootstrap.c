/* A new cluster: its founders report to each other, and one of them writes the configuration. */
#include "zab/zab_int.h"

static bool all_founders_here(const struct zab *zab)
{
    for (uint32_t i = 0; i < zab->servers.count; i++) {
        const struct zab_seed *server = &zab->servers.items[i];
        const struct peer *peer = peer_find(zab, server->id);

        if (server->voter && server->id != zab->id &&
            (server->id < zab->id || !peer || !peer->up || !peer->bootstrapping)) {
            return false;
        }
    }
    return true;
}

static void persist_join(struct zab *zab)
{
    ASSERT(zab->bootstrapping && zab->config.committed.count > 0);

    fx_persist(zab, ZAB_PERSIST_JOIN)->join.config = &zab->config.committed;
    zab->election.settled = false;
    fx_role(zab);
}

/* Writes the configuration, with the highest level that all founders know. The founder with the
 * lowest id does so once all founders have reported that their disks are empty. A founder that
 * misses the CONFIG message learns the configuration later from any member. */
static void found(struct zab *zab)
{
    struct zab_config config = {0};
    uint16_t level = zab->level_max;

    ASSERT(zab->bootstrapping && zab->config.committed.count == 0);
    PROBE("zab.founded");
    for (size_t i = 0; i < ZAB_CLUSTER_LEN; i += 8) {
        uint64_t word = rng_u64(&zab->rng) | 1;

        memcpy(&config.cluster[i], &word, sizeof word);
    }
    config.history = rng_u64(&zab->rng) | 1;
    config_insert(&config, (struct zab_member){
                               .id = zab->id, .voter = true, .incarnation = zab->incarnation});
    for (uint32_t i = 0; i < zab->servers.count; i++) {
        const struct zab_seed *server = &zab->servers.items[i];
        const struct peer *peer = peer_find(zab, server->id);

        if (server->id != zab->id) {
            ASSERT(peer || !server->voter);
            if (server->voter && peer->level < level) {
                level = peer->level;
            }
            config_insert(
                &config, (struct zab_member){.id = server->id,
                                             .voter = server->voter,
                                             .incarnation = server->voter ? peer->incarnation : 0});
        }
    }
    config.level = level;
    config_set(zab, &config, slice_make(NULL, 0));
    persist_join(zab);
}

/* Sends the configuration to each connected founder that is still bootstrapping. */
void bootstrap_tell(struct zab *zab)
{
    ASSERT(!zab->bootstrapping);
    for_each_peer (peer, zab) {
        if (peer->up && peer->bootstrapping &&
            zab_config_is_voter(&zab->config.committed, peer->id, peer->incarnation)) {
            peer->bootstrapping = false;
            config_send(zab, peer);
        }
    }
}

void bootstrap_check(struct zab *zab)
{
    if (!zab->bootstrapping) {
        bootstrap_tell(zab);
    } else if (zab->state == ZAB_LOOKING && zab->config.committed.count == 0 &&
               all_founders_here(zab)) {
        found(zab);
    }
}

/* Ends the role of a leader that has received a configuration which its log lacks: a later
 * leader has made it. Voters of that configuration may have acknowledged records of this leader as
 * observers, and have cut them back since. Counted as votes, they would commit a lost record. */
static void yield_to_later_leader(struct zab *zab)
{
    if (zab->state == ZAB_LEADING && zab->config.committed.version > zab->trail.last) {
        enter_looking(zab, "a later leader has changed the configuration");
    }
}

void bootstrap_on_config(struct zab *zab, struct peer *peer, const struct zab_msg_config *msg)
{
    struct zab_config config;

    if (!zab->bootstrapping) {
        /* A committed configuration counts as soon as it is known. Otherwise two of three replicas
         * could wait for each other: each may lack the configuration that makes the other one a
         * voter. */
        if (zab_config_decode(msg->bytes, &config) == ERR_OK &&
            memcmp(config.cluster, zab->config.committed.cluster, ZAB_CLUSTER_LEN) == 0 &&
            config.history == zab->config.committed.history) {
            (void)config_adopt(zab, msg->bytes);
            yield_to_later_leader(zab);
        }
        return;
    }
    if (zab->config.committed.count != 0 || zab->state != ZAB_LOOKING) {
        return;
    }
    if (zab_config_decode(msg->bytes, &config) != ERR_OK ||
        !zab_config_is_voter(&config, zab->id, zab->incarnation)) {
        fx_disconnect(zab, peer->id);
        return;
    }
    if (!list_agrees(zab, &config)) {
        fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_FOUNDER_LIST, .peer = peer->id});
        fx_disconnect(zab, peer->id);
        return;
    }
    if (!config_is_known(zab, &config)) {
        return;
    }
    PROBE("zab.found_received");
    config_set(zab, &config, msg->bytes);
    persist_join(zab);
}
