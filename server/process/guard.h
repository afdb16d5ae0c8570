/*
 * guard.h - failed credentials: counted, logged once a minute for each address, slowed.
 *
 * There is no list of users: a digest identity is a name and a hash, and every identity is valid.
 * So a credential has failed when it is evidence of a guess: it names the super user with another
 * password; or an access control list that refuses the request names the user, and only with other
 * passwords; or it is malformed; or it is the secret of no session.
 *
 * The first two are passwords. For a pair of address and user GUARD_FAILURES of them are free; then
 * one comes back every GUARD_AGAIN_MS, and until then that user is not evaluated from that address,
 * right or wrong, so that the answer tells nothing. An identity that a list, or superDigest, has
 * confirmed from that address lately passes.
 *
 * All failures of an address count together as well: GUARD_ADDRESS_FAILURES are free, then one
 * comes back every GUARD_ADDRESS_AGAIN_MS. Without one, users of that address that have not failed
 * lately wait for it, so that made-up names take few places in the table of users. A user without a
 * place there is judged by its address alone. No address is slowed by what others have done: when
 * more fail at once than the table of addresses has room for, those that owe least are forgotten.
 *
 * Malformed credentials and secrets of 122 random bits tell nothing by their failure: they are
 * counted and logged only. Addresses of IPv6 count as their /64. Any thread.
 */
#ifndef SERVER_GUARD_H
#define SERVER_GUARD_H

#include "base/metric.h"
#include "base/network.h"
#include "server/op/auth.h"
#include "server/process/buckets.h"
#include "server/process/confirmed.h"
#include "server/process/gate.h"

enum {
    GUARD_FAILURES = 10,         /* Of an address and user before it is slowed, */
    GUARD_AGAIN_MS = 6000,       /* and one more after each such time, */
    GUARD_DEBT_MAX_MS = 3600000, /* at the latest after that one, however many came at once. */
    GUARD_ADDRESS_FAILURES = 60, /* The same for all users of an address together. */
    GUARD_ADDRESS_AGAIN_MS = 1000,
    GUARD_ADDRESS_DEBT_MAX_MS = 600000,
    GUARD_LOG_EVERY_MS = 60000, /* For each address. */
    GUARD_ADDRESSES_MAX = 256,  /* Logged by themselves; more share one line. */
    GUARD_USER_MAX = 24,        /* Bytes of a user's name in the log. */
    GUARD_LINE_MAX = 512
};

struct guard_address {
    char network[NETWORK_TEXT_MAX];
    char user[GUARD_USER_MAX + 1]; /* Of the last failure that had one. */
    uint64_t failed[GATE_FAILURES];
    uint64_t slowed;
    uint64_t logged_ms;
    bool logged; /* Since it is in the table. */
    bool used;
};

struct guard {
    struct metric_counter failed[GATE_FAILURES];
    struct metric_counter slowed;
    const char *super_digest;       /* The configuration's. */
    struct buckets users;           /* By address and user, */
    struct buckets by_address;      /* and by address. */
    _Atomic uint64_t busy_until_ns; /* Before, some bucket is not full. */
    struct confirmed confirmed;
    pthread_mutex_t mutex; /* Of the next two. */
    struct guard_address addresses[GUARD_ADDRESSES_MAX];
    struct guard_address others;
};

/* In zeroed memory. `super_digest` outlives the guard. */
void guard_init(struct guard *guard, const char *super_digest);
void guard_release(struct guard *guard);

/* Before identities from index `first` on are evaluated: 0, or ms until they may be shown again. A
 * wrong password of the super user is counted here. */
uint32_t guard_wait(struct guard *guard, const struct op_principal *who, uint32_t first,
                    uint64_t now_ns);

/* After an answer: counts what lists have found wrong since, and keeps what they have confirmed. */
void guard_seen(struct guard *guard, const struct op_principal *who, uint64_t now_ns);

/* A failure that is no password. */
void guard_failed(struct guard *guard, const struct op_principal *who, enum gate_failure kind);

/* The next address whose failures are to be logged; false: there is none. The line is the caller's
 * to log. Often enough: each second. */
bool guard_line(struct guard *guard, uint64_t now_ms, char line[GUARD_LINE_MAX]);

#endif
