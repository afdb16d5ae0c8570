/*
 * seats.h - places for connections of which one may be a probe, and which connection gives way when
 * all places are taken. It is one of an address that has at least its equal share of the places, so
 * that no flood from one address displaces the probe of another. Of these a connection that has its
 * answer goes first, then one with a part of a head, then one that has sent nothing; each time the
 * oldest: a probe that has just connected is displaced last. One thread.
 */
#ifndef HTTP_SEATS_H
#define HTTP_SEATS_H

#include "base/list.h"
#include "base/map.h"

#include <stdint.h>

/* What a connection has done so far; a later value gives way first. */
enum seats_stage {
    SEATS_SILENT,
    SEATS_BEGUN,
    SEATS_ANSWERED,
    SEATS_STAGES
};

struct seats_address; /* One address, and how many places it has. */

struct seats_entry {
    struct list node;
    struct seats_address *address; /* NULL: has no place. */
    enum seats_stage stage;        /* The owner sets it. */
};

struct seats {
    struct list order; /* Oldest first. */
    struct map addresses;
    uint32_t count;
};

void seats_init(struct seats *seats);

/* No place may be taken any more. */
void seats_release(struct seats *seats);

/* Any number may take a place: the owner asks for seats_weakest() first when `count` is its limit.
 */
void seats_take(struct seats *seats, struct seats_entry *entry, uint64_t address_key);

void seats_leave(struct seats *seats, struct seats_entry *entry);

/* The entry that gives way. There must be one. */
struct seats_entry *seats_weakest(const struct seats *seats);

#endif
