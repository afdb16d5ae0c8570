/* A new cluster: its founders report to each other, and one of them writes the configuration. */
#include "zab/join_int.h"
#include "zab/level.h"

enum {
    FOUNDER_ALARM_MS = 60000 /* Minimum time between two FOUNDER_ADDRESS alarms. */
};

/* Whether all founders are here, with this replica as the one with the lowest id. No cluster is
 * founded while any of them knows of one: it may be theirs, from before their disks were emptied.
 */
static bool all_founders_here(const struct zab *zab)
{
    if (!join_may_found(zab)) {
        return false;
    }
    for (uint32_t i = 0; i < zab->servers.count; i++) {
        const struct zab_seed *server = &zab->servers.items[i];
        const struct peer *peer = peer_find(zab, server->id);

        if (server->voter && server->id != zab->id &&
            (server->id < zab->id || !peer || !peer->up || !peer->bootstrapping ||
             !join_says_founds(zab, peer))) {
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

/* What is to be recorded of the founder: it says so itself, or the server list does. */
static struct zab_texts founder_texts(const struct zab *zab, uint32_t id)
{
    struct zab_texts texts;

    if (zab->join.bootstrap != 0) {
        return join_texts(id == zab->id ? &zab->join.own : &peer_find(zab, id)->word);
    }
    (void)zab_config_texts(blob_slice(zab->servers.texts), id, &texts);
    return texts;
}

/* Encodes the first configuration. Returns the founder because of which there can be none: with
 * `bootstrap` its address is known from here only. 0: there is none. */
static uint32_t write_first(const struct zab *zab, const struct zab_config *config, struct buf *out)
{
    struct zab_config_edit edits[ZAB_MEMBERS_MAX];
    struct zab_config_parts parts = {.edits = edits};

    for_each_member (member, config) {
        struct zab_texts texts = founder_texts(zab, member->id);
        bool is_known = texts.port != 0 && config->level >= ZAB_LEVEL_TEXTS;

        if (is_known) {
            edits[parts.edit_count++] = (struct zab_config_edit){.id = member->id, .texts = texts};
        }
        buf_clear(out);
        if ((!is_known && zab->join.bootstrap != 0) ||
            zab_config_write(config, &parts, out) != ERR_OK) {
            return member->id;
        }
    }
    return 0;
}

/* The founders, with the highest level that all of them know. */
static void first_config(const struct zab *zab, struct zab_config *config)
{
    config->level = zab->level_max;
    config_insert(
        config, (struct zab_member){.id = zab->id, .voter = true, .incarnation = zab->incarnation});
    for (uint32_t i = 0; i < zab->servers.count; i++) {
        const struct zab_seed *server = &zab->servers.items[i];
        const struct peer *peer = peer_find(zab, server->id);

        if (server->id != zab->id) {
            ASSERT(peer || !server->voter);
            if (server->voter && peer->level < config->level) {
                config->level = peer->level;
            }
            config_insert(
                config, (struct zab_member){.id = server->id,
                                            .voter = server->voter,
                                            .incarnation = server->voter ? peer->incarnation : 0});
        }
    }
}

/* Writes the configuration. The founder with the lowest id does so once all founders have reported
 * that their disks are empty. A founder that misses the CONFIG message learns the configuration
 * later from any member. */
static void found(struct zab *zab)
{
    struct zab_config config = {0};
    struct buf bytes;

    ASSERT(zab->bootstrapping && zab->config.committed.count == 0);
    PROBE("zab.founded");
    for (size_t i = 0; i < ZAB_CLUSTER_LEN; i += 8) {
        uint64_t word = rng_u64(&zab->rng) | 1;

        memcpy(&config.cluster[i], &word, sizeof word);
    }
    config.history = rng_u64(&zab->rng) | 1;
    first_config(zab, &config);
    buf_init(&bytes, ZAB_CONFIG_BYTES_MAX);
    uint32_t wrong = write_first(zab, &config, &bytes);

    if (wrong == 0) {
        config_set(zab, &config, buf_slice(&bytes));
        persist_join(zab);
    } else if (zab->now_ms >= zab->join.alarm_ms) {
        zab->join.alarm_ms = zab->now_ms + FOUNDER_ALARM_MS;
        fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_FOUNDER_ADDRESS, .peer = wrong});
    }
    buf_release(&bytes);
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

void bootstrap_on_config(struct zab *zab, struct peer *peer, const struct zab_msg_config *msg)
{
    struct zab_config config;
    bool is_sound = zab_config_decode(msg->bytes, &config) == ERR_OK;

    if (zab->config.committed.count > 0 && !zab->bootstrapping) {
        /* A committed configuration counts as soon as it is known. Otherwise two of three replicas
         * could wait for each other: each may lack the configuration that makes the other one a
         * voter. */
        if (is_sound && config.history == zab->config.committed.history &&
            memcmp(config.cluster, zab->config.committed.cluster, ZAB_CLUSTER_LEN) == 0) {
            (void)config_adopt(zab, msg->bytes);
        }
        return;
    }
    if (zab->config.committed.count != 0 || (zab->bootstrapping && zab->state != ZAB_LOOKING)) {
        return;
    }
    if (!is_sound) {
        fx_disconnect(zab, peer->id);
        return;
    }
    if (!zab->bootstrapping || !zab_config_is_voter(&config, zab->id, zab->incarnation) ||
        join_is_other(zab, &config)) {
        join_take_hint(zab, &config, msg->bytes);
        return;
    }
    /* Of a founder that was away when the cluster was founded, the members may have changed since.
     */
    if (config.version == 0 && !list_agrees(zab, &config)) {
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
