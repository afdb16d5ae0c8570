/* Admission: the new disk of a known member takes the seat of the old one. */
#include "zab/zab_int.h"

static bool is_present(const struct zab *zab, const struct peer *peer)
{
    return is_in_step(peer) &&
           zab->now_ms - peer->learner.heard_ms < ticks_ms(zab, zab->limits.sync_limit);
}

/*
 * Whether the last admission to this seat is at least admit_again_ms ago. Without this limit
 * repeated swaps of disks could soon replace a majority of the disks. The age of the ensemble at
 * the last admission is part of the configuration, so that a new leader respects the limit, too.
 */
static bool admitted_long_ago(const struct zab *zab, const struct zab_member *member)
{
    return member->admitted_age_ms == 0 ||
           (zab->age_ms >= member->admitted_age_ms &&
            zab->age_ms - member->admitted_age_ms >= zab->limits.admit_again_ms);
}

/* Whether the peer may be admitted: an unknown disk under a voter's id, refilled and in step, while
 * the old disk stays away. */
static bool may_admit(const struct zab *zab, const struct peer *peer)
{
    const struct zab_member *member = zab_config_find(&zab->config.committed, peer->id);

    if (!member || !has_seat(member) || member->incarnation == peer->incarnation ||
        !is_present(zab, peer) || peer->learner.acked < zab->committed) {
        return false;
    }
    if (zab->now_ms - peer->seen_ms < zab->limits.admit_absent_ms) {
        return false;
    }
    return admitted_long_ago(zab, member);
}

static void propose_config(struct zab *zab, struct zab_config *config)
{
    struct buf bytes;

    ASSERT(!zab->config.has_pending);
    config->version = zab->trail.last + 1;
    ASSERT(config->version > zab->config.committed.version);
    buf_init(&bytes, ZAB_CONFIG_BYTES_MAX);
    /* Only the leader's own changes of known members come here: the bytes fit. */
    enum err err = zab_config_write(
        config, &(struct zab_config_parts){.texts_of = blob_slice(zab->config.committed_bytes)},
        &bytes);

    ASSERT(err == ERR_OK);
    broadcast_append(zab, LOGREC_CONFIG, buf_slice(&bytes));
    ASSERT(zab->trail.last == config->version);
    buf_release(&bytes);
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
    propose_config(zab, &config);
    fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_ADMISSION, .peer = peer->id});
}

/* Whether no CONFIG record holds the configuration yet. 'zabra recover' writes a configuration to
 * the survivor's disk only, with a version whose counter is 0. No CONFIG record has such a zxid. */
static bool is_unwritten(const struct zab_config *config)
{
    return config->version != 0 && zxid_counter(config->version) == 0;
}

void admit_tick(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);
    bootstrap_tell(zab);
    if (zab->config.has_pending || zab->now_ms < zab->admit_ms || zab_next_zxid(zab) == 0) {
        return;
    }
    zab->admit_ms = zab->now_ms + zab->limits.tick_ms / 2;
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
    if (is_unwritten(&zab->config.committed)) {
        struct zab_config config = zab->config.committed;

        PROBE("zab.config_written");
        propose_config(zab, &config);
        return;
    }
    for_each_peer (peer, zab) {
        if (may_admit(zab, peer)) {
            propose_admission(zab, peer);
            return;
        }
    }
}

void admit_on_exclude(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    if (peer->id != zab->follow.leader || msg->dialogue != zab->follow.dialogue ||
        !is_learner(zab)) {
        return;
    }
    if (msg->exclude.flags & ZAB_FLAG_NO_MAJORITY) {
        PROBE("zab.told_to_stop");
        fx_halt(zab,
                (struct zab_notice){.type = ZAB_NOTICE_NO_MAJORITY, .zxid = msg->exclude.zxid});
    } else if (zab->quarantined) {
        return;
    } else if (msg->exclude.flags & ZAB_FLAG_DIVERGED) {
        quarantine_self(zab, "the state's digest differs from the majority's: refilling");
    } else if (msg->exclude.flags & ZAB_FLAG_ROLLED_BACK) {
        quarantine_self(zab, "the disk lacks records that this replica has acknowledged (restored "
                             "from an older copy?): refilling");
    }
}
