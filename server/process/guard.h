/*
 * guard.h - failed credentials: counted, logged once a minute for each address, slowed.
 *
 * There is no list of users: a digest identity is a name and a hash, and every identity is valid.
 * So a credential counts as failed when it looks like a guess: it names the super user with another
 * password; or an access control list that refuses the request names the user, and only with other
 * passwords; or it is malformed; or it is a secret that belongs to no session.
 *
 * The first two kinds concern passwords. Each pair of address and user has GUARD_FAILURES tokens,
 * one of which comes back every GUARD_AGAIN_MS. Without a token, the password of that user from
 * that address is not evaluated, right or wrong, so that the answer reveals nothing. An identity
 * passes nevertheless if an ACL, or superDigest, recently confirmed it from that address.
 *
 * All failures of an address count together as well: it has GUARD_ADDRESS_FAILURES tokens, one of
 * which comes back every GUARD_ADDRESS_AGAIN_MS. Without a token, also the users of that address
 * whose passwords have not failed recently must wait: their passwords are not evaluated, so these
 * users take no place in the table of users. Otherwise made-up names would fill that table. A user
 * without a place there is limited by its address alone. No address is slowed because of other
 * addresses: when the table of addresses is full, those with the smallest debt are forgotten.
 *
 * Confirmed identities are kept in a table of fixed size. A client can write an ACL that confirms
 * any identity. So an identity that an ACL has confirmed never takes the place of an identity that
 * was in use recently, not even of one with the same name, and never takes the place of one that
 * superDigest has confirmed. An identity that finds no place is not kept: while its name is slowed,
 * that identity waits like an unconfirmed one. Look-ups take no lock.
 *
 * Malformed credentials and secrets of 122 random bits reveal nothing by their failure: they are
 * only counted and logged. An IPv6 address counts as its /64. Any thread.
 */
#ifndef SERVER_GUARD_H
#define SERVER_GUARD_H

#include "base/logfmt.h"
#include "base/metric.h"
#include "base/network.h"
#include "server/op/auth.h"
#include "server/process/buckets.h"
#include "server/process/gate.h"

enum {
    GUARD_FAILURES = 10,         /* Tokens of each pair of address and user. */
    GUARD_AGAIN_MS = 6000,       /* Time for one token to come back. */
    GUARD_DEBT_MAX_MS = 3600000, /* The longest wait, for any number of failures. */
    GUARD_ADDRESS_FAILURES = 60, /* Tokens of an address, for all its users together. */
    GUARD_ADDRESS_AGAIN_MS = 1000,
    GUARD_ADDRESS_DEBT_MAX_MS = 600000,
    GUARD_LOG_EVERY_MS = 60000,  /* Time between two log lines of an address. */
    GUARD_ADDRESSES_MAX = 256,   /* Addresses with log lines of their own; others share one. */
    GUARD_USER_MAX = 24,         /* Bytes of a user's name in the log. */
    CONFIRMED_SETS = 1024,       /* A power of two. */
    CONFIRMED_WAYS = 16,         /* Identities in each set. */
    CONFIRMED_OF_ADDRESS = 4,    /* Identities of one address in a set. */
    CONFIRMED_OF_USER = 3,       /* Identities of one name at one address. */
    CONFIRMED_IDLE_MS = 600000,  /* An identity unconfirmed for this time may be replaced. */
    CONFIRMED_REFRESH_MS = 10000 /* Precision of the time of last use. */
};

struct guard_address {
    char network[NETWORK_TEXT_MAX];
    char user[GUARD_USER_MAX + 1]; /* Last user name in a failure; "": none. */
    uint64_t failed[GATE_FAILURES];
    uint64_t slowed;
    uint64_t logged_ms;
    bool logged; /* A line was logged for this entry. */
    bool used;
};

struct guard {
    struct metric_counter failed[GATE_FAILURES];
    struct metric_counter slowed;
    const char *super_digest;        /* superDigest of the configuration. */
    struct buckets users;            /* Buckets by address and user. */
    struct buckets by_address;       /* Buckets by address. */
    _Atomic uint64_t busy_until_ns;  /* After this time all buckets are full. */
    pthread_mutex_t confirmed_mutex; /* Held to take a place among the confirmed identities. */
    struct confirmed_set *confirmed;
    pthread_mutex_t mutex; /* Guards `addresses` and `others`. */
    struct guard_address addresses[GUARD_ADDRESSES_MAX];
    struct guard_address others;
};

/* Initializes a guard in zeroed memory. `super_digest` outlives the guard. */
void guard_init(struct guard *guard, const char *super_digest);
void guard_release(struct guard *guard);

/* Returns 0, or the ms until the client may try again; counts a wrong password of the super user.
 * Called before the identities from index `first` on are evaluated. */
uint32_t guard_wait(struct guard *guard, const struct op_principal *who, uint32_t first,
                    uint64_t now_ns);

/* Counts identities that ACLs have refused, and keeps identities that ACLs have confirmed. Called
 * after each answer. */
void guard_seen(struct guard *guard, const struct op_principal *who, uint64_t now_ns);

/* Counts a failure that is not about a password. */
void guard_failed(struct guard *guard, const struct op_principal *who, enum gate_failure kind);

/* Writes the log line of the next address with failures; false: there is none. Called each second.
 */
bool guard_line(struct guard *guard, uint64_t now_ms, struct logfmt *ret_line);

#endif
