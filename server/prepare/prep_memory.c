/* Checks two limits: the memory that a request adds on every replica, against maxTreeBytes; and
 * hard quotas on znodes and bytes at and below a path. Both checks count requests in flight. */
#include "base/probe.h"
#include "server/prepare/prep_int.h"

#include <inttypes.h>

enum {
    RING_MIN = 64
};

/* ---- Growth: requests in flight. ---- */

/* Returns the bytes that the current request adds; 0 when it frees at least as much as it takes. */
static uint64_t of_request(const struct growth *growth)
{
    int64_t bytes = growth->request + (int64_t)growth->answer;

    return bytes > 0 ? (uint64_t)bytes : 0;
}

static struct growth_entry *entry_at(struct growth *growth, size_t i)
{
    return &growth->ring[(growth->first + i) & (growth->cap - 1)];
}

/* Doubles the ring. The ring is bounded, because proposals in flight are bounded. */
static void grow(struct growth *growth)
{
    struct growth wider = *growth;

    wider.cap = growth->cap > 0 ? growth->cap * 2 : RING_MIN;
    wider.first = 0;
    wider.ring = mem_alloc(wider.cap * sizeof(*wider.ring));
    for (size_t i = 0; i < growth->count; i++) {
        wider.ring[i] = *entry_at(growth, i);
    }
    mem_free(growth->ring);
    *growth = wider;
}

void prep_growth_commit(struct growth *growth, zxid_t zxid)
{
    uint64_t bytes = of_request(growth);

    if (bytes == 0) {
        return;
    }
    if (growth->count == growth->cap) {
        grow(growth);
    }
    ASSERT(growth->count == 0 || entry_at(growth, growth->count - 1)->zxid < zxid);
    *entry_at(growth, growth->count++) = (struct growth_entry){.zxid = zxid, .bytes = bytes};
    growth->in_flight += bytes;
}

void prep_growth_applied(struct growth *growth, zxid_t zxid)
{
    while (growth->count > 0 && entry_at(growth, 0)->zxid <= zxid) {
        ASSERT(growth->in_flight >= entry_at(growth, 0)->bytes);
        growth->in_flight -= entry_at(growth, 0)->bytes;
        growth->first = (growth->first + 1) & (growth->cap - 1);
        growth->count--;
    }
    ASSERT(growth->count > 0 || growth->in_flight == 0);
}

/* ---- The current request. ---- */

void prep_count(const struct prep_step *step, uint64_t bytes, bool comes)
{
    step->prep->growth.request += comes ? (int64_t)bytes : -(int64_t)bytes;
}

void prep_count_node(const struct prep_step *step, struct slice path,
                     const struct overlay_node *node, bool comes)
{
    prep_count(step,
               cost_node(path_name(path).len, node->owner) + cost_data(node->stat.data_length),
               comes);
}

/* Counts the memory of an ACL, unless a znode of the state has this ACL already. If several
 * requests in flight set the same new ACL, each request counts it. An ACL that loses its last znode
 * is not counted as freed, because another request in flight may use it. */
void prep_count_acl(const struct prep_step *step, struct slice acl)
{
    if (!state_has_acl(step->state, acl)) {
        prep_count(step, cost_acl(acl.len), true);
    }
}

uint64_t prep_memory_bytes(const struct prep *prep, const struct state *state)
{
    return state_memory_bytes(state) + prep->growth.in_flight;
}

static enum err refuse(const struct prep_step *step, uint64_t needed)
{
    const struct prep_room *room = &step->job->room;
    struct op_result *result = step->result;

    /* The whole request is refused, so the results of a multi's elements are dropped. */
    op_result_release(result);
    buf_printf(&result->arena,
               "the tree would take %" PRIu64 " bytes of memory, and maxTreeBytes of replica "
               "%" PRIu32 " is %" PRIu64 ": delete znodes or close sessions, which still works, or "
               "raise maxTreeBytes of that replica if its machine has the memory",
               needed, room->member, room->bytes_max);
    buf_append_byte(&result->arena, 0);
    ASSERT(!result->arena.overflow);
    return prep_refuse(step, ERR_TREE_FULL, (const char *)result->arena.data);
}

static bool deletes(const struct op_args *args)
{
    bool found = args->op == OP_DELETE || args->op == OP_CLOSE || args->op == OP_KILL;

    for (uint32_t i = 0; i < args->op_count && !found; i++) {
        found = args->ops[i].op == OP_DELETE;
    }
    return found;
}

/* Whether the request frees memory by deleting znodes or ending a session. Such a request passes
 * even when its remembered answer takes more than the request frees. A request that only makes
 * values shorter gets no such exception: a client could shorten a value byte by byte, and each such
 * request would add a remembered answer. */
static bool frees(const struct prep_step *step)
{
    return step->prep->growth.request < 0 && deletes(step->job->args);
}

enum err prep_check_memory(const struct prep_step *step)
{
    const struct growth *growth = &step->prep->growth;
    uint64_t more = of_request(growth);
    uint64_t used = prep_memory_bytes(step->prep, step->state);
    uint64_t bytes_max = step->job->room.bytes_max;

    if (bytes_max == 0 || more == 0 || frees(step)) {
        return ERR_OK;
    }
    if (more <= bytes_max && used <= bytes_max - more) {
        return ERR_OK;
    }
    PROBE("prep.tree_full");
    return refuse(step, used + more);
}

/* ---- Quotas. ---- */

/* Finds the next path from the root down to `path` that has a quota; `pos` starts at 0. Returns
 * false at the end. */
static bool next_quota(const struct prep_step *step, struct slice path, size_t *pos,
                       struct slice *ret_top, struct overlay_quota *ret_quota)
{
    while (path_component(path, pos).len > 0) {
        *ret_top = slice_make(path.data, *pos);
        overlay_quota(&step->prep->overlay, step->state, *ret_top, ret_quota);
        if (ret_quota->exists) {
            return true;
        }
    }
    return false;
}

static bool is_over(uint64_t used, int64_t more, int64_t limit)
{
    return limit >= 0 && more > 0 && used + (uint64_t)more > (uint64_t)limit;
}

/* Checks the hard quotas. A change that makes nothing larger always passes, also above the limit.
 */
enum err prep_check_quota(const struct prep_step *step, struct slice path, int64_t count,
                          int64_t bytes)
{
    struct overlay_quota quota;
    struct slice top;
    size_t pos = 0;

    if (!overlay_has_quotas(&step->prep->overlay, step->state)) {
        return ERR_OK;
    }
    while (next_quota(step, path, &pos, &top, &quota)) {
        if (is_over(quota.count, count, quota.count_hard)) {
            return prep_refuse(step, ERR_QUOTA_EXCEEDED,
                               "a quota above the znode (countHardLimit) allows no more znodes");
        }
        if (is_over(quota.bytes, bytes, quota.bytes_hard)) {
            return prep_refuse(
                step, ERR_QUOTA_EXCEEDED,
                "a quota above the znode (byteHardLimit) allows fewer bytes of data");
        }
    }
    return ERR_OK;
}

void prep_count_quota(const struct prep_step *step, struct slice path, int64_t count, int64_t bytes)
{
    struct overlay_quota quota;
    struct slice top;
    size_t pos = 0;

    if (!overlay_has_quotas(&step->prep->overlay, step->state)) {
        return;
    }
    while (next_quota(step, path, &pos, &top, &quota)) {
        quota.count += (uint64_t)count;
        quota.bytes += (uint64_t)bytes;
        overlay_put_quota(&step->prep->overlay, top, step->zxid, &quota);
    }
}

/* ---- Limits znodes. ---- */

enum err prep_may_limit(const struct prep_step *step, struct slice path)
{
    struct overlay_node node;
    struct slice top;

    if (!state_quota_of(path, &top)) {
        return ERR_OK;
    }
    prep_look(step, top, &node);
    while (!node.exists) {
        ASSERT(top.len > 1); /* The root always exists. */
        top = path_parent(top);
        prep_look(step, top, &node);
    }
    return prep_may(step, &node, ACL_ADMIN,
                    "a quota needs the permission admin for the top of its subtree or, if that "
                    "does not exist, for its closest ancestor");
}

void prep_limits_set(const struct prep_step *step, struct slice path, struct slice data)
{
    struct overlay *overlay = &step->prep->overlay;
    struct overlay_quota quota;
    struct state_quota limits;
    struct slice top;

    if (!state_quota_of(path, &top)) {
        return;
    }
    overlay_quota(overlay, step->state, top, &quota);
    if (!quota.exists) {
        /* The state will count the usage in the same way when it applies the effect. */
        overlay_usage(overlay, step->state, top, &quota.count, &quota.bytes);
        prep_count(step, cost_quota(top.len), true);
    }
    (void)state_quota_parse(data, &limits); /* Malformed text sets no limits. */
    quota.exists = true;
    quota.count_hard = limits.count_hard;
    quota.bytes_hard = limits.bytes_hard;
    overlay_put_quota(overlay, top, step->zxid, &quota);
}

void prep_limits_gone(const struct prep_step *step, struct slice path)
{
    struct slice top;

    if (state_quota_of(path, &top)) {
        overlay_put_quota(&step->prep->overlay, top, step->zxid,
                          &(struct overlay_quota){.exists = false});
        prep_count(step, cost_quota(top.len), false);
    }
}
