/* Who may do what, and lists that clients set. */
#include "base/check.h"
#include "server/op/acl.h"
#include "server/prepare/prep_int.h"
#include "server/state/path.h"

enum err prep_may(const struct prep_step *step, const struct overlay_node *node, uint32_t perms,
                  const char *detail)
{
    const struct op_principal *who = step->job->who;

    ASSERT(node->exists);
    if (who == NULL || node->acl == NULL || acl_allows(blob_slice(node->acl), who, perms)) {
        return ERR_OK;
    }
    return prep_refuse(step, ERR_NO_AUTH, detail);
}

static enum err fix(const struct prep_step *step, struct slice acl)
{
    static const struct op_principal nobody = {.auth = NULL};
    const struct op_principal *who = step->job->who != NULL ? step->job->who : &nobody;
    const char *why = NULL;
    enum err err = acl_fix(acl, who, &step->prep->acl, &why);

    return err == ERR_OK ? ERR_OK : prep_refuse(step, err, why);
}

enum err prep_fix_acl(const struct prep_step *step, const struct op_args *args)
{
    buf_clear(&step->prep->acl);
    return args->has_acl ? fix(step, args->acl) : ERR_OK;
}

/* The lists of the overlay are shared, as those of the tree. */
struct blob *prep_acl_blob(struct slice acl)
{
    return acl.len > 0 ? blob_new(acl) : NULL;
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

static enum err check_existing(const struct prep_step *step, const struct op_args *args,
                               const struct overlay_node *node)
{
    enum err err = prep_may(step, node, ACL_ADMIN, NULL);

    if (err != ERR_OK) {
        return err;
    }
    if (slice_eq(args->path, slice_str(STATE_CONFIG_PATH))) {
        return prep_refuse(step, ERR_NO_AUTH, "only a reconfiguration changes this znode");
    }
    if (args->has_aversion && args->aversion != -1 && args->aversion != node->stat.aversion) {
        return prep_refuse_version(step, node, "the ACL has another aversion");
    }
    if (args->has_etag &&
        (args->etag_czxid != node->stat.czxid || args->etag_version != node->stat.aversion)) {
        return prep_refuse_version(step, node, "the ACL has changed since that ETag");
    }
    return ERR_OK;
}

enum err prep_set_acl(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_node node;
    enum err err = prep_check_path(step, args->path);

    if (err == ERR_OK) {
        err = fix(step, args->acl);
    }
    if (err != ERR_OK) {
        return err;
    }
    prep_look(step, args->path, &node);
    if (!node.exists) {
        return prep_refuse_missing(step, args);
    }
    err = check_existing(step, args, &node);
    if (err == ERR_OK) {
        put_acl(step, args->path, &node);
    }
    return err;
}
