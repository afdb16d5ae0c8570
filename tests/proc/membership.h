/* membership.h - changes of the members of an ensemble of real processes, by the super user. */
#ifndef TESTS_PROC_MEMBERSHIP_H
#define TESTS_PROC_MEMBERSHIP_H

#include "tests/proc/ensemble.h"

enum {
    MEMBERSHIP_EXIT = 6, /* Exit code of a replica that was removed. */
    MEMBERSHIP_BODY_MAX = 256
};

/* Puts `text` in place of the line of a replica's configuration that begins with `start`. `text`
 * has its line end, or is empty. */
void membership_set_line(const struct ensemble *ensemble, uint32_t index, const char *start,
                         const char *text);

/* Leaves the servers after the first `founders` out of the configuration of a replica. */
void membership_shorten(const struct ensemble *ensemble, uint32_t index, uint32_t founders);

/* Opens `count` replicas, of which the first `founders` know only each other, and starts these;
 * returns when they serve. */
void membership_open(struct ensemble *ensemble, uint32_t count, uint32_t founders,
                     const char *keys);

/* The members as replica `at` sees them (/ensemble/v1), for json_decref; NULL: no answer. */
json_t *membership_seen_by(struct ensemble *ensemble, uint32_t at);

/* The member with this index in such an answer; NULL: it is no member. */
const json_t *membership_find(const json_t *seen, uint32_t index);

/* A change as a request; `index` is id - 1. */
struct membership_call {
    const char *method;
    char path[64];
    char body[MEMBERSHIP_BODY_MAX]; /* "": none. */
};

void membership_add(const struct ensemble *ensemble, uint32_t index, struct membership_call *call);
void membership_role(uint32_t index, const char *role, struct membership_call *call);
void membership_remove(uint32_t index, struct membership_call *call);
void membership_replace(uint32_t old, uint32_t new, struct membership_call *call);

/* Sends the change once, with a new Idempotency-Key. Returns the status. */
long membership_send(struct web *web, struct web_reply *reply, uint16_t port,
                     const struct membership_call *call);

/* Sends the change until it is made; a refusal that passes (the member is not in step yet, another
 * change is not committed) is tried again, any other fails the test. */
void membership_change(struct ensemble *ensemble, uint32_t at, const struct membership_call *call);

/* Waits until a removed replica has ended by itself, and empties its directory. */
void membership_wait_removed(struct ensemble *ensemble, uint32_t index);

#endif
