/*
 * migrate_index.h - what the target of a migration has: for each znode, by a hash of its path, a
 * digest of data and ACL, and its count of creates. 24 bytes a znode, in a table that is at most
 * three quarters full. Pure.
 *
 * The index also knows which of these znodes the source had at any time of this run. Only they may
 * follow the source when it deletes them: all others belong to clients of the target.
 */
#ifndef CLI_MIGRATE_INDEX_H
#define CLI_MIGRATE_INDEX_H

#include "base/slice.h"

struct migrate_entry {
    uint64_t path;   /* Hash of the path; 0: the entry is free. */
    uint64_t digest; /* migrate_digest() of the znode. */
    uint32_t creates;
    bool seen;  /* The source has it. */
    bool gone;  /* The target does not have it. */
    bool known; /* The source had it during this run. */
};

struct migrate_index {
    struct migrate_entry *entries;
    size_t cap;
    size_t count; /* Without those that are gone. */
    size_t used;
};

void migrate_index_clear(struct migrate_index *index);

/* Returns the entry of a path, or NULL. */
struct migrate_entry *migrate_index_get(const struct migrate_index *index, struct slice path);

/* Call them before and after all znodes of the target are put again. No znode is `seen` then. What
 * the target has lost meanwhile is not known any more; the other znodes stay known. */
void migrate_index_begin(struct migrate_index *index);
void migrate_index_end(struct migrate_index *index);

/* Adds or replaces an entry. It is `seen` and known if `seen`, else as known as before. */
void migrate_index_put(struct migrate_index *index, struct slice path, uint64_t digest,
                       uint32_t creates, bool seen);

/* Marks an entry, which the source has, too, as seen and known. */
void migrate_index_see(struct migrate_entry *entry);

/* Marks the entry of a path as gone; false: there is none. It stays known, and seen if it was. */
bool migrate_index_drop(struct migrate_index *index, struct slice path);

/* Whether the source has the path; the target may have it, even if its entry is gone. */
bool migrate_index_is_seen(const struct migrate_index *index, struct slice path);

/* Whether the source had the path during this run; the target may have it. */
bool migrate_index_is_known(const struct migrate_index *index, struct slice path);

/* The path is not known any more. */
void migrate_index_disown(struct migrate_index *index, struct slice path);

/* The sum of an ACL, which does not depend on the order of its entries: begin with 0, and add each
 * entry. migrate_acl_done() returns 0 for a list that is just world:anyone with all permissions. */
uint64_t migrate_acl_add(uint64_t sum, uint32_t perms, struct slice scheme, struct slice id);
uint64_t migrate_acl_done(uint64_t sum);

/* A `data` of NULL is null data. */
uint64_t migrate_digest(struct slice data, bool is_null, uint64_t acl);

#endif
