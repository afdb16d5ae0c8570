/*
 * blob.h - immutable bytes with a reference count, shared between threads.
 *
 * A znode's data is a blob, so that a reader takes a reference under the tree's lock and sends the
 * bytes after it has let go, without a copy.
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

/* A new blob with one reference. The second form leaves the bytes for the caller to fill. */
struct blob *blob_new(struct slice bytes);
struct blob *blob_alloc(uint32_t len);

/* Adds a reference and returns the blob; accepts NULL. Any thread. */
struct blob *blob_ref(struct blob *blob);

/* Drops a reference; the last one frees. Accepts NULL. Any thread. */
void blob_unref(struct blob *blob);

/*
 * A reference that waits for a client. While a blob has pins its bytes count in `budget`, once,
 * however many there are: a reader that takes nothing keeps a value alive after it was replaced.
 * All pins of one blob use the same budget. blob_unpin drops the reference, too. Both accept NULL;
 * any thread. The second form returns NULL, without a reference, when the budget has no room.
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
