/* Idempotency keys whose writes are in flight, and the total of remembered results. */
#include "base/check.h"
#include "base/wire.h"
#include "server/prepare/overlay_int.h"

enum {
    NAME_MAX = 4 + TXN_SCOPE_MAX + TXN_KEY_MAX
};

struct key_name {
    uint8_t bytes[NAME_MAX];
};

/* Starts with the length of the scope, so that no two pairs have the same name. */
static struct slice name_of(struct key_name *name, struct slice scope, struct slice key)
{
    size_t len = 4;

    ASSERT(scope.len <= TXN_SCOPE_MAX && key.len <= TXN_KEY_MAX);
    wire_store_u32(name->bytes, (uint32_t)scope.len);
    if (scope.len > 0) {
        memcpy(name->bytes + len, scope.data, scope.len);
        len += scope.len;
    }
    if (key.len > 0) {
        memcpy(name->bytes + len, key.data, key.len);
        len += key.len;
    }
    return slice_make(name->bytes, len);
}

const uint8_t *overlay_key(const struct overlay *overlay, struct slice scope, struct slice key)
{
    struct key_name name;
    const struct overlay_entry *entry =
        overlay_find(overlay, OVERLAY_KEY, name_of(&name, scope, key));

    return entry != NULL ? entry->value.key.fingerprint : NULL;
}

void overlay_put_key(struct overlay *overlay, zxid_t zxid, const struct txn_remember *remember)
{
    static const union overlay_value nothing;
    union overlay_value value = nothing;
    struct key_name name;
    struct overlay_entry *entry =
        overlay_add(overlay, OVERLAY_KEY, name_of(&name, remember->scope, remember->key), &nothing);

    memcpy(value.key.fingerprint, remember->fingerprint, TXN_FINGERPRINT_LEN);
    overlay_change(overlay, entry, zxid, &value);
}

/* ---- The total of remembered results: one entry. ---- */

static struct overlay_entry *find_memory(const struct overlay *overlay)
{
    return overlay_find(overlay, OVERLAY_MEMORY, slice_str("memory"));
}

void overlay_memory(const struct overlay *overlay, const struct state *state,
                    struct overlay_memory *ret_memory)
{
    const struct overlay_entry *entry = find_memory(overlay);

    *ret_memory = entry != NULL ? entry->value.memory
                                : (struct overlay_memory){.count = state_remembered_count(state),
                                                          .bytes = state_remembered_bytes(state)};
}

void overlay_put_memory(struct overlay *overlay, zxid_t zxid, const struct overlay_memory *memory)
{
    static const union overlay_value nothing;
    const union overlay_value value = {.memory = *memory};
    struct overlay_entry *entry = find_memory(overlay);

    if (entry == NULL) {
        entry = overlay_add(overlay, OVERLAY_MEMORY, slice_str("memory"), &nothing);
    }
    overlay_change(overlay, entry, zxid, &value);
}
