/*
 * The order of requests within a FIFO, which holds the requests of one connection. No write is done
 * after a later write of its FIFO, and a linearizable read is not answered before earlier writes of
 * its FIFO, because the read's quorum round does not cover writes that are not committed yet.
 *
 * Each FIFO lists its unanswered writes, oldest first, and the reads that wait for one of them. A
 * read is listed only when its round ends before an earlier write is answered, so most reads are
 * never listed.
 */
#include "server/replica/replica_int.h"

static bool is_write(const struct op_request *request)
{
    return op_args_kind(&request->args) == OP_KIND_WRITE;
}

static struct fifo *fifo_of(struct replica *replica, const struct op_request *request)
{
    return &replica->requests.fifos[request->fifo % FIFOS];
}

static struct op_request *first_of(struct list *requests)
{
    return list_empty(requests) ? NULL : list_first(requests, struct op_request, fifo_node);
}

void fifos_init(struct replica *replica)
{
    for (size_t i = 0; i < FIFOS; i++) {
        list_init(&replica->requests.fifos[i].writes);
        list_init(&replica->requests.fifos[i].reads);
    }
    list_init(&replica->requests.unblocked);
}

void fifo_enter(struct replica *replica, struct op_request *request)
{
    list_init(&request->fifo_node);
    if (request->fifo != 0 && is_write(request)) {
        list_push_back(&fifo_of(replica, request)->writes, &request->fifo_node);
    }
}

/* After a write was answered, unblocks the reads up to the next unanswered write. These reads are
 * answered at the end of the step, because a caller may be walking the list of requests. */
static void unblock(struct replica *replica, struct fifo *fifo)
{
    const struct op_request *write = first_of(&fifo->writes);
    struct op_request *read = first_of(&fifo->reads);

    while (read && (!write || read->id < write->id)) {
        list_remove(&read->fifo_node);
        list_push_back(&replica->requests.unblocked, &read->fifo_node);
        read = first_of(&fifo->reads);
    }
}

void fifo_leave(struct replica *replica, struct op_request *request)
{
    list_remove(&request->fifo_node);
    if (request->fifo != 0 && is_write(request)) {
        unblock(replica, fifo_of(replica, request));
    }
}

bool fifo_blocks(struct replica *replica, const struct op_request *request)
{
    if (request->fifo == 0 || is_write(request)) {
        return false;
    }
    const struct op_request *write = first_of(&fifo_of(replica, request)->writes);

    return write && write->id < request->id;
}

/* Inserts the read in order of arrival. The search begins at the end of the list, because rounds
 * end nearly in the order in which they began. */
void fifo_hold(struct replica *replica, struct op_request *request)
{
    struct list *behind = fifo_of(replica, request)->reads.prev;

    while (behind != &fifo_of(replica, request)->reads &&
           list_entry(behind, struct op_request, fifo_node)->id > request->id) {
        behind = behind->prev;
    }
    list_push_back(behind->next, &request->fifo_node);
}

/* Notes a write that was done, or may have been: earlier writes of its FIFO must not be done after
 * it. */
void fifo_note_done(struct replica *replica, const struct op_request *request)
{
    uint64_t *done = &fifo_of(replica, request)->done;

    if (request->fifo != 0) {
        *done = max_u64(request->id, *done);
    }
}

/*
 * Whether a later write of the FIFO was done. In that case the leader received this write before
 * the later one. The leader must have refused this write, because otherwise it would have been done
 * before the later one; and the refusal was lost with the leader. If this write were done now, it
 * would take effect after the later write: a client that deleted a znode and created it again would
 * lose the new znode. Also true after a snapshot has replaced the state, because then it is unknown
 * whether a later write was done.
 */
bool fifo_is_overtaken(const struct replica *replica, const struct op_request *request)
{
    return request->fifo != 0 && !MUTANT(37) &&
           (request->id < replica->requests.fifos[request->fifo % FIFOS].done ||
            request->id <= replica->tree.lost_seq);
}
