/*
 * Replicas that are no members. One that knows no configuration with its id asks others for theirs
 * (JOIN), and waits to be added; what it learns is a hint and counts for no quorum. The others
 * know it as an outsider: it gets the configuration, and nothing else that it says counts.
 */
#include "zab/join_int.h"
#include "zab/level.h"

enum {
    SEARCH_TICKS = 3,  /* Without a leader for this long, a replica searches. */
    WORD_TICKS = 3,    /* What a founder says of itself counts for this long. */
    FORGET_TICKS = 10, /* A cluster of which nothing was heard for this long may be gone. */
};

/* ---- What a replica says of itself. ---- */

static uint8_t copy(uint8_t *to, struct slice from)
{
    ASSERT(from.len <= UINT8_MAX);
    if (from.len > 0) {
        memcpy(to, from.data, from.len);
    }
    return (uint8_t)from.len;
}

/* Texts that no configuration could hold are dropped: others show them. */
static void set_texts(struct join_word *word, const struct zab_texts *texts)
{
    static const struct zab_texts none;
    const struct zab_texts *sound = zab_texts_are_sound(texts) ? texts : &none;

    word->port = sound->port;
    word->host_len = copy(word->host, sound->host);
    word->client_len = copy(word->client, sound->client);
    word->zone_len = copy(word->zone, sound->zone);
}

struct zab_texts join_texts(const struct join_word *word)
{
    return (struct zab_texts){.port = word->port,
                              .host = slice_make(word->host, word->host_len),
                              .client = slice_make(word->client, word->client_len),
                              .zone = slice_make(word->zone, word->zone_len)};
}

static bool is_recent(const struct zab *zab, uint64_t since_ms, uint32_t ticks)
{
    return since_ms != 0 && zab->now_ms - since_ms < ticks_ms(zab, ticks);
}

void join_on_join(struct zab *zab, struct peer *peer, const struct zab_msg_join *join)
{
    struct join_word *word = &peer->word;
    struct zab_texts texts = {
        .port = join->port, .host = join->host, .client = join->client, .zone = join->zone};

    word->since_ms = word->is_said ? word->since_ms : zab->now_ms;
    word->is_said = true;
    word->heard_ms = zab->now_ms;
    word->flags = join->flags;
    set_texts(word, &texts);
    /* Twice a tick at most: the answer is longer than the question. */
    if (zab->bootstrapping || zab->config.committed.count == 0 || zab->own.is_removed ||
        zab->now_ms < word->answer_ms) {
        return;
    }
    word->answer_ms = zab->now_ms + zab->limits.tick_ms / 2;
    config_send(zab, peer);
}

/* ---- A replica without a configuration. ---- */

/* The texts of the server list, as a configuration would have them. A list that no configuration
 * can hold, for example with one address twice, has none. */
static struct blob *list_texts(const struct zab_init *init)
{
    struct zab_config *config = mem_zalloc(1, sizeof *config);
    struct zab_config_edit *edits = mem_zalloc(ZAB_MEMBERS_MAX, sizeof edits[0]);
    struct zab_config_parts parts = {.edits = edits};
    struct blob *blob = NULL;
    struct buf bytes;

    config->level = ZAB_LEVEL_TEXTS;
    for (uint32_t i = 0; i < init->seed_count; i++) {
        const struct zab_seed *seed = &init->seeds[i];

        config_insert(config, (struct zab_member){.id = seed->id, .voter = seed->voter});
        if (seed->texts.port != 0) {
            edits[parts.edit_count++] =
                (struct zab_config_edit){.id = seed->id, .texts = seed->texts};
        }
    }
    buf_init(&bytes, ZAB_CONFIG_BYTES_MAX);
    if (parts.edit_count > 0 && zab_config_write(config, &parts, &bytes) == ERR_OK) {
        blob = blob_new(buf_slice(&bytes));
    }
    buf_release(&bytes);
    mem_free(config);
    mem_free(edits);
    return blob;
}

static void set_servers(struct zab *zab, const struct zab_init *init)
{
    struct server_list *servers = &zab->servers;

    ASSERT(init->seed_count <= ZAB_MEMBERS_MAX && init->bootstrap <= ZAB_MEMBERS_MAX);
    ASSERT(init->seed_count == 0 || init->bootstrap == 0);
    for (uint32_t i = 0; i < init->seed_count; i++) {
        servers->items[servers->count++] =
            (struct zab_seed){.id = init->seeds[i].id, .voter = init->seeds[i].voter};
    }
    for (uint32_t id = 1; id <= init->bootstrap && init->id <= init->bootstrap; id++) {
        servers->items[servers->count++] = (struct zab_seed){.id = id, .voter = true};
    }
    servers->texts = list_texts(init);
}

void join_init(struct zab *zab, const struct zab_init *init)
{
    set_servers(zab, init);
    zab->join.bootstrap = init->bootstrap;
    zab->join.auto_join = init->auto_join;
    zab->join.max_observers = init->max_observers;
    zab->join.max_voters = init->max_voters;
    zab->join.leader_ms = zab->now_ms;
    set_texts(&zab->join.own, &init->texts);
}

void join_free(struct zab *zab)
{
    blob_unref(zab->outside.bytes);
    blob_unref(zab->servers.texts);
}

void join_take_hint(struct zab *zab, const struct zab_config *config, struct slice bytes)
{
    struct outside *outside = &zab->outside;
    bool is_same =
        outside->bytes && memcmp(outside->config.cluster, config->cluster, ZAB_CLUSTER_LEN) == 0;

    ASSERT(zab->config.committed.count == 0);
    if (!config_is_known(zab, config) ||
        (outside->bytes && !is_same && is_recent(zab, outside->heard_ms, FORGET_TICKS))) {
        return;
    }
    zab->join.met_ms = zab->now_ms;
    outside->heard_ms = zab->now_ms;
    if (is_same && config->version <= outside->config.version) {
        return;
    }
    outside->config = *config;
    config_keep(config, bytes, &outside->bytes);
    outside->is_new = true;
    fx_role(zab);
}

bool join_is_other(const struct zab *zab, const struct zab_config *config)
{
    const struct outside *outside = &zab->outside;

    return outside->bytes && memcmp(outside->config.cluster, config->cluster, ZAB_CLUSTER_LEN) != 0;
}

static bool is_named_outside(const struct zab *zab)
{
    return zab->outside.bytes && zab_config_find(&zab->outside.config, zab->id);
}

bool join_may_follow(const struct zab *zab)
{
    return zab->config.committed.count > 0 || !zab->outside.bytes || is_named_outside(zab);
}

/* ---- Founders. ---- */

void join_on_up(struct zab *zab, const struct zab_ev_peer_up *up)
{
    if (!slice_is_zero(slice_make(up->cluster, ZAB_CLUSTER_LEN))) {
        zab->join.met_ms = max_u64(zab->now_ms, 1);
    }
}

static bool meets_a_cluster(const struct zab *zab)
{
    for_each_peer (peer, zab) {
        if (peer->up && peer->is_in_cluster) {
            return true;
        }
    }
    return false;
}

/* A server list names the founders: a cluster that is gone does not matter. By number they found
 * only if there is no cluster at any address of `join`. One that was met is there still, perhaps
 * out of reach, so this process founds none any more: REACHED may be older than the end of the
 * connection.
 */
bool join_may_found(const struct zab *zab)
{
    const struct joining *join = &zab->join;
    bool is_new = zab->bootstrapping && zab->config.committed.count == 0;

    if (!is_new || !list_votes(zab, zab->id)) {
        return false;
    }
    if (join->bootstrap == 0) {
        return !meets_a_cluster(zab) && !is_recent(zab, join->met_ms, FORGET_TICKS);
    }
    return (join->met_ms == 0 || MUTANT(81)) && (join->is_reached || MUTANT(82));
}

/* With a server list, the list of the others is not asked for: founders of the release before send
 * no JOIN. */
bool join_says_founds(const struct zab *zab, const struct peer *peer)
{
    bool is_heard = peer->word.is_said && is_recent(zab, peer->word.heard_ms, WORD_TICKS);

    if (!is_heard) {
        return zab->join.bootstrap == 0;
    }
    return (peer->word.flags & ZAB_FLAG_FOUNDS) != 0;
}

/* ---- Time. ---- */

/* Whether a leader has answered, or a quorum follows this replica. */
static bool has_leader(const struct zab *zab)
{
    return is_broadcasting(zab) || (in_dialogue(zab) && zab->follow.phase > FOLLOW_CEPOCH);
}

/* A replica without a leader may know only addresses or members that are no more, and be unknown to
 * those that are: then it must dial, whatever its id is. A replica that knows no address but those
 * of `join` does so at once. */
static void search(struct zab *zab)
{
    bool knows_no_address =
        zab->config.committed.count == 0 && (zab->servers.count == 0 || zab->join.bootstrap != 0);

    if (has_leader(zab)) {
        zab->join.leader_ms = zab->now_ms;
    }
    bool is_on = !has_leader(zab) && (knows_no_address || zab->now_ms - zab->join.leader_ms >=
                                                              ticks_ms(zab, SEARCH_TICKS));

    if (is_on != zab->join.searches) {
        zab->join.searches = is_on;
        fx_add(zab, ZAB_FX_SEARCH)->search.is_on = is_on;
    }
}

static void ask(struct zab *zab)
{
    struct zab_texts texts = join_texts(&zab->join.own);
    struct zab_msg msg = {.type = ZAB_JOIN,
                          .join = {.port = texts.port,
                                   .host = texts.host,
                                   .client = texts.client,
                                   .zone = texts.zone,
                                   .flags = join_may_found(zab) ? ZAB_FLAG_FOUNDS : 0}};

    for_each_peer (peer, zab) {
        if (peer->up) {
            fx_send(zab, peer->id, &msg);
        }
    }
}

void join_step(struct zab *zab)
{
    bool founds = zab->bootstrapping && zab->join.bootstrap != 0;

    if (meets_a_cluster(zab)) {
        zab->join.met_ms = zab->now_ms;
    }
    search(zab);
    if (zab->config.committed.count > 0 || zab->now_ms < zab->join.ask_ms ||
        !(zab->join.searches || founds)) {
        return;
    }
    zab->join.ask_ms = zab->now_ms + zab->limits.tick_ms;
    ask(zab);
}

/* ---- Status queries. ---- */

const struct zab_config *zab_outside(const struct zab *zab)
{
    return zab->outside.bytes ? &zab->outside.config : NULL;
}

struct slice zab_outside_bytes(const struct zab *zab)
{
    return blob_slice(zab->outside.bytes);
}

bool join_waits(const struct zab *zab, const struct peer *peer)
{
    return zab->config.committed.count > 0 && peer->is_outsider && peer->word.is_said &&
           is_recent(zab, peer->word.heard_ms, FORGET_TICKS);
}

size_t zab_waiting(const struct zab *zab, struct zab_waiting *out, size_t out_max)
{
    size_t count = 0;

    for_each_peer (peer, zab) {
        const struct join_word *word = &peer->word;

        if (join_waits(zab, peer) && count < out_max) {
            out[count++] = (struct zab_waiting){.id = peer->id,
                                                .incarnation = peer->incarnation,
                                                .level = peer->level,
                                                .texts = join_texts(word),
                                                .since_ms = word->since_ms,
                                                .fault = word->fault};
        }
    }
    return count;
}
