/* The life of a request of this replica's own clients, from arrival to its one answer. */
#include "server/replica/replica_int.h"

struct op_request *request_by_id(struct replica *replica, uint64_t id)
{
    return map_get_u64(&replica->by_id, id);
}

static bool is_write(const struct op_request *request)
{
    return op_args_kind(&request->args) == OP_KIND_WRITE; /* A multi may read. */
}

static void place(struct replica *replica, struct op_request *request, enum request_place to)
{
    enum request_place from = (enum request_place)request->state;

    replica->queued_count -= from == REQUEST_QUEUED ? 1 : 0;
    replica->waiting_count -= from == REQUEST_WAITING ? 1 : 0;
    replica->forwarded_bytes -= from == REQUEST_FORWARDED ? request->wait_bytes : 0;
    replica->forwarded_bytes += to == REQUEST_FORWARDED ? request->wait_bytes : 0;
    replica->queued_count += to == REQUEST_QUEUED ? 1 : 0;
    replica->waiting_count += to == REQUEST_WAITING ? 1 : 0;
    request->state = to;
    if (to == REQUEST_WAITING && request->wait_zxid < replica->waiting_min) {
        replica->waiting_min = request->wait_zxid;
    }
}

/* The request leaves; its front end gets it back, complete. */
static void finish(struct replica *replica, struct op_request *request)
{
    place(replica, request, 0);
    (void)map_remove_u64(&replica->by_id, request->id);
    list_remove(&request->node);
    lane_leave(replica, request);
    ASSERT(replica->request_count > 0);
    replica->request_count--;
    if (request->result.zxid == 0) {
        request->result.zxid = replica->applied;
    }
    request->on_reply(request);
}

void request_reply(struct replica *replica, struct op_request *request, enum err err,
                   const char *detail)
{
    if (err == ERR_OUTCOME_UNKNOWN) {
        lane_note_done(replica, request);
    }
    request->result.err = err;
    request->result.detail = detail;
    finish(replica, request);
}

/* What the leader answers without a transaction: a refusal, or the remembered result of an earlier
 * write with the same key. */
static bool is_verdict(const struct op_request *request)
{
    return request->result.err != ERR_OK || request->result.replayed;
}

/* A state loaded from a fuzzy snapshot is no state of any zxid before the snapshot's end. */
static bool is_applied(const struct replica *replica, zxid_t zxid)
{
    return zxid <= replica->applied && replica->applied >= replica->fuzzy_end;
}

/* It could be answered, but for the writes before it in its lane. */
static void settle(struct replica *replica, struct op_request *request)
{
    if (lane_blocks(replica, request)) {
        PROBE("replica.read_behind_a_write");
        place(replica, request, REQUEST_BLOCKED);
        lane_hold(replica, request);
    } else {
        finish(replica, request);
    }
}

/* Why an answer does not come. It may not say "not done" of what was done long ago. */
static enum err late_error(const struct op_request *request, const char **ret_detail)
{
    if (request->result.replayed) {
        *ret_detail = "an earlier request with this key was done; that could not be confirmed";
        return ERR_OUTCOME_UNKNOWN;
    }
    switch ((enum request_place)request->state) {
    case REQUEST_FORWARDED:
    case REQUEST_PROPOSED:
        *ret_detail = "no quorum has acknowledged the write in time";
        return ERR_OUTCOME_UNKNOWN;
    case REQUEST_WAITING:
        *ret_detail = "this replica has not reached the zxid in time";
        return ERR_REPLICA_BEHIND;
    case REQUEST_BLOCKED:
        *ret_detail = "a write before it on the same connection was not answered in time";
        return ERR_NOT_READY;
    case REQUEST_QUEUED:
    case REQUEST_CONFIRMING:
        break;
    }
    *ret_detail = "no leader with a quorum could be reached in time";
    return ERR_NOT_READY;
}

static void give_up(struct replica *replica, struct op_request *request)
{
    const char *detail = NULL;
    enum err err = late_error(request, &detail);

    op_result_release(&request->result);
    op_result_init(&request->result);
    request_reply(replica, request, err, replica->aside ? replica->aside : detail);
}

/* Answered once this replica has applied `zxid`: a client that saw the answer never sees less here.
 */
static void wait_for(struct replica *replica, struct op_request *request, zxid_t zxid)
{
    request->wait_zxid = zxid;
    if (is_applied(replica, zxid)) {
        settle(replica, request);
        return;
    }
    place(replica, request, REQUEST_WAITING);
    if (replica->aside) {
        give_up(replica, request);
    }
}

/* A verdict that could not be confirmed is none: the request will be prepared anew. */
static void queue_again(struct replica *replica, struct op_request *request)
{
    op_result_release(&request->result);
    op_result_init(&request->result);
    place(replica, request, REQUEST_QUEUED);
}

/* ---- Dispatch. ---- */

static void dispatch_round(struct replica *replica, struct op_request *request)
{
    /* The place first: with one voter the round ends within the call. */
    place(replica, request, REQUEST_CONFIRMING);
    if (zab_confirm(replica->zab, request->id, &replica->inner) != ERR_OK) {
        queue_again(replica, request);
    }
}

static void dispatch_read(struct replica *replica, struct op_request *request)
{
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
    switch (lead_prepare(replica, &job, &request->result, &zxid)) {
    case LEAD_PROPOSED:
        request->wait_zxid = zxid;
        request->wait_epoch = zxid_epoch(zxid);
        place(replica, request, REQUEST_PROPOSED);
        break;
    case LEAD_REFUSED:
    case LEAD_REPLAYED:
        request->wait_zxid = zxid - 1;
        dispatch_round(replica, request);
        break;
    case LEAD_LATER:
        place(replica, request, REQUEST_QUEUED);
        break;
    }
}

/* What is at the leader fits the connection's queue and our share of the leader's memory; one
 * request alone always does. */
static bool may_forward(const struct replica *replica, const struct op_request *request)
{
    return replica->forwarded_bytes == 0 ||
           replica->forwarded_bytes + request->wait_bytes <= replica->options.forward_out_bytes_max;
}

static void dispatch_forward(struct replica *replica, struct op_request *request)
{
    if (!may_forward(replica, request)) {
        place(replica, request, REQUEST_QUEUED); /* Its size is known from an earlier attempt. */
        return;
    }
    buf_clear(&replica->txn);
    forward_encode(replica->options.boot, request, &replica->txn);
    request->wait_bytes = replica->txn.len + FORWARD_COST;
    if (!may_forward(replica, request)) {
        PROBE("replica.forward_held_back");
        place(replica, request, REQUEST_QUEUED);
        return;
    }
    /* The message must own its bytes until the host has encoded it. */
    struct blob *bytes = blob_new(buf_slice(&replica->txn));

    if (zab_forward(replica->zab, request->id, blob_slice(bytes), &replica->inner) == ERR_OK) {
        request->wait_epoch = replica->status.epoch;
        place(replica, request, REQUEST_FORWARDED);
        replica_keep(replica, bytes);
    } else {
        blob_unref(bytes);
        place(replica, request, REQUEST_QUEUED);
    }
}

void request_dispatch(struct replica *replica, struct op_request *request)
{
    ASSERT(request->def);

    if (!is_write(request)) {
        dispatch_read(replica, request);
    } else if (replica->aside) {
        request_reply(replica, request, ERR_NOT_READY, replica->aside);
    } else if (!replica->status.serving || replica->queued_count > 0) {
        place(replica, request, REQUEST_QUEUED); /* Behind those that came before. */
    } else if (replica->status.state == ZAB_LEADING) {
        dispatch_lead(replica, request);
    } else {
        dispatch_forward(replica, request);
    }
}

/* What waited for a leader or for room, in order of arrival. */
void requests_run_queue(struct replica *replica)
{
    if (replica->queued_count == 0 || !replica->status.serving) {
        return;
    }
    list_for_each_safe (it, tmp, &replica->requests) {
        struct op_request *request = list_entry(it, struct op_request, node);

        if (request->state != REQUEST_QUEUED) {
            continue;
        }
        if (is_write(request) && replica->aside) {
            give_up(replica, request);
            continue;
        }
        place(replica, request, 0);
        if (is_write(request) && lane_is_overtaken(replica, request)) {
            request_reply(replica, request, ERR_NOT_READY,
                          "the leader was lost with the answer to this write, which was refused; "
                          "a later one of the same connection was done");
            continue;
        }
        if (!is_write(request)) {
            dispatch_read(replica, request);
        } else if (replica->status.state == ZAB_LEADING) {
            dispatch_lead(replica, request);
        } else {
            dispatch_forward(replica, request);
        }
        if (request->state == REQUEST_QUEUED) {
            return;
        }
    }
}

/* ---- Progress. ---- */

void requests_applied(struct replica *replica)
{
    if (replica->waiting_count == 0 || replica->applied < replica->waiting_min) {
        return;
    }
    replica->waiting_min = UINT64_MAX;
    list_for_each_safe (it, tmp, &replica->requests) {
        struct op_request *request = list_entry(it, struct op_request, node);

        if (request->state != REQUEST_WAITING) {
            continue;
        }
        if (is_applied(replica, request->wait_zxid)) {
            settle(replica, request);
        } else if (request->wait_zxid < replica->waiting_min) {
            replica->waiting_min = request->wait_zxid;
        }
    }
}

void requests_unblocked(struct replica *replica)
{
    struct op_request *request = lane_take_unblocked(replica);

    while (request) {
        wait_for(replica, request, request->wait_zxid);
        request = lane_take_unblocked(replica);
    }
}

void requests_confirmed(struct replica *replica, uint64_t token, zxid_t zxid)
{
    struct op_request *request = request_by_id(replica, token);

    if (!request || request->state != REQUEST_CONFIRMING) {
        return;
    }
    zxid_t wait = zxid > request->wait_zxid ? zxid : request->wait_zxid;

    /* A refusal rests on proposals that may not be committed yet; its answer names them. What is
     * answered again is the answer of then. */
    if (!request->result.replayed) {
        request->result.zxid = is_verdict(request) ? request->wait_zxid : 0;
    }
    wait_for(replica, request, wait);
}

void requests_refused(struct replica *replica, uint64_t token, struct slice bytes)
{
    struct op_request *request = request_by_id(replica, token);

    if (!request || request->state != REQUEST_FORWARDED) {
        return;
    }
    op_result_release(&request->result);
    op_result_init(&request->result);
    if (op_result_decode(bytes, &request->result) != ERR_OK) {
        request_reply(replica, request, ERR_SYSTEM_ERROR, "the leader's answer is malformed");
        return;
    }
    wait_for(replica, request, request->result.zxid);
}

static void own_path(struct op_result *result)
{
    if (buf_append_slice(&result->arena, result->path)) {
        result->path = buf_slice(&result->arena);
    }
}

static void fill_session(struct op_result *result, const struct state *state, uint64_t id)
{
    const struct state_session *session = state_session(state, id);

    ASSERT(session);
    view_fill_session(session, &result->session);
    result->has_session = true;
}

static void fill_znode(struct op_result *result, const struct state_change *change)
{
    result->path = change->path;
    result->stat = change->stat;
    result->has_stat = change->type != TXN_DELETE && change->type != TXN_CHECK;
    own_path(result);
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
        fill_session(result, state, change->session);
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

/* A transaction that this process asked for has been applied to the state before it: its answer may
 * go out, once the lock on the tree is free. (Not over a fuzzy snapshot: what the change finds
 * there is of a later time, and so would the answer be.) */
void requests_delivered(struct replica *replica, const struct state *state,
                        const struct txn_header *header, zxid_t zxid)
{
    if (header->origin_member != replica->options.zab.id ||
        header->origin_boot != replica->options.boot) {
        return;
    }
    struct op_request *request = request_by_id(replica, header->request);

    if (!request) {
        return; /* Its deadline has passed: it was told that the outcome is unknown. */
    }
    lane_note_done(replica, request);
    request->result.err = ERR_OK;
    request->result.zxid = zxid;
    take_changes(request, state, &replica->changes);
    place(replica, request, 0);
    if (replica->ready_count == replica->ready_cap) {
        replica->ready_cap = replica->ready_cap ? replica->ready_cap * 2 : 64;
        replica->ready =
            mem_realloc(replica->ready, replica->ready_cap * sizeof(struct op_request *));
    }
    replica->ready[replica->ready_count++] = request;
}

void requests_answer_ready(struct replica *replica)
{
    for (size_t i = 0; i < replica->ready_count; i++) {
        finish(replica, replica->ready[i]);
    }
    replica->ready_count = 0;
}

/* ---- Ends of roles. ---- */

/* Rounds and refusals of the old role are void; what was proposed or forwarded has an outcome that
 * is not known yet. */
void requests_role_ended(struct replica *replica)
{
    list_for_each (it, &replica->requests) {
        struct op_request *request = list_entry(it, struct op_request, node);

        /* A verdict rests on proposals that this epoch may never commit; a larger zxid of the next
         * one is no sign that it did. */
        if (request->state == REQUEST_CONFIRMING ||
            (request->state == REQUEST_WAITING && is_verdict(request))) {
            queue_again(replica, request);
        }
    }
}

/*
 * We serve in a new epoch: all of its initial history has been applied. A request of an older epoch
 * that was not in it never will be (its leader can commit nothing any more): it is done again,
 * without the client noticing. Where the state was replaced by a snapshot, that cannot be told.
 */
void requests_new_epoch(struct replica *replica)
{
    list_for_each_safe (it, tmp, &replica->requests) {
        struct op_request *request = list_entry(it, struct op_request, node);

        if (request->state != REQUEST_FORWARDED && request->state != REQUEST_PROPOSED) {
            continue;
        }
        if (request->id <= replica->state_lost_seq ||
            request->wait_epoch >= replica->status.epoch) {
            PROBE("replica.outcome_unknown");
            request_reply(replica, request, ERR_OUTCOME_UNKNOWN,
                          "the connection to the leader was lost after the write was sent");
            continue;
        }
        PROBE("replica.request_retried");
        replica->retried++;
        queue_again(replica, request);
    }
}

void requests_give_up(struct replica *replica)
{
    list_for_each_safe (it, tmp, &replica->requests) {
        struct op_request *request = list_entry(it, struct op_request, node);

        if (request->state == REQUEST_QUEUED) {
            give_up(replica, request);
        }
    }
    requests_unblocked(replica);
}

/* What may have been done is decided on the disks of others; only the answer cannot be made here.
 */
static bool is_under_way(const struct op_request *request)
{
    return request->state == REQUEST_FORWARDED || request->state == REQUEST_PROPOSED;
}

void requests_aside(struct replica *replica)
{
    bool over = replica->now_ms >= replica->aside_ms + ASIDE_GRACE_MS;

    ASSERT(replica->aside);
    list_for_each_safe (it, tmp, &replica->requests) {
        struct op_request *request = list_entry(it, struct op_request, node);
        bool queued = request->state == REQUEST_QUEUED && is_write(request);

        if (queued || request->state == REQUEST_WAITING || (over && is_under_way(request))) {
            PROBE("replica.aside");
            give_up(replica, request);
        }
    }
    requests_unblocked(replica);
}

void requests_check_deadlines(struct replica *replica)
{
    list_for_each_safe (it, tmp, &replica->requests) {
        struct op_request *request = list_entry(it, struct op_request, node);

        if (replica->now_ms >= request->deadline_ms) {
            PROBE("replica.deadline");
            give_up(replica, request);
        }
    }
}

void requests_close(struct replica *replica)
{
    list_for_each_safe (it, tmp, &replica->requests) {
        struct op_request *request = list_entry(it, struct op_request, node);
        bool sent = request->state == REQUEST_FORWARDED || request->state == REQUEST_PROPOSED ||
                    request->result.replayed;

        op_result_release(&request->result);
        op_result_init(&request->result);
        request_reply(replica, request, sent ? ERR_OUTCOME_UNKNOWN : ERR_NOT_READY,
                      "this replica is shutting down");
    }
    ASSERT(replica->request_count == 0);
}
