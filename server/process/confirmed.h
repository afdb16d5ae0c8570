/*
 * confirmed.h - identities that an access control list, or superDigest, has confirmed at an
 * address.
 *
 * A client can have any identity confirmed by a list of its own. So a new identity replaces none
 * that was in use recently, of the same name or of others; and an identity that a list has
 * confirmed never replaces one that superDigest has. An identity that finds no place is not kept:
 * it loses nothing but the right to pass while its name is slowed. Look-ups take no lock. Any
 * thread.
 */
#ifndef SERVER_CONFIRMED_H
#define SERVER_CONFIRMED_H

#include "base/slice.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    CONFIRMED_SETS = 1024,       /* A power of two. */
    CONFIRMED_WAYS = 16,         /* Identities in each set. */
    CONFIRMED_OF_ADDRESS = 4,    /* Of these for one address, */
    CONFIRMED_OF_USER = 3,       /* and for one name at that address. */
    CONFIRMED_IDLE_MS = 600000,  /* Not confirmed for so long: may be replaced. */
    CONFIRMED_REFRESH_MS = 10000 /* Precision of the time of last use. */
};

/* Hashes that are never 0. The identity's includes address and name, the user's the address. */
struct confirmed_name {
    uint64_t address;
    uint64_t user;
    uint64_t identity;
    bool super; /* The identity of superDigest. */
};

struct confirmed_slot {
    _Atomic uint64_t identity; /* 0: free. */
    _Atomic uint64_t used_ns;  /* Last confirmed. */
    _Atomic uint64_t user;
    _Atomic uint64_t address;
    _Atomic bool super;
};

struct confirmed_set {
    struct confirmed_slot ways[CONFIRMED_WAYS];
};

struct confirmed {
    pthread_mutex_t mutex; /* Held to take a slot. */
    struct confirmed_set *sets;
};

void confirmed_init(struct confirmed *confirmed);
void confirmed_release(struct confirmed *confirmed);

bool confirmed_has(struct confirmed *confirmed, const struct confirmed_name *name);

/* Keeps an identity that was confirmed now, if there is a place. */
void confirmed_keep(struct confirmed *confirmed, const struct confirmed_name *name,
                    uint64_t now_ns);

#endif
