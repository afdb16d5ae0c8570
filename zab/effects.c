/* Effects, and the texts of what HALT and ALARM report: what has happened, and what to do. */
#include "zab/zab_int.h"

#include <stdio.h>

void zab_effects_init(struct zab_effects *effects)
{
    *effects = (struct zab_effects){0};
}

void zab_effects_clear(struct zab_effects *effects)
{
    effects->count = 0;
}

void zab_effects_release(struct zab_effects *effects)
{
    mem_free(effects->items);
    *effects = (struct zab_effects){0};
}

struct zab_effect *fx_add(struct zab *zab, enum zab_effect_type type)
{
    struct zab_effects *effects = zab->effects;

    MEM_GROW(effects->items, effects->count, effects->cap, MEM_ITEMS_MAX);

    struct zab_effect *effect = &effects->items[effects->count++];

    *effect = (struct zab_effect){.type = type};
    return effect;
}

void fx_send(struct zab *zab, uint32_t peer, const struct zab_msg *msg)
{
    ASSERT(peer != zab->id && peer != 0);
    ASSERT(zab_msg_size_max(msg->type) > 0);

    struct zab_effect *effect = fx_add(zab, ZAB_FX_SEND);

    effect->send.peer = peer;
    effect->send.msg = *msg;
}

void tell_learner(struct zab *zab, const struct peer *peer, struct zab_msg msg)
{
    msg.dialogue = peer->learner.dialogue;
    msg.epoch = zab->lead.epoch;
    fx_send(zab, peer->id, &msg);
}

void tell_leader(struct zab *zab, struct zab_msg msg)
{
    msg.dialogue = zab->follow.dialogue;
    msg.epoch = zab->follow.epoch;
    fx_send(zab, zab->follow.leader, &msg);
}

void fx_ping_payload(struct zab *zab, uint32_t peer, struct slice payload)
{
    ASSERT(peer != zab->id);
    ASSERT(payload.len <= ZAB_PING_PAYLOAD_MAX);
    if (payload.len == 0) {
        return; /* The peer's host attaches nothing. */
    }
    struct zab_effect *effect = fx_add(zab, ZAB_FX_PING_PAYLOAD);

    effect->ping_payload.peer = peer;
    effect->ping_payload.bytes = payload;
}

void fx_disconnect(struct zab *zab, uint32_t peer)
{
    ASSERT(peer != zab->id && peer != 0);

    fx_add(zab, ZAB_FX_DISCONNECT)->disconnect.peer = peer;
}

struct zab_persist *fx_persist(struct zab *zab, enum zab_persist_type type)
{
    struct zab_persist *persist = &fx_add(zab, ZAB_FX_PERSIST)->persist;

    ASSERT(zab->disk.done <= zab->disk.issued);
    persist->type = type;
    persist->token = ++zab->disk.issued;
    zab->disk.persist_issued = persist->token;
    if (type != ZAB_PERSIST_APPEND && type != ZAB_PERSIST_SNAP_CHUNK) {
        ASSERT(zab->disk.change_count < PENDING_CHANGES_MAX);
        zab->disk.changes[zab->disk.change_count++] =
            (struct pending_change){.token = persist->token, .type = type};
    }
    return persist;
}

uint64_t fx_persist_promise(struct zab *zab, uint32_t epoch, uint32_t leader)
{
    struct zab_persist *persist = fx_persist(zab, ZAB_PERSIST_PROMISE);
    struct pending_change *change = &zab->disk.changes[zab->disk.change_count - 1];

    ASSERT(change->token == persist->token);
    persist->promise.epoch = epoch;
    persist->promise.leader = leader;
    change->epoch = epoch;
    change->leader = leader;
    return persist->token;
}

uint64_t fx_fetch(struct zab *zab, zxid_t after)
{
    struct zab_effect *effect = fx_add(zab, ZAB_FX_FETCH);

    effect->fetch.after = after;
    effect->fetch.token = ++zab->disk.issued;
    return effect->fetch.token;
}

void fx_role(struct zab *zab)
{
    (void)fx_add(zab, ZAB_FX_ROLE);
}

void fx_halt(struct zab *zab, struct zab_notice notice)
{
    ASSERT(notice.type >= ZAB_NOTICE_NO_MAJORITY);
    fx_add(zab, ZAB_FX_HALT)->notice = notice;
}

void fx_alarm(struct zab *zab, struct zab_notice notice)
{
    ASSERT(notice.type < ZAB_NOTICE_NO_MAJORITY);
    fx_add(zab, ZAB_FX_ALARM)->notice = notice;
}

/* ---- Texts for the operator. ---- */

static const char *const texts[] = {
    [ZAB_NOTICE_QUARANTINED] = "quarantine: {reason}",
    [ZAB_NOTICE_FOUNDER_LIST] =
        "replica {peer} has created a cluster with other members than this replica's server list: "
        "make the lists equal",
    [ZAB_NOTICE_LEADER_LIST] =
        "the cluster of leader {peer} does not have this replica as a member: add it (zabra "
        "members add), or correct its server list",
    [ZAB_NOTICE_AUTO_JOIN] =
        "replica {peer} waits to be added: 'autoJoin' proposes it as an observer",
    [ZAB_NOTICE_FOUNDER_ADDRESS] =
        "no cluster is founded, because replica {peer} does not say where the others reach it, or "
        "says what another one says, or its release is too old: set its 'advertisePeer'",
    [ZAB_NOTICE_ADMISSION] =
        "member {peer} has come back with a new disk: its admission is proposed",
    [ZAB_NOTICE_RAISE] =
        "the releases of all members know feature level {feature_level}: it is proposed",
    [ZAB_NOTICE_PROMOTION] =
        "member {peer}, which was added to become a voter, is in step: its promotion is proposed",
    [ZAB_NOTICE_DIVERGED] =
        "the state of replica {peer} differs at zxid {zxid}: replica {peer} is refilled",
    [ZAB_NOTICE_DIVERGED_UNKNOWN] =
        "the state of replica {peer} differs at zxid {zxid}; which state is right is decided when "
        "more replicas have reported",
    [ZAB_NOTICE_BAD_SNAPSHOT] =
        "the state made from a received snapshot differs from its digest at zxid {zxid}",
    [ZAB_NOTICE_EPOCH_PROPOSED] =
        "leader {peer} proposes epoch {epoch}, far beyond the highest known epoch {highest}: "
        "refused",
    [ZAB_NOTICE_EPOCH_CLAIMED] =
        "peer {peer} claims epoch {epoch}, far beyond the highest known epoch {highest}: refused",
    [ZAB_NOTICE_PROMISE_AHEAD] =
        "the disk of peer {peer} is unknown here and has promised epoch {epoch}, above the present "
        "epoch {highest}: refused until the epoch is above it; if the data directory of the peer "
        "is from elsewhere, empty it",
    [ZAB_NOTICE_REFILL_STALLED] =
        "the refill of peer {peer} has made no progress for {seconds} s: this leader no longer "
        "keeps log for that peer; check the disk of the peer and the network to the peer",
    [ZAB_NOTICE_REFILL_LOST_LOG] =
        "the refill of peer {peer} begins again: the log that it needs was purged, because it "
        "exceeded maxRefillLogBytes or the disk was full; raise the limit, free disk space or give "
        "the peer a faster link",
    [ZAB_NOTICE_NO_SNAPSHOT] = "peer {peer} needs a snapshot, and this leader has none",
    [ZAB_NOTICE_NO_MAJORITY] =
        "the replicas' states differ at zxid {zxid} and no majority agrees: all replicas stop; "
        "restore a backup, or compare their data directories and keep the right one",
    [ZAB_NOTICE_COMMITTED_LOST] =
        "leader {peer} asks to drop committed records after zxid {zxid} (committed: {committed}): "
        "a quorum has lost data; stop all replicas, keep this data directory, and recover from the "
        "newest one with 'zabra recover', or restore a backup",
    [ZAB_NOTICE_HISTORIES_DIFFER] =
        "the histories of this replica and leader {peer} differ before zxid {zxid}: the data of "
        "one of the two is damaged, or zabra has a defect",
    [ZAB_NOTICE_MALFORMED_CONFIG] = "the configuration record at zxid {zxid} is malformed",
    [ZAB_NOTICE_NEWER] =
        "the ensemble has feature level {feature_level}, and this release knows only levels up to "
        "{known_level}: start a release that knows level {feature_level}",
    [ZAB_NOTICE_NEWER_RECORD] =
        "a later release has written the record at zxid {zxid}, which this release cannot read: "
        "start that release",
    [ZAB_NOTICE_UNREADABLE_LOG] = "cannot read committed records after zxid {zxid} from the log",
    [ZAB_NOTICE_UNREADABLE_SNAPSHOT] =
        "the state cannot be loaded from the snapshot at zxid {zxid} that was just verified",
};

bool zab_notice_is_newer(enum zab_notice_type type)
{
    return type == ZAB_NOTICE_NEWER || type == ZAB_NOTICE_NEWER_RECORD;
}

static void put_field(const struct zab_notice *notice, struct slice name, struct buf *out)
{
    if (slice_eq(name, slice_str("peer"))) {
        buf_printf(out, "%u", notice->peer);
    } else if (slice_eq(name, slice_str("zxid"))) {
        buf_printf(out, "0x%llx", (unsigned long long)notice->zxid);
    } else if (slice_eq(name, slice_str("committed"))) {
        buf_printf(out, "0x%llx", (unsigned long long)notice->committed);
    } else if (slice_eq(name, slice_str("epoch"))) {
        buf_printf(out, "%u", notice->epoch);
    } else if (slice_eq(name, slice_str("highest"))) {
        buf_printf(out, "%u", notice->highest);
    } else if (slice_eq(name, slice_str("seconds"))) {
        buf_printf(out, "%llu", (unsigned long long)notice->seconds);
    } else if (slice_eq(name, slice_str("feature_level"))) {
        buf_printf(out, "%u", notice->feature_level);
    } else if (slice_eq(name, slice_str("known_level"))) {
        buf_printf(out, "%u", notice->known_level);
    } else {
        ASSERT(slice_eq(name, slice_str("reason")));
        buf_append_str(out, notice->reason);
    }
}

void zab_notice_pieces(const struct zab_notice *notice,
                       void (*take)(void *ctx, struct slice name, struct slice piece), void *ctx)
{
    struct slice rest = slice_str(texts[notice->type]);
    struct buf value;

    buf_init(&value, ZAB_TEXT_MAX - 1);
    while (rest.len > 0) {
        take(ctx, slice_make(NULL, 0), slice_cut(&rest, '{'));
        if (rest.len > 0) {
            struct slice name = slice_cut(&rest, '}');

            buf_clear(&value);
            put_field(notice, name, &value);
            take(ctx, name, buf_slice(&value));
        }
    }
    buf_release(&value);
}
