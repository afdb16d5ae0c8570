#include "tests/fuzz/state_check.h"

#include "base/check.h"
#include "base/wire.h"
#include "tests/lib/state_kit.h"

enum {
    DUMP_MAX = 64 << 20,
    BLOCK_BYTES = 1000, /* Several blocks for a few znodes. */
    PATHS_MAX = 1000
};

void state_check_same(const struct state *a, const struct state *b)
{
    struct buf first;
    struct buf second;

    buf_init(&first, DUMP_MAX);
    buf_init(&second, DUMP_MAX);
    kit_dump(a, &first);
    kit_dump(b, &second);
    ASSERT(slice_eq(buf_slice(&first), buf_slice(&second)));
    buf_release(&first);
    buf_release(&second);
}

/* Each candidate is a childless TTL or container znode. */
static void check_candidates(const struct state *state)
{
    struct wire_reader reader;
    struct buf paths;

    buf_init(&paths, (size_t)PATHS_MAX * (STATE_PATH_MAX + 2));

    size_t count = state_reap_candidates(state, INT64_MAX - 1, PATHS_MAX, &paths);

    ASSERT(!paths.overflow);
    wire_reader_init(&reader, buf_slice(&paths));
    for (size_t i = 0; i < count; i++) {
        struct slice path = wire_get_raw(&reader, wire_get_u16(&reader));
        const struct znode *node = state_find(state, path);

        ASSERT(node && !znode_first_child(node, slice_make(NULL, 0)));
        ASSERT(owner_is_ttl(znode_owner(node)) || owner_is_container(znode_owner(node)));
    }
    ASSERT(wire_reader_done(&reader));
    buf_release(&paths);
}

void state_check(const struct state *state)
{
    struct state *copy = kit_copy(state, BLOCK_BYTES);

    kit_verify(state);
    state_check_same(state, copy);
    check_candidates(state);
    state_free(copy);
}
