#include "tests/sim/sim_quorum.h"

#include "base/mem.h"

#include <inttypes.h>

/* The end of the log on a disk, before any harm. */
static zxid_t held_by(const struct sim_shadow *shadow, const struct sim_harm *harm)
{
    return harm->is ? harm->last : shadow->last;
}

/* The end of the log that this disk of the node holds; 0 when the node never had such a disk. */
static zxid_t held(const struct sim_node *node, uint64_t incarnation)
{
    if (incarnation == node->identity.incarnation) {
        return held_by(&node->shadow, &node->harm);
    }
    if (node->spare && incarnation == node->spare_incarnation) {
        return held_by(&node->spare_shadow, &node->spare_harm);
    }
    for (size_t i = node->thrown_count; i > 0; i--) {
        if (node->thrown[i - 1].incarnation == incarnation) {
            return node->thrown[i - 1].last;
        }
    }
    return 0;
}

void sim_quorum_proposed(struct sim *sim, const struct logrec *rec, const struct zab_config *config)
{
    struct sim_members *members = &sim->members;

    MEM_GROW(members->proposed, members->proposed_count, members->proposed_cap, MEM_ITEMS_MAX);
    members->proposed[members->proposed_count] = *config;
    members->proposed[members->proposed_count++].version = rec->zxid;
}

/* Earlier proposals are committed, or never will be. */
void sim_quorum_set(struct sim *sim, const struct zab_config *config)
{
    struct sim_members *members = &sim->members;
    size_t kept = 0;

    memmove(members->past + 1, members->past, sizeof(members->past) - sizeof(members->past[0]));
    memmove(members->past_us + 1, members->past_us,
            sizeof(members->past_us) - sizeof(members->past_us[0]));
    members->past[0] = sim->config;
    members->past_us[0] = sim->now_us;
    sim->config = *config;
    for (size_t i = 0; i < members->proposed_count; i++) {
        if (members->proposed[i].version > config->version) {
            members->proposed[kept++] = members->proposed[i];
        }
    }
    members->proposed_count = kept;
}

/* ---- Proofs. ---- */

static const struct zab_config *proposed(const struct sim *sim, zxid_t version)
{
    for (size_t i = 0; i < sim->members.proposed_count; i++) {
        if (sim->members.proposed[i].version == version) {
            return &sim->members.proposed[i];
        }
    }
    return NULL;
}

void sim_quorum_stamped(struct sim *sim, const struct sim_node *leader, const struct logrec *rec)
{
    zxid_t version = zab_proven_config(rec);
    const struct zab_config *config = proposed(sim, version);

    if (!config || version <= sim->members.proven.version) {
        return; /* It is committed, or of a time before the records. */
    }
    if (!sim_config_holds(sim, &sim->config, version) || !sim_config_holds(sim, config, version)) {
        sim_quorum_trace(sim, version);
        sim_fail(sim, "A38",
                 "leader %u calls the configuration %" PRIx64 " committed, which a majority of its "
                 "voters or of those before them has not on disk",
                 leader->id, version);
    }
    sim->members.proven = *config;
    sim->members.proven_epoch = zxid_epoch(rec->zxid);
}

/* The first record of this log that proves the configuration. */
static zxid_t proof_of(struct sim *sim, zxid_t last, zxid_t version)
{
    zxid_t proof = 0;

    for (const struct sim_rec *rec = sim_rec_find(sim, last); rec && rec->rec->zxid > version;
         rec = rec->parent) {
        proof = zab_proven_config(rec->rec) == version ? rec->rec->zxid : proof;
    }
    return proof;
}

void sim_quorum_answered(struct sim *sim, const struct sim_node *leader, zxid_t zxid)
{
    zxid_t version = sim->config.version;
    zxid_t proof = proof_of(sim, zxid, version);

    if (zxid_counter(version) != 0 && (proof == 0 || !sim_quorum_holds(sim, proof))) {
        sim_quorum_trace(sim, proof);
        sim_fail(sim, "A38",
                 "leader %u reports the configuration %" PRIx64 " as committed, but a majority of "
                 "its voters could not tell after a restart: the proof is %" PRIx64,
                 leader->id, version, proof);
    }
    sim->members.proof = proof;
}

/* The newest configuration that is certain to be committed. */
static const struct zab_config *newest(const struct sim *sim)
{
    return sim->members.proven.version > sim->config.version ? &sim->members.proven : &sim->config;
}

/* ---- Promises. ---- */

static bool has_promised(const struct sim_pledges *pledges, const struct sim_pledge *pledge)
{
    for (size_t i = 0; pledges && i < pledges->count; i++) {
        const struct sim_pledge *item = &pledges->items[i];

        if (item->id == pledge->id && item->incarnation == pledge->incarnation &&
            item->leader == pledge->leader) {
            return true;
        }
    }
    return false;
}

void sim_quorum_promised(struct sim *sim, const struct sim_node *node, uint32_t epoch,
                         uint32_t leader)
{
    struct sim_pledges *pledges = map_get_u64(&sim->pledges, epoch);
    struct sim_pledge pledge = {
        .id = node->id, .incarnation = node->identity.incarnation, .leader = leader};

    if (epoch == 0 || has_promised(pledges, &pledge)) {
        return;
    }
    if (!pledges) {
        pledges = mem_zalloc(1, sizeof(*pledges));
        (void)map_put_u64(&sim->pledges, epoch, pledges);
    }
    MEM_GROW(pledges->items, pledges->count, pledges->cap, MEM_ITEMS_MAX);
    pledges->items[pledges->count++] = pledge;
}

/* A leader of this epoch or a later one has committed the configuration. A leader of an older epoch
 * may be established after that, by old promises, and can no longer commit anything. */
static bool is_later(struct sim *sim, uint32_t epoch)
{
    if (newest(sim) == &sim->members.proven) {
        return sim->members.proven_epoch >= epoch;
    }
    const struct sim_rec *rec = sim_rec_find(sim, sim->config.version);

    return rec && rec->commit_epoch >= epoch;
}

void sim_quorum_established(struct sim *sim, const struct sim_node *leader, uint32_t epoch)
{
    const struct sim_pledges *pledges = map_get_u64(&sim->pledges, epoch);
    uint32_t voters = 0;
    uint32_t count = 0;

    if (sim->config.count == 0) {
        sim_quorum_set(sim, zab_config(replica_zab(leader->replica)));
    }
    for_each_member (member, newest(sim)) {
        struct sim_pledge pledge = {
            .id = member->id, .incarnation = member->incarnation, .leader = leader->id};

        voters += member->voter;
        count += member->voter && has_promised(pledges, &pledge);
    }
    if (count <= voters / 2 && !is_later(sim, epoch)) {
        sim_fail(sim, "A32",
                 "leader %u starts epoch %u with the promises of %u of the %u voters of the "
                 "configuration %" PRIx64,
                 leader->id, epoch, count, voters, newest(sim)->version);
    }
}

void sim_quorum_release(struct sim *sim)
{
    size_t cursor = 0;
    struct sim_pledges *pledges;

    while ((pledges = map_each(&sim->pledges, &cursor))) {
        mem_free(pledges->items);
        mem_free(pledges);
    }
    map_release(&sim->pledges);
    mem_free(sim->members.proposed);
}

const struct zab_member *sim_seat_of(const struct sim *sim, const struct sim_node *node)
{
    const struct zab_member *member = zab_config_find(&sim->config, node->id);

    return member && (member->voter || member->empty_seat) ? member : NULL;
}

uint32_t sim_voters(const struct sim *sim)
{
    return zab_config_voters(&sim->config);
}

bool sim_disk_has(struct sim *sim, uint32_t id, uint64_t incarnation, zxid_t zxid)
{
    return sim_log_holds(sim, held(&sim->nodes[id], incarnation), zxid);
}

static bool voter_holds(struct sim *sim, const struct zab_member *voter, zxid_t zxid)
{
    return sim_disk_has(sim, voter->id, voter->incarnation, zxid);
}

bool sim_config_holds(struct sim *sim, const struct zab_config *config, zxid_t zxid)
{
    uint32_t count = 0;
    uint32_t voters = 0;

    for_each_member (member, config) {
        voters += member->voter;
        count += member->voter && voter_holds(sim, member, zxid);
    }
    return zxid == 0 || count > voters / 2;
}

bool sim_quorum_holds(struct sim *sim, zxid_t zxid)
{
    return sim_config_holds(sim, &sim->config, zxid);
}

void sim_quorum_trace(struct sim *sim, zxid_t zxid)
{
    if (!sim->options.trace) {
        return;
    }
    for_each_member (member, &sim->config) {
        const struct sim_node *node = &sim->nodes[member->id];

        SIM_TRACE(sim,
                  "member %u disk %" PRIx64 ": voter %d holds %d up to %" PRIx64
                  "; in the machine: disk %" PRIx64 " up to %" PRIx64 " harmed %d",
                  member->id, member->incarnation, member->voter, voter_holds(sim, member, zxid),
                  held(node, member->incarnation), node->identity.incarnation, node->shadow.last,
                  node->harm.is);
    }
}

void sim_disk_harmed(struct sim_node *node)
{
    if (!node->harm.is) {
        node->harm = (struct sim_harm){.is = true, .last = node->shadow.last};
    }
}

void sim_disk_discarded(struct sim_node *node, uint64_t incarnation)
{
    struct sim_thrown thrown = {.incarnation = incarnation, .last = held(node, incarnation)};

    if (incarnation == 0) {
        return; /* It was never formatted. */
    }
    MEM_GROW(node->thrown, node->thrown_count, node->thrown_cap, MEM_ITEMS_MAX);
    node->thrown[node->thrown_count++] = thrown;
}
