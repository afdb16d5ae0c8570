#include "zab/trail.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/probe.h"

enum {
    RING_CAP_START = 64
};

static bool is_sound(const struct trail *trail)
{
    return trail->base <= trail->durable && trail->durable <= trail->last &&
           trail->ring_count <= trail->ring_cap && (trail->ring_cap & (trail->ring_cap - 1)) == 0;
}

void trail_init(struct trail *trail, uint32_t cache_max, uint64_t cache_bytes_max)
{
    ASSERT(cache_max > 0);

    *trail = (struct trail){.cache_max = cache_max, .cache_bytes_max = cache_bytes_max};
    trail->ring_cap = RING_CAP_START;
    trail->ring = mem_zalloc(trail->ring_cap, sizeof trail->ring[0]);
}

static struct trail_slot *slot_at(const struct trail *trail, uint32_t index)
{
    ASSERT(index < trail->ring_count);

    return &trail->ring[(trail->ring_head + index) & (trail->ring_cap - 1)];
}

static void ring_clear(struct trail *trail)
{
    for (uint32_t i = 0; i < trail->ring_count; i++) {
        logrec_unref(slot_at(trail, i)->rec);
    }
    trail->ring_count = 0;
    trail->ring_bytes = 0;
    trail->volatile_bytes = 0;
}

void trail_release(struct trail *trail)
{
    ASSERT(is_sound(trail));

    ring_clear(trail);
    mem_free(trail->ring);
    epochs_release(&trail->epochs);
    *trail = (struct trail){0};
}

void trail_reset(struct trail *trail, zxid_t base, uint64_t chain)
{
    ring_clear(trail);
    trail->base = base;
    trail->last = base;
    trail->durable = base;
    trail->last_chain = chain;
    epochs_clear(&trail->epochs);
    ASSERT(is_sound(trail));
}

void trail_load(struct trail *trail, zxid_t base, zxid_t last, uint64_t chain,
                const struct epoch_range *ranges, uint32_t count)
{
    ASSERT(last >= base);
    ASSERT(count > 0 || last == base);

    trail_reset(trail, base, chain);
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(i == 0 || ranges[i - 1].epoch < ranges[i].epoch);
        epochs_add(&trail->epochs, ranges[i]);
    }
    trail->last = last;
    trail->durable = last;
    ASSERT(count == 0 || zxid_make(ranges[count - 1].epoch, ranges[count - 1].last) == last);
    ASSERT(is_sound(trail));
}

/* Adds a zxid to the ranges: the next counter, or a new epoch from its start (local and global
 * primary order, A9 and A10 in tests/sim/README.md). */
static void epochs_append(struct trail *trail, zxid_t zxid)
{
    uint32_t epoch = zxid_epoch(zxid);
    uint32_t counter = zxid_counter(zxid);

    ASSERT(zxid > trail->last);
    ASSERT(epoch > zxid_epoch(trail->last) ? counter == 0
                                           : counter == zxid_counter(trail->last) + 1);
    epochs_add(&trail->epochs,
               (struct epoch_range){.epoch = epoch, .first = counter, .last = counter});
}

static void ring_grow(struct trail *trail)
{
    ASSERT(trail->ring_count == trail->ring_cap);

    uint32_t cap = trail->ring_cap * 2;
    struct trail_slot *ring = mem_zalloc(cap, sizeof ring[0]);

    for (uint32_t i = 0; i < trail->ring_count; i++) {
        ring[i] = *slot_at(trail, i);
    }
    mem_free(trail->ring);
    trail->ring = ring;
    trail->ring_cap = cap;
    trail->ring_head = 0;
}

void trail_append(struct trail *trail, struct logrec *rec, uint64_t token)
{
    ASSERT(rec->prev == trail->last);
    ASSERT(rec->zxid > trail->last);

    epochs_append(trail, rec->zxid);
    if (trail->ring_count == trail->ring_cap) {
        ring_grow(trail);
    }
    trail->ring_count++;
    *slot_at(trail, trail->ring_count - 1) =
        (struct trail_slot){.rec = logrec_ref(rec), .token = token};
    trail->ring_bytes += rec->len;
    trail->volatile_bytes += rec->len;
    trail->last = rec->zxid;
    trail->last_chain = rec->chain;
    ASSERT(trail->durable < trail->last);
    ASSERT(is_sound(trail));
}

/* Returns the ring index of the first record after `zxid`; ring_count when there is none. */
static uint32_t ring_upper(const struct trail *trail, zxid_t zxid)
{
    uint32_t low = 0;
    uint32_t high = trail->ring_count;
    uint64_t back = trail->last - zxid; /* Huge when `zxid` is after the last record. */

    /* The counters of an epoch have no gaps, so nearly always this is the record. A search has a
     * cache miss at each step. */
    if (back < high && slot_at(trail, high - 1 - (uint32_t)back)->rec->zxid == zxid) {
        return high - (uint32_t)back;
    }
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (slot_at(trail, mid)->rec->zxid <= zxid) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

bool trail_persisted(struct trail *trail, uint64_t token)
{
    zxid_t before = trail->durable;

    for (uint32_t i = ring_upper(trail, trail->durable); i < trail->ring_count; i++) {
        const struct trail_slot *slot = slot_at(trail, i);

        if (slot->token > token) {
            break;
        }
        trail->durable = slot->rec->zxid;
        ASSERT(trail->volatile_bytes >= slot->rec->len);
        trail->volatile_bytes -= slot->rec->len;
    }
    return trail->durable != before;
}

bool trail_truncate(struct trail *trail, zxid_t zxid)
{
    ASSERT(trail_has(trail, zxid));

    const struct logrec *rec = trail_find(trail, zxid);
    bool known = zxid == trail->last || rec != NULL;

    if (rec) {
        trail->last_chain = rec->chain;
    }
    uint32_t keep = ring_upper(trail, zxid);

    while (trail->ring_count > keep) {
        struct trail_slot *slot = slot_at(trail, trail->ring_count - 1);

        ASSERT(trail->ring_bytes >= slot->rec->len);
        trail->ring_bytes -= slot->rec->len;
        trail->volatile_bytes -= slot->rec->zxid > trail->durable ? slot->rec->len : 0;
        logrec_unref(slot->rec);
        trail->ring_count--;
    }
    epochs_cut(&trail->epochs, zxid);
    trail->last = zxid;
    trail->durable = min_u64(trail->durable, zxid);
    ASSERT(is_sound(trail));
    return known;
}

void trail_purge(struct trail *trail, zxid_t base)
{
    if (base <= trail->base) {
        return;
    }
    ASSERT(trail_has(trail, base));

    epochs_drop_upto(&trail->epochs, base);
    trail->base = base;
    ASSERT(is_sound(trail));
}

static bool ranges_have(const struct epoch_range *ranges, size_t count, zxid_t base, zxid_t zxid)
{
    if (zxid == base) {
        return true;
    }
    for (size_t i = count; i-- > 0;) {
        if (ranges[i].epoch == zxid_epoch(zxid)) {
            return ranges[i].first <= zxid_counter(zxid) && zxid_counter(zxid) <= ranges[i].last;
        }
    }
    return false;
}

bool trail_has(const struct trail *trail, zxid_t zxid)
{
    return ranges_have(trail->epochs.ranges, trail->epochs.count, trail->base, zxid);
}

struct logrec *trail_after(const struct trail *trail, zxid_t zxid)
{
    uint32_t index = ring_upper(trail, zxid);

    if (index == trail->ring_count) {
        return NULL;
    }
    struct logrec *rec = slot_at(trail, index)->rec;

    ASSERT(rec->zxid > zxid);
    return rec->prev == zxid ? rec : NULL;
}

struct logrec *trail_find(const struct trail *trail, zxid_t zxid)
{
    uint32_t index = ring_upper(trail, zxid);

    if (index == 0) {
        return NULL;
    }
    struct logrec *rec = slot_at(trail, index - 1)->rec;

    ASSERT(rec->zxid <= zxid);
    return rec->zxid == zxid ? rec : NULL;
}

void trail_shrink(struct trail *trail, zxid_t keep)
{
    zxid_t limit = min_u64(keep, trail->durable);
    ASSERT(limit <= trail->last);

    while (trail->ring_count > trail->cache_max || trail->ring_bytes > trail->cache_bytes_max) {
        struct trail_slot *slot = slot_at(trail, 0);

        if (slot->rec->zxid > limit) {
            return;
        }
        PROBE("zab.cache_evicts");
        ASSERT(trail->ring_bytes >= slot->rec->len);
        trail->ring_bytes -= slot->rec->len;
        logrec_unref(slot->rec);
        trail->ring_head = (trail->ring_head + 1) & (trail->ring_cap - 1);
        trail->ring_count--;
        if (trail->ring_count == 0) {
            return;
        }
    }
}

/* Finds the newest common zxid inside ranges of the same epoch, the highest such epoch first. */
static bool common_in_ranges(const struct trail *trail, const struct epoch_range *ranges,
                             uint32_t count, zxid_t *ret_common)
{
    for (size_t i = trail->epochs.count; i-- > 0;) {
        const struct epoch_range *ours = &trail->epochs.ranges[i];

        for (uint32_t j = count; j-- > 0 && ranges[j].epoch >= ours->epoch;) {
            const struct epoch_range *theirs = &ranges[j];

            if (theirs->epoch != ours->epoch) {
                continue;
            }
            uint32_t last = min_u32(ours->last, theirs->last);
            uint32_t first = max_u32(ours->first, theirs->first);

            if (last >= first) {
                ASSERT(trail_has(trail, zxid_make(ours->epoch, last)));
                *ret_common = zxid_make(ours->epoch, last);
                return true;
            }
        }
    }
    return false;
}

enum err trail_common(const struct trail *trail, const struct epoch_range *ranges, uint32_t count,
                      zxid_t base, zxid_t *ret_common)
{
    zxid_t common = 0;
    bool found = common_in_ranges(trail, ranges, count, &common);

    /* A base is a committed zxid: each log that holds the base, or starts from it, has the same
     * records before it. */
    if (trail_has(trail, base) && (!found || base > common)) {
        common = base;
        found = true;
    }
    if (ranges_have(ranges, count, base, trail->base) && (!found || trail->base > common)) {
        common = trail->base;
        found = true;
    }
    if (!found || common < trail->base) {
        return ERR_MISSING;
    }
    ASSERT(trail_has(trail, common) && common <= trail->last);
    *ret_common = common;
    return ERR_OK;
}
