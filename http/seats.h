/*
 * seats.h - how many connections there may be: caps in total and per address, and seats for
 * connections over a cap, which may be probes.
 *
 * A client that waits for changes over HTTP uses a second descriptor of its connection (see
 * watcher.h). Both descriptors count in one limit, so that no mix of clients takes the descriptors
 * that storage and the other replicas need.
 *
 * When all seats are taken, a connection is evicted, but only from an address that holds at least
 * an equal share of the seats. So a flood from one address cannot evict the probe of another
 * address. Among the connections of such addresses, those that have their answer are evicted first,
 * then those that have sent a part of a head, then those that have sent nothing; within each group,
 * the oldest first. So a probe that has just connected is evicted last.
 */
#ifndef HTTP_SEATS_H
#define HTTP_SEATS_H

#include "base/budget.h"
#include "base/list.h"

struct config_clients;

/* Used by any thread. */
struct http_caps {
    struct budget_shares connections; /* Connections by the key of an address. */
    /* Descriptors of connections, and the duplicates for clients that wait for changes. */
    struct budget files;
};

enum http_cap {
    HTTP_CAP_OK,
    HTTP_CAP_TOTAL,
    HTTP_CAP_ADDRESS
};

void http_caps_init(struct http_caps *caps, const struct config_clients *limits);

/* `lost`: the number of connections for which http_caps_give was never called. */
void http_caps_release(struct http_caps *caps, uint32_t lost);
enum http_cap http_caps_take(struct http_caps *caps, uint64_t address_key, bool is_proxy);
void http_caps_give(struct http_caps *caps, uint64_t address_key);

/* ---- Seats; one thread ---- */

/* What a connection has done so far; connections with a later value are evicted first. */
enum seats_stage {
    SEATS_SILENT,
    SEATS_BEGUN,
    SEATS_ANSWERED,
    SEATS_STAGES
};

struct seats_entry {
    struct list node;
    uint64_t address_key;
    enum seats_stage stage; /* Set by the owner. */
};

struct seats {
    struct list order; /* Oldest first. */
    struct map counts; /* The number of seats by the key of an address. */
    uint32_t count;
};

/* Returns the maximum number of seats: `most`, or `limit` if that is smaller. `limit` is how many
 * seats the limit of open files allows; 0: any number. */
static inline uint32_t seats_limit(uint32_t limit, uint32_t most)
{
    return limit > 0 ? min_u32(limit, most) : most;
}

void seats_init(struct seats *seats);

/* All seats must be free. */
void seats_release(struct seats *seats);

/* Takes a seat. The owner enforces the limit: when `count` has reached it, the owner first evicts
 * seats_weakest(). */
void seats_take(struct seats *seats, struct seats_entry *entry, uint64_t address_key);

void seats_leave(struct seats *seats, struct seats_entry *entry);

/* Returns the entry to evict. There must be one. */
struct seats_entry *seats_weakest(const struct seats *seats);

#endif
