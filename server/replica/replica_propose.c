/* What the leader proposes: prepared requests, and transactions of its own when they are due. */
#include "server/replica/replica_int.h"

/* ---- Bytes that effects point to. ---- */

void replica_keep(struct replica *replica, struct blob *take_blob)
{
    if (replica->kept_count == replica->kept_cap) {
        replica->kept_cap = replica->kept_cap ? replica->kept_cap * 2 : 16;
        replica->kept = mem_realloc(replica->kept, replica->kept_cap * sizeof(struct blob *));
    }
    replica->kept[replica->kept_count++] = take_blob;
}

void replica_release_kept(struct replica *replica)
{
    for (size_t i = 0; i < replica->kept_count; i++) {
        blob_unref(replica->kept[i]);
    }
    replica->kept_count = 0;
}

/* ---- Requests. ---- */

/* Only the core thread writes the tree, so it may read it without the lock. */
static enum err prepare(struct replica *replica, const struct prep_job *job, zxid_t zxid,
                        struct op_result *result)
{
    const struct state *state = view_read(replica->view);
    struct prep_job now = *job;

    ASSERT(state);
    if (!replica->status.quorum_low) {
        replica->low_since = 0;
    } else if (replica->low_since == 0) {
        replica->low_since = zxid;
        replica->low_periods++;
    }
    now.low_since = replica->low_since;
    now.room = replica->room;
    buf_clear(&replica->txn);
    result->err = prep_request(replica->prep, state, &now, zxid, &replica->txn, result);
    view_read_done(replica->view);
    return result->err;
}

enum lead_outcome lead_prepare(struct replica *replica, const struct prep_job *job,
                               struct op_result *result, zxid_t *ret_zxid)
{
    zxid_t zxid = zab_next_zxid(replica->zab);

    if (zxid == 0) {
        return LEAD_LATER;
    }
    *ret_zxid = zxid;
    enum err err = prepare(replica, job, zxid, result);

    if (err == ERR_DISK_FULL) {
        PROBE("replica.quorum_low");
        /* It rests on no proposal, and those in flight may wait for space. */
        *ret_zxid = replica->status.delivered + 1;
    }
    replica->tree_refused += err == ERR_TREE_FULL ? 1 : 0;
    if (err != ERR_OK) {
        return LEAD_REFUSED;
    }
    if (replica->txn.len == 0) {
        ASSERT(result->replayed);
        PROBE("replica.replayed");
        return LEAD_REPLAYED;
    }
    err = zab_propose(replica->zab, buf_slice(&replica->txn), &replica->inner);
    ASSERT(err == ERR_OK);
    replica->proposals++;
    return LEAD_PROPOSED;
}

/* ---- Znodes whose time has come. ---- */

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
        struct txn_header header = {0};
        struct op_result result;
        zxid_t zxid = 0;

        lead_times(replica, &header);
        args.path = wire_get_raw(&reader, wire_get_u16(&reader));
        op_result_init(&result);
        /* One that was changed meanwhile is refused, and that is all. */
        (void)lead_prepare(replica, &(struct prep_job){.args = &args, .header = &header}, &result,
                           &zxid);
        op_result_release(&result);
    }
    ASSERT(wire_reader_ok(&reader));
    buf_release(&paths);
}

/* ---- Remembered answers whose time is over. ---- */

/* False when nothing is due, or there is no room for another proposal. */
static bool forget_some(struct replica *replica)
{
    zxid_t zxid = zab_next_zxid(replica->zab);

    if (zxid == 0) {
        return false;
    }
    const struct state *state = view_read(replica->view);
    struct txn_header header = {0};

    ASSERT(state);
    lead_times(replica, &header);
    bool due = prep_forget(replica->prep, state, &header, zxid, &replica->txn);

    view_read_done(replica->view);
    if (due) {
        enum err err = zab_propose(replica->zab, buf_slice(&replica->txn), &replica->inner);

        ASSERT(err == ERR_OK);
        replica->proposals++;
    }
    return due;
}

/* Several transactions at a time: as many answers are to be forgotten as are remembered. */
void lead_forget(struct replica *replica)
{
    bool more = replica_leads(replica);

    for (int i = 0; i < FORGETS_MAX && more; i++) {
        more = forget_some(replica);
    }
}

/* ---- The age of an idle ensemble. ---- */

/* Something waits for the age, and it is so much older than the newest transaction says. */
static bool is_age_due(const struct replica *replica, uint32_t idle_ms)
{
    int64_t idle = times_age(replica) - replica->age.seen_ms;

    if (!replica_leads(replica) || replica->status.quorum_low || replica->aside ||
        idle < (int64_t)idle_ms || MUTANT(56)) {
        return false;
    }
    const struct state *state = view_read(replica->view);
    bool due = state != NULL && state_counts_age(state, replica->age.seen_ms);

    if (state) {
        view_read_done(replica->view);
    }
    return due;
}

/* Idle time is known from heartbeats alone, and lost when all replicas end: so a transaction
 * without effects keeps it. Where nothing waits for the age, nothing is written. */
zxid_t lead_keep_age(struct replica *replica, uint32_t idle_ms)
{
    struct txn_header header = {0};
    zxid_t zxid = zab_next_zxid(replica->zab);

    /* What is on its way carries an age as well. */
    if (zxid != replica->applied + 1 || !is_age_due(replica, idle_ms)) {
        return 0;
    }
    PROBE("replica.age_kept");
    lead_times(replica, &header);
    buf_clear(&replica->txn);
    txn_begin(&replica->txn, &header);
    enum err err = zab_propose(replica->zab, buf_slice(&replica->txn), &replica->inner);

    ASSERT(err == ERR_OK);
    replica->proposals++;
    return zxid;
}

/* Also an ensemble that is up for less than that, again and again, must get older. */
void lead_keep_age_idle(struct replica *replica)
{
    const struct age *age = &replica->age;
    uint32_t idle_ms = replica->options.keep_age_ms;
    bool first = age->seen_ms <= age->base_ms; /* Since it leads. */

    if (first && idle_ms > KEEP_FIRST_MS) {
        idle_ms = KEEP_FIRST_MS;
    }
    (void)lead_keep_age(replica, idle_ms);
}
