#include "zab/zab_int.h"

struct peer *peer_find(const struct zab *zab, uint32_t id)
{
    ASSERT(zab->peer_count <= ZAB_MEMBERS_MAX);

    for (uint32_t i = 0; i < zab->peer_count; i++) {
        if (zab->peers[i]->id == id) {
            return zab->peers[i];
        }
    }
    return NULL;
}

bool peer_is_up(const struct zab *zab, const struct peer *peer)
{
    ASSERT(peer->id != zab->id);
    return peer->up;
}

bool config_is_proven(const struct zab *zab)
{
    return zab->config.has_pending && zab->config.is_proven;
}

const struct zab_config *config_in_force(const struct zab *zab)
{
    return config_is_proven(zab) ? &zab->config.pending : &zab->config.committed;
}

/* Whether (id, incarnation) is a voter. A voter is an id with its disk: a wiped or swapped disk
 * under the same id is unknown. */
static bool is_voter(const struct zab_config *config, uint32_t id, uint64_t incarnation)
{
    if (MUTANT(21)) {
        const struct zab_member *member = zab_config_find(config, id);

        return member && member->voter;
    }
    if (MUTANT(73) && zab_config_find_removed(config, id, incarnation)) {
        return true;
    }
    return zab_config_is_voter(config, id, incarnation);
}

uint32_t quorum_voters(const struct zab *zab, const struct zab_config *config, bool self,
                       quorum_pred pred)
{
    uint32_t yes = 0;

    if (self && is_voter(config, zab->id, zab->incarnation)) {
        yes++;
    }
    for_each_peer (peer, zab) {
        if (is_voter(config, peer->id, peer->incarnation) && pred(zab, peer)) {
            yes++;
        }
    }
    ASSERT(yes <= zab_config_voters(config) || config->count == 0 || MUTANT(73));
    return yes;
}

/* Whether a majority of one configuration's voters satisfies `pred`; `self`: this replica satisfies
 * it. */
static bool has_majority(const struct zab *zab, const struct zab_config *config, bool self,
                         quorum_pred pred)
{
    return quorum_voters(zab, config, self, pred) > zab_config_voters(config) / 2;
}

static bool pending_counts(const struct zab *zab)
{
    bool counts = zab->config.has_pending && !MUTANT(34);

    return counts && !MUTANT(70);
}

bool quorum_has(const struct zab *zab, bool self, quorum_pred pred)
{
    if (config_is_proven(zab)) {
        return has_majority(zab, &zab->config.pending, self && !zab->quarantined, pred);
    }
    if (zab->config.committed.count == 0 ||
        !has_majority(zab, &zab->config.committed, self && !zab->quarantined, pred)) {
        return false;
    }
    /* A configuration in the log that is not known to be committed counts as well. Otherwise the
     * old and the new voters could each find a majority without the other. */
    return !pending_counts(zab) ||
           has_majority(zab, &zab->config.pending, self && !zab->quarantined, pred);
}

bool quorum_lacks_one_of_two(const struct zab *zab)
{
    bool self = !zab->quarantined;

    return zab->config.has_pending && !config_is_proven(zab) &&
           has_majority(zab, &zab->config.committed, self, peer_is_up) !=
               has_majority(zab, &zab->config.pending, self, peer_is_up);
}

bool quorum_counts(const struct zab *zab, uint32_t id, uint64_t incarnation)
{
    if (config_is_proven(zab)) {
        return is_voter(&zab->config.pending, id, incarnation);
    }
    return is_voter(&zab->config.committed, id, incarnation) ||
           (zab->config.has_pending && !MUTANT(70) &&
            is_voter(&zab->config.pending, id, incarnation));
}

/* Whether the peer's disk counts here, if it is as the peer reports. What the peer believes of
 * itself does not matter: it may not know a configuration in force here that makes it a voter, or
 * one that takes its vote away. A release before ZAB_FLAG_SOUND sends ZAB_FLAG_ELIGIBLE alone. */
bool quorum_counts_peer(const struct zab *zab, const struct peer *peer, uint32_t flags)
{
    uint32_t sound = MUTANT(76) ? ZAB_FLAG_ELIGIBLE : ZAB_FLAG_ELIGIBLE | ZAB_FLAG_SOUND;

    return (flags & sound) != 0 && quorum_counts(zab, peer->id, peer->incarnation);
}

bool quorum_self_counts(const struct zab *zab)
{
    ASSERT(zab->incarnation != 0);
    if (MUTANT(21)) {
        return !zab->quarantined;
    }
    return !zab->quarantined && !zab->bootstrapping &&
           quorum_counts(zab, zab->id, zab->incarnation);
}

/* Returns the flags that each report of this replica carries about its disk. */
uint32_t self_flags(const struct zab *zab)
{
    uint32_t flags = 0;

    bool is_in_cluster = !zab->bootstrapping && zab->config.committed.count > 0;

    flags |= quorum_self_counts(zab) ? ZAB_FLAG_ELIGIBLE : 0;
    flags |= is_in_cluster && !zab->quarantined ? ZAB_FLAG_SOUND : 0;
    flags |= zab->quarantined ? ZAB_FLAG_QUARANTINE : 0;
    flags |= zab->low_space ? ZAB_FLAG_LOW_SPACE : 0;
    ASSERT(!(flags & ZAB_FLAG_ELIGIBLE) || !(flags & ZAB_FLAG_QUARANTINE));
    ASSERT(!(flags & ZAB_FLAG_ELIGIBLE) || (flags & ZAB_FLAG_SOUND) || MUTANT(21));
    return flags;
}

/* Returns the highest zxid that a majority of one configuration's voters has made durable. */
static zxid_t acked_by_majority(const struct zab *zab, const struct zab_config *config)
{
    zxid_t acked[ZAB_MEMBERS_MAX + 1];
    uint32_t count = 0;
    uint32_t need = zab_config_voters(config) / 2 + 1;

    if (is_voter(config, zab->id, zab->incarnation) || MUTANT(78)) {
        acked[count++] = zab->trail.durable;
    }
    for_each_peer (peer, zab) {
        if (peer->learner.stage == LEARNER_SYNCED &&
            is_voter(config, peer->id, peer->incarnation)) {
            acked[count++] = peer->learner.acked;
        }
    }
    ASSERT(need > 0 && (count <= zab_config_voters(config) || MUTANT(73) || MUTANT(78)));
    if (count < need) {
        return 0;
    }
    /* A selection of the `need` largest values is fast enough: there are few voters. */
    for (uint32_t i = 0; i < need; i++) {
        uint32_t best = i;

        for (uint32_t j = i + 1; j < count; j++) {
            best = acked[j] > acked[best] ? j : best;
        }
        zxid_t swap = acked[i];

        acked[i] = acked[best];
        acked[best] = swap;
    }
    return acked[need - 1];
}

zxid_t quorum_acked(const struct zab *zab)
{
    zxid_t acked;

    if (config_is_proven(zab)) {
        return acked_by_majority(zab, &zab->config.pending);
    }
    acked = acked_by_majority(zab, &zab->config.committed);

    if (!pending_counts(zab) || MUTANT(71)) {
        return acked;
    }
    zxid_t pending = acked_by_majority(zab, &zab->config.pending);

    return MUTANT(77) ? pending : min_u64(pending, acked);
}
