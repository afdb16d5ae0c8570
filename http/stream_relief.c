/* When unsent bytes, here and of WebSockets, exceed the budget: streams lose their queued events,
 * first those that have taken nothing for the longest time. They catch up when their clients read.
 * Streams that hold what cannot be replayed are closed. */
#include "base/mem.h"
#include "base/os_clock.h"
#include "http/stream.h"

#include <stdlib.h>

/* A stream with queued bytes. */
struct slow {
    struct http_stream *stream;
    uint64_t moved_ms;
    size_t bytes; /* Bytes that it holds: an event is held until all of it is sent. */
};

/* The longest without progress first, then the largest. */
static int compare(const void *a, const void *b)
{
    const struct slow *left = a;
    const struct slow *right = b;

    if (left->moved_ms != right->moved_ms) {
        return left->moved_ms < right->moved_ms ? -1 : 1;
    }
    return left->bytes == right->bytes ? 0 : left->bytes > right->bytes ? -1 : 1;
}

static bool look(struct watcher_client *client, struct slow *ret_slow)
{
    struct http_stream *stream = stream_of(client);

    if (!client->ops->is_stream || stream->state == STREAM_OPENING) {
        return false;
    }
    pthread_mutex_lock(&stream->mutex);
    *ret_slow = (struct slow){.stream = stream,
                              .moved_ms = stream->moved_ms,
                              .bytes = stream->queue.bytes + stream->queue.at};
    pthread_mutex_unlock(&stream->mutex);
    return ret_slow->bytes > 0;
}

/* Streams that have taken nothing for `grace_ms`, in order; the caller frees the array. */
static size_t find_slow(struct http_watcher *watcher, uint64_t grace_ms, struct slow **ret_all)
{
    uint64_t now_ms = os_now_ms();
    size_t cap = atomic_load(&watcher->slots);
    size_t count = 0;
    struct slow *all = mem_zalloc(cap, sizeof(*all));

    for (struct list *it = watcher->clients.next; it != &watcher->clients && count < cap;
         it = it->next) {
        struct watcher_client *client = list_entry(it, struct watcher_client, node);

        if (look(client, &all[count]) && all[count].moved_ms + grace_ms <= now_ms) {
            count++;
        }
    }
    qsort(all, count, sizeof(*all), compare);
    *ret_all = all;
    return count;
}

static void overrun_slowest(struct http_watcher *watcher, uint64_t grace_ms)
{
    const struct budget *budget = watcher_unsent(watcher);
    struct slow *all = NULL;
    size_t count = find_slow(watcher, grace_ms, &all);

    for (size_t i = 0; i < count && budget_used(budget) > budget->max / 2; i++) {
        if (&all[i].stream->client != watcher->gatherer) {
            stream_overrun(all[i].stream);
        }
    }
    mem_free(all);
}

/* While the budget is short, only streams that are clearly slow lose events. */
static void relieve_early(struct http_watcher *watcher)
{
    uint64_t now_ms = os_now_ms();

    if (now_ms >= watcher->early_ms) {
        watcher->early_ms = now_ms + STREAM_RELIEF_MS;
        overrun_slowest(watcher, STREAM_RELIEF_GRACE_MS);
    }
}

static void relieve(struct http_watcher *watcher)
{
    const struct budget *budget = watcher_unsent(watcher);
    uint64_t used = budget_used(budget);
    uint64_t now_ms = os_now_ms();

    if (now_ms >= watcher->relief_ms) {
        overrun_slowest(watcher, 0);
        watcher->relief_ms = budget_used(budget) < used ? now_ms : now_ms + STREAM_RELIEF_MS;
    }
}

bool stream_relief_finds_room(struct http_watcher *watcher)
{
    const struct budget *budget = watcher_unsent(watcher);

    if (budget_level(budget) != BUDGET_FULL) {
        return true;
    }
    relieve(watcher);
    return budget_level(budget) != BUDGET_FULL;
}

static void cut_off_slowest(struct http_watcher *watcher)
{
    const struct budget *budget = watcher_unsent(watcher);
    struct slow *all = NULL;
    size_t count = find_slow(watcher, STREAM_RELIEF_CLOSE_MS, &all);

    for (size_t i = 0; i < count && budget_level(budget) == BUDGET_FULL; i++) {
        if (all[i].bytes >= STREAM_RELIEF_BYTES) {
            metric_add(&watcher->metrics.slow, 1);
            stream_cut_off(all[i].stream);
        }
    }
    mem_free(all);
}

void stream_relief(struct http_watcher *watcher)
{
    enum budget_level level = budget_level(watcher_unsent(watcher));

    if (level == BUDGET_SHORT) {
        relieve_early(watcher);
    } else if (level == BUDGET_FULL && !stream_relief_finds_room(watcher)) {
        cut_off_slowest(watcher);
    }
}
