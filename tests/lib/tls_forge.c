#include "tests/lib/tls_forge.h"

#include "base/check.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>
#include <sys/socket.h>

enum {
    OUT_MAX = 64 << 20,
    TAG_LEN = 16,
    KEY_MAX = 32,
    SHA384_LEN = 48,
    LABEL_MAX = 64
};

/* HKDF-Expand-Label of RFC 8446, with an empty context. */
static void expand(const struct tls_peer_secret *secret, const char *label, uint8_t *out,
                   size_t len)
{
    char sha256[] = "SHA256";
    char sha384[] = "SHA384";
    char *digest = secret->len == SHA384_LEN ? sha384 : sha256;
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
    uint8_t key[sizeof(secret->bytes)];
    uint8_t info[LABEL_MAX];
    size_t label_len = strlen(label);

    memcpy(key, secret->bytes, sizeof(key));
    info[0] = (uint8_t)(len >> 8);
    info[1] = (uint8_t)len;
    info[2] = (uint8_t)(6 + label_len);
    memcpy(info + 3, "tls13 ", 6);
    memcpy(info + 9, label, label_len);
    info[9 + label_len] = 0;

    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key, secret->len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, 10 + label_len),
        OSSL_PARAM_construct_end()};

    ASSERT(ctx && EVP_KDF_derive(ctx, out, len, params) == 1);
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
}

static void use_secret(struct tls_forge *forge)
{
    bool wide = forge->secret.len == SHA384_LEN;
    uint8_t key[KEY_MAX];

    expand(&forge->secret, "key", key, wide ? 32 : 16);
    expand(&forge->secret, "iv", forge->iv, sizeof(forge->iv));
    forge->sequence = 0;
    ASSERT(EVP_EncryptInit_ex(forge->cipher, wide ? EVP_aes_256_gcm() : EVP_aes_128_gcm(), NULL,
                              key, NULL) == 1);
}

void tls_forge_open(struct tls_forge *forge, const struct tls_peer *peer)
{
    ASSERT(peer->secret.len > 0 && strstr(SSL_get_cipher_name(peer->ssl), "AES"));
    *forge = (struct tls_forge){.secret = peer->secret, .cipher = EVP_CIPHER_CTX_new()};
    ASSERT(forge->cipher);
    buf_init(&forge->out, OUT_MAX);
    use_secret(forge);
}

void tls_forge_close(struct tls_forge *forge)
{
    EVP_CIPHER_CTX_free(forge->cipher);
    buf_release(&forge->out);
}

void tls_forge_put(struct tls_forge *forge, uint8_t type, const void *data, size_t len)
{
    size_t sealed = len + 1 + TAG_LEN;
    const uint8_t head[5] = {TLS_FORGE_DATA, 3, 3, (uint8_t)(sealed >> 8), (uint8_t)sealed};
    uint8_t nonce[sizeof(forge->iv)];
    uint8_t *to = NULL;
    int done = 0;

    memcpy(nonce, forge->iv, sizeof(nonce));
    for (size_t i = 0; i < 8; i++) {
        nonce[sizeof(nonce) - 1 - i] ^= (uint8_t)(forge->sequence >> (8 * i));
    }
    forge->sequence++;
    ASSERT(buf_append(&forge->out, head, sizeof(head)));
    to = buf_reserve(&forge->out, sealed);
    ASSERT(to && EVP_EncryptInit_ex(forge->cipher, NULL, NULL, NULL, nonce) == 1 &&
           EVP_EncryptUpdate(forge->cipher, NULL, &done, head, sizeof(head)) == 1 &&
           EVP_EncryptUpdate(forge->cipher, to, &done, data, (int)len) == 1 &&
           EVP_EncryptUpdate(forge->cipher, to + len, &done, &type, 1) == 1 &&
           EVP_EncryptFinal_ex(forge->cipher, to + len + 1, &done) == 1 &&
           EVP_CIPHER_CTX_ctrl(forge->cipher, EVP_CTRL_GCM_GET_TAG, TAG_LEN, to + len + 1) == 1);
    forge->out.len += sealed;
}

void tls_forge_renew(struct tls_forge *forge)
{
    uint8_t next[sizeof(forge->secret.bytes)];

    expand(&forge->secret, "traffic upd", next, forge->secret.len);
    memcpy(forge->secret.bytes, next, forge->secret.len);
    use_secret(forge);
}

void tls_forge_update(struct tls_forge *forge, bool asks)
{
    const uint8_t update[TLS_FORGE_UPDATE_LEN] = {SSL3_MT_KEY_UPDATE, 0, 0, 1, asks ? 1 : 0};

    tls_forge_put(forge, TLS_FORGE_HANDSHAKE, update, sizeof(update));
    tls_forge_renew(forge);
}

bool tls_forge_send(struct tls_forge *forge, int fd)
{
    ssize_t sent = send(fd, forge->out.data, forge->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (sent > 0) {
        buf_consume(&forge->out, (size_t)sent);
    }
    return forge->out.len == 0;
}
