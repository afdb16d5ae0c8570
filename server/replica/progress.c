#include "server/replica/progress.h"

#include "base/check.h"

static struct progress_mark *mark_at(struct progress *progress, uint64_t index)
{
    return &progress->marks[index % PROGRESS_MARKS];
}

void progress_note(struct progress *progress, zxid_t zxid, uint64_t now_ms)
{
    struct progress_mark *last =
        progress->count > 0 ? mark_at(progress, progress->count - 1) : NULL;

    if (zxid == 0 || (last && zxid <= last->upto)) {
        return;
    }
    if (last && last->ms == now_ms) {
        last->upto = zxid;
        return;
    }
    *mark_at(progress, progress->count++) = (struct progress_mark){.upto = zxid, .ms = now_ms};
}

/* Searches for the first mark that has reached the zxid; marks ascend. */
uint64_t progress_when(const struct progress *progress, zxid_t zxid)
{
    uint64_t end = progress->count;
    uint64_t from = end > PROGRESS_MARKS ? end - PROGRESS_MARKS : 0;

    if (end == 0 || progress->marks[(end - 1) % PROGRESS_MARKS].upto < zxid) {
        return 0;
    }
    end--;
    while (from < end) {
        uint64_t middle = from + (end - from) / 2;

        if (progress->marks[middle % PROGRESS_MARKS].upto < zxid) {
            from = middle + 1;
        } else {
            end = middle;
        }
    }
    ASSERT(from < progress->count);
    return progress->marks[from % PROGRESS_MARKS].ms;
}
