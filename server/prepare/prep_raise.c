/* Raises the count of children that a znode has ever had, from which sequential names get their
 * number, for znodes that come from another ensemble. */
#include "server/prepare/prep_int.h"

enum {
    NAMES_TRIED = 1000 /* Children that may already have the names tried here. */
};

/* Writes the path of a child that does not exist to prep->path. Returns false when there is none
 * within the bounds of a path. */
static bool find_free(const struct prep_step *step, struct slice parent)
{
    struct buf *path = &step->prep->path;
    struct overlay_node node = {.exists = true};
    const char *why = NULL;

    for (unsigned i = 0; i < NAMES_TRIED && node.exists; i++) {
        buf_clear(path);
        buf_append_slice(path, parent);
        buf_printf(path, "%szabra-raise-%u", parent.len > 1 ? "/" : "", i);
        if (path_check(buf_slice(path), &why) != ERR_OK) {
            return false;
        }
        prep_look(step, buf_slice(path), &node);
    }
    return !node.exists;
}

/* Writes the effects: a child is created, as the child number `creates`, and deleted again in the
 * same transaction. So no new form of effect is needed, and replicas of earlier releases apply the
 * transaction, too. Clients see it like any create and delete below the znode. */
static void put_raise(const struct prep_step *step, const struct op_args *args,
                      struct overlay_node *node)
{
    struct slice child = buf_slice(&step->prep->path);

    node->creates = args->creates;
    node->stat.pzxid = step->zxid;
    overlay_put(&step->prep->overlay, args->path, step->zxid, node);
    txn_put(step->out, &(struct txn_effect){.type = TXN_CREATE,
                                            .flags = TXN_NULL_DATA,
                                            .path = child,
                                            .creates = args->creates});
    txn_put(step->out,
            &(struct txn_effect){.type = TXN_DELETE, .flags = TXN_VERSION_BEFORE, .path = child});
}

static enum err may_raise(const struct prep_step *step, const struct op_args *args,
                          const struct overlay_node *node)
{
    if (!prep_is_super(step->job->who)) {
        return prep_refuse(step, ERR_NO_AUTH, "only the super user may raise the count of creates");
    }
    if (!node->exists) {
        return prep_refuse(step, ERR_NO_NODE, NULL);
    }
    if (slice_eq(args->path, slice_str(STATE_CONFIG_PATH)) || owner_is_session(node->owner)) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS, "this znode cannot have children");
    }
    return ERR_OK;
}

enum err prep_raise(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_node node;
    enum err err = prep_check_path(step, args->path);

    if (err != ERR_OK) {
        return err;
    }
    prep_look(step, args->path, &node);
    err = may_raise(step, args, &node);
    if (err != ERR_OK) {
        return err;
    }
    if (args->creates > node.creates) {
        if (!find_free(step, args->path)) {
            return prep_refuse(step, ERR_BAD_ARGUMENTS,
                               "the path is too long for a child, which raising the count needs");
        }
        put_raise(step, args, &node);
    }
    txn_put(step->out,
            &(struct txn_effect){.type = TXN_CHECK, .flags = TXN_REPLY, .path = args->path});
    prep_answer(step, args->path, false);
    return ERR_OK;
}
