/*
 * heard.h - the last contact of each session, as far as this replica knows.
 *
 * A replica knows that of its own clients, and the leader that of all clients from the reports of
 * the other replicas; both are updated twice a tick. Only lists show it; expiry.h decides which
 * sessions expire. The table is bounded; entries without contact for HEARD_KEEP_MS make room first.
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
    uint32_t member; /* Replica that its client is connected to. */
};

/* Holds at most `sessions_max` sessions; further ones are ignored. */
struct heard *heard_new(size_t sessions_max);
void heard_free(struct heard *heard); /* Accepts NULL. */

/* Core thread: these sessions were active at `member` since its last report. */
void heard_note(struct heard *heard, const uint64_t *sessions, size_t count, uint32_t member,
                uint64_t now_ms);

/* Core thread: whether all replicas report to this one. */
void heard_set_all(struct heard *heard, bool all);

/* Any thread. False when there is no entry. */
bool heard_find(struct heard *heard, uint64_t session, struct heard_entry *ret_entry);
bool heard_all(struct heard *heard);

#endif
