#include "base/blob.h"

#include "base/check.h"
#include "base/mem.h"

struct blob *blob_alloc(uint32_t len)
{
    struct blob *blob = mem_alloc(sizeof(*blob) + len);

    atomic_init(&blob->refs, 1);
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

    /* Release orders our reads before the free, acquire orders the free after everybody's. */
    uint32_t before = atomic_fetch_sub_explicit(&blob->refs, 1, memory_order_acq_rel);

    ASSERT(before > 0);
    if (before == 1) {
        mem_free(blob);
    }
}
