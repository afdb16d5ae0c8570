/*
 * touch.h - the sessions whose clients were active at this replica since its last report.
 *
 * A front end adds the session of each request, on its own thread. The core takes all sessions
 * twice a tick and reports them to the leader, which alone expires sessions. Touches are a set: a
 * thousand requests of one session add one id.
 */
#ifndef SERVER_TOUCH_H
#define SERVER_TOUCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct touch_set;

/* Makes a set of at most `ids_max` different sessions at a time. */
struct touch_set *touch_set_new(size_t ids_max);
void touch_set_free(struct touch_set *set); /* Accepts NULL. */

/* Adds a session. Any thread. Returns false when the set is full: the touch is lost. */
bool touch_add(struct touch_set *set, uint64_t session);

/* Returns the number of touches since the start, repeated ones included. Any thread. */
uint64_t touch_count(const struct touch_set *set);

/* Empties the set and returns its ids in the order of their first touches. The ids are valid until
 * the next call. Core thread. */
const uint64_t *touch_take(struct touch_set *set, size_t *ret_count);

#endif
