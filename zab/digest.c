/*
 * Checks that the states of the replicas are equal. Each replica remembers its state's digest at
 * checkpoints. Learners send their newest digest with each PONG, and the leader compares it.
 */
#include "zab/zab_int.h"

/* Returns the newest checkpoint. Returns zeros if there is none, or in quarantine, when no state is
 * reported. */
struct checkpoint digest_newest(const struct zab *zab)
{
    if (zab->digests.next == 0 || zab->quarantined) {
        return (struct checkpoint){0};
    }
    ASSERT(zab->digests.items[(zab->digests.next - 1) % CHECKPOINTS].zxid != 0);
    return zab->digests.items[(zab->digests.next - 1) % CHECKPOINTS];
}

static bool find(const struct checkpoint *items, uint32_t count, zxid_t zxid, uint64_t *ret_digest)
{
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].zxid == zxid) {
            *ret_digest = items[i].digest;
            return true;
        }
    }
    return false;
}

static bool own_digest(const struct zab *zab, zxid_t zxid, uint64_t *ret_digest)
{
    return find(zab->digests.items, CHECKPOINTS, zxid, ret_digest);
}

static bool peer_digest(const struct peer *peer, zxid_t zxid, uint64_t *ret_digest)
{
    return find(peer->digests.items, PEER_CHECKPOINTS, zxid, ret_digest);
}

/* Returns the number of voters whose digest at `zxid` is `digest`, this replica included.
 * `*ret_known`: number of voters whose digest there is known. */
static uint32_t count_equal(const struct zab *zab, zxid_t zxid, uint64_t digest,
                            uint32_t *ret_known)
{
    uint32_t equal = 0;
    uint32_t known = 0;
    uint64_t theirs = 0;

    if (quorum_self_counts(zab) && own_digest(zab, zxid, &theirs)) {
        known++;
        equal += theirs == digest ? 1 : 0;
    }
    for_each_peer (peer, zab) {
        if (zab_config_is_voter(&zab->config.committed, peer->id, peer->incarnation) &&
            peer_digest(peer, zxid, &theirs)) {
            known++;
            equal += theirs == digest ? 1 : 0;
        }
    }
    ASSERT(known <= zab_config_voters(&zab->config.committed) || zab->config.has_pending);
    *ret_known = known;
    return equal;
}

/* Returns how many voters share the most common digest at `zxid`, which is stored in `*ret_digest`.
 */
static uint32_t most_common(const struct zab *zab, zxid_t zxid, uint64_t *ret_digest,
                            uint32_t *ret_known)
{
    uint64_t digest = 0;
    uint32_t best = 0;

    if (own_digest(zab, zxid, &digest)) {
        best = count_equal(zab, zxid, digest, ret_known);
        *ret_digest = digest;
    }
    for_each_peer (peer, zab) {
        uint32_t equal =
            peer_digest(peer, zxid, &digest) ? count_equal(zab, zxid, digest, ret_known) : 0;

        if (equal > best) {
            best = equal;
            *ret_digest = digest;
        }
    }
    ASSERT(best <= *ret_known);
    return best;
}

static void tell(struct zab *zab, const struct peer *peer, zxid_t zxid, uint32_t flags)
{
    if (peer->up && peer->learner.dialogue != 0) {
        struct zab_msg_exclude exclude = {.zxid = zxid, .flags = flags};

        tell_learner(zab, peer, (struct zab_msg){.type = ZAB_EXCLUDE, .exclude = exclude});
    }
}

/* Stops all replicas, observers too: otherwise the remaining replicas would elect a leader and
 * serve a state that no majority confirms. */
static void stop_all(struct zab *zab, zxid_t zxid)
{
    PROBE("zab.no_majority_of_digests");
    for_each_peer (peer, zab) {
        tell(zab, peer, zxid, ZAB_FLAG_NO_MAJORITY);
    }
    fx_halt(zab, (struct zab_notice){.type = ZAB_NOTICE_NO_MAJORITY, .zxid = zxid});
}

/* Decides by majority which of two different states is wrong. */
static void judge(struct zab *zab, const struct peer *peer, zxid_t zxid, uint64_t ours,
                  uint64_t theirs)
{
    ASSERT(ours != theirs);

    uint32_t voters = zab_config_voters(&zab->config.committed);
    uint32_t known = 0;
    uint64_t right = 0;
    uint32_t agree = most_common(zab, zxid, &right, &known);

    PROBE("zab.digest_mismatch");
    if (agree > voters / 2 && ours != right) {
        quarantine_self(zab, "the state's digest differs from the majority's: stepping down");
    } else if (agree > voters / 2) {
        fx_alarm(zab,
                 (struct zab_notice){.type = ZAB_NOTICE_DIVERGED, .peer = peer->id, .zxid = zxid});
        tell(zab, peer, zxid, ZAB_FLAG_DIVERGED);
    } else if (agree + (voters - known) <= voters / 2) {
        stop_all(zab, zxid);
    } else {
        fx_alarm(zab, (struct zab_notice){
                          .type = ZAB_NOTICE_DIVERGED_UNKNOWN, .peer = peer->id, .zxid = zxid});
    }
}

/* Compares the known digests of all peers. A peer's digest may arrive before this replica has
 * applied the log up to the digest's zxid; then a later call compares the two digests. */
void digest_compare(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);

    for_each_peer (peer, zab) {
        for (uint32_t j = 0; j < PEER_CHECKPOINTS && zab->state == ZAB_LEADING; j++) {
            const struct checkpoint *theirs = &peer->digests.items[j];
            uint64_t ours = 0;

            if (theirs->zxid != 0 && own_digest(zab, theirs->zxid, &ours) &&
                ours != theirs->digest) {
                judge(zab, peer, theirs->zxid, ours, theirs->digest);
            }
        }
    }
}

void digest_on_pong(struct zab *zab, struct peer *peer, const struct zab_msg_pong *pong)
{
    ASSERT(zab->state == ZAB_LEADING);

    uint64_t ours = 0;
    uint64_t known = 0;

    if (!peer_digest(peer, pong->digest_zxid, &known)) {
        peer->digests.items[peer->digests.next++ % PEER_CHECKPOINTS] =
            (struct checkpoint){.zxid = pong->digest_zxid, .digest = pong->digest};
    }
    if (own_digest(zab, pong->digest_zxid, &ours) && ours != pong->digest) {
        judge(zab, peer, pong->digest_zxid, ours, pong->digest);
    }
}

void zab_digest(struct zab *zab, zxid_t zxid, uint64_t digest)
{
    ASSERT(zab->effects == NULL);
    ASSERT(zxid != 0 && zxid_counter(zxid) % ZAB_CHECKPOINT == 0);
    zab->digests.items[zab->digests.next++ % CHECKPOINTS] =
        (struct checkpoint){.zxid = zxid, .digest = digest};
}

void zab_bad_state(struct zab *zab, zxid_t end, struct zab_effects *effects)
{
    ASSERT(effects && !zab->effects);

    zab->effects = effects;
    PROBE("zab.bad_state");
    fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_BAD_SNAPSHOT, .zxid = end});
    if (zab->quarantined && is_learner(zab)) {
        /* The quarantine mark stays: the refill begins again. */
        fx_disconnect(zab, zab->follow.leader);
        enter_looking(zab, "the state made from the received snapshot has the wrong digest");
    } else {
        quarantine_self(
            zab, "the state made from the received snapshot has the wrong digest: refilling");
    }
    ASSERT(zab->quarantined);
    note_serving(zab);
    zab->effects = NULL;
}
