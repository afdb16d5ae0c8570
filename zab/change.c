/*
 * Changes of the configuration that the leader proposes: an admission, a higher level and with
 * autoJoin a new observer by itself, others for a client. At most one is under way: the next one is
 * proposed only when it is committed.
 */
#include "zab/change_int.h"
#include "zab/join_int.h"

enum {
    ENCODED_MAX = 64 << 10, /* Enough for any draft: one that is too long is counted. */
    AUTO_JOIN_MS = 1000,    /* Minimum time between two replicas that the leader adds by itself. */
};

/* Encodes the draft as the next record of the log. ERR_TOO_LARGE: it is too long. */
static enum err encode(const struct zab *zab, struct change_draft *draft, struct slice txn,
                       struct buf *out)
{
    struct zab_config_parts parts = {.texts_of = blob_slice(zab->config.committed_bytes),
                                     .edits = draft->edits,
                                     .edit_count = draft->edit_count,
                                     .txn = txn};

    ASSERT(draft->config.version == zab->trail.last + 1);
    ASSERT(draft->config.version > zab->config.committed.version);
    ASSERT(draft->config.level <= zab->level_max);
    return zab_config_write(&draft->config, &parts, out);
}

static void append(struct zab *zab, struct slice bytes)
{
    ASSERT(!zab->config.has_pending || MUTANT(74));
    broadcast_append(zab, LOGREC_CONFIG, bytes);
    ASSERT(zab->config.has_pending && zab->config.pending.version == zab->trail.last);
}

/* Proposes a change of this leader's own, unless it cannot be encoded. */
static enum err try_propose(struct zab *zab, struct change_draft *draft)
{
    struct buf bytes;

    draft->config.version = zab->trail.last + 1;
    buf_init(&bytes, ENCODED_MAX);
    enum err err = encode(zab, draft, slice_make(NULL, 0), &bytes);

    if (err == ERR_OK) {
        append(zab, buf_slice(&bytes));
    }
    buf_release(&bytes);
    return err;
}

/* Proposes a change of this leader's own that adds neither members nor texts: it fits. */
static void propose(struct zab *zab, struct change_draft *draft)
{
    enum err err = try_propose(zab, draft);

    ASSERT(err == ERR_OK);
}

/* Proposes a configuration that no CONFIG record holds yet. 'zabra recover' writes one to the
 * survivor's disk only, with a version whose counter is 0. No CONFIG record has such a zxid. */
static bool write_record(struct zab *zab)
{
    struct change_draft draft = {.config = zab->config.committed};

    if (draft.config.version == 0 || zxid_counter(draft.config.version) != 0) {
        return false;
    }
    PROBE("zab.config_written");
    propose(zab, &draft);
    return true;
}

static void propose_admission(struct zab *zab, const struct peer *peer)
{
    struct change_draft draft = {.config = zab->config.committed};

    PROBE("zab.admitted");
    config_seat(&draft.config, peer->id, peer->incarnation, zab->age_ms);
    if (MUTANT(80)) {
        draft.config.removed_count = 0;
    }
    propose(zab, &draft);
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

/* Promotes a member that was added to become a voter, once it is in step. */
static bool promote_joining(struct zab *zab)
{
    for_each_member (member, &zab->config.committed) {
        struct change_draft draft = {.config = zab->config.committed};
        const struct peer *peer = peer_find(zab, member->id);

        if (!member->joining || !peer || step_kept_ms(zab, peer) < zab->limits.promote_ms) {
            continue;
        }
        PROBE("zab.promoted_joining");
        config_seat(&draft.config, peer->id, peer->incarnation, zab->age_ms);
        propose(zab, &draft);
        fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_PROMOTION, .peer = peer->id});
        return true;
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
    struct change_draft draft = {.config = zab->config.committed};
    uint16_t level = common_level(zab);

    if (draft.config.hold != 0 && level > draft.config.hold) {
        level = draft.config.hold;
    }
    if (level <= draft.config.level) {
        return false;
    }
    draft.config.level = level;
    propose(zab, &draft);
    fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_RAISE, .feature_level = level});
    return true;
}

static void write_facts(struct zab *zab)
{
    struct change_draft draft = {.config = zab->config.committed};

    if (facts_draft(zab, &draft)) {
        PROBE("zab.facts_written");
        (void)try_propose(zab, &draft); /* They may be too long, all together. */
        facts_written(zab);
    }
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

/* Makes the change of level and hold. */
static enum zab_fault change_level(const struct zab *zab, const struct zab_change *change,
                                   struct zab_config *config, struct zab_change_report *report)
{
    if (change->level == 0 && !change->sets_hold) {
        return ZAB_FAULT_NONE;
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

/* Judges the change and makes it in the draft, which is the committed configuration. */
static enum zab_fault judge(const struct zab *zab, const struct zab_change *change,
                            struct change_draft *draft, struct zab_change_report *report)
{
    if (zab->config.has_pending && !MUTANT(74)) {
        return ZAB_FAULT_UNDER_WAY;
    }
    if (!is_ready(zab)) {
        return ZAB_FAULT_NOT_READY;
    }
    if (change->checks_version && change->version != draft->config.version) {
        return ZAB_FAULT_VERSION;
    }
    draft->config.version = zab->trail.last + 1;
    enum zab_fault fault = change_level(zab, change, &draft->config, report);

    if (fault == ZAB_FAULT_NONE) {
        fault = change_members(zab, change, draft, report);
    }
    return fault != ZAB_FAULT_NONE ? fault : change_judge_voters(zab, change, draft, report);
}

/* Judges the change and encodes what is to be proposed. */
static enum zab_fault make(const struct zab *zab, const struct zab_change *change, struct slice txn,
                           struct zab_change_report *report, struct buf *out)
{
    struct change_draft draft = {.config = zab->config.committed};
    enum zab_fault fault = judge(zab, change, &draft, report);

    if (fault != ZAB_FAULT_NONE) {
        return fault;
    }
    enum err err = encode(zab, &draft, txn, out);

    ASSERT(err == ERR_OK || err == ERR_TOO_LARGE);
    report->bytes = out->len - txn.len;
    return err == ERR_OK ? ZAB_FAULT_NONE : ZAB_FAULT_TOO_LONG;
}

enum zab_fault zab_change(struct zab *zab, const struct zab_change *change, struct slice txn,
                          struct zab_change_report *ret_report, struct zab_effects *effects)
{
    struct buf bytes;

    ASSERT(effects && !zab->effects);
    ASSERT(change->level != 0 || change->sets_hold || change->item_count > 0);
    ASSERT(txn.len <= ZAB_CONFIG_TXN_MAX);
    *ret_report = (struct zab_change_report){.previous = zab->config.committed.version};
    buf_init(&bytes, ENCODED_MAX);
    enum zab_fault fault = make(zab, change, txn, ret_report, &bytes);

    if (fault == ZAB_FAULT_NONE && !change->dry_run) {
        zab->effects = effects;
        append(zab, buf_slice(&bytes));
        zab->effects = NULL;
        ret_report->version = zab->trail.last;
    }
    buf_release(&bytes);
    return fault;
}

/* ---- Replicas that wait to be added. ---- */

/* The voters, with those that are to become voters. Each other member observes. */
static uint32_t count_voters(const struct zab_config *config)
{
    uint32_t count = 0;

    for_each_member (member, config) {
        count += has_seat(member) || member->joining ? 1 : 0;
    }
    return count;
}

/* Proposes to add a replica that waits, as its operator would with the same words. */
static enum zab_fault add_waiting(struct zab *zab, const struct peer *peer)
{
    uint32_t voters = count_voters(&zab->config.committed);
    struct zab_change_item item = {.what = ZAB_CHANGE_ADD,
                                   .id = peer->id,
                                   .texts = join_texts(&peer->word),
                                   .joining = voters < zab->join.max_voters};
    struct zab_change change = {
        .items = &item, .item_count = 1, .min_tolerance = ZAB_TOLERANCE_DEFAULT};
    struct zab_change_report report = {0};
    struct buf bytes;

    if (!item.joining && zab->config.committed.count - voters >= zab->join.max_observers) {
        return ZAB_FAULT_MAX_OBSERVERS;
    }
    buf_init(&bytes, ENCODED_MAX);
    enum zab_fault fault = make(zab, &change, slice_make(NULL, 0), &report, &bytes);

    if (fault == ZAB_FAULT_NONE) {
        append(zab, buf_slice(&bytes));
    }
    buf_release(&bytes);
    return fault;
}

/* Adds one of the replicas that wait, at most one in AUTO_JOIN_MS. */
static bool auto_join(struct zab *zab)
{
    if (!zab->join.auto_join || zab->now_ms < zab->join.add_ms) {
        return false;
    }
    for_each_peer (peer, zab) {
        if (!join_waits(zab, peer)) {
            continue;
        }
        peer->word.fault = add_waiting(zab, peer);
        if (peer->word.fault == ZAB_FAULT_NONE) {
            PROBE("zab.auto_joined");
            zab->join.add_ms = zab->now_ms + AUTO_JOIN_MS;
            fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_AUTO_JOIN, .peer = peer->id});
            return true;
        }
    }
    return false;
}

/* ---- Time. ---- */

void change_tick(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);
    bootstrap_tell(zab);
    if (zab->config.has_pending || zab->now_ms < zab->change_ms || zab_next_zxid(zab) == 0) {
        return;
    }
    zab->change_ms = zab->now_ms + zab->limits.tick_ms / 2;
    if (is_ready(zab) && !write_record(zab) && !admit(zab) && !promote_joining(zab) &&
        !raise_level(zab) && !auto_join(zab)) {
        write_facts(zab);
    }
}
