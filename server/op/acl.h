/*
 * acl.h - access control lists as bytes, and the check of rights.
 *
 * An ACL is a run of entries: perms u8, scheme, id (each u32 length and bytes). Empty bytes mean
 * open to all; a list that is just world:anyone with all perms is stored as empty, so that most
 * znodes have no list and their check costs one comparison. The rules are ZooKeeper's: lists are
 * per znode, there are no negative entries, the super user passes each check. With inheritAcl a
 * create without a list copies that of the parent (server/prepare).
 */
#ifndef SERVER_ACL_H
#define SERVER_ACL_H

#include "base/buf.h"
#include "base/err.h"
#include "server/op/auth.h"

enum acl_perm {
    ACL_READ = 1,
    ACL_WRITE = 2,
    ACL_CREATE = 4,
    ACL_DELETE = 8,
    ACL_ADMIN = 16,
    ACL_ALL = 31
};

enum {
    ACL_ENTRIES_MAX = 128,
    ACL_BYTES_MAX = 16384 /* Bytes of an encoded list. */
};

struct acl_entry {
    uint32_t perms; /* Bits of enum acl_perm. */
    struct slice scheme;
    struct slice id;
};

/* Appends an entry. */
void acl_put(struct buf *out, const struct acl_entry *entry);

/* Reads the next entry of `rest`; false at the end or where the bytes are malformed. */
bool acl_next(struct slice *rest, struct acl_entry *ret_entry);

/* Whether the bytes are whole entries within the bounds. */
bool acl_is_sound(struct slice acl);

/* Whether the principal has one of `perms`. Any thread. Also marks identities of the principal
 * (auth.h). The identity to which an entry gives one of `perms` is marked as right. If the
 * principal has none of `perms`, its identities with a wrong password are marked as wrong: the ACL
 * names the user of such an identity, but only with other passwords. */
bool acl_allows(struct slice acl, const struct op_principal *who, uint32_t perms);

/* Returns all rights of the principal. Any thread. Marks identities like acl_allows, except that
 * identities are marked as wrong even if other entries of the ACL give the principal rights. */
uint32_t acl_perms(struct slice acl, const struct op_principal *who);

/* Returns the rights of another principal, those of world:anyone included. The principal is named
 * as in an entry: "digest:alice" (with any password) or "digest:alice:<hash>", "ip:10.0.0.1",
 * "x509:CN=alice", "world:anyone". `*ret_known` tells whether `as` has such a form. There is no
 * name for the super user. */
uint32_t acl_perms_as(struct slice acl, struct slice as, bool *ret_known);

/*
 * Clears `out` and writes into it the canonical form of a list that a client wants to set, by
 * ZooKeeper's rules: duplicates are dropped, and `auth` becomes one entry for each authenticated id
 * of the caller. ERR_INVALID_ACL, with a constant sentence: the list is empty or too large, a
 * scheme is unknown, an id is invalid in its scheme, or `auth` is used without an identity.
 */
enum err acl_fix(struct slice acl, const struct op_principal *who, struct buf *out,
                 const char **ret_why);

/* Gets one of the three standard lists by name ("open", "read", "creator"), as constant bytes.
 * Returns false for another name. */
bool acl_standard(struct slice name, struct slice *ret_acl);

#endif
