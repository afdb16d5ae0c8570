/* The leader's work for learners: it prepares their requests, and replies to those that do not
 * become transactions. */
#include "server/replica/replica_int.h"

static void deferred_free(struct replica *replica, struct deferred_reply *reply)
{
    (void)map_remove_u64(&replica->learners.deferred_by_token, reply->token);
    list_remove(&reply->node);
    blob_unref(reply->bytes);
    mem_free(reply);
}

/* Sends a refusal, or a remembered answer, after a quorum round that starts now, so that a refusal
 * is as linearizable as a success. A refusal names the last proposal that it rests on. A remembered
 * answer names the zxid of the original write. The learner answers its client only after it has
 * applied the zxid that it received. */
static void answer_forward(struct replica *replica, const struct forward *forward,
                           struct op_result *result, zxid_t rests_on)
{
    struct deferred_reply *reply = mem_zalloc(1, sizeof *reply);

    result->zxid = result->replayed ? result->zxid : rests_on;
    reply->token = ++replica->requests.seq;
    reply->peer = forward->peer;
    reply->dialogue = forward->dialogue;
    reply->request = forward->request;
    buf_clear(&replica->txn);
    op_result_encode(result, &replica->txn);
    reply->bytes = blob_new(buf_slice(&replica->txn));
    list_push_back(&replica->learners.deferred, &reply->node);
    (void)map_put_u64(&replica->learners.deferred_by_token, reply->token, reply);
    if (zab_confirm(replica->zab, reply->token, &replica->inner) != ERR_OK) {
        /* Too many quorum rounds wait: no reply is sent, and the request ends at its deadline. */
        deferred_free(replica, reply);
    }
}

bool lead_confirmed(struct replica *replica, uint64_t token)
{
    struct deferred_reply *reply = map_get_u64(&replica->learners.deferred_by_token, token);

    if (!reply) {
        return false;
    }
    zab_refuse(replica->zab, reply->peer, reply->dialogue, reply->request, blob_slice(reply->bytes),
               &replica->inner);
    replica_keep(replica, blob_ref(reply->bytes));
    deferred_free(replica, reply);
    return true;
}

/* Prepares a learner's request; false when it must wait for room in the pipeline. */
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
    if (outcome == LEAD_REFUSED || outcome == LEAD_ANSWERED) {
        answer_forward(replica, forward, &result, zxid - 1);
    }
    op_result_release(&result);
    return outcome != LEAD_LATER;
}

/* Returns the learner's entry, or a free one if none of its requests waits. NULL: requests of
 * ZAB_MEMBERS_MAX other learners wait. */
static struct forward_share *share_of(struct replica *replica, uint32_t peer)
{
    struct forward_share *free_share = NULL;

    ASSERT(peer != 0);
    for (uint32_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        struct forward_share *share = &replica->learners.shares[i];

        if (share->peer == peer) {
            return share;
        }
        free_share = share->peer == 0 ? share : free_share;
    }
    return free_share;
}

static uint64_t cost_of(const struct forward *forward)
{
    return FORWARD_COST + forward->bytes.len;
}

/* Returns why a request cannot wait for room in the pipeline; NULL: it can. */
static const char *lacks_room(struct replica *replica, const struct forward *forward)
{
    const struct forward_share *share = share_of(replica, forward->peer);
    uint64_t cost = cost_of(forward);

    if (!share) {
        return "writes of as many other replicas as an ensemble may have wait at the leader";
    }
    bool fits = replica->learners.forward_count < FORWARDS_MAX &&
                replica->learners.forward_bytes + cost <= replica->options.forward_bytes_max &&
                share->bytes + cost <= replica->options.forward_peer_bytes_max;

    return fits ? NULL
                : "too many writes that this replica has forwarded wait at the leader "
                  "(maxForwardedBytes, maxForwardedBytesPerPeer)";
}

/* Refuses a request that was not prepared. Such a refusal rests on no proposal, so it needs no
 * quorum round. */
static void throttle(struct replica *replica, const struct forward *forward, const char *why)
{
    struct op_result result;

    PROBE("replica.forwards_full");
    op_result_init(&result);
    result.err = ERR_THROTTLED;
    result.detail = why;
    buf_clear(&replica->txn);
    op_result_encode(&result, &replica->txn);
    zab_refuse(replica->zab, forward->peer, forward->dialogue, forward->request,
               replica_keep_txn(replica), &replica->inner);
    op_result_release(&result);
}

static void forward_keep(struct replica *replica, const struct forward *forward)
{
    const char *why = lacks_room(replica, forward);

    if (why) {
        throttle(replica, forward, why);
        return;
    }
    PROBE("replica.forward_waits");
    struct forward *kept = mem_zalloc(1, sizeof *kept);
    struct forward_share *share = share_of(replica, forward->peer);

    *kept = *forward;
    kept->bytes = slice_make(mem_dup(forward->bytes.data, forward->bytes.len), forward->bytes.len);
    list_push_back(&replica->learners.forwards, &kept->node);
    replica->learners.forward_count++;
    replica->learners.forward_bytes += cost_of(kept);
    share->peer = kept->peer;
    share->bytes += cost_of(kept);
}

static void forward_free(struct replica *replica, struct forward *forward)
{
    struct forward_share *share = share_of(replica, forward->peer);

    union {
        const uint8_t *kept;
        void *owned;
    } bytes = {.kept = forward->bytes.data};

    ASSERT(replica->learners.forward_count > 0);
    ASSERT(share && share->bytes >= cost_of(forward) &&
           replica->learners.forward_bytes >= share->bytes);
    list_remove(&forward->node);
    replica->learners.forward_count--;
    replica->learners.forward_bytes -= cost_of(forward);
    share->bytes -= cost_of(forward);
    if (share->bytes == 0) {
        share->peer = 0;
    }
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
    /* In the step in which the leader begins to serve, requests are only queued. Later effects of
     * the same step may deliver records of the initial history, which the tree must have first.
     * lead_run_forwards prepares the requests at the end of the step. */
    if (!replica_leads(replica) || !list_empty(&replica->learners.forwards) ||
        !handle_forward(replica, &forward)) {
        forward_keep(replica, &forward);
    }
}

void lead_run_forwards(struct replica *replica)
{
    while (!list_empty(&replica->learners.forwards) && replica_leads(replica)) {
        struct forward *forward = list_first(&replica->learners.forwards, struct forward, node);

        /* A request of an ended dialogue is dropped: the learner has answered OUTCOME_UNKNOWN, or
         * has restarted. */
        if (!zab_is_dialogue(replica->zab, forward->peer, forward->dialogue)) {
            PROBE("replica.forward_outlived_its_link");
        } else if (!handle_forward(replica, forward)) {
            return;
        }
        forward_free(replica, forward);
    }
}

/* Drops the work for learners when the role ends; learners send their requests to the next leader.
 */
void lead_clear(struct replica *replica)
{
    list_for_each_entry_safe (struct deferred_reply, reply, tmp, node,
                              &replica->learners.deferred) {
        deferred_free(replica, reply);
    }
    list_for_each_entry_safe (struct forward, forward, tmp, node, &replica->learners.forwards) {
        forward_free(replica, forward);
    }
    ASSERT(replica->learners.forward_count == 0 && replica->learners.forward_bytes == 0);
}
