/*
 * txn.h - the transaction: a list of effects with absolute results, and its bytes.
 *
 * header: version u8, flags u8, origin member u32, origin boot u64, request u64, time i64 (ms since
 * 1970, leader's, never decreasing), then effects until the end: type u8, flags u8, fields. Types
 * and fields for sessions, ACLs, remembered results and quotas have their numbers already, so that
 * no second format is needed.
 */
#ifndef SERVER_STATE_TXN_H
#define SERVER_STATE_TXN_H

#include "base/buf.h"
#include "base/err.h"
#include "base/wire.h"

enum {
    TXN_VERSION = 1,
    TXN_EFFECTS_MAX = 1000000
};

/* Stored owners that are no session (as in ZooKeeper). */
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

/* A session: the znode is ephemeral. */
static inline bool owner_is_session(uint64_t owner)
{
    return owner != 0 && !owner_is_container(owner) && !owner_is_ttl(owner);
}

/* On disk and on the wire: never renumber. */
enum txn_effect_type {
    TXN_CREATE = 1,        /* path, data, owner, acl, parent's creates. */
    TXN_SET = 2,           /* path, data, new version. */
    TXN_DELETE = 3,        /* path. */
    TXN_CHECK = 4,         /* path; changes nothing, answers an operation of a multi. */
    TXN_SET_ACL = 5,       /* path, acl, new aversion. */
    TXN_SESSION_OPEN = 6,  /* session, timeout, hash of the secret, principal. */
    TXN_SESSION_CLOSE = 7, /* session; the deletes of its ephemerals follow as TXN_DELETE. */
    TXN_SESSION_MOVE = 8,  /* session, attach number, member. */
    TXN_REMEMBER = 9,      /* scope, key, request hash, result: an idempotent write. */
    TXN_FORGET = 10,       /* horizon zxid behind which remembered results are evicted. */
};

enum {
    TXN_REPLY = 1U << 0,     /* Flag: this effect answers an operation of the request. */
    TXN_NULL_DATA = 1U << 1, /* Flag: the data is null, not empty. */
};

struct txn_header {
    uint32_t origin_member; /* Replica that took the request; 0: made by the leader itself. */
    uint64_t origin_boot;   /* Random number of that replica's process. */
    uint64_t request;       /* Its number for the request. */
    int64_t time_ms;
};

struct txn_effect {
    enum txn_effect_type type;
    uint8_t flags;
    struct slice path;
    struct slice data;  /* CREATE, SET. */
    struct slice acl;   /* CREATE, SET_ACL: encoded ACL; empty means open to all. */
    uint64_t owner;     /* CREATE: 0, session, OWNER_CONTAINER or OWNER_TTL_MARK | ttl. */
    uint32_t creates;   /* CREATE: the parent's count of creates after this one. */
    int32_t version;    /* SET, SET_ACL: the new one. */
    struct slice extra; /* The fields of the types from SESSION_OPEN on, opaque here. */
};

void txn_begin(struct buf *out, const struct txn_header *header);
void txn_put(struct buf *out, const struct txn_effect *effect);

/* Reads the header, then effects until ERR_MISSING at the end; ERR_FORMAT when malformed. */
enum err txn_open(struct wire_reader *reader, struct slice txn, struct txn_header *ret_header);
enum err txn_next(struct wire_reader *reader, struct txn_effect *ret_effect);

#endif
