/*
 * place.h - a place in a queue: an ephemeral, sequential znode. The first place holds what the
 * queue is for. The same znodes as the recipes of docs/recipes use, so that all can share one
 * queue.
 *
 * The number of a place decides, whatever stands before it: a lock and an election at one path are
 * one queue, in the order of arrival. A znode without a number has no place in it.
 *
 * A create whose answer was lost is tried again with its key, and makes no second znode. Each waits
 * for the one just before, so that one release wakes one.
 */
#ifndef CLI_PLACE_H
#define CLI_PLACE_H

#include "cli/wait.h"

struct place {
    struct wait *wait;
    const char *line;   /* Path of the parent. */
    const char *prefix; /* "lock-" */
    struct slice data;
    struct buf path; /* Of the znode; empty before it is taken. */
    int64_t fence;   /* Its czxid: grows from holder to holder. */
};

void place_init(struct place *place, struct wait *wait, const char *line, const char *prefix);
void place_release(struct place *place);

/* Makes the znode, and missing parents. CMD_OK, CMD_SHOWN, or reported. */
int place_take(struct place *place);

/* The number that the ensemble has put behind the name of a sequential znode; -1: it has none. */
int64_t place_number(const char *name);

/* The number of places before ours, and the path of the last one. CMD_OK, or reported. */
int place_look(struct place *place, int64_t *ret_before, struct buf *ret_last);

/* Waits until no place does. CMD_OK, a reported error, or a signal. */
int place_come_first(struct place *place);

/* Deletes the znode. CMD_OK, or reported. */
int place_leave(struct place *place);

#endif
