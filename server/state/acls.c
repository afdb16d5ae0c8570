#include "base/hash.h"
#include "server/state/state_int.h"

enum {
    SEED_ACL = 0x61636c /* Gives an ACL another hash than data with the same bytes. */
};

void acls_init(struct acls *acls)
{
    *acls = (struct acls){.count = 1};
    map_init(&acls->by_bytes);
    list_init(&acls->idle);
}

static void free_acl(struct acl *acl)
{
    blob_unref(acl->blob);
    mem_free(acl);
}

void acls_release(struct acls *acls)
{
    for (uint32_t i = 1; i < acls->count; i++) {
        if (acls->slots[i] != NULL) {
            free_acl(acls->slots[i]);
        }
    }
    mem_free(acls->slots);
    mem_free(acls->free);
    map_release(&acls->by_bytes);
}

static struct acl *at(const struct acls *acls, uint32_t index)
{
    ASSERT(index > 0 && index < acls->count && acls->slots[index] != NULL);

    return acls->slots[index];
}

static uint32_t take_index(struct acls *acls)
{
    if (acls->free_count > 0) {
        return acls->free[--acls->free_count];
    }
    if (acls->count >= acls->cap) {
        acls->cap = (uint32_t)mem_cap_next(acls->cap, MEM_ITEMS_MAX);
        acls->slots = mem_resize(acls->slots, acls->cap, sizeof(struct acl *));
        acls->free = mem_resize(acls->free, acls->cap, sizeof(*acls->free));
    }
    return acls->count++;
}

uint32_t acls_intern(struct acls *acls, struct slice bytes)
{
    if (bytes.len == 0) {
        return 0;
    }
    struct acl *acl = map_get(&acls->by_bytes, bytes);

    if (acl != NULL) {
        return acl->index;
    }
    acl = mem_zalloc(1, sizeof(*acl));
    acl->blob = blob_new(bytes);
    acl->hash = hash64(SEED_ACL, bytes);
    acl->index = take_index(acls);
    acls->slots[acl->index] = acl;
    list_push_back(&acls->idle, &acl->idle);
    map_put(&acls->by_bytes, blob_slice(acl->blob), acl);
    return acl->index;
}

void acls_ref(struct acls *acls, uint32_t index)
{
    if (index > 0) {
        struct acl *acl = at(acls, index);

        ASSERT(acl->refs < UINT32_MAX);
        acls->cost += acl->refs == 0 ? cost_acl(acl->blob->len) : 0;
        acl->refs++;
    }
}

void acls_unref(struct acls *acls, uint32_t index)
{
    if (index == 0) {
        return;
    }
    struct acl *acl = at(acls, index);

    ASSERT(acl->refs > 0);
    acl->refs--;
    ASSERT(acls->cost >= cost_acl(acl->blob->len));
    acls->cost -= acl->refs == 0 ? cost_acl(acl->blob->len) : 0;
    if (acl->refs == 0 && list_empty(&acl->idle)) {
        list_push_back(&acls->idle, &acl->idle);
    }
}

void acls_collect(struct acls *acls)
{
    list_take_each (struct acl, acl, idle, &acls->idle) {
        if (acl->refs > 0) {
            continue;
        }
        map_remove(&acls->by_bytes, blob_slice(acl->blob));
        acls->slots[acl->index] = NULL;
        acls->free[acls->free_count++] = acl->index;
        free_acl(acl);
    }
}

bool state_has_acl(const struct state *state, struct slice acl)
{
    const struct acl *known = acl.len > 0 ? map_get(&state->acls.by_bytes, acl) : NULL;

    return acl.len == 0 || (known != NULL && known->refs > 0);
}

struct blob *acls_blob(const struct acls *acls, uint32_t index)
{
    return index > 0 ? at(acls, index)->blob : NULL;
}

uint64_t acls_hash(const struct acls *acls, uint32_t index)
{
    return index > 0 ? at(acls, index)->hash : 0;
}
