/* The heartbeat payload of replicas: decoded values are valid, and stay the same when they are
 * encoded again. */
#include "server/replica/heartbeat.h"
#include "tests/fuzz/fuzz.h"

enum {
    NOW_MS = 5000
};

static bool fuzz_one(struct slice input)
{
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX];
    struct heartbeat again[ZAB_MEMBERS_MAX];
    size_t count = 0;
    size_t count_again = 0;
    struct buf bytes;

    if (!heartbeats_decode(input, UINT64_MAX, heartbeats, &count)) {
        ASSERT(count == 0);
        return false;
    }
    ASSERT(count <= ZAB_MEMBERS_MAX);
    buf_init(&bytes, ZAB_PING_PAYLOAD_MAX);
    heartbeats_encode(heartbeats, count, UINT64_MAX, &bytes);
    bool same = heartbeats_decode(buf_slice(&bytes), UINT64_MAX, again, &count_again);

    ASSERT(same && count_again == count);
    for (size_t i = 0; i < count; i++) {
        ASSERT(heartbeats[i].id == again[i].id && heartbeats[i].at_ms == again[i].at_ms);
        ASSERT(heartbeats[i].zxid == again[i].zxid && heartbeats[i].role == again[i].role);
        ASSERT(strcmp(heartbeats[i].host.version, again[i].host.version) == 0);
    }
    buf_release(&bytes);
    return true;
}

static void seed(struct fuzz_sink *sink, const char *name, size_t count)
{
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX] = {0};
    struct buf bytes;

    for (uint32_t i = 0; i < count; i++) {
        heartbeats[i] =
            (struct heartbeat){.id = i + 1,
                               .at_ms = NOW_MS - i,
                               .role = i == 0 ? ROLE_LEADER : ROLE_FOLLOWER,
                               .flags = HEARTBEAT_SERVING,
                               .epoch = 3,
                               .zxid = zxid_make(3, 9),
                               .host = {.up_ms = 1, .sync_p99_us = 5, .version = "0.1.0"}};
    }
    buf_init(&bytes, ZAB_PING_PAYLOAD_MAX);
    heartbeats_encode(heartbeats, count, NOW_MS, &bytes);
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    seed(sink, "none", 0);
    seed(sink, "one", 1);
    seed(sink, "three", 3);
    seed(sink, "full", ZAB_MEMBERS_MAX);
}

FUZZ_TARGET(heartbeat)
