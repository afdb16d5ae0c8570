/*
 * acls_int.h - the table of access control lists: each one is kept once, and znodes hold its index.
 *
 * An index is valid in this process only: it depends on what was freed before, so neither the
 * digest nor a snapshot holds one. A list without users is freed by the next acls_collect only, so
 * that a rollback, and changes that were handed out, still find it.
 */
#ifndef SERVER_STATE_ACLS_INT_H
#define SERVER_STATE_ACLS_INT_H

#include "base/blob.h"
#include "base/list.h"
#include "base/map.h"

struct acl {
    struct blob *blob; /* The encoded list, one reference. */
    uint64_t hash;     /* Of its bytes, for the digest. */
    uint32_t refs;     /* Znodes in the tree that have it. */
    uint32_t index;
    struct list idle; /* In acls.idle when it may have no users. */
};

struct acls {
    struct acl **slots; /* By index; NULL when free; the first one is never used. */
    uint32_t *free;     /* Free indices below `count`. */
    uint32_t free_count;
    uint32_t count; /* Indices given so far, and 0. */
    uint32_t cap;
    struct map by_bytes;
    struct list idle;
    uint64_t cost; /* Of those with users (cost.h). */
};

void acls_init(struct acls *acls);
void acls_release(struct acls *acls);

/* The index of these bytes, 0 for none; not a reference yet. */
uint32_t acls_intern(struct acls *acls, struct slice bytes);

/* One more or one less znode has it; no effect for 0. */
void acls_ref(struct acls *acls, uint32_t index);
void acls_unref(struct acls *acls, uint32_t index);

/* Frees the lists without users. */
void acls_collect(struct acls *acls);

/* Whether a znode has the list of these bytes; an open list costs nothing and counts as known. */
bool acls_has(const struct acls *acls, struct slice bytes);

/* The list at an index; NULL and 0 for 0. */
struct blob *acls_blob(const struct acls *acls, uint32_t index);
uint64_t acls_hash(const struct acls *acls, uint32_t index);

#endif
