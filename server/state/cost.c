#include "server/state/state_int.h"

enum {
    CHUNK_HEAD = 8,        /* Bytes that the allocator puts before each allocation. */
    CHUNK_STEP = 16,       /* Each allocation is rounded up to a multiple of this size, in bytes. */
    CHUNK_MIN = 32,        /* Least bytes of an allocation. */
    LARGE_MIN = 128 << 10, /* From this size on, an allocation is whole pages. */
    LARGE_HEAD = 16,
    PAGE = 4096,
    MAP_SHARE = 96,    /* Bytes of one map entry, just after the table has doubled. */
    OWNER_ENTRY = 48,  /* Bytes of one entry in the index of ephemerals or of due times. */
    EXPIRY_ENTRY = 64, /* Bytes of a session in the leader's expiry table (server/sessions). */
    ACL_SLOT = 24,     /* Bytes in acls.slots and acls.free, just after both have doubled. */
};

static uint64_t round_up(uint64_t size, uint64_t step)
{
    return (size + step - 1) / step * step;
}

static uint64_t chunk_of(uint64_t size)
{
    if (size >= LARGE_MIN) {
        return round_up(size + LARGE_HEAD, PAGE);
    }
    return max_u64(round_up(size + CHUNK_HEAD, CHUNK_STEP), CHUNK_MIN);
}

uint64_t cost_node(size_t name_len, uint64_t owner)
{
    uint64_t size = offsetof(struct znode, name) + name_len;
    uint64_t cost = chunk_of(max_u64(size, sizeof(struct znode)));

    return owner != 0 ? cost + chunk_of(OWNER_ENTRY) + MAP_SHARE : cost;
}

uint64_t cost_data(uint64_t len)
{
    return chunk_of(sizeof(struct blob) + len);
}

uint64_t cost_acl(size_t len)
{
    return chunk_of(sizeof(struct acl)) + cost_data(len) + MAP_SHARE + ACL_SLOT;
}

uint64_t cost_session(void)
{
    return chunk_of(sizeof(struct session)) + chunk_of(EXPIRY_ENTRY) + 3 * (uint64_t)MAP_SHARE;
}

uint64_t cost_remembered(uint64_t len)
{
    return chunk_of(sizeof(struct remembered) + sizeof(uint32_t) + len) + MAP_SHARE;
}

uint64_t cost_quota(size_t path_len)
{
    return chunk_of(sizeof(struct quota) + path_len) + MAP_SHARE;
}
