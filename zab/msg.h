/*
 * msg.h - the messages of the protocol and their bytes.
 *
 * One flat struct for all types; a table in msg.c says which fields a type carries, in which order.
 * `link` names one dialogue between a learner and a leader: whatever belongs to an older one is
 * dropped, so that nothing arrives after a role has ended (Zab's channel assumption, which TCP
 * alone does not give across reconnects).
 */
#ifndef ZAB_MSG_H
#define ZAB_MSG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/logrec.h"

/* On the wire: never renumber. */
enum zab_msg_type {
    ZAB_VOTE = 1,       /* Phase 0, any to any. */
    ZAB_CEPOCH = 2,     /* Phase 1, learner to leader: newest promise. */
    ZAB_NEWEPOCH = 3,   /* Leader to learner. */
    ZAB_ACKEPOCH = 4,   /* Learner to leader: its log in outline. */
    ZAB_SYNC = 5,       /* Phase 2, leader to learner: cut back to zxid, then records follow. */
    ZAB_SNAP_CHUNK = 6, /* A piece of a snapshot. */
    ZAB_SNAP_ACK = 7,   /* It is durable; flow control. */
    ZAB_ENTRY = 8,      /* A record: synchronisation, and PROPOSE once broadcasting. */
    ZAB_SYNC_ACK = 9,   /* Durable up to here while synchronising; flow control, never a vote. */
    ZAB_NEWLEADER = 10, /* End of the initial history. */
    ZAB_ACK_NEWLEADER = 11, /* Initial history and EPOCH record are durable. */
    ZAB_UPTODATE = 12,      /* Serve clients now. */
    ZAB_ACK = 13,           /* Phase 3, cumulative. */
    ZAB_COMMIT = 14,        /* Cumulative. */
    ZAB_PING = 15,
    ZAB_PONG = 16,
    ZAB_CONFIRM = 17, /* A quorum round: are you still with this epoch? */
    ZAB_CONFIRM_ACK = 18,
    ZAB_READ_INDEX = 19,    /* Learner to leader: start a round for me. */
    ZAB_READ_REPLY = 20,    /* Leader to learner: wait for this zxid. */
    ZAB_FORWARD = 21,       /* Learner to leader: a client's write, opaque here. */
    ZAB_FORWARD_REPLY = 22, /* Leader to learner: refused, and why; opaque here. */
    ZAB_RESIGN = 23,        /* Leader to learners: elect another one now. */
    ZAB_STRANGER = 24, /* Leader to learner: you must not take part as you are; why in `flags`. */
    ZAB_FOUND = 25,    /* A committed configuration, to founders and to those behind. */
};

/* Flags of VOTE, CEPOCH, ACKEPOCH, PONG. */
enum {
    ZAB_FLAG_ELIGIBLE = 1U << 0,    /* May be elected and counted. */
    ZAB_FLAG_COUNTED = 1U << 1,     /* ACKEPOCH counts towards the quorum. */
    ZAB_FLAG_QUARANTINE = 1U << 2,  /* Storage is damaged: refill me. */
    ZAB_FLAG_LOW_SPACE = 1U << 3,   /* Disk nearly full. */
    ZAB_FLAG_SNAP_LAST = 1U << 4,   /* Last chunk of a snapshot. */
    ZAB_FLAG_SNAP = 1U << 5,        /* SYNC: a snapshot follows. */
    ZAB_FLAG_REFUSED = 1U << 6,     /* READ_REPLY: this is no leader any more. */
    ZAB_FLAG_DIVERGED = 1U << 7,    /* STRANGER: your state's digest is in the minority. */
    ZAB_FLAG_ROLLED_BACK = 1U << 8, /* STRANGER: your disk forgot what it acknowledged. */
    ZAB_FLAG_NO_MAJORITY = 1U << 9, /* STRANGER: no majority of states is equal at `zxid`: stop. */
};

enum zab_state {
    ZAB_LOOKING = 1,
    ZAB_FOLLOWING = 2,
    ZAB_LEADING = 3,
    ZAB_OBSERVING = 4, /* A learner that is not counted: observer, stranger, quarantine. */
};

enum {
    ZAB_RANGES_MAX = 4096,            /* Epochs in the outline of a log. */
    ZAB_RECORD_BYTES_MAX = 16 << 20,  /* Upper bound of any record's payload. */
    ZAB_CHUNK_BYTES_MAX = 256 << 10,  /* Piece of a snapshot. */
    ZAB_FORWARD_BYTES_MAX = 16 << 20, /* A client's request. */
    ZAB_SIGN_BYTES_MAX = 12 << 10,    /* What goes along with a sign of life. */
};

/* Consecutive counters of one epoch in a log. */
struct zab_range {
    uint32_t epoch;
    uint32_t first;
    uint32_t last;
};

struct zab_msg {
    enum zab_msg_type type;
    uint32_t link;  /* Dialogue, chosen by the learner. */
    uint32_t epoch; /* The epoch spoken of, or the sender's promise. */
    zxid_t zxid;
    uint64_t chain; /* Chain value at `zxid`. */
    zxid_t commit;  /* Commit watermark. */
    uint64_t round; /* Election round, confirm round, or request number. */
    uint32_t leader;
    uint8_t state; /* enum zab_state of the sender. */
    uint32_t flags;
    uint64_t offset;    /* In a snapshot. */
    zxid_t digest_zxid; /* PONG: newest checkpoint ... */
    uint64_t digest;    /* ... and the state's digest there. */
    zxid_t base; /* ACKEPOCH: the log outlined holds what follows this: the sender's own, or that
                    of a snapshot that has arrived. VOTE: configuration's version. */
    uint32_t voters;          /* VOTE: of the sender's configuration; 0: it knows none. */
    struct zab_range *ranges; /* ACKEPOCH; owned by the message's owner. */
    uint32_t range_count;
    struct logrec *rec;   /* ENTRY; a reference of the message's owner. */
    uint64_t snap_id;     /* SNAP_CHUNK: of the snapshot. ACKEPOCH: of the one that broke off ... */
    uint64_t snap_offset; /* ... and how much of it is here. 0: none. */
    struct slice bytes;   /* Chunk, forwarded bytes, configuration, what goes along. */
};

/* Appends the payload of a frame. */
void zab_msg_encode(const struct zab_msg *msg, struct buf *out);

/* Checks and decodes; `bytes` point into `payload`; `rec` and `ranges` are new and freed by
 * zab_msg_release. ERR_FORMAT on anything wrong, never a crash. */
enum err zab_msg_decode(enum zab_msg_type type, struct slice payload, struct zab_msg *ret_msg);

/* The same for a message of a later version: what stands behind the fields known here is skipped.
 */
enum err zab_msg_decode_newer(enum zab_msg_type type, struct slice payload,
                              struct zab_msg *ret_msg);
void zab_msg_release(struct zab_msg *msg);

/* Longest payload a frame of that type may have, with some room for fields that a later version may
 * add; 0: no such type. Checked before allocating. */
size_t zab_msg_size_max(enum zab_msg_type type);
const char *zab_msg_name(enum zab_msg_type type);

#endif
