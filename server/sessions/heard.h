/*
 * heard.h - the last contact of each session, as far as this replica knows.
 *
 * A replica knows the last contacts of its own clients. The leader knows the last contacts of all
 * clients, from the reports of the other replicas. The table is updated twice a tick. Last contacts
 * are only shown in lists; expiry.h decides which sessions expire. The table is bounded: entries
 * without contact for HEARD_KEEP_MS make room for new ones.
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
    uint64_t at_ms;  /* Monotonic time of the last contact. */
    uint32_t member; /* Replica that the client is connected to. */
};

/* Makes a table of at most `sessions_max` sessions; further ones are ignored. */
struct heard *heard_new(size_t sessions_max);
void heard_free(struct heard *heard); /* Accepts NULL. */

/* Notes that these sessions were active at `member` since its last report. Core thread. */
void heard_note(struct heard *heard, const uint64_t *sessions, size_t count, uint32_t member,
                uint64_t now_ms);

/* Sets whether all replicas report to this one. Core thread. */
void heard_set_all(struct heard *heard, bool all);

/* Finds the entry of a session; returns false when there is none. Any thread. */
bool heard_find(struct heard *heard, uint64_t session, struct heard_entry *ret_entry);
bool heard_all(struct heard *heard);

#endif
