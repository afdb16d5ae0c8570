/* The leader's work: preparing requests of all replicas, and refusing those that cannot be done. */
#include "server/replica/replica_int.h"

/* ---- Preparing. ---- */

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

/* ---- Learners' requests. ---- */

static void verdict_free(struct replica *replica, struct verdict *verdict)
{
    (void)map_remove_u64(&replica->verdict_by_token, verdict->token);
    list_remove(&verdict->node);
    blob_unref(verdict->bytes);
    mem_free(verdict);
}

/* An error is as linearizable as a success: it leaves after a quorum round started now, and names
 * the last proposal that it rests on. An answer that was remembered leaves likewise, and names what
 * it named then: that has been applied here, and the asker waits for it. */
static void answer_forward(struct replica *replica, const struct forward *forward,
                           struct op_result *result, zxid_t rests_on)
{
    struct verdict *verdict = mem_zalloc(1, sizeof *verdict);

    result->zxid = result->replayed ? result->zxid : rests_on;
    verdict->token = ++replica->request_seq;
    verdict->peer = forward->peer;
    verdict->dialogue = forward->dialogue;
    verdict->request = forward->request;
    buf_clear(&replica->txn);
    op_result_encode(result, &replica->txn);
    verdict->bytes = blob_new(buf_slice(&replica->txn));
    list_push_back(&replica->verdicts, &verdict->node);
    (void)map_put_u64(&replica->verdict_by_token, verdict->token, verdict);
    if (zab_confirm(replica->zab, verdict->token, &replica->inner) != ERR_OK) {
        verdict_free(replica, verdict); /* Too many rounds wait: the asker's deadline answers. */
    }
}

bool lead_confirmed(struct replica *replica, uint64_t token, zxid_t zxid)
{
    struct verdict *verdict = map_get_u64(&replica->verdict_by_token, token);

    (void)zxid;
    if (!verdict) {
        return false;
    }
    zab_refuse(replica->zab, verdict->peer, verdict->dialogue, verdict->request,
               blob_slice(verdict->bytes), &replica->inner);
    replica_keep(replica, blob_ref(verdict->bytes));
    verdict_free(replica, verdict);
    return true;
}

/* Returns false when it must wait for room in the pipeline. */
static bool handle_forward(struct replica *replica, const struct forward *forward)
{
    struct forwarded forwarded;
    struct op_result result;
    zxid_t zxid = 0;
    enum lead_outcome outcome = LEAD_REFUSED;

    op_result_init(&result);
    if (forward_decode(forward->bytes, &forwarded)) {
        forwarded.header.origin_member = forward->peer;
        forwarded.header.request = forward->request;
        lead_times(replica, &forwarded.header);
        outcome = lead_prepare(replica, &forwarded.job, &result, &zxid);
        forwarded_release(&forwarded);
    } else {
        result.err = ERR_FORMAT;
        zxid = replica->status.last + 1;
    }
    if (outcome == LEAD_REFUSED || outcome == LEAD_REPLAYED) {
        answer_forward(replica, forward, &result, zxid - 1);
    }
    op_result_release(&result);
    return outcome != LEAD_LATER;
}

static struct forward_share *share_of(struct replica *replica, uint32_t peer)
{
    for (uint32_t i = 0; i < replica->share_count; i++) {
        if (replica->shares[i].peer == peer) {
            return &replica->shares[i];
        }
    }
    ASSERT(replica->share_count < ZAB_MEMBERS_MAX);
    replica->shares[replica->share_count] = (struct forward_share){.peer = peer};
    return &replica->shares[replica->share_count++];
}

static uint64_t cost_of(const struct forward *forward)
{
    return FORWARD_COST + forward->bytes.len;
}

static bool has_room(struct replica *replica, const struct forward *forward)
{
    uint64_t cost = cost_of(forward);

    return replica->forward_count < FORWARDS_MAX &&
           replica->forward_bytes + cost <= replica->options.forward_bytes_max &&
           share_of(replica, forward->peer)->bytes + cost <=
               replica->options.forward_peer_bytes_max;
}

/* Certainly not done, and resting on nothing: no round is needed to say so. */
static void throttle(struct replica *replica, const struct forward *forward)
{
    struct op_result result;

    PROBE("replica.forwards_full");
    op_result_init(&result);
    result.err = ERR_THROTTLED;
    result.detail = "too many writes of this replica wait in the leader";
    buf_clear(&replica->txn);
    op_result_encode(&result, &replica->txn);
    struct blob *bytes = blob_new(buf_slice(&replica->txn));

    zab_refuse(replica->zab, forward->peer, forward->dialogue, forward->request, blob_slice(bytes),
               &replica->inner);
    replica_keep(replica, bytes);
    op_result_release(&result);
}

static void forward_keep(struct replica *replica, const struct forward *forward)
{
    if (!has_room(replica, forward)) {
        throttle(replica, forward);
        return;
    }
    PROBE("replica.forward_waits");
    struct forward *kept = mem_zalloc(1, sizeof *kept);

    *kept = *forward;
    kept->bytes = slice_make(mem_dup(forward->bytes.data, forward->bytes.len), forward->bytes.len);
    list_push_back(&replica->forwards, &kept->node);
    replica->forward_count++;
    replica->forward_bytes += cost_of(kept);
    share_of(replica, kept->peer)->bytes += cost_of(kept);
}

static void forward_free(struct replica *replica, struct forward *forward)
{
    struct forward_share *share = share_of(replica, forward->peer);

    union {
        const uint8_t *kept;
        void *owned;
    } bytes = {.kept = forward->bytes.data};

    ASSERT(replica->forward_count > 0);
    ASSERT(share->bytes >= cost_of(forward) && replica->forward_bytes >= share->bytes);
    list_remove(&forward->node);
    replica->forward_count--;
    replica->forward_bytes -= cost_of(forward);
    share->bytes -= cost_of(forward);
    mem_free(bytes.owned);
    mem_free(forward);
}

void lead_forwarded(struct replica *replica, const struct zab_forwarded *forwarded)
{
    struct forward forward = {
        .peer = forwarded->peer,
        .dialogue = forwarded->dialogue,
        .request = forwarded->request,
        .bytes = forwarded->bytes,
    };

    if (forwarded->request == REPORT_NUMBER) {
        sessions_reported(replica, forwarded->peer, forwarded->bytes);
        return;
    }
    /* Not before the step that serves is over: deliveries of the initial history may still stand
     * behind this effect, and preparing against a tree without them would be wrong. */
    if (!replica_leads(replica) || !list_empty(&replica->forwards) ||
        !handle_forward(replica, &forward)) {
        forward_keep(replica, &forward);
    }
}

void lead_run_forwards(struct replica *replica)
{
    while (!list_empty(&replica->forwards) && replica_leads(replica)) {
        struct forward *forward = list_first(&replica->forwards, struct forward, node);

        /* Its asker has been told that the outcome is unknown, or is another process by now. */
        if (!zab_is_dialogue(replica->zab, forward->peer, forward->dialogue)) {
            PROBE("replica.forward_outlived_its_link");
        } else if (!handle_forward(replica, forward)) {
            return;
        }
        forward_free(replica, forward);
    }
}

/* Whatever was under way for others ends with the role; they ask the next leader. */
void lead_clear(struct replica *replica)
{
    list_for_each_safe (it, tmp, &replica->verdicts) {
        verdict_free(replica, list_entry(it, struct verdict, node));
    }
    list_for_each_safe (it, tmp, &replica->forwards) {
        forward_free(replica, list_entry(it, struct forward, node));
    }
    ASSERT(replica->forward_count == 0 && replica->forward_bytes == 0);
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
