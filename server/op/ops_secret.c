/* The secrets of sessions: made, checked and hashed. */
#include "base/check.h"
#include "base/crypto.h"
#include "base/os_rng.h"
#include "server/op/ops.h"

enum {
    UUID_BYTES = 16,
    UUID_VERSION = 4
};

static bool is_dash(size_t pos)
{
    return pos == 8 || pos == 13 || pos == 18 || pos == 23;
}

bool op_is_uuid(struct slice text)
{
    if (text.len != OP_SECRET_LEN) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        const char *allowed = is_dash(i) ? "-" : "0123456789abcdefABCDEF";

        if (text.data[i] == '\0' || !strchr(allowed, text.data[i])) {
            return false;
        }
    }
    return true;
}

void op_secret_make(char ret_secret[OP_SECRET_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[UUID_BYTES];
    size_t at = 0;

    os_random(bytes, sizeof(bytes));
    bytes[6] = (uint8_t)(UUID_VERSION << 4 | (bytes[6] & 0x0f));
    bytes[8] = (uint8_t)(0x80 | (bytes[8] & 0x3f));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        if (is_dash(at)) {
            ret_secret[at++] = '-';
        }
        ret_secret[at++] = digits[bytes[i] >> 4];
        ret_secret[at++] = digits[bytes[i] & 15];
    }
    ASSERT(at == OP_SECRET_LEN);
    ret_secret[at] = '\0';
    explicit_bzero(bytes, sizeof(bytes));
}

void op_args_hash_secret(struct op_args *args, uint8_t hash[TXN_SECRET_HASH_LEN])
{
    crypto_sha256(args->secret, hash);
    args->secret_hash = slice_make(hash, TXN_SECRET_HASH_LEN);
}
