/*
 * Counts connections, in total and per address. A client that waits for changes over HTTP uses a
 * second descriptor of its connection (see watcher.h). Both count in one limit, so that no mix of
 * clients takes the descriptors that storage and the other replicas need.
 *
 */
#include "base/check.h"
#include "http/http_int.h"

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

static void *as_value(uintptr_t count)
{
    return (void *)count; // NOLINT(performance-no-int-to-ptr): a count, never followed.
}

enum http_cap http_caps_take(struct http_caps *caps, uint64_t address_key)
{
    enum http_cap cap = HTTP_CAP_OK;

    pthread_mutex_lock(&caps->mutex);

    uintptr_t count = (uintptr_t)map_get_u64(&caps->counts, address_key);

    if (caps->total >= caps->total_max || caps->total + caps->copies >= caps->files_max) {
        cap = HTTP_CAP_TOTAL;
    } else if (count >= caps->address_max) {
        cap = HTTP_CAP_ADDRESS;
    } else {
        caps->total++;
        map_put_u64(&caps->counts, address_key, as_value(count + 1));
    }
    pthread_mutex_unlock(&caps->mutex);
    return cap;
}

void http_caps_give(struct http_caps *caps, uint64_t address_key)
{
    pthread_mutex_lock(&caps->mutex);

    uintptr_t count = (uintptr_t)map_get_u64(&caps->counts, address_key);

    ASSERT(count > 0 && caps->total > 0);
    caps->total--;
    if (count == 1) {
        map_remove_u64(&caps->counts, address_key);
    } else {
        map_put_u64(&caps->counts, address_key, as_value(count - 1));
    }
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
