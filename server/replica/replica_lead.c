/* The leader's work for learners: their requests, and refusals of those that cannot be done. */
#include "server/replica/replica_int.h"

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
