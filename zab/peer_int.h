/*
 * peer_int.h - what the core knows of another replica; for the files of this folder only.
 */
#ifndef ZAB_PEER_INT_H
#define ZAB_PEER_INT_H

#include "zab/trail.h"
#include "zab/zab.h"

enum {
    PEER_CHECKPOINTS = 8, /* Digests remembered of each peer. */
};

struct vote {
    bool valid;
    bool stale; /* The vote is from an election that is over: the next one ignores it. */
    enum zab_state state;
    uint64_t round;
    uint32_t candidate;    /* 0: none. */
    zxid_t zxid;           /* Last zxid of the candidate's log. */
    zxid_t last;           /* Last durable zxid of the sender. */
    uint32_t voters;       /* Number of voters in the sender's configuration. */
    zxid_t config_version; /* Of the sender's committed configuration. */
    uint32_t flags;
};

struct checkpoint {
    zxid_t zxid;
    uint64_t digest;
};

struct peer_checkpoints {
    struct checkpoint items[PEER_CHECKPOINTS];
    uint32_t next;
};

enum learner_stage {
    LEARNER_NONE,
    LEARNER_CEPOCH, /* The learner has sent its promise. */
    LEARNER_ACKED,  /* The learner has accepted the epoch and outlined its log. */
    LEARNER_SNAP,   /* A snapshot is on its way. */
    LEARNER_STREAM, /* Records are on their way. */
    LEARNER_SYNCED, /* The learner has acknowledged NEWLEADER. */
};

/* Records sent to a learner and not yet acknowledged: one slot per record. */
struct flight {
    zxid_t *zxids;   /* Ring of window_max slots. */
    uint32_t *bytes; /* Payload bytes of each record. */
    uint32_t head;
    uint32_t count;
    uint64_t bytes_sum;
};

/* A snapshot on its way to a learner. */
struct sending {
    zxid_t start;
    bool known;        /* The host has chosen the snapshot. */
    uint64_t id;       /* Id of the snapshot; until `known`: of the learner's partial copy. */
    uint64_t offset;   /* Next byte to fetch; until `known`: bytes of the partial copy. */
    uint64_t acked;    /* Bytes durable at the learner. */
    uint32_t window;   /* Current limit of chunks under way. */
    uint64_t probe;    /* End offset of the chunk that is being timed; 0: none. */
    uint64_t probe_ms; /* When the timed chunk was sent. */
    bool done;         /* The last chunk has been sent. */
    uint64_t retry_ms; /* When to ask the host for a snapshot again; 0: no retry is due. */
};

/* The leader's half of a peer. */
struct learner {
    enum learner_stage stage;
    uint32_t dialogue;
    uint32_t promised; /* Epoch that its CEPOCH promised. */
    bool counted;      /* Its ACKEPOCH counts for the quorum. */
    uint32_t flags;    /* Flags of the last CEPOCH, ACKEPOCH or PONG. */
    zxid_t last;       /* Last zxid of its log, from ACKEPOCH. */
    zxid_t base;
    struct epoch_range *ranges;
    uint32_t range_count;
    zxid_t sent; /* Last zxid sent to the learner. */
    zxid_t acked;
    struct flight flight;
    bool newleader_sent;
    bool uptodate_sent;
    zxid_t commit_sent;
    uint64_t fetch_token; /* Token of the fetch under way; 0: none. */
    struct sending snap;
    bool has_trip;        /* A round trip was measured in this dialogue. */
    uint64_t trip_ms;     /* The shortest round trip. */
    uint64_t newepoch_ms; /* When NEWEPOCH was sent. */
    uint64_t confirmed;   /* Highest quorum round that the learner has confirmed. */
    uint64_t heard_ms;    /* When the last message of this dialogue came. */
    uint64_t step_ms;     /* Since when it has been in step (step.c); 0: it is not. */
    struct zab_msg early; /* A CEPOCH that came while this replica was looking; type 0: none. */
};

/* Log on the leader's disk that a learner will need. */
struct keep {
    bool is_on;
    bool is_open;      /* The host has not chosen a snapshot yet: keep all of the log. */
    zxid_t after;      /* The log after this zxid is kept. */
    uint64_t moved_ms; /* When the learner last made progress. */
};

/* What a replica says of itself in JOIN. */
struct join_word {
    bool is_said;
    uint32_t flags;
    uint64_t since_ms;    /* When it was first said on this connection. */
    uint64_t heard_ms;    /* When it was last said. */
    uint64_t answer_ms;   /* It gets no answer before this. */
    enum zab_fault fault; /* Why autoJoin has not added the replica. */
    uint16_t port;
    uint8_t host_len;
    uint8_t client_len;
    uint8_t zone_len;
    uint8_t host[ZAB_HOST_MAX];
    uint8_t client[ZAB_CLIENT_MAX];
    uint8_t zone[ZAB_ZONE_MAX];
};

/* How this replica finds a cluster or founds one, and takes others in. */
struct joining {
    uint32_t bootstrap; /* Replicas 1 to `bootstrap` found; 0: those of the server list do. */
    bool is_reached;    /* All addresses of `join` are reached (REACHED). */
    struct join_word own;
    bool searches;
    uint64_t leader_ms; /* When this replica last had a leader, or when it started. */
    uint64_t met_ms;   /* When this replica last knew of a cluster without being in it; 0: never. */
    uint64_t ask_ms;   /* When the next JOIN is due. */
    uint64_t alarm_ms; /* No further FOUNDER_ADDRESS alarm before this. */
    bool auto_join;
    uint32_t max_observers;
    uint32_t max_voters;
    uint64_t add_ms; /* Leader: no further replica is added by itself before this. */
};

/* The configuration of a cluster in which this replica is not. */
struct outside {
    struct zab_config config;
    struct blob *bytes; /* `config`, encoded; NULL: none has come. */
    uint64_t heard_ms;  /* When its cluster last sent a configuration. */
    bool is_new;        /* The peers do not follow it yet. */
};

struct peer {
    uint32_t id;
    bool up;
    bool is_outsider;   /* It is connected, and no configuration or list here names it. */
    bool is_in_cluster; /* Its disk is in a cluster, by its last connection. */
    struct join_word word;
    bool bootstrapping;
    uint8_t level;  /* Highest feature level that its release knows, by its last connection. */
    uint64_t up_ms; /* When its connection came up. */
    uint64_t incarnation;
    struct vote vote;
    struct learner learner;
    struct keep keep;        /* Outlives the connection. */
    bool refill_stalled;     /* Its refill has made no progress for REFILL_STALL_TICKS. */
    uint64_t keep_alarm_ms;  /* No further REFILL_LOST_LOG alarm about it before this. */
    uint64_t ahead_alarm_ms; /* No further PROMISE_AHEAD alarm about it before this. */
    uint64_t heard_ms;       /* When its last message of any kind came; 0: none yet. */
    uint64_t seen_ms;        /* When its configured disk was last connected, or lead_start ran. */
    zxid_t known_last;       /* Newest durable zxid that `known_incarnation` has acknowledged. */
    uint32_t known_promised;
    uint64_t known_incarnation; /* Disk of `known_last` and `known_promised`. */
    struct peer_checkpoints digests;
    bool is_out;          /* No member has this disk: a change has removed it. */
    uint64_t leave_ms;    /* When the peer is dropped: it is no member any more; 0: it stays. */
    uint64_t leave_round; /* Leader: the peer knows that once it answers this PING; 0: not told. */
};

#endif
