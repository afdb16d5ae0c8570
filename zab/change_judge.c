/*
 * Which voters a change may leave. Joint majorities make any difference between two configurations
 * safe; these rules keep the ensemble available: the new voters can commit, and losing one of them
 * costs no more than the caller has agreed to.
 */
#include "zab/change_int.h"

enum zab_fault change_judge_step(const struct zab *zab, const struct peer *peer,
                                 struct zab_change_report *report)
{
    report->needed_ms = zab->limits.promote_ms;
    report->lag_ms = zab->limits.step_lag_ms;
    report->is_connected = peer && peer->up;
    report->is_synced = peer && is_in_step(peer);
    if (report->is_synced) {
        /* Both zxids are of this leader's epoch: the learner has acknowledged its start. */
        report->lacking = zab->trail.last - peer->learner.acked;
        report->step_ms = step_kept_ms(zab, peer);
    }
    if (MUTANT(72)) {
        return peer && peer->incarnation != 0 ? ZAB_FAULT_NONE : ZAB_FAULT_NOT_IN_STEP;
    }
    return report->step_ms > 0 && report->step_ms >= report->needed_ms ? ZAB_FAULT_NONE
                                                                       : ZAB_FAULT_NOT_IN_STEP;
}

/* Whether all voters of `a` are voters of `b`, with the same disks. */
static bool are_voters_of(const struct zab_config *a, const struct zab_config *b)
{
    for_each_member (member, a) {
        if (member->voter && !zab_config_is_voter(b, member->id, member->incarnation)) {
            return false;
        }
    }
    return true;
}

static uint32_t count_in_step(const struct zab *zab, const struct zab_config *config)
{
    return quorum_voters(zab, config, !zab->quarantined, step_is_kept);
}

/* Returns how many voters in step may fail: all that a majority does not need. */
static int32_t tolerance_of(const struct zab *zab, const struct zab_config *config)
{
    return (int32_t)count_in_step(zab, config) - (int32_t)(zab_config_voters(config) / 2 + 1);
}

/* While the change is not committed, both majorities are needed: then the smaller of the two
 * tolerances counts. The present one is at least as large as what is asked for by default, and a
 * larger one than the present cannot be had before the commit. So the one after it decides. */
static enum zab_fault judge_tolerance(const struct zab_change *change,
                                      struct zab_change_report *report)
{
    int32_t before = report->tolerance_before;
    int32_t after = report->tolerance_after;

    report->tolerance_needed = change->min_tolerance < 0 ? before - 1 : change->min_tolerance;
    if (after < 0) {
        return ZAB_FAULT_MAJORITY;
    }
    if (after < report->tolerance_needed) {
        return ZAB_FAULT_TOLERANCE;
    }
    return after == 0 && before > 0 && !change->force ? ZAB_FAULT_NO_TOLERANCE : ZAB_FAULT_NONE;
}

/* Whether a voter that stays one can lead in place of this replica. */
static bool has_successor(const struct zab *zab, const struct zab_config *config)
{
    for_each_peer (peer, zab) {
        if (step_is_kept(zab, peer) && quorum_counts(zab, peer->id, peer->incarnation) &&
            zab_config_is_voter(config, peer->id, peer->incarnation)) {
            return true;
        }
    }
    return false;
}

/* This leader would not deliver the record that takes its vote (lead_time.c), so that its clients
 * would get no answer: it hands over first. */
static enum zab_fault judge_leader(const struct zab *zab, const struct zab_change *change,
                                   const struct zab_config *config,
                                   struct zab_change_report *report)
{
    if (zab_config_is_voter(config, zab->id, zab->incarnation) || MUTANT(78)) {
        return ZAB_FAULT_NONE;
    }
    report->leader_leaves = true;
    report->member = zab->id;
    if (!has_successor(zab, config)) {
        return ZAB_FAULT_NO_SUCCESSOR;
    }
    return change->dry_run ? ZAB_FAULT_NONE : ZAB_FAULT_LEADER_LEAVES;
}

/* Whether this leader is new and some voter that is connected is not in step yet. It would take
 * that voter for one that has failed, and refuse what its predecessor has handed over to it. */
static bool is_early(const struct zab *zab)
{
    if (zab->now_ms - zab->lead.began_ms >= ticks_ms(zab, 1)) {
        return false;
    }
    for_each_peer (peer, zab) {
        if (peer->up && !is_in_step(peer) &&
            zab_config_is_voter(&zab->config.committed, peer->id, peer->incarnation)) {
            return true;
        }
    }
    return false;
}

enum zab_fault change_judge_voters(const struct zab *zab, const struct zab_change *change,
                                   const struct change_draft *draft,
                                   struct zab_change_report *report)
{
    const struct zab_config *now = &zab->config.committed;
    const struct zab_config *next = &draft->config;

    report->voters = zab_config_voters(next);
    report->majority = report->voters / 2 + 1;
    report->in_step = count_in_step(zab, next);
    report->tolerance_before = tolerance_of(zab, now);
    report->tolerance_after = tolerance_of(zab, next);
    if (report->voters == 0) {
        return ZAB_FAULT_LAST_VOTER;
    }
    if (are_voters_of(now, next) && are_voters_of(next, now)) {
        return ZAB_FAULT_NONE;
    }
    if (is_early(zab)) {
        report->is_early = true;
        return ZAB_FAULT_NOT_READY;
    }
    enum zab_fault fault = judge_tolerance(change, report);

    return fault != ZAB_FAULT_NONE ? fault : judge_leader(zab, change, next, report);
}
