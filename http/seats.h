/*
 * seats.h - seats for connections that may be probes, and which connection is evicted when all
 * seats are taken. It is one of an address that has at least its equal share of the seats, so a
 * flood from one address cannot evict the probe of another. Of these the first to go is a
 * connection that has its answer, then one with a part of a head, then one that has sent nothing;
 * each time the oldest. So a probe that has just connected is evicted last. One thread.
 *
 */
#ifndef HTTP_SEATS_H
#define HTTP_SEATS_H

#include "base/list.h"
#include "base/map.h"

#include <stdint.h>

/* What a connection has done so far; a later value is evicted first. */
enum seats_stage {
    SEATS_SILENT,
    SEATS_BEGUN,
    SEATS_ANSWERED,
    SEATS_STAGES
};

struct seats_address; /* One address, and how many seats it has. */

struct seats_entry {
    struct list node;
    struct seats_address *address; /* NULL: it has no seat. */
    enum seats_stage stage;        /* Set by the owner. */
};

struct seats {
    struct list order; /* Oldest first. */
    struct map addresses;
    uint32_t count;
};

void seats_init(struct seats *seats);

/* All seats must be free. */
void seats_release(struct seats *seats);

/* There is no limit here: when `count` is at its limit, the owner first evicts seats_weakest(). */
void seats_take(struct seats *seats, struct seats_entry *entry, uint64_t address_key);

void seats_leave(struct seats *seats, struct seats_entry *entry);

/* The entry to evict. There must be one. */
struct seats_entry *seats_weakest(const struct seats *seats);

#endif
