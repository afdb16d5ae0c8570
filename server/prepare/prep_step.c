/* Helpers of all checks: the znode as it will be, refusals, conditions, rights, the answer. */
#include "server/prepare/prep_int.h"

void prep_look(const struct prep_step *step, struct slice path, struct overlay_node *ret_node)
{
    overlay_get(&step->prep->overlay, step->state, path, ret_node);
}

void prep_answer(const struct prep_step *step, struct slice path, bool has_stat)
{
    struct op_result *result = step->result;
    struct overlay_node node;

    if (step->job->key.len == 0) {
        return;
    }
    buf_clear(&result->arena);
    buf_append_slice(&result->arena, path);
    result->path = buf_slice(&result->arena);
    result->has_stat = has_stat;
    if (has_stat) {
        prep_look(step, path, &node);
        result->stat = node.stat;
    }
}

/* ---- Refusals and conditions. ---- */

enum err prep_refuse(const struct prep_step *step, enum err err, const char *detail)
{
    ASSERT(err != ERR_OK);

    step->result->err = err;
    step->result->detail = detail;
    return err;
}

enum err prep_refuse_version(const struct prep_step *step, const struct overlay_node *node,
                             const char *detail)
{
    const struct op_principal *who = step->job->who;

    /* A caller that deletes by the right of the parent may lack READ on the znode itself. */
    if (who == NULL || acl_allows(blob_slice(node->acl), who, ACL_READ)) {
        const struct stat_view *stat = &node->stat;
        /* This refusal fails the whole multi, so the changes of its earlier elements will never be
         * applied: a stat with such changes is not shown. */
        bool changed =
            stat->czxid == step->zxid || stat->mzxid == step->zxid || stat->pzxid == step->zxid;

        step->result->has_stat = node->exists && !changed;
        step->result->stat = node->stat;
    }
    return prep_refuse(step, ERR_BAD_VERSION, detail);
}

/* Refuses a request about a missing znode: with ERR_BAD_VERSION when it has an If-Match condition,
 * which a missing znode always fails; else as missing. */
enum err prep_refuse_missing(const struct prep_step *step, const struct op_args *args)
{
    if (args->has_etag || args->must_exist) {
        return prep_refuse(step, ERR_BAD_VERSION, "If-Match: the znode does not exist");
    }
    return prep_refuse(step, ERR_NO_NODE, NULL);
}

enum err prep_check_path(const struct prep_step *step, struct slice path)
{
    const char *why = NULL;

    if (path_check(path, &why) != ERR_OK) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS, why);
    }
    return ERR_OK;
}

enum err prep_check_version(const struct prep_step *step, const struct op_args *args,
                            const struct overlay_node *node)
{
    if (args->has_version && args->version != -1 && args->version != node->stat.version) {
        return prep_refuse_version(step, node, NULL);
    }
    if (args->has_czxid && args->czxid != node->stat.czxid) {
        return prep_refuse_version(step, node,
                                   "the znode was deleted and created again: its czxid differs");
    }
    if (args->has_aversion && args->aversion != -1 && args->aversion != node->stat.aversion) {
        return prep_refuse_version(step, node, "the ACL has changed: its aversion differs");
    }
    if (args->has_etag &&
        (args->etag_czxid != node->stat.czxid || args->etag_version != node->stat.version)) {
        return prep_refuse_version(step, node, "the data has changed since the ETag in If-Match");
    }
    return ERR_OK;
}

/* ---- Rights. ---- */

enum err prep_may(const struct prep_step *step, const struct overlay_node *node, uint32_t perms,
                  const char *detail)
{
    const struct op_principal *who = step->job->who;

    if (who == NULL || node->acl == NULL || acl_allows(blob_slice(node->acl), who, perms)) {
        return ERR_OK;
    }
    return prep_refuse(step, ERR_NO_AUTH, detail);
}

enum err prep_fix_acl(const struct prep_step *step, struct slice acl)
{
    static const struct op_principal anonymous = {.auth = NULL};
    const struct op_principal *who = step->job->who != NULL ? step->job->who : &anonymous;
    const char *why = NULL;
    enum err err = acl_fix(acl, who, &step->prep->acl, &why);

    return err == ERR_OK ? ERR_OK : prep_refuse(step, err, why);
}

struct blob *prep_acl_blob(struct slice acl)
{
    return acl.len > 0 ? blob_new(acl) : NULL;
}
