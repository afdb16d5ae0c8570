/*
 * Changes of the configuration that the leader proposes: an admission and a higher level by itself,
 * others for a client. At most one is under way: the next one is proposed only when it is
 * committed.
 */
#include "zab/zab_int.h"

static void propose(struct zab *zab, struct zab_config *config, struct slice txn)
{
    struct zab_config_parts parts = {.texts_of = blob_slice(zab->config.committed_bytes),
                                     .txn = txn};
    struct buf bytes;

    ASSERT(!zab->config.has_pending);
    config->version = zab->trail.last + 1;
    ASSERT(config->version > zab->config.committed.version);
    ASSERT(config->level <= zab->level_max);
    buf_init(&bytes, ZAB_CONFIG_BYTES_MAX + ZAB_CONFIG_TXN_MAX);
    /* No change adds members or texts: the bytes fit. */
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
    propose(zab, &config, slice_make(NULL, 0));
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
    propose(zab, &config, slice_make(NULL, 0));
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

/* Whether the member's word about its release counts: it has been connected for level_ms, and is
 * heard. Else it may have stopped, to start again with an older release. */
static bool has_said_level(const struct zab *zab, const struct zab_member *member,
                           uint16_t *ret_level)
{
    const struct peer *peer = peer_find(zab, member->id);

    *ret_level = member->id == zab->id ? zab->level_max : 0;
    if (member->id == zab->id) {
        return true;
    }
    if (!peer || !peer->up) {
        return false;
    }
    *ret_level = peer->level;
    return zab->now_ms - peer->up_ms >= zab->limits.level_ms &&
           zab->now_ms - peer->heard_ms < ticks_ms(zab, zab->limits.sync_limit);
}

/* Returns the highest level that the releases of all members know, observers included: each of them
 * must be able to read every record. */
static uint16_t common_level(const struct zab *zab)
{
    uint16_t common = zab->level_max;

    for_each_member (member, &zab->config.committed) {
        uint16_t level;

        if (!has_said_level(zab, member, &level)) {
            level = 0;
        }
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
    propose(zab, &config, slice_make(NULL, 0));
    fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_RAISE, .feature_level = level});
    return true;
}

/* Whether the leader may propose a change now. */
static bool is_ready(const struct zab *zab)
{
    /* If the configuration is newer than this leader's log, a later leader has committed it: this
     * leader can commit nothing any more. A quorum must be in step without a new disk. An unknown
     * disk is not counted, since its incarnation is not in the configuration. */
    return zab_next_zxid(zab) != 0 && zab->config.committed.version <= zab->trail.last &&
           quorum_has(zab, true, is_present);
}

void change_tick(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);
    bootstrap_tell(zab);
    if (zab->config.has_pending || zab->now_ms < zab->change_ms || zab_next_zxid(zab) == 0) {
        return;
    }
    zab->change_ms = zab->now_ms + zab->limits.tick_ms / 2;
    if (is_ready(zab) && !write_record(zab) && !admit(zab)) {
        (void)raise_level(zab);
    }
}

/* ---- Changes that a client asks for. ---- */

static enum zab_fault judge_members(const struct zab *zab, uint16_t level, bool force,
                                    struct zab_change_report *report)
{
    for_each_member (member, &zab->config.committed) {
        uint16_t known;
        bool has_said = has_said_level(zab, member, &known);
        const struct peer *peer = peer_find(zab, member->id);

        report->member = member->id;
        report->level = known;
        if (known < level && (has_said || (peer && peer->up))) {
            return ZAB_FAULT_MEMBER_OLDER;
        }
        if (!has_said && !force) {
            report->level_ms = zab->limits.level_ms;
            return ZAB_FAULT_MEMBER_AWAY;
        }
    }
    return ZAB_FAULT_NONE;
}

static enum zab_fault judge_level(const struct zab *zab, const struct zab_change *change,
                                  uint16_t hold, struct zab_change_report *report)
{
    report->level = zab->config.committed.level;
    report->hold = hold;
    if (change->level <= zab->config.committed.level) {
        return ZAB_FAULT_LEVEL_FALLS;
    }
    if (hold != 0 && change->level > hold) {
        return ZAB_FAULT_HELD;
    }
    if (change->level > zab->level_max) {
        report->level = zab->level_max;
        return ZAB_FAULT_LEVEL_UNKNOWN;
    }
    return judge_members(zab, change->level, change->force, report);
}

/* Judges the change and makes it in `config`, the committed configuration. */
static enum zab_fault judge(const struct zab *zab, const struct zab_change *change,
                            struct zab_config *config, struct zab_change_report *report)
{
    if (zab->config.has_pending) {
        return ZAB_FAULT_UNDER_WAY;
    }
    if (!is_ready(zab)) {
        return ZAB_FAULT_NOT_READY;
    }
    if (change->checks_version && change->version != config->version) {
        return ZAB_FAULT_VERSION;
    }
    config->hold = change->sets_hold ? change->hold : config->hold;
    if (change->level != 0) {
        enum zab_fault fault = judge_level(zab, change, config->hold, report);

        if (fault != ZAB_FAULT_NONE) {
            return fault;
        }
        config->level = change->level;
    }
    report->level = config->level;
    if (config->level == 0) {
        return ZAB_FAULT_LEVEL_TOO_LOW;
    }
    return config->hold != 0 && config->hold < config->level ? ZAB_FAULT_HOLD_TOO_LOW
                                                             : ZAB_FAULT_NONE;
}

enum zab_fault zab_change(struct zab *zab, const struct zab_change *change, struct slice txn,
                          struct zab_change_report *ret_report, struct zab_effects *effects)
{
    struct zab_config config = zab->config.committed;

    ASSERT(effects && !zab->effects);
    ASSERT((change->level != 0 || change->sets_hold) && txn.len <= ZAB_CONFIG_TXN_MAX);
    *ret_report = (struct zab_change_report){.previous = config.version};
    enum zab_fault fault = judge(zab, change, &config, ret_report);

    if (fault != ZAB_FAULT_NONE || change->dry_run) {
        return fault;
    }
    zab->effects = effects;
    propose(zab, &config, txn);
    zab->effects = NULL;
    ret_report->version = config.version;
    return ZAB_FAULT_NONE;
}
