#include "server/op/op.h"

#include "base/check.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/os_rng.h"
#include "server/op/ops.h"

enum {
    RESULT_ARENA_BYTES_MAX = 64 << 20,   /* Bytes of the names in one answer. */
    REQUEST_MEMORY_BYTES_MAX = 64 << 20, /* Front ends check their own, smaller limits first. */
    UUID_BYTES = 16,
    UUID_VERSION = 4
};

void op_result_init(struct op_result *result)
{
    *result = (struct op_result){.err = ERR_OK};
    buf_init(&result->arena, RESULT_ARENA_BYTES_MAX);
}

static void release_one(struct op_result *result)
{
    for (uint32_t i = 0; i < result->entry_count; i++) {
        blob_unref(result->entries[i].data);
    }
    mem_free(result->entries);
    mem_free(result->sessions);
    blob_unref(result->data);
    blob_unref(result->acl);
    blob_unref(result->change);
    buf_release(&result->arena);
}

void op_result_release(struct op_result *result)
{
    for (uint32_t i = 0; i < result->result_count; i++) {
        /* A multi cannot hold a multi, so there is only one level. */
        ASSERT(result->results[i].results == NULL);
        release_one(&result->results[i]);
    }
    mem_free(result->results);
    release_one(result);
    op_result_init(result);
}

struct op_request *op_request_new(void)
{
    struct op_request *request = mem_zalloc(1, sizeof(*request));

    buf_init(&request->memory, REQUEST_MEMORY_BYTES_MAX);
    op_result_init(&request->result);
    list_init(&request->node);
    return request;
}

void op_request_free(struct op_request *request)
{
    if (request == NULL) {
        return;
    }
    op_result_release(&request->result);
    buf_release(&request->memory);
    mem_free(request->multi);
    principal_release(&request->principal);
    mem_free(request);
}

/* ---- Secrets of sessions. ---- */

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
