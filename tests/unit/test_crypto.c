#include "base/buf.h"
#include "base/crypto.h"
#include "tests/lib/unit.h"

static const char *to_hex(const uint8_t *bytes, size_t len)
{
    static char text[2 * CRYPTO_SHA256_LEN + 1];
    struct buf buf;

    buf_init(&buf, sizeof(text) - 1);
    for (size_t i = 0; i < len; i++) {
        buf_printf(&buf, "%02x", bytes[i]);
    }
    memcpy(text, buf_cstr(&buf), buf.len + 1);
    buf_release(&buf);
    return text;
}

/* FIPS 180-4. */
TEST(sha256)
{
    uint8_t out[CRYPTO_SHA256_LEN];

    crypto_sha256(slice_str("abc"), out);
    assert_string_equal(to_hex(out, sizeof(out)),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    crypto_sha256(slice_make(NULL, 0), out);
    assert_string_equal(to_hex(out, sizeof(out)),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(sha1)
{
    uint8_t out[CRYPTO_SHA1_LEN];

    crypto_sha1(slice_str("abc"), out);
    assert_string_equal(to_hex(out, sizeof(out)), "a9993e364706816aba3e25717850c26c9cd0d89d");
    crypto_sha1(slice_make(NULL, 0), out);
    assert_string_equal(to_hex(out, sizeof(out)), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

/* RFC 4231, cases 2 and 1, and the empty key and text. */
TEST(hmac)
{
    uint8_t out[CRYPTO_SHA256_LEN];

    crypto_hmac_sha256(slice_str("Jefe"), slice_str("what do ya want for nothing?"), out);
    assert_string_equal(to_hex(out, sizeof(out)),
                        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    crypto_hmac_sha256(slice_str("\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b"
                                 "\x0b\x0b\x0b\x0b\x0b"),
                       slice_str("Hi There"), out);
    assert_string_equal(to_hex(out, sizeof(out)),
                        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    crypto_hmac_sha256(slice_make(NULL, 0), slice_make(NULL, 0), out);
    assert_string_equal(to_hex(out, sizeof(out)),
                        "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

/* RFC 5869, case 1: the first 32 of its 42 bytes. */
TEST(hkdf)
{
    uint8_t out[CRYPTO_SHA256_LEN];
    uint8_t secret[22];
    uint8_t salt[13];
    uint8_t info[10];

    memset(secret, 0x0b, sizeof(secret));
    for (size_t i = 0; i < sizeof(salt); i++) {
        salt[i] = (uint8_t)i;
    }
    for (size_t i = 0; i < sizeof(info); i++) {
        info[i] = (uint8_t)(0xf0 + i);
    }
    crypto_hkdf_sha256(slice_make(secret, sizeof(secret)), slice_make(salt, sizeof(salt)),
                       slice_make(info, sizeof(info)), out);
    assert_string_equal(to_hex(out, sizeof(out)),
                        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
}

TEST(equal)
{
    assert_true(crypto_equal(slice_str("abc"), slice_str("abc")));
    assert_false(crypto_equal(slice_str("abc"), slice_str("abd")));
    assert_false(crypto_equal(slice_str("abc"), slice_str("abcd")));
    assert_true(crypto_equal(slice_make(NULL, 0), slice_str("")));
}
