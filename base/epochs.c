#include "base/epochs.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/minmax.h"

#include <string.h>

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
