#include "base/logrec.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/minmax.h"

struct logrec *logrec_new(enum logrec_type type, zxid_t zxid, zxid_t prev, uint64_t prev_chain,
                          struct slice payload)
{
    ASSERT(payload.len <= UINT32_MAX);
    ASSERT(prev < zxid);

    struct logrec *rec = mem_alloc(sizeof(*rec) + payload.len);

    atomic_init(&rec->refs, 1);
    rec->len = (uint32_t)payload.len;
    rec->zxid = zxid;
    rec->prev = prev;
    rec->chain = logrec_chain(prev_chain, type, zxid, prev, payload);
    rec->type = type;
    if (payload.len) {
        memcpy(rec->payload, payload.data, payload.len);
    }
    return rec;
}

struct logrec *logrec_ref(struct logrec *rec)
{
    uint32_t before = atomic_fetch_add_explicit(&rec->refs, 1, memory_order_relaxed);

    ASSERT(before > 0 && before < UINT32_MAX);
    return rec;
}

void logrec_unref(struct logrec *rec)
{
    if (!rec) {
        return;
    }

    uint32_t before = atomic_fetch_sub_explicit(&rec->refs, 1, memory_order_acq_rel);

    ASSERT(before > 0);
    if (before == 1) {
        mem_free(rec);
    }
}

uint64_t logrec_chain(uint64_t prev_chain, enum logrec_type type, zxid_t zxid, zxid_t prev,
                      struct slice payload)
{
    uint64_t chain = hash64_mix(prev_chain, (uint64_t)type);

    chain = hash64_mix(chain, zxid);
    chain = hash64_mix(chain, prev);
    return hash64(chain, payload);
}

/* ---- Epochs. ---- */

void epochs_release(struct epochs *epochs)
{
    mem_free(epochs->ranges);
    *epochs = (struct epochs){0};
}

void epochs_clear(struct epochs *epochs)
{
    epochs->count = 0;
}

void epochs_add(struct epochs *epochs, struct epoch_range range)
{
    struct epoch_range *last = epochs->count ? &epochs->ranges[epochs->count - 1] : NULL;

    ASSERT(range.first <= range.last);
    if (last && last->epoch == range.epoch) {
        ASSERT(range.first > last->last);
        last->last = range.last;
        return;
    }
    ASSERT(!last || last->epoch < range.epoch);
    MEM_GROW(epochs->ranges, epochs->count, epochs->cap, UINT32_MAX);
    ASSERT(epochs->ranges);
    epochs->ranges[epochs->count++] = range;
}

void epochs_cut(struct epochs *epochs, zxid_t zxid)
{
    while (epochs->count > 0) {
        struct epoch_range *last = &epochs->ranges[epochs->count - 1];

        if (zxid_make(last->epoch, last->first) <= zxid) {
            if (last->epoch == zxid_epoch(zxid) && last->last > zxid_counter(zxid)) {
                last->last = zxid_counter(zxid);
            }
            return;
        }
        epochs->count--;
    }
}

void epochs_drop_upto(struct epochs *epochs, zxid_t zxid)
{
    size_t gone = 0;

    while (gone < epochs->count &&
           zxid_make(epochs->ranges[gone].epoch, epochs->ranges[gone].last) <= zxid) {
        gone++;
    }
    epochs->count -= gone;
    if (epochs->count == 0) {
        return;
    }
    memmove(epochs->ranges, epochs->ranges + gone, epochs->count * sizeof(*epochs->ranges));
    if (epochs->ranges[0].epoch == zxid_epoch(zxid)) {
        epochs->ranges[0].first = max_u32(epochs->ranges[0].first, zxid_counter(zxid) + 1);
    }
}
