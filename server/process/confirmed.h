/*
 * confirmed.h - identities that an access control list, or superDigest, has confirmed at an
 * address.
 *
 * A client can have any identity confirmed by a list of its own, so a newcomer replaces nothing
 * that was in use lately: neither another identity of its name, nor those of other names or
 * addresses. What a list has confirmed never replaces what superDigest has. Without a place an
 * identity is not kept; that takes nothing from it but the right to pass while its name is slowed.
 * Finding one takes no lock. Any thread.
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
    CONFIRMED_IDLE_MS = 600000,  /* Not confirmed again for so long: may be replaced. */
    CONFIRMED_REFRESH_MS = 10000 /* The time of last use is kept no more exactly. */
};

/* Hashes that are never 0. The identity's includes address and name, the user's the address. */
struct confirmed_name {
    uint64_t address;
    uint64_t user;
    uint64_t identity;
    bool super; /* Is what superDigest names. */
};

struct confirmed_slot {
    _Atomic uint64_t identity; /* 0: free. */
    _Atomic uint64_t used_ns;  /* Confirmed last. */
    _Atomic uint64_t user;
    _Atomic uint64_t address;
    _Atomic bool super;
};

struct confirmed_set {
    struct confirmed_slot ways[CONFIRMED_WAYS];
};

struct confirmed {
    pthread_mutex_t mutex; /* Of who takes a slot. */
    struct confirmed_set *sets;
};

void confirmed_init(struct confirmed *confirmed);
void confirmed_release(struct confirmed *confirmed);

bool confirmed_has(struct confirmed *confirmed, const struct confirmed_name *name);

/* It was confirmed now: keeps it, if there is a place. */
void confirmed_keep(struct confirmed *confirmed, const struct confirmed_name *name,
                    uint64_t now_ns);

#endif
