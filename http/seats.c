#include "http/seats.h"

#include "base/check.h"
#include "server/process/gate.h"

/* Counts per address, kept in the pointers of a map themselves. */
static uint32_t count_of(const struct map *counts, uint64_t key)
{
    return (uint32_t)(uintptr_t)map_get_u64(counts, key);
}

static void set_count(struct map *counts, uint64_t key, uint32_t count)
{
    if (count == 0) {
        (void)map_remove_u64(counts, key);
    } else {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): a count, never followed.
        (void)map_put_u64(counts, key, (void *)(uintptr_t)count);
    }
}

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
    set_count(&seats->counts, address_key, count_of(&seats->counts, address_key) + 1);
    entry->address_key = address_key;
    entry->stage = SEATS_SILENT;
    list_push_back(&seats->order, &entry->node);
    seats->count++;
}

void seats_leave(struct seats *seats, struct seats_entry *entry)
{
    uint32_t count = count_of(&seats->counts, entry->address_key);

    ASSERT(count > 0);
    set_count(&seats->counts, entry->address_key, count - 1);
    list_remove(&entry->node);
    seats->count--;
}

struct seats_entry *seats_weakest(const struct seats *seats)
{
    struct seats_entry *oldest[SEATS_STAGES] = {0};

    ASSERT(seats->count > 0);

    /* At least one address has the average or more. */
    uint32_t share = seats->count / (uint32_t)map_count(&seats->counts);

    list_for_each_entry (struct seats_entry, entry, node, &seats->order) {
        if (count_of(&seats->counts, entry->address_key) < share || oldest[entry->stage]) {
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
    pthread_mutex_init(&caps->mutex, NULL);
    map_init(&caps->counts);
    caps->total = 0;
    caps->total_max = limits->connections_max;
    caps->address_max = limits->connections_per_address_max;
    caps->copies = 0;
    caps->files_max = limits->client_files_max ? limits->client_files_max : UINT32_MAX;
}

void http_caps_release(struct http_caps *caps, uint32_t lost)
{
    ASSERT(caps->total == lost && caps->copies == 0);

    map_release(&caps->counts);
    pthread_mutex_destroy(&caps->mutex);
}

enum http_cap http_caps_take(struct http_caps *caps, uint64_t address_key)
{
    enum http_cap cap = HTTP_CAP_OK;

    pthread_mutex_lock(&caps->mutex);

    uint32_t count = count_of(&caps->counts, address_key);

    if (caps->total >= caps->total_max || caps->total + caps->copies >= caps->files_max) {
        cap = HTTP_CAP_TOTAL;
    } else if (count >= caps->address_max) {
        cap = HTTP_CAP_ADDRESS;
    } else {
        caps->total++;
        set_count(&caps->counts, address_key, count + 1);
    }
    pthread_mutex_unlock(&caps->mutex);
    return cap;
}

void http_caps_give(struct http_caps *caps, uint64_t address_key)
{
    pthread_mutex_lock(&caps->mutex);

    uint32_t count = count_of(&caps->counts, address_key);

    ASSERT(count > 0 && caps->total > 0);
    caps->total--;
    set_count(&caps->counts, address_key, count - 1);
    pthread_mutex_unlock(&caps->mutex);
}

bool http_caps_take_copy(struct http_caps *caps)
{
    pthread_mutex_lock(&caps->mutex);

    bool fits = caps->total + caps->copies < caps->files_max;

    caps->copies += fits ? 1U : 0U;
    pthread_mutex_unlock(&caps->mutex);
    return fits;
}

void http_caps_give_copy(struct http_caps *caps)
{
    pthread_mutex_lock(&caps->mutex);
    ASSERT(caps->copies > 0);
    caps->copies--;
    pthread_mutex_unlock(&caps->mutex);
}
