/*
 * zab_villain.h - a peer that has proven the secret and then sends anything.
 *
 * It drives one core (zab_drive) with messages that parse, in any order, close to the truth or far
 * from it, between ticks, finished disk writes and changes of connections. The caller draws every
 * choice: from a seeded generator in tests/unit, from the bytes of an input in tests/fuzz. The core
 * may drop such a peer, look for another leader, or stop itself with HALT.
 */
#ifndef TESTS_LIB_ZAB_VILLAIN_H
#define TESTS_LIB_ZAB_VILLAIN_H

#include "tests/lib/zab_drive.h"

struct villain {
    struct drive drive;
    uint64_t (*draw)(void *ctx, uint64_t bound); /* A number below `bound`. */
    void *ctx;
    struct zab_config known; /* The configuration at first. */
    struct buf config;       /* One that was drawn. */
};

/* The core is replica 1 of three, in a drawn role, or it is new; peers are 2 and 3, and replicas 4
 * and 5 that are no members. */
void villain_begin(struct villain *villain, uint64_t (*draw)(void *ctx, uint64_t bound), void *ctx);
void villain_end(struct villain *villain);

/* Sends one message, or makes another event. Must not be called once the core has halted. */
void villain_step(struct villain *villain);
bool villain_is_halted(const struct villain *villain);

/* Sends a message of the caller's from that peer (2 to 5), in the current dialogue. */
void villain_say(struct villain *villain, uint32_t peer, const struct zab_msg *msg);

#endif
