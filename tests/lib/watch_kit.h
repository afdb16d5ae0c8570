/*
 * watch_kit.h - functions for the tests of watches: transactions in few words, a state with its
 * window, and owners that record their events.
 *
 * One line for each event: "<owner> <type> <path> [<ids>]", with " ='<data>'" when it carries data,
 * " diff" for one of a difference and " end" for the last one of its zxid.
 */
#ifndef TESTS_LIB_WATCH_KIT_H
#define TESTS_LIB_WATCH_KIT_H

#include "base/buf.h"
#include "server/read/view.h"
#include "server/watch/watch.h"
#include "tests/lib/draw.h"

enum {
    WATCH_KIT_WORDS_MAX = 16,
    WATCH_KIT_LOG_MAX = 1 << 20,
    WATCH_KIT_PATHS = 3 + 9 + 27,
    WATCH_KIT_RANDOM_MAX = 4
};

struct kit_owner {
    struct watch_owner owner;
    struct op_principal who; /* Without credentials, from 127.0.0.1. */
    char name;
    bool holds; /* Takes no more: holds each watch that has an event. */
};

void kit_owner_init(struct kit_owner *owner, char name);

/* The callback of a table or a subscriber; `ctx` is the log, a struct buf. */
void kit_on_event(void *ctx, struct watch_owner *owner, struct watch *hits,
                  const struct watch_event *event);

/* The log since the last call; valid until the next one. */
const char *kit_take(struct buf *log);

/*
 * Words, up to NULL: "+/a" creates, "+/a=x" with the data x, "=/a" and "=/a=x" set, "-/a" deletes,
 * "!/a" closes to all but 10.0.0.1, "!/a=open" opens again. kit_set_of makes a set without a
 * state, so "!/a" and "!/a=open" are just changes of the ACL. The words must outlive the set.
 */
struct change_set *kit_set_of(zxid_t zxid, const char *const *words);

#define KIT_SET(zxid, ...) kit_set_of((zxid), (const char *const[]){__VA_ARGS__, NULL})

/* A state that reports its changes to a window, as in a replica. */
struct kit_world {
    struct view *view;
    struct state *state; /* The view's. */
    struct window *window;
    struct state_changes changes;
    struct buf txn;
    zxid_t zxid; /* Applied. */
};

enum {
    KIT_HISTORY = 77
};

void kit_world_init(struct kit_world *world, uint32_t sets_max);
void kit_world_release(struct kit_world *world);

/* Applies one transaction of these words at the next zxid. */
void kit_world_apply(struct kit_world *world, const char *const *words);

#define KIT_APPLY(world, ...) kit_world_apply((world), (const char *const[]){__VA_ARGS__, NULL})

/* Applies the transaction in world->txn. */
void kit_world_apply_txn(struct kit_world *world);

/*
 * A random transaction that fits the state: up to WATCH_KIT_RANDOM_MAX words and NULL, which live
 * for ever. The paths have up to three names; there are three different names, and so
 * WATCH_KIT_PATHS paths.
 */
void kit_random_words(const struct kit_world *world, struct rng *rng,
                      const char *words[WATCH_KIT_RANDOM_MAX + 1]);
const char *kit_random_path(struct rng *rng);

/* A word that closes or opens one of these znodes, or NULL: the znode does not exist. */
const char *kit_random_acl(const struct kit_world *world, struct rng *rng);

/* Installs another state that claims the zxid `start`, as after a snapshot: a copy of the present
 * one when `state` is NULL. */
void kit_world_replace(struct kit_world *world, struct state *state, zxid_t start);

#endif
