/*
 * heard.h - when each session was last heard of, as far as this replica knows.
 *
 * A replica learns of its own clients, the leader from reports of all others as well; both do twice
 * a tick. It is for being shown: what ends a session is decided by expiry.h alone. A table of fixed
 * bound; what has been silent for HEARD_KEEP_MS makes room first.
 */
#ifndef SERVER_HEARD_H
#define SERVER_HEARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HEARD_KEEP_MS = 600000
};

struct heard;

struct heard_entry {
    uint64_t session;
    uint64_t at_ms;  /* Monotonic. */
    uint32_t member; /* Replica that its client talks to. */
};

/* Knows `sessions_max` sessions at most; more are not noted. */
struct heard *heard_new(size_t sessions_max);
void heard_free(struct heard *heard); /* Accepts NULL. */

/* Core thread: `member` has heard of these since it last said so. */
void heard_note(struct heard *heard, const uint64_t *sessions, size_t count, uint32_t member,
                uint64_t now_ms);

/* Core thread: whether all replicas report to this one. */
void heard_set_all(struct heard *heard, bool all);

/* Any thread. False when it has not been heard of. */
bool heard_find(struct heard *heard, uint64_t session, struct heard_entry *ret_entry);
bool heard_all(struct heard *heard);

#endif
