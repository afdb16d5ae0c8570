#include "base/check.h"
#include "base/mem.h"
#include "tests/sim/sim.h"

#include <inttypes.h>

/*
 * The invariants that are watched while a run goes on; their names are those of README.md. A log is
 * told by its last zxid: records form a tree (each has one parent), so "this log holds z" is a walk
 * from its end towards the root.
 */

enum {
    APPENDED_UNKNOWN = 1, /* While a received snapshot is being installed. */
};

static const char *node_text(const struct sim_node *node, char *out, size_t size)
{
    (void)snprintf(out, size, "node %u (life %u)", node->id, node->life);
    return out;
}

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

static zxid_t log_last(const struct sim *sim)
{
    return sim->log_count > 0 ? sim->log[sim->log_count - 1]->rec->zxid : 0;
}

/* Newest committed record of an epoch below `epoch`. */
static zxid_t committed_below(const struct sim *sim, uint32_t epoch)
{
    size_t i = sim->log_count;

    while (i > 0 && zxid_epoch(sim->log[i - 1]->rec->zxid) >= epoch) {
        i--;
    }
    return i > 0 ? sim->log[i - 1]->rec->zxid : 0;
}

/* ---- Who broadcast what. ---- */

static void establish(struct sim *sim, struct sim_node *node, uint32_t epoch)
{
    struct sim_est *est = map_get_u64(&sim->ests, epoch);
    zxid_t must = committed_below(sim, epoch);

    if (est && (est->node != node->id || est->life != node->life)) {
        sim_fail(sim, "A1", "epoch %u has two established leaders: nodes %u and %u", epoch,
                 est->node, node->id);
    }
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

/* Primary integrity and local primary order, when a leader makes a record of its own. */
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
    if (node->applied < zxid_make(epoch, 0)) {
        sim_fail(sim, "A11",
                 "leader %u of epoch %u broadcasts before it has applied its history: %" PRIx64,
                 node->id, epoch, node->applied);
    }
    if (!est->broadcast && !sim_log_holds(sim, node->appended, committed_below(sim, epoch))) {
        sim_fail(sim, "A11", "leader %u of epoch %u broadcasts without all committed records",
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
    }
    made = mem_zalloc(1, sizeof(*made));
    made->rec = logrec_ref(rec);
    made->parent = sim_rec_find(sim, rec->prev);
    made->depth = made->parent ? made->parent->depth + 1 : 0;
    made->leader = node->id;
    (void)map_put_u64(&sim->recs, rec->zxid, made);
}

/* Records that belong to a snapshot on its way do not touch the log until it is installed. */
static void check_append(struct sim *sim, struct sim_node *node, struct logrec *rec)
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
    *last = rec->zxid;
}

/* ---- Changes of a disk. ---- */

static void check_truncate(struct sim *sim, struct sim_node *node, zxid_t zxid)
{
    const struct sim_rec *rec = sim_rec_find(sim, node->appended);

    if (!sim_log_holds(sim, node->appended, zxid)) {
        sim_fail(sim, "A14", "node %u cuts back to %" PRIx64 ", which its log does not hold",
                 node->id, zxid);
    }
    for (; rec && rec->rec->zxid > zxid; rec = rec->parent) {
        if (rec->committed) {
            sim_fail(sim, "A13", "node %u cuts off the committed record %" PRIx64, node->id,
                     rec->rec->zxid);
        }
    }
    node->appended = zxid;
    sim->totals.truncs++;
}

/* What the new log lacks of what the old one had must not be committed. */
static void check_install(struct sim *sim, struct sim_node *node)
{
    const struct sim_rec *rec = sim_rec_find(sim, node->appended);

    for (; rec && !node->damaged && node->staged != APPENDED_UNKNOWN; rec = rec->parent) {
        if (rec->committed) {
            if (!sim_log_holds(sim, node->staged, rec->rec->zxid)) {
                sim_fail(sim, "A13", "node %u installs a snapshot without the committed %" PRIx64,
                         node->id, rec->rec->zxid);
            }
            break;
        }
    }
    node->appended = node->staged;
    node->staging = false;
    sim->totals.snaps_sent++;
}

static void remember(struct sim_node *node, const struct zab_effect *effect)
{
    if (node->issue_count == node->issue_cap) {
        node->issue_cap = node->issue_cap ? node->issue_cap * 2 : 64;
        node->issues = mem_realloc(node->issues, node->issue_cap * sizeof(*node->issues));
    }
    node->issues[node->issue_count++] =
        (struct sim_issue){.token = effect->token,
                           .type = effect->persist,
                           .staged = node->staging,
                           .zxid = effect->rec ? effect->rec->zxid : effect->zxid,
                           .epoch = effect->epoch,
                           .leader = effect->leader};
}

void sim_check_persist(struct sim *sim, struct sim_node *node, const struct zab_effect *effect)
{
    SIM_TRACE(sim, "persist %u: type %d token %" PRIu64 " zxid %" PRIx64, node->id,
              (int)effect->persist, effect->token, effect->rec ? effect->rec->zxid : effect->zxid);
    switch (effect->persist) {
    case ZAB_PERSIST_APPEND:
        check_append(sim, node, effect->rec);
        break;
    case ZAB_PERSIST_TRUNCATE:
        check_truncate(sim, node, effect->zxid);
        break;
    case ZAB_PERSIST_RESET:
        if (!node->damaged && node->appended != 0) {
            sim_fail(sim, "A13", "node %u forgets its log without cause", node->id);
        }
        node->appended = 0;
        break;
    case ZAB_PERSIST_SNAP_BEGIN:
        node->staging = true;
        node->staged = APPENDED_UNKNOWN;
        break;
    case ZAB_PERSIST_SNAP_INSTALL:
        check_install(sim, node);
        break;
    case ZAB_PERSIST_SNAP_ABORT:
        node->staging = false;
        break;
    case ZAB_PERSIST_QUARANTINE:
        if (!node->damaged) {
            sim_fail(sim, "A18", "node %u is quarantined without cause: %s", node->id,
                     effect->text);
        }
        sim->totals.quarantines++;
        break;
    case ZAB_PERSIST_PROMISE:
    case ZAB_PERSIST_JOIN:
    case ZAB_PERSIST_RELEASE:
    case ZAB_PERSIST_SNAP_CHUNK:
        break;
    }
    remember(node, effect);
}

static bool voter_holds(struct sim *sim, const struct sim_node *node, zxid_t zxid)
{
    return node->voter &&
           sim_log_holds(sim, node->damaged ? node->harmed_last : node->shadow.last, zxid);
}

static bool quorum_holds(struct sim *sim, zxid_t zxid)
{
    uint32_t count = 0;

    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        count += voter_holds(sim, &sim->nodes[id], zxid);
    }
    return count > sim->knobs.voters / 2;
}

static void check_promise(struct sim *sim, struct sim_node *node, const struct sim_issue *issue)
{
    if (issue->epoch < node->shadow.promised_epoch) {
        sim_fail(sim, "A2", "node %u promises epoch %u after %u", node->id, issue->epoch,
                 node->shadow.promised_epoch);
    }
    node->shadow.promised_epoch = issue->epoch;
    node->shadow.promised_leader = issue->leader;
}

/* One change has become durable. */
static void settle(struct sim *sim, struct sim_node *node, const struct sim_issue *issue,
                   const struct persist_done *done)
{
    struct sim_shadow *shadow = &node->shadow;
    bool cut = false;

    switch (issue->type) {
    case ZAB_PERSIST_APPEND:
        if (!issue->staged) {
            shadow->last = issue->zxid;
        }
        break;
    case ZAB_PERSIST_TRUNCATE:
        shadow->last = issue->zxid;
        cut = true;
        break;
    case ZAB_PERSIST_RESET:
        shadow->last = 0;
        cut = true;
        break;
    case ZAB_PERSIST_SNAP_INSTALL:
        if (done->err == ERR_OK) {
            shadow->last = done->last;
        }
        if (node->appended == APPENDED_UNKNOWN || done->err != ERR_OK) {
            node->appended = shadow->last;
        }
        cut = true;
        break;
    case ZAB_PERSIST_PROMISE:
        check_promise(sim, node, issue);
        break;
    case ZAB_PERSIST_QUARANTINE:
        shadow->quarantined = true;
        break;
    case ZAB_PERSIST_RELEASE:
        shadow->quarantined = false;
        node->damaged = node->emptied;
        break;
    case ZAB_PERSIST_JOIN:
        sim_net_greet_again(sim, node);
        break;
    case ZAB_PERSIST_SNAP_BEGIN:
    case ZAB_PERSIST_SNAP_CHUNK:
    case ZAB_PERSIST_SNAP_ABORT:
        break;
    }
    if (cut && !quorum_holds(sim, log_last(sim))) {
        sim_fail(sim, "A13", "after node %u changed its log no quorum holds %" PRIx64, node->id,
                 log_last(sim));
    }
}

void sim_check_done(struct sim *sim, struct sim_node *node, const struct persist_done *done)
{
    size_t count = 0;

    while (count < node->issue_count && node->issues[count].token <= done->token) {
        settle(sim, node, &node->issues[count], done);
        count++;
    }
    if (count == 0) {
        sim_fail(sim, "host", "node %u: nothing was to be done for token %" PRIu64, node->id,
                 done->token);
    }
    node->issue_count -= count;
    memmove(node->issues, node->issues + count, node->issue_count * sizeof(*node->issues));
}

/* ---- Restart. ---- */

/* The log found must be what was durable, plus any first part of what was on its way. */
static bool is_explained(struct sim *sim, const struct sim_node *node, zxid_t found)
{
    zxid_t last = node->shadow.last;
    bool any = false;

    for (size_t i = 0; last != found && !any && i < node->issue_count; i++) {
        const struct sim_issue *issue = &node->issues[i];

        if ((issue->type == ZAB_PERSIST_APPEND && !issue->staged) ||
            issue->type == ZAB_PERSIST_TRUNCATE) {
            last = issue->zxid;
        } else if (issue->type == ZAB_PERSIST_RESET) {
            last = 0;
        } else if (issue->type == ZAB_PERSIST_SNAP_INSTALL) {
            any = sim_rec_find(sim, found) != NULL;
        }
    }
    return last == found || any;
}

static bool promise_explained(const struct sim_node *node, uint32_t found)
{
    bool ok = found == node->shadow.promised_epoch;

    for (size_t i = 0; !ok && i < node->issue_count; i++) {
        ok = node->issues[i].type == ZAB_PERSIST_PROMISE && node->issues[i].epoch == found;
    }
    return ok;
}

static bool quarantine_explained(const struct sim_node *node)
{
    bool ok = node->shadow.quarantined || node->damaged;

    for (size_t i = 0; !ok && i < node->issue_count; i++) {
        ok = node->issues[i].type == ZAB_PERSIST_QUARANTINE;
    }
    return ok;
}

static void check_found(struct sim *sim, struct sim_node *node, const struct zab_init *init)
{
    const struct sim_rec *rec = sim_rec_find(sim, init->log_last);
    const struct sim_rec *committed = sim_rec_find(sim, init->committed);
    char text[64];

    if (!is_explained(sim, node, init->log_last)) {
        sim_fail(sim, "A18", "%s finds a log up to %" PRIx64 ", %" PRIx64 " was durable",
                 node_text(node, text, sizeof(text)), init->log_last, node->shadow.last);
    }
    if (init->log_last != 0 && (!rec || rec->rec->chain != init->log_chain)) {
        sim_fail(sim, "A18", "%s finds another record %" PRIx64,
                 node_text(node, text, sizeof(text)), init->log_last);
    }
    if (init->committed != 0 && (!committed || !committed->committed)) {
        sim_fail(sim, "A18", "%s takes %" PRIx64 " for committed",
                 node_text(node, text, sizeof(text)), init->committed);
    }
    if (!promise_explained(node, init->promised_epoch)) {
        sim_fail(sim, "A2", "%s finds the promise %u, %u was durable",
                 node_text(node, text, sizeof(text)), init->promised_epoch,
                 node->shadow.promised_epoch);
    }
}

void sim_check_recovered(struct sim *sim, struct sim_node *node,
                         const struct replica_options *options)
{
    const struct zab_init *init = &options->zab;
    char text[64];

    if (init->quarantined && !quarantine_explained(node)) {
        sim_fail(sim, "A18", "%s is quarantined, but its disk was not harmed",
                 node_text(node, text, sizeof(text)));
    }
    if (!init->quarantined && !node->emptied && !node->rolled_back) {
        check_found(sim, node, init);
        node->damaged = false; /* The harm did not matter. */
    }
    node->rolled_back = false; /* It stays harmed until it is found out and refilled. */
    node->issue_count = 0;
    node->staging = false;
    node->appended = init->log_last;
    node->shadow = (struct sim_shadow){.last = init->log_last,
                                       .promised_epoch = init->promised_epoch,
                                       .promised_leader = init->promised_leader,
                                       .quarantined = init->quarantined};
    sim_check_applied(sim, node);
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
        sim_fail(sim, "A3", "node %u sends %s for epoch %u, its disk has promised %u", node->id,
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
    SIM_TRACE(sim, "send %u->%u %s link %u epoch %u zxid %" PRIx64 " commit %" PRIx64, node->id, to,
              zab_msg_name(msg->type), msg->link, msg->epoch, msg->rec ? msg->rec->zxid : msg->zxid,
              msg->commit);
    switch ((int)msg->type) {
    case ZAB_ACKEPOCH:
        check_new_promise(sim, node, msg);
        check_claim(sim, node, msg, msg->zxid, "A4");
        break;
    case ZAB_NEWEPOCH:
        check_new_promise(sim, node, msg);
        break;
    case ZAB_SYNC_ACK:
        if (!node->staging) { /* Of a snapshot's own log: flow control, never a vote. */
            check_claim(sim, node, msg, msg->zxid, "A4");
        }
        break;
    case ZAB_ACK:
    case ZAB_PONG:
        check_claim(sim, node, msg, msg->zxid, "A4");
        break;
    case ZAB_ACK_NEWLEADER:
        check_claim(sim, node, msg, zxid_make(msg->epoch, 0), "A4");
        break;
    case ZAB_NEWLEADER:
        check_newleader(sim, node, msg);
        break;
    case ZAB_UPTODATE:
    case ZAB_COMMIT:
        check_commit(sim, node, msg, msg->commit ? msg->commit : msg->zxid);
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

/* A committed configuration names the disks that count from now on. */
static void admit(struct sim *sim, const struct logrec *rec)
{
    struct zab_config config;

    if (zab_config_decode(logrec_payload(rec), &config) != ERR_OK) {
        sim_fail(sim, "A6", "the configuration %" PRIx64 " is malformed", rec->zxid);
    }
    for (uint32_t id = 1; id <= sim->knobs.voters; id++) {
        struct sim_node *node = &sim->nodes[id];

        if (node->emptied && zab_config_is_voter(&config, id, node->identity.incarnation)) {
            node->emptied = false;
            node->damaged = node->shadow.quarantined;
            sim->totals.admissions++;
        }
    }
}

static void commit_one(struct sim *sim, struct sim_rec *rec)
{
    rec->committed = true;
    if (rec->rec->type == LOGREC_CONFIG) {
        admit(sim, rec->rec);
    }
    if (sim->log_count == sim->log_cap) {
        sim->log_cap = sim->log_cap ? sim->log_cap * 2 : 1024;
        sim->log = mem_realloc(sim->log, sim->log_cap * sizeof(struct sim_rec *));
    }
    sim->log[sim->log_count++] = rec;
}

/* A leader says that everything up to `zxid` is committed. */
static void grow_log(struct sim *sim, struct sim_node *node, zxid_t zxid)
{
    struct sim_rec *rec = sim_rec_find(sim, zxid);
    zxid_t last = log_last(sim);
    size_t from = sim->log_count;

    if (!rec) {
        sim_fail(sim, "A6", "leader %u commits %" PRIx64 ", which nobody broadcast", node->id,
                 zxid);
    }
    if (!sim_log_holds(sim, zxid, last)) {
        sim_fail(sim, "A7", "leader %u commits %" PRIx64 " beside the committed %" PRIx64, node->id,
                 zxid, last);
    }
    if (!quorum_holds(sim, zxid)) {
        sim_fail(sim, "A5", "leader %u commits %" PRIx64 ", which no quorum has on disk", node->id,
                 zxid);
    }
    for (; rec && rec->rec->zxid > last; rec = rec->parent) {
        commit_one(sim, rec);
    }
    for (size_t low = from, high = sim->log_count; low + 1 < high; low++) {
        struct sim_rec *swap = sim->log[low];

        high--;
        sim->log[low] = sim->log[high];
        sim->log[high] = swap;
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
        sim_fail(sim, "A16", "node %u applied %" PRIx64 ", committed is %" PRIx64, node->id,
                 zab->delivered, zab->committed);
    }
    if (zab->delivered != 0 && (!rec || rec->rec->chain != zab->delivered_chain)) {
        sim_fail(sim, "A6", "node %u delivered another record %" PRIx64, node->id, zab->delivered);
    }
}

/* The leader of that epoch decides; it may have left its role in the same step. */
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
        sim_fail(sim, "A7", "node %u takes %" PRIx64 " for committed", node->id, zxid);
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
    sim_check_applied(sim, node);
    if (node->emptied && !node->voter && zab->serving && !zab->quarantined) {
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
    if (illegal_messages() != sim->illegal) {
        sim_fail(sim, "A26", "%" PRIu64 " messages of our own replicas were refused as illegal",
                 illegal_messages() - sim->illegal);
    }
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        struct sim_node *node = &sim->nodes[id];

        if (node->up && !node->damaged && !sim_log_holds(sim, node->shadow.last, log_last(sim))) {
            sim_fail(sim, "A13", "node %u ends without the committed %" PRIx64, id, log_last(sim));
        }
        sim_disk_verify(sim, node);
    }
}

void sim_check_init(struct sim *sim)
{
    sim->illegal = illegal_messages();
    map_init(&sim->recs);
    map_init(&sim->ests);
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
    mem_free(sim->log);
    mem_free(sim->applied);
}
