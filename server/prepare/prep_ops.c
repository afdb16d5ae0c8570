/* Operations on a znode that exists: set, check, delete, setacl, and the leader's reap. */
#include "server/prepare/prep_int.h"

#include <inttypes.h>

static const char config_refusal[] =
    "clients cannot change this znode: it belongs to the configuration of the ensemble";

static bool is_config(struct slice path)
{
    return slice_eq(path, slice_str(STATE_CONFIG_PATH));
}

static void put_data(const struct prep_step *step, const struct op_args *args,
                     struct overlay_node *node)
{
    int64_t grown = (int64_t)args->data.len - node->stat.data_length;

    prep_count(step, cost_data(args->data.len), true);
    prep_count(step, cost_data(node->stat.data_length), false);
    node->stat.version = stat_version_next(node->stat.version);
    node->stat.mzxid = step->zxid;
    node->stat.mtime = step->header->stamp_ms;
    if (owner_is_ttl(node->owner)) {
        node->age_ms = step->header->age_ms;
    }
    node->stat.data_length = (uint32_t)args->data.len;
    overlay_put(&step->prep->overlay, args->path, step->zxid, node);
    prep_count_quota(step, args->path, 0, grown);
    prep_limits_set(step, args->path, args->data);
    txn_put(step->out,
            &(struct txn_effect){.type = TXN_SET,
                                 .flags = TXN_REPLY | (args->data_null ? TXN_NULL_DATA : 0U),
                                 .path = args->path,
                                 .data = args->data,
                                 .version = node->stat.version});
    prep_answer(step, args->path, true);
}

static enum err set_existing(const struct prep_step *step, const struct op_args *args,
                             struct overlay_node *node)
{
    if (is_config(args->path)) {
        return prep_refuse(step, ERR_NO_AUTH, config_refusal);
    }
    enum err err = prep_may(step, node, ACL_WRITE, NULL);

    if (err == ERR_OK) {
        err = prep_may_limit(step, args->path);
    }
    if (err == ERR_OK) {
        err =
            prep_check_quota(step, args->path, 0, (int64_t)args->data.len - node->stat.data_length);
    }
    if (err == ERR_OK && args->must_be_new) {
        err = prep_refuse_version(step, node, "If-None-Match: the znode exists");
    }
    if (err == ERR_OK) {
        err = prep_check_version(step, args, node);
    }
    if (err == ERR_OK) {
        put_data(step, args, node);
    }
    return err;
}

enum err prep_set(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_node node;
    enum err err = prep_check_path(step, args->path);

    if (err != ERR_OK) {
        return err;
    }
    prep_look(step, args->path, &node);
    if (node.exists) {
        return set_existing(step, args, &node);
    }
    if (args->has_etag || args->must_exist || (!args->upsert && !args->must_be_new)) {
        return prep_refuse_missing(step, args);
    }
    if (args->has_version && args->version != -1) {
        return prep_refuse(step, ERR_BAD_VERSION, "the znode does not exist, so it has no version");
    }
    err = prep_create(step, args);
    step->result->created = err == ERR_OK;
    return err;
}

/* Gets the znode that the operation is about, which must exist. */
static enum err need_node(const struct prep_step *step, const struct op_args *args,
                          struct overlay_node *ret_node)
{
    enum err err = prep_check_path(step, args->path);

    if (err != ERR_OK) {
        return err;
    }
    prep_look(step, args->path, ret_node);
    return ret_node->exists ? ERR_OK : prep_refuse_missing(step, args);
}

enum err prep_check(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_node node;
    enum err err = need_node(step, args, &node);

    if (err == ERR_OK) {
        err = prep_may(step, &node, ACL_READ, NULL);
    }
    if (err == ERR_OK) {
        err = prep_check_version(step, args, &node);
    }
    if (err == ERR_OK) {
        txn_put(step->out,
                &(struct txn_effect){.type = TXN_CHECK, .flags = TXN_REPLY, .path = args->path});
        prep_answer(step, args->path, false);
    }
    return err;
}

/* Checks that the caller may delete the subtree: each znode of it that has children must give the
 * caller the right DELETE, and no znode may hold limits that the caller may not change. */
static enum err may_delete_below(const struct prep_step *step, size_t count)
{
    struct wire_reader reader;
    enum err err = ERR_OK;

    wire_reader_init(&reader, buf_slice(&step->prep->paths));
    for (size_t i = 0; i < count && err == ERR_OK; i++) {
        struct slice path = wire_get_raw(&reader, wire_get_u16(&reader));
        struct overlay_node node;

        prep_look(step, path, &node);
        err = prep_may_limit(step, path);
        if (err == ERR_OK && node.stat.num_children > 0) {
            err = prep_may(step, &node, ACL_DELETE,
                           "a znode in the subtree does not let the caller delete its children");
        }
    }
    return err;
}

/* Refuses a delete that is too large, and names the limit that applies: the limit of the request or
 * of the configuration. */
static enum err refuse_large(const struct prep_step *step, uint32_t max, uint32_t bound)
{
    struct op_result *result = step->result;

    buf_clear(&result->arena);
    if (max < bound) {
        buf_printf(&result->arena,
                   "the subtree has more than %" PRIu32 " znodes (max); max may be at most "
                   "%" PRIu32 " (maxRecursive)",
                   max, bound);
    } else {
        buf_printf(&result->arena,
                   "the subtree has more than %" PRIu32
                   " znodes (maxRecursive): delete it in parts",
                   bound);
    }
    buf_append_byte(&result->arena, 0);
    ASSERT(!result->arena.overflow);
    return prep_refuse(step, ERR_NOT_EMPTY, (const char *)result->arena.data);
}

static enum err delete_subtree(const struct prep_step *step, const struct op_args *args)
{
    struct prep *prep = step->prep;
    uint32_t bound = prep->limits.tree.recursive_max;
    uint32_t max = args->max > 0 ? min_u32(args->max, bound) : bound;

    buf_clear(&prep->paths);
    size_t count = overlay_subtree(&prep->overlay, step->state, args->path, max, &prep->paths);

    if (count > max) {
        return refuse_large(step, max, bound);
    }
    enum err err = may_delete_below(step, count);

    if (err == ERR_OK) {
        prep_delete_paths(step, count, TXN_REPLY);
    }
    return err;
}

/* Deletes a znode. The caller has the right DELETE on the parent of the znode. */
static enum err delete_child(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_node node;

    prep_look(step, args->path, &node);
    if (!node.exists) {
        return prep_refuse_missing(step, args);
    }
    enum err err = prep_may_limit(step, args->path);

    if (err == ERR_OK) {
        err = prep_check_version(step, args, &node);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (args->recursive) {
        return delete_subtree(step, args);
    }
    if (node.stat.num_children > 0) {
        return prep_refuse(step, ERR_NOT_EMPTY, NULL);
    }
    prep_delete_node(step, args->path, TXN_REPLY);
    return ERR_OK;
}

enum err prep_delete(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_node node;
    enum err err = prep_check_path(step, args->path);

    if (err != ERR_OK) {
        return err;
    }
    if (path_is_builtin(args->path)) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS, "this znode is built in and cannot be deleted");
    }
    prep_look(step, path_parent(args->path), &node);
    if (!node.exists) {
        return prep_refuse_missing(step, args);
    }
    err = prep_may(step, &node, ACL_DELETE, NULL);
    return err == ERR_OK ? delete_child(step, args) : err;
}

/* Removes a TTL or container znode. The leader found it due some time ago, so everything is checked
 * again. */
enum err prep_reap(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_node node;
    enum err err = need_node(step, args, &node);

    if (err != ERR_OK) {
        return err;
    }
    if (node.stat.num_children > 0) {
        return prep_refuse(step, ERR_NOT_EMPTY, NULL);
    }
    int64_t due_ms = state_reap_due_ms(node.owner, node.creates, node.age_ms);

    if (due_ms == INT64_MAX || due_ms > step->header->age_ms) {
        return prep_refuse_version(step, &node, "the znode is not due to be removed");
    }
    prep_delete_node(step, args->path, TXN_REPLY);
    return ERR_OK;
}

static void put_acl(const struct prep_step *step, struct slice path, struct overlay_node *node)
{
    struct slice acl = buf_slice(&step->prep->acl);
    struct blob *blob = prep_acl_blob(acl);

    node->acl = blob;
    node->stat.aversion = stat_version_next(node->stat.aversion);
    overlay_put(&step->prep->overlay, path, step->zxid, node);
    prep_count_acl(step, acl);
    blob_unref(blob);
    txn_put(step->out, &(struct txn_effect){.type = TXN_SET_ACL,
                                            .flags = TXN_REPLY,
                                            .path = path,
                                            .acl = acl,
                                            .version = node->stat.aversion});
    prep_answer(step, path, true);
}

static enum err check_acl(const struct prep_step *step, const struct op_args *args,
                          const struct overlay_node *node)
{
    enum err err = prep_may(step, node, ACL_ADMIN, NULL);

    if (err != ERR_OK) {
        return err;
    }
    if (is_config(args->path)) {
        return prep_refuse(step, ERR_NO_AUTH, config_refusal);
    }
    if (args->has_aversion && args->aversion != -1 && args->aversion != node->stat.aversion) {
        return prep_refuse_version(step, node, "the ACL has changed: its aversion differs");
    }
    if (args->has_etag &&
        (args->etag_czxid != node->stat.czxid || args->etag_version != node->stat.aversion)) {
        return prep_refuse_version(step, node, "the ACL has changed since the ETag in If-Match");
    }
    return ERR_OK;
}

enum err prep_set_acl(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_node node;
    enum err err = prep_check_path(step, args->path);

    if (err == ERR_OK) {
        err = prep_fix_acl(step, args->acl);
    }
    if (err != ERR_OK) {
        return err;
    }
    prep_look(step, args->path, &node);
    if (!node.exists) {
        return prep_refuse_missing(step, args);
    }
    err = check_acl(step, args, &node);
    if (err == ERR_OK) {
        put_acl(step, args->path, &node);
    }
    return err;
}

/* ---- Changes of the replicated configuration, which the leader has judged. ---- */

bool prep_is_super(const struct op_principal *who)
{
    return who != NULL && who->auth != NULL && who->auth->super;
}

static enum err refuse_change(const struct prep_step *step, const struct prep_verdict *verdict)
{
    struct op_result *result = step->result;

    op_result_release(result);
    if (verdict->answer.len > 0 && verdict->err == ERR_BAD_VERSION) {
        result->has_change = true;
        result->change = blob_new(buf_slice(&verdict->answer));
    }
    buf_append_str(&result->arena, verdict->why);
    buf_append_byte(&result->arena, 0);
    ASSERT(!result->arena.overflow);
    result->reason = verdict->reason;
    return prep_refuse(step, verdict->err, (const char *)result->arena.data);
}

/* The transaction has no effect but the answers, which the client gets at once and which a key
 * remembers: the leader puts it into the record of the configuration. */
enum err prep_change(const struct prep_step *step, const struct op_args *args)
{
    const struct prep_verdict *verdict = step->job->verdict;

    if (!prep_is_super(step->job->who)) {
        return prep_refuse(step, ERR_NO_AUTH,
                           args->op == OP_LEVEL
                               ? "only the super user may change the feature level or its hold"
                               : "only the super user may change the members of the ensemble");
    }
    if (verdict->err != ERR_OK) {
        return refuse_change(step, verdict);
    }
    if (verdict->answer.len > 0) {
        struct slice answer = buf_slice(&verdict->answer);

        step->result->has_change = true;
        step->result->change = blob_new(answer);
        txn_put(step->out, &(struct txn_effect){
                               .type = TXN_ANSWER, .flags = TXN_REPLY, .answer.bytes = answer});
    }
    return ERR_OK;
}
