#include "base/blob.h"

#include "base/check.h"
#include "base/mem.h"

struct blob *blob_alloc(uint32_t len)
{
    struct blob *blob = mem_alloc(sizeof(*blob) + len);

    atomic_init(&blob->refs, 1);
    atomic_init(&blob->pins, 0);
    blob->len = len;
    return blob;
}

struct blob *blob_new(struct slice bytes)
{
    ASSERT(bytes.len <= UINT32_MAX);

    struct blob *blob = blob_alloc((uint32_t)bytes.len);

    if (bytes.len) {
        memcpy(blob->data, bytes.data, bytes.len);
    }
    return blob;
}

struct blob *blob_ref(struct blob *blob)
{
    if (blob) {
        uint32_t before = atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);

        ASSERT(before > 0 && before < UINT32_MAX);
    }
    return blob;
}

void blob_unref(struct blob *blob)
{
    if (!blob) {
        return;
    }

    /* Release orders our reads before the free; acquire orders the free after the reads of all
     * threads. */
    uint32_t before = atomic_fetch_sub_explicit(&blob->refs, 1, memory_order_acq_rel);

    ASSERT(before > 0);
    if (before == 1) {
        mem_free(blob);
    }
}

/* Adds a pin. True for the first pin, which makes the blob count in the budget. */
static bool add_pin(struct blob *blob)
{
    uint32_t before = atomic_fetch_add_explicit(&blob->pins, 1, memory_order_relaxed);

    ASSERT(before < UINT32_MAX);
    return before == 0;
}

static bool drop_pin(struct blob *blob)
{
    uint32_t before = atomic_fetch_sub_explicit(&blob->pins, 1, memory_order_relaxed);

    ASSERT(before > 0);
    return before == 1;
}

struct blob *blob_pin(struct blob *blob, struct budget *budget)
{
    if (blob && add_pin(blob)) {
        budget_take(budget, blob->len);
    }
    return blob_ref(blob);
}

struct blob *blob_try_pin(struct blob *blob, struct budget *budget)
{
    if (blob && add_pin(blob) && !budget_try_take(budget, blob->len)) {
        /* Another thread may have pinned the blob meanwhile, without counting the bytes, because
         * its pin was not the first. So the bytes are counted here, even above the maximum: they
         * are given back if our pin was the only one, and stay counted for the other pin if not. */
        budget_take(budget, blob->len);
        if (drop_pin(blob)) {
            budget_give(budget, blob->len);
        }
        return NULL;
    }
    return blob_ref(blob);
}

void blob_unpin(struct blob *blob, struct budget *budget)
{
    if (blob && drop_pin(blob)) {
        budget_give(budget, blob->len);
    }
    blob_unref(blob);
}
