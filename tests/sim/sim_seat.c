#include "tests/sim/sim_seat.h"

#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/vfs_mem.h"
#include "tests/sim/sim_check_int.h"
#include "tests/sim/sim_failing.h"

#include <inttypes.h>

/*
 * Seats: the disk of each voter that the committed configuration names. A node has one disk in its
 * machine and perhaps another on the shelf: its former disk, which an empty one has replaced. The
 * disk with the seat counts, wherever it is; the other is an unknown disk.
 */

static bool is_in_force(struct sim *sim, uint64_t version)
{
    const struct sim_rec *rec = sim_rec_find(sim, version);

    /* The configurations of the bootstrap and of a forced recovery are not records. */
    return zxid_counter(version) == 0 || (rec && rec->committed && rec->rec->type == LOGREC_CONFIG);
}

void sim_seat_started(struct sim_node *node)
{
    node->whole_from = 0;
    node->config_version = 0;
}

void sim_seat_check(struct sim *sim, struct sim_node *node)
{
    uint64_t version = node->replica ? zab_config(replica_zab(node->replica))->version : 0;

    if (version == node->config_version) {
        return;
    }
    node->config_version = version;
    if (!is_in_force(sim, version)) {
        sim_fail(sim, "A30", "node %u treats %" PRIx64 " as the configuration in force", node->id,
                 version);
    }
}

/* The node whose seat the proposal gives to another disk, which may be back on the shelf by now;
 * the leader itself when there is none. */
static uint32_t fresh_in(const struct sim *sim, const struct sim_node *leader,
                         const struct zab_config *config)
{
    const struct zab_config *now = zab_config(replica_zab(leader->replica));

    for (uint32_t id = 1; id <= sim->knobs.voters; id++) {
        const struct zab_member *member = zab_config_find(config, id);

        if (member && member->voter && !zab_config_is_voter(now, id, member->incarnation)) {
            return id;
        }
    }
    return leader->id;
}

void sim_seat_proposed(struct sim *sim, const struct sim_node *leader, const struct logrec *rec)
{
    struct zab_config config;

    if (zab_config_decode(logrec_payload(rec), &config) == ERR_OK) {
        uint32_t fresh = fresh_in(sim, leader, &config);

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
    node->empty_seat = false;
    node->damaged = sim_disk_is_quarantined(node);
    if (node->damaged) {
        node->harmed_last = node->shadow.last;
    }
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
    bool on_shelf = is_on_shelf(node, incarnation);
    zxid_t thrown_last = incarnation == node->thrown_incarnation ? node->thrown_last : 0;

    node->emptied = true;
    node->damaged = true;
    node->harmed_last = on_shelf ? node->spare_shadow.last : thrown_last;
    node->spare_seat = on_shelf;
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

bool sim_seat_is_settled(const struct sim *sim, const struct sim_node *but)
{
    uint32_t count = 0;

    for (uint32_t id = 1; id <= sim->knobs.voters; id++) {
        const struct sim_node *node = &sim->nodes[id];

        count += node != but && sim_disk_counts(node) && node->shadow.committed >= sim->config_zxid;
    }
    return sim->config_zxid == 0 || count > sim->knobs.voters / 2;
}

void sim_seat_admit(struct sim *sim, const struct logrec *rec)
{
    struct zab_config config;

    if (zab_config_decode(logrec_payload(rec), &config) != ERR_OK) {
        sim_fail(sim, "A6", "the configuration %" PRIx64 " is malformed", rec->zxid);
    }
    sim->config_zxid = rec->zxid;
    for (uint32_t id = 1; id <= sim->knobs.voters; id++) {
        const struct zab_member *member = zab_config_find(&config, id);

        if (member && member->voter) {
            admit(sim, &sim->nodes[id], member->incarnation);
        }
    }
}

/* ---- The shelf. ---- */

void sim_seat_release(struct sim_node *node)
{
    if (node->spare) {
        vfs_mem_free(node->spare);
        node->spare = NULL;
    }
    mem_free(node->spare_issues);
    node->spare_issues = NULL;
}

/* A disk that was on the shelf before is thrown away. It may have acknowledged records, and its
 * admission may be pending. */
void sim_seat_keep(struct sim_node *node)
{
    ASSERT(!node->up && !node->emptied && !node->damaged);

    if (node->spare) {
        node->thrown_incarnation = node->spare_incarnation;
        node->thrown_last = node->spare_shadow.last;
    }
    sim_seat_release(node);
    node->spare = node->disk;
    node->spare_shadow = node->shadow;
    node->spare_incarnation = node->identity.incarnation;
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
    node->identity.incarnation = old.spare_incarnation;
    node->issues = old.spare_issues;
    node->issue_count = old.spare_issue_count;
    node->issue_cap = old.spare_issue_count;
    node->spare_seat = !old.emptied;
    node->spare = old.disk;
    node->spare_shadow = old.shadow;
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
    if (!node->emptied) {
        node->harmed_last = node->shadow.last;
    }
    sim_disk_mend(sim, node);
    sim_disk_limit(sim, node, false);
    exchange(node);
    node->emptied = !back;
    node->damaged = !back || node->shadow.quarantined;
    node->returned_us = back ? sim->now_us : node->returned_us;
    sim->totals.swapped++;
}
