#include "server/op/auth.h"

#include "base/base64.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/mem.h"

#include <strings.h>

enum {
    AUTH_BYTES_MAX = 65536,
    ADDRESS_BYTES_MAX = 63
};

static const char digest_scheme[] = "digest";
static const char x509_scheme[] = "x509";

struct auth *auth_ref(struct auth *auth)
{
    if (auth) {
        atomic_fetch_add_explicit(&auth->refs, 1, memory_order_relaxed);
    }
    return auth;
}

void auth_unref(struct auth *auth)
{
    if (auth && atomic_fetch_sub_explicit(&auth->refs, 1, memory_order_acq_rel) == 1) {
        mem_free(auth);
    }
}

struct slice auth_user(struct slice id)
{
    return slice_make(id.data, slice_find(id, ':'));
}

struct slice auth_shown(const struct auth_id *id)
{
    return auth_has_password(id) ? auth_user(id->id) : id->id;
}

bool auth_has_password(const struct auth_id *id)
{
    return slice_eq(id->scheme, slice_str(digest_scheme));
}

/* Sets a bit. Usually it is set already; then nothing is written, so that the word stays in the CPU
 * caches of the other threads that read it. */
void auth_note(_Atomic uint32_t *bits, uint32_t index)
{
    uint32_t bit = UINT32_C(1) << index;

    ASSERT(index < AUTH_IDS_MAX);
    if ((atomic_load_explicit(bits, memory_order_relaxed) & bit) == 0) {
        (void)atomic_fetch_or_explicit(bits, bit, memory_order_relaxed);
    }
}

static bool has_id(const struct auth *auth, struct slice scheme, struct slice id)
{
    for (uint32_t i = 0; auth && i < auth->count; i++) {
        if (slice_eq(auth->ids[i].scheme, scheme) && slice_eq(auth->ids[i].id, id)) {
            return true;
        }
    }
    return false;
}

static struct slice put(struct auth *auth, struct slice text)
{
    uint8_t *to = auth->bytes + auth->len;

    if (text.len > 0) {
        memcpy(to, text.data, text.len);
    }
    auth->len += (uint32_t)text.len;
    return slice_make(to, text.len);
}

/* Returns the bytes that an identity takes in a struct auth. */
static size_t id_bytes(struct slice scheme, struct slice id)
{
    return scheme.len + 1 + id.len;
}

/* A NUL stands between scheme and id: see principal_scope. */
static void put_id(struct auth *auth, struct slice scheme, struct slice id)
{
    ASSERT(auth->count < AUTH_IDS_MAX);

    auth->ids[auth->count].scheme = put(auth, scheme);
    (void)put(auth, slice_make("", 1));
    auth->ids[auth->count].id = put(auth, id);
    auth->count++;
}

/* Returns a copy of `old` with room for `len` more bytes. */
static struct auth *grow(const struct auth *old, size_t len)
{
    size_t have = old ? old->len : 0;
    struct auth *auth = mem_zalloc(1, sizeof(*auth) + have + len);

    atomic_init(&auth->refs, 1);
    auth->super = old && old->super;
    if (old) {
        atomic_init(&auth->right, atomic_load(&old->right));
        atomic_init(&auth->wrong, atomic_load(&old->wrong));
        atomic_init(&auth->told, atomic_load(&old->told));
    }
    for (uint32_t i = 0; old && i < old->count; i++) {
        put_id(auth, old->ids[i].scheme, old->ids[i].id);
    }
    return auth;
}

static enum err with_id(const struct auth *old, struct slice scheme, struct slice id, bool super,
                        struct auth **ret_auth)
{
    size_t have = old ? old->len : 0;

    if ((old && old->count == AUTH_IDS_MAX) || have + id_bytes(scheme, id) > AUTH_BYTES_MAX) {
        return ERR_FULL;
    }
    struct auth *auth = grow(old, id_bytes(scheme, id));

    if (!has_id(auth, scheme, id)) {
        put_id(auth, scheme, id);
        if (super) {
            auth_note(&auth->right, auth->count - 1);
        }
    }
    auth->super = auth->super || super;
    *ret_auth = auth;
    return ERR_OK;
}

/* Converts "user:password" to ZooKeeper's "user:base64(SHA1(user:password))". */
static bool digest_id(struct slice credential, struct buf *out)
{
    size_t colon = slice_find(credential, ':');
    uint8_t hash[CRYPTO_SHA1_LEN];

    if (colon == 0 || colon == credential.len || credential.len > AUTH_CREDENTIAL_MAX ||
        slice_find(credential, 0) < credential.len) {
        return false;
    }
    crypto_sha1(credential, hash);
    buf_append(out, credential.data, colon + 1);
    base64_encode(out, slice_make(hash, sizeof(hash)));
    return !out->overflow;
}

enum err auth_add(const struct auth *old, struct slice scheme, struct slice credential,
                  const char *super_digest, struct auth **ret_auth)
{
    struct buf id;
    enum err err = ERR_AUTH_FAILED;

    *ret_auth = NULL;
    buf_init(&id, AUTH_CREDENTIAL_MAX + 64);
    if (slice_eq(scheme, slice_str(digest_scheme)) && digest_id(credential, &id)) {
        struct slice super = slice_str(super_digest);
        bool is_super = super.len > 0 && crypto_equal(super, buf_slice(&id));

        err = with_id(old, scheme, buf_slice(&id), is_super, ret_auth);
    }
    buf_release(&id);
    return err;
}

struct auth *auth_certificate(const char *id, const char *super_x509)
{
    bool super = super_x509[0] != '\0' && strcmp(id, super_x509) == 0;
    struct auth *auth = NULL;
    enum err err = with_id(NULL, slice_str(x509_scheme), slice_str(id), super, &auth);

    ASSERT(err == ERR_OK);
    return auth;
}

enum err auth_basic(const struct auth *old, struct slice header, const char *super_digest,
                    struct auth **ret_auth)
{
    struct buf plain;
    enum err err = ERR_AUTH_FAILED;
    size_t skip = sizeof("basic ") - 1;

    *ret_auth = NULL;
    /* HTTP matches scheme names in any case. */
    if (header.len < skip || strncasecmp((const char *)header.data, "basic ", skip) != 0) {
        return ERR_AUTH_FAILED;
    }
    while (skip < header.len && header.data[skip] == ' ') {
        skip++;
    }
    buf_init(&plain, AUTH_CREDENTIAL_MAX);
    if (base64_decode(&plain, slice_from(header, skip)) == ERR_OK) {
        err = auth_add(old, slice_str(digest_scheme), buf_slice(&plain), super_digest, ret_auth);
    }
    if (plain.len > 0) {
        explicit_bzero(plain.data, plain.len);
    }
    buf_release(&plain);
    return err;
}

/* ---- The form between replicas: address, super u8, count u8, then scheme and id of each. ---- */

void principal_encode(const struct op_principal *who, struct buf *out)
{
    const struct auth *auth = who->auth;

    wire_put_bytes(out, slice_str(who->address));
    wire_put_u8(out, auth && auth->super);
    wire_put_u8(out, (uint8_t)(auth ? auth->count : 0));
    for (uint32_t i = 0; auth && i < auth->count; i++) {
        wire_put_bytes(out, auth->ids[i].scheme);
        wire_put_bytes(out, auth->ids[i].id);
    }
}

static struct auth *auth_decode(struct wire_reader *reader)
{
    uint8_t super = wire_get_u8(reader);
    uint8_t count = wire_get_u8(reader);

    if (super > 1 || count > AUTH_IDS_MAX) {
        wire_reader_fail(reader);
    }
    if (!wire_reader_ok(reader) || (count == 0 && !super)) {
        return NULL;
    }
    /* The identities, each with its NUL, are not larger than the rest of the input, where each has
     * two lengths: that bounds their memory. */
    size_t left = (size_t)(reader->end - reader->pos);
    struct auth *auth = grow(NULL, min_size(left, AUTH_BYTES_MAX));

    auth->super = super == 1;
    for (uint8_t i = 0; i < count; i++) {
        struct slice scheme = wire_get_bytes(reader, AUTH_CREDENTIAL_MAX);
        struct slice id = wire_get_bytes(reader, AUTH_CREDENTIAL_MAX + 64);

        if (!wire_reader_ok(reader) || auth->len + id_bytes(scheme, id) > AUTH_BYTES_MAX) {
            wire_reader_fail(reader);
            break;
        }
        put_id(auth, scheme, id);
    }
    return auth;
}

enum err principal_decode(struct wire_reader *reader, struct op_principal *ret_who)
{
    *ret_who = (struct op_principal){.auth = NULL};
    struct slice address = wire_get_bytes(reader, ADDRESS_BYTES_MAX);

    if (address.len > 0) {
        memcpy(ret_who->address, address.data, address.len);
    }
    ret_who->auth = auth_decode(reader);
    if (!wire_reader_ok(reader)) {
        principal_release(ret_who);
        return ERR_FORMAT;
    }
    return ERR_OK;
}

void principal_release(struct op_principal *who)
{
    auth_unref(who->auth);
    who->auth = NULL;
}

bool principal_has_identity(const struct op_principal *who)
{
    return who->auth && (who->auth->count > 0 || who->auth->super);
}

struct op_principal principal_copy(const struct op_principal *who)
{
    struct op_principal copy = *who;

    copy.auth = auth_ref(who->auth);
    return copy;
}

struct slice principal_scope(const struct op_principal *who)
{
    if (!who->auth || who->auth->count == 0) {
        return slice_make(NULL, 0);
    }

    const struct auth_id *id = &who->auth->ids[0];

    /* Scheme, NUL and id lie side by side. A digest id stands for itself, so that remembered
     * answers keep their scope; it has no NUL, so it cannot be that of another scheme. */
    return auth_has_password(id) ? id->id
                                 : slice_make(id->scheme.data, id_bytes(id->scheme, id->id));
}

/* Appends " digest:alice:<hash>" with a long name cut. An identity without a password gets a hash
 * of its own, so that the text of two long ones differs. */
static void put_identity(const struct auth_id *id, struct buf *out)
{
    struct slice name = auth_shown(id);

    buf_append_byte(out, ' ');
    buf_append_slice(out, id->scheme);
    buf_append_byte(out, ':');
    buf_append(out, name.data, min_size(name.len, PRINCIPAL_NAME_MAX));
    if (auth_has_password(id)) {
        buf_append_slice(out, slice_from(id->id, name.len));
    } else {
        uint8_t hash[CRYPTO_SHA1_LEN];

        crypto_sha1(id->id, hash);
        buf_append_byte(out, ':');
        base64_encode(out, slice_make(hash, sizeof(hash)));
    }
}

void principal_from(const struct op_principal *who, struct buf *out)
{
    buf_append_str(out, who->address);
    if (who->auth && who->auth->count > 0) {
        put_identity(&who->auth->ids[0], out);
    }
}

bool principal_is_from(const struct op_principal *who, struct slice from)
{
    size_t address = slice_find(from, ' ');
    struct slice identity = slice_from(from, address);
    struct buf own;
    bool same = false;

    if (identity.len == 0) {
        return slice_eq(from, slice_str(who->address));
    }
    buf_init(&own, AUTH_CREDENTIAL_MAX);
    for (uint32_t i = 0; who->auth && i < who->auth->count && !same; i++) {
        buf_clear(&own);
        put_identity(&who->auth->ids[i], &own);
        same = slice_eq(buf_slice(&own), identity);
    }
    buf_release(&own);
    return same;
}

struct slice principal_from_address(struct slice from)
{
    return slice_make(from.data, slice_find(from, ' '));
}

struct slice principal_from_identity(struct slice from)
{
    size_t start = slice_find(from, ' ');
    struct slice identity = start < from.len ? slice_from(from, start + 1) : slice_make(NULL, 0);
    const uint8_t *hash = identity.len > 0 ? memrchr(identity.data, ':', identity.len) : NULL;

    return hash ? slice_make(identity.data, (size_t)(hash - identity.data)) : identity;
}
