/* What replicas say of themselves: what decodes is sound, and keeps its value encoded anew. */
#include "server/replica/sign.h"
#include "tests/fuzz/fuzz.h"

enum {
    NOW_MS = 5000
};

bool fuzz_one(struct slice input)
{
    struct sign signs[ZAB_MEMBERS_MAX];
    struct sign again[ZAB_MEMBERS_MAX];
    size_t count = 0;
    size_t count_again = 0;
    struct buf bytes;

    if (!signs_decode(input, UINT64_MAX, signs, &count)) {
        ASSERT(count == 0);
        return false;
    }
    ASSERT(count <= ZAB_MEMBERS_MAX);
    buf_init(&bytes, ZAB_SIGN_BYTES_MAX);
    signs_encode(signs, count, UINT64_MAX, &bytes);
    bool same = signs_decode(buf_slice(&bytes), UINT64_MAX, again, &count_again);

    ASSERT(same && count_again == count);
    for (size_t i = 0; i < count; i++) {
        ASSERT(signs[i].id == again[i].id && signs[i].at_ms == again[i].at_ms);
        ASSERT(signs[i].zxid == again[i].zxid && signs[i].role == again[i].role);
        ASSERT(strcmp(signs[i].host.version, again[i].host.version) == 0);
    }
    buf_release(&bytes);
    return true;
}

static void seed(struct fuzz_sink *sink, const char *name, size_t count)
{
    struct sign signs[ZAB_MEMBERS_MAX] = {0};
    struct buf bytes;

    for (uint32_t i = 0; i < count; i++) {
        signs[i] = (struct sign){.id = i + 1,
                                 .at_ms = NOW_MS - i,
                                 .role = i == 0 ? SIGN_LEADER : SIGN_FOLLOWER,
                                 .flags = SIGN_SERVING,
                                 .epoch = 3,
                                 .zxid = zxid_make(3, 9),
                                 .host = {.up_ms = 1, .sync_p99_us = 5, .version = "0.1.0"}};
    }
    buf_init(&bytes, ZAB_SIGN_BYTES_MAX);
    signs_encode(signs, count, NOW_MS, &bytes);
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
}

void fuzz_seeds(struct fuzz_sink *sink)
{
    seed(sink, "none", 0);
    seed(sink, "one", 1);
    seed(sink, "three", 3);
    seed(sink, "full", ZAB_MEMBERS_MAX);
}
