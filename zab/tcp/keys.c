#include "zab/tcp/keys.h"

#include "base/check.h"
#include "base/mem.h"
#include "zab/tcp/keys_int.h"

#include <openssl/err.h>

enum {
    CERT_LIST_BYTES_MAX = 32 << 10, /* Bytes of certificates that a peer may send. */
};

/* An external key has to name the hash of its cipher suite, so there is one suite. */
#define SUITES "TLS_AES_128_GCM_SHA256"

const char *keys_mode_name(enum keys_mode mode)
{
    static const char *const names[] = {"off", "accept", "dial", "required"};

    ASSERT(mode <= KEYS_REQUIRED);
    return names[mode];
}

const char *keys_seal_name(enum keys_seal seal)
{
    static const char *const names[] = {"no", "psk", "certificate"};

    ASSERT(seal <= KEYS_SEAL_CERTIFICATE);
    return names[seal];
}

/* ---- Secrets. ---- */

static void derive(struct keys_secret *secret)
{
    static const char salt[] = "zabra peers";
    struct slice bytes = slice_make(secret->bytes, secret->len);
    uint8_t name[CRYPTO_SHA256_LEN];

    crypto_hkdf_sha256(bytes, slice_str(salt), slice_str("TLS 1.3 external PSK"), secret->psk);
    crypto_hkdf_sha256(bytes, slice_str(salt), slice_str("name of the secret"), name);
    memcpy(secret->name, name, KEYS_NAME_LEN);
}

static void add_secret(struct keys *keys, struct slice bytes)
{
    ASSERT(keys->secret_count < KEYS_SECRETS_MAX && bytes.len > 0);

    struct keys_secret *secret = &keys->secrets[keys->secret_count++];

    secret->bytes = mem_dup(bytes.data, bytes.len);
    secret->len = bytes.len;
    derive(secret);
}

struct slice keys_secret(const struct keys *keys, uint32_t index)
{
    const struct keys_secret *secret = &keys->secrets[index];

    return index < keys->secret_count ? slice_make(secret->bytes, secret->len)
                                      : slice_make(NULL, 0);
}

uint32_t keys_secret_count(const struct keys *keys)
{
    return keys->secret_count > 0 ? keys->secret_count : 1;
}

bool keys_have(const struct keys *keys, struct slice secret)
{
    bool found = secret.len == 0;

    for (uint32_t i = 0; i < keys->secret_count; i++) {
        found |= crypto_equal(keys_secret(keys, i), secret);
    }
    return found;
}

bool keys_prove(const struct keys *keys, enum keys_mode mode)
{
    return keys->secret_count > 0 || (keys->has_certificate && mode == KEYS_REQUIRED);
}

/* ---- Contexts. ---- */

static SSL_CTX *new_context(bool dials)
{
    static const unsigned char name[] = "zabra peers";
    SSL_CTX *context = SSL_CTX_new(dials ? TLS_client_method() : TLS_server_method());

    ASSERT(context);
    ASSERT(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1);
    ASSERT(SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1);
    ASSERT(SSL_CTX_set_ciphersuites(context, SUITES) == 1);
    SSL_CTX_set_security_level(context, KEYS_SECURITY_LEVEL);
    /* No tickets: a connection lasts, and each one shall prove the secret or the certificate. */
    ASSERT(SSL_CTX_set_num_tickets(context, 0) == 1);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                        SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_max_cert_list(context, CERT_LIST_BYTES_MAX);
    /* To OpenSSL a proven secret is a resumed session, and an acceptor must name its sessions. */
    ASSERT(dials || SSL_CTX_set_session_id_context(context, name, sizeof(name) - 1) == 1);
    /* Without a CA no certificate is accepted: only a proof of the secret is. */
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return context;
}

enum err keys_load(const struct keys_options *options, struct keys **ret_keys,
                   char error[KEYS_ERROR_MAX])
{
    struct keys *keys = mem_zalloc(1, sizeof(*keys));
    enum err err = ERR_OK;

    ASSERT(options->secret_count <= KEYS_SECRETS_MAX);
    keys->references = 1;
    keys->dialer = new_context(true);
    keys->acceptor = new_context(false);
    for (uint32_t i = 0; i < options->secret_count; i++) {
        add_secret(keys, options->secrets[i]);
    }
    if (options->cert_file && options->cert_file[0]) {
        err = certificate_use(keys, options, error);
    }
    ERR_clear_error();
    if (err) {
        keys_release(keys);
        return err;
    }
    *ret_keys = keys;
    return ERR_OK;
}

struct keys *keys_share(struct keys *keys)
{
    ASSERT(keys->references > 0);

    keys->references++;
    return keys;
}

void keys_release(struct keys *keys)
{
    if (!keys || --keys->references > 0) {
        return;
    }
    for (uint32_t i = 0; i < keys->secret_count; i++) {
        explicit_bzero(keys->secrets[i].bytes, keys->secrets[i].len);
        mem_free(keys->secrets[i].bytes);
    }
    SSL_CTX_free(keys->dialer);
    SSL_CTX_free(keys->acceptor);
    explicit_bzero(keys, sizeof(*keys));
    mem_free(keys);
}

int64_t keys_expire_s(const struct keys *keys)
{
    return keys->expire_s;
}
