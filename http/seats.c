#include "http/seats.h"

#include "base/check.h"
#include "server/process/gate.h"

void seats_init(struct seats *seats)
{
    list_init(&seats->order);
    map_init(&seats->counts);
    seats->count = 0;
}

void seats_release(struct seats *seats)
{
    ASSERT(seats->count == 0 && list_empty(&seats->order));

    map_release(&seats->counts);
}

void seats_take(struct seats *seats, struct seats_entry *entry, uint64_t address_key)
{
    map_set_amount(&seats->counts, address_key, map_amount(&seats->counts, address_key) + 1);
    entry->address_key = address_key;
    entry->stage = SEATS_SILENT;
    list_push_back(&seats->order, &entry->node);
    seats->count++;
}

void seats_leave(struct seats *seats, struct seats_entry *entry)
{
    uint64_t count = map_amount(&seats->counts, entry->address_key);

    ASSERT(count > 0);
    map_set_amount(&seats->counts, entry->address_key, count - 1);
    list_remove(&entry->node);
    seats->count--;
}

struct seats_entry *seats_weakest(const struct seats *seats)
{
    struct seats_entry *oldest[SEATS_STAGES] = {0};

    ASSERT(seats->count > 0);

    /* The average number of seats per address; at least one address has that number or more. */
    uint32_t share = seats->count / (uint32_t)map_count(&seats->counts);

    list_for_each_entry (struct seats_entry, entry, node, &seats->order) {
        if (map_amount(&seats->counts, entry->address_key) < share || oldest[entry->stage]) {
            continue;
        }
        oldest[entry->stage] = entry;
        if (entry->stage == SEATS_ANSWERED) {
            break;
        }
    }
    return oldest[SEATS_ANSWERED] ? oldest[SEATS_ANSWERED]
           : oldest[SEATS_BEGUN]  ? oldest[SEATS_BEGUN]
                                  : oldest[SEATS_SILENT];
}

/* ---- Caps ---- */

void http_caps_init(struct http_caps *caps, const struct config_clients *limits)
{
    uint32_t files_max = limits->client_files_max ? limits->client_files_max : UINT32_MAX;

    budget_shares_init(&caps->connections, limits->connections_max,
                       limits->connections_per_address_max);
    budget_init(&caps->files, files_max);
}

void http_caps_release(struct http_caps *caps, uint32_t lost)
{
    ASSERT(budget_used(&caps->files) == lost);

    if (lost > 0) {
        budget_shares_forget(&caps->connections);
    }
    budget_shares_release(&caps->connections);
}

/* Counts a connection of a trusted proxy, whose address may have all connections. Only the acceptor
 * takes connections, so there is no race between the check and the taking. */
static bool take_whole(struct budget_shares *connections, uint64_t address_key)
{
    bool room = budget_used(&connections->budget) < connections->budget.max;

    if (room) {
        budget_shares_take(connections, address_key, 1);
    }
    return room;
}

enum http_cap http_caps_take(struct http_caps *caps, uint64_t address_key, bool is_proxy)
{
    const struct budget *all = &caps->connections.budget;

    if (!budget_try_take(&caps->files, 1)) {
        return HTTP_CAP_TOTAL;
    }
    if (is_proxy ? take_whole(&caps->connections, address_key)
                 : budget_shares_try_take(&caps->connections, address_key, 1)) {
        return HTTP_CAP_OK;
    }
    budget_give(&caps->files, 1);
    return budget_used(all) >= all->max ? HTTP_CAP_TOTAL : HTTP_CAP_ADDRESS;
}

void http_caps_give(struct http_caps *caps, uint64_t address_key)
{
    budget_shares_give(&caps->connections, address_key, 1);
    budget_give(&caps->files, 1);
}
