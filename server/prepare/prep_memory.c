/* maxTreeBytes: what a request adds to the memory of every replica, and whether there is room. */
#include "base/check.h"
#include "base/probe.h"
#include "server/prepare/prep_int.h"
#include "server/state/cost.h"
#include "server/state/path.h"

#include <inttypes.h>

static void add(const struct prep_step *step, uint64_t bytes, bool comes)
{
    step->prep->growth.request += comes ? (int64_t)bytes : -(int64_t)bytes;
}

void prep_count_node(const struct prep_step *step, struct slice path,
                     const struct overlay_node *node, bool comes)
{
    ASSERT(path.len > 1);

    add(step, cost_node(path_name(path).len, node->owner) + cost_data(node->stat.data_length),
        comes);
}

void prep_count_data(const struct prep_step *step, uint32_t old_len, size_t new_len)
{
    add(step, cost_data(new_len), true);
    add(step, cost_data(old_len), false);
}

/* A list that no applied znode has yet counts for each request in flight that sets it. A list that
 * loses its last znode is not counted as freed, because another request in flight may use it. */
void prep_count_acl(const struct prep_step *step, struct slice acl)
{
    if (!state_has_acl(step->state, acl)) {
        add(step, cost_acl(acl.len), true);
    }
}

void prep_count_session(const struct prep_step *step, bool comes)
{
    add(step, cost_session(), comes);
}

void prep_count_limits(const struct prep_step *step, struct slice path, bool comes)
{
    add(step, cost_quota(path.len), comes);
}

void prep_count_remembered(const struct prep_step *step, uint64_t len)
{
    step->prep->growth.answer = cost_remembered(len);
}

uint64_t prep_memory_bytes(const struct prep *prep, const struct state *state)
{
    return state_memory_bytes(state) + prep->growth.in_flight;
}

static enum err refuse(const struct prep_step *step, uint64_t needed)
{
    const struct prep_room *room = &step->job->room;
    struct op_result *result = step->result;

    op_result_release(result); /* Of a multi: no single element is the cause. */
    op_result_init(result);
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

/* The remembered answer of a request may take more than the request frees. Deletes pass all the
 * same; requests that only make values shorter do not, because they could be repeated without end.
 */
static bool frees(const struct prep_step *step)
{
    return step->prep->growth.request < 0 && deletes(step->job->args);
}

enum err prep_check_memory(const struct prep_step *step)
{
    const struct growth *growth = &step->prep->growth;
    uint64_t more = growth_of_request(growth);
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
