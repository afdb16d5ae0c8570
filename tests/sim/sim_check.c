#include "base/check.h"
#include "base/mem.h"
#include "tests/sim/sim_check_int.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_gist.h"
#include "tests/sim/sim_member.h"
#include "tests/sim/sim_quorum.h"
#include "tests/sim/sim_seat.h"
#include "tests/sim/sim_session.h"

#include <inttypes.h>

/*
 * The invariants that are checked during a run; README.md has their names. The last zxid of a log
 * identifies it: records form a tree (each has one parent), so "this log holds z" is a walk from
 * its end towards the root.
 */

struct sim_rec *sim_rec_find(struct sim *sim, zxid_t zxid)
{
    return zxid == 0 ? NULL : map_get_u64(&sim->recs, zxid);
}

bool sim_log_holds(struct sim *sim, zxid_t last, zxid_t zxid)
{
    const struct sim_rec *rec = sim_rec_find(sim, last);

    if (zxid == 0) {
        return true;
    }
    while (rec && rec->rec->zxid > zxid) {
        rec = rec->parent;
    }
    return rec && rec->rec->zxid == zxid;
}

zxid_t sim_log_last(const struct sim *sim)
{
    return sim->log_count > 0 ? sim->log[sim->log_count - 1]->rec->zxid : 0;
}

/*
 * Newest record that a leader of an epoch below `epoch` has committed. This may differ from the
 * newest committed record of a lower epoch. Example: the leader of epoch 8 commits a tail of epoch
 * 6. The leader of epoch 7 need not know that commit: it may collect old promises late, be
 * established after the leader of 8, and can no longer commit anything.
 */
static zxid_t committed_below(const struct sim *sim, uint32_t epoch)
{
    size_t i = sim->log_count;

    while (i > 0 && sim->log[i - 1]->commit_epoch >= epoch) {
        i--;
    }
    return i > 0 ? sim->log[i - 1]->rec->zxid : 0;
}

/* ---- Broadcasts. ---- */

static void establish(struct sim *sim, struct sim_node *node, uint32_t epoch)
{
    struct sim_est *est = map_get_u64(&sim->ests, epoch);
    zxid_t must = committed_below(sim, epoch);

    if (est && (est->node != node->id || est->life != node->life)) {
        sim_fail(sim, "A1", "epoch %u has two established leaders: nodes %u and %u", epoch,
                 est->node, node->id);
    }
    sim_quorum_established(sim, node, epoch);
    sim_member_established(sim, node);
    if (est) {
        sim_fail(sim, "A27", "node %u starts epoch %u a second time", node->id, epoch);
    }
    if (!sim_log_holds(sim, node->appended, must)) {
        sim_fail(sim, "A12", "leader %u of epoch %u lacks the committed record %" PRIx64, node->id,
                 epoch, must);
    }
    est = mem_zalloc(1, sizeof(*est));
    est->node = node->id;
    est->life = node->life;
    est->last = node->appended;
    (void)map_put_u64(&sim->ests, epoch, est);
    sim->newest_epoch = epoch > sim->newest_epoch ? epoch : sim->newest_epoch;
    sim->totals.established++;
}

/* Primary integrity and local primary order, for a record that a leader makes itself. */
static void check_leader(struct sim *sim, struct sim_node *node, const struct logrec *rec)
{
    uint32_t epoch = zxid_epoch(rec->zxid);
    struct sim_est *est = map_get_u64(&sim->ests, epoch);

    if (!est || est->node != node->id || est->life != node->life) {
        sim_fail(sim, "A6", "node %u appends %" PRIx64 ", which no leader has broadcast", node->id,
                 rec->zxid);
    }
    if (rec->prev + 1 != rec->zxid) {
        sim_fail(sim, "A9", "leader %u makes %" PRIx64 " after %" PRIx64, node->id, rec->zxid,
                 rec->prev);
    }
    /* The proof that the history's configuration is committed depends on no state. */
    if (node->applied < zxid_make(epoch, 0) && rec->type != LOGREC_STAMP) {
        sim_fail(sim, "A11",
                 "leader %u of epoch %u broadcasts before it has applied its history: %" PRIx64,
                 node->id, epoch, node->applied);
    }
    if (!est->broadcast && !sim_log_holds(sim, node->appended, committed_below(sim, epoch))) {
        sim_fail(sim, "A11", "leader %u of epoch %u broadcasts, but lacks committed records",
                 node->id, epoch);
    }
    est->broadcast = true;
}

static void broadcast(struct sim *sim, struct sim_node *node, struct logrec *rec)
{
    struct sim_rec *made;

    if (rec->type == LOGREC_EPOCH) {
        if (zxid_counter(rec->zxid) != 0) {
            sim_fail(sim, "A9", "an epoch starts with %" PRIx64, rec->zxid);
        }
        establish(sim, node, zxid_epoch(rec->zxid));
    } else {
        check_leader(sim, node, rec);
        sim_session_proposed(sim, node, rec);
    }
    made = mem_zalloc(1, sizeof(*made));
    made->rec = logrec_ref(rec);
    made->parent = sim_rec_find(sim, rec->prev);
    made->depth = made->parent ? made->parent->depth + 1 : 0;
    made->leader = node->id;
    sim_clock_made(sim, made);
    (void)map_put_u64(&sim->recs, rec->zxid, made);
    sim_quorum_stamped(sim, node, rec);
    if (rec->type == LOGREC_CONFIG) {
        sim_seat_proposed(sim, node, rec);
    }
}

/* Records that belong to a snapshot being received do not change the log until it is installed. */
void sim_check_append(struct sim *sim, struct sim_node *node, struct logrec *rec)
{
    const struct sim_rec *known = sim_rec_find(sim, rec->zxid);
    zxid_t *last = node->staging ? &node->staged : &node->appended;

    if (rec->prev != *last && *last != APPENDED_UNKNOWN) {
        sim_fail(sim, "A10", "node %u appends %" PRIx64 " (after %" PRIx64 ") behind %" PRIx64,
                 node->id, rec->zxid, rec->prev, *last);
    }
    if (rec->zxid <= rec->prev) {
        sim_fail(sim, "A10", "node %u appends %" PRIx64 " after %" PRIx64, node->id, rec->zxid,
                 rec->prev);
    }
    if (!known) {
        broadcast(sim, node, rec);
    } else if (known->rec->chain != rec->chain) {
        sim_fail(sim, "A14", "node %u appends %" PRIx64 ", but another record has that zxid",
                 node->id, rec->zxid);
    }
    if (rec->type == LOGREC_CONFIG) {
        sim_seat_appended(sim, node, rec);
    }
    *last = rec->zxid;
}

/* ---- Messages. ---- */

static void check_claim(struct sim *sim, struct sim_node *node, const struct zab_msg *msg,
                        zxid_t zxid, const char *invariant)
{
    if (!sim_log_holds(sim, node->shadow.last, zxid)) {
        sim_fail(sim, invariant,
                 "node %u sends %s for %" PRIx64 ", but its disk holds the log up to %" PRIx64,
                 node->id, zab_msg_name(msg->type), zxid, node->shadow.last);
    }
}

static void check_new_promise(struct sim *sim, struct sim_node *node, const struct zab_msg *msg)
{
    if (node->shadow.promised_epoch < msg->epoch) {
        sim_fail(sim, "A3", "node %u sends %s for epoch %u, but its disk has promised %u", node->id,
                 zab_msg_name(msg->type), msg->epoch, node->shadow.promised_epoch);
    }
}

static void check_commit(struct sim *sim, struct sim_node *node, const struct zab_msg *msg,
                         zxid_t zxid)
{
    const struct sim_rec *rec = sim_rec_find(sim, zxid);

    if (zxid != 0 && (!rec || !rec->committed)) {
        sim_fail(sim, "A5", "node %u sends %s: %" PRIx64 " is not committed", node->id,
                 zab_msg_name(msg->type), zxid);
    }
}

/* sim_refill judges how long a transfer of that size may take. */
static void note_chunk(struct sim *sim, uint32_t to, const struct zab_msg_snap_chunk *chunk)
{
    struct sim_node *learner = &sim->nodes[to];

    learner->snap_bytes = max_u64(learner->snap_bytes, chunk->offset + chunk->bytes.len);
}

static void check_newleader(struct sim *sim, struct sim_node *node, const struct zab_msg *msg)
{
    const struct sim_est *est = map_get_u64(&sim->ests, msg->epoch);

    if (!est || est->node != node->id || est->life != node->life) {
        sim_fail(sim, "A1", "node %u sends NEWLEADER of epoch %u, which is not its own", node->id,
                 msg->epoch);
    }
    check_claim(sim, node, msg, zxid_make(msg->epoch, 0), "A4");
}

void sim_check_send(struct sim *sim, struct sim_node *node, uint32_t to, const struct zab_msg *msg)
{
    if (sim->options.trace) {
        struct sim_gist gist = sim_gist(msg);

        SIM_TRACE(sim, "send %u->%u %s dialogue %u epoch %u zxid %" PRIx64 " commit %" PRIx64,
                  node->id, to, zab_msg_name(msg->type), msg->dialogue, gist.epoch, gist.zxid,
                  gist.commit);
    }
    switch ((int)msg->type) {
    case ZAB_ACKEPOCH:
        check_new_promise(sim, node, msg);
        check_claim(sim, node, msg, msg->ackepoch.last, "A4");
        break;
    case ZAB_NEWEPOCH:
        check_new_promise(sim, node, msg);
        break;
    case ZAB_SYNC_ACK:
        if (!node->staging) { /* Acknowledging a snapshot's own log is never a vote. */
            check_claim(sim, node, msg, msg->ack.zxid, "A4");
        }
        break;
    case ZAB_PONG:
        if (node->telling) {
            break; /* A snapshot may have replaced the log that the core still refers to. */
        }
        check_claim(sim, node, msg, msg->pong.last, "A4");
        break;
    case ZAB_ACK:
        check_claim(sim, node, msg, msg->ack.zxid, "A4");
        break;
    case ZAB_ACK_NEWLEADER:
        check_claim(sim, node, msg, zxid_make(msg->epoch, 0), "A4");
        break;
    case ZAB_NEWLEADER:
        check_newleader(sim, node, msg);
        break;
    case ZAB_SNAP_CHUNK:
        note_chunk(sim, to, &msg->snap_chunk);
        break;
    case ZAB_UPTODATE:
    case ZAB_COMMIT:
        check_commit(sim, node, msg, msg->commit.zxid);
        break;
    default:
        break;
    }
}

/* ---- Commits. ---- */

/* Leaders of later epochs, established before this was committed, must have it too. */
static void check_later_leaders(struct sim *sim, zxid_t zxid)
{
    for (uint32_t epoch = zxid_epoch(zxid) + 1; epoch <= sim->newest_epoch; epoch++) {
        const struct sim_est *est = map_get_u64(&sim->ests, epoch);

        if (est && !sim_log_holds(sim, est->last, zxid)) {
            sim_fail(sim, "A12", "%" PRIx64 " is committed, but leader %u of epoch %u lacks it",
                     zxid, est->node, epoch);
        }
    }
}

static void commit_one(struct sim *sim, struct sim_rec *rec, uint32_t epoch)
{
    rec->committed = true;
    rec->commit_epoch = epoch;
    sim_clock_committed(sim, rec);
    if (sim->log_count == sim->log_cap) {
        sim->log_cap = sim->log_cap ? sim->log_cap * 2 : 1024;
        sim->log = mem_realloc(sim->log, sim->log_cap * sizeof(struct sim_rec *));
    }
    sim->log[sim->log_count++] = rec;
}

static void check_quorum(struct sim *sim, const struct sim_node *node, zxid_t zxid)
{
    if (!sim_quorum_holds(sim, zxid)) {
        sim_quorum_trace(sim, zxid);
        sim_fail(sim, "A5",
                 "leader %u commits %" PRIx64 ", which no majority of the configuration %" PRIx64
                 " has on disk",
                 node->id, zxid, sim->config.version);
    }
}

/* The disks of the configuration before and those of the new one have committed the record. */
static void commit_config(struct sim *sim, const struct sim_node *node, struct sim_rec *rec,
                          uint32_t epoch)
{
    check_quorum(sim, node, rec->rec->zxid);
    commit_one(sim, rec, epoch);
    sim_seat_admit(sim, rec->rec);
    if (!sim_quorum_holds(sim, rec->rec->zxid)) {
        sim_quorum_trace(sim, rec->rec->zxid);
        sim_fail(sim, "A33",
                 "leader %u commits the configuration %" PRIx64
                 ", which no majority of its own voters has on disk",
                 node->id, rec->rec->zxid);
    }
}

/*
 * Commits the records after `last`, in order, up to `rec`. A configuration among them decides which
 * disks count for the records after it.
 */
static void commit_path(struct sim *sim, const struct sim_node *node, struct sim_rec *rec,
                        zxid_t last)
{
    zxid_t zxid = rec->rec->zxid;
    size_t count = 0;
    struct sim_rec **path;

    for (const struct sim_rec *at = rec; at && at->rec->zxid > last; at = at->parent) {
        count++;
    }
    path = mem_alloc((count + 1) * sizeof(struct sim_rec *));
    for (size_t i = count; i > 0; i--) {
        path[i - 1] = rec;
        rec = rec->parent;
    }
    for (size_t i = 0; i < count; i++) {
        if (path[i]->rec->type == LOGREC_CONFIG) {
            commit_config(sim, node, path[i], zxid_epoch(zxid));
        } else {
            commit_one(sim, path[i], zxid_epoch(zxid));
        }
    }
    mem_free(path);
}

/* A leader reports that everything up to `zxid` is committed. */
static void grow_log(struct sim *sim, struct sim_node *node, zxid_t zxid)
{
    struct sim_rec *rec = sim_rec_find(sim, zxid);
    zxid_t last = sim_log_last(sim);

    if (!rec) {
        sim_fail(sim, "A6", "leader %u commits %" PRIx64 ", which no leader broadcast", node->id,
                 zxid);
    }
    if (!sim_log_holds(sim, zxid, last)) {
        sim_fail(sim, "A7",
                 "leader %u commits %" PRIx64 ", which diverges from the committed %" PRIx64,
                 node->id, zxid, last);
    }
    zxid_t version = sim->config.version;

    commit_path(sim, node, rec, last);
    check_quorum(sim, node, zxid);
    if (sim->config.version != version) {
        sim_quorum_answered(sim, node, zxid);
    }
    check_later_leaders(sim, zxid);
}

static void check_status(struct sim *sim, struct sim_node *node)
{
    const struct zab_status *zab = &node->status.zab;
    const struct sim_rec *rec = sim_rec_find(sim, zab->delivered);

    if (zab->epoch > zab->promised && !zab->quarantined) {
        sim_fail(sim, "A2", "node %u is in epoch %u, but has promised %u", node->id, zab->epoch,
                 zab->promised);
    }
    if (zab->delivered > zab->committed) {
        sim_fail(sim, "A16", "node %u applied %" PRIx64 ", but only %" PRIx64 " is committed",
                 node->id, zab->delivered, zab->committed);
    }
    if (zab->serving && zab->delivered < node->whole_from) {
        sim_fail(sim, "A31",
                 "node %u serves at %" PRIx64 ", inside the fuzzy part of its snapshot, which ends "
                 "at %" PRIx64,
                 node->id, zab->delivered, node->whole_from);
    }
    if (zab->delivered != 0 && (!rec || rec->rec->chain != zab->delivered_chain)) {
        sim_fail(sim, "A6", "node %u delivered a different record %" PRIx64, node->id,
                 zab->delivered);
    }
}

/* The leader of that epoch decides; it may have left the leader role in the same step. */
static bool decides(struct sim *sim, const struct sim_node *node, zxid_t zxid)
{
    const struct sim_est *est = map_get_u64(&sim->ests, zxid_epoch(zxid));

    return est && est->node == node->id && est->life == node->life;
}

static void check_committed(struct sim *sim, struct sim_node *node, zxid_t zxid)
{
    const struct sim_rec *rec = sim_rec_find(sim, zxid);

    if (zxid == 0 || (rec && rec->committed)) {
        return;
    }
    if (!decides(sim, node, zxid)) {
        sim_fail(sim, "A7", "node %u treats %" PRIx64 " as committed", node->id, zxid);
    }
    grow_log(sim, node, zxid);
}

void sim_check_step(struct sim *sim, struct sim_node *node)
{
    const struct zab_status *zab = &node->status.zab;

    if (zab->committed != node->committed) {
        check_committed(sim, node, zab->committed);
        node->committed = zab->committed;
    }
    check_status(sim, node);
    sim_seat_check(sim, node);
    sim_check_applied(sim, node);
    if (node->emptied && !sim_seat_of(sim, node) && zab->serving && !zab->quarantined) {
        node->emptied = false; /* An observer needs no admission. */
        node->damaged = false;
    }
}

static uint64_t illegal_messages(void)
{
    return sim_probe_hits("zab.illegal_message");
}

void sim_check_end(struct sim *sim)
{
    uint64_t refused = illegal_messages() - sim->illegal;

    if (refused > sim->bad_installs) {
        sim_fail(sim, "A26", "%" PRIu64 " messages of our own replicas were refused as illegal",
                 refused - sim->bad_installs);
    }
    sim_seat_check_end(sim);
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        struct sim_node *node = &sim->nodes[id];

        if (!sim_member_is(sim, node)) {
            continue;
        }
        if (node->up && !node->damaged &&
            !sim_log_holds(sim, node->shadow.last, sim_log_last(sim))) {
            sim_fail(sim, "A13", "node %u ends without the committed %" PRIx64, id,
                     sim_log_last(sim));
        }
        sim_disk_verify(sim, node);
    }
}

void sim_check_init(struct sim *sim)
{
    sim->illegal = illegal_messages();
    map_init(&sim->recs);
    map_init(&sim->ests);
    map_init(&sim->pledges);
}

void sim_check_release(struct sim *sim)
{
    size_t cursor = 0;
    struct sim_rec *rec;
    struct sim_est *est;

    while ((rec = map_each(&sim->recs, &cursor))) {
        logrec_unref(rec->rec);
        mem_free(rec);
    }
    cursor = 0;
    while ((est = map_each(&sim->ests, &cursor))) {
        mem_free(est);
    }
    map_release(&sim->recs);
    map_release(&sim->ests);
    sim_quorum_release(sim);
    mem_free(sim->log);
    mem_free(sim->applied);
}
