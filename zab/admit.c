/* When the new disk of a known member may take the seat of the old one; disks that are refused. */
#include "zab/zab_int.h"

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
bool may_admit(const struct zab *zab, const struct peer *peer)
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
    } else if (msg->exclude.flags & ZAB_FLAG_AHEAD) {
        zab->is_ahead = true;
        fx_role(zab);
    } else if (zab->quarantined) {
        return;
    } else if (msg->exclude.flags & ZAB_FLAG_DIVERGED) {
        quarantine_self(zab, "the state's digest differs from the majority's: refilling");
    } else if (msg->exclude.flags & ZAB_FLAG_ROLLED_BACK) {
        quarantine_self(zab, "the disk lacks records that this replica has acknowledged (restored "
                             "from an older copy?): refilling");
    }
}
