#include "base/check.h"
#include "base/mem.h"
#include "server/state/share_int.h"
#include "server/state/state_int.h"

struct share {
    uint64_t count;
    uint32_t name_len;
    uint8_t name[];
};

/* Marks the share of a network, to tell it from that of a client without identity. No address
 * begins so. */
static const uint8_t network_mark = '*';

void shares_init(struct shares *shares)
{
    map_init(&shares->by_name);
}

void shares_release(struct shares *shares)
{
    size_t cursor = 0;

    for (void *share = map_each(&shares->by_name, &cursor); share != NULL;
         share = map_each(&shares->by_name, &cursor)) {
        mem_free(share);
    }
    map_release(&shares->by_name);
}

/* The text of an opener is an address and, after a blank, an identity. */
static size_t address_len(struct slice from)
{
    const uint8_t *blank = from.len > 0 ? memchr(from.data, ' ', from.len) : NULL;

    return blank != NULL ? (size_t)(blank - from.data) : from.len;
}

struct slice state_share_name(struct slice from, enum state_share kind,
                              struct state_share_name *name)
{
    size_t address = address_len(from);
    char text[NETWORK_TEXT_MAX];
    struct slice part = network_of(slice_make(from.data, address), text);
    size_t len = 0;

    ASSERT(from.len <= TXN_FROM_MAX && kind < STATE_SHARES);
    if (kind == STATE_SHARE_CLIENT && address < from.len) {
        part = slice_make(from.data + address, from.len - address);
    }
    if (kind == STATE_SHARE_NETWORK) {
        name->bytes[len++] = network_mark;
    }
    ASSERT(len + part.len <= sizeof(name->bytes));
    if (part.len > 0) {
        memcpy(name->bytes + len, part.data, part.len);
    }
    return slice_make(name->bytes, len + part.len);
}

static void add_one(struct shares *shares, struct slice name)
{
    struct share *share = map_get(&shares->by_name, name);

    if (share == NULL) {
        share = mem_alloc(sizeof(*share) + name.len);
        *share = (struct share){.name_len = (uint32_t)name.len};
        memcpy(share->name, name.data, name.len);
        map_put(&shares->by_name, slice_make(share->name, share->name_len), share);
    }
    share->count++;
}

static void drop_one(struct shares *shares, struct slice name)
{
    struct share *share = map_get(&shares->by_name, name);

    ASSERT(share != NULL && share->count > 0);
    share->count--;
    if (share->count == 0) {
        (void)map_remove(&shares->by_name, name);
        mem_free(share);
    }
}

void shares_add(struct shares *shares, struct slice from)
{
    struct state_share_name name;

    for (int kind = 0; kind < STATE_SHARES; kind++) {
        add_one(shares, state_share_name(from, (enum state_share)kind, &name));
    }
}

void shares_drop(struct shares *shares, struct slice from)
{
    struct state_share_name name;

    for (int kind = 0; kind < STATE_SHARES; kind++) {
        drop_one(shares, state_share_name(from, (enum state_share)kind, &name));
    }
}

uint64_t state_share_count(const struct state *state, struct slice name)
{
    const struct share *share = map_get(&state->sessions.shares.by_name, name);

    return share != NULL ? share->count : 0;
}
