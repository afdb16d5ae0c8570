/*
 * Places for requests that read a long list in several turns and keep it meanwhile. There are few,
 * which bounds this memory. A place that is given back is passed on at once, so no list of a client
 * that has just had one comes before those that wait.
 */
#include "zk/zk_int.h"

enum {
    PLACES_MAX = 4,        /* At a time, */
    PLACES_ADDRESS_MAX = 2 /* and for the clients of one address. */
};

static bool is_free(const struct zk *zk, uint64_t address_key)
{
    uint32_t all = 0;
    uint32_t address = 0;

    list_for_each_entry (struct zk_call, call, place.node, &zk->places) {
        all++;
        address += call->address_key == address_key ? 1 : 0;
    }
    return all < PLACES_MAX && address < PLACES_ADDRESS_MAX;
}

static void enter(struct zk_call *call)
{
    list_remove(&call->place.node);
    list_push_back(&call->zk->places, &call->place.node);
    call->placed = true;
    call->place_since_us = call->zk->now_us;
}

bool zk_place_take(struct zk_call *call)
{
    struct zk *zk = call->zk;

    if (call->placed || !list_empty(&call->place.node)) {
        return call->placed;
    }
    if (is_free(zk, call->address_key)) {
        enter(call);
    } else {
        call->place_since_us = zk->now_us;
        zk_fair_push(&zk->placeless, &call->place, call->address_key, zk->place_rank + 1);
    }
    return call->placed;
}

/* One call can enter for each that leaves: until then all places were taken, or all of the address
 * of each call that waits. Calls whose address has all its places are passed over. */
static void pass_on(struct zk *zk)
{
    list_for_each_entry (struct zk_call, call, place.node, &zk->placeless) {
        if (is_free(zk, call->address_key)) {
            zk->place_rank = max_u64(call->place.rank, zk->place_rank);
            enter(call);
            zk_turn_soon(call->conn);
            return;
        }
    }
}

void zk_place_give(struct zk_call *call)
{
    bool placed = call->placed;

    list_remove(&call->place.node);
    call->placed = false;
    call->place_since_us = 0;
    if (placed) {
        pass_on(call->zk);
    }
}

static bool is_late(const struct zk_call *call, uint64_t now_us)
{
    uint64_t patience_us = (uint64_t)call->zk->limits->request_timeout_ms * 1000;

    return call->place_since_us != 0 && now_us >= call->place_since_us + patience_us;
}

bool zk_place_is_late(const struct zk_call *call)
{
    return is_late(call, call->zk->now_us);
}

void zk_place_tick(struct zk *zk)
{
    uint64_t now_us = os_now_us();

    list_for_each_entry (struct zk_call, call, place.node, &zk->placeless) {
        if (is_late(call, now_us)) {
            zk_turn_soon(call->conn);
        }
    }
}
