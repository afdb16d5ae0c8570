#include "server/op/op.h"

#include "base/check.h"
#include "base/mem.h"

enum {
    RESULT_ARENA_BYTES_MAX = 64 << 20,  /* Names of the entries of one answer. */
    REQUEST_MEMORY_BYTES_MAX = 64 << 20 /* Front ends check their own, smaller limits first. */
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
    buf_release(&result->arena);
}

void op_result_release(struct op_result *result)
{
    for (uint32_t i = 0; i < result->result_count; i++) {
        /* A multi has no multi inside, so one level is all there is. */
        ASSERT(result->results[i].results == NULL);
        release_one(&result->results[i]);
    }
    mem_free(result->results);
    release_one(result);
    *result = (struct op_result){.err = ERR_OK};
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
