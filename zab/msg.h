/*
 * msg.h - the messages of the protocol and their bytes.
 *
 * The type says which member of the union is filled. msg.c has the layout of each type's bytes, in
 * one place for encoding and decoding.
 *
 * A dialogue is what one learner and one leader exchange from the learner's CEPOCH until either of
 * them gives up. The learner chooses the dialogue's number. Learner and leader drop messages of any
 * other dialogue, so that no message takes effect after its dialogue has ended (Zab's channel
 * assumption, which TCP alone does not give across reconnects).
 */
#ifndef ZAB_MSG_H
#define ZAB_MSG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/logrec.h"

/* On the wire: never renumber. */
enum zab_msg_type {
    ZAB_VOTE = 1,           /* Phase 0, any to any. */
    ZAB_CEPOCH = 2,         /* Phase 1, learner to leader: newest promise. */
    ZAB_NEWEPOCH = 3,       /* Leader to learner. */
    ZAB_ACKEPOCH = 4,       /* Learner to leader: the outline of its log. */
    ZAB_SYNC = 5,           /* Phase 2, leader to learner: cut back to zxid, then records follow. */
    ZAB_SNAP_CHUNK = 6,     /* A piece of a snapshot. */
    ZAB_SNAP_ACK = 7,       /* The piece is durable; flow control. */
    ZAB_ENTRY = 8,          /* A record: synchronisation, and PROPOSE once broadcasting. */
    ZAB_SYNC_ACK = 9,       /* Durable up to here; for flow control, counts for no quorum. */
    ZAB_NEWLEADER = 10,     /* End of the initial history. */
    ZAB_ACK_NEWLEADER = 11, /* Initial history and EPOCH record are durable. */
    ZAB_UPTODATE = 12,      /* Serve clients now. */
    ZAB_ACK = 13,           /* Phase 3, cumulative. */
    ZAB_COMMIT = 14,        /* Cumulative. */
    ZAB_PING = 15,
    ZAB_PONG = 16,
    ZAB_CONFIRM = 17, /* A quorum round: is the learner still in this epoch? */
    ZAB_CONFIRM_ACK = 18,
    ZAB_READ_INDEX = 19,    /* Learner to leader: start a quorum round. */
    ZAB_READ_REPLY = 20,    /* Leader to learner: wait for this zxid. */
    ZAB_FORWARD = 21,       /* Learner to leader: a client's write; opaque here. */
    ZAB_FORWARD_REPLY = 22, /* Leader to learner: the write is refused and why; opaque here. */
    ZAB_RESIGN = 23,        /* Leader to learners: elect another leader now. */
    ZAB_EXCLUDE = 24,       /* Leader to learner: do not take part; `flags` say why. */
    ZAB_CONFIG = 25,        /* A committed configuration, for replicas that lack it. */
    ZAB_JOIN = 26,          /* Any to any: the sender knows no configuration that names it. */
};

/* Flags of VOTE, CEPOCH, ACKEPOCH and PONG, unless another message is named. */
enum {
    ZAB_FLAG_ELIGIBLE = 1U << 0,    /* May be elected: a voter by the sender's configuration. */
    ZAB_FLAG_COUNTED = 1U << 1,     /* ACKEPOCH counts towards the quorum. */
    ZAB_FLAG_QUARANTINE = 1U << 2,  /* Storage is damaged: a refill is needed. */
    ZAB_FLAG_LOW_SPACE = 1U << 3,   /* Disk nearly full. */
    ZAB_FLAG_SNAP_LAST = 1U << 4,   /* SNAP_CHUNK: last chunk of the snapshot. */
    ZAB_FLAG_SNAP = 1U << 5,        /* SYNC: a snapshot follows. */
    ZAB_FLAG_DIVERGED = 1U << 7,    /* EXCLUDE: the learner's digest is in the minority. */
    ZAB_FLAG_ROLLED_BACK = 1U << 8, /* EXCLUDE: the learner's disk lacks what it acknowledged. */
    ZAB_FLAG_NO_MAJORITY = 1U << 9, /* EXCLUDE: no majority of equal states at `zxid`; stop. */
    /* Storage is sound and in this cluster. The receiver's configuration decides whether the sender
     * is counted. */
    ZAB_FLAG_SOUND = 1U << 10,
    ZAB_FLAG_AHEAD = 1U << 12, /* EXCLUDE: an unknown disk has promised a later epoch. */
    /* JOIN: the sender may found a cluster. It has met none, and it has lately reached all
     * addresses that it knows. */
    ZAB_FLAG_FOUNDS = 1U << 13,
};

enum zab_state {
    ZAB_LOOKING = 1,
    ZAB_FOLLOWING = 2,
    ZAB_LEADING = 3,
    ZAB_OBSERVING = 4, /* A learner that is not counted: observer, unknown disk, quarantine. */
};

enum {
    ZAB_RANGES_MAX = 4096,            /* Epochs in the outline of a log. */
    ZAB_RECORD_BYTES_MAX = 16 << 20,  /* Upper bound of any record's payload. */
    ZAB_CHUNK_BYTES_MAX = 256 << 10,  /* Bytes of a snapshot chunk. */
    ZAB_FORWARD_BYTES_MAX = 16 << 20, /* Bytes of a client's request. */
    ZAB_PING_PAYLOAD_MAX = 12 << 10,  /* Bytes that a host attaches to a heartbeat. */
};

/* Each zxid that a replica reports about its own log is durable on its disk. Only the stream of a
 * leader (SYNC, ENTRY, NEWLEADER) may be ahead of the leader's disk. */

struct zab_msg_vote {
    uint64_t round;        /* Round of the election. */
    uint8_t state;         /* enum zab_state of the sender, unchecked. */
    uint32_t candidate;    /* The sender's choice, or the leader that it has; 0: none. */
    zxid_t candidate_last; /* Last zxid of the candidate's log. */
    zxid_t last;           /* Last zxid of the sender's log. */
    uint32_t promised;     /* Newest epoch that the sender has promised. */
    zxid_t config_version; /* Version of the sender's committed configuration. */
    uint32_t voters;       /* Voters in that configuration; 0: the sender knows none. */
    uint32_t flags;
};

struct zab_msg_cepoch {
    uint32_t promised;
    zxid_t last;
    uint32_t flags;
};

struct zab_msg_newepoch {
    struct slice config; /* The leader's configuration, encoded. */
};

struct zab_msg_ackepoch {
    zxid_t last;         /* Last zxid of the learner's own log; 0: its log is damaged. */
    uint64_t last_chain; /* Chain value at `last`. */
    /* The outlined log holds the records after `base`. It is the learner's own log or, if the whole
     * file of a snapshot has arrived, the records received after the snapshot's start. */
    zxid_t base;
    struct epoch_range *ranges; /* Owned by the message's owner. */
    uint32_t range_count;       /* Number of `ranges`. */
    uint64_t snap_id;           /* Snapshot whose transfer broke off; 0: none. */
    uint64_t snap_offset;       /* Bytes of that snapshot that the learner has. */
    uint32_t flags;
};

struct zab_msg_sync {
    zxid_t common; /* The learner cuts its log back to this zxid. */
    zxid_t target; /* Last zxid of the leader's log now. */
    uint32_t flags;
};

struct zab_msg_snap_chunk {
    uint64_t snap_id;
    uint64_t offset;
    struct slice bytes;
    zxid_t start;         /* Start of the snapshot. */
    uint64_t start_chain; /* Chain value at `start`. */
    zxid_t end;           /* End: the state is consistent once the log is applied up to here. */
    uint32_t flags;
};

struct zab_msg_snap_ack {
    uint64_t offset; /* All bytes before this offset are durable. */
};

struct zab_msg_entry {
    struct logrec *rec; /* A reference of the message's owner. */
    zxid_t commit;      /* Commit watermark; 0 before UPTODATE. */
};

struct zab_msg_newleader {
    struct logrec *rec;  /* The epoch's record, or NULL; a reference of the message's owner. */
    zxid_t sent;         /* Last zxid that the leader has sent before NEWLEADER. */
    struct slice config; /* The leader's committed configuration, encoded. */
};

/* SYNC_ACK, ACK_NEWLEADER, ACK. */
struct zab_msg_ack {
    zxid_t zxid;          /* The log is durable up to here. */
    struct slice payload; /* ACK_NEWLEADER: heartbeat payload, as in PONG. */
};

/* UPTODATE, COMMIT. */
struct zab_msg_commit {
    zxid_t zxid; /* Commit watermark. */
};

struct zab_msg_ping {
    uint64_t round;
    zxid_t commit;        /* Commit watermark; 0 before UPTODATE. */
    struct slice payload; /* What the leader's host attaches, opaque. */
};

struct zab_msg_pong {
    uint64_t round; /* Round of the PING; 0: sent without a PING. */
    zxid_t last;
    zxid_t digest_zxid; /* Newest zxid at which the sender has computed a digest; 0: none. */
    uint64_t digest;    /* Digest of the state at `digest_zxid`. */
    uint32_t flags;
    struct slice payload;
};

/* CONFIRM, CONFIRM_ACK. */
struct zab_msg_confirm {
    uint64_t round; /* Number of a quorum round of this epoch. */
};

struct zab_msg_read_index {
    uint64_t request; /* Numbered by the learner. */
};

struct zab_msg_read_reply {
    uint64_t request;
    zxid_t zxid; /* The read waits until this zxid is applied. */
};

/* FORWARD, FORWARD_REPLY. */
struct zab_msg_forward {
    uint64_t request; /* Numbered by the learner. */
    struct slice bytes;
};

struct zab_msg_exclude {
    zxid_t zxid;
    uint32_t flags;
};

struct zab_msg_config {
    struct slice bytes; /* A committed configuration, encoded. */
};

/* The texts are those of struct zab_texts, unchecked. */
struct zab_msg_join {
    uint16_t port; /* Where other replicas reach the sender; 0: it does not know. */
    struct slice host;
    struct slice client;
    struct slice zone;
    uint32_t flags;
};

struct zab_msg {
    enum zab_msg_type type;
    uint32_t dialogue; /* 0 in VOTE, CONFIG and JOIN. */
    uint32_t epoch;    /* Epoch of the dialogue; 0 in VOTE, CEPOCH, CONFIG and JOIN. */

    union {
        struct zab_msg_vote vote;
        struct zab_msg_cepoch cepoch;
        struct zab_msg_newepoch newepoch;
        struct zab_msg_ackepoch ackepoch;
        struct zab_msg_sync sync;
        struct zab_msg_snap_chunk snap_chunk;
        struct zab_msg_snap_ack snap_ack;
        struct zab_msg_entry entry;
        struct zab_msg_newleader newleader;
        struct zab_msg_ack ack;
        struct zab_msg_commit commit;
        struct zab_msg_ping ping;
        struct zab_msg_pong pong;
        struct zab_msg_confirm confirm;
        struct zab_msg_read_index read_index;
        struct zab_msg_read_reply read_reply;
        struct zab_msg_forward forward;
        struct zab_msg_exclude exclude;
        struct zab_msg_config config;
        struct zab_msg_join join;
    };
};

/* Appends the payload of a frame. */
void zab_msg_encode(const struct zab_msg *msg, struct buf *out);

/* Checks and decodes. Slices point into `payload`; a record and ranges are new: zab_msg_release
 * frees them. `is_newer`: the message is of a later version, and bytes after the fields known here
 * are skipped. ERR_FORMAT on anything wrong, never a crash. */
enum err zab_msg_decode(enum zab_msg_type type, struct slice payload, bool is_newer,
                        struct zab_msg *ret_msg);
void zab_msg_release(struct zab_msg *msg);

/* Returns the record of an ENTRY or NEWLEADER, or NULL (not a new reference). */
struct logrec *zab_msg_rec(const struct zab_msg *msg);

/* Returns the longest payload that a frame of this type may have, with some room for fields that a
 * later version may add; 0: no such type. The receiver checks the length before it allocates. */
size_t zab_msg_size_max(enum zab_msg_type type);
const char *zab_msg_name(enum zab_msg_type type);

#endif
