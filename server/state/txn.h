/*
 * txn.h - the transaction: a list of effects with absolute results, and its bytes.
 *
 * header: version u8, flags u8, origin member u32, origin boot u64, request u64, age i64, stamp
 * i64; with the flag TXN_HAS_ACTOR the actor, a u16 length and its bytes (struct txn_actor); then
 * effects until the end: type u8, flags u8, fields (txn.c lists the fields of each type).
 * The fields of an effect that is not about a znode are wrapped in one field of bytes. An effect of
 * an unknown type makes the transaction malformed, because a reader that skipped the effect would
 * lose it.
 *
 * A transaction carries two times. Its *age* is the time by which the state machine expires things:
 * the age counts the time for which a leader led, never decreases, and no wall clock moves it. Its
 * *stamp* is what clients see as ctime and mtime; nothing depends on the stamp.
 */
#ifndef SERVER_STATE_TXN_H
#define SERVER_STATE_TXN_H

#include "base/buf.h"
#include "base/err.h"
#include "base/logrec.h"
#include "base/wire.h"

enum {
    TXN_VERSION = 3,
    TXN_VERSION_OLDEST = 2, /* Without flags of the header, and without TXN_VERSION_BEFORE. */
    TXN_EFFECTS_MAX = 1000000,

    TXN_ACL_MAX = 16384,       /* Bytes of an encoded ACL. */
    TXN_SECRET_HASH_LEN = 32,  /* SHA-256 of a session's secret. */
    TXN_FROM_MAX = 128,        /* Bytes of a client's address and identity. */
    TXN_ACTOR_IDS_MAX = 16,    /* Identities of an actor. */
    TXN_ACTOR_ID_MAX = 256,    /* Bytes of one of them. */
    TXN_ACTOR_MAX = 8192,      /* Bytes of an encoded actor. */
    TXN_SCOPE_MAX = 2048,      /* Bytes of the scope of an idempotency key. */
    TXN_KEY_MAX = 256,         /* Bytes of the key itself. */
    TXN_FINGERPRINT_LEN = 16,  /* Bytes of the hash of the request that has the key. */
    TXN_RESULT_MAX = 16 << 20, /* Bytes of a remembered result. */
    TXN_ANSWER_MAX = 1024      /* Bytes of a txn_answer. */
};

/* A leader proposes times within these bounds only; the lower bounds are 0 for the age and
 * -TXN_STAMP_MAX_MS for the stamp. A follower reads an age beyond these bounds as 0, which leaves
 * the age of the ensemble unchanged, and a stamp as the nearest valid one. */
#define TXN_AGE_MAX_MS   INT64_C(100000000000000) /* More than 3,000 years. */
#define TXN_STAMP_MAX_MS INT64_C(253402300799999) /* The end of year 9999. */

/* Stored owners that are not sessions (as in ZooKeeper). */
#define OWNER_CONTAINER UINT64_C(0x8000000000000000)
#define OWNER_TTL_MARK  UINT64_C(0xff00000000000000) /* Low 40 bits: TTL in ms. */
#define OWNER_TTL_MASK  UINT64_C(0x000000ffffffffff)

static inline bool owner_is_container(uint64_t owner)
{
    return owner == OWNER_CONTAINER;
}

static inline bool owner_is_ttl(uint64_t owner)
{
    return (owner & OWNER_TTL_MARK) == OWNER_TTL_MARK;
}

/* Whether the leader deletes a znode with this owner when the znode is due: container or TTL. */
static inline bool owner_is_reaped(uint64_t owner)
{
    return owner_is_container(owner) || owner_is_ttl(owner);
}

/* Whether the owner is a session, so that the znode is ephemeral. */
static inline bool owner_is_session(uint64_t owner)
{
    return owner != 0 && !owner_is_container(owner) && !owner_is_ttl(owner);
}

/* These numbers are on disk and on the wire: never renumber. Each comment names the fields. */
enum txn_effect_type {
    TXN_CREATE = 1,        /* path, data, owner, acl, parent's creates. */
    TXN_SET = 2,           /* path, data, new version. */
    TXN_DELETE = 3,        /* path. */
    TXN_CHECK = 4,         /* path; changes nothing, answers an operation of a multi. */
    TXN_SET_ACL = 5,       /* path, acl, new aversion. */
    TXN_SESSION_OPEN = 6,  /* struct txn_session_open. */
    TXN_SESSION_CLOSE = 7, /* struct txn_session_close; follows the deletes of the ephemerals. */
    TXN_SESSION_MOVE = 8,  /* struct txn_session_move. */
    TXN_REMEMBER = 9,      /* struct txn_remember; at most one in a transaction. */
    TXN_FORGET = 10,       /* struct txn_forget. */
    TXN_ANSWER = 11,       /* struct txn_answer; from feature level 2 on. */
};

enum {
    TXN_REPLY = 1U << 0,     /* Flag: this effect answers an operation of the request. */
    TXN_NULL_DATA = 1U << 1, /* Flag: the data is null, not empty. */
    /* Flag of a DELETE: the version that the znode had follows the path. */
    TXN_VERSION_BEFORE = 1U << 2,
};

enum {
    TXN_HAS_ACTOR = 1U << 0, /* Flag of the header. */
};

/* The client that requested the transaction, for the audit log; the state does not use it. Bytes:
 * op u8, number of identities u8 (bit 7: super), with identities `confirmed` u16, session varint,
 * then address and each identity as varint length and text. */
struct txn_actor {
    uint8_t op;           /* Operation of the request (enum op_id), opaque here. */
    bool super;           /* It is the super user. */
    uint64_t session;     /* Public id of the session of the request; 0: none. */
    struct slice address; /* Numeric address; empty: the leader itself made the request. */
    uint32_t count;
    uint32_t confirmed;                  /* Bit i: an ACL, or superDigest, has confirmed ids[i]. */
    struct slice ids[TXN_ACTOR_IDS_MAX]; /* "scheme:name", without any hash. */
};

struct txn_header {
    uint32_t origin_member; /* Replica that took the request; 0: made by the leader itself. */
    uint64_t origin_boot;   /* Random number of the process of this replica. */
    uint64_t request;       /* Number that this replica gave to the request. */
    int64_t age_ms;         /* Age of the ensemble, not below the age of any earlier transaction. */
    int64_t stamp_ms;       /* Wall clock, ms since 1970. */
    struct slice actor;     /* An encoded txn_actor; empty: none. */
};

struct txn_session_open {
    uint64_t session; /* Public id of the session: the zxid of this transaction. */
    uint32_t timeout_ms;
    uint8_t secret_hash[TXN_SECRET_HASH_LEN];
    struct slice from; /* Opener, as text: address and identity of the client. */
};

/* These numbers are on disk and on the wire: never renumber. */
enum txn_close_reason {
    TXN_CLOSED_BY_CLIENT = 1,
    TXN_CLOSED_EXPIRED = 2
};

struct txn_session_close {
    uint64_t session;
    uint8_t reason; /* enum txn_close_reason. */
};

/* A client has attached the session to another connection. */
struct txn_session_move {
    uint64_t session;
    uint64_t attach; /* Attach number; a connection with another number has lost the session. */
    uint32_t member; /* Replica that serves the session now. */
};

/* The result of a write with an idempotency key. */
struct txn_remember {
    struct slice scope; /* Session or identity that the key belongs to. */
    struct slice key;
    uint8_t fingerprint[TXN_FINGERPRINT_LEN];
    struct slice result; /* The encoded answer; opaque here. */
};

/* Remembered results of transactions before `horizon` are dropped. */
struct txn_forget {
    zxid_t horizon; /* At most the zxid of this transaction. */
};

/* The answer of a request that only the leader can make. It changes nothing. */
struct txn_answer {
    struct slice bytes; /* Opaque here. */
};

struct txn_effect {
    enum txn_effect_type type;
    uint8_t flags;
    struct slice path; /* CREATE, SET, DELETE, CHECK, SET_ACL. */

    union {
        struct {
            struct slice data; /* CREATE, SET. */
            struct slice acl;  /* CREATE, SET_ACL: encoded ACL; empty means open to all. */
            uint64_t owner;    /* CREATE: 0, session, OWNER_CONTAINER or OWNER_TTL_MARK | ttl. */
            uint32_t creates;  /* CREATE: the parent's count of creates after this create. */
            int32_t version;   /* SET, SET_ACL: the new version or aversion. DELETE with
                                  TXN_VERSION_BEFORE: the last version. */
        };

        struct txn_session_open open;
        struct txn_session_close close;
        struct txn_session_move move;
        struct txn_remember remember;
        struct txn_forget forget;
        struct txn_answer answer;
    };
};

/* Begins a transaction. Age and stamp must be within their bounds. */
void txn_begin(struct buf *out, const struct txn_header *header);

/* Sets `confirmed` of the actor of a transaction that txn_begin has begun at the start of `txn`;
 * does nothing if it has no actor, or one without identities. */
void txn_confirm(struct buf *txn, uint32_t confirmed);

/* Encode and decode an actor. Encoding cuts identities longer than TXN_ACTOR_ID_MAX. ERR_FORMAT
 * when the bytes are malformed; decoded slices point into them. */
void txn_actor_encode(struct buf *out, const struct txn_actor *actor);
enum err txn_actor_decode(struct slice bytes, struct txn_actor *ret_actor);
void txn_put(struct buf *out, const struct txn_effect *effect);

/* Whether a later release has written the transaction, in a version that this one does not read. */
bool txn_is_newer(struct slice txn);

/* Read the header, then one effect per call until ERR_MISSING at the end; ERR_FORMAT when
 * malformed. Times beyond their bounds are corrected as described above. Slices of an effect point
 * into the transaction. */
enum err txn_open(struct wire_reader *reader, struct slice txn, struct txn_header *ret_header);
enum err txn_next(struct wire_reader *reader, struct txn_effect *ret_effect);

#endif
