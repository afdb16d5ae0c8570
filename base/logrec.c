#include "base/logrec.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"

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
