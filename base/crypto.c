#include "base/crypto.h"

#include "base/check.h"
#include "base/mem.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>

enum {
    INFO_MAX = 256 /* Bytes that say what a derived key is for. */
};

/* The digests, fetched once: a look-up by name takes locks and costs more than hashing a short
 * text. */
static EVP_MD *sha256;
static EVP_MD *sha1;
static pthread_once_t fetch_once = PTHREAD_ONCE_INIT;

static void fetch(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    sha1 = EVP_MD_fetch(NULL, "SHA1", NULL);
    ASSERT(sha256 && sha1);
}

static void fetch_digests(void)
{
    int failed = pthread_once(&fetch_once, fetch);

    ASSERT(!failed);
}

static void digest(const EVP_MD *md, struct slice bytes, uint8_t *out)
{
    ASSERT(EVP_Digest(bytes.len ? bytes.data : out, bytes.len, out, NULL, md, NULL) == 1);
}

void crypto_sha256(struct slice bytes, uint8_t out[CRYPTO_SHA256_LEN])
{
    fetch_digests();
    digest(sha256, bytes, out);
}

struct crypto_hash {
    EVP_MD_CTX *context;
};

struct crypto_hash *crypto_hash_begin(void)
{
    struct crypto_hash *hash = mem_alloc(sizeof *hash);

    fetch_digests();
    hash->context = EVP_MD_CTX_new();
    ASSERT(hash->context && EVP_DigestInit_ex(hash->context, sha256, NULL) == 1);
    return hash;
}

void crypto_hash_add(struct crypto_hash *hash, struct slice bytes)
{
    ASSERT(bytes.len == 0 || EVP_DigestUpdate(hash->context, bytes.data, bytes.len) == 1);
}

void crypto_hash_end(struct crypto_hash *take_hash, uint8_t out[CRYPTO_SHA256_LEN])
{
    ASSERT(EVP_DigestFinal_ex(take_hash->context, out, NULL) == 1);
    EVP_MD_CTX_free(take_hash->context);
    mem_free(take_hash);
}

void crypto_sha1(struct slice bytes, uint8_t out[CRYPTO_SHA1_LEN])
{
    fetch_digests();
    digest(sha1, bytes, out);
}

void crypto_hmac_sha256(struct slice key, struct slice bytes, uint8_t out[CRYPTO_SHA256_LEN])
{
    unsigned len = 0;
    const void *key_data = key.len ? (const void *)key.data : "";

    ASSERT(key.len <= INT32_MAX);
    fetch_digests();
    ASSERT(
        HMAC(sha256, key_data, (int)key.len, bytes.len ? bytes.data : out, bytes.len, out, &len));
    ASSERT(len == CRYPTO_SHA256_LEN);
}

void crypto_hkdf_sha256(struct slice secret, struct slice salt, struct slice info,
                        uint8_t out[CRYPTO_SHA256_LEN])
{
    uint8_t key[CRYPTO_SHA256_LEN];
    uint8_t text[INFO_MAX + 1];

    ASSERT(info.len > 0 && info.len <= INFO_MAX);
    crypto_hmac_sha256(salt, secret, key);
    memcpy(text, info.data, info.len);
    text[info.len] = 1; /* The number of the block: the output is one block long. */
    crypto_hmac_sha256(slice_make(key, sizeof(key)), slice_make(text, info.len + 1), out);
    OPENSSL_cleanse(key, sizeof(key));
}

bool crypto_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || CRYPTO_memcmp(a.data, b.data, a.len) == 0);
}
