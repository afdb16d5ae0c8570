/* The life of a request of this replica's own clients, from arrival to its one answer. */
#include "server/replica/replica_int.h"

static struct op_request *request_by_id(struct replica *replica, uint64_t id)
{
    return map_get_u64(&replica->requests.by_id, id);
}

static bool is_write(const struct op_request *request)
{
    return op_args_kind(&request->args) == OP_KIND_WRITE; /* A multi may be a read. */
}

static void set_stage(struct replica *replica, struct op_request *request, enum request_stage to)
{
    enum request_stage from = (enum request_stage)request->stage;

    replica->requests.queued -= from == REQUEST_QUEUED ? 1 : 0;
    replica->requests.waiting -= from == REQUEST_WAITING ? 1 : 0;
    replica->requests.forwarded_bytes -= from == REQUEST_FORWARDED ? request->wait_bytes : 0;
    replica->requests.forwarded_bytes += to == REQUEST_FORWARDED ? request->wait_bytes : 0;
    replica->requests.queued += to == REQUEST_QUEUED ? 1 : 0;
    replica->requests.waiting += to == REQUEST_WAITING ? 1 : 0;
    request->stage = to;
    if (to == REQUEST_WAITING && request->wait_zxid < replica->requests.waiting_min) {
        replica->requests.waiting_min = request->wait_zxid;
    }
}

/* Fills the times of a write whose record has `zxid`. A point that is not noted yet is reached in
 * this step if the record is delivered; else the write still waits for it. */
static void note_progress(struct replica *replica, struct op_request *request, zxid_t zxid,
                          bool delivered)
{
    uint64_t now_ms = delivered ? replica->now_ms : 0;
    uint64_t synced_ms = progress_when(&replica->progress.durable, zxid);
    uint64_t quorum_ms = progress_when(&replica->progress.committed, zxid);
    struct op_times *times = &request->times;

    if (times->prepared_ms == 0) { /* Another replica, the leader, has prepared the write. */
        uint64_t logged_ms = progress_when(&replica->progress.logged, zxid);

        times->prepared_ms = logged_ms ? logged_ms : now_ms;
    }
    times->synced_ms = synced_ms ? synced_ms : now_ms;
    times->quorum_ms = quorum_ms ? quorum_ms : now_ms;
}

/* Hands the answered request back to its front end. */
static void finish(struct replica *replica, struct op_request *request)
{
    if (request->stage == REQUEST_PROPOSED) { /* The answer is that the outcome is unknown. */
        note_progress(replica, request, request->wait_zxid, false);
    }
    request->times.answered_ms = replica_clock_ms(replica);
    set_stage(replica, request, 0);
    (void)map_remove_u64(&replica->requests.by_id, request->id);
    list_remove(&request->node);
    fifo_leave(replica, request);
    ASSERT(replica->requests.count > 0);
    replica->requests.count--;
    if (request->result.zxid == 0) {
        request->result.zxid = replica->tree.applied;
    }
    request->on_reply(request);
}

void request_reply(struct replica *replica, struct op_request *request, enum err err,
                   const char *detail)
{
    if (err == ERR_OUTCOME_UNKNOWN) {
        fifo_note_done(replica, request);
    }
    request->result.err = err;
    request->result.detail = detail;
    finish(replica, request);
}

/* Whether the leader has answered without a transaction: a refusal, the remembered result of an
 * earlier write with the same key, or that of a dry run. */
static bool is_deferred_reply(const struct op_request *request)
{
    return request->result.err != ERR_OK || request->result.replayed || request->result.has_change;
}

/* Whether the zxid is applied. While the log has not reached the end of a fuzzy snapshot, the state
 * is not that of any zxid. */
static bool is_applied(const struct replica *replica, zxid_t zxid)
{
    return zxid <= replica->tree.applied && replica->tree.applied >= replica->tree.fuzzy_end;
}

/* Answers the request, unless earlier writes of its FIFO hold it back. */
static void settle(struct replica *replica, struct op_request *request)
{
    if (fifo_blocks(replica, request)) {
        PROBE("replica.read_behind_a_write");
        set_stage(replica, request, REQUEST_BLOCKED);
        fifo_hold(replica, request);
    } else {
        finish(replica, request);
    }
}

/* Returns the error for a request whose answer does not arrive by its deadline. A replayed write
 * was done earlier, and the error must not deny that. */
static enum err late_error(const struct op_request *request, const char **ret_detail)
{
    if (request->result.replayed) {
        *ret_detail = "an earlier request with this key was applied, but no quorum has confirmed "
                      "its answer in time";
        return ERR_OUTCOME_UNKNOWN;
    }
    switch ((enum request_stage)request->stage) {
    case REQUEST_FORWARDED:
    case REQUEST_PROPOSED:
        *ret_detail = "no quorum has acknowledged the write in time";
        return ERR_OUTCOME_UNKNOWN;
    case REQUEST_WAITING:
        *ret_detail = "this replica has not applied the requested zxid in time";
        return ERR_REPLICA_BEHIND;
    case REQUEST_BLOCKED:
        *ret_detail = "an earlier write on the same connection was not answered in time";
        return ERR_NOT_READY;
    case REQUEST_QUEUED:
    case REQUEST_CONFIRMING:
        break;
    }
    *ret_detail = "no leader with a quorum could be reached in time";
    return ERR_NOT_READY;
}

/* Whether the request ends because the replica stands aside. */
static bool is_aside(const struct replica *replica, const struct op_request *request)
{
    bool is_queued_write = request->stage == REQUEST_QUEUED && is_write(request);

    return replica->aside.log_waits || (replica->aside.why && is_queued_write);
}

static void give_up(struct replica *replica, struct op_request *request)
{
    const char *detail = NULL;
    enum err err = late_error(request, &detail);

    if (is_aside(replica, request)) {
        detail = replica->aside.why;
    }
    op_result_release(&request->result);
    request_reply(replica, request, err, detail);
}

/* Answers the request once this replica has applied `zxid`, so that a client never reads an older
 * state here after it has the answer. */
static void wait_for(struct replica *replica, struct op_request *request, zxid_t zxid)
{
    request->wait_zxid = zxid;
    if (is_applied(replica, zxid)) {
        settle(replica, request);
        return;
    }
    set_stage(replica, request, REQUEST_WAITING);
    if (replica->aside.log_waits) {
        give_up(replica, request);
    }
}

/* Queues the request again: no quorum round has confirmed it. Drops a deferred reply to it. */
static void queue_again(struct replica *replica, struct op_request *request)
{
    op_result_release(&request->result);
    request->times = (struct op_times){.sent_ms = 0};
    set_stage(replica, request, REQUEST_QUEUED);
}

/* ---- Dispatch. ---- */

static void dispatch_round(struct replica *replica, struct op_request *request)
{
    /* Set the stage first: with one voter the round ends within the call. */
    set_stage(replica, request, REQUEST_CONFIRMING);
    if (zab_confirm(replica->zab, request->id, &replica->inner) != ERR_OK) {
        queue_again(replica, request);
    }
}

static void dispatch_read(struct replica *replica, struct op_request *request)
{
    request->times.sent_ms = replica->now_ms;
    if (request->def->kind == OP_KIND_SYNC || request->consistency == OP_LINEARIZABLE) {
        request->wait_zxid = request->min_zxid;
        dispatch_round(replica, request);
    } else {
        wait_for(replica, request, request->min_zxid);
    }
}

static void dispatch_lead(struct replica *replica, struct op_request *request)
{
    zxid_t zxid = 0;
    struct txn_header header = {
        .origin_member = replica->options.zab.id,
        .origin_boot = replica->options.boot,
        .request = request->id,
    };
    struct prep_job job = {
        .args = &request->args,
        .who = &request->principal,
        .session = &request->session,
        .key = request->key,
        .header = &header,
    };

    lead_times(replica, &header);
    request->times.sent_ms = replica_clock_ms(replica);
    enum lead_outcome outcome = lead_prepare(replica, &job, &request->result, &zxid);

    request->times.prepared_ms = replica_clock_ms(replica);
    switch (outcome) {
    case LEAD_PROPOSED:
        request->wait_zxid = zxid;
        request->wait_epoch = zxid_epoch(zxid);
        set_stage(replica, request, REQUEST_PROPOSED);
        break;
    case LEAD_REFUSED:
    case LEAD_ANSWERED:
        request->wait_zxid = zxid - 1;
        dispatch_round(replica, request);
        break;
    case LEAD_LATER:
        request->times = (struct op_times){.sent_ms = 0};
        set_stage(replica, request, REQUEST_QUEUED);
        break;
    }
}

/* Whether this request fits the connection's queue and this replica's share of the leader's memory,
 * together with the requests that were sent to the leader and are not answered. One request alone
 * always fits. */
static bool may_forward(const struct replica *replica, const struct op_request *request)
{
    return replica->requests.forwarded_bytes == 0 ||
           replica->requests.forwarded_bytes + request->wait_bytes <=
               replica->options.forward_out_bytes_max;
}

static void dispatch_forward(struct replica *replica, struct op_request *request)
{
    if (!may_forward(replica, request)) {
        set_stage(replica, request, REQUEST_QUEUED);
        return;
    }
    buf_clear(&replica->txn);
    forward_encode(replica->options.boot, request, &replica->txn);
    request->wait_bytes = replica->txn.len + FORWARD_COST;
    if (!may_forward(replica, request)) {
        PROBE("replica.forward_held_back");
        set_stage(replica, request, REQUEST_QUEUED);
        return;
    }
    if (zab_forward(replica->zab, request->id, replica_keep_txn(replica), &replica->inner) ==
        ERR_OK) {
        request->wait_epoch = replica->status.epoch;
        request->times.sent_ms = replica_clock_ms(replica);
        set_stage(replica, request, REQUEST_FORWARDED);
    } else {
        set_stage(replica, request, REQUEST_QUEUED);
    }
}

static void dispatch_now(struct replica *replica, struct op_request *request)
{
    if (!is_write(request)) {
        dispatch_read(replica, request);
    } else if (replica->status.state == ZAB_LEADING) {
        dispatch_lead(replica, request);
    } else {
        dispatch_forward(replica, request);
    }
}

void request_dispatch(struct replica *replica, struct op_request *request)
{
    if (atomic_load(&request->abandoned)) {
        request_reply(replica, request, ERR_NOT_READY, "the client has gone");
    } else if (is_write(request) && replica->aside.why) {
        request_reply(replica, request, ERR_NOT_READY, replica->aside.why);
    } else if (is_write(request) && (!replica->status.serving || replica->requests.queued > 0)) {
        set_stage(replica, request, REQUEST_QUEUED); /* Behind the requests that came before. */
    } else {
        dispatch_now(replica, request);
    }
}

/* Dispatches requests that wait for a leader or for room, in order of arrival. */
void requests_run_queue(struct replica *replica)
{
    if (replica->requests.queued == 0 || !replica->status.serving) {
        return;
    }
    list_for_each_entry_safe (struct op_request, request, tmp, node, &replica->requests.all) {
        if (request->stage != REQUEST_QUEUED) {
            continue;
        }
        if (atomic_load(&request->abandoned) || (is_write(request) && replica->aside.why)) {
            give_up(replica, request);
            continue;
        }
        set_stage(replica, request, 0);
        if (is_write(request) && fifo_is_overtaken(replica, request)) {
            request_reply(replica, request, ERR_NOT_READY,
                          "the previous leader refused this write, and a later write on the same "
                          "connection may have been applied");
            continue;
        }
        dispatch_now(replica, request);
        if (request->stage == REQUEST_QUEUED) {
            return;
        }
    }
}

/* ---- Progress. ---- */

void requests_applied(struct replica *replica)
{
    if (replica->requests.waiting == 0 || replica->tree.applied < replica->requests.waiting_min) {
        return;
    }
    replica->requests.waiting_min = UINT64_MAX;
    list_for_each_entry_safe (struct op_request, request, tmp, node, &replica->requests.all) {
        if (request->stage != REQUEST_WAITING) {
            continue;
        }
        if (is_applied(replica, request->wait_zxid)) {
            settle(replica, request);
        } else if (request->wait_zxid < replica->requests.waiting_min) {
            replica->requests.waiting_min = request->wait_zxid;
        }
    }
}

void requests_unblocked(struct replica *replica)
{
    list_take_each (struct op_request, request, fifo_node, &replica->requests.unblocked) {
        wait_for(replica, request, request->wait_zxid);
    }
}

void requests_confirmed(struct replica *replica, uint64_t token, zxid_t zxid)
{
    struct op_request *request = request_by_id(replica, token);

    if (!request || request->stage != REQUEST_CONFIRMING) {
        return;
    }
    zxid_t wait = max_u64(zxid, request->wait_zxid);

    request->times.quorum_ms = replica->now_ms;
    /* A refusal rests on proposals that may not be committed yet, so the answer names the last of
     * them. A replayed answer keeps the zxid of the original write. */
    if (!request->result.replayed) {
        request->result.zxid = is_deferred_reply(request) ? request->wait_zxid : 0;
    }
    wait_for(replica, request, wait);
}

void requests_refused(struct replica *replica, uint64_t token, struct slice bytes)
{
    struct op_request *request = request_by_id(replica, token);

    if (!request || request->stage != REQUEST_FORWARDED) {
        return;
    }
    op_result_release(&request->result);
    if (op_result_decode(bytes, &request->result) != ERR_OK) {
        request_reply(replica, request, ERR_SYSTEM_ERROR, "the leader's answer is malformed");
        return;
    }
    if (request->result.err == ERR_FORMAT) {
        request->result.err = ERR_UNIMPLEMENTED;
        request->result.detail =
            "the release of the leader does not know this request: upgrade that replica first";
    }
    request->times.quorum_ms = replica->now_ms; /* The leader has had a quorum round. */
    wait_for(replica, request, request->result.zxid);
}

static void fill_znode(struct op_result *result, const struct state_change *change)
{
    result->path = change->path;
    result->stat = change->stat;
    result->has_stat = change->type != TXN_DELETE && change->type != TXN_CHECK;
    if (buf_append_slice(&result->arena, result->path)) {
        result->path = buf_slice(&result->arena);
    }
}

static void fill_result(struct op_result *result, const struct state *state,
                        const struct state_change *change)
{
    result->err = ERR_OK;
    switch (change->type) {
    case TXN_CREATE:
    case TXN_SET:
    case TXN_DELETE:
    case TXN_CHECK:
    case TXN_SET_ACL:
        fill_znode(result, change);
        break;
    case TXN_SESSION_OPEN:
    case TXN_SESSION_MOVE:
        view_fill_session(state_session(state, change->session), &result->session);
        result->has_session = true;
        break;
    case TXN_ANSWER:
        result->has_change = true;
        result->change = blob_ref(change->data);
        break;
    case TXN_SESSION_CLOSE:
    case TXN_REMEMBER:
    case TXN_FORGET:
        break;
    }
}

/* Copies what the answer needs out of the transaction, one entry per operation of a multi. */
static void take_changes(struct op_request *request, const struct state *state,
                         const struct state_changes *changes)
{
    struct op_result *result = &request->result;
    uint32_t at = 0;

    if (request->def->id == OP_MULTI) {
        result->results = mem_zalloc(request->args.op_count + 1, sizeof result->results[0]);
        result->result_count = request->args.op_count;
    }
    for (size_t i = 0; i < changes->count; i++) {
        const struct state_change *change = &changes->items[i];

        if (!change->reply) {
            continue;
        }
        if (request->def->id != OP_MULTI) {
            fill_result(result, state, change);
        } else if (at < result->result_count) {
            op_result_init(&result->results[at]);
            fill_result(&result->results[at], state, change);
            at++;
        }
    }
    ASSERT(request->def->id != OP_MULTI || at == result->result_count);
}

/* Fills the answer for an applied transaction that a client of this process requested. The answer
 * goes out once the lock on the tree is free. Not called while a fuzzy snapshot is replayed,
 * because the state, and so the answer, may be of a later time. */
void requests_delivered(struct replica *replica, const struct state *state,
                        const struct txn_header *header, zxid_t zxid)
{
    if (header->origin_member != replica->options.zab.id ||
        header->origin_boot != replica->options.boot) {
        return;
    }
    struct op_request *request = request_by_id(replica, header->request);

    if (!request) {
        return; /* It was answered with OUTCOME_UNKNOWN before, for example at its deadline. */
    }
    fifo_note_done(replica, request);
    note_progress(replica, request, zxid, true);
    request->result.err = ERR_OK;
    request->result.zxid = zxid;
    take_changes(request, state, &replica->tree.changes);
    set_stage(replica, request, 0);
    MEM_GROW(replica->requests.ready, replica->requests.ready_count, replica->requests.ready_cap,
             MEM_ITEMS_MAX);
    replica->requests.ready[replica->requests.ready_count++] = request;
}

void requests_answer_ready(struct replica *replica)
{
    for (size_t i = 0; i < replica->requests.ready_count; i++) {
        finish(replica, replica->requests.ready[i]);
    }
    replica->requests.ready_count = 0;
}

/* ---- Ends of roles. ---- */

/* Proposed, or sent to the leader: it may be committed, although this replica does not know. */
static bool may_be_committed(const struct op_request *request)
{
    return request->stage == REQUEST_FORWARDED || request->stage == REQUEST_PROPOSED;
}

/* Queues the requests whose quorum rounds and refusals became void with the old role. Proposed and
 * forwarded requests wait, because their outcome is not known yet. */
void requests_role_ended(struct replica *replica)
{
    list_for_each_entry (struct op_request, request, node, &replica->requests.all) {
        /* A deferred reply rests on proposals up to `wait_zxid`, which may never be committed. A
         * higher zxid, of the next epoch, does not prove that they were. */
        if (request->stage == REQUEST_CONFIRMING ||
            (request->stage == REQUEST_WAITING && is_deferred_reply(request))) {
            queue_again(replica, request);
        }
    }
}

/*
 * Retries requests when this replica serves in a new epoch and has applied all of the epoch's
 * initial history. A request of an older epoch that is not in that history cannot be committed any
 * more, because the old leader can commit nothing. So that request is retried, and the client does
 * not notice. After a snapshot has replaced the state, deliveries do not show whether a request was
 * done, so the outcome of the request is unknown.
 */
void requests_new_epoch(struct replica *replica)
{
    list_for_each_entry_safe (struct op_request, request, tmp, node, &replica->requests.all) {
        if (!may_be_committed(request)) {
            continue;
        }
        if (request->id <= replica->tree.lost_seq || request->wait_epoch >= replica->status.epoch) {
            PROBE("replica.outcome_unknown");
            request_reply(replica, request, ERR_OUTCOME_UNKNOWN,
                          "the connection to the leader was lost after the write was sent");
            continue;
        }
        PROBE("replica.request_retried");
        replica->counts.retried++;
        queue_again(replica, request);
    }
}

void requests_give_up(struct replica *replica)
{
    list_for_each_entry_safe (struct op_request, request, tmp, node, &replica->requests.all) {
        if (request->stage == REQUEST_QUEUED) {
            give_up(replica, request);
        }
    }
    requests_unblocked(replica);
}

void requests_stand_aside(struct replica *replica)
{
    bool log_waits = replica->aside.log_waits;
    bool over = log_waits && replica->now_ms >= replica->log_waits_ms + ASIDE_GRACE_MS;

    ASSERT(replica->aside.why);
    list_for_each_entry_safe (struct op_request, request, tmp, node, &replica->requests.all) {
        bool queued = request->stage == REQUEST_QUEUED && is_write(request);
        bool waiting = log_waits && request->stage == REQUEST_WAITING;

        if (queued || waiting || (over && may_be_committed(request))) {
            PROBE("replica.aside");
            give_up(replica, request);
        }
    }
    requests_unblocked(replica);
}

void requests_check_deadlines(struct replica *replica)
{
    list_for_each_entry_safe (struct op_request, request, tmp, node, &replica->requests.all) {
        if (replica->now_ms >= request->deadline_ms) {
            PROBE("replica.deadline");
            give_up(replica, request);
        }
    }
}

/* Answers a request for which this replica can do nothing more. */
static void abandon(struct replica *replica, struct op_request *request, const char *why)
{
    bool sent = may_be_committed(request) || request->result.replayed;

    op_result_release(&request->result);
    request_reply(replica, request, sent ? ERR_OUTCOME_UNKNOWN : ERR_NOT_READY, why);
}

/* No leader takes this replica any more, so it never learns what has become of its requests. */
void requests_removed(struct replica *replica)
{
    list_for_each_entry_safe (struct op_request, request, tmp, node, &replica->requests.all) {
        if (request->stage != REQUEST_BLOCKED) { /* The answer to the write before it frees it. */
            PROBE("replica.removed");
            abandon(replica, request, "a change of the members has removed this replica");
        }
    }
}

void requests_close(struct replica *replica)
{
    list_for_each_entry_safe (struct op_request, request, tmp, node, &replica->requests.all) {
        abandon(replica, request, "this replica is shutting down");
    }
    ASSERT(replica->requests.count == 0);
}
