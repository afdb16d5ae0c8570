#include "base/mem.h"
#include "tests/sim/sim_check_int.h"
#include "tests/sim/sim_failing.h"
#include "tests/sim/sim_member.h"
#include "tests/sim/sim_quorum.h"
#include "tests/sim/sim_release.h"

#include <inttypes.h>

/*
 * Changes that a replica orders from its disk, changes that the disk has confirmed, and the logs
 * that a restart may find. The shadow of a node is its disk as far as the store has confirmed it;
 * the issues are the changes on their way.
 */

static const char *node_text(const struct sim_node *node, char *out, size_t size)
{
    (void)snprintf(out, size, "node %u (life %u)", node->id, node->life);
    return out;
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

/* Records that only the old log holds must not be committed. */
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

/* The record or zxid that a change concerns. */
static zxid_t zxid_of(const struct zab_persist *change)
{
    switch ((int)change->type) {
    case ZAB_PERSIST_APPEND:
        return change->append.rec->zxid;
    case ZAB_PERSIST_TRUNCATE:
        return change->truncate.zxid;
    default:
        return 0;
    }
}

static void remember(struct sim_node *node, const struct zab_persist *change)
{
    bool is_append = change->type == ZAB_PERSIST_APPEND;
    bool is_promise = change->type == ZAB_PERSIST_PROMISE;

    if (node->issue_count == node->issue_cap) {
        node->issue_cap = node->issue_cap ? node->issue_cap * 2 : 64;
        node->issues = mem_realloc(node->issues, node->issue_cap * sizeof(*node->issues));
    }
    node->issues[node->issue_count++] =
        (struct sim_issue){.token = change->token,
                           .type = change->type,
                           .staged = node->staging,
                           .zxid = zxid_of(change),
                           .committed = is_append ? change->append.committed : 0,
                           .epoch = is_promise ? change->promise.epoch : 0,
                           .leader = is_promise ? change->promise.leader : 0};
}

void sim_check_persist(struct sim *sim, struct sim_node *node, const struct zab_persist *change)
{
    SIM_TRACE(sim, "persist %u: type %d token %" PRIu64 " zxid %" PRIx64, node->id,
              (int)change->type, change->token, zxid_of(change));
    switch (change->type) {
    case ZAB_PERSIST_APPEND:
        sim_check_append(sim, node, change->append.rec);
        break;
    case ZAB_PERSIST_TRUNCATE:
        check_truncate(sim, node, change->truncate.zxid);
        break;
    case ZAB_PERSIST_RESET:
        if (!node->damaged && node->appended != 0) {
            sim_fail(sim, "A13", "node %u discards its log without cause", node->id);
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
        if (sim_disk_counts(node)) {
            sim_fail(sim, "A18", "node %u is quarantined without cause: %s", node->id,
                     change->quarantine.reason);
        }
        node->damaged = true; /* The log is sound, but the replica no longer trusts it. */
        node->rotten = false; /* Its refill replaces all files. */
        sim_disk_harmed(node);
        sim->totals.quarantines++;
        break;
    case ZAB_PERSIST_JOIN:
        sim_member_persists(sim, node, change->join.config);
        sim_release_made(sim, change->join.config->level);
        sim_release_check(sim, node, change->join.config);
        break;
    case ZAB_PERSIST_PROMISE:
    case ZAB_PERSIST_RELEASE:
    case ZAB_PERSIST_SNAP_CHUNK:
        break;
    }
    remember(node, change);
}

static void check_promise(struct sim *sim, struct sim_node *node, const struct sim_issue *issue)
{
    if (issue->epoch < node->shadow.promised_epoch) {
        sim_fail(sim, "A2", "node %u promises epoch %u after %u", node->id, issue->epoch,
                 node->shadow.promised_epoch);
    }
    node->shadow.promised_epoch = issue->epoch;
    node->shadow.promised_leader = issue->leader;
    sim_quorum_promised(sim, node, issue->epoch, issue->leader);
}

/* The node's log may have become shorter; what is committed stays on a majority. */
static void check_majority(struct sim *sim, const struct sim_node *node)
{
    if (!sim_quorum_holds(sim, sim_log_last(sim))) {
        sim_quorum_trace(sim, sim_log_last(sim));
        sim_fail(sim, "A13",
                 "after node %u changed its log no majority of the configuration %" PRIx64
                 " holds the committed %" PRIx64,
                 node->id, sim->config.version, sim_log_last(sim));
    }
}

/* One change is durable now. */
static void settle(struct sim *sim, struct sim_node *node, const struct sim_issue *issue,
                   const struct zab_ev_persisted *done)
{
    struct sim_shadow *shadow = &node->shadow;
    bool cut = false;

    switch (issue->type) {
    case ZAB_PERSIST_APPEND:
        if (!issue->staged) {
            shadow->last = issue->zxid;
            shadow->committed = issue->committed;
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
        node->harm.is = false;
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
    if (cut) {
        check_majority(sim, node);
    }
}

void sim_check_done(struct sim *sim, struct sim_node *node, const struct zab_ev_persisted *done)
{
    size_t count = 0;

    if (done->err == ERR_CORRUPT && sim->knobs.rot_ms == 0 && sim->knobs.decay_ms == 0 &&
        !sim->options.scenario) {
        sim_fail(sim, "A26",
                 "node %u: a received snapshot does not verify, although no disk was harmed",
                 node->id);
    }

    sim->bad_installs += done->err == ERR_CORRUPT;
    while (count < node->issue_count && node->issues[count].token <= done->token) {
        settle(sim, node, &node->issues[count], done);
        count++;
    }
    if (count == 0) {
        sim_fail(sim, "host", "node %u: no change was pending for token %" PRIu64, node->id,
                 done->token);
    }
    node->issue_count -= count;
    memmove(node->issues, node->issues + count, node->issue_count * sizeof(*node->issues));
}

/* ---- Restart. ---- */

/* The log on the disk must be the durable log plus any prefix of the changes on their way. */
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

bool sim_disk_is_quarantined(const struct sim_node *node)
{
    bool is = node->shadow.quarantined;

    for (size_t i = 0; i < node->issue_count; i++) {
        if (node->issues[i].type == ZAB_PERSIST_QUARANTINE) {
            is = true;
        } else if (node->issues[i].type == ZAB_PERSIST_RELEASE) {
            is = false;
        }
    }
    return is;
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
        sim_fail(sim, "A18", "%s finds a log up to %" PRIx64 ", but %" PRIx64 " was durable",
                 node_text(node, text, sizeof(text)), init->log_last, node->shadow.last);
    }
    if (init->log_last != 0 && (!rec || rec->rec->chain != init->log_chain)) {
        sim_fail(sim, "A18", "%s finds a different record %" PRIx64,
                 node_text(node, text, sizeof(text)), init->log_last);
    }
    if (init->committed != 0 && (!committed || !committed->committed)) {
        sim_fail(sim, "A18", "%s treats %" PRIx64 " as committed",
                 node_text(node, text, sizeof(text)), init->committed);
    }
    if (!promise_explained(node, init->promised_epoch)) {
        sim_fail(sim, "A2", "%s finds the promise %u, but %u was durable",
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
        sim_fail(sim, "A18", "%s is quarantined, although its disk was not harmed",
                 node_text(node, text, sizeof(text)));
    }
    if (!init->quarantined && !node->rolled_back) {
        node->harm.is = false; /* The harm was in a place that does not matter. */
    }
    if (!init->quarantined && !node->emptied && !node->rolled_back) {
        check_found(sim, node, init);
        node->damaged = false; /* The harm was in a place that does not matter. */
    }
    node->rolled_back = false; /* It stays harmed until its replica detects that and refills it. */
    node->issue_count = 0;
    node->staging = false;
    node->appended = init->log_last;
    node->shadow = (struct sim_shadow){.last = init->log_last,
                                       .committed = init->committed,
                                       .promised_epoch = init->promised_epoch,
                                       .promised_leader = init->promised_leader,
                                       .quarantined = init->quarantined};
    sim_quorum_promised(sim, node, init->promised_epoch, init->promised_leader);
    check_majority(sim, node);
    sim_check_applied(sim, node);
}
