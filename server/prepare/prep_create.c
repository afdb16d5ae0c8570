#include "base/check.h"
#include "server/op/acl.h"
#include "server/prepare/prep_int.h"
#include "server/state/path.h"

#define TTL_MS_MAX ((int64_t)OWNER_TTL_MASK)

/* Whether there is such a kind of znode (ZooKeeper's create modes). */
static enum err check_kind(const struct prep_step *step, const struct op_args *args)
{
    bool ttl = args->ttl_ms != 0;

    if (args->container && (args->ephemeral || args->sequence)) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS,
                           "a container can be neither ephemeral nor sequential");
    }
    if (args->ttl_ms < 0 || args->ttl_ms > TTL_MS_MAX) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS, "ttl must be from 1 to 1099511627775 ms");
    }
    if (ttl && (args->ephemeral || args->container)) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS,
                           "an ephemeral znode or a container cannot have a ttl");
    }
    if (args->ephemeral && step->session == 0) {
        return prep_refuse(step, ERR_UNKNOWN_SESSION, "an ephemeral znode needs a session");
    }
    return ERR_OK;
}

static uint64_t owner_of(const struct prep_step *step, const struct op_args *args)
{
    if (args->ephemeral) {
        return step->session;
    }
    if (args->container) {
        return OWNER_CONTAINER;
    }
    return args->ttl_ms != 0 ? OWNER_TTL_MARK | (uint64_t)args->ttl_ms : 0;
}

/* ZooKeeper's coarse check: enough to find the parent; the name is not complete yet. */
static enum err check_coarse(const struct prep_step *step, struct slice path)
{
    if (path.len == 0 || path.data[0] != '/' || memchr(path.data, 0, path.len) != NULL ||
        path.len > STATE_PATH_MAX) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS,
                           "a path begins with a slash and has at most 16384 bytes");
    }
    return ERR_OK;
}

/* Writes the full path to prep->path, with the next sequence number of `parent`. */
static enum err make_path(const struct prep_step *step, const struct op_args *args,
                          const struct overlay_node *parent)
{
    struct buf *path = &step->prep->path;
    const char *why = NULL;

    buf_clear(path);
    buf_append_slice(path, args->path);
    if (args->sequence) {
        buf_printf(path, "%010u", parent->creates);
    }
    ASSERT(!path->overflow);
    if (path_check(buf_slice(path), &why) != ERR_OK) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS, why);
    }
    return ERR_OK;
}

/* Whether a child may be created below `path`, or below its deepest ancestor that exists. */
static enum err may_create(const struct prep_step *step, struct slice path)
{
    struct overlay_node node;

    prep_look(step, path, &node);
    while (!node.exists) {
        ASSERT(path.len > 1); /* The root always exists. */
        path = path_parent(path);
        prep_look(step, path, &node);
    }
    return prep_may(step, &node, ACL_CREATE, NULL);
}

/* Creates the missing znodes from the root to `parent`: persistent, with null data and the ACL of
 * the request, so that nothing is more open than the client wants. */
static enum err make_parents(const struct prep_step *step, struct slice parent)
{
    const struct txn_effect kind = {.flags = TXN_NULL_DATA, .acl = buf_slice(&step->prep->acl)};
    struct overlay_node node;
    size_t pos = 0;

    while (path_component(parent, &pos).len > 0) {
        struct slice path = slice_make(parent.data, pos);

        prep_look(step, path, &node);
        if (node.exists) {
            continue;
        }
        enum err err = prep_put_node(step, path, &kind);

        if (err != ERR_OK) {
            return err;
        }
        prep_look(step, path, &node);
        err = prep_may(step, &node, ACL_CREATE,
                       "the parents would get the same ACL, which does not let the caller create "
                       "below them");
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

static enum err check_absent(const struct prep_step *step, struct slice path)
{
    struct overlay_node node;

    prep_look(step, path, &node);
    if (node.exists) {
        return prep_refuse(step, ERR_NODE_EXISTS, NULL);
    }
    return ERR_OK;
}

/* The list of the new znode into prep->acl; empty: open. */
static enum err take_acl(const struct prep_step *step, const struct op_args *args)
{
    buf_clear(&step->prep->acl);
    return args->has_acl ? prep_fix_acl(step, args->acl) : ERR_OK;
}

enum err prep_create(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_node parent;
    enum err err = check_kind(step, args);

    if (err == ERR_OK) {
        err = check_coarse(step, args->path);
    }
    if (err == ERR_OK) {
        err = take_acl(step, args);
    }
    if (err != ERR_OK) {
        return err;
    }
    prep_look(step, path_parent(args->path), &parent);
    if (!parent.exists && !args->parents) {
        return prep_refuse(step, ERR_NO_NODE, "the parent does not exist");
    }
    err = may_create(step, path_parent(args->path));
    if (err == ERR_OK) {
        err = make_path(step, args, &parent);
    }
    struct slice path = buf_slice(&step->prep->path);

    if (err == ERR_OK) {
        err = check_absent(step, path);
    }
    if (err == ERR_OK && !parent.exists) {
        err = make_parents(step, path_parent(path));
    }
    if (err != ERR_OK) {
        return err;
    }
    return prep_put_node(
        step, path,
        &(struct txn_effect){.flags = TXN_REPLY | (args->data_null ? TXN_NULL_DATA : 0U),
                             .data = args->data,
                             .acl = buf_slice(&step->prep->acl),
                             .owner = owner_of(step, args)});
}
