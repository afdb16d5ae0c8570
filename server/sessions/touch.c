#include "server/sessions/touch.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <string.h>

enum {
    IDS_CAP_MIN = 64,
    SLOTS_PER_ID = 2 /* Half of the slots stay free. */
};

/* The ids of one interval in order of arrival, and a hash table of their indexes. */
struct touched {
    uint64_t *ids;
    uint32_t *slots; /* SLOTS_PER_ID * cap slots, a power of two: index of an id plus 1; 0: free. */
    size_t count;
    size_t cap;
};

struct touch_set {
    size_t ids_max;
    _Atomic uint64_t touches;
    pthread_mutex_t mutex; /* Guards `now`. */
    struct touched now;
    struct touched taken; /* Used by the core thread only. */
};

struct touch_set *touch_set_new(size_t ids_max)
{
    struct touch_set *set = mem_zalloc(1, sizeof(*set));

    ASSERT(ids_max > 0 && ids_max <= UINT32_MAX / SLOTS_PER_ID);
    set->ids_max = ids_max;
    mutex_init(&set->mutex);
    return set;
}

void touch_set_free(struct touch_set *set)
{
    if (set == NULL) {
        return;
    }
    mutex_destroy(&set->mutex);
    mem_free(set->now.ids);
    mem_free(set->now.slots);
    mem_free(set->taken.ids);
    mem_free(set->taken.slots);
    mem_free(set);
}

/* Returns the slot that holds the id, or the free slot where the id belongs. */
static uint32_t *find(const struct touched *touched, uint64_t id)
{
    size_t mask = touched->cap * SLOTS_PER_ID - 1;
    /* Ids are zxids, which are close together; the multiplication spreads them over the slots. */
    size_t at = (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;

    while (touched->slots[at] != 0 && touched->ids[touched->slots[at] - 1] != id) {
        at = (at + 1) & mask;
    }
    return &touched->slots[at];
}

static void grow(struct touched *touched)
{
    touched->cap = touched->cap > 0 ? touched->cap * 2 : IDS_CAP_MIN;
    touched->ids = mem_realloc(touched->ids, touched->cap * sizeof(uint64_t));
    mem_free(touched->slots);
    touched->slots = mem_zalloc(touched->cap * SLOTS_PER_ID, sizeof(uint32_t));
    for (size_t i = 0; i < touched->count; i++) {
        *find(touched, touched->ids[i]) = (uint32_t)i + 1;
    }
}

/* Adds an id. Returns false when the id is not in the set and there is no room for it. */
static bool add(struct touched *touched, uint64_t id, size_t ids_max)
{
    if (touched->count == touched->cap) {
        grow(touched);
    }
    uint32_t *slot = find(touched, id);

    if (*slot != 0) {
        return true;
    }
    if (touched->count == ids_max) {
        return false;
    }
    touched->ids[touched->count++] = id;
    *slot = (uint32_t)touched->count;
    return true;
}

bool touch_add(struct touch_set *set, uint64_t session)
{
    ASSERT(session != 0);
    atomic_fetch_add_explicit(&set->touches, 1, memory_order_relaxed);
    MUTEX_HOLD(&set->mutex);
    return add(&set->now, session, set->ids_max);
}

uint64_t touch_count(const struct touch_set *set)
{
    return atomic_load_explicit(&set->touches, memory_order_relaxed);
}

const uint64_t *touch_take(struct touch_set *set, size_t *ret_count)
{
    struct touched empty = set->taken;

    empty.count = 0;
    if (empty.slots != NULL) {
        memset(empty.slots, 0, empty.cap * SLOTS_PER_ID * sizeof(uint32_t));
    }
    mutex_lock(&set->mutex);
    set->taken = set->now;
    set->now = empty;
    mutex_unlock(&set->mutex);
    *ret_count = set->taken.count;
    return set->taken.ids;
}
