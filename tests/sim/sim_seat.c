#include "tests/sim/sim_seat.h"

#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/vfs_mem.h"
#include "tests/sim/sim_check_int.h"
#include "tests/sim/sim_failing.h"
#include "tests/sim/sim_member.h"
#include "tests/sim/sim_quorum.h"
#include "tests/sim/sim_release.h"

#include <inttypes.h>

/*
 * Seats: the disk of each voter that the committed configuration names. A node has one disk in its
 * machine and perhaps another on the shelf: its former disk, which an empty one has replaced. The
 * disk with the seat counts, wherever it is; the other is an unknown disk.
 */

#define UNKNOWN UINT64_MAX /* No configuration has this version. */

static bool is_in_force(struct sim *sim, const struct zab_config *config)
{
    const struct sim_rec *rec = sim_rec_find(sim, config->version);

    if (memcmp(config->cluster, sim->config.cluster, ZAB_CLUSTER_LEN) != 0) {
        return false;
    }
    /* The configurations of the founding and of a forced recovery are not records. */
    return zxid_counter(config->version) == 0 || config->version == sim->members.proven.version ||
           (rec && rec->committed && rec->rec->type == LOGREC_CONFIG);
}

void sim_seat_started(struct sim_node *node)
{
    node->whole_from = 0;
    node->config_version = UNKNOWN;
}

void sim_seat_check(struct sim *sim, struct sim_node *node)
{
    const struct zab_config *config = zab_config(replica_zab(node->replica));

    if (config->version == node->config_version || config->count == 0 || sim->config.count == 0) {
        return;
    }
    node->config_version = config->version;
    sim_release_check(sim, node, config);
    if (!is_in_force(sim, config)) {
        sim_fail(sim, "A30",
                 "node %u treats %" PRIx64 " of cluster %02x%02x as the configuration in force",
                 node->id, config->version, config->cluster[0], config->cluster[1]);
    }
}

void sim_seat_check_end(struct sim *sim)
{
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        const struct sim_node *node = &sim->nodes[id];

        if (node->up && sim_member_is(sim, node) &&
            zab_config(replica_zab(node->replica))->version != sim->config.version) {
            sim_fail(sim, "A37",
                     "node %u ends with the configuration %" PRIx64 ", not with %" PRIx64, id,
                     zab_config(replica_zab(node->replica))->version, sim->config.version);
        }
    }
}

void sim_seat_appended(struct sim *sim, const struct sim_node *node, const struct logrec *rec)
{
    struct zab_config config;

    if (zab_config_decode(logrec_payload(rec), &config) == ERR_OK) {
        config.version = rec->zxid;
        sim_release_check(sim, node, &config);
    }
}

/* The node whose seat the proposal gives to another disk, which may be back on the shelf by now;
 * the leader itself when there is none. */
static uint32_t fresh_in(const struct sim_node *leader, const struct zab_config *config)
{
    const struct zab_config *now = zab_config(replica_zab(leader->replica));

    for_each_member (member, config) {
        if (member->voter && !zab_config_is_voter(now, member->id, member->incarnation)) {
            return member->id;
        }
    }
    return leader->id;
}

/* A second configuration in a log proves that the first one is committed. */
static void check_one_pending(struct sim *sim, const struct sim_node *leader,
                              const struct logrec *proposed)
{
    const struct sim_rec *rec = sim_rec_find(sim, proposed->prev);

    while (rec && rec->rec->type != LOGREC_CONFIG) {
        rec = rec->parent;
    }
    if (rec && !rec->committed) {
        sim_fail(sim, "A37",
                 "leader %u proposes the configuration %" PRIx64 " after %" PRIx64
                 ", which is not committed",
                 leader->id, proposed->zxid, rec->rec->zxid);
    }
}

void sim_seat_proposed(struct sim *sim, const struct sim_node *leader, const struct logrec *rec)
{
    struct zab_config config;

    check_one_pending(sim, leader, rec);

    if (zab_config_decode(logrec_payload(rec), &config) == ERR_OK) {
        sim_release_made(sim, config.level);
        sim_release_proposed(sim, leader, &config);
        sim_quorum_proposed(sim, rec, &config);
        sim_member_proposed(sim, leader, rec, &config);
        uint32_t fresh = fresh_in(leader, &config);

        sim->nodes[fresh].named = rec->zxid;
        SIM_TRACE(sim, "leader %u proposes %" PRIx64 ": another disk for the seat of node %u",
                  leader->id, rec->zxid, fresh);
        sim_fault_at_config(sim, leader, fresh);
    }
}

/* That configuration is not committed, and may still be: no diverging record has been committed. */
bool sim_seat_is_named(struct sim *sim, const struct sim_node *node)
{
    const struct sim_rec *rec = sim_rec_find(sim, node->named);

    return rec && !rec->committed && sim_log_last(sim) < node->named;
}

/* The disk counts from now on. If its replica has found its own state wrong during the admission,
 * it counts as a harmed disk, and the majority that admitted it must tolerate that. */
static void take_seat(struct sim *sim, struct sim_node *node)
{
    node->emptied = false;
    node->damaged = sim_disk_is_quarantined(node);
    node->spare_seat = false;
    sim->totals.admissions++;
}

static bool is_on_shelf(const struct sim_node *node, uint64_t incarnation)
{
    return node->spare && node->spare_incarnation == incarnation;
}

/* The seat belongs to the disk on the shelf or to one that was thrown away meanwhile. In the second
 * case the seat is lost for ever, and neither of the remaining disks counts. */
static void lose_seat(struct sim *sim, struct sim_node *node, uint64_t incarnation)
{
    node->emptied = true;
    node->damaged = true;
    node->spare_seat = is_on_shelf(node, incarnation);
    sim->totals.admissions++;
}

static void admit(struct sim *sim, struct sim_node *node, uint64_t incarnation)
{
    if (node->identity.incarnation == incarnation) {
        if (node->emptied) {
            take_seat(sim, node);
        }
    } else if (!node->emptied || node->spare_seat != is_on_shelf(node, incarnation)) {
        lose_seat(sim, node, incarnation);
    }
}

void sim_seat_admit(struct sim *sim, const struct logrec *rec)
{
    struct zab_config config;

    if (zab_config_decode(logrec_payload(rec), &config) != ERR_OK) {
        sim_fail(sim, "A6", "the configuration %" PRIx64 " is malformed", rec->zxid);
    }
    config.version = rec->zxid;
    sim_quorum_set(sim, &config);
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        struct sim_node *node = &sim->nodes[id];

        node->spare_seat &= sim_seat_of(sim, node) != NULL;
    }
    for_each_member (member, &config) {
        if (member->voter) {
            admit(sim, &sim->nodes[member->id], member->incarnation);
        }
    }
    sim_member_committed(sim);
}

/* ---- The shelf. ---- */

static void drop_spare(struct sim_node *node)
{
    if (node->spare) {
        vfs_mem_free(node->spare);
        node->spare = NULL;
    }
    mem_free(node->spare_issues);
    node->spare_issues = NULL;
}

void sim_seat_release(struct sim_node *node)
{
    drop_spare(node);
    mem_free(node->thrown);
}

/* A disk that was on the shelf before is thrown away. */
void sim_seat_keep(struct sim_node *node)
{
    ASSERT(!node->up && !node->emptied && !node->damaged);

    if (node->spare) {
        sim_disk_discarded(node, node->spare_incarnation);
    }
    drop_spare(node);
    node->spare = node->disk;
    node->spare_shadow = node->shadow;
    node->spare_harm = node->harm;
    node->spare_incarnation = node->identity.incarnation;
    node->identity.incarnation = 0;
    node->spare_issues = node->issues;
    node->spare_issue_count = node->issue_count;
    node->spare_seat = true;
    node->issues = NULL;
    node->issue_count = 0;
    node->issue_cap = 0;
    node->disk = vfs_mem_new(0);
    node->vfs = vfs_mem_vfs(node->disk);
}

static void exchange(struct sim_node *node)
{
    struct sim_node old = *node;

    node->disk = old.spare;
    node->vfs = vfs_mem_vfs(node->disk);
    node->shadow = old.spare_shadow;
    node->harm = old.spare_harm;
    node->identity.incarnation = old.spare_incarnation;
    node->issues = old.spare_issues;
    node->issue_count = old.spare_issue_count;
    node->issue_cap = old.spare_issue_count;
    node->spare_seat = !old.emptied;
    node->spare = old.disk;
    node->spare_shadow = old.shadow;
    node->spare_harm = old.harm;
    node->spare_incarnation = old.identity.incarnation;
    node->spare_issues = old.issues;
    node->spare_issue_count = old.issue_count;
}

void sim_seat_swap(struct sim *sim, struct sim_node *node)
{
    bool back = node->spare_seat;

    ASSERT(!node->up && node->spare);
    SIM_TRACE(sim, "fault: node %u gets its %s disk from the shelf", node->id,
              back ? "own" : "other");
    sim_disk_mend(sim, node);
    sim_disk_limit(sim, node, false);
    exchange(node);
    node->emptied = !back;
    node->damaged = !back || node->shadow.quarantined;
    node->returned_us = back ? sim->now_us : node->returned_us;
    sim->totals.swapped++;
}
