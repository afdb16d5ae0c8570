#include "tests/sim/sim_gist.h"

static struct sim_gist gist_of_learner(const struct zab_msg *msg)
{
    switch ((int)msg->type) {
    case ZAB_CEPOCH:
        return (struct sim_gist){msg->cepoch.promised, msg->cepoch.last, 0, msg->cepoch.flags};
    case ZAB_ACKEPOCH:
        return (struct sim_gist){msg->epoch, msg->ackepoch.last, 0, msg->ackepoch.flags};
    case ZAB_SYNC_ACK:
    case ZAB_ACK_NEWLEADER:
    case ZAB_ACK:
        return (struct sim_gist){msg->epoch, msg->ack.zxid, 0, 0};
    case ZAB_PONG:
        return (struct sim_gist){msg->epoch, msg->pong.last, 0, msg->pong.flags};
    default:
        return (struct sim_gist){.epoch = msg->epoch};
    }
}

struct sim_gist sim_gist(const struct zab_msg *msg)
{
    const struct logrec *rec = zab_msg_rec(msg);

    switch ((int)msg->type) {
    case ZAB_VOTE:
        return (struct sim_gist){msg->vote.promised, msg->vote.candidate_last, msg->vote.last,
                                 msg->vote.flags};
    case ZAB_SYNC:
        return (struct sim_gist){msg->epoch, msg->sync.common, msg->sync.target, msg->sync.flags};
    case ZAB_SNAP_CHUNK:
        return (struct sim_gist){msg->epoch, msg->snap_chunk.start, msg->snap_chunk.end,
                                 msg->snap_chunk.flags};
    case ZAB_ENTRY:
        return (struct sim_gist){msg->epoch, rec->zxid, msg->entry.commit, 0};
    case ZAB_NEWLEADER:
        return (struct sim_gist){msg->epoch, rec ? rec->zxid : msg->newleader.sent, 0, 0};
    case ZAB_UPTODATE:
    case ZAB_COMMIT:
        return (struct sim_gist){msg->epoch, 0, msg->commit.zxid, 0};
    case ZAB_PING:
        return (struct sim_gist){msg->epoch, 0, msg->ping.commit, 0};
    case ZAB_READ_REPLY:
        return (struct sim_gist){msg->epoch, msg->read_reply.zxid, 0, 0};
    case ZAB_EXCLUDE:
        return (struct sim_gist){msg->epoch, msg->exclude.zxid, 0, msg->exclude.flags};
    default:
        return gist_of_learner(msg);
    }
}
