/*
 * The proof that a change of the configuration is committed: a STAMP or EPOCH record after it names
 * it. Without one, a replica that starts again has the change in its log and cannot know whether it
 * was committed, so it needs the majority of the configuration before it as well; after a removal
 * those replicas may be gone. So a leader counts a change as committed, which answers its request
 * and tells the removed members, only when a majority of the new voters has the proof on disk.
 */
#include "zab/zab_int.h"

void broadcast_append(struct zab *zab, enum logrec_type type, struct slice payload)
{
    ASSERT(is_broadcasting(zab) || (zab->lead.phase == LEADER_SYNC && type == LOGREC_STAMP));

    zxid_t zxid = zab->trail.last + 1;

    ASSERT(zxid_epoch(zxid) == zab->lead.epoch);
    log_append(zab, logrec_new(type, zxid, zab->trail.last, zab->trail.last_chain, payload));
    zab->lead.pending_count++;
    zab->lead.pending_bytes += payload.len;
    zab->lead.since_stamp++;
    sync_pump_all(zab);
}

void broadcast_stamp(struct zab *zab, zxid_t version)
{
    struct buf stamp;

    buf_init(&stamp, 1 << 16);
    admit_stamp_payload(zab, version, &stamp);
    broadcast_append(zab, LOGREC_STAMP, buf_slice(&stamp));
    buf_release(&stamp);
    zab->lead.since_stamp = 0;
}

/* Whether a record of this epoch names the pending configuration. */
static bool has_proof(const struct zab *zab)
{
    return zab->lead.proof > zab->config.pending.version;
}

static bool has_acked_proof(const struct zab *zab, const struct peer *peer)
{
    return is_in_step(peer) && peer->learner.acked >= zab->lead.proof;
}

void proof_established(struct zab *zab)
{
    if (config_is_proven(zab)) {
        zab->lead.proof = zxid_make(zab->lead.epoch, 0);
    }
}

/* Appends the proof. The caller knows that the quorums of both configurations have the record. */
static void prove(struct zab *zab)
{
    PROBE("zab.config_stamped");
    broadcast_stamp(zab, zab->config.pending.version);
    zab->lead.proof = zab->trail.last;
}

bool proof_of_history(struct zab *zab)
{
    ASSERT(zab->lead.phase == LEADER_SYNC);
    if (!zab->config.has_pending || MUTANT(83)) {
        return true;
    }
    if (!has_proof(zab)) {
        prove(zab);
    }
    return zab->trail.durable >= zab->lead.proof && quorum_has(zab, true, has_acked_proof);
}

zxid_t proof_limit(struct zab *zab, zxid_t acked)
{
    zxid_t version = zab->config.pending.version;

    ASSERT(is_broadcasting(zab));
    if (!zab->config.has_pending || acked < version || MUTANT(83)) {
        return acked;
    }
    if (!has_proof(zab)) {
        ASSERT(zxid_epoch(version) == zab->lead.epoch);
        prove(zab);
    }
    return acked >= zab->lead.proof ? acked : version - 1;
}
