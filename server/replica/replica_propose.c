/* What the leader proposes: prepared requests, and transactions of its own when they are due. */
#include "server/op/change.h"
#include "server/replica/replica_int.h"

/* ---- Bytes that effects point to. ---- */

void replica_keep(struct replica *replica, struct blob *take_blob)
{
    MEM_GROW(replica->kept.items, replica->kept.count, replica->kept.cap, MEM_ITEMS_MAX);
    replica->kept.items[replica->kept.count++] = take_blob;
}

struct slice replica_keep_txn(struct replica *replica)
{
    struct blob *bytes = blob_new(buf_slice(&replica->txn));

    replica_keep(replica, bytes);
    return blob_slice(bytes);
}

void replica_release_kept(struct replica *replica)
{
    for (size_t i = 0; i < replica->kept.count; i++) {
        blob_unref(replica->kept.items[i]);
    }
    replica->kept.count = 0;
}

/* ---- Requests. ---- */

static enum err prepare(struct replica *replica, const struct prep_job *job, zxid_t zxid,
                        struct op_result *result)
{
    const struct state *state = view_read(replica->view);
    struct prep_job now = *job;

    if (!replica->status.quorum_low) {
        replica->leader.low_since = 0;
    } else if (replica->leader.low_since == 0) {
        replica->leader.low_since = zxid;
        replica->counts.low_periods++;
    }
    now.low_since = replica->leader.low_since;
    now.room = replica->heartbeats.room;
    buf_clear(&replica->txn);
    result->err = prep_request(replica->prep, state, &now, zxid, &replica->txn, result);
    view_read_done(replica->view);
    return result->err;
}

/* Proposes replica->txn with the zxid that zab_next_zxid has just returned: as a transaction or, if
 * it is of a change of the configuration, within that. */
static void propose(struct replica *replica, const struct op_args *args)
{
    struct wire_reader reader;
    struct txn_header header;
    enum err err = ERR_OK;

    if (args && lead_is_change(args->op)) {
        lead_propose_change(replica, args, buf_slice(&replica->txn));
    } else {
        err = zab_propose(replica->zab, buf_slice(&replica->txn), &replica->inner);
    }
    ASSERT(err == ERR_OK);
    err = txn_open(&reader, buf_slice(&replica->txn), &header);
    ASSERT(err == ERR_OK);
    replica->clock.stamp_ms = header.stamp_ms;
    replica->counts.proposals++;
}

/* Prepares and proposes the request as `*ret_zxid`. */
static enum lead_outcome run(struct replica *replica, const struct prep_job *job,
                             struct op_result *result, zxid_t *ret_zxid)
{
    enum err err = prepare(replica, job, *ret_zxid, result);

    if (err == ERR_DISK_FULL) {
        PROBE("replica.quorum_low");
        /* This refusal does not depend on proposals in flight, and must not wait for them: they may
         * be waiting for disk space themselves. A refusal waits for *ret_zxid - 1, which is now a
         * zxid that is delivered already. */
        *ret_zxid = replica->status.delivered + 1;
    }
    replica->counts.tree_refused += err == ERR_TREE_FULL ? 1 : 0;
    if (err != ERR_OK) {
        return LEAD_REFUSED;
    }
    if (replica->txn.len == 0) {
        ASSERT(result->replayed || result->has_change);
        PROBE("replica.replayed");
        return LEAD_ANSWERED;
    }
    propose(replica, job->args);
    return LEAD_PROPOSED;
}

static enum lead_outcome run_change(struct replica *replica, const struct prep_job *job,
                                    struct op_result *result, zxid_t *ret_zxid)
{
    struct prep_job judged = *job;
    struct prep_verdict verdict;

    if (!prep_is_super(job->who)) {
        return run(replica, job, result, ret_zxid); /* It is refused, and need not wait for that. */
    }
    buf_init(&verdict.answer, OP_CHANGE_BYTES_MAX);
    lead_judge(replica, job->args, *ret_zxid, &verdict);
    judged.verdict = &verdict;
    if (verdict.must_wait) {
        PROBE("replica.change_waits");
        buf_release(&verdict.answer);
        return LEAD_LATER;
    }
    enum lead_outcome outcome = run(replica, &judged, result, ret_zxid);

    if (verdict.must_hand_over && result->err == ERR_CHANGE_REFUSED) {
        outcome = lead_hand_over(replica, result);
    }
    buf_release(&verdict.answer);
    return outcome;
}

enum lead_outcome lead_prepare(struct replica *replica, const struct prep_job *job,
                               struct op_result *result, zxid_t *ret_zxid)
{
    *ret_zxid = zab_next_zxid(replica->zab);
    if (*ret_zxid == 0) {
        return LEAD_LATER;
    }
    return lead_is_change(job->args->op) ? run_change(replica, job, result, ret_zxid)
                                         : run(replica, job, result, ret_zxid);
}

enum lead_outcome lead_prepare_own(struct replica *replica, const struct op_args *args)
{
    struct txn_header header = {0};
    const struct prep_job job = {.args = args, .header = &header};
    struct op_result result;
    zxid_t zxid = 0;

    lead_times(replica, &header);
    op_result_init(&result);
    enum lead_outcome outcome = lead_prepare(replica, &job, &result, &zxid);

    op_result_release(&result);
    return outcome;
}

/* ---- TTL and container znodes that are due. ---- */

void lead_reap(struct replica *replica)
{
    struct buf paths;
    const struct state *state = replica_leads(replica) ? view_read(replica->view) : NULL;

    if (!state) {
        return;
    }
    buf_init(&paths, REAP_MAX * (size_t)(STATE_PATH_MAX + 2));
    size_t count = state_reap_candidates(state, times_age(replica), REAP_MAX, &paths);

    view_read_done(replica->view);
    struct wire_reader reader;

    wire_reader_init(&reader, buf_slice(&paths));
    for (size_t i = 0; i < count; i++) {
        struct op_args args = {.op = OP_REAP, .version = -1};

        args.path = wire_get_raw(&reader, wire_get_u16(&reader));
        /* The reaping of a znode that has changed meanwhile is refused, which is right. */
        (void)lead_prepare_own(replica, &args);
    }
    ASSERT(wire_reader_ok(&reader));
    buf_release(&paths);
}

/* ---- Remembered answers that may be forgotten. ---- */

/* Forgets some answers; false when nothing is due, or there is no room for another proposal. */
static bool forget_some(struct replica *replica)
{
    zxid_t zxid = zab_next_zxid(replica->zab);

    if (zxid == 0) {
        return false;
    }
    const struct state *state = view_read(replica->view);
    struct txn_header header = {0};

    lead_times(replica, &header);
    bool due = prep_forget(replica->prep, state, &header, zxid, &replica->txn);

    view_read_done(replica->view);
    if (due) {
        propose(replica, NULL);
    }
    return due;
}

/* Proposes several transactions at a time, to keep up with the answers that are remembered. */
void lead_forget(struct replica *replica)
{
    bool more = replica_leads(replica);

    for (int i = 0; i < FORGETS_MAX && more; i++) {
        more = forget_some(replica);
    }
}

/* ---- The age of an idle ensemble. ---- */

/* True when something in the state expires by age, and the age in the log is behind by at least
 * `idle_ms`. */
static bool is_age_due(const struct replica *replica, uint32_t idle_ms)
{
    int64_t idle = times_age(replica) - replica->clock.age.seen_ms;

    if (!replica_leads(replica) || replica->status.quorum_low || replica->aside.log_waits ||
        idle < (int64_t)idle_ms || MUTANT(56)) {
        return false;
    }
    const struct state *state = view_read(replica->view);
    bool due = state != NULL && state_counts_age(state, replica->clock.age.seen_ms);

    if (state) {
        view_read_done(replica->view);
    }
    return due;
}

/* Writes the age to the log, in a transaction without effects. Only heartbeats carry the age of an
 * idle ensemble, so without this transaction the idle time is lost when all replicas stop. */
zxid_t lead_keep_age(struct replica *replica, uint32_t idle_ms)
{
    struct txn_header header = {0};
    zxid_t zxid = zab_next_zxid(replica->zab);

    /* Nothing is written while a transaction is in flight, which carries an age as well. */
    if (zxid != replica->tree.applied + 1 || !is_age_due(replica, idle_ms)) {
        return 0;
    }
    PROBE("replica.age_kept");
    lead_times(replica, &header);
    buf_clear(&replica->txn);
    txn_begin(&replica->txn, &header);
    propose(replica, NULL);
    return zxid;
}

/* Writes the age when the ensemble was idle. A new leader writes the age early: otherwise an
 * ensemble that is restarted again and again within keep_age_ms would never grow older. */
void lead_keep_age_idle(struct replica *replica)
{
    const struct age *age = &replica->clock.age;
    uint32_t idle_ms = replica->options.keep_age_ms;
    bool first = age->seen_ms <= age->base_ms; /* Nothing was proposed since this replica leads. */

    if (first && idle_ms > KEEP_FIRST_MS) {
        idle_ms = KEEP_FIRST_MS;
    }
    (void)lead_keep_age(replica, idle_ms);
}
