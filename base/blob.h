/*
 * blob.h - immutable bytes with a reference count, shared between threads.
 *
 * A znode's data is a blob. So a reader takes a reference under the tree's lock, releases the lock,
 * and sends the bytes without a copy.
 */
#ifndef BASE_BLOB_H
#define BASE_BLOB_H

#include "base/budget.h"
#include "base/slice.h"

#include <stdatomic.h>
#include <stdint.h>

struct blob {
    _Atomic uint32_t refs;
    _Atomic uint32_t pins; /* References of answers that wait to be sent. */
    uint32_t len;          /* Bytes in `data`. */
    uint8_t data[];        /* Never changed once the blob is shared. */
};

/* Returns a new blob with one reference. blob_alloc leaves the bytes for the caller to fill. */
struct blob *blob_new(struct slice bytes);
struct blob *blob_alloc(uint32_t len);

/* Adds a reference and returns the blob; accepts NULL. Any thread. */
struct blob *blob_ref(struct blob *blob);

/* Drops a reference; the last one frees. Accepts NULL. Any thread. */
void blob_unref(struct blob *blob);

/*
 * Takes a reference for bytes that wait for a client, and pins the blob. While a blob has pins, its
 * bytes count in `budget`, once for all pins. They count because a client that reads nothing keeps
 * a value in memory even after the znode's data was replaced. All pins of one blob use the same
 * budget. blob_try_pin returns NULL, without a reference, when the budget has no room. blob_unpin
 * drops the reference, too. All three accept NULL; any thread.
 */
struct blob *blob_pin(struct blob *blob, struct budget *budget);
struct blob *blob_try_pin(struct blob *blob, struct budget *budget);
void blob_unpin(struct blob *blob, struct budget *budget);

/* NULL gives an empty slice. */
static inline struct slice blob_slice(const struct blob *blob)
{
    return blob ? slice_make(blob->data, blob->len) : slice_make(NULL, 0);
}

#endif
