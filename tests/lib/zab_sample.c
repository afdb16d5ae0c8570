#include "tests/lib/zab_sample.h"

static void set_vote(struct zab_msg *msg)
{
    msg->vote = (struct zab_msg_vote){.round = 77,
                                      .state = ZAB_LEADING,
                                      .candidate = 3,
                                      .candidate_last = zxid_make(3, 2),
                                      .last = zxid_make(3, 1),
                                      .promised = 9,
                                      .config_version = zxid_make(1, 1),
                                      .voters = 5,
                                      .flags = ZAB_FLAG_ELIGIBLE};
}

static void set_ackepoch(struct zab_msg *msg, struct epoch_range *ranges)
{
    ranges[0] = (struct epoch_range){.epoch = 1, .first = 0, .last = 7};
    ranges[1] = (struct epoch_range){.epoch = 3, .first = 2, .last = 2};
    msg->ackepoch = (struct zab_msg_ackepoch){.last = zxid_make(3, 2),
                                              .last_chain = 0x1122334455667788,
                                              .base = zxid_make(1, 1),
                                              .ranges = ranges,
                                              .range_count = SAMPLE_RANGES,
                                              .snap_id = 0x99aabbccddeeff00,
                                              .snap_offset = 3 << 20,
                                              .flags = ZAB_FLAG_COUNTED};
}

static void set_snap_chunk(struct zab_msg *msg)
{
    msg->snap_chunk = (struct zab_msg_snap_chunk){.snap_id = 0x99aabbccddeeff00,
                                                  .offset = 1 << 20,
                                                  .bytes = slice_str("payload"),
                                                  .start = zxid_make(3, 1),
                                                  .start_chain = 0x1122334455667788,
                                                  .end = zxid_make(3, 2),
                                                  .flags = ZAB_FLAG_SNAP_LAST};
}

static void set_pong(struct zab_msg *msg)
{
    msg->pong = (struct zab_msg_pong){.round = 77,
                                      .last = zxid_make(3, 2),
                                      .digest_zxid = zxid_make(3, 0),
                                      .digest = 42,
                                      .flags = ZAB_FLAG_LOW_SPACE,
                                      .payload = slice_str("payload")};
}

static void set_other(struct zab_msg *msg, struct logrec *rec)
{
    switch ((int)msg->type) {
    case ZAB_CEPOCH:
        msg->cepoch = (struct zab_msg_cepoch){9, zxid_make(3, 2), ZAB_FLAG_ELIGIBLE};
        break;
    case ZAB_NEWEPOCH:
        msg->newepoch.config = slice_str("payload");
        break;
    case ZAB_SYNC:
        msg->sync = (struct zab_msg_sync){zxid_make(3, 1), zxid_make(3, 2), ZAB_FLAG_SNAP};
        break;
    case ZAB_SNAP_ACK:
        msg->snap_ack.offset = 1 << 20;
        break;
    case ZAB_ENTRY:
        msg->entry = (struct zab_msg_entry){rec, zxid_make(3, 1)};
        break;
    case ZAB_NEWLEADER:
        msg->newleader = (struct zab_msg_newleader){rec, zxid_make(3, 1), slice_str("payload")};
        break;
    case ZAB_SYNC_ACK:
    case ZAB_ACK_NEWLEADER:
    case ZAB_ACK:
        msg->ack = (struct zab_msg_ack){zxid_make(3, 2), slice_str("payload")};
        break;
    case ZAB_UPTODATE:
    case ZAB_COMMIT:
        msg->commit.zxid = zxid_make(3, 1);
        break;
    case ZAB_PING:
        msg->ping = (struct zab_msg_ping){77, zxid_make(3, 1), slice_str("payload")};
        break;
    case ZAB_CONFIRM:
    case ZAB_CONFIRM_ACK:
        msg->confirm.round = 77;
        break;
    case ZAB_READ_INDEX:
        msg->read_index.request = 77;
        break;
    case ZAB_READ_REPLY:
        msg->read_reply = (struct zab_msg_read_reply){77, zxid_make(3, 2)};
        break;
    case ZAB_FORWARD:
    case ZAB_FORWARD_REPLY:
        msg->forward = (struct zab_msg_forward){77, slice_str("payload")};
        break;
    case ZAB_EXCLUDE:
        msg->exclude = (struct zab_msg_exclude){zxid_make(3, 2), ZAB_FLAG_DIVERGED};
        break;
    case ZAB_CONFIG:
        msg->config.bytes = slice_str("payload");
        break;
    case ZAB_JOIN:
        msg->join = (struct zab_msg_join){.port = 10998,
                                          .host = slice_str("zk4"),
                                          .client = slice_str("zk4:9998"),
                                          .zone = slice_str("a"),
                                          .flags = ZAB_FLAG_FOUNDS};
        break;
    default:
        break;
    }
}

struct zab_msg zab_sample(enum zab_msg_type type, struct epoch_range *ranges, struct logrec *rec)
{
    struct zab_msg msg = {.type = type};

    if (type != ZAB_VOTE && type != ZAB_CONFIG && type != ZAB_JOIN) {
        msg.dialogue = 0x01020304;
    }
    if (msg.dialogue != 0 && type != ZAB_CEPOCH) {
        msg.epoch = 9;
    }
    if (type == ZAB_VOTE) {
        set_vote(&msg);
    } else if (type == ZAB_ACKEPOCH) {
        set_ackepoch(&msg, ranges);
    } else if (type == ZAB_SNAP_CHUNK) {
        set_snap_chunk(&msg);
    } else if (type == ZAB_PONG) {
        set_pong(&msg);
    } else {
        set_other(&msg, rec);
    }
    return msg;
}
