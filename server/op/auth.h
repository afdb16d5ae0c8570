/*
 * auth.h - the principal of a request: its address and identities.
 *
 * As in ZooKeeper, no password is refused: each password just makes another identity
 * `user:base64(SHA1(user:password))`. A client with the identity that `superDigest` names may do
 * everything. A list of identities is immutable and shared by reference, so that a request carries
 * only a pointer to it.
 */
#ifndef SERVER_AUTH_H
#define SERVER_AUTH_H

#include "base/buf.h"
#include "base/err.h"
#include "base/wire.h"

#include <stdatomic.h>

enum {
    AUTH_IDS_MAX = 16,
    AUTH_CREDENTIAL_MAX = 1024 /* Bytes of user and password. */
};

struct auth_id {
    struct slice scheme; /* "digest" or "x509". */
    struct slice id;
};

struct auth {
    _Atomic uint32_t refs;
    /* What ACLs tell about the identities: bit i is about ids[i]. */
    _Atomic uint32_t right; /* Identities with a right password: an ACL gave them a permission, or
                               superDigest names them. */
    _Atomic uint32_t wrong; /* Identities with a wrong password: an ACL names the user, but with
                               another password. See acl_allows and acl_perms. */
    _Atomic uint32_t told;  /* Wrong identities already counted as failed credentials. */
    bool super;
    uint32_t count;
    struct auth_id ids[AUTH_IDS_MAX];
    uint32_t len; /* Length of `bytes`, which the ids point into. */
    uint8_t bytes[];
};

/* The principal of a request, as the front end knows it. */
struct op_principal {
    char address[64]; /* Numeric address of the client; or text that hides it (http/forwarded.h). */
    struct auth *auth; /* One reference; NULL: no identities. */
    bool https; /* The client uses https, so URLs in answers do. Not sent to other replicas. */
};

/* Makes a list of the identities of `old` (may be NULL; not consumed) and one more: scheme
 * "digest", credential "user:password". ERR_AUTH_FAILED: unknown scheme or malformed credential;
 * ERR_FULL: too many identities. `super_digest` is "user:hash" of the configuration, or "". */
enum err auth_add(const struct auth *old, struct slice scheme, struct slice credential,
                  const char *super_digest, struct auth **ret_auth);

/* Makes a list of the identities of `old` (may be NULL; not consumed) and the one in an
 * Authorization header: "Basic <base64>". The errors are those of auth_add. */
enum err auth_basic(const struct auth *old, struct slice header, const char *super_digest,
                    struct auth **ret_auth);

/* Makes a list of the identity that a client's certificate proves: scheme "x509", as ZooKeeper has
 * it. `super_x509` is the identity of the super user, or "". */
struct auth *auth_certificate(const char *id, const char *super_x509);

/* Whether the identity is proven by a password that a client may guess. */
bool auth_has_password(const struct auth_id *id);

/* Returns the user of "user:hash". */
struct slice auth_user(struct slice id);

/* Returns the part of an identity that may be shown: its id, for "digest" without the hash. */
struct slice auth_shown(const struct auth_id *id);

/* Sets the bit of an identity in `right` or `wrong`, by its index. Any thread. */
void auth_note(_Atomic uint32_t *bits, uint32_t index);

struct auth *auth_ref(struct auth *auth); /* Accepts NULL. Any thread. */
void auth_unref(struct auth *auth);       /* Accepts NULL. Any thread. */

/* Encode, decode and release the principal that replicas exchange: address, whether super,
 * identities. */
void principal_encode(const struct op_principal *who, struct buf *out);
enum err principal_decode(struct wire_reader *reader, struct op_principal *ret_who);
void principal_release(struct op_principal *who);

/* Whether the principal has an identity. As in ZooKeeper there is no list of users, so each user
 * name with any password is an identity. */
bool principal_has_identity(const struct op_principal *who);

/* Returns a copy with its own reference. */
struct op_principal principal_copy(const struct op_principal *who);

/* Returns the scope of an idempotency key that belongs to no session: the bytes of the first
 * identity, or empty for an anonymous client. */
struct slice principal_scope(const struct op_principal *who);

enum {
    PRINCIPAL_NAME_MAX = 24 /* Bytes of a name in the text of principal_from. */
};

/* Appends the text that a session keeps of its opener: the address, and after a blank the first
 * identity, if there is one, as scheme and id. A long user name is cut, but the hash after it never
 * is, because principal_is_from compares the hash, too. */
void principal_from(const struct op_principal *who, struct buf *out);

/* Whether the principal is the opener in `from`. An opener without identity matches any principal
 * of its address. */
bool principal_is_from(const struct op_principal *who, struct slice from);

/* Return the parts of the text of principal_from: the address, and the identity without its hash
 * (empty: none). */
struct slice principal_from_address(struct slice from);
struct slice principal_from_identity(struct slice from);

#endif
