#include "server/prepare/growth.h"

#include "base/check.h"
#include "base/mem.h"

enum {
    CAP_MIN = 64
};

void growth_init(struct growth *growth)
{
    *growth = (struct growth){0};
}

void growth_release(struct growth *growth)
{
    mem_free(growth->ring);
    growth_init(growth);
}

void growth_clear(struct growth *growth)
{
    growth->first = 0;
    growth->count = 0;
    growth->in_flight = 0;
}

void growth_begin(struct growth *growth)
{
    growth->request = 0;
    growth->answer = 0;
}

uint64_t growth_of_request(const struct growth *growth)
{
    int64_t bytes = growth->request + (int64_t)growth->answer;

    return bytes > 0 ? (uint64_t)bytes : 0;
}

static struct growth_entry *entry_at(struct growth *growth, size_t i)
{
    return &growth->ring[(growth->first + i) & (growth->cap - 1)];
}

/* Proposals in flight are bounded, and so is the ring. */
static void grow(struct growth *growth)
{
    struct growth wider = *growth;

    wider.cap = growth->cap > 0 ? growth->cap * 2 : CAP_MIN;
    wider.first = 0;
    wider.ring = mem_alloc(wider.cap * sizeof(*wider.ring));
    for (size_t i = 0; i < growth->count; i++) {
        wider.ring[i] = *entry_at(growth, i);
    }
    mem_free(growth->ring);
    *growth = wider;
}

void growth_commit(struct growth *growth, zxid_t zxid)
{
    uint64_t bytes = growth_of_request(growth);

    if (bytes == 0) {
        return;
    }
    if (growth->count == growth->cap) {
        grow(growth);
    }
    ASSERT(growth->count == 0 || entry_at(growth, growth->count - 1)->zxid < zxid);
    *entry_at(growth, growth->count++) = (struct growth_entry){.zxid = zxid, .bytes = bytes};
    growth->in_flight += bytes;
}

void growth_applied(struct growth *growth, zxid_t zxid)
{
    while (growth->count > 0 && entry_at(growth, 0)->zxid <= zxid) {
        ASSERT(growth->in_flight >= entry_at(growth, 0)->bytes);
        growth->in_flight -= entry_at(growth, 0)->bytes;
        growth->first = (growth->first + 1) & (growth->cap - 1);
        growth->count--;
    }
    ASSERT(growth->count > 0 || growth->in_flight == 0);
}
