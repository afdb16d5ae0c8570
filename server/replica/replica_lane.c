/*
 * Order within a lane: what comes over one socket. No write is done behind a later one of its lane,
 * and a linearizable read is not answered before the writes that were asked ahead of it: its quorum
 * round knows nothing of what is not committed yet.
 *
 * Each lane has the list of its writes that are not answered, oldest first, and of the reads that
 * wait for such. A read is put there once its round is over, so most reads never are.
 */
#include "server/replica/replica_int.h"

static bool is_write(const struct op_request *request)
{
    return op_args_kind(&request->args) == OP_KIND_WRITE;
}

static struct lane *lane_of(struct replica *replica, const struct op_request *request)
{
    return &replica->lanes[request->lane % LANES];
}

static struct op_request *first_of(struct list *requests)
{
    return list_empty(requests) ? NULL : list_first(requests, struct op_request, lane_node);
}

void lanes_init(struct replica *replica)
{
    for (size_t i = 0; i < LANES; i++) {
        list_init(&replica->lanes[i].writes);
        list_init(&replica->lanes[i].reads);
    }
    list_init(&replica->unblocked);
}

void lane_enter(struct replica *replica, struct op_request *request)
{
    list_init(&request->lane_node);
    if (request->lane != 0 && is_write(request)) {
        list_push_back(&lane_of(replica, request)->writes, &request->lane_node);
    }
}

/* The oldest write is answered, so reads up to the next one are free. They are answered at the end
 * of the step: a caller that walks the list of requests must find the next one there. */
static void unblock(struct replica *replica, struct lane *lane)
{
    const struct op_request *write = first_of(&lane->writes);
    struct op_request *read = first_of(&lane->reads);

    while (read && (!write || read->id < write->id)) {
        list_remove(&read->lane_node);
        list_push_back(&replica->unblocked, &read->lane_node);
        read = first_of(&lane->reads);
    }
}

void lane_leave(struct replica *replica, struct op_request *request)
{
    list_remove(&request->lane_node);
    if (request->lane != 0 && is_write(request)) {
        unblock(replica, lane_of(replica, request));
    }
}

bool lane_blocks(struct replica *replica, const struct op_request *request)
{
    if (request->lane == 0 || is_write(request)) {
        return false;
    }
    const struct op_request *write = first_of(&lane_of(replica, request)->writes);

    return write && write->id < request->id;
}

/* Rounds end nearly in the order in which they began. */
void lane_hold(struct replica *replica, struct op_request *request)
{
    struct list *behind = lane_of(replica, request)->reads.prev;

    while (behind != &lane_of(replica, request)->reads &&
           list_entry(behind, struct op_request, lane_node)->id > request->id) {
        behind = behind->prev;
    }
    list_push_back(behind->next, &request->lane_node);
}

struct op_request *lane_take_unblocked(struct replica *replica)
{
    struct op_request *request = first_of(&replica->unblocked);

    if (request) {
        list_remove(&request->lane_node);
    }
    return request;
}

/* What was done, or may have been, is not to be overtaken by what came before it in its lane. */
void lane_note_done(struct replica *replica, const struct op_request *request)
{
    uint64_t *done = &lane_of(replica, request)->done;

    if (request->lane != 0) {
        *done = request->id > *done ? request->id : *done;
    }
}

/*
 * A write of its lane behind this one was done, so this one was at that leader before it, and was
 * refused; the refusal is lost with the leader. Done now, it would come behind: a client that has
 * deleted a znode and created it anew would lose the new one. The same where the state was replaced
 * since, and nobody can tell what was done.
 */
bool lane_is_overtaken(const struct replica *replica, const struct op_request *request)
{
    return request->lane != 0 && !MUTANT(37) &&
           (request->id < replica->lanes[request->lane % LANES].done ||
            request->id <= replica->state_lost_seq);
}
