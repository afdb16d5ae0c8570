/*
 * The configurations that bind this replica: the committed one, and one that is in the log but not
 * yet committed. The committed one is sent to peers that know an older one.
 */
#include "zab/zab_int.h"

void config_insert(struct zab_config *config, struct zab_member member)
{
    ASSERT(config->count < ZAB_MEMBERS_MAX);

    uint32_t at = config->count++;

    while (at > 0 && config->members[at - 1].id > member.id) {
        config->members[at] = config->members[at - 1];
        at--;
    }
    config->members[at] = member;
    ASSERT(at == 0 || config->members[at - 1].id < member.id);
}

void config_erase(struct zab_config *config, uint32_t id)
{
    uint32_t at = 0;

    while (at < config->count && config->members[at].id != id) {
        at++;
    }
    ASSERT(at < config->count);
    config->count--;
    memmove(config->members + at, config->members + at + 1,
            (config->count - at) * sizeof config->members[0]);
}

static struct zab_member *member_of(struct zab_config *config, uint32_t id)
{
    const struct zab_member *member = zab_config_find(config, id);

    ASSERT(member);
    return &config->members[member - config->members];
}

void config_seat(struct zab_config *config, uint32_t id, uint64_t incarnation, uint64_t age_ms)
{
    ASSERT(incarnation != 0);
    *member_of(config, id) = (struct zab_member){.id = id,
                                                 .voter = true,
                                                 .incarnation = incarnation,
                                                 .admitted_age_ms = age_ms ? age_ms : 1};
}

void config_unseat(struct zab_config *config, uint32_t id)
{
    *member_of(config, id) = (struct zab_member){.id = id};
}

void config_keep(const struct zab_config *config, struct slice bytes, struct blob **inout_bytes)
{
    struct blob *old = *inout_bytes;
    struct buf out;

    buf_init(&out, ZAB_CONFIG_BYTES_MAX);
    if (config->count > 0) {
        /* Encoded again: without the transaction, and with the version that `config` has. */
        enum err err =
            zab_config_write(config, &(struct zab_config_parts){.texts_of = bytes}, &out);

        ASSERT(err == ERR_OK);
    }
    *inout_bytes = out.len > 0 ? blob_new(buf_slice(&out)) : NULL;
    buf_release(&out);
    blob_unref(old); /* Only now: `bytes` may point into it. */
}

void config_set(struct zab *zab, const struct zab_config *config, struct slice bytes)
{
    config_keep(config, bytes, &zab->config.committed_bytes);
    zab->config.committed = *config;
}

/* Adopts a committed configuration: no older configuration counts any more. */
void config_bind(struct zab *zab, const struct zab_config *config, struct slice bytes)
{
    if (config->version <= zab->config.committed.version) {
        return;
    }
    config_set(zab, config, bytes);
    if (zab->config.has_pending && zab->config.pending.version <= zab->config.committed.version) {
        zab->config.has_pending = false;
    }
    fx_role(zab);
}

/* Sets the pending configuration, whose record is in the log. A leader proposes a change only
 * after the previous change is committed, so the previous configuration is committed. */
void config_pend(struct zab *zab, const struct zab_config *config, struct slice bytes)
{
    if (config->version <= zab->config.committed.version) {
        return;
    }
    if (zab->config.has_pending && zab->config.pending.version < config->version) {
        config_bind(zab, &zab->config.pending, blob_slice(zab->config.pending_bytes));
    }
    config_keep(config, bytes, &zab->config.pending_bytes);
    zab->config.pending = *config;
    zab->config.has_pending = true;
    zab->config.is_proven = false;
}

bool config_is_known(struct zab *zab, const struct zab_config *config)
{
    if (config->level <= zab->level_max) {
        return true;
    }
    fx_halt(zab, (struct zab_notice){.type = ZAB_NOTICE_NEWER,
                                     .feature_level = config->level,
                                     .known_level = zab->level_max});
    return false;
}

void config_verify(struct zab *zab, const struct logrec *rec)
{
    struct zab_config config;

    ASSERT(rec->type == LOGREC_CONFIG);
    if (zab_config_decode(logrec_payload(rec), &config) != ERR_OK) {
        fx_halt(zab, (struct zab_notice){.type = ZAB_NOTICE_MALFORMED_CONFIG, .zxid = rec->zxid});
        return;
    }
    (void)config_is_known(zab, &config);
}

/* A record that config_verify has refused is in force nowhere: the process stops. */
void config_seen(struct zab *zab, const struct logrec *rec)
{
    struct zab_config config;

    if (zab_config_decode(logrec_payload(rec), &config) != ERR_OK ||
        config.level > zab->level_max) {
        return;
    }
    config.version = rec->zxid;
    config_pend(zab, &config, logrec_payload(rec));
}

void config_committed(struct zab *zab)
{
    if (!zab->config.has_pending || zab->config.pending.version > zab->committed) {
        return;
    }
    PROBE("zab.config_committed");
    ASSERT(zab->config.pending.version > zab->config.committed.version);
    config_bind(zab, &zab->config.pending, blob_slice(zab->config.pending_bytes));
    ASSERT(!zab->config.has_pending);
}

/*
 * Only a voter of the new configuration uses the proof. Another disk can have a longer log than all
 * of them, and then none of them leads while they still count it: it must be able to lead, by the
 * majorities of both configurations, which is always safe.
 */
void config_prove(struct zab *zab, zxid_t version)
{
    if (zab->config.has_pending && !zab->config.is_proven &&
        zab->config.pending.version == version &&
        zab_config_is_voter(&zab->config.pending, zab->id, zab->incarnation)) {
        PROBE("zab.config_proven");
        zab->config.is_proven = true;
    }
}

bool config_adopt(struct zab *zab, struct slice bytes)
{
    struct zab_config config;

    if (zab_config_decode(bytes, &config) != ERR_OK) {
        return false;
    }
    if (config.version <= zab->config.committed.version || !config_is_known(zab, &config)) {
        return true;
    }
    PROBE("zab.config_adopted");
    config_prove(zab, config.version);
    if (!config_is_proven(zab) || zab->config.pending.version < config.version) {
        config_bind(zab, &config, bytes);
    }
    return true;
}

bool config_names(const struct zab *zab, uint32_t id)
{
    return zab_config_find(&zab->config.committed, id) ||
           (zab->config.has_pending && zab_config_find(&zab->config.pending, id));
}

bool list_votes(const struct zab *zab, uint32_t id)
{
    for (uint32_t i = 0; i < zab->servers.count; i++) {
        if (zab->servers.items[i].id == id) {
            return zab->servers.items[i].voter;
        }
    }
    return false;
}

/* Whether server list and configuration have the same members, with the same right to vote. If they
 * differ, this replica would talk to other replicas than it counts. */
bool list_agrees(const struct zab *zab, const struct zab_config *config)
{
    const struct zab_member *self = zab_config_find(config, zab->id);

    if (!self || config->count != zab->servers.count) {
        return false;
    }
    for (uint32_t i = 0; i < zab->servers.count; i++) {
        const struct zab_seed *server = &zab->servers.items[i];
        const struct zab_member *member = zab_config_find(config, server->id);

        if (!member || has_seat(member) != server->voter) {
            return false;
        }
    }
    return true;
}

bool config_excludes(const struct zab *zab, const struct peer *peer)
{
    return zab->config.committed.count > 0 &&
           (!config_names(zab, peer->id) ||
            zab_config_find_removed(&zab->config.committed, peer->id, peer->incarnation));
}

/* Then each majority of its voters has a disk with the proof. */
bool config_is_settled(const struct zab *zab)
{
    return zab->config.committed.version <= zab->committed;
}

static void send_config(struct zab *zab, const struct peer *peer, struct blob *bytes)
{
    struct zab_msg msg = {.type = ZAB_CONFIG, .config.bytes = blob_slice(bytes)};

    ASSERT(bytes);
    fx_send(zab, peer->id, &msg);
}

void config_send(struct zab *zab, const struct peer *peer)
{
    ASSERT(zab->config.committed.count > 0);
    send_config(zab, peer, zab->config.committed_bytes);
}

/*
 * Sends the committed configuration to a peer whose vote names an older one. A removed replica
 * sends none: what it knows may be out of date. A peer that the configuration removes gets it only
 * once it is settled: it stops then, and until that the others may need its vote to start again.
 */
void config_tell(struct zab *zab, const struct peer *peer, zxid_t version)
{
    bool may_tell = !zab->bootstrapping && !peer->bootstrapping && !zab->own.is_removed;

    if (may_tell && config_is_proven(zab) && version < zab->config.pending.version &&
        zab_config_find(&zab->config.pending, peer->id)) {
        PROBE("zab.proven_config_told");
        send_config(zab, peer, zab->config.pending_bytes);
    } else if (may_tell && version < zab->config.committed.version &&
               (config_is_settled(zab) || !config_excludes(zab, peer))) {
        PROBE("zab.config_told");
        config_send(zab, peer);
    }
}
