/*
 * Changes of the configuration that the leader proposes without a request: an admission, a higher
 * level. At most one is under way: the next one is proposed only when it is committed.
 */
#include "zab/zab_int.h"

static void propose(struct zab *zab, struct zab_config *config)
{
    struct zab_config_parts parts = {.texts_of = blob_slice(zab->config.committed_bytes)};
    struct buf bytes;

    ASSERT(!zab->config.has_pending);
    config->version = zab->trail.last + 1;
    ASSERT(config->version > zab->config.committed.version);
    ASSERT(config->level <= zab->level_max);
    buf_init(&bytes, ZAB_CONFIG_BYTES_MAX);
    /* Only the leader's own changes of known members come here: the bytes fit. */
    enum err err = zab_config_write(config, &parts, &bytes);

    ASSERT(err == ERR_OK);
    broadcast_append(zab, LOGREC_CONFIG, buf_slice(&bytes));
    ASSERT(zab->trail.last == config->version);
    buf_release(&bytes);
}

/* Proposes a configuration that no CONFIG record holds yet. 'zabra recover' writes one to the
 * survivor's disk only, with a version whose counter is 0. No CONFIG record has such a zxid. */
static bool write_record(struct zab *zab)
{
    struct zab_config config = zab->config.committed;

    if (config.version == 0 || zxid_counter(config.version) != 0) {
        return false;
    }
    PROBE("zab.config_written");
    propose(zab, &config);
    return true;
}

static void propose_admission(struct zab *zab, const struct peer *peer)
{
    struct zab_config config = zab->config.committed;

    PROBE("zab.admitted");
    for (uint32_t i = 0; i < config.count; i++) {
        if (config.members[i].id == peer->id) {
            config.members[i].voter = true;
            config.members[i].empty_seat = false;
            config.members[i].incarnation = peer->incarnation;
            config.members[i].admitted_age_ms = zab->age_ms ? zab->age_ms : 1;
        }
    }
    propose(zab, &config);
    fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_ADMISSION, .peer = peer->id});
}

static bool admit(struct zab *zab)
{
    for_each_peer (peer, zab) {
        if (may_admit(zab, peer)) {
            propose_admission(zab, peer);
            return true;
        }
    }
    return false;
}

/* Returns the level that the member's release is known to know. What the member has said counts
 * once it has been connected for level_ms, and as long as it is heard: else it may have stopped, to
 * start again with an older release. */
static uint16_t level_of(const struct zab *zab, const struct zab_member *member)
{
    const struct peer *peer = peer_find(zab, member->id);

    if (member->id == zab->id) {
        return zab->level_max;
    }
    if (!peer || !peer->up || zab->now_ms - peer->up_ms < zab->limits.level_ms ||
        zab->now_ms - peer->heard_ms >= ticks_ms(zab, zab->limits.sync_limit)) {
        return 0;
    }
    return peer->level;
}

/* Returns the highest level that the releases of all members know, observers included: each of them
 * must be able to read every record. */
static uint16_t common_level(const struct zab *zab)
{
    uint16_t common = zab->level_max;

    for_each_member (member, &zab->config.committed) {
        uint16_t level = level_of(zab, member);

        if (level < common && !MUTANT(75)) {
            common = level;
        }
    }
    return common;
}

/* Raises the level as far as all members and the hold permit. It is never lowered. */
static bool raise_level(struct zab *zab)
{
    struct zab_config config = zab->config.committed;
    uint16_t level = common_level(zab);

    if (config.hold != 0 && level > config.hold) {
        level = config.hold;
    }
    if (level <= config.level) {
        return false;
    }
    config.level = level;
    propose(zab, &config);
    fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_RAISE, .feature_level = level});
    return true;
}

void change_tick(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);
    bootstrap_tell(zab);
    if (zab->config.has_pending || zab->now_ms < zab->change_ms || zab_next_zxid(zab) == 0) {
        return;
    }
    zab->change_ms = zab->now_ms + zab->limits.tick_ms / 2;
    /* The configuration is newer than this leader's log, so a later leader has committed it: this
     * leader can commit nothing any more. */
    if (zab->config.committed.version > zab->trail.last) {
        return;
    }
    /* A quorum must be in step without the new disk. An unknown disk is not counted, since its
     * incarnation is not in the configuration. */
    if (!quorum_has(zab, true, is_present)) {
        return;
    }
    if (!write_record(zab) && !admit(zab)) {
        (void)raise_level(zab);
    }
}
