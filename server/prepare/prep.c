#include "server/op/change.h"
#include "server/op/ops.h"
#include "server/prepare/prep_int.h"

enum {
    PATHS_BYTES_MAX = 1 << 30, /* Paths of a recursive delete; maxRecursive is the real bound. */
    CODED_BYTES_MAX = 1 << 30  /* An encoded request or answer; front ends allow far less. */
};

struct prep *prep_new(const struct prep_limits *limits)
{
    struct prep *prep = mem_zalloc(1, sizeof(*prep));

    prep->limits = *limits;
    overlay_init(&prep->overlay);
    /* The buffer holds more than any legal path, so that path_check sees and refuses a path that is
     * too long. */
    buf_init(&prep->path, (size_t)2 * STATE_PATH_MAX);
    buf_init(&prep->paths, PATHS_BYTES_MAX);
    buf_init(&prep->acl, ACL_BYTES_MAX);
    buf_init(&prep->scope, TXN_SCOPE_MAX);
    buf_init(&prep->bytes, CODED_BYTES_MAX);
    buf_init(&prep->actor, TXN_ACTOR_MAX);
    return prep;
}

void prep_free(struct prep *prep)
{
    if (prep == NULL) {
        return;
    }
    overlay_release(&prep->overlay);
    mem_free(prep->growth.ring);
    buf_release(&prep->path);
    buf_release(&prep->paths);
    buf_release(&prep->acl);
    buf_release(&prep->scope);
    buf_release(&prep->bytes);
    buf_release(&prep->actor);
    mem_free(prep);
}

void prep_clear(struct prep *prep)
{
    overlay_clear(&prep->overlay);
    prep->growth.first = 0;
    prep->growth.count = 0;
    prep->growth.in_flight = 0;
}

void prep_applied(struct prep *prep, zxid_t zxid)
{
    overlay_applied(&prep->overlay, zxid);
    prep_growth_applied(&prep->growth, zxid);
}

size_t prep_pending(const struct prep *prep)
{
    return overlay_count(&prep->overlay);
}

/* While the disks of a quorum are nearly full, refuses all requests except deletes, reaps, ends of
 * sessions, and changes of the members, by which a replica with room may take the place of one
 * without. OP_ATTACH has its own check (prep_session.c). */
static enum err check_space(const struct prep_step *step)
{
    enum op_id op = step->job->args->op;
    bool frees = op == OP_DELETE || op == OP_REAP || op == OP_CLOSE || op == OP_EXPIRE ||
                 op == OP_KILL || op_changes_members(op);

    if (step->job->low_since != 0 && !frees && op != OP_ATTACH) {
        return prep_refuse(
            step, ERR_DISK_FULL,
            "the disks of a majority of the replicas are nearly full: only deletes and closing "
            "sessions still work");
    }
    return ERR_OK;
}

static enum err (*const checks[OP_IDS])(const struct prep_step *, const struct op_args *) = {
    [OP_CREATE] = prep_create,
    [OP_SET] = prep_set,
    [OP_DELETE] = prep_delete,
    [OP_CHECK] = prep_check,
    [OP_REAP] = prep_reap,
    [OP_SETACL] = prep_set_acl,
    [OP_RAISE] = prep_raise,
    [OP_SESSION] = prep_open_session,
    [OP_OPEN] = prep_open_session,
    [OP_ATTACH] = prep_attach,
    [OP_CLOSE] = prep_close,
    [OP_EXPIRE] = prep_expire,
    [OP_KILL] = prep_kill,
    [OP_LEVEL] = prep_change,
    [OP_MEMBER_ADD] = prep_change,
    [OP_MEMBER_SET] = prep_change,
    [OP_MEMBER_REMOVE] = prep_change,
    [OP_MEMBERS_CHANGE] = prep_change,
};

static enum err prep_one(const struct prep_step *step, const struct op_args *args)
{
    if (args->data.len > step->prep->limits.data_bytes_max) {
        return prep_refuse(step, ERR_TOO_LARGE, "the data is larger than maxDataBytes");
    }
    if (args->data_null && args->data.len > 0) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS,
                           "null=true and data exclude each other: send one of the two");
    }
    ASSERT(args->op < OP_IDS);
    if (checks[args->op] == NULL) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS,
                           "this operation changes nothing, and the leader prepares only writes");
    }
    return checks[args->op](step, args);
}

/* Sets the outcome of a failed multi and of each element. The elements before the failed one have
 * ERR_OK, because they would have worked. */
static void fail_multi(const struct op_args *args, uint32_t failed, struct op_result *result)
{
    const struct op_result *cause = &result->results[failed];

    result->err = cause->err;
    result->detail = cause->detail;
    result->has_stat = cause->has_stat;
    result->stat = cause->stat;
    result->failed_index = failed;
    for (uint32_t i = 0; i < failed; i++) {
        op_result_release(&result->results[i]); /* Drops its answer: no element takes effect. */
    }
    for (uint32_t i = failed + 1; i < args->op_count; i++) {
        result->results[i].err = ERR_RUNTIME_INCONSISTENCY;
    }
}

static enum err prep_element(const struct prep_step *step, const struct op_args *args)
{
    if (!op_multi_may_hold(args->op) || ops_by_id(args->op)->kind != OP_KIND_WRITE) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS, "a multi may not contain this operation");
    }
    return prep_one(step, args);
}

static enum err prep_multi(const struct prep_step *step, const struct op_args *args)
{
    struct op_result *result = step->result;

    ASSERT(result->results == NULL);
    if (args->op_count > step->prep->limits.multi_ops_max) {
        return prep_refuse(step, ERR_TOO_LARGE, "the multi has more operations than maxMultiOps");
    }
    result->results = mem_zalloc(args->op_count, sizeof(*result->results));
    result->result_count = args->op_count;
    for (uint32_t i = 0; i < args->op_count; i++) {
        op_result_init(&result->results[i]);
    }
    for (uint32_t i = 0; i < args->op_count; i++) {
        struct prep_step element = *step;

        element.result = &result->results[i];
        if (prep_element(&element, &args->ops[i]) != ERR_OK) {
            fail_multi(args, i, result);
            return result->err;
        }
    }
    return ERR_OK;
}

/* Completes the transaction after all operations: remembers the answer, and checks size and memory.
 */
static enum err finish(struct prep_step *step)
{
    struct op_result *result = step->result;
    enum err err = prep_remember(step);

    if (err == ERR_OK &&
        (step->out->overflow || step->out->len > step->prep->limits.txn_bytes_max)) {
        err = prep_refuse(step, ERR_TOO_LARGE,
                          "the transaction would be larger than one record of the log may be: "
                          "split the request");
    }
    if (err == ERR_OK) {
        return prep_check_memory(
            step); /* When it refuses, prep_check_memory has set the result itself. */
    }
    const char *detail = result->detail;

    op_result_release(result);
    return prep_refuse(step, err, detail);
}

static void begin(const struct prep_step *step)
{
    struct txn_header header = *step->header;

    header.actor = prep_actor(step);
    txn_begin(step->out, &header);
}

enum err prep_request(struct prep *prep, const struct state *state, const struct prep_job *job,
                      zxid_t zxid, struct buf *out, struct op_result *result)
{
    ASSERT(zxid > state_applied(state));
    const struct op_args *args = job->args;
    struct prep_step step = {.prep = prep,
                             .state = state,
                             .job = job,
                             .header = job->header,
                             .zxid = zxid,
                             .out = out,
                             .result = result};

    buf_clear(out);
    prep->growth.request = 0;
    prep->growth.answer = 0;
    enum err err = prep_in_session(&step);

    if (err == ERR_OK) {
        err = prep_look_key(&step);
    }
    if (err == ERR_OK && result->replayed) {
        buf_clear(out);
        return ERR_OK;
    }
    if (err == ERR_OK) {
        err = check_space(&step);
    }
    if (err == ERR_OK) {
        begin(&step);
        err = args->op == OP_MULTI ? prep_multi(&step, args) : prep_one(&step, args);
    }
    if (err == ERR_OK && result->has_change && args->dry_run) {
        overlay_rollback(&prep->overlay);
        buf_clear(out);
        return ERR_OK;
    }
    if (err == ERR_OK) {
        err = finish(&step);
    }
    if (err != ERR_OK) {
        overlay_rollback(&prep->overlay);
        buf_clear(out);
        return err;
    }
    prep_confirm(&step);
    overlay_commit(&prep->overlay);
    prep_growth_commit(&prep->growth, zxid);
    /* Of the result only `created` is kept: the client's replica makes the rest of the answer when
     * it applies the transaction. */
    bool created = result->created;

    op_result_release(result);
    result->created = created;
    return ERR_OK;
}
