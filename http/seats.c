/* Seats for connections that may be probes. */
#include "http/seats.h"

#include "base/check.h"
#include "base/mem.h"

struct seats_address {
    uint64_t key;
    uint32_t count; /* Of seats. */
};

void seats_init(struct seats *seats)
{
    list_init(&seats->order);
    map_init(&seats->addresses);
    seats->count = 0;
}

void seats_release(struct seats *seats)
{
    ASSERT(seats->count == 0 && list_empty(&seats->order));

    map_release(&seats->addresses);
}

static struct seats_address *address_of(struct seats *seats, uint64_t key)
{
    struct seats_address *address = map_get_u64(&seats->addresses, key);

    if (!address) {
        address = mem_zalloc(1, sizeof(*address));
        address->key = key;
        map_put_u64(&seats->addresses, key, address);
    }
    return address;
}

void seats_take(struct seats *seats, struct seats_entry *entry, uint64_t address_key)
{
    ASSERT(!entry->address);

    entry->address = address_of(seats, address_key);
    entry->address->count++;
    entry->stage = SEATS_SILENT;
    list_push_back(&seats->order, &entry->node);
    seats->count++;
}

void seats_leave(struct seats *seats, struct seats_entry *entry)
{
    struct seats_address *address = entry->address;

    ASSERT(address && address->count > 0);
    list_remove(&entry->node);
    seats->count--;
    entry->address = NULL;
    if (--address->count == 0) {
        map_remove_u64(&seats->addresses, address->key);
        mem_free(address);
    }
}

struct seats_entry *seats_weakest(const struct seats *seats)
{
    struct seats_entry *oldest[SEATS_STAGES] = {0};

    ASSERT(seats->count > 0);

    /* At least one address has the average or more. */
    uint32_t share = seats->count / (uint32_t)map_count(&seats->addresses);

    list_for_each (node, &seats->order) {
        struct seats_entry *entry = list_entry(node, struct seats_entry, node);

        if (entry->address->count < share || oldest[entry->stage]) {
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
