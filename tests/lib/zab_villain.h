/*
 * zab_villain.h - a peer that has proven the secret and then says anything.
 *
 * It drives one core (zab_drive) with messages that parse, in any order, near to what would be true
 * or far from it, between ticks, finished disk writes and changes of connections. Every choice is
 * drawn by the caller: from a seeded generator in tests/unit, from the bytes of an input in
 * tests/fuzz. The core may leave such a peer, look for another leader, or stop itself with HALT.
 */
#ifndef TESTS_LIB_ZAB_VILLAIN_H
#define TESTS_LIB_ZAB_VILLAIN_H

#include "tests/lib/zab_drive.h"

struct villain {
    struct drive drive;
    uint64_t (*draw)(void *ctx, uint64_t bound); /* A number below `bound`. */
    void *ctx;
    struct buf config;
};

/* The core is replica 1 of three, in a role that is drawn; peers are 2 and 3. */
void villain_begin(struct villain *villain, uint64_t (*draw)(void *ctx, uint64_t bound), void *ctx);
void villain_end(struct villain *villain);

/* One message, or something else that happens. Not once it has halted. */
void villain_step(struct villain *villain);
bool villain_is_halted(const struct villain *villain);

/* A message of the caller's from that peer (2 or 3), in the dialogue that is under way. */
void villain_say(struct villain *villain, uint32_t peer, const struct zab_msg *msg);

#endif
